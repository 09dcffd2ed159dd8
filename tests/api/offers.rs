//! Offers: who can be offered what, on which checkpoint, and how an offer ends.

use baton::core::contract::example;
use baton::proto::baton::v1 as pb;

use crate::packets::{example_artifact, receipt_request};
use crate::steps::{REVIEWER, VERIFIER, WRITER, count};
use crate::world::{World, facts, fresh, refused};

fn handoff_of(offered: &pb::OfferHandoffResponse) -> String {
    offered.outcome.clone().expect("an outcome").handoff_id
}

// Two open offers of one task end in two owners. REQ-070
#[tokio::test]
async fn a_second_offer_is_refused_while_one_is_open() {
    let (world, mut held) = World::with_ready().await;
    let first = world.offer(&mut held, REVIEWER).await;
    let second = world.offer_with(&mut held, REVIEWER, |_| {}).await;
    let status = refused(second, "HANDOFF_ALREADY_OPEN");
    assert_eq!(facts(&status)["handoffId"], handoff_of(&first));
    refused(world.work(&mut held).await, "HANDOFF_PENDING");
}

// A sender that must withdraw first loses the task's place between the two commits. REQ-070
#[tokio::test]
async fn an_offer_that_supersedes_ends_the_open_one_in_one_commit() {
    let (world, mut held) = World::with_ready().await;
    world.register(&[("agent:other", &["review"])]).await;
    let first = world.offer(&mut held, REVIEWER).await;
    let claimed = world.claim(REVIEWER, &handoff_of(&first)).await.expect("claims");
    let named = |r: &mut pb::OfferHandoffRequest| r.supersedes = handoff_of(&first);
    let second = world.offer_with(&mut held, "agent:other", named).await.expect("supersedes");

    let ended = world.see_handoff(WRITER, &handoff_of(&first)).await.expect("sees");
    assert_eq!(ended.status(), pb::HandoffStatus::Superseded);
    let late = world.acknowledge(REVIEWER, receipt_request(REVIEWER, &claimed)).await;
    assert_eq!(facts(&refused(late, "HANDOFF_ENDED"))["status"], "SUPERSEDED");
    let claimed = world.claim("agent:other", &handoff_of(&second)).await.expect("claims");
    world.receive(&held, "agent:other", &claimed).await;
    let unknown = |r: &mut pb::OfferHandoffRequest| r.supersedes = fresh();
    let (world, mut held) = World::with_ready().await;
    refused(world.offer_with(&mut held, REVIEWER, unknown).await, "NO_OPEN_HANDOFF");
}

// A handoff to oneself would raise the epoch without a second pair of eyes. REQ-064
#[tokio::test]
async fn an_offer_to_oneself_or_to_nobody_is_refused() {
    let (world, mut held) = World::with_ready().await;
    refused(world.offer_with(&mut held, WRITER, |_| {}).await, "SELF_HANDOFF");
    refused(world.offer_with(&mut held, "agent:nobody", |_| {}).await, "UNKNOWN_RECEIVER");
    refused(world.offer_with(&mut held, "capability:flying", |_| {}).await, "UNKNOWN_RECEIVER");
    let unnamed = world.offer_with(&mut held, "", |_| {}).await;
    assert_eq!(unnamed.expect_err("refused").code(), tonic::Code::InvalidArgument);
    assert!(world.see_all(&held.task_id).await.handoff.is_none());
}

// An offer to a capability that one refusal ends would strand the task although others could do
// it. REQ-064
#[tokio::test]
async fn a_refused_capability_offer_goes_to_the_others_until_none_is_left() {
    let world = World::new().await;
    world.register(&[("agent:one", &["review"]), ("agent:two", &["review"])]).await;
    world.register(&[("agent:three", &["drawing"])]).await;
    let mut held = world.ready().await;
    let offered = world.offer(&mut held, "capability:review").await;
    let id = handoff_of(&offered);
    refused(world.claim("agent:three", &id).await, "NOT_FOUND");

    world.claim("agent:one", &id).await.expect("claims");
    let returned = world.reject("agent:one", &id).await.expect("rejects");
    assert_eq!(returned.status(), pb::HandoffStatus::Pending);
    refused(world.claim("agent:one", &id).await, "RECEIVER_NOT_OWNER");
    assert!(world.offers_to("agent:one").await.is_empty());
    assert_eq!(world.offers_to("agent:two").await.len(), 1);
    world.claim("agent:two", &id).await.expect("claims at once");
    let ended = world.reject("agent:two", &id).await.expect("rejects");
    assert_eq!(ended.status(), pb::HandoffStatus::Rejected);

    let handoff = world.see_handoff(WRITER, &id).await.expect("sees");
    assert_eq!(handoff.end_reason(), pb::HandoffEndReason::NoReceiverLeft);
    let task = world.see_all(&held.task_id).await;
    world.stands(&task, WRITER, 1, pb::HandoffStatus::Rejected);
}

// Who has the capability and has not claimed must not learn who sends what. REQ-064
#[tokio::test]
async fn a_capability_offer_shows_its_sender_only_to_the_claimant() {
    let world = World::new().await;
    world.register(&[("agent:one", &["review"]), ("agent:two", &["review"])]).await;
    let mut held = world.ready().await;
    let offered = world.offer(&mut held, "capability:review").await;
    let id = handoff_of(&offered);
    let before = world.see_handoff("agent:two", &id).await.expect("sees");
    assert_eq!((before.handoff_from.as_str(), before.offered_by.as_str()), ("", ""));
    assert_eq!(
        (before.handoff_id.as_str(), before.next_owner.as_str()),
        (&*id, "capability:review")
    );
    world.claim("agent:one", &id).await.expect("claims");
    assert_eq!(world.see_handoff("agent:one", &id).await.expect("sees").handoff_from, WRITER);
    let other = world.see_handoff("agent:two", &id).await.expect("sees");
    assert_eq!((other.handoff_from.as_str(), other.claim), ("", None));
}

// A sender that cannot take an offer back can no longer do the work itself. REQ-067
#[tokio::test]
async fn a_withdrawn_offer_leaves_the_owner_at_work() {
    let (world, mut held) = World::with_ready().await;
    let offered = world.offer(&mut held, REVIEWER).await;
    let mut stranger = held.clone();
    stranger.owner = REVIEWER.to_owned();
    refused(world.withdraw(&mut stranger, &offered).await, "NOT_OWNER");
    let mut wrong = offered.clone();
    wrong.packet_digest = crate::receipts::OTHER.to_owned();
    refused(world.withdraw(&mut held, &wrong).await, "PACKET_MISMATCH");
    world.withdraw(&mut held, &offered).await.expect("withdraws");
    let late = world.claim(REVIEWER, &handoff_of(&offered)).await;
    assert_eq!(facts(&refused(late, "HANDOFF_ENDED"))["status"], "WITHDRAWN");
    world.work(&mut held).await.expect("works again");
}

// An offer without an end would hold the task for ever; one that ends late moves control behind
// the owner's back. REQ-068
#[tokio::test]
async fn an_offer_expires_at_its_deadline_and_not_before() {
    let (world, mut held, claimed) = World::with_claimed().await;
    let id = claimed.packet.clone().expect("a packet").handoff_id;
    for _ in 0..44 {
        world.pass(20);
        world.claim(REVIEWER, &id).await.expect("renews");
    }
    world.pass(19);
    world.claim(REVIEWER, &id).await.expect("renews");
    world.pass(1);
    let late = world.acknowledge(REVIEWER, receipt_request(REVIEWER, &claimed)).await;
    assert_eq!(facts(&refused(late, "HANDOFF_ENDED"))["status"], "EXPIRED");
    let task = world.see_all(&held.task_id).await;
    world.stands(&task, WRITER, 1, pb::HandoffStatus::Expired);
    held.revision = task.revision;
    world.work(&mut held).await.expect("works again");
}

// A receipt after the lease could come from a process that was long replaced. REQ-058
#[tokio::test]
async fn a_receipt_needs_a_live_lease_of_its_own_process() {
    let (world, held, claimed) = World::with_claimed().await;
    let mut other = receipt_request(REVIEWER, &claimed);
    other.instance_id = "another-process".to_owned();
    refused(world.acknowledge(REVIEWER, other).await, "CLAIM_HELD");
    world.pass(31);
    let late = receipt_request(REVIEWER, &claimed);
    let reason = world.acknowledge(REVIEWER, late.clone()).await;
    let lapsed = crate::world::reason(&reason.expect_err("refused"));
    assert!(["LEASE_LAPSED", "CLAIM_REQUIRED"].contains(&lapsed.as_str()), "{lapsed}");
    world.claim(REVIEWER, &late.handoff_id).await.expect("claims again");
    world.acknowledge(REVIEWER, late).await.expect("receives");
    world.stands(&world.see_all(&held.task_id).await, REVIEWER, 2, pb::HandoffStatus::Received);
}

// A receipt that answers another packet must not move this one. REQ-058
#[tokio::test]
async fn a_receipt_names_the_packet_that_it_answers() {
    let (world, held, claimed) = World::with_claimed().await;
    let mut request = receipt_request(REVIEWER, &claimed);
    request.packet_digest = crate::receipts::OTHER.to_owned();
    refused(world.acknowledge(REVIEWER, request).await, "PACKET_MISMATCH");
    world.stands(&world.see_all(&held.task_id).await, WRITER, 1, pb::HandoffStatus::Pending);
}

// A packet without a durable resume point hands over nothing. REQ-055
#[tokio::test]
async fn an_offer_needs_a_checkpoint_that_is_not_older_than_the_artifacts() {
    let world = World::new().await;
    world.register(&[(REVIEWER, &["review"])]).await;
    let mut held = world.task().await;
    world.put_artifact(&mut held).await;
    let bare = world.offer_with(&mut held, REVIEWER, |_| {}).await.expect_err("refused");
    assert!(["CHECKPOINT_REQUIRED", "CONTRACT_INVALID"].contains(&&*crate::world::reason(&bare)));
    world.put_checkpoint(&mut held).await;
    let newer = pb::ArtifactDescriptor { version: "v4".to_owned(), ..example_artifact() };
    world.put_this_artifact(&mut held, newer).await.expect("puts");
    let stale = world.offer_with(&mut held, REVIEWER, |_| {}).await;
    refused(stale, "CHECKPOINT_REQUIRED");
}

// A packet that says otherwise than the record sends the receiver to work on something else.
// REQ-024
#[tokio::test]
async fn a_packet_that_differs_from_the_record_is_refused() {
    let (world, mut held) = World::with_ready().await;
    type Change = fn(&mut pb::HandoffPacket);
    let changes: [(&str, Change); 5] = [
        ("current_state", |p| p.current_state = example::text("all done")),
        ("next_action", |p| p.next_action = example::text("ship it")),
        ("not_done", |p| {
            p.not_done = Some(pb::NotDoneUnitListField {
                state: Some(pb::not_done_unit_list_field::State::Value(Default::default())),
            })
        }),
        ("source_snapshot", |p| {
            use pb::source_snapshot_field::State;
            let field = p.source_snapshot.as_mut().expect("sources");
            if let Some(State::Value(snapshot)) = &mut field.state {
                snapshot.entities[0].version = "rev-42".to_owned();
            }
        }),
        ("active_goal", |p| {
            p.active_goal.as_mut().expect("a goal").objective = "Sell the house".to_owned();
        }),
    ];
    for (field, change) in changes {
        let edit = |r: &mut pb::OfferHandoffRequest| change(r.packet.as_mut().expect("a packet"));
        let result = world.offer_with(&mut held, REVIEWER, edit).await;
        let status = refused(result, "REFERENCE_COPY_MISMATCH");
        assert_eq!(crate::world::fields(&status), [format!("packet.{field}")]);
    }
}

type Drop = (&'static str, fn(&mut pb::HandoffPacket));

const DROPS: &[Drop] = &[
    ("current_state", |p| p.current_state = None),
    ("source_snapshot", |p| p.source_snapshot = None),
    ("completed_units", |p| p.completed_units = None),
    ("not_done", |p| p.not_done = None),
    ("open_unknown", |p| p.open_unknown = None),
    ("blockers", |p| p.blockers = None),
    ("artifact_descriptors", |p| p.artifact_descriptors = None),
    ("next_owner", |p| p.next_owner = None),
    ("handoff_reason", |p| p.handoff_reason = None),
    ("next_action", |p| p.next_action = None),
    ("stop_condition", |p| p.stop_condition = None),
    ("scope", |p| p.scope = None),
    ("history_pointer", |p| p.history_pointer = None),
    ("canonical_pointers", |p| p.canonical_pointers = None),
    ("active_goal", |p| p.active_goal = None),
    ("completed_boundary", |p| p.completed_boundary = None),
    ("pending_action", |p| p.pending_action = None),
    ("last_safe_checkpoint", |p| p.last_safe_checkpoint = None),
    ("external_side_effects", |p| p.external_side_effects = None),
    ("version_set", |p| p.version_set = None),
    ("resume_invariants", |p| p.resume_invariants = None),
];

// Any field that may be left out will be, and the next agent guesses it. REQ-055, REQ-056, REQ-057
#[tokio::test]
async fn a_packet_that_lacks_any_of_its_fields_is_refused() {
    let (world, mut held) = World::with_ready().await;
    let before = world.see_all(&held.task_id).await;
    for (field, drop) in DROPS {
        let edit = |r: &mut pb::OfferHandoffRequest| drop(r.packet.as_mut().expect("a packet"));
        let result = world.offer_with(&mut held, REVIEWER, edit).await;
        assert!(result.is_err(), "a packet without {field} was taken");
        let status = result.expect_err("refused");
        let reason = crate::world::reason(&status);
        let named = crate::world::fields(&status).join(" ").to_lowercase();
        let text = format!("{reason} {named} {}", status.message().to_lowercase());
        assert!(text.contains(field) || text.contains("checkpoint"), "{field}: {text}");
    }
    assert_eq!(world.see_all(&held.task_id).await, before, "a refused offer changes nothing");
    world.offer(&mut held, REVIEWER).await;
}

// A receiver that is told of no past although past matters decides without it. REQ-031
#[tokio::test]
async fn a_history_that_matters_travels_as_a_pointer() {
    let (_world, _held, claimed) = World::with_claimed().await;
    let field = claimed.packet.expect("a packet").history_pointer.expect("a pointer");
    let Some(pb::history_pointer_field::State::Value(pointer)) = field.state else {
        panic!("the example has a history")
    };
    assert_eq!(pointer.r#ref, "store://history/h-1");
}

// A deadline that passes unseen leaves an offer that nobody can answer. REQ-068
#[tokio::test]
async fn claims_are_bounded_and_then_the_offer_ends() {
    let (world, mut held) = World::with_ready().await;
    let long = |r: &mut pb::OfferHandoffRequest| {
        let ttl = Some(prost_types::Duration { seconds: 24 * 3600, nanos: 0 });
        r.options = Some(pb::OfferOptions { ttl, ..Default::default() });
    };
    let offered = world.offer_with(&mut held, REVIEWER, long).await.expect("offers");
    let id = handoff_of(&offered);
    for _ in 0..16 {
        world.claim(REVIEWER, &id).await.expect("claims");
        world.pass(31);
    }
    refused(world.claim(REVIEWER, &id).await, "HANDOFF_ENDED");
    let handoff = world.see_handoff(WRITER, &id).await.expect("sees");
    assert_eq!(handoff.end_reason(), pb::HandoffEndReason::ClaimsExhausted);
}

// A packet whose artifact falls must not be received, and the sender must be free at once.
// REQ-068
#[tokio::test]
async fn a_failing_readback_frees_the_sender_and_a_passing_one_keeps_the_offer() {
    let (world, mut held) = World::with_ready().await;
    world.offer(&mut held, REVIEWER).await;
    world.readback(VERIFIER, &held, pb::ReadbackResult::Pass).await.expect("passes");
    let task = world.see_all(&held.task_id).await;
    world.stands(&task, WRITER, 1, pb::HandoffStatus::Pending);
    let done = world.readback(VERIFIER, &held, pb::ReadbackResult::Fail).await.expect("fails");
    held.revision = done.revision;
    let task = world.see_all(&held.task_id).await;
    world.stands(&task, WRITER, 1, pb::HandoffStatus::Stale);
    world.work(&mut held).await.expect("works again");
    let ended = |d: &pb::event::Detail| matches!(d, pb::event::Detail::HandoffEnded(_));
    assert_eq!(count(&world.events(&held.task_id).await, ended), 1);
}

// A cancel that leaves an offer open lets a receiver take over a dead task. REQ-070
#[tokio::test]
async fn a_cancel_withdraws_the_open_offer_in_the_same_commit() {
    let (world, mut held, claimed) = World::with_claimed().await;
    world.cancel(WRITER, &held).await.expect("cancels");
    let task = world.see_all(&held.task_id).await;
    world.stands(&task, WRITER, 2, pb::HandoffStatus::Withdrawn);
    let late = world.acknowledge(REVIEWER, receipt_request(REVIEWER, &claimed)).await;
    assert_eq!(facts(&refused(late, "HANDOFF_ENDED"))["status"], "WITHDRAWN");
    refused(world.work(&mut held).await, "TASK_CANCELED");
}
