//! Ownership: what every owner's write must show, and going on after a restart.
//!
//! What lives here: the guard, resuming under a new instance, the owner's lease. What does not:
//! moving control to another agent (`receipt.rs`). Invariant: a write with an old epoch writes
//! nothing, however late it comes.

use super::axis::Runtime;
use super::digest::{Epoch, Revision};
use super::event::Event;
use super::id::{InstanceId, PrincipalId};
use super::refusal::{Reason, Refusal};
use super::task::Task;
use super::time::Timestamp;
use super::{Context, Decision, Judged, Refused, claim};

/// What an owner's write was decided on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The epoch under which the caller holds the task.
    pub epoch: Epoch,
    /// The revision that it saw.
    pub revision: Revision,
    /// Its process.
    pub instance: InstanceId,
}

/// Checks epoch, owner, revision, freeze and open offer, in this order. Source: design section 7.
///
/// # Errors
/// The first check that fails; a conflict is recorded.
pub(super) fn check(
    task: &Task,
    guard: &Guard,
    rpc: &'static str,
    context: &Context<'_>,
) -> Result<(), Refused> {
    holds(task, guard, context)?;
    at_revision(task, guard.revision, rpc)?;
    open(task)?;
    claim::not_frozen(task)?;
    no_open_offer(task)?;
    Ok(())
}

/// Checks that the caller owns the task under this epoch and instance.
pub(super) fn holds(task: &Task, guard: &Guard, context: &Context<'_>) -> Result<(), Refusal> {
    let caller = &context.caller.party.principal;
    if task.owner.principal != *caller {
        return Err(not_owner(task, guard.epoch, context));
    }
    if task.cancel_requested && guard.epoch < task.epoch {
        return Err(canceled(task));
    }
    if task.epoch != guard.epoch {
        return Err(stale(task, guard.epoch));
    }
    if task.instance != guard.instance {
        return Err(Refusal::new(
            Reason::StaleEpoch,
            format!(
                "instance {} does not hold task {}; another process of {caller} does. Resume \
                 ownership \
                 to take it over",
                guard.instance, task.id
            ),
        )
        .with("taskId", &task.id)
        .with("epoch", task.epoch));
    }
    Ok(())
}

/// A former owner learns that it is fenced; another party, that it never owned.
fn not_owner(task: &Task, epoch: Epoch, context: &Context<'_>) -> Refusal {
    let caller = &context.caller.party.principal;
    if task.past_owner(caller).is_some() {
        return if epoch == task.epoch { replaced(task, caller) } else { stale(task, epoch) };
    }
    Refusal::new(
        Reason::NotOwner,
        format!("{caller} does not own task {}; only its owner may write", task.id),
    )
    .with("taskId", &task.id)
}

/// The same for a past owner that names the epoch of its successor.
fn replaced(task: &Task, caller: &PrincipalId) -> Refusal {
    Refusal::new(
        Reason::StaleEpoch,
        format!(
            "{caller} no longer holds task {}, which another owner holds under epoch {}; stop \
             writing",
            task.id, task.epoch
        ),
    )
    .with("taskId", &task.id)
    .with("epoch", task.epoch)
}

fn stale(task: &Task, epoch: Epoch) -> Refusal {
    Refusal::new(
        Reason::StaleEpoch,
        format!(
            "epoch {epoch} no longer holds task {}, which is at epoch {}; stop writing",
            task.id, task.epoch
        ),
    )
    .with("taskId", &task.id)
    .with("epoch", task.epoch)
}

/// The refusal that tells an owner of a canceled task to stop.
pub(super) fn canceled(task: &Task) -> Refusal {
    Refusal::new(Reason::TaskCanceled, format!("task {} was canceled; stop work", task.id))
        .with("taskId", &task.id)
        .with("epoch", task.epoch)
}

/// Checks the revision. A conflict writes nothing and is recorded.
pub(super) fn at_revision(task: &Task, seen: Revision, rpc: &'static str) -> Result<(), Refused> {
    if task.revision == seen {
        return Ok(());
    }
    let request = task.updated_request.as_ref().map(ToString::to_string).unwrap_or_default();
    let refusal = Refusal::new(
        Reason::StateConflict,
        format!(
            "task {} is at revision {}, not {seen}; read it again and decide again",
            task.id, task.revision
        ),
    )
    .with("taskId", &task.id)
    .with("revision", task.revision)
    .with("epoch", task.epoch)
    .with("updatedBy", &task.updated_by)
    .with("updatedRequestId", request);
    let events = vec![Event::WriteRefused { reason: Reason::StateConflict, rpc }];
    Err(Refused { refusal, events })
}

/// Checks that the task can still change.
pub(super) fn open(task: &Task) -> Result<(), Refusal> {
    if task.axes.runtime == Runtime::Canceled {
        return Err(canceled(task));
    }
    if task.axes.is_open() {
        return Ok(());
    }
    Err(Refusal::new(
        Reason::TaskClosed,
        format!(
            "task {} is closed as {}; open a new task with a reference",
            task.id,
            task.axes.runtime.name()
        ),
    )
    .with("taskId", &task.id))
}

fn no_open_offer(task: &Task) -> Result<(), Refusal> {
    let Some(offer) = task.open_handoff() else {
        return Ok(());
    };
    Err(Refusal::new(
        Reason::HandoffPending,
        format!("task {} is offered by handoff {}; withdraw it first", task.id, offer.id),
    )
    .with("taskId", &task.id)
    .with("handoffId", &offer.id))
}

/// Goes on under a new instance.
#[derive(Clone, Debug)]
pub struct ResumeOwnership {
    /// The epoch that the caller last held.
    pub epoch: Epoch,
    /// The new process.
    pub instance: InstanceId,
}

/// Judges a resume: the same principal, under its present epoch. It fences the old process. An open
/// offer stays as it is: the offer is the owner's, not the process's.
///
/// # Errors
/// The caller does not own the task under this epoch, or the task is closed.
pub fn resume(task: &Task, command: &ResumeOwnership, context: &Context<'_>) -> Judged {
    let caller = &context.caller.party.principal;
    if task.owner.principal != *caller {
        return Err(not_owner(task, command.epoch, context).into());
    }
    if task.epoch != command.epoch {
        return Err(stale(task, command.epoch).into());
    }
    open(task)?;
    Ok(Decision::event(Event::OwnershipResumed { instance: command.instance.clone() }))
}

/// Records that the owner's lease has run out, if it has. It moves nothing.
#[must_use]
pub fn sweep(task: &Task, started: Timestamp, now: Timestamp) -> Option<Event> {
    let until = lease_until(task, started)?;
    let due = task.axes.is_open() && task.freeze.is_none() && !task.owner_absent && until <= now;
    due.then_some(Event::OwnerAbsent)
}

/// When the owner's lease runs out. After a start of the broker it is good for one full interval,
/// since nobody could write meanwhile.
#[must_use]
pub fn lease_until(task: &Task, started: Timestamp) -> Option<Timestamp> {
    let (until, lease) = (task.owner_lease_until?, task.policy.owner_lease?);
    if task.updated_at < started {
        Some(until.max(started.saturating_add(lease)))
    } else {
        Some(until)
    }
}
