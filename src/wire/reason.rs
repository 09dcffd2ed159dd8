//! Reasons: the core's and those of `error.proto`.
//!
//! What lives here: the one table between them, for the record. What does not: status codes.
//! Invariant: each reason of the core has a number of its own, so that a recorded refusal reads
//! back as itself; the proto's other reasons are never recorded.

use crate::core::refusal::Reason;
use crate::proto::baton::v1 as pb;

/// A number that is no reason for which a write is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is no reason of a refused write")]
pub struct ReasonError(i32);

/// The message's value.
#[must_use]
pub fn reason_to_pb(reason: Reason) -> pb::Reason {
    match reason {
        Reason::NotFound => pb::Reason::NotFound,
        Reason::InvalidRequest => pb::Reason::InvalidRequest,
        Reason::ContractInvalid => pb::Reason::ContractInvalid,
        Reason::UnsupportedContractVersion => pb::Reason::UnsupportedContractVersion,
        Reason::ReferenceCopyMismatch => pb::Reason::ReferenceCopyMismatch,
        Reason::IdempotencyMismatch => pb::Reason::IdempotencyMismatch,
        Reason::StaleEpoch => pb::Reason::StaleEpoch,
        Reason::NotOwner => pb::Reason::NotOwner,
        Reason::StateConflict => pb::Reason::StateConflict,
        Reason::Frozen => pb::Reason::Frozen,
        Reason::HandoffPending => pb::Reason::HandoffPending,
        Reason::HandoffAlreadyOpen => pb::Reason::HandoffAlreadyOpen,
        Reason::CheckpointRequired => pb::Reason::CheckpointRequired,
        Reason::ScopeExceeded => pb::Reason::ScopeExceeded,
        Reason::SelfHandoff => pb::Reason::SelfHandoff,
        Reason::UnknownReceiver => pb::Reason::UnknownReceiver,
        Reason::BlindImpossible => pb::Reason::BlindImpossible,
        Reason::ReceiverNotOwner => pb::Reason::ReceiverNotOwner,
        Reason::ClaimRequired => pb::Reason::ClaimRequired,
        Reason::ClaimHeld => pb::Reason::ClaimHeld,
        Reason::LeaseLapsed => pb::Reason::LeaseLapsed,
        Reason::ReceiptMismatch => pb::Reason::ReceiptMismatch,
        Reason::ReceiptConflict => pb::Reason::ReceiptConflict,
        Reason::StaleHandoff => pb::Reason::StaleHandoff,
        Reason::HandoffEnded => pb::Reason::HandoffEnded,
        Reason::PacketMismatch => pb::Reason::PacketMismatch,
        Reason::ObservedTimeImplausible => pb::Reason::ObservedTimeImplausible,
        Reason::IdentityMismatch => pb::Reason::IdentityMismatch,
        Reason::IllegalTransition => pb::Reason::IllegalTransition,
        Reason::TaskClosed => pb::Reason::TaskClosed,
        Reason::TaskCanceled => pb::Reason::TaskCanceled,
        Reason::NotVerifier => pb::Reason::NotVerifier,
        Reason::VerifierNotIndependent => pb::Reason::VerifierNotIndependent,
        Reason::ReadbackRequired => pb::Reason::ReadbackRequired,
        Reason::AcceptanceNotMet => pb::Reason::AcceptanceNotMet,
        Reason::ArtifactDrift => pb::Reason::ArtifactDrift,
        Reason::ArtifactExists => pb::Reason::ArtifactExists,
        Reason::NotOperator => pb::Reason::NotOperator,
        Reason::OwnerPresent => pb::Reason::OwnerPresent,
        Reason::CheckpointExists => pb::Reason::CheckpointExists,
        Reason::DurabilityRequired => pb::Reason::DurabilityRequired,
        Reason::LimitExceeded => pb::Reason::LimitExceeded,
        Reason::LargePayloadInline => pb::Reason::LargePayloadInline,
        Reason::InvalidPageToken => pb::Reason::InvalidPageToken,
        Reason::RoleRequired => pb::Reason::RoleRequired,
        Reason::CapabilityNotAllowed => pb::Reason::CapabilityNotAllowed,
        Reason::AgentExists => pb::Reason::AgentExists,
        Reason::ContextOwnershipConflict => pb::Reason::ContextOwnershipConflict,
        Reason::NoOpenHandoff => pb::Reason::NoOpenHandoff,
    }
}

/// The core's value.
///
/// # Errors
/// The number names none.
pub fn reason_from_pb(number: i32) -> Result<Reason, ReasonError> {
    let mut all = Reason::ALL.iter().copied();
    all.find(|reason| i32::from(reason_to_pb(*reason)) == number).ok_or(ReasonError(number))
}
