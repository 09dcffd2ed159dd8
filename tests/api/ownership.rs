//! Ownership: one owner, fenced by its epoch, and what happens when it is gone.

use baton::proto::baton::v1 as pb;
use tonic::Status;

use crate::packets::{offer_request, receipt_request};
use crate::steps::{REVIEWER, VERIFIER, WRITER};
use crate::world::{Held, World, by, by_operator, facts, fresh, refused};

// A writer that missed a change would undo it. REQ-067
#[tokio::test]
async fn a_write_names_the_epoch_the_instance_and_the_revision_it_was_decided_on() {
    let (world, mut held) = World::with_ready().await;
    let before = world.see_all(&held.task_id).await;
    let mut wrong = Held { epoch: 7, ..held.clone() };
    refused(world.work(&mut wrong).await, "STALE_EPOCH");
    let mut wrong = Held { instance: "writer-2".to_owned(), ..held.clone() };
    refused(world.work(&mut wrong).await, "STALE_EPOCH");
    let mut wrong = Held { revision: held.revision - 1, ..held.clone() };
    let status = refused(world.work(&mut wrong).await, "STATE_CONFLICT");
    assert_eq!(status.code(), tonic::Code::Aborted);
    let facts = facts(&status);
    assert_eq!(facts["revision"], held.revision.to_string());
    assert_eq!(facts["updatedBy"], WRITER);
    assert_eq!(facts["updatedRequestId"], before.last_request_id);
    assert_eq!(facts["taskId"], held.task_id);
    let mut future = Held { revision: held.revision + 1, ..held.clone() };
    refused(world.work(&mut future).await, "STATE_CONFLICT");
    assert_eq!(world.see_all(&held.task_id).await.revision, before.revision);
    world.work(&mut held).await.expect("works");
}

// Who may look must not thereby write, and must learn why. REQ-067
#[tokio::test]
async fn a_visible_party_that_never_owned_is_told_so() {
    let (world, held) = World::with_ready().await;
    for party in [VERIFIER] {
        let mut other = Held { owner: party.to_owned(), ..held.clone() };
        refused(world.work(&mut other).await, "NOT_OWNER");
        let status = world.offer_with(&mut other, REVIEWER, |_| {}).await;
        refused(status, "NOT_OWNER");
        refused(world.resume(&other, 1, "v-1").await, "NOT_OWNER");
    }
}

// A restarted agent that is not let in loses its work; its old process that is not shut out
// doubles it. REQ-067
#[tokio::test]
async fn a_resumed_owner_fences_its_old_process() {
    let (world, mut held) = World::with_ready().await;
    let mut resumed = world.resume(&held, 1, "writer-2").await.expect("resumes");
    assert_eq!(resumed.epoch, 2);
    refused(world.work(&mut held).await, "STALE_EPOCH");
    let mut guessed = Held { instance: held.instance.clone(), ..resumed.clone() };
    refused(world.work(&mut guessed).await, "STALE_EPOCH");
    refused(world.resume(&held, 1, "writer-1").await, "STALE_EPOCH");
    world.work(&mut resumed).await.expect("works");
    let task = world.see_all(&held.task_id).await;
    assert_eq!(
        (task.owner.as_str(), task.epoch, task.instance_id.as_str()),
        (WRITER, 2, "writer-2")
    );
}

// A restarted agent without its whole state would begin from nothing. REQ-073
#[tokio::test]
async fn a_restarted_owner_finds_its_tasks_and_all_that_it_needs() {
    let (world, mut held) = World::with_ready().await;
    world.hand_over(&mut held, REVIEWER).await;
    let request = pb::ListTasksRequest::default();
    let mine = world.tasks().list_tasks(by(REVIEWER, request)).await.expect("lists").into_inner();
    assert_eq!(mine.tasks.len(), 1);
    let request = pb::GetResumeSetRequest { task_id: held.task_id.clone() };
    let set = world.tasks().get_resume_set(by(REVIEWER, request)).await.expect("reads");
    let set = set.into_inner();
    let packet = set.received_packet.expect("the packet");
    let checkpoint = set.checkpoint.expect("the checkpoint");
    assert_eq!(packet.next_action, checkpoint.next_action);
    assert!(set.contract.is_some() && set.contract_document.is_some());
    assert_eq!(set.task.expect("the task").epoch, 2);
}

async fn on_behalf(
    world: &World,
    held: &Held,
    caller: &str,
    change: impl FnOnce(&mut pb::OfferOnBehalfRequest),
) -> Result<pb::OfferOnBehalfResponse, Status> {
    let offer = offer_request(held, REVIEWER);
    let mut request = pb::OfferOnBehalfRequest {
        request_id: fresh(),
        expected_revision: world.see_all(&held.task_id).await.revision,
        packet: offer.packet,
        options: None,
        reason: "the owner does not answer".to_owned(),
    };
    change(&mut request);
    let request =
        if caller == "human:operator" { by_operator(request) } else { by(caller, request) };
    world.handoffs().offer_on_behalf(request).await.map(tonic::Response::into_inner)
}

// The owner died after its checkpoint: the work goes on from there, and the owner that comes back
// late changes nothing. REQ-067
#[tokio::test]
async fn an_owner_killed_after_its_checkpoint_is_replaced_and_fenced() {
    let (world, mut held) = World::with_ready().await;
    let offered = on_behalf(&world, &held, "human:operator", |_| {}).await.expect("offers");
    let id = offered.outcome.expect("an outcome").handoff_id;
    let handoff = world.see_handoff_all(&id).await;
    let parties = (handoff.handoff_from.as_str(), handoff.offered_by.as_str());
    assert_eq!(parties, (WRITER, "human:operator"));
    let claimed = world.claim(REVIEWER, &id).await.expect("claims");
    let mut taken = world.receive(&held, REVIEWER, &claimed).await;
    refused(world.work(&mut held).await, "STALE_EPOCH");
    refused(world.resume(&held, 1, "writer-2").await, "STALE_EPOCH");
    refused(world.resume(&held, 2, "writer-2").await, "STALE_EPOCH");
    world.work(&mut taken).await.expect("works");
    world.stands(&world.see_all(&held.task_id).await, REVIEWER, 2, pb::HandoffStatus::Received);
}

// The owner died before any checkpoint: what nobody recorded is unknown, and says so; it must not
// be made up, nor strand the task. REQ-055
#[tokio::test]
async fn an_owner_killed_before_its_checkpoint_is_replaced_with_what_is_unknown() {
    let world = World::new().await;
    world.register(&[(REVIEWER, &["review"])]).await;
    let mut held = world.task().await;
    world.work(&mut held).await.expect("works");
    let text = unknown_text;
    let change = |r: &mut pb::OfferOnBehalfRequest| {
        let p = r.packet.as_mut().expect("a packet");
        p.last_safe_checkpoint = None;
        p.current_state = text();
        p.next_action = text();
        p.completed_boundary = text();
        p.pending_action = text();
        let absence = Some(unknown());
        use pb::{
            artifact_descriptor_list_field as a, blocker_list_field as b,
            completed_unit_list_field as c, not_done_unit_list_field as n,
            source_snapshot_field as s, unknown_item_list_field as u,
        };
        let state = absence.clone().map(s::State::Absence);
        p.source_snapshot = Some(pb::SourceSnapshotField { state });
        let state = absence.clone().map(c::State::Absence);
        p.completed_units = Some(pb::CompletedUnitListField { state });
        let state = absence.clone().map(n::State::Absence);
        p.not_done = Some(pb::NotDoneUnitListField { state });
        let state = absence.clone().map(u::State::Absence);
        p.open_unknown = Some(pb::UnknownItemListField { state });
        let state = absence.clone().map(b::State::Absence);
        p.blockers = Some(pb::BlockerListField { state });
        let state = absence.map(a::State::Absence);
        p.artifact_descriptors = Some(pb::ArtifactDescriptorListField { state });
        p.artifact_descriptors = Some(pb::ArtifactDescriptorListField {
            state: Some(a::State::Value(Default::default())),
        });
        p.source_snapshot =
            Some(pb::SourceSnapshotField { state: Some(s::State::Value(Default::default())) });
        r.options = Some(pb::OfferOptions { echo_allowed: true, ..Default::default() });
    };
    let offered = on_behalf(&world, &held, "human:operator", change).await.expect("offers");
    let id = offered.outcome.expect("an outcome").handoff_id;
    let claimed = world.claim(REVIEWER, &id).await.expect("claims");
    assert_eq!(claimed.packet.clone().expect("a packet").next_action, unknown_text());
    let mut taken = world.receive(&held, REVIEWER, &claimed).await;
    refused(world.work(&mut held).await, "STALE_EPOCH");
    world.work(&mut taken).await.expect("works");
}

fn unknown() -> pb::Absence {
    let reason = "the owner died before it recorded it".to_owned();
    pb::Absence { kind: Some(pb::absence::Kind::Unknown(pb::Unknown { reason })) }
}

fn unknown_text() -> Option<pb::TextField> {
    Some(pb::TextField { state: Some(pb::text_field::State::Absence(unknown())) })
}

fn leased(r: &mut pb::CreateTaskRequest) {
    let policy = r.policy.as_mut().expect("a policy");
    policy.owner_lease = Some(prost_types::Duration { seconds: 60, nanos: 0 });
    policy.originator_may_offer_on_behalf = true;
}

// An owner that is silent must become visible, without anything being taken from it. REQ-067
#[tokio::test]
async fn a_silent_owner_is_absent_after_its_lease_and_back_with_its_next_write() {
    let world = World::new().await;
    world.register(&[(WRITER, &[]), (REVIEWER, &["review"])]).await;
    let mut held = world.task_with(leased).await;
    world.put_artifact(&mut held).await;
    world.put_checkpoint(&mut held).await;
    let mut at_b = world.hand_over(&mut held, REVIEWER).await;
    // The writer is the originator, and a present owner cannot be replaced by it.
    let again = |r: &mut pb::OfferOnBehalfRequest| {
        r.packet.as_mut().and_then(|p| p.next_owner.as_mut()).expect("one").id = WRITER.to_owned();
        r.packet.as_mut().and_then(|p| p.scope.as_mut()).expect("one").principal =
            WRITER.to_owned();
    };
    refused(on_behalf(&world, &at_b, WRITER, again).await, "OWNER_PRESENT");
    refused(on_behalf(&world, &at_b, VERIFIER, again).await, "NOT_OPERATOR");
    world.pass(61);
    let before = world.see_all(&held.task_id).await;
    assert_eq!((before.owner.as_str(), before.epoch), (REVIEWER, 2));
    world.work(&mut at_b).await.expect("a silent owner is still the owner");
    assert!(!world.see_all(&held.task_id).await.owner_absent);
    world.pass(61);
    on_behalf(&world, &at_b, WRITER, again).await.expect("offers for an absent owner");
    let task = world.see_all(&held.task_id).await;
    world.stands(&task, REVIEWER, 2, pb::HandoffStatus::Pending);
}

// A dead owner may have begun what nobody confirmed: its successor must find out before it goes
// on, or the effect happens twice. REQ-089
#[tokio::test]
async fn a_takeover_with_an_open_effect_reconciles_first() {
    let (world, mut held) = World::with_ready().await;
    let mut report = crate::steps::report(pb::RuntimeStatus::Working);
    report.effect_uncertain = true;
    world.report(&mut held, report).await.expect("reports");
    let offered = on_behalf(&world, &held, "human:operator", |_| {}).await.expect("offers");
    let id = offered.outcome.expect("an outcome").handoff_id;
    let claimed = world.claim(REVIEWER, &id).await.expect("claims");
    world.receive(&held, REVIEWER, &claimed).await;
    let axes = world.see_all(&held.task_id).await.axes.expect("axes");
    assert_eq!(axes.runtime(), pb::RuntimeStatus::Reconciling);
    assert!(axes.effect_uncertain);
}

// An operator that takes over ends the owner's own offer, or two receivers would hold packets.
// REQ-070
#[tokio::test]
async fn an_operators_offer_ends_the_owners_offer() {
    let (world, mut held, claimed) = World::with_claimed().await;
    on_behalf(&world, &held, "human:operator", |r| r.reason.clear()).await.expect_err("a reason");
    on_behalf(&world, &held, "human:operator", |_| {}).await.expect("offers");
    let old = claimed.packet.clone().expect("a packet").handoff_id;
    let ended = world.see_handoff_all(&old).await;
    assert_eq!(ended.end_reason(), pb::HandoffEndReason::OperatorTakeover);
    let late = world.acknowledge(REVIEWER, receipt_request(REVIEWER, &claimed)).await;
    refused(late, "HANDOFF_ENDED");
    refused(world.work(&mut held).await, "STATE_CONFLICT");
}

// An operator that finds something wrong must be able to hold everything, and a frozen task must
// not expire under it. REQ-067
#[tokio::test]
async fn a_freeze_refuses_claim_and_receipt_and_stops_the_clocks() {
    let (world, mut held, claimed) = World::with_claimed().await;
    let id = claimed.packet.clone().expect("a packet").handoff_id;
    let deadline = world.see_handoff_all(&id).await.deadline.expect("a deadline");
    world.pass(10);
    world.freeze(&held.task_id).await;
    let request = receipt_request(REVIEWER, &claimed);
    refused(world.acknowledge(REVIEWER, request.clone()).await, "FROZEN");
    refused(world.claim(REVIEWER, &id).await, "FROZEN");
    held.revision = world.see_all(&held.task_id).await.revision;
    refused(world.work(&mut held).await, "FROZEN");
    world.pass(30 * 24 * 3600);
    let frozen = world.see_all(&held.task_id).await;
    world.stands(&frozen, WRITER, 1, pb::HandoffStatus::Pending);
    let shown = frozen.freeze.expect("a freeze");
    assert_eq!((shown.by.as_str(), shown.reason.as_str()), ("human:operator", "hold"));

    world.lift(&held.task_id).await;
    let later = world.see_handoff_all(&id).await.deadline.expect("a deadline");
    assert_eq!(later.seconds - deadline.seconds, 30 * 24 * 3600);
    let claimed = world.claim(REVIEWER, &id).await.expect("claims again");
    let reading = world.acknowledge(REVIEWER, request).await;
    refused(reading, "OBSERVED_TIME_IMPLAUSIBLE");
    world.receive(&held, REVIEWER, &claimed).await;
    let owner = pb::FreezeTaskRequest {
        request_id: fresh(),
        task_id: held.task_id.clone(),
        reason: "mine".to_owned(),
    };
    let status = world.tasks().freeze_task(by(WRITER, owner)).await;
    refused(status, "NOT_OPERATOR");
}

// A freeze that lets an offer out holds nothing. REQ-067
#[tokio::test]
async fn a_frozen_task_is_not_offered() {
    let (world, mut held) = World::with_ready().await;
    world.freeze(&held.task_id).await;
    held.revision = world.see_all(&held.task_id).await.revision;
    refused(world.offer_with(&mut held, REVIEWER, |_| {}).await, "FROZEN");
}
