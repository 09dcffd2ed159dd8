//! Enumerations: the proto's and the core's, value by value.
//!
//! Invariant: an unspecified or unknown number is never taken for a value; where "not said" is a
//! value of its own, it is the core's `Unset`.

use crate::core::axis::{
    A2aState, Acceptance, Approval, Axes, Disposition, HandoffStatus, ReleasedBy, Runtime,
};
use crate::core::event::ReadbackResult;
use crate::core::handoff::EndReason;
use crate::core::receipt::Element;
use crate::core::task::{AcceptancePolicy, ArtifactState};
use crate::proto::baton::v1 as pb;
use crate::proto::lf::a2a::v1 as a2a;

use super::StoredError;

/// A number that names no value of an enumeration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{number} is no {what}; send one of {legal}")]
pub struct EnumError {
    what: &'static str,
    number: i32,
    legal: &'static str,
}

/// The message's value.
#[must_use]
pub fn runtime_to_pb(value: Runtime) -> pb::RuntimeStatus {
    match value {
        Runtime::Submitted => pb::RuntimeStatus::Submitted,
        Runtime::Working => pb::RuntimeStatus::Working,
        Runtime::Paused => pb::RuntimeStatus::Paused,
        Runtime::Blocked => pb::RuntimeStatus::Blocked,
        Runtime::Failed => pb::RuntimeStatus::Failed,
        Runtime::UnknownCause => pb::RuntimeStatus::UnknownCause,
        Runtime::Reconciling => pb::RuntimeStatus::Reconciling,
        Runtime::Canceled => pb::RuntimeStatus::Canceled,
        Runtime::RuntimeCompleted => pb::RuntimeStatus::RuntimeCompleted,
        Runtime::Rejected => pb::RuntimeStatus::Rejected,
    }
}

/// The core's value.
///
/// # Errors
/// The number names no value.
pub fn runtime_from_pb(number: i32) -> Result<Runtime, EnumError> {
    match pb::RuntimeStatus::try_from(number) {
        Ok(pb::RuntimeStatus::Submitted) => Ok(Runtime::Submitted),
        Ok(pb::RuntimeStatus::Working) => Ok(Runtime::Working),
        Ok(pb::RuntimeStatus::Paused) => Ok(Runtime::Paused),
        Ok(pb::RuntimeStatus::Blocked) => Ok(Runtime::Blocked),
        Ok(pb::RuntimeStatus::Failed) => Ok(Runtime::Failed),
        Ok(pb::RuntimeStatus::UnknownCause) => Ok(Runtime::UnknownCause),
        Ok(pb::RuntimeStatus::Reconciling) => Ok(Runtime::Reconciling),
        Ok(pb::RuntimeStatus::Canceled) => Ok(Runtime::Canceled),
        Ok(pb::RuntimeStatus::RuntimeCompleted) => Ok(Runtime::RuntimeCompleted),
        Ok(pb::RuntimeStatus::Rejected) => Ok(Runtime::Rejected),
        Ok(pb::RuntimeStatus::Unspecified) | Err(_) => Err(EnumError {
            what: "runtime status",
            number,
            legal: "SUBMITTED, WORKING, PAUSED, BLOCKED, FAILED, UNKNOWN_CAUSE, RECONCILING, \
                CANCELED, RUNTIME_COMPLETED, REJECTED",
        }),
    }
}

/// The message's value.
#[must_use]
pub fn acceptance_to_pb(value: Acceptance) -> pb::BusinessAcceptanceStatus {
    match value {
        Acceptance::Unset => pb::BusinessAcceptanceStatus::Unspecified,
        Acceptance::NotApplicable => pb::BusinessAcceptanceStatus::NotApplicable,
        Acceptance::Verifying => pb::BusinessAcceptanceStatus::Verifying,
        Acceptance::Accepted => pb::BusinessAcceptanceStatus::Accepted,
        Acceptance::Rejected => pb::BusinessAcceptanceStatus::Rejected,
    }
}

/// The core's value.
///
/// # Errors
/// The number names no value.
pub fn acceptance_from_pb(number: i32) -> Result<Acceptance, EnumError> {
    match pb::BusinessAcceptanceStatus::try_from(number) {
        Ok(pb::BusinessAcceptanceStatus::NotApplicable) => Ok(Acceptance::NotApplicable),
        Ok(pb::BusinessAcceptanceStatus::Verifying) => Ok(Acceptance::Verifying),
        Ok(pb::BusinessAcceptanceStatus::Accepted) => Ok(Acceptance::Accepted),
        Ok(pb::BusinessAcceptanceStatus::Rejected) => Ok(Acceptance::Rejected),
        Ok(pb::BusinessAcceptanceStatus::Unspecified) => Ok(Acceptance::Unset),
        Err(_) => Err(EnumError {
            what: "business acceptance status",
            number,
            legal: "NOT_APPLICABLE, VERIFYING, ACCEPTED, REJECTED",
        }),
    }
}

/// The message's value.
#[must_use]
pub fn handoff_status_to_pb(value: HandoffStatus) -> pb::HandoffStatus {
    match value {
        HandoffStatus::Pending => pb::HandoffStatus::Pending,
        HandoffStatus::Received => pb::HandoffStatus::Received,
        HandoffStatus::Rejected => pb::HandoffStatus::Rejected,
        HandoffStatus::Withdrawn => pb::HandoffStatus::Withdrawn,
        HandoffStatus::Expired => pb::HandoffStatus::Expired,
        HandoffStatus::Superseded => pb::HandoffStatus::Superseded,
        HandoffStatus::Stale => pb::HandoffStatus::Stale,
    }
}

/// The core's value.
///
/// # Errors
/// The number names no value.
pub fn handoff_status_from_pb(number: i32) -> Result<HandoffStatus, EnumError> {
    match pb::HandoffStatus::try_from(number) {
        Ok(pb::HandoffStatus::Pending) => Ok(HandoffStatus::Pending),
        Ok(pb::HandoffStatus::Received) => Ok(HandoffStatus::Received),
        Ok(pb::HandoffStatus::Rejected) => Ok(HandoffStatus::Rejected),
        Ok(pb::HandoffStatus::Withdrawn) => Ok(HandoffStatus::Withdrawn),
        Ok(pb::HandoffStatus::Expired) => Ok(HandoffStatus::Expired),
        Ok(pb::HandoffStatus::Superseded) => Ok(HandoffStatus::Superseded),
        Ok(pb::HandoffStatus::Stale) => Ok(HandoffStatus::Stale),
        Ok(pb::HandoffStatus::Unspecified) | Ok(pb::HandoffStatus::NotApplicable) | Err(_) => {
            Err(EnumError {
                what: "handoff status",
                number,
                legal: "PENDING, RECEIVED, REJECTED, WITHDRAWN, EXPIRED, SUPERSEDED, STALE",
            })
        }
    }
}

/// The message's value.
#[must_use]
pub fn approval_to_pb(value: Approval) -> pb::ApprovalStatus {
    match value {
        Approval::Unset => pb::ApprovalStatus::Unspecified,
        Approval::NotApplicable => pb::ApprovalStatus::NotApplicable,
        Approval::Pending => pb::ApprovalStatus::Pending,
        Approval::Granted => pb::ApprovalStatus::Granted,
        Approval::Denied => pb::ApprovalStatus::Denied,
        Approval::Invalidated => pb::ApprovalStatus::Invalidated,
        Approval::Expired => pb::ApprovalStatus::Expired,
        Approval::Revoked => pb::ApprovalStatus::Revoked,
        Approval::Consumed => pb::ApprovalStatus::Consumed,
    }
}

/// The core's value.
///
/// # Errors
/// The number names no value.
pub fn approval_from_pb(number: i32) -> Result<Approval, EnumError> {
    match pb::ApprovalStatus::try_from(number) {
        Ok(pb::ApprovalStatus::NotApplicable) => Ok(Approval::NotApplicable),
        Ok(pb::ApprovalStatus::Pending) => Ok(Approval::Pending),
        Ok(pb::ApprovalStatus::Granted) => Ok(Approval::Granted),
        Ok(pb::ApprovalStatus::Denied) => Ok(Approval::Denied),
        Ok(pb::ApprovalStatus::Invalidated) => Ok(Approval::Invalidated),
        Ok(pb::ApprovalStatus::Expired) => Ok(Approval::Expired),
        Ok(pb::ApprovalStatus::Revoked) => Ok(Approval::Revoked),
        Ok(pb::ApprovalStatus::Consumed) => Ok(Approval::Consumed),
        Ok(pb::ApprovalStatus::Unspecified) => Ok(Approval::Unset),
        Err(_) => Err(EnumError {
            what: "approval status",
            number,
            legal: "NOT_APPLICABLE, PENDING, GRANTED, DENIED, INVALIDATED, EXPIRED, REVOKED, \
                CONSUMED",
        }),
    }
}

/// The message's value.
#[must_use]
pub fn disposition_to_pb(value: Disposition) -> pb::Disposition {
    match value {
        Disposition::Open => pb::Disposition::Open,
        Disposition::Closed => pb::Disposition::Closed,
    }
}

/// The core's value.
///
/// # Errors
/// The number names no value.
pub fn disposition_from_pb(number: i32) -> Result<Disposition, EnumError> {
    match pb::Disposition::try_from(number) {
        Ok(pb::Disposition::Open) => Ok(Disposition::Open),
        Ok(pb::Disposition::Closed) => Ok(Disposition::Closed),
        Ok(pb::Disposition::Unspecified) | Err(_) => {
            Err(EnumError { what: "disposition", number, legal: "OPEN, CLOSED" })
        }
    }
}

/// The message's value.
#[must_use]
pub fn released_by_to_pb(value: ReleasedBy) -> pb::ReleasedBy {
    match value {
        ReleasedBy::Nobody => pb::ReleasedBy::Unspecified,
        ReleasedBy::Client => pb::ReleasedBy::Client,
        ReleasedBy::Human => pb::ReleasedBy::Human,
        ReleasedBy::Credential => pb::ReleasedBy::Credential,
        ReleasedBy::Permission => pb::ReleasedBy::Permission,
        ReleasedBy::Other => pb::ReleasedBy::Other,
    }
}

/// The core's value.
///
/// # Errors
/// The number names no value.
pub fn released_by_from_pb(number: i32) -> Result<ReleasedBy, EnumError> {
    match pb::ReleasedBy::try_from(number) {
        Ok(pb::ReleasedBy::Client) => Ok(ReleasedBy::Client),
        Ok(pb::ReleasedBy::Human) => Ok(ReleasedBy::Human),
        Ok(pb::ReleasedBy::Credential) => Ok(ReleasedBy::Credential),
        Ok(pb::ReleasedBy::Permission) => Ok(ReleasedBy::Permission),
        Ok(pb::ReleasedBy::Other) => Ok(ReleasedBy::Other),
        Ok(pb::ReleasedBy::Unspecified) | Err(_) => Err(EnumError {
            what: "released by",
            number,
            legal: "CLIENT, HUMAN, CREDENTIAL, PERMISSION, OTHER",
        }),
    }
}

/// The message's value.
#[must_use]
pub fn end_reason_to_pb(value: EndReason) -> pb::HandoffEndReason {
    match value {
        EndReason::RefusedByReceiver => pb::HandoffEndReason::RefusedByReceiver,
        EndReason::AttemptsExhausted => pb::HandoffEndReason::AttemptsExhausted,
        EndReason::ClaimsExhausted => pb::HandoffEndReason::ClaimsExhausted,
        EndReason::NoReceiverLeft => pb::HandoffEndReason::NoReceiverLeft,
        EndReason::WithdrawnBySender => pb::HandoffEndReason::WithdrawnBySender,
        EndReason::TaskCanceled => pb::HandoffEndReason::TaskCanceled,
        EndReason::ArtifactChanged => pb::HandoffEndReason::ArtifactChanged,
        EndReason::OperatorTakeover => pb::HandoffEndReason::OperatorTakeover,
        EndReason::OwnershipResumed => pb::HandoffEndReason::OwnershipResumed,
    }
}

/// The core's value.
///
/// # Errors
/// The number names no value.
pub fn end_reason_from_pb(number: i32) -> Result<EndReason, EnumError> {
    match pb::HandoffEndReason::try_from(number) {
        Ok(pb::HandoffEndReason::RefusedByReceiver) => Ok(EndReason::RefusedByReceiver),
        Ok(pb::HandoffEndReason::AttemptsExhausted) => Ok(EndReason::AttemptsExhausted),
        Ok(pb::HandoffEndReason::ClaimsExhausted) => Ok(EndReason::ClaimsExhausted),
        Ok(pb::HandoffEndReason::NoReceiverLeft) => Ok(EndReason::NoReceiverLeft),
        Ok(pb::HandoffEndReason::WithdrawnBySender) => Ok(EndReason::WithdrawnBySender),
        Ok(pb::HandoffEndReason::TaskCanceled) => Ok(EndReason::TaskCanceled),
        Ok(pb::HandoffEndReason::ArtifactChanged) => Ok(EndReason::ArtifactChanged),
        Ok(pb::HandoffEndReason::OperatorTakeover) => Ok(EndReason::OperatorTakeover),
        Ok(pb::HandoffEndReason::OwnershipResumed) => Ok(EndReason::OwnershipResumed),
        Ok(pb::HandoffEndReason::Unspecified) | Err(_) => Err(EnumError {
            what: "handoff end reason",
            number,
            legal: "REFUSED_BY_RECEIVER, ATTEMPTS_EXHAUSTED, CLAIMS_EXHAUSTED, NO_RECEIVER_LEFT, \
                WITHDRAWN_BY_SENDER, TASK_CANCELED, ARTIFACT_CHANGED, OPERATOR_TAKEOVER, \
                    OWNERSHIP_RESUMED",
        }),
    }
}

/// The message's value.
#[must_use]
pub fn element_to_pb(value: Element) -> pb::ReceiptElement {
    match value {
        Element::TaskId => pb::ReceiptElement::TaskId,
        Element::Contract => pb::ReceiptElement::Contract,
        Element::SourceSnapshot => pb::ReceiptElement::SourceSnapshot,
        Element::Artifacts => pb::ReceiptElement::Artifacts,
        Element::Scope => pb::ReceiptElement::Scope,
    }
}

/// The core's value.
///
/// # Errors
/// The number names no value.
pub fn element_from_pb(number: i32) -> Result<Element, EnumError> {
    match pb::ReceiptElement::try_from(number) {
        Ok(pb::ReceiptElement::TaskId) => Ok(Element::TaskId),
        Ok(pb::ReceiptElement::Contract) => Ok(Element::Contract),
        Ok(pb::ReceiptElement::SourceSnapshot) => Ok(Element::SourceSnapshot),
        Ok(pb::ReceiptElement::Artifacts) => Ok(Element::Artifacts),
        Ok(pb::ReceiptElement::Scope) => Ok(Element::Scope),
        Ok(pb::ReceiptElement::Unspecified) | Err(_) => Err(EnumError {
            what: "receipt element",
            number,
            legal: "TASK_ID, CONTRACT, SOURCE_SNAPSHOT, ARTIFACTS, SCOPE",
        }),
    }
}

/// The message's value.
#[must_use]
pub fn artifact_state_to_pb(value: ArtifactState) -> pb::ArtifactState {
    match value {
        ArtifactState::Put => pb::ArtifactState::Put,
        ArtifactState::Verified => pb::ArtifactState::Verified,
        ArtifactState::Rejected => pb::ArtifactState::Rejected,
    }
}

/// The core's value.
///
/// # Errors
/// The number names no value.
pub fn artifact_state_from_pb(number: i32) -> Result<ArtifactState, EnumError> {
    match pb::ArtifactState::try_from(number) {
        Ok(pb::ArtifactState::Put) => Ok(ArtifactState::Put),
        Ok(pb::ArtifactState::Verified) => Ok(ArtifactState::Verified),
        Ok(pb::ArtifactState::Rejected) => Ok(ArtifactState::Rejected),
        Ok(pb::ArtifactState::Unspecified) | Err(_) => {
            Err(EnumError { what: "artifact state", number, legal: "PUT, VERIFIED, REJECTED" })
        }
    }
}

/// The message's value.
#[must_use]
pub fn readback_result_to_pb(value: ReadbackResult) -> pb::ReadbackResult {
    match value {
        ReadbackResult::Pass => pb::ReadbackResult::Pass,
        ReadbackResult::Fail => pb::ReadbackResult::Fail,
        ReadbackResult::Inconclusive => pb::ReadbackResult::Inconclusive,
    }
}

/// The core's value.
///
/// # Errors
/// The number names no value.
pub fn readback_result_from_pb(number: i32) -> Result<ReadbackResult, EnumError> {
    match pb::ReadbackResult::try_from(number) {
        Ok(pb::ReadbackResult::Pass) => Ok(ReadbackResult::Pass),
        Ok(pb::ReadbackResult::Fail) => Ok(ReadbackResult::Fail),
        Ok(pb::ReadbackResult::Inconclusive) => Ok(ReadbackResult::Inconclusive),
        Ok(pb::ReadbackResult::Unspecified) | Err(_) => {
            Err(EnumError { what: "readback result", number, legal: "PASS, FAIL, INCONCLUSIVE" })
        }
    }
}

/// The message's value.
#[must_use]
pub fn acceptance_policy_to_pb(value: AcceptancePolicy) -> pb::AcceptancePolicy {
    match value {
        AcceptancePolicy::NotApplicable => pb::AcceptancePolicy::NotApplicable,
        AcceptancePolicy::Verifier => pb::AcceptancePolicy::Verifier,
    }
}

/// The core's value.
///
/// # Errors
/// The number names no value.
pub fn acceptance_policy_from_pb(number: i32) -> Result<AcceptancePolicy, EnumError> {
    match pb::AcceptancePolicy::try_from(number) {
        Ok(pb::AcceptancePolicy::NotApplicable) => Ok(AcceptancePolicy::NotApplicable),
        Ok(pb::AcceptancePolicy::Verifier) => Ok(AcceptancePolicy::Verifier),
        Ok(pb::AcceptancePolicy::Unspecified) | Err(_) => {
            Err(EnumError { what: "acceptance policy", number, legal: "NOT_APPLICABLE, VERIFIER" })
        }
    }
}

/// The axes as a message; the handoff axis is the status of the task's latest handoff.
#[must_use]
pub fn render_axes(axes: &Axes, handoff: Option<HandoffStatus>) -> pb::Axes {
    pb::Axes {
        runtime: runtime_to_pb(axes.runtime).into(),
        acceptance: acceptance_to_pb(axes.acceptance).into(),
        handoff: handoff.map_or(pb::HandoffStatus::Unspecified, handoff_status_to_pb).into(),
        approval: approval_to_pb(axes.approval).into(),
        disposition: disposition_to_pb(axes.disposition).into(),
        released_by: released_by_to_pb(axes.released_by).into(),
        effect_uncertain: axes.effect_uncertain,
    }
}

/// The stored axes. The handoff axis is kept with the handoff.
///
/// # Errors
/// A number names no value, or the axes contradict each other: a value was lost.
pub fn load_axes(axes: Option<&pb::Axes>) -> Result<Axes, StoredError> {
    const NAME: &str = "Axes";
    let axes = axes.ok_or_else(|| StoredError::missing(NAME, "axes"))?;
    let released_by = if axes.released_by == 0 {
        ReleasedBy::Nobody
    } else {
        released_by_from_pb(axes.released_by)
            .map_err(|e| StoredError::bad(NAME, "released_by", &e))?
    };
    let loaded = Axes {
        runtime: runtime_from_pb(axes.runtime)
            .map_err(|e| StoredError::bad(NAME, "runtime", &e))?,
        acceptance: acceptance_from_pb(axes.acceptance)
            .map_err(|e| StoredError::bad(NAME, "acceptance", &e))?,
        approval: approval_from_pb(axes.approval)
            .map_err(|e| StoredError::bad(NAME, "approval", &e))?,
        disposition: disposition_from_pb(axes.disposition)
            .map_err(|e| StoredError::bad(NAME, "disposition", &e))?,
        released_by,
        effect_uncertain: axes.effect_uncertain,
    };
    loaded.check().map_err(|broken| StoredError::bad(NAME, "axes", &broken))?;
    Ok(loaded)
}

/// The A2A state as A2A's own value.
#[must_use]
pub fn a2a_state_to_pb(state: A2aState) -> a2a::TaskState {
    match state {
        A2aState::Submitted => a2a::TaskState::Submitted,
        A2aState::Working => a2a::TaskState::Working,
        A2aState::InputRequired => a2a::TaskState::InputRequired,
        A2aState::AuthRequired => a2a::TaskState::AuthRequired,
        A2aState::Completed => a2a::TaskState::Completed,
        A2aState::Failed => a2a::TaskState::Failed,
        A2aState::Canceled => a2a::TaskState::Canceled,
        A2aState::Rejected => a2a::TaskState::Rejected,
    }
}
