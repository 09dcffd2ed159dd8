//! What happened to a task: past-tense facts, without free text and without documents.
//!
//! What lives here: the event enum and its envelope. What does not: judging (the nouns) and folding
//! (`task.rs`). Invariant: an event names documents by digest only, so that erasing one leaves the
//! record whole; folding a task's events gives its state.

use super::axis::{Axes, HandoffStatus};
use super::digest::{Digest, Epoch, Revision};
use super::handoff::{Claim, EndReason, Handoff};
use super::id::{
    ArtifactId, CheckpointId, ContextId, HandoffId, InstanceId, PrincipalId, RequestId,
    VersionLabel,
};
use super::receipt::{Element, ElementAssurance};
use super::refusal::Reason;
use super::scope::Scope;
use super::task::{Artifact, ArtifactState, Party, Policy};
use super::time::Timestamp;

/// One entry of a task's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Number in the task's record, from 1, without a gap.
    pub sequence: u64,
    /// When it was decided.
    pub time: Timestamp,
    /// Who caused it.
    pub by: PrincipalId,
    /// The request that caused it; none for a deadline.
    pub request: Option<RequestId>,
    /// The task's revision after it.
    pub revision: Revision,
    /// The task's epoch after it.
    pub epoch: Epoch,
    /// Digest of the event before; none for the first.
    pub previous: Option<Digest>,
    /// What happened.
    pub event: Event,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The task was created; its originator owns it under epoch 1.
    TaskCreated(Box<TaskCreated>),
    /// A checkpoint was put.
    CheckpointPut {
        /// Its id.
        id: CheckpointId,
        /// Its number in the task, from 1.
        version: u64,
        /// Digest of the document.
        digest: Digest,
        /// How many units it lists as not done.
        not_done_units: u32,
    },
    /// The owner reported a status.
    StatusReported {
        /// The axes after it.
        axes: Axes,
        /// Digest of the report.
        report: Digest,
    },
    /// An artifact version was put.
    ArtifactPut {
        /// The record after it.
        artifact: Box<Artifact>,
        /// The axes after it.
        axes: Axes,
    },
    /// A readback was recorded.
    ReadbackRecorded {
        /// The artifact.
        artifact: ArtifactId,
        /// The version that was read.
        version: VersionLabel,
        /// The verifier.
        verifier: PrincipalId,
        /// The result.
        result: ReadbackResult,
        /// Digest of the evidence.
        evidence: Digest,
        /// How the artifact stands after it.
        state: ArtifactState,
    },
    /// Acceptance was decided.
    AcceptanceDecided {
        /// The axes after it.
        axes: Axes,
        /// The verifier.
        verifier: PrincipalId,
        /// Digest of the decision.
        decision: Digest,
    },
    /// The task was canceled; the epoch rose.
    TaskCanceled {
        /// The axes after it.
        axes: Axes,
        /// Digest of what was said.
        note: Option<Digest>,
    },
    /// The task was frozen.
    TaskFrozen {
        /// Digest of the reason.
        note: Digest,
    },
    /// The freeze was lifted.
    FreezeLifted {
        /// Digest of the reason.
        note: Digest,
    },
    /// A handoff was offered.
    HandoffOffered {
        /// The record at the offer.
        handoff: Box<Handoff>,
    },
    /// A receiver claimed it.
    HandoffClaimed {
        /// The handoff.
        handoff: HandoffId,
        /// The claim.
        claim: Claim,
    },
    /// The claim's lease ran out.
    ClaimLapsed {
        /// The handoff.
        handoff: HandoffId,
        /// Who lost it.
        claimant: PrincipalId,
    },
    /// A receipt did not match.
    ReceiptRefused {
        /// The handoff.
        handoff: HandoffId,
        /// The receiver.
        receiver: PrincipalId,
        /// The elements that differ.
        elements: Vec<Element>,
    },
    /// The handoff was received; control moved and the epoch rose.
    HandoffReceived(Box<HandoffReceived>),
    /// The handoff ended without moving control.
    HandoffEnded {
        /// The handoff.
        handoff: HandoffId,
        /// How.
        status: HandoffStatus,
        /// Why.
        reason: Option<EndReason>,
        /// The element that a refusing receiver found wrong.
        failing: Option<Element>,
        /// Digest of what was said.
        note: Option<Digest>,
    },
    /// One receiver of a capability offer refused; it stays open for the others.
    HandoffReturned {
        /// The handoff.
        handoff: HandoffId,
        /// Who refused.
        refused_by: PrincipalId,
        /// The element that it found wrong.
        failing: Option<Element>,
        /// Digest of what was said.
        note: Option<Digest>,
    },
    /// The owner went on under a new instance; the epoch rose.
    OwnershipResumed {
        /// The new process.
        instance: InstanceId,
    },
    /// The owner's lease ran out. Moves nothing.
    OwnerAbsent,
    /// A write was refused in a way that belongs into the record. Changes no state.
    WriteRefused {
        /// Why.
        reason: Reason,
        /// The call.
        rpc: &'static str,
    },
}

/// The facts of a creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskCreated {
    /// The originator and first owner.
    pub originator: Party,
    /// Its process.
    pub instance: InstanceId,
    /// The group that the task belongs to.
    pub context: Option<ContextId>,
    /// Class for routing.
    pub class: String,
    /// CONTRACT_VERSION.
    pub contract_version: VersionLabel,
    /// Digest of the contract document.
    pub contract_digest: Digest,
    /// Digest under which the whole contract is stored.
    pub contract_document: Digest,
    /// The originator's authority; none if it named none.
    pub scope: Option<Scope>,
    /// The policy.
    pub policy: Policy,
}

/// The facts of a receipt that matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandoffReceived {
    /// The handoff.
    pub handoff: HandoffId,
    /// The new owner.
    pub receiver: Party,
    /// Its process.
    pub instance: InstanceId,
    /// Digest of the stored receipt.
    pub receipt: Digest,
    /// Digest over the five elements.
    pub elements: Digest,
    /// The new owner's authority.
    pub scope: Scope,
    /// The axes after it.
    pub axes: Axes,
    /// How each element was verified.
    pub assurances: Vec<ElementAssurance>,
}

/// What re-reading showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadbackResult {
    /// As recorded.
    Pass,
    /// Not as recorded.
    Fail,
    /// Could not be told.
    Inconclusive,
}

impl Event {
    /// True if the task's state is another one after it, so that the revision rises. A refused
    /// write, a refused receipt, a lapsed lease and an absent owner are recorded beside the state
    /// that owners decide on.
    #[must_use]
    pub fn changes_state(&self) -> bool {
        match self {
            Self::ClaimLapsed { .. }
            | Self::HandoffClaimed { .. }
            | Self::OwnerAbsent
            | Self::ReceiptRefused { .. }
            | Self::WriteRefused { .. } => false,
            Self::TaskCreated(_)
            | Self::CheckpointPut { .. }
            | Self::StatusReported { .. }
            | Self::ArtifactPut { .. }
            | Self::ReadbackRecorded { .. }
            | Self::AcceptanceDecided { .. }
            | Self::TaskCanceled { .. }
            | Self::TaskFrozen { .. }
            | Self::FreezeLifted { .. }
            | Self::HandoffOffered { .. }
            | Self::HandoffReceived(_)
            | Self::HandoffEnded { .. }
            | Self::HandoffReturned { .. }
            | Self::OwnershipResumed { .. } => true,
        }
    }

    /// True if the owner or its instance is another one after it, so that the epoch rises.
    #[must_use]
    pub fn raises_epoch(&self) -> bool {
        matches!(
            self,
            Self::HandoffReceived(_) | Self::OwnershipResumed { .. } | Self::TaskCanceled { .. }
        )
    }
}
