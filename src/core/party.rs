//! Who may see how much of a task.
//!
//! What lives here: the one gate that every read and every write passes first. What does not: who
//! may write what (the nouns). Invariant: whoever is no party gets the same answer as for a task
//! that does not exist. Source: design section 7.

use super::Caller;
use super::axis::HandoffStatus;
use super::id::{HandoffId, TaskId};
use super::refusal::{Reason, Refusal};
use super::task::Task;

/// How much of a task a caller may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// All of it.
    Full,
    /// Up to the event that ended its ownership.
    PastOwner {
        /// That event.
        until_sequence: u64,
    },
    /// Only the offer: it may receive the task, or was asked to.
    Receiver,
    /// Nothing; the task does not exist for it.
    None,
}

/// How much of `task` the caller may see. The receiver of an open blind offer sees the offer and
/// nothing else, whatever else it is to the task, since anything more could show what is withheld.
#[must_use]
pub fn sight(task: &Task, caller: &Caller) -> Sight {
    let principal = &caller.party.principal;
    if caller.operator || task.owner.principal == *principal {
        return Sight::Full;
    }
    let receiver = task.open_handoff().is_some_and(|h| h.may_receive(caller));
    let blind = task.open_handoff().is_some_and(|h| h.blind);
    if receiver && blind {
        return Sight::Receiver;
    }
    if task.originator.principal == *principal
        || task.policy.verifiers.contains(principal)
        || task.policy.approvers.contains(principal)
    {
        return Sight::Full;
    }
    if let Some(past) = task.past_owner(principal) {
        return Sight::PastOwner { until_sequence: past.until_sequence };
    }
    // Who was asked learns how the offer ended, or it would take a stale packet for a wrong id.
    let asked = task
        .handoff
        .as_ref()
        .is_some_and(|h| h.status != HandoffStatus::Received && h.was_offered_to(caller));
    if asked { Sight::Receiver } else { Sight::None }
}

/// The answer to whoever may not see a task, and for a task that is not there: the same, byte for
/// byte.
#[must_use]
pub fn no_such_task(id: &TaskId) -> Refusal {
    Refusal::new(Reason::NotFound, format!("task {id} is not known to you; check the id"))
        .with("taskId", id)
}

/// The same for a handoff.
#[must_use]
pub fn no_such_handoff(id: &HandoffId) -> Refusal {
    Refusal::new(Reason::NotFound, format!("handoff {id} is not known to you; check the id"))
        .with("handoffId", id)
}
