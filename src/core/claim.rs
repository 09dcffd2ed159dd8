//! The moves that a handoff can make short of the receipt: claim, renewal, rejection, withdrawal,
//! expiry.
//!
//! What lives here: their decisions and the checks that the receipt shares with them. What does
//! not: the record (`handoff.rs`) and the receipt (`receipt.rs`). Invariants: one claimant at a
//! time; a lease never outlives the deadline; a claim moves no control.

use std::collections::BTreeSet;

use super::axis::HandoffStatus;
use super::digest::Digest;
use super::event::Event;
use super::handoff::{Claim, EndReason, Handoff, Receiver};
use super::id::{HandoffId, InstanceId, PrincipalId};
use super::receipt::Element;
use super::refusal::{Reason, Refusal};
use super::task::Task;
use super::time::{Span, Timestamp};
use super::{Context, Decision};

/// Why control of a task cannot move by `handoff_id` now, or the open handoff of that id.
///
/// # Errors
/// The handoff has ended, or is not this task's latest.
pub(super) fn open<'t>(
    task: &'t Task,
    view: &super::View<'t>,
    id: &HandoffId,
) -> Result<&'t Handoff, Refusal> {
    match &task.handoff {
        Some(handoff) if handoff.id == *id && handoff.status == HandoffStatus::Pending => {
            Ok(handoff)
        }
        Some(handoff) if handoff.id == *id => Err(handoff.refusal_of_end()),
        _ => match view.ended {
            Some(handoff) if handoff.id == *id => Err(handoff.refusal_of_end()),
            _ => Err(Refusal::new(Reason::NotFound, format!("handoff {id} is not known"))
                .with("handoffId", id)),
        },
    }
}

/// Takes the lease of an offer.
#[derive(Clone, Debug)]
pub struct ClaimHandoff {
    /// The handoff.
    pub handoff: HandoffId,
    /// The caller's process.
    pub instance: InstanceId,
}

/// Judges a claim. A claim moves no control: it is only the right to present a receipt.
///
/// # Errors
/// The caller is not the receiver, another one holds the lease, the offer has ended or is frozen.
pub fn claim(
    view: &super::View<'_>,
    command: &ClaimHandoff,
    context: &Context<'_>,
) -> super::Judged {
    let task = view.task;
    let handoff = open(task, view, &command.handoff)?;
    receiver(handoff, context)?;
    not_frozen(task)?;
    not_expired(handoff, context.now)?;
    let live = handoff
        .lease_until(context.limits, context.started)
        .is_some_and(|until| context.now < until);
    let mut events = Vec::new();
    if let Some(held) = &handoff.claim {
        let own = held.claimant.principal == context.caller.party.principal;
        if live && !(own && held.instance == command.instance) {
            return Err(held_by_other(handoff, context).into());
        }
        if live {
            // The same process asks again: it keeps its lease, renewed.
            return Ok(renewed(handoff, context));
        }
        events.push(Event::ClaimLapsed {
            handoff: handoff.id.clone(),
            claimant: held.claimant.principal.clone(),
        });
    }
    if handoff.claims >= context.limits.claims_max {
        let refusal = Refusal::new(
            Reason::HandoffEnded,
            format!(
                "handoff {} was claimed {} times without a receipt",
                handoff.id, handoff.claims
            ),
        )
        .with("handoffId", &handoff.id)
        .with("status", HandoffStatus::Rejected.name());
        events.push(ended(handoff, HandoffStatus::Rejected, Some(EndReason::ClaimsExhausted)));
        return Err(super::Refused { refusal, events });
    }
    let lease_until = context.now.saturating_add(context.limits.lease).min(handoff.deadline);
    events.push(Event::HandoffClaimed {
        handoff: handoff.id.clone(),
        claim: Claim {
            claimant: context.caller.party.clone(),
            instance: command.instance.clone(),
            claimed_at: context.now,
            lease_until,
        },
    });
    Ok(Decision::about(&handoff.id, events).with_lease(lease_until))
}

/// Renews the lease of the caller's claim.
///
/// # Errors
/// There is no live claim of this caller and instance, or the offer has ended.
pub fn renew(
    view: &super::View<'_>,
    command: &ClaimHandoff,
    context: &Context<'_>,
) -> super::Judged {
    let handoff = open(view.task, view, &command.handoff)?;
    receiver(handoff, context)?;
    live_claim(handoff, &command.instance, context)?;
    Ok(renewed(handoff, context))
}

fn renewed(handoff: &Handoff, context: &Context<'_>) -> Decision {
    let until = context.now.saturating_add(context.limits.lease).min(handoff.deadline);
    Decision::about(&handoff.id, Vec::new()).with_lease(until)
}

/// Refuses an offer.
#[derive(Clone, Debug)]
pub struct RejectHandoff {
    /// The handoff.
    pub handoff: HandoffId,
    /// The packet that was refused, if the caller has seen it.
    pub packet: Option<Digest>,
    /// The element that is wrong.
    pub failing: Option<Element>,
    /// Digest of the reason.
    pub note: Digest,
    /// Everybody who may receive an offer to this capability, from the directory.
    pub eligible: BTreeSet<PrincipalId>,
}

/// Judges a refusal. Ownership stays; an offer to a capability goes back to the others.
///
/// # Errors
/// The caller is not the receiver, or the offer has ended.
pub fn reject(
    view: &super::View<'_>,
    command: &RejectHandoff,
    context: &Context<'_>,
) -> super::Judged {
    let handoff = open(view.task, view, &command.handoff)?;
    receiver(handoff, context)?;
    if let Some(packet) = &command.packet {
        same_packet(handoff, packet)?;
    }
    let caller = &context.caller.party.principal;
    let others_left = matches!(handoff.receiver, Receiver::Capability(_))
        && command.eligible.iter().any(|p| {
            p != caller && !handoff.refused_by.contains(p) && *p != handoff.from.principal
        });
    let event = if others_left {
        Event::HandoffReturned {
            handoff: handoff.id.clone(),
            refused_by: caller.clone(),
            failing: command.failing,
            note: Some(command.note),
        }
    } else {
        let reason = match handoff.receiver {
            Receiver::Principal(_) => EndReason::RefusedByReceiver,
            Receiver::Capability(_) => EndReason::NoReceiverLeft,
        };
        Event::HandoffEnded {
            handoff: handoff.id.clone(),
            status: HandoffStatus::Rejected,
            reason: Some(reason),
            failing: command.failing,
            note: Some(command.note),
        }
    };
    Ok(Decision::about(&handoff.id, vec![event]))
}

/// Takes an offer back.
#[derive(Clone, Debug)]
pub struct WithdrawHandoff {
    /// The handoff.
    pub handoff: HandoffId,
    /// The packet.
    pub packet: Digest,
    /// Digest of what was said.
    pub note: Option<Digest>,
}

/// Judges a withdrawal: by the sender, by who offered on its behalf, or by an operator.
///
/// # Errors
/// The caller is neither, or the offer has ended.
pub fn withdraw(
    view: &super::View<'_>,
    command: &WithdrawHandoff,
    context: &Context<'_>,
) -> super::Judged {
    let handoff = open(view.task, view, &command.handoff)?;
    let caller = &context.caller.party.principal;
    let may = *caller == handoff.from.principal && handoff.on_behalf.is_none()
        || *caller == handoff.offered_by
        || context.caller.operator;
    if !may {
        return Err(Refusal::new(
            Reason::NotOwner,
            format!(
                "{caller} did not offer handoff {}; its sender or an operator withdraws it",
                handoff.id
            ),
        )
        .with("handoffId", &handoff.id)
        .into());
    }
    same_packet(handoff, &command.packet)?;
    let event = Event::HandoffEnded {
        handoff: handoff.id.clone(),
        status: HandoffStatus::Withdrawn,
        reason: Some(EndReason::WithdrawnBySender),
        failing: None,
        note: command.note,
    };
    Ok(Decision::about(&handoff.id, vec![event]))
}

/// Records that a deadline or a lease of the open handoff has passed, if it has. Expiry is judged
/// whenever it matters; this only writes it down.
#[must_use]
pub fn sweep(view: &super::View<'_>, context: &Context<'_>) -> Vec<Event> {
    let Some(handoff) = view.task.open_handoff() else {
        return Vec::new();
    };
    if view.task.freeze.is_some() {
        return Vec::new();
    }
    if context.now >= handoff.deadline {
        return vec![ended(handoff, HandoffStatus::Expired, None)];
    }
    let lapsed = handoff
        .lease_until(context.limits, context.started)
        .is_some_and(|until| until <= context.now);
    match &handoff.claim {
        Some(claim) if lapsed => vec![Event::ClaimLapsed {
            handoff: handoff.id.clone(),
            claimant: claim.claimant.principal.clone(),
        }],
        _ => Vec::new(),
    }
}

/// The event that ends `handoff` without moving control.
#[must_use]
pub(super) fn ended(handoff: &Handoff, status: HandoffStatus, reason: Option<EndReason>) -> Event {
    Event::HandoffEnded { handoff: handoff.id.clone(), status, reason, failing: None, note: None }
}

pub(super) fn receiver(handoff: &Handoff, context: &Context<'_>) -> Result<(), Refusal> {
    if handoff.may_receive(context.caller) {
        return Ok(());
    }
    let caller = &context.caller.party.principal;
    Err(Refusal::new(
        Reason::ReceiverNotOwner,
        format!(
            "{caller} is not the receiver of handoff {}; only the receiver answers it",
            handoff.id
        ),
    )
    .with("handoffId", &handoff.id))
}

pub(super) fn not_frozen(task: &Task) -> Result<(), Refusal> {
    match &task.freeze {
        None => Ok(()),
        Some(freeze) => Err(Refusal::new(
            Reason::Frozen,
            format!(
                "task {} is frozen by {} since {}; wait until it is lifted",
                task.id, freeze.by, freeze.since
            ),
        )
        .with("taskId", &task.id)),
    }
}

pub(super) fn not_expired(handoff: &Handoff, now: Timestamp) -> Result<(), super::Refused> {
    if now < handoff.deadline {
        return Ok(());
    }
    let refusal = Refusal::new(
        Reason::HandoffEnded,
        format!("handoff {} expired at {}: a new packet is needed", handoff.id, handoff.deadline),
    )
    .with("handoffId", &handoff.id)
    .with("status", HandoffStatus::Expired.name());
    Err(super::Refused { refusal, events: vec![ended(handoff, HandoffStatus::Expired, None)] })
}

/// The caller's live claim.
pub(super) fn live_claim<'h>(
    handoff: &'h Handoff,
    instance: &InstanceId,
    context: &Context<'_>,
) -> Result<&'h Claim, Refusal> {
    let caller = &context.caller.party.principal;
    let Some(claim) = &handoff.claim else {
        return Err(Refusal::new(
            Reason::ClaimRequired,
            format!("handoff {} is not claimed by {caller}; claim it first", handoff.id),
        )
        .with("handoffId", &handoff.id));
    };
    let until = handoff.lease_until(context.limits, context.started).unwrap_or(claim.lease_until);
    if claim.claimant.principal != *caller || claim.instance != *instance {
        if context.now < until {
            return Err(held_by_other(handoff, context));
        }
        return Err(Refusal::new(
            Reason::ClaimRequired,
            format!(
                "handoff {} is not claimed by {caller} as {instance}; claim it first",
                handoff.id
            ),
        )
        .with("handoffId", &handoff.id));
    }
    if context.now >= until {
        return Err(Refusal::new(
            Reason::LeaseLapsed,
            format!(
                "the lease of {caller} on handoff {} lapsed at {until}; claim it again",
                handoff.id
            ),
        )
        .with("handoffId", &handoff.id));
    }
    Ok(claim)
}

pub(super) fn same_packet(handoff: &Handoff, packet: &Digest) -> Result<(), Refusal> {
    if handoff.packet == *packet {
        return Ok(());
    }
    Err(Refusal::new(
        Reason::PacketMismatch,
        format!(
            "{packet} is not the packet of handoff {}; claim it and read the packet",
            handoff.id
        ),
    )
    .with("handoffId", &handoff.id))
}

fn held_by_other(handoff: &Handoff, context: &Context<'_>) -> Refusal {
    let until = handoff.lease_until(context.limits, context.started).unwrap_or(context.now);
    let wait = until.since(context.now).max(Span::from_millis(1));
    Refusal::new(
        Reason::ClaimHeld,
        format!("handoff {} is claimed until {until}; try again then", handoff.id),
    )
    .with("handoffId", &handoff.id)
    .with("leaseExpiresAt", until)
    .retry_after(wait)
}
