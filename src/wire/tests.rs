//! Both directions of the conversions, held together over every variant.
//!
//! What lives here: round trips, and what a stored message that lost one field does. What does not:
//! canonical bytes and requests. Invariant: a field of a stored message is either required, or
//! stands in [`OPTIONAL`] because leaving it out says something; there is no third kind.

use std::fmt::Debug;

use proptest::prelude::*;
use prost::{Message, Name};
use prost_reflect::{DynamicMessage, ReflectMessage as _, Value};

use super::event::{event_digest, load_event, render_event};
use super::handoff::{load_handoff, parse_receiver, render_handoff};
use super::reason::{reason_from_pb, reason_to_pb};
use super::scope::{load_scope, parse_scope, render_scope};
use super::task::{load_task, render_task};
use super::test_strategies as made;
use super::time::{parse_duration, parse_timestamp, render_duration, render_timestamp};
use super::violations::Violations;
use super::{StoredError, axis, canon};
use crate::core::refusal::Reason;
use crate::proto::baton::v1 as pb;

/// Fields that say something by their absence, a zero or an empty text, in stored messages; `*` is
/// every field of the message.
const OPTIONAL: &[&str] = &[
    // Free text, sizes, and what a producer need not say.
    "ArtifactDescriptor.type",
    "ArtifactDescriptor.media_type",
    "ArtifactDescriptor.location",
    "ArtifactDescriptor.role",
    "ArtifactDescriptor.size_bytes",
    "ArtifactDescriptor.digested",
    "ArtifactRecord.run_id",
    "ArtifactRecord.content",
    "ElementAssurance.key",
    "Task.context_id",
    "Task.task_class",
    "TaskCreated.context_id",
    "TaskCreated.task_class",
    // Always the same today, and not read.
    "ArtifactDescriptor.digest_algorithm",
    "ArtifactDescriptor.carrier",
    // "Not said" is a value of these axes; the handoff axis is held against the handoff.
    "Axes.acceptance",
    "Axes.approval",
    "Axes.handoff",
    "Axes.released_by",
    "Axes.effect_uncertain",
    // Sets may be empty.
    "AuthorizationScope.approval_conditions",
    "AuthorizationScope.prohibitions",
    "Handoff.assurances",
    "Handoff.refused_by",
    "HandoffReceived.assurances",
    "ReceiptRefused.elements",
    "Task.artifacts",
    "Task.digests_shown_to",
    "Task.past_owners",
    "TaskPolicy.approvers",
    "TaskPolicy.expected",
    "TaskPolicy.verifiers",
    // Flags and counts that start at nothing.
    "CheckpointPut.not_done_units",
    "Handoff.attempts",
    "Handoff.blind",
    "Handoff.claims",
    "Handoff.echo_allowed",
    "Task.artifacts_changed_since_checkpoint",
    "Task.cancel_requested",
    "Task.not_done_units",
    "Task.owner_absent",
    "TaskPolicy.originator_may_offer_on_behalf",
    "TaskPolicy.side_effecting",
    "TaskPolicy.trust_boundary",
    // Parts that a task, a handoff or an event may be without.
    "AuthorizationScope.expires_at",
    "Event.digest",
    "Event.request_id",
    "Handoff.checkpoint_digest",
    "Handoff.claim",
    "Handoff.end_note",
    "Handoff.end_reason",
    "Handoff.failing_element",
    "Handoff.on_behalf_note",
    "Handoff.supersedes",
    "HandoffEnded.failing_element",
    "HandoffEnded.note",
    "HandoffEnded.reason",
    "HandoffReturned.failing_element",
    "HandoffReturned.note",
    "PastOwner.handoff_id",
    "Task.freeze",
    "Task.last_request_id",
    "Task.scope",
    "Task.status_report",
    "TaskCanceled.note",
    "TaskCreated.scope",
    "TaskPolicy.owner_lease",
    // The zero of protobuf's own times is a time.
    "Timestamp.*",
    "Duration.*",
    // As the contract's EXPECTED_ARTIFACTS says them, which may leave either out.
    "ExpectedRole.*",
    // Known from the key or the value around it.
    "Event.task_id",
    "Handoff.task_class",
    "Handoff.task_id",
];

fn is_optional(message: &str, field: &str) -> bool {
    let message = message.rsplit('.').next().unwrap_or(message);
    OPTIONAL.iter().any(|o| *o == format!("{message}.{field}") || *o == format!("{message}.*"))
}

/// Copies of the message that lack one field each, at any depth, with the field's name.
fn without_one(message: &DynamicMessage) -> Vec<(String, String, DynamicMessage)> {
    let mut all = Vec::new();
    for (field, value) in message.fields() {
        let owner = message.descriptor().full_name().to_owned();
        let mut less = message.clone();
        less.clear_field(&field);
        all.push((owner, field.name().to_owned(), less));
        let mut inside = |at: &dyn Fn(DynamicMessage) -> Value, inner: &DynamicMessage| {
            for (owner, name, less) in without_one(inner) {
                let mut whole = message.clone();
                whole.set_field(&field, at(less));
                all.push((owner, name, whole));
            }
        };
        match value {
            Value::Message(inner) => inside(&Value::Message, inner),
            Value::List(items) => {
                for (n, item) in items.iter().enumerate() {
                    let Value::Message(inner) = item else { continue };
                    let at = |less: DynamicMessage| {
                        let mut items = items.clone();
                        items[n] = Value::Message(less);
                        Value::List(items)
                    };
                    inside(&at, inner);
                }
            }
            _ => {}
        }
    }
    all
}

/// Loads the message without each field in turn: a required one must be missed.
fn each_required_field_is_missed<M, T>(
    message: &M,
    load: impl Fn(&M) -> Result<T, StoredError>,
) -> Result<(), TestCaseError>
where
    M: Message + Name + Default,
    T: Debug,
{
    let descriptor = canon::descriptor(&M::full_name()).expect("a known message");
    let whole = DynamicMessage::decode(descriptor, message.encode_to_vec().as_slice());
    for (owner, field, less) in without_one(&whole.expect("the same message")) {
        let loaded = load(&less.transcode_to::<M>().expect("the same message"));
        let optional = is_optional(&owner, &field);
        prop_assert!(optional || loaded.is_err(), "{owner}.{field} was made up: {loaded:?}");
    }
    Ok(())
}

/// A failure prints its input; no files are kept beside the sources.
fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(96))]

    // A task that reads back as another one is a task that a restart changes.
    #[test]
    fn a_stored_task_reads_back(task in made::task()) {
        prop_assert_eq!(load_task(&render_task(&task)), Ok(task));
    }

    // A handoff that reads back as another one moves control to another receiver.
    #[test]
    fn a_stored_handoff_reads_back(
        handoff in made::handoff(),
        task in made::task_id(),
        class in "[a-z]{0,8}",
    ) {
        let message = render_handoff(&handoff, &task, &class);
        prop_assert_eq!(&message.task_id, task.as_str());
        prop_assert_eq!(&message.task_class, &class);
        prop_assert_eq!(parse_receiver(&message.next_owner), Ok(handoff.receiver.clone()));
        prop_assert_eq!(load_handoff(&message), Ok(handoff));
    }

    // A scope that grows or shrinks on disk is authority that nobody gave or that somebody lost.
    #[test]
    fn a_scope_reads_back_in_order(scope in made::scope()) {
        let message = render_scope(&scope);
        prop_assert!(message.operations.is_sorted());
        prop_assert_eq!(load_scope(&message), Ok(scope));
    }

    // A deadline that moves by a rounding ends an offer early, or lets it live on.
    #[test]
    fn times_read_back(time in made::timestamp(), span in made::span()) {
        prop_assert_eq!(parse_timestamp(&render_timestamp(time)), Ok(time));
        prop_assert_eq!(parse_duration(&render_duration(span)), Ok(span));
    }

    // A field that is lost and made up again gives control, or a deadline, that nobody decided on.
    #[test]
    fn a_task_without_a_required_field_is_not_read(task in made::task()) {
        each_required_field_is_missed(&render_task(&task), load_task)?;
    }

    #[test]
    fn a_handoff_without_a_required_field_is_not_read(
        handoff in made::handoff(),
        task in made::task_id(),
    ) {
        each_required_field_is_missed(&render_handoff(&handoff, &task, "review"), load_handoff)?;
    }
}

proptest! {
    // Enough that each of the events comes up in every run.
    #![proptest_config(cases(320))]

    // An event that reads back as another one folds to another state, and breaks the chain.
    #[test]
    fn a_stored_event_reads_back_with_its_digest(
        record in made::recorded(),
        task in made::task_id(),
    ) {
        let mut message = render_event(&task, &record, None);
        let digest = event_digest(&message).expect("a canonical form");
        message.digest = digest.to_string();
        prop_assert_eq!(event_digest(&message), Ok(digest), "the digest covers itself");
        let rendered = render_event(&task, &record, Some(digest));
        prop_assert_eq!(&rendered, &message);
        prop_assert_eq!(load_event(&rendered), Ok((record, Some(digest))));
    }

    // The same of the record, from which a task is explained afterwards.
    #[test]
    fn an_event_without_a_required_field_is_not_read(
        record in made::recorded(),
        task in made::task_id(),
    ) {
        each_required_field_is_missed(&render_event(&task, &record, None), load_event)?;
    }
}

// A row that names no field any more hides the field that took its place.
#[test]
fn every_optional_field_exists() {
    for row in OPTIONAL {
        let (message, field) = row.split_once('.').expect("a message and a field");
        let found = canon::descriptor(&format!("baton.v1.{message}"))
            .or_else(|| canon::descriptor(&format!("google.protobuf.{message}")));
        let found = found.unwrap_or_else(|| panic!("no message {message}"));
        assert!(field == "*" || found.get_field_by_name(field).is_some(), "no field {row}");
    }
}

// Two of a table's rows with one number would turn one state into another on the next start.
#[test]
fn every_legal_combination_of_axes_reads_back() {
    let all = made::every_axes();
    for runtime in made::RUNTIMES {
        assert!(all.iter().any(|axes| axes.runtime == runtime), "{runtime:?} is never stored");
    }
    for axes in all {
        assert_eq!(axis::load_axes(Some(&axis::render_axes(&axes, None))), Ok(axes));
    }
}

// Axes that contradict each other lost a value; read as they are, they would show a state that no
// decision made.
#[test]
fn contradicting_axes_are_not_read() {
    let legal = made::every_axes();
    let ended = legal.iter().find(|a| a.runtime == crate::core::axis::Runtime::RuntimeCompleted);
    let mut message = axis::render_axes(ended.expect("an end"), None);
    message.acceptance = 0;
    let error = axis::load_axes(Some(&message)).unwrap_err();
    assert!(error.to_string().contains("acceptance is unset"), "{error}");
}

// A recorded refusal with a reason that shares a number, or has none, makes the record unreadable.
#[test]
fn every_reason_has_a_number_of_its_own() {
    for reason in Reason::ALL {
        assert_eq!(reason_from_pb(reason_to_pb(*reason).into()), Ok(*reason));
    }
    for foreign in [pb::Reason::Unspecified, pb::Reason::Internal, pb::Reason::Stopping] {
        assert!(reason_from_pb(foreign.into()).is_err(), "{foreign:?}");
    }
    assert!(reason_from_pb(99_999).is_err());
}

// A number that a newer version wrote must not be taken for a value that this one knows.
#[test]
fn numbers_that_name_nothing_are_refused_with_the_legal_names() {
    for number in [0, 99, -1] {
        let error = axis::runtime_from_pb(number).unwrap_err().to_string();
        assert!(error.contains(&number.to_string()) && error.contains("WORKING"), "{error}");
        assert!(axis::disposition_from_pb(number).is_err());
        assert!(axis::handoff_status_from_pb(number).is_err());
        assert!(axis::element_from_pb(number).is_err());
        assert!(axis::end_reason_from_pb(number).is_err());
        assert!(axis::artifact_state_from_pb(number).is_err());
        assert!(axis::readback_result_from_pb(number).is_err());
        assert!(axis::acceptance_policy_from_pb(number).is_err());
        assert!(axis::released_by_from_pb(number).is_err());
    }
    for number in [99, -1] {
        assert!(axis::acceptance_from_pb(number).is_err());
        assert!(axis::approval_from_pb(number).is_err());
    }
}

// A time that is rounded, or a duration that no other library can print, has two digests.
#[test]
fn times_that_the_core_cannot_hold_are_refused() {
    let time = |seconds, nanos| parse_timestamp(&prost_types::Timestamp { seconds, nanos });
    let span = |seconds, nanos| parse_duration(&prost_types::Duration { seconds, nanos });
    for (seconds, nanos) in [(0, 1), (0, -1000), (0, 1_000_000_000), (i64::MAX, 0), (i64::MIN, 0)] {
        assert!(time(seconds, nanos).is_err(), "{seconds} {nanos}");
    }
    for (seconds, nanos) in
        [(0, 1), (-1, 0), (0, -1000), (0, 1_000_000_000), (315_576_000_001, 0), (i64::MAX, 0)]
    {
        assert!(span(seconds, nanos).is_err(), "{seconds} {nanos}");
    }
}

// A caller that is told one thing at a time needs as many calls as it made mistakes.
#[test]
fn every_bad_member_of_a_scope_is_its_own_violation() {
    let scope = pb::AuthorizationScope {
        principal: " ".to_owned(),
        resources: ["file://a/b", "no uri", "file://a/b"].map(str::to_owned).to_vec(),
        operations: ["read", "read", "a b"].map(str::to_owned).to_vec(),
        ..pb::AuthorizationScope::default()
    };
    let mut violations = Violations::default();
    assert_eq!(parse_scope(&scope, "packet.scope", &mut violations), None);
    let refusal = violations.into_refusal();
    let mut fields: Vec<&str> = refusal.violations.iter().map(|v| v.field.as_str()).collect();
    fields.sort_unstable();
    assert_eq!(
        fields,
        [
            "packet.scope.operations[1]",
            "packet.scope.operations[2]",
            "packet.scope.principal",
            "packet.scope.resources[1]",
            "packet.scope.resources[2]",
        ]
    );
    assert_eq!(refusal.reason, Reason::InvalidRequest);
}

// A hostile request must not make an answer that is larger than itself, nor hide its size.
#[test]
fn violations_above_the_limit_are_counted() {
    let mut violations = Violations::default();
    for n in 0..100 {
        violations.add(&format!("items[{n}]"), "is wrong");
    }
    let refusal = violations.finish(Some(())).unwrap_err();
    assert_eq!(refusal.violations.len(), 64);
    assert!(refusal.message.contains("100 violations"), "{}", refusal.message);
    assert!(refusal.message.contains("items[0] is wrong"), "{}", refusal.message);
}
