//! A handoff's record and the moves that it can make, short of the receipt.
//!
//! What lives here: the record, offer, claim, renewal, rejection, withdrawal, expiry. What does not:
//! comparing a receipt (`receipt.rs`) and the task around it (`task.rs`). Invariants: one claimant at a
//! time; a lease never outlives the deadline; an ended handoff never moves again.

use std::collections::BTreeSet;

use super::axis::HandoffStatus;
use super::digest::{Digest, Epoch, Revision};
use super::event::{Event, Recorded};
use super::id::{Capability, HandoffId, InstanceId, PrincipalId};
use super::receipt::{Element, ElementAssurance};
use super::refusal::{Reason, Refusal};
use super::task::{Party, Task};
use super::time::{Span, Timestamp};
use super::{Context, Decision, Limits};

/// To whom a handoff is offered.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Receiver {
    /// One principal.
    Principal(PrincipalId),
    /// Whoever has the capability and claims first.
    Capability(Capability),
}

impl std::fmt::Display for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Principal(principal) => write!(f, "{principal}"),
            Self::Capability(capability) => write!(f, "capability:{capability}"),
        }
    }
}

/// A claimant's hold on an offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Who.
    pub claimant: Party,
    /// Its process.
    pub instance: InstanceId,
    /// Since when.
    pub claimed_at: Timestamp,
    /// Until when, if not renewed.
    pub lease_until: Timestamp,
}

/// Why a handoff ended, beside its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The receiver refused it.
    RefusedByReceiver,
    /// Too many receipts did not match.
    AttemptsExhausted,
    /// Too many claims lapsed.
    ClaimsExhausted,
    /// Nobody is left who may receive it.
    NoReceiverLeft,
    /// The sender took it back.
    WithdrawnBySender,
    /// The task was canceled.
    TaskCanceled,
    /// An artifact that it binds changed its standing.
    ArtifactChanged,
    /// An operator offered the task on behalf of its owner.
    OperatorTakeover,
    /// The owner went on under a new instance.
    OwnershipResumed,
}

/// A handoff as the task holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handoff {
    /// Identity.
    pub id: HandoffId,
    /// Where it stands.
    pub status: HandoffStatus,
    /// Why it ended.
    pub end_reason: Option<EndReason>,
    /// The owner that it moves control from.
    pub from: Party,
    /// Who offered it; another one than `from` in an offer on behalf.
    pub offered_by: PrincipalId,
    /// To whom.
    pub receiver: Receiver,
    /// Digest of the packet.
    pub packet: Digest,
    /// Digest of the checkpoint that the packet binds; none in an offer on behalf without one.
    pub checkpoint: Option<Digest>,
    /// Expected digests are withheld until RECEIVED.
    pub blind: bool,
    /// The sender allowed a blind offer that has nothing to hash.
    pub echo_allowed: bool,
    /// When it was offered.
    pub offered_at: Timestamp,
    /// When it ends by itself.
    pub deadline: Timestamp,
    /// The present claim.
    pub claim: Option<Claim>,
    /// How many claims it has had.
    pub claims: u32,
    /// How many receipts did not match.
    pub attempts: u32,
    /// Who refused it, in an offer to a capability.
    pub refused_by: BTreeSet<PrincipalId>,
    /// The handoff that it replaced.
    pub supersedes: Option<HandoffId>,
    /// Digest of the reason of an offer on behalf.
    pub on_behalf: Option<Digest>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// The element that a refusing receiver found wrong.
    pub failing: Option<Element>,
    /// Digest of what was said at the end.
    pub end_note: Option<Digest>,
    /// What the accepted receipt left behind.
    pub received: Option<Received>,
}

/// What an accepted receipt leaves behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Who.
    pub receiver: PrincipalId,
    /// The epoch that it took control under.
    pub epoch: Epoch,
    /// The revision that the receipt made.
    pub revision: Revision,
    /// The event that recorded it.
    pub sequence: u64,
    /// Digest of the stored receipt.
    pub receipt: Digest,
    /// Digest over the five elements.
    pub elements: Digest,
    /// How each was verified.
    pub assurances: Vec<ElementAssurance>,
}

impl Handoff {
    /// Folds an event of this handoff. Cannot fail and never judges.
    pub(super) fn apply(&mut self, record: &Recorded) {
        match &record.event {
            Event::HandoffClaimed { claim, .. } => {
                self.claim = Some(claim.clone());
                self.claims = self.claims.saturating_add(1);
            }
            Event::ClaimLapsed { .. } => self.claim = None,
            Event::ReceiptRefused { .. } => self.attempts = self.attempts.saturating_add(1),
            Event::HandoffReturned { refused_by, .. } => {
                self.refused_by.insert(refused_by.clone());
                self.claim = None;
            }
            Event::HandoffEnded { status, reason, failing, note, .. } => {
                self.status = *status;
                self.end_reason = *reason;
                self.failing = *failing;
                self.end_note = *note;
                self.ended_at = Some(record.time);
                self.claim = None;
            }
            Event::HandoffReceived(received) => {
                self.status = HandoffStatus::Received;
                self.ended_at = Some(record.time);
                self.claim = None;
                self.received = Some(Received {
                    receiver: received.receiver.principal.clone(),
                    epoch: record.epoch,
                    revision: record.revision,
                    sequence: record.sequence,
                    receipt: received.receipt,
                    elements: received.elements,
                    assurances: received.assurances.clone(),
                });
            }
            _ => {}
        }
    }

    /// True if `caller` may receive this handoff and has not refused it.
    #[must_use]
    pub fn may_receive(&self, caller: &super::Caller) -> bool {
        match &self.receiver {
            Receiver::Principal(principal) => *principal == caller.party.principal,
            Receiver::Capability(capability) => {
                caller.capabilities.contains(capability)
                    && !self.refused_by.contains(&caller.party.principal)
                    && caller.party.principal != self.from.principal
            }
        }
    }

    /// The end of the present lease. A lease that was given before the broker started is good for one
    /// full interval after the start, since nobody could renew it meanwhile.
    #[must_use]
    pub fn lease_until(&self, limits: &Limits, started: Timestamp) -> Option<Timestamp> {
        let claim = self.claim.as_ref()?;
        let until = if claim.lease_until < started.saturating_add(limits.lease)
            && claim.claimed_at < started
        {
            claim.lease_until.max(started.saturating_add(limits.lease))
        } else {
            claim.lease_until
        };
        Some(until.min(self.deadline))
    }

    fn ended(&self) -> Refusal {
        let stale = self.status == HandoffStatus::Stale;
        let reason = if stale { Reason::StaleHandoff } else { Reason::HandoffEnded };
        Refusal::new(
            reason,
            format!(
                "handoff {} has ended as {}: a new packet is needed",
                self.id,
                self.status.name()
            ),
        )
        .with("handoffId", &self.id)
        .with("status", self.status.name())
    }
}

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
        Some(handoff) if handoff.id == *id => Err(handoff.ended()),
        _ => match view.ended {
            Some(handoff) if handoff.id == *id => Err(handoff.ended()),
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
