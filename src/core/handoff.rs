//! A handoff's record and the moves that it can make, short of the receipt.
//!
//! What lives here: the record, offer, claim, renewal, rejection, withdrawal, expiry. What does
//! not: comparing a receipt (`receipt.rs`) and the task around it (`task.rs`). Invariants: one
//! claimant at a time; a lease never outlives the deadline; an ended handoff never moves again.

use std::collections::BTreeSet;

use super::Limits;
use super::axis::HandoffStatus;
use super::digest::{Digest, Epoch, Revision};
use super::event::{Event, Recorded};
use super::id::{Capability, HandoffId, InstanceId, PrincipalId};
use super::receipt::{Element, ElementAssurance};
use super::refusal::{Reason, Refusal};
use super::task::Party;
use super::time::Timestamp;

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

    /// True if this handoff is or was offered to `caller`, also after it refused or after the end.
    /// Who was asked is told how it ended; it may answer only while [`Self::may_receive`] says so.
    #[must_use]
    pub fn was_offered_to(&self, caller: &super::Caller) -> bool {
        self.may_receive(caller) || self.refused_by.contains(&caller.party.principal)
    }

    /// The end of the present lease. A lease that was given before the broker started is good for
    /// one full interval after the start, since nobody could renew it meanwhile.
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

    /// The refusal of anything that this handoff, having ended, can no longer do.
    pub(super) fn refusal_of_end(&self) -> Refusal {
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
