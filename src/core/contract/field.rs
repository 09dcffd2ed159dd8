//! The 44 fields of the operating contract and their table.
//!
//! What lives here: the fields in catalogue order, the profiles, and one row of data per field.
//! What does not: how a field's presence is read (`presence`) or judged (`check`). Invariants: a
//! field's number is its field number in `OperatingContract`; `TABLE` holds one row per field, in
//! that order.

use Field as F;
use Profile::{C1, C2, C3, C4, M0, Own, Reference};

/// A field of the operating contract, in catalogue order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// Version of the schema and policy that the contract was written against.
    ContractVersion = 1,
    /// The piece of work; never changes. Filled by the broker.
    TaskId = 2,
    /// One execution attempt inside the task.
    RunId = 3,
    /// Group of tasks and messages.
    ContextId = 4,
    /// Who executes.
    ExecutionActor = 5,
    /// Start, end and observation of the run.
    RunTimeWindow = 6,
    /// Release of the composite execution configuration.
    ConfigReleaseRef = 7,
    /// What is to be changed, produced or decided.
    Objective = 8,
    /// Observable conditions of business acceptance.
    CompletionCriteria = 9,
    /// Versioned acceptance contract.
    AcceptanceContractRef = 10,
    /// Permitted boundary.
    AllowedActions = 11,
    /// Explicitly forbidden operations.
    ProhibitedActions = 12,
    /// Authority.
    AuthorizationScope = 13,
    /// What changes outside.
    SideEffectProfile = 14,
    /// How a repeat is kept from doing it twice.
    RetryIdempotencyPolicy = 15,
    /// Authoritative sources; may be the empty set or not applicable.
    AuthoritativeInputs = 16,
    /// Which source or version wins.
    SourceAuthorityRule = 17,
    /// The inputs as they were read.
    InputEntityVersionSnapshot = 18,
    /// The value that changes the next decision.
    CurrentState = 19,
    /// Runtime axis.
    RuntimeStatus = 20,
    /// Acceptance axis.
    BusinessAcceptanceStatus = 21,
    /// Role and number of each deliverable.
    ExpectedArtifacts = 22,
    /// The artifacts.
    ArtifactDescriptor = 23,
    /// Where outputs come from.
    OutputLineage = 24,
    /// How an existing artifact may be changed.
    UpdateMode = 25,
    /// What was asked and done.
    ExecutionEvidence = 26,
    /// What a human decided.
    ApprovalEvidence = 27,
    /// What re-reading showed.
    ReadbackEvidence = 28,
    /// The resume point.
    CheckpointIdTime = 29,
    /// Accepted bounded units.
    CompletedUnits = 30,
    /// Units that are not done.
    NotDone = 31,
    /// Decisions that constrain the next choice.
    DecisionsAndRejectedAlternatives = 32,
    /// Open questions.
    OpenUnknowns = 33,
    /// What blocks.
    Blockers = 34,
    /// Who hands over.
    HandoffFrom = 35,
    /// Who receives, and the capability it needs.
    NextOwner = 36,
    /// Why control moves.
    HandoffReason = 37,
    /// The part of the past that matters.
    HistoryPointerOrCuratedHistory = 38,
    /// What the receiver verified.
    HandoffReceipt = 39,
    /// The one next step.
    NextAction = 40,
    /// When to stop, ask or escalate.
    StopCondition = 41,
    /// Recovery and fallback.
    RecoveryOrFallbackRef = 42,
    /// Label of each assertion.
    EvidenceLabels = 43,
    /// Freshness of the state.
    LastUpdated = 44,
}

impl Field {
    /// Every field, in catalogue order.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.field)
    }

    /// The catalogue's number, which is the field number on the wire.
    #[must_use]
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// The catalogue's spelling.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ContractVersion => "CONTRACT_VERSION",
            Self::TaskId => "TASK_ID",
            Self::RunId => "RUN_ID",
            Self::ContextId => "CONTEXT_ID",
            Self::ExecutionActor => "EXECUTION_ACTOR",
            Self::RunTimeWindow => "RUN_TIME_WINDOW",
            Self::ConfigReleaseRef => "CONFIG_RELEASE_REF",
            Self::Objective => "OBJECTIVE",
            Self::CompletionCriteria => "COMPLETION_CRITERIA",
            Self::AcceptanceContractRef => "ACCEPTANCE_CONTRACT_REF",
            Self::AllowedActions => "ALLOWED_ACTIONS",
            Self::ProhibitedActions => "PROHIBITED_ACTIONS",
            Self::AuthorizationScope => "AUTHORIZATION_SCOPE",
            Self::SideEffectProfile => "SIDE_EFFECT_PROFILE",
            Self::RetryIdempotencyPolicy => "RETRY_IDEMPOTENCY_POLICY",
            Self::AuthoritativeInputs => "AUTHORITATIVE_INPUTS",
            Self::SourceAuthorityRule => "SOURCE_AUTHORITY_RULE",
            Self::InputEntityVersionSnapshot => "INPUT_ENTITY_VERSION_SNAPSHOT",
            Self::CurrentState => "CURRENT_STATE",
            Self::RuntimeStatus => "RUNTIME_STATUS",
            Self::BusinessAcceptanceStatus => "BUSINESS_ACCEPTANCE_STATUS",
            Self::ExpectedArtifacts => "EXPECTED_ARTIFACTS",
            Self::ArtifactDescriptor => "ARTIFACT_DESCRIPTOR",
            Self::OutputLineage => "OUTPUT_LINEAGE",
            Self::UpdateMode => "UPDATE_MODE",
            Self::ExecutionEvidence => "EXECUTION_EVIDENCE",
            Self::ApprovalEvidence => "APPROVAL_EVIDENCE",
            Self::ReadbackEvidence => "READBACK_EVIDENCE",
            Self::CheckpointIdTime => "CHECKPOINT_ID_TIME",
            Self::CompletedUnits => "COMPLETED_UNITS",
            Self::NotDone => "NOT_DONE",
            Self::DecisionsAndRejectedAlternatives => "DECISIONS_AND_REJECTED_ALTERNATIVES",
            Self::OpenUnknowns => "OPEN_UNKNOWNS",
            Self::Blockers => "BLOCKERS",
            Self::HandoffFrom => "HANDOFF_FROM",
            Self::NextOwner => "NEXT_OWNER",
            Self::HandoffReason => "HANDOFF_REASON",
            Self::HistoryPointerOrCuratedHistory => "HISTORY_POINTER_OR_CURATED_HISTORY",
            Self::HandoffReceipt => "HANDOFF_RECEIPT",
            Self::NextAction => "NEXT_ACTION",
            Self::StopCondition => "STOP_CONDITION",
            Self::RecoveryOrFallbackRef => "RECOVERY_OR_FALLBACK_REF",
            Self::EvidenceLabels => "EVIDENCE_LABELS",
            Self::LastUpdated => "LAST_UPDATED",
        }
    }
}

/// A set of fields that is required together. Profiles add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Profile {
    /// Every materialised contract.
    M0,
    /// Sources and artifacts.
    C1,
    /// Resumable work.
    C2,
    /// Side effects.
    C3,
    /// Handoff and trust boundary.
    C4,
    /// Required by its own trigger only; never part of an always-required set.
    Reference,
    /// In no profile; its own condition governs.
    Own,
}

/// One row of the table.
// Required-when, tier and phase are columns of the catalogue too; the change that judges by task
// shape adds them here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The field.
    pub field: Field,
    /// The profiles that it belongs to; never empty.
    pub profiles: &'static [Profile],
    /// The explicit empty set is a value.
    pub empty_allowed: bool,
    /// `NOT_APPLICABLE` is accepted where the field is required.
    pub not_applicable_allowed: bool,
    /// `PENDING` with a planned method is accepted until the gate that needs the value.
    pub pending_allowed: bool,
}

impl Row {
    const fn empty(mut self) -> Self {
        self.empty_allowed = true;
        self
    }

    const fn not_applicable(mut self) -> Self {
        self.not_applicable_allowed = true;
        self
    }

    const fn pending(mut self) -> Self {
        self.pending_allowed = true;
        self
    }
}

const fn row(field: Field, profiles: &'static [Profile]) -> Row {
    Row {
        field,
        profiles,
        empty_allowed: false,
        not_applicable_allowed: false,
        pending_allowed: false,
    }
}

/// The table, in catalogue order. What a packet or a checkpoint accepts beyond it (an artifact set
/// or a snapshot that is explicitly empty) stands with their sets in `check`.
pub const TABLE: [Row; 44] = [
    row(F::ContractVersion, &[M0]),
    row(F::TaskId, &[C2]),
    row(F::RunId, &[C3]),
    row(F::ContextId, &[Reference]),
    row(F::ExecutionActor, &[C3]),
    row(F::RunTimeWindow, &[C3]),
    row(F::ConfigReleaseRef, &[Reference]),
    row(F::Objective, &[M0]),
    row(F::CompletionCriteria, &[M0]),
    row(F::AcceptanceContractRef, &[Reference]),
    row(F::AllowedActions, &[M0]),
    row(F::ProhibitedActions, &[M0]),
    row(F::AuthorizationScope, &[C3]),
    row(F::SideEffectProfile, &[C3]),
    row(F::RetryIdempotencyPolicy, &[C3]),
    row(F::AuthoritativeInputs, &[C1]).empty().not_applicable(),
    row(F::SourceAuthorityRule, &[Reference]),
    row(F::InputEntityVersionSnapshot, &[Reference]),
    row(F::CurrentState, &[C2]),
    row(F::RuntimeStatus, &[Own]),
    row(F::BusinessAcceptanceStatus, &[C1]).not_applicable(),
    row(F::ExpectedArtifacts, &[C1]),
    row(F::ArtifactDescriptor, &[C1]).pending(),
    row(F::OutputLineage, &[Reference]),
    row(F::UpdateMode, &[Own]),
    row(F::ExecutionEvidence, &[C3]).pending(),
    row(F::ApprovalEvidence, &[Own]).pending(),
    row(F::ReadbackEvidence, &[C1, C3]).pending(),
    row(F::CheckpointIdTime, &[C2]),
    row(F::CompletedUnits, &[C2]).empty(),
    row(F::NotDone, &[C2]).empty(),
    row(F::DecisionsAndRejectedAlternatives, &[Reference]),
    row(F::OpenUnknowns, &[C2]).empty(),
    row(F::Blockers, &[C2]).empty(),
    row(F::HandoffFrom, &[C4]),
    row(F::NextOwner, &[C4]),
    row(F::HandoffReason, &[C4]),
    row(F::HistoryPointerOrCuratedHistory, &[C4]),
    row(F::HandoffReceipt, &[C4]).not_applicable().pending(),
    row(F::NextAction, &[C2]),
    row(F::StopCondition, &[M0]),
    row(F::RecoveryOrFallbackRef, &[C3]),
    row(F::EvidenceLabels, &[M0]),
    row(F::LastUpdated, &[C2]),
];

/// The fields of a profile, in catalogue order.
pub fn fields_of(profile: Profile) -> impl Iterator<Item = &'static Row> {
    TABLE.iter().filter(move |row| row.profiles.contains(&profile))
}

#[cfg(test)]
mod tests {
    use super::*;

    // A row out of place would judge one field by another one's rules.
    #[test]
    fn every_field_has_one_row_at_its_number() {
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(row.field.number() as usize, index + 1, "{}", row.field.name());
            assert!(!row.profiles.is_empty(), "{}", row.field.name());
        }
        assert_eq!(Field::LastUpdated.number(), 44);
    }

    // A field lost from a profile would never be asked for. REQ-001, REQ-004 to REQ-009
    #[test]
    fn profiles_have_the_sizes_of_the_catalogue() {
        let size = |profile| fields_of(profile).count();
        let sizes = [M0, C1, C2, C3, C4, Reference, Own].map(size);
        assert_eq!(sizes, [7, 5, 9, 9, 5, 7, 3]);
        let both = TABLE.iter().filter(|row| row.profiles.len() > 1).map(|row| row.field);
        assert_eq!(both.collect::<Vec<_>>(), [Field::ReadbackEvidence]);
    }

    // A field that accepts too much lets nothing pass for a value. REQ-010, REQ-011
    #[test]
    fn only_the_named_fields_accept_nothing() {
        let named = |accepts: fn(&Row) -> bool| -> Vec<&str> {
            TABLE.iter().filter(|row| accepts(row)).map(|row| row.field.name()).collect()
        };
        assert_eq!(
            named(|row| row.empty_allowed),
            ["AUTHORITATIVE_INPUTS", "COMPLETED_UNITS", "NOT_DONE", "OPEN_UNKNOWNS", "BLOCKERS"]
        );
        assert_eq!(
            named(|row| row.not_applicable_allowed),
            ["AUTHORITATIVE_INPUTS", "BUSINESS_ACCEPTANCE_STATUS", "HANDOFF_RECEIPT"]
        );
        assert_eq!(
            named(|row| row.pending_allowed),
            [
                "ARTIFACT_DESCRIPTOR",
                "EXECUTION_EVIDENCE",
                "APPROVAL_EVIDENCE",
                "READBACK_EVIDENCE",
                "HANDOFF_RECEIPT"
            ]
        );
    }

    // The numbers and names are the wire's: an answer that names another field sends its reader
    // astray.
    #[test]
    fn names_and_numbers_are_those_of_the_message() {
        let proto = include_str!("../../../proto/baton/v1/contract.proto");
        let (_, rest) = proto.split_once("message OperatingContract {").expect("the message");
        let (body, _) = rest.split_once("\n}").expect("its end");
        let wire: Vec<(String, String)> = body
            .lines()
            .map(str::trim)
            .filter(|line| !line.starts_with("//"))
            .filter_map(|line| line.strip_suffix(';')?.split_once(" = "))
            .map(|(left, number)| {
                let name = left.split(' ').next_back().unwrap_or_default();
                (name.to_uppercase(), number.to_owned())
            })
            .collect();
        let ours: Vec<(String, String)> =
            Field::all().map(|f| (f.name().to_owned(), f.number().to_string())).collect();
        assert_eq!(ours, wire);
    }
}
