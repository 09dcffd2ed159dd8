//! Stopping: cancel, freeze, lift.
//!
//! What lives here: the decisions that stop a task or hold it. Invariants: a cancel fences the
//! owner and withdraws an open offer in one commit; a task whose outside effects are not settled
//! reconciles before it is CANCELED; a freeze moves nothing.

use super::axis::{Axes, Disposition, HandoffStatus, ReleasedBy, Runtime};
use super::claim::ended;
use super::digest::Digest;
use super::event::Event;
use super::handoff::EndReason;
use super::refusal::{Reason, Refusal};
use super::task::Task;
use super::{Context, Decision, Judged, owner};

/// Cancels a task.
#[derive(Clone, Debug)]
pub struct Cancel {
    /// Digest of what was said.
    pub note: Option<Digest>,
}

/// Judges a cancel: by originator, owner or operator, in any state that is not an end.
///
/// # Errors
/// The caller may not; the task has ended; a cancel is under way.
pub fn cancel(task: &Task, command: &Cancel, context: &Context<'_>) -> Judged {
    let caller = &context.caller.party.principal;
    let may = context.caller.operator
        || task.originator.principal == *caller
        || task.owner.principal == *caller;
    if !may {
        return Err(Refusal::new(
            Reason::NotOwner,
            format!("{caller} may not cancel task {}; originator, owner or operator may", task.id),
        )
        .with("taskId", &task.id)
        .into());
    }
    owner::open(task)?;
    if task.cancel_requested {
        return Err(owner::canceled(task).into());
    }
    let mut events = Vec::new();
    if let Some(open) = task.open_handoff() {
        events.push(ended(open, HandoffStatus::Withdrawn, Some(EndReason::TaskCanceled)));
    }
    let begun = task.axes.runtime != Runtime::Submitted;
    let uncertain = task.axes.effect_uncertain || (task.policy.side_effecting && begun);
    let settled = !uncertain;
    let axes = Axes {
        runtime: if settled { Runtime::Canceled } else { Runtime::Reconciling },
        disposition: if settled { Disposition::Closed } else { Disposition::Open },
        released_by: ReleasedBy::Nobody,
        effect_uncertain: !settled,
        acceptance: if settled { task.axes.acceptance } else { super::axis::Acceptance::Unset },
        ..task.axes
    };
    events.push(Event::TaskCanceled { axes, note: command.note });
    Ok(Decision { events, ..Decision::default() })
}

/// Freezes a task, or lifts a freeze.
#[derive(Clone, Debug)]
pub struct Freeze {
    /// Digest of the reason.
    pub note: Digest,
}

/// Judges a freeze.
///
/// # Errors
/// The caller is no operator; the task is closed or frozen.
pub fn freeze(task: &Task, command: &Freeze, context: &Context<'_>) -> Judged {
    operator(task, context)?;
    owner::open(task)?;
    super::claim::not_frozen(task)?;
    Ok(Decision::event(Event::TaskFrozen { note: command.note }))
}

/// Judges the lifting of a freeze.
///
/// # Errors
/// The caller is no operator; the task is not frozen.
pub fn lift(task: &Task, command: &Freeze, context: &Context<'_>) -> Judged {
    operator(task, context)?;
    if task.freeze.is_none() {
        return Err(Refusal::new(
            Reason::IllegalTransition,
            format!("task {} is not frozen", task.id),
        )
        .with("taskId", &task.id)
        .into());
    }
    Ok(Decision::event(Event::FreezeLifted { note: command.note }))
}

fn operator(task: &Task, context: &Context<'_>) -> Result<(), Refusal> {
    if context.caller.operator {
        return Ok(());
    }
    Err(Refusal::new(
        Reason::NotOperator,
        format!("{} is no operator; only one freezes or lifts", context.caller.party.principal),
    )
    .with("taskId", &task.id))
}
