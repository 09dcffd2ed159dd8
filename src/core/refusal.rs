//! The "no" of the domain: a reason, a message for a person, and facts for a program.
//!
//! What lives here: the reasons that a decision can give, in one enum, and how a refusal is built.
//! What does not: status codes (`service/status.rs` maps each reason, once). Invariant: a message
//! says what was wrong, with which value, and what to do next; it never holds a withheld value.

use super::time::Span;

/// Why a command is refused. Each has one value in `error.proto` that says cause and recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)] // documented once, in error.proto
pub enum Reason {
    NotFound,
    InvalidRequest,
    ContractInvalid,
    UnsupportedContractVersion,
    ReferenceCopyMismatch,
    IdempotencyMismatch,
    StaleEpoch,
    NotOwner,
    StateConflict,
    Frozen,
    HandoffPending,
    HandoffAlreadyOpen,
    CheckpointRequired,
    ScopeExceeded,
    SelfHandoff,
    UnknownReceiver,
    BlindImpossible,
    ReceiverNotOwner,
    ClaimRequired,
    ClaimHeld,
    LeaseLapsed,
    ReceiptMismatch,
    ReceiptConflict,
    StaleHandoff,
    HandoffEnded,
    PacketMismatch,
    ObservedTimeImplausible,
    IdentityMismatch,
    IllegalTransition,
    TaskClosed,
    TaskCanceled,
    NotVerifier,
    VerifierNotIndependent,
    ReadbackRequired,
    AcceptanceNotMet,
    ArtifactDrift,
    ArtifactExists,
    NotOperator,
    OwnerPresent,
    CheckpointExists,
    DurabilityRequired,
    LimitExceeded,
    LargePayloadInline,
    InvalidPageToken,
    RoleRequired,
    CapabilityNotAllowed,
    AgentExists,
    ContextOwnershipConflict,
    NoOpenHandoff,
}

impl Reason {
    /// Every reason, in order of declaration.
    pub const ALL: &[Self] = &[
        Self::NotFound,
        Self::InvalidRequest,
        Self::ContractInvalid,
        Self::UnsupportedContractVersion,
        Self::ReferenceCopyMismatch,
        Self::IdempotencyMismatch,
        Self::StaleEpoch,
        Self::NotOwner,
        Self::StateConflict,
        Self::Frozen,
        Self::HandoffPending,
        Self::HandoffAlreadyOpen,
        Self::CheckpointRequired,
        Self::ScopeExceeded,
        Self::SelfHandoff,
        Self::UnknownReceiver,
        Self::BlindImpossible,
        Self::ReceiverNotOwner,
        Self::ClaimRequired,
        Self::ClaimHeld,
        Self::LeaseLapsed,
        Self::ReceiptMismatch,
        Self::ReceiptConflict,
        Self::StaleHandoff,
        Self::HandoffEnded,
        Self::PacketMismatch,
        Self::ObservedTimeImplausible,
        Self::IdentityMismatch,
        Self::IllegalTransition,
        Self::TaskClosed,
        Self::TaskCanceled,
        Self::NotVerifier,
        Self::VerifierNotIndependent,
        Self::ReadbackRequired,
        Self::AcceptanceNotMet,
        Self::ArtifactDrift,
        Self::ArtifactExists,
        Self::NotOperator,
        Self::OwnerPresent,
        Self::CheckpointExists,
        Self::DurabilityRequired,
        Self::LimitExceeded,
        Self::LargePayloadInline,
        Self::InvalidPageToken,
        Self::RoleRequired,
        Self::CapabilityNotAllowed,
        Self::AgentExists,
        Self::ContextOwnershipConflict,
        Self::NoOpenHandoff,
    ];
}

/// One thing that is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Path of the field, in the proto's names.
    pub field: String,
    /// What is wrong, with the value, and the remedy.
    pub description: String,
}

/// A refused command. Nothing of it has happened, except what `decide` records beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// For a person: lower case, no full stop, names the thing, the value and the remedy.
    pub message: String,
    /// For a program: ids and present values, by lowerCamelCase key.
    pub metadata: Vec<(&'static str, String)>,
    /// One entry per finding, when the reason is about content.
    pub violations: Vec<Violation>,
    /// When a repeat may succeed, if that is known.
    pub retry_after: Option<Span>,
}

impl Refusal {
    /// A refusal with a message and nothing else.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            metadata: Vec::new(),
            violations: Vec::new(),
            retry_after: None,
        }
    }

    /// Adds a fact for programs.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl ToString) -> Self {
        self.metadata.push((key, value.to_string()));
        self
    }

    /// Adds findings.
    #[must_use]
    pub fn with_violations(mut self, violations: Vec<Violation>) -> Self {
        self.violations.extend(violations);
        self
    }

    /// Says when a repeat may succeed.
    #[must_use]
    pub fn retry_after(mut self, wait: Span) -> Self {
        self.retry_after = Some(wait);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A reason that the list lacks is missing in the table that clients rely on.
    #[test]
    fn the_list_of_reasons_has_no_gap() {
        for (at, reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, at, "{reason:?}");
        }
        assert_eq!(Reason::ALL.last(), Some(&Reason::NoOpenHandoff));
    }
}
