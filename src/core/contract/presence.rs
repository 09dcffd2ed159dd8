//! Which kind of something or nothing a field holds.
//!
//! What lives here: one function per document that answers for any of the 44 fields, as an
//! exhaustive match. What does not: whether that is good enough (`check`). Invariants: the kinds of
//! nothing stay apart; a default value, a blank text and an unspecified enum value are never a
//! value; nothing is inferred from another field.

use crate::proto::baton::v1 as pb;

use super::field::Field;
use super::stated::Stated;

/// What a field holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Nobody said anything.
    Absent,
    /// Explicitly nothing: the empty set, an empty text.
    Empty,
    /// A value.
    Value,
    /// The field does not apply.
    NotApplicable,
    /// A value exists and is not established; why.
    Unknown(String),
    /// Nobody supplies the value; why.
    NotAvailable(String),
    /// The value comes later; how.
    Pending(String),
    /// An absence was given that does not say which kind it is.
    Unsaid,
}

/// How a packet says that the receipt is not there yet.
const RECEIPT_IS_DUE: &str = "the next owner's receipt";

/// What a contract says about a field.
#[must_use]
pub fn presence(contract: &pb::OperatingContract, field: Field) -> Presence {
    let c = contract;
    match field {
        Field::ContractVersion => text(&c.contract_version),
        Field::TaskId => text(&c.task_id),
        Field::RunId => text(&c.run_id),
        Field::ContextId => text(&c.context_id),
        Field::ExecutionActor => said(&c.execution_actor, is_default),
        Field::RunTimeWindow => said(&c.run_time_window, is_default),
        Field::ConfigReleaseRef => text(&c.config_release_ref),
        Field::Objective => text(&c.objective),
        Field::CompletionCriteria => texts(&c.completion_criteria),
        Field::AcceptanceContractRef => text(&c.acceptance_contract_ref),
        Field::AllowedActions => texts(&c.allowed_actions),
        Field::ProhibitedActions => texts(&c.prohibited_actions),
        Field::AuthorizationScope => said(&c.authorization_scope, is_default),
        Field::SideEffectProfile => said(&c.side_effect_profile, is_default),
        Field::RetryIdempotencyPolicy => said(&c.retry_idempotency_policy, is_default),
        Field::AuthoritativeInputs => said(&c.authoritative_inputs, |l| none_said(&l.items)),
        Field::SourceAuthorityRule => text(&c.source_authority_rule),
        Field::InputEntityVersionSnapshot => snapshot(&c.input_entity_version_snapshot),
        Field::CurrentState => text(&c.current_state),
        Field::RuntimeStatus => runtime_field(&c.runtime_status),
        Field::BusinessAcceptanceStatus => acceptance_field(&c.business_acceptance_status),
        Field::ExpectedArtifacts => said(&c.expected_artifacts, |l| none_said(&l.items)),
        Field::ArtifactDescriptor => said(&c.artifact_descriptor, |l| none_said(&l.items)),
        Field::OutputLineage => said(&c.output_lineage, |l| none_said(&l.items)),
        Field::UpdateMode => update_mode(&c.update_mode),
        Field::ExecutionEvidence => said(&c.execution_evidence, is_default),
        Field::ApprovalEvidence => said(&c.approval_evidence, is_default),
        Field::ReadbackEvidence => said(&c.readback_evidence, is_default),
        Field::CheckpointIdTime => said(&c.checkpoint_id_time, |v| blank(&v.id)),
        Field::CompletedUnits => said(&c.completed_units, |l| none_said(&l.items)),
        Field::NotDone => said(&c.not_done, |l| none_said(&l.items)),
        Field::DecisionsAndRejectedAlternatives => {
            said(&c.decisions_and_rejected_alternatives, |l| none_said(&l.items))
        }
        Field::OpenUnknowns => said(&c.open_unknowns, |l| none_said(&l.items)),
        Field::Blockers => said(&c.blockers, |l| none_said(&l.items)),
        Field::HandoffFrom => said(&c.handoff_from, |v| blank(&v.id)),
        Field::NextOwner => said(&c.next_owner, |v| blank(&v.id)),
        Field::HandoffReason => text(&c.handoff_reason),
        Field::HistoryPointerOrCuratedHistory => {
            said(&c.history_pointer_or_curated_history, |v| blank(&v.r#ref))
        }
        Field::HandoffReceipt => said(&c.handoff_receipt, is_default),
        Field::NextAction => text(&c.next_action),
        Field::StopCondition => texts(&c.stop_condition),
        Field::RecoveryOrFallbackRef => said(&c.recovery_or_fallback_ref, is_default),
        Field::EvidenceLabels => said(&c.evidence_labels, |l| none_said(&l.items)),
        Field::LastUpdated => said(&c.last_updated, is_default),
    }
}

/// What a contract document says about a field. Of a field that is not one of its 15 it says
/// nothing.
#[must_use]
pub fn presence_in_document(document: &pb::ContractDocument, field: Field) -> Presence {
    let d = document;
    match field {
        Field::ContractVersion => text(&d.contract_version),
        Field::ConfigReleaseRef => text(&d.config_release_ref),
        Field::Objective => text(&d.objective),
        Field::CompletionCriteria => texts(&d.completion_criteria),
        Field::AcceptanceContractRef => text(&d.acceptance_contract_ref),
        Field::AllowedActions => texts(&d.allowed_actions),
        Field::ProhibitedActions => texts(&d.prohibited_actions),
        Field::SideEffectProfile => said(&d.side_effect_profile, is_default),
        Field::RetryIdempotencyPolicy => said(&d.retry_idempotency_policy, is_default),
        Field::AuthoritativeInputs => said(&d.authoritative_inputs, |l| none_said(&l.items)),
        Field::SourceAuthorityRule => text(&d.source_authority_rule),
        Field::ExpectedArtifacts => said(&d.expected_artifacts, |l| none_said(&l.items)),
        Field::UpdateMode => update_mode(&d.update_mode),
        Field::StopCondition => texts(&d.stop_condition),
        Field::RecoveryOrFallbackRef => said(&d.recovery_or_fallback_ref, is_default),
        Field::TaskId
        | Field::RunId
        | Field::ContextId
        | Field::ExecutionActor
        | Field::RunTimeWindow
        | Field::AuthorizationScope
        | Field::InputEntityVersionSnapshot
        | Field::CurrentState
        | Field::RuntimeStatus
        | Field::BusinessAcceptanceStatus
        | Field::ArtifactDescriptor
        | Field::OutputLineage
        | Field::ExecutionEvidence
        | Field::ApprovalEvidence
        | Field::ReadbackEvidence
        | Field::CheckpointIdTime
        | Field::CompletedUnits
        | Field::NotDone
        | Field::DecisionsAndRejectedAlternatives
        | Field::OpenUnknowns
        | Field::Blockers
        | Field::HandoffFrom
        | Field::NextOwner
        | Field::HandoffReason
        | Field::HistoryPointerOrCuratedHistory
        | Field::HandoffReceipt
        | Field::NextAction
        | Field::EvidenceLabels
        | Field::LastUpdated => Presence::Absent,
    }
}

/// What a packet says about a field. The terms come from the contract that it carries, except
/// `STOP_CONDITION`, which is the one in force for the receiver. The receipt is pending: a packet
/// is an offer. Of evidence and lineage of the contract, a packet says nothing.
#[must_use]
pub fn presence_in_packet(packet: &pb::HandoffPacket, field: Field) -> Presence {
    let p = packet;
    match field {
        Field::TaskId => plain(&p.task_id),
        Field::RunId => text(&p.run_id),
        Field::ContextId => text(&p.context_id),
        Field::AuthorizationScope => whole(&p.scope, is_default),
        Field::InputEntityVersionSnapshot => snapshot(&p.source_snapshot),
        Field::CurrentState => text(&p.current_state),
        Field::RuntimeStatus => runtime(p.runtime_status),
        Field::BusinessAcceptanceStatus => acceptance(p.business_acceptance_status),
        Field::ArtifactDescriptor => said(&p.artifact_descriptors, |l| none_said(&l.items)),
        Field::ExecutionEvidence => said(&p.execution_evidence, is_default),
        Field::CheckpointIdTime => whole(&p.last_safe_checkpoint, |v| blank(&v.id)),
        Field::CompletedUnits => said(&p.completed_units, |l| none_said(&l.items)),
        Field::NotDone => said(&p.not_done, |l| none_said(&l.items)),
        Field::OpenUnknowns => said(&p.open_unknown, |l| none_said(&l.items)),
        Field::Blockers => said(&p.blockers, |l| none_said(&l.items)),
        Field::HandoffFrom => whole(&p.handoff_from, |v| blank(&v.id)),
        Field::NextOwner => whole(&p.next_owner, |v| blank(&v.id)),
        Field::HandoffReason => text(&p.handoff_reason),
        Field::HistoryPointerOrCuratedHistory => said(&p.history_pointer, |v| blank(&v.r#ref)),
        Field::HandoffReceipt => Presence::Pending(RECEIPT_IS_DUE.to_owned()),
        Field::NextAction => text(&p.next_action),
        Field::StopCondition => texts(&p.stop_condition),
        Field::LastUpdated => whole(&p.last_updated, |v| v.time.is_none() || blank(&v.by)),
        Field::ContractVersion
        | Field::ConfigReleaseRef
        | Field::Objective
        | Field::CompletionCriteria
        | Field::AcceptanceContractRef
        | Field::AllowedActions
        | Field::ProhibitedActions
        | Field::SideEffectProfile
        | Field::RetryIdempotencyPolicy
        | Field::AuthoritativeInputs
        | Field::SourceAuthorityRule
        | Field::ExpectedArtifacts
        | Field::UpdateMode
        | Field::RecoveryOrFallbackRef => p
            .contract
            .as_ref()
            .map_or(Presence::Absent, |document| presence_in_document(document, field)),
        Field::ExecutionActor
        | Field::RunTimeWindow
        | Field::OutputLineage
        | Field::ApprovalEvidence
        | Field::ReadbackEvidence
        | Field::DecisionsAndRejectedAlternatives
        | Field::EvidenceLabels => Presence::Absent,
    }
}

/// A field message: its absence as said; its value, unless `nothing` finds none in it.
pub(super) fn said<F: Stated>(field: &Option<F>, nothing: impl Fn(&F::Value) -> bool) -> Presence {
    match field.as_ref().and_then(Stated::said) {
        None => Presence::Absent,
        Some(Err(absence)) => absent(absence),
        Some(Ok(value)) if nothing(value) => Presence::Empty,
        Some(Ok(_)) => Presence::Value,
    }
}

/// A message that cannot say which kind of nothing it holds.
pub(super) fn whole<M>(message: &Option<M>, nothing: impl Fn(&M) -> bool) -> Presence {
    match message {
        None => Presence::Absent,
        Some(message) if nothing(message) => Presence::Empty,
        Some(_) => Presence::Value,
    }
}

/// A text field.
pub(super) fn text(field: &Option<pb::TextField>) -> Presence {
    said(field, |value| blank(value))
}

/// A plain text of the wire: unset and empty are the same there, and both say nothing.
pub(super) fn plain(text: &str) -> Presence {
    if text.is_empty() {
        Presence::Absent
    } else if blank(text) {
        Presence::Empty
    } else {
        Presence::Value
    }
}

/// True if nobody could read anything in it.
pub(super) fn blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// True if no item says anything.
pub(super) fn none_said<M: Default + PartialEq>(items: &[M]) -> bool {
    items.iter().all(is_default)
}

/// True if nothing in it was set.
pub(super) fn is_default<M: Default + PartialEq>(message: &M) -> bool {
    *message == M::default()
}

fn texts(field: &Option<pb::TextListField>) -> Presence {
    said(field, |list| list.items.iter().all(|item| blank(item)))
}

fn snapshot(field: &Option<pb::SourceSnapshotField>) -> Presence {
    said(field, |value| none_said(&value.entities))
}

fn absent(absence: &pb::Absence) -> Presence {
    use pb::absence::Kind;
    match &absence.kind {
        None => Presence::Unsaid,
        Some(Kind::NotApplicable(_)) => Presence::NotApplicable,
        Some(Kind::Unknown(unknown)) => Presence::Unknown(unknown.reason.clone()),
        Some(Kind::NotAvailable(missing)) => Presence::NotAvailable(missing.reason.clone()),
        Some(Kind::Pending(pending)) => Presence::Pending(pending.planned_method.clone()),
    }
}

fn runtime_field(field: &Option<pb::RuntimeStatusField>) -> Presence {
    match field.as_ref().and_then(Stated::said) {
        None => Presence::Absent,
        Some(Err(absence)) => absent(absence),
        Some(Ok(status)) => runtime(*status),
    }
}

fn acceptance_field(field: &Option<pb::BusinessAcceptanceStatusField>) -> Presence {
    match field.as_ref().and_then(Stated::said) {
        None => Presence::Absent,
        Some(Err(absence)) => absent(absence),
        Some(Ok(status)) => acceptance(*status),
    }
}

fn update_mode(field: &Option<pb::UpdateModeField>) -> Presence {
    match field.as_ref().and_then(Stated::said) {
        None => Presence::Absent,
        Some(Err(absence)) => absent(absence),
        Some(Ok(mode)) => match pb::UpdateModeKind::try_from(mode.kind) {
            Err(_) | Ok(pb::UpdateModeKind::Unspecified) => Presence::Absent,
            Ok(_) => Presence::Value,
        },
    }
}

// A number that this version does not know says nothing to it; it is not taken for a value.
fn runtime(status: i32) -> Presence {
    match pb::RuntimeStatus::try_from(status) {
        Err(_) | Ok(pb::RuntimeStatus::Unspecified) => Presence::Absent,
        Ok(_) => Presence::Value,
    }
}

fn acceptance(status: i32) -> Presence {
    use pb::BusinessAcceptanceStatus as Status;
    match Status::try_from(status) {
        Err(_) | Ok(Status::Unspecified) => Presence::Absent,
        Ok(Status::NotApplicable) => Presence::NotApplicable,
        Ok(Status::Verifying | Status::Accepted | Status::Rejected) => Presence::Value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::contract::example;

    fn absence(kind: Option<pb::absence::Kind>) -> Option<pb::TextField> {
        let absence = pb::Absence { kind };
        Some(pb::TextField { state: Some(pb::text_field::State::Absence(absence)) })
    }

    // Two kinds of nothing that read the same would let "not asked" pass for "none". REQ-010,
    // REQ-254
    #[test]
    fn every_kind_of_nothing_stays_apart() {
        use pb::absence::Kind;
        let unknown = Kind::Unknown(pb::Unknown { reason: "a".to_owned() });
        let missing = Kind::NotAvailable(pb::NotAvailable { reason: "b".to_owned() });
        let pending = Kind::Pending(pb::Pending { planned_method: "c".to_owned() });
        let cases = [
            (None, Presence::Absent),
            (Some(pb::TextField { state: None }), Presence::Absent),
            (example::text(""), Presence::Empty),
            (example::text(" \t\n"), Presence::Empty),
            (example::text("x"), Presence::Value),
            (absence(Some(Kind::NotApplicable(pb::NotApplicable {}))), Presence::NotApplicable),
            (absence(Some(unknown)), Presence::Unknown("a".to_owned())),
            (absence(Some(missing)), Presence::NotAvailable("b".to_owned())),
            (absence(Some(pending)), Presence::Pending("c".to_owned())),
            (absence(None), Presence::Unsaid),
        ];
        for (field, expected) in cases {
            let contract =
                pb::OperatingContract { current_state: field.clone(), ..Default::default() };
            assert_eq!(presence(&contract, Field::CurrentState), expected, "{field:?}");
        }
    }

    // A list of blanks would pass for content. REQ-254
    #[test]
    fn lists_are_absent_empty_or_filled() {
        let state = |items: Vec<pb::Blocker>| {
            let list = pb::BlockerList { items };
            pb::BlockerListField { state: Some(pb::blocker_list_field::State::Value(list)) }
        };
        let filled = pb::Blocker { id: "b-1".to_owned(), ..Default::default() };
        let blanks = vec![pb::Blocker::default(), pb::Blocker::default()];
        let cases = [
            (None, Presence::Absent),
            (Some(pb::BlockerListField { state: None }), Presence::Absent),
            (Some(state(Vec::new())), Presence::Empty),
            (Some(state(blanks)), Presence::Empty),
            (Some(state(vec![filled])), Presence::Value),
        ];
        for (field, expected) in cases {
            let contract = pb::OperatingContract { blockers: field.clone(), ..Default::default() };
            assert_eq!(presence(&contract, Field::Blockers), expected, "{field:?}");
        }
        let stop = |items: &[&str]| {
            let contract = pb::OperatingContract {
                stop_condition: example::texts(items),
                ..Default::default()
            };
            presence(&contract, Field::StopCondition)
        };
        assert_eq!(stop(&[]), Presence::Empty);
        assert_eq!(stop(&[" ", ""]), Presence::Empty);
        assert_eq!(stop(&[" ", "done"]), Presence::Value);
    }

    // A zero enum value would pass for a state that nobody reported. REQ-254
    #[test]
    fn an_unspecified_or_unknown_enum_value_is_absent() {
        let status = |number: i32| {
            let packet = pb::HandoffPacket {
                runtime_status: number,
                business_acceptance_status: number,
                ..Default::default()
            };
            [Field::RuntimeStatus, Field::BusinessAcceptanceStatus]
                .map(|field| presence_in_packet(&packet, field))
        };
        assert_eq!(status(0), [Presence::Absent, Presence::Absent]);
        assert_eq!(status(1), [Presence::Value, Presence::NotApplicable]);
        assert_eq!(status(2), [Presence::Value, Presence::Value]);
        assert_eq!(status(999), [Presence::Absent, Presence::Absent]);
    }

    // A default message that holds anything would fill in what nobody said. REQ-254
    #[test]
    fn a_default_message_says_nothing() {
        for field in Field::all() {
            let name = field.name();
            let contract = presence(&pb::OperatingContract::default(), field);
            assert_eq!(contract, Presence::Absent, "{name}");
            let document = presence_in_document(&pb::ContractDocument::default(), field);
            assert_eq!(document, Presence::Absent, "{name}");
            let packet = presence_in_packet(&pb::HandoffPacket::default(), field);
            let receipt = field == Field::HandoffReceipt;
            assert_eq!(packet == Presence::Absent, !receipt, "{name}");
        }
    }

    // A field read from the wrong place would be judged by another one's content. REQ-056
    #[test]
    fn the_example_holds_what_the_catalogue_s_complete_handoff_holds() {
        use Field as F;
        let unasked = [
            F::RunId,
            F::ContextId,
            F::SideEffectProfile,
            F::RetryIdempotencyPolicy,
            F::SourceAuthorityRule,
            F::OutputLineage,
            F::UpdateMode,
            F::ApprovalEvidence,
            F::DecisionsAndRejectedAlternatives,
            F::RecoveryOrFallbackRef,
        ];
        let contract = example::contract();
        for field in Field::all() {
            let expected = match field {
                F::OpenUnknowns | F::Blockers => Presence::Empty,
                _ if unasked.contains(&field) => Presence::Absent,
                _ => Presence::Value,
            };
            assert_eq!(presence(&contract, field), expected, "{}", field.name());
        }
    }
}
