//! What the checks find and what they let pass.
//!
//! What lives here: drop-one sweeps over the complete example, and each kind of nothing. What does
//! not: the entries of lists (`content`). Invariant: one change gives exactly the finding that it
//! causes.

use super::*;
use crate::core::contract::example;

type Drop<M> = (&'static str, fn(&mut M));

fn codes(findings: &[Finding]) -> Vec<(&'static str, &'static str)> {
    findings.iter().map(|f| (f.code, f.field)).collect()
}

fn offer(packet: &pb::HandoffPacket) -> Vec<Finding> {
    check_offer(&example::contract(), packet, &example::shape(), false)
}

fn absent_text(kind: Option<pb::absence::Kind>) -> Option<pb::TextField> {
    let absence = pb::Absence { kind };
    Some(pb::TextField { state: Some(pb::text_field::State::Absence(absence)) })
}

fn unknown(reason: &str) -> Option<pb::absence::Kind> {
    Some(pb::absence::Kind::Unknown(pb::Unknown { reason: reason.to_owned() }))
}

const M0: [Drop<pb::OperatingContract>; 7] = [
    ("ALLOWED_ACTIONS", |c| c.allowed_actions = None),
    ("COMPLETION_CRITERIA", |c| c.completion_criteria = None),
    ("CONTRACT_VERSION", |c| c.contract_version = None),
    ("EVIDENCE_LABELS", |c| c.evidence_labels = None),
    ("OBJECTIVE", |c| c.objective = None),
    ("PROHIBITED_ACTIONS", |c| c.prohibited_actions = None),
    ("STOP_CONDITION", |c| c.stop_condition = None),
];

/// Everything that a packet must have, by the name that its finding has, in order of names.
const PACKET: [Drop<pb::HandoffPacket>; 25] = [
    ("ARTIFACT_DESCRIPTOR", |p| p.artifact_descriptors = None),
    ("AUTHORIZATION_SCOPE", |p| p.scope = None),
    ("BLOCKERS", |p| p.blockers = None),
    ("CHECKPOINT_ID_TIME", |p| p.last_safe_checkpoint = None),
    ("COMPLETED_UNITS", |p| p.completed_units = None),
    ("CURRENT_STATE", |p| p.current_state = None),
    ("HANDOFF_FROM", |p| p.handoff_from = None),
    ("HANDOFF_REASON", |p| p.handoff_reason = None),
    ("HISTORY_POINTER_OR_CURATED_HISTORY", |p| p.history_pointer = None),
    ("INPUT_ENTITY_VERSION_SNAPSHOT", |p| p.source_snapshot = None),
    ("LAST_UPDATED", |p| p.last_updated = None),
    ("NEXT_ACTION", |p| p.next_action = None),
    ("NEXT_OWNER", |p| p.next_owner = None),
    ("NOT_DONE", |p| p.not_done = None),
    ("OPEN_UNKNOWNS", |p| p.open_unknown = None),
    ("RUNTIME_STATUS", |p| p.runtime_status = 0),
    ("STOP_CONDITION", |p| p.stop_condition = None),
    ("TASK_ID", |p| p.task_id.clear()),
    ("active_goal", |p| p.active_goal = None),
    ("canonical_pointers", |p| p.canonical_pointers = None),
    ("completed_boundary", |p| p.completed_boundary = None),
    ("external_side_effects", |p| p.external_side_effects = None),
    ("pending_action", |p| p.pending_action = None),
    ("resume_invariants", |p| p.resume_invariants = None),
    ("version_set", |p| p.version_set = None),
];

const CHECKPOINT: [Drop<pb::Checkpoint>; 9] = [
    ("ARTIFACT_DESCRIPTOR", |c| c.artifact_descriptors = None),
    ("BLOCKERS", |c| c.blockers = None),
    ("CHECKPOINT_ID_TIME", |c| c.id.clear()),
    ("COMPLETED_UNITS", |c| c.completed_units = None),
    ("CURRENT_STATE", |c| c.current_state = None),
    ("INPUT_ENTITY_VERSION_SNAPSHOT", |c| c.source_snapshot = None),
    ("NEXT_ACTION", |c| c.next_action = None),
    ("NOT_DONE", |c| c.not_done = None),
    ("OPEN_UNKNOWNS", |c| c.open_unknown = None),
];

fn sweep<M: Clone>(whole: &M, drops: &[Drop<M>], check: impl Fn(&M) -> Vec<Finding>) {
    assert_eq!(check(whole), []);
    for (name, drop) in drops {
        let mut message = whole.clone();
        drop(&mut message);
        assert_eq!(codes(&check(&message)), [(code::MISSING_FIELD, *name)]);
    }
}

// A contract without one of the seven would be worked on without a boundary. REQ-001
#[test]
fn each_of_the_seven_fields_of_m0_is_missed() {
    sweep(&example::contract(), &M0, check_materialised);
}

// A packet without one of them could not be continued from. REQ-005, REQ-008, REQ-055, REQ-056,
// REQ-057, REQ-063
#[test]
fn each_part_of_a_packet_is_missed() {
    sweep(&example::packet("task-7"), &PACKET, offer);
}

// A checkpoint without one of them would be a summary. REQ-098
#[test]
fn each_part_of_a_checkpoint_is_missed() {
    sweep(&example::checkpoint(), &CHECKPOINT, check_checkpoint);
}

// A default that counted as a value would pass an empty form. REQ-254
#[test]
fn default_messages_miss_every_required_field_at_once() {
    fn missing<M>(drops: &[Drop<M>]) -> Vec<(&'static str, &'static str)> {
        drops.iter().map(|(name, _)| (code::MISSING_FIELD, *name)).collect()
    }
    assert_eq!(codes(&check_materialised(&Default::default())), missing(&M0));
    assert_eq!(codes(&check_checkpoint(&Default::default())), missing(&CHECKPOINT));
    assert_eq!(codes(&offer(&Default::default())), missing(&PACKET));
}

// Nothing of any kind is a term, and the finding must say which kind it was. REQ-001, REQ-002,
// REQ-010
#[test]
fn m0_accepts_no_kind_of_nothing() {
    use pb::absence::Kind;
    let missing = Kind::NotAvailable(pb::NotAvailable { reason: "no supplier".to_owned() });
    let pending = Kind::Pending(pb::Pending { planned_method: "ask".to_owned() });
    let not_applicable = Kind::NotApplicable(pb::NotApplicable {});
    let cases = [
        (None, code::MISSING_FIELD),
        (example::text(" "), code::EMPTY_NOT_ALLOWED),
        (absent_text(Some(not_applicable)), code::NOT_APPLICABLE_NOT_ALLOWED),
        (absent_text(unknown("not asked")), code::UNKNOWN_NOT_ALLOWED),
        (absent_text(Some(missing)), code::NOT_AVAILABLE_NOT_ALLOWED),
        (absent_text(Some(pending)), code::PENDING_NOT_ALLOWED),
        (absent_text(unknown("")), code::UNKNOWN_WITHOUT_REASON),
        (absent_text(None), code::UNKNOWN_WITHOUT_REASON),
    ];
    for (objective, code) in cases {
        let contract = pb::OperatingContract { objective, ..example::contract() };
        assert_eq!(codes(&check_materialised(&contract)), [(code, "OBJECTIVE")]);
    }
    let prohibited_actions = example::texts(&[]);
    let contract = pb::OperatingContract { prohibited_actions, ..example::contract() };
    let expected = [(code::EMPTY_NOT_ALLOWED, "PROHIBITED_ACTIONS")];
    assert_eq!(codes(&check_materialised(&contract)), expected);
}

// An unknown without its reason cannot be closed by anybody, required field or not. REQ-010
#[test]
fn an_absence_without_its_reason_is_found_in_any_field() {
    let mut contract = example::contract();
    contract.context_id = absent_text(None);
    contract.run_id = absent_text(unknown(" "));
    let mut packet = example::packet("task-7");
    packet.context_id = absent_text(unknown(""));
    let nameless = (code::UNKNOWN_WITHOUT_REASON, "CONTEXT_ID");
    assert_eq!(
        codes(&check_materialised(&contract)),
        [nameless, (code::UNKNOWN_WITHOUT_REASON, "RUN_ID")]
    );
    assert_eq!(codes(&offer(&packet)), [nameless]);
    packet.context_id = absent_text(unknown("no group was given"));
    assert_eq!(offer(&packet), []);
}

// A contract of another version would be judged by the wrong rules.
#[test]
fn an_unsupported_version_is_named() {
    let contract_version = example::text("9.9");
    let contract = pb::OperatingContract { contract_version, ..example::contract() };
    let expected = [(code::UNSUPPORTED_CONTRACT_VERSION, "CONTRACT_VERSION")];
    assert_eq!(codes(&check_materialised(&contract)), expected);
}

// A dead owner's task could never be offered; a live owner could hide its state. REQ-010
#[test]
fn only_an_offer_on_behalf_accepts_unknown() {
    let mut packet = example::packet("task-7");
    packet.current_state = absent_text(unknown("the owner died before its first checkpoint"));
    packet.version_set = Some(pb::VersionSetField {
        state: Some(pb::version_set_field::State::Absence(pb::Absence {
            kind: unknown("never recorded"),
        })),
    });
    packet.last_safe_checkpoint = None;
    let (contract, shape) = (example::contract(), example::shape());
    assert_eq!(check_offer(&contract, &packet, &shape, true), []);
    assert_eq!(
        codes(&check_offer(&contract, &packet, &shape, false)),
        [
            (code::MISSING_FIELD, "CHECKPOINT_ID_TIME"),
            (code::UNKNOWN_NOT_ALLOWED, "CURRENT_STATE"),
            (code::UNKNOWN_NOT_ALLOWED, "version_set"),
        ]
    );
    packet.handoff_reason = absent_text(unknown("who knows"));
    packet.current_state = example::text("stage 2");
    assert_eq!(
        codes(&check_offer(&contract, &packet, &shape, true)),
        [
            (code::MISSING_FIELD, "CHECKPOINT_ID_TIME"),
            (code::UNKNOWN_NOT_ALLOWED, "HANDOFF_REASON"),
        ]
    );
}

// History that nobody needs would be demanded, or one that matters be left behind. REQ-008
#[test]
fn history_is_asked_for_only_where_it_matters() {
    let packet = pb::HandoffPacket { history_pointer: None, ..example::packet("task-7") };
    let mut shape = example::shape();
    shape.traits.retain(|t| *t != pb::Trait::HistoryMatters as i32);
    assert_eq!(check_offer(&example::contract(), &packet, &shape, false), []);
}

// A receiver nobody can name would hold the task. REQ-063
#[test]
fn an_empty_next_owner_is_refused() {
    let next_owner = Some(pb::Owner { role: "reviewer".to_owned(), ..Default::default() });
    let packet = pb::HandoffPacket { next_owner, ..example::packet("task-7") };
    assert_eq!(codes(&offer(&packet)), [(code::EMPTY_NOT_ALLOWED, "NEXT_OWNER")]);
}
