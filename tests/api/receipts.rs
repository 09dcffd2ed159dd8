//! The receipt matrix: what moves control, and what does not.

use baton::core::contract::example;
use baton::proto::baton::v1 as pb;
use baton::store::{AnyStore, SledStore};

use crate::packets::receipt_request;
use crate::steps::{REVIEWER, VERIFIER, WRITER, count, receipts};
use crate::world::{World, facts, fresh, refused};

/// A digest that nothing has.
pub(crate) const OTHER: &str =
    "sha256:00000000000000000000000000000000000000000000000000000000000000aa";

/// Presents a receipt that was changed, and asserts that it is refused for `elements` and moves
/// nothing.
async fn differs(elements: &str, change: impl FnOnce(&mut pb::HandoffReceipt)) {
    let (world, held, claimed) = World::with_claimed().await;
    let mut request = receipt_request(REVIEWER, &claimed);
    change(request.receipt.as_mut().expect("a receipt"));
    let before = world.see_all(&held.task_id).await;

    let status = refused(world.acknowledge(REVIEWER, request).await, "RECEIPT_MISMATCH");

    assert_eq!(facts(&status)["elements"], elements);
    let task = world.see_all(&held.task_id).await;
    world.stands(&task, WRITER, 1, pb::HandoffStatus::Pending);
    assert_eq!(task.revision, before.revision, "a refused receipt changes no state");
    let refusals = |d: &pb::event::Detail| matches!(d, pb::event::Detail::ReceiptRefused(_));
    assert_eq!(count(&world.events(&held.task_id).await, refusals), 1);
    // The right receipt still moves it.
    world.receive(&held, REVIEWER, &claimed).await;
}

fn sources(receipt: &mut pb::HandoffReceipt) -> &mut Vec<pb::SourceEcho> {
    &mut receipt.source_snapshot.as_mut().expect("sources").entities
}

fn artifacts(receipt: &mut pb::HandoffReceipt) -> &mut Vec<pb::ArtifactEcho> {
    &mut receipt.artifacts.as_mut().expect("artifacts").items
}

fn scope(receipt: &mut pb::HandoffReceipt) -> &mut pb::AuthorizationScope {
    receipt.scope.as_mut().expect("a scope")
}

// If a matching receipt did not move control, or anything moved without it, work would be lost or
// doubled. REQ-058, HR-1
#[tokio::test]
async fn a_matching_receipt_moves_control_in_one_event() {
    let (world, held, claimed) = World::with_claimed().await;
    let before = world.see(WRITER, &held.task_id).await.expect("sees");
    world.stands(&before, WRITER, 1, pb::HandoffStatus::Pending);

    let request = receipt_request(REVIEWER, &claimed);
    let done = world.acknowledge(REVIEWER, request).await.expect("receives");

    let outcome = done.outcome.expect("an outcome");
    assert_eq!((outcome.epoch, outcome.revision), (2, before.revision + 1));
    let task = world.see(REVIEWER, &held.task_id).await.expect("sees");
    world.stands(&task, REVIEWER, 2, pb::HandoffStatus::Received);
    assert_eq!(task.last_sequence, before.last_sequence + 1);
    assert_eq!(receipts(&world.events(&held.task_id).await), 1);
    world.end().await.expect("ends in order");
}

// A receiver that took over another task's work would go on with the wrong one. REQ-058, HR-2
#[tokio::test]
async fn another_task_id_moves_nothing() {
    differs("task_id", |r| r.task_id = fresh()).await;
}

// A receiver under other terms would work against the contract. REQ-058, HR-3
#[tokio::test]
async fn another_contract_version_moves_nothing() {
    differs("contract", |r| r.contract.as_mut().expect("a contract").version = "0.1".to_owned())
        .await;
}

// A version label alone would let the terms change under it. REQ-058, HR-3
#[tokio::test]
async fn another_contract_digest_moves_nothing() {
    differs("contract", |r| r.contract.as_mut().expect("a contract").digest = OTHER.to_owned())
        .await;
}

// A receiver that read another revision would build on stale facts. REQ-058, HR-4
#[tokio::test]
async fn another_source_version_moves_nothing() {
    differs("source_snapshot", |r| sources(r)[0].version = "rev-40".to_owned()).await;
}

// A source that changed under the same version label would go unseen. REQ-060, HR-4
#[tokio::test]
async fn another_source_digest_moves_nothing() {
    differs("source_snapshot", |r| sources(r)[0].digest = Some(OTHER.to_owned())).await;
}

// A receiver with another artifact would review what nobody wrote. REQ-058, HR-5
#[tokio::test]
async fn another_artifact_digest_moves_nothing() {
    differs("artifacts", |r| artifacts(r)[0].digest = OTHER.to_owned()).await;
}

// A missing or an extra artifact means that the sets were never compared. REQ-060, HR-5
#[tokio::test]
async fn a_missing_or_an_extra_artifact_moves_nothing() {
    differs("artifacts", |r| artifacts(r).clear()).await;
    differs("artifacts", |r| {
        let extra = pb::ArtifactEcho { id: "art-2".to_owned(), ..artifacts(r)[0].clone() };
        artifacts(r).push(extra);
    })
    .await;
}

// A receiver that understood another authority would act outside it. REQ-058, HR-6
#[tokio::test]
async fn another_scope_moves_nothing() {
    differs("scope", |r| scope(r).resources = vec!["store://other/*".to_owned()]).await;
    differs("scope", |r| scope(r).expires_at.as_mut().expect("an end").seconds += 1).await;
    differs("scope", |r| scope(r).principal = "agent:other".to_owned()).await;
}

// A defaulted element would make an empty receipt a valid one. REQ-059, HR-7
#[tokio::test]
async fn an_absent_element_is_a_difference() {
    differs("task_id", |r| r.task_id.clear()).await;
    differs("contract", |r| r.contract = None).await;
    differs("source_snapshot", |r| r.source_snapshot = None).await;
    differs("artifacts", |r| r.artifacts = None).await;
    differs("scope", |r| r.scope = None).await;
    differs("task_id,contract,source_snapshot,artifacts,scope", |r| {
        *r = pb::HandoffReceipt { observed_at: r.observed_at, ..Default::default() };
    })
    .await;
}

// A subset would let a source go unread, a superset would bind what nobody sent. REQ-060, HR-8
#[tokio::test]
async fn a_snapshot_subset_or_superset_is_a_difference() {
    differs("source_snapshot", |r| sources(r).clear()).await;
    differs("source_snapshot", |r| {
        let extra = pb::SourceEcho { entity_id: "src:other".to_owned(), ..sources(r)[0].clone() };
        sources(r).push(extra);
    })
    .await;
}

// A wider echo takes authority that nobody gave; a narrower one hides that the receiver cannot do
// the work. REQ-060, REQ-072, HR-9
#[tokio::test]
async fn a_wider_or_a_narrower_scope_is_a_difference() {
    differs("scope", |r| scope(r).operations.push("send".to_owned())).await;
    differs("scope", |r| scope(r).operations.truncate(1)).await;
    differs("scope", |r| scope(r).prohibitions.push("delete".to_owned())).await;
    differs("scope", |r| scope(r).approval_conditions.push("two eyes".to_owned())).await;
}

// Order is not meaning: refusing a reordered set would stop honest receivers. REQ-060
#[tokio::test]
async fn a_reordered_set_is_the_same_set() {
    let (world, held, claimed) = World::with_claimed().await;
    let mut request = receipt_request(REVIEWER, &claimed);
    scope(request.receipt.as_mut().expect("a receipt")).operations.reverse();
    world.acknowledge(REVIEWER, request).await.expect("receives");
    let task = world.see_all(&held.task_id).await;
    world.stands(&task, REVIEWER, 2, pb::HandoffStatus::Received);
}

// Delivery is not receipt: a receiver that only got the packet may never have read it. REQ-061,
// REQ-062, HR-10
#[tokio::test]
async fn delivery_claim_and_reading_move_nothing() {
    let (world, held, claimed) = World::with_claimed().await;
    let handoff_id = claimed.packet.expect("a packet").handoff_id;
    world.claim(REVIEWER, &handoff_id).await.expect("renews");
    let seen = world.see_handoff(REVIEWER, &handoff_id).await.expect("sees");
    assert_eq!(seen.status(), pb::HandoffStatus::Pending);
    let task = world.see(WRITER, &held.task_id).await.expect("sees");
    world.stands(&task, WRITER, 1, pb::HandoffStatus::Pending);
    let acceptance = task.axes.expect("axes").acceptance();
    assert_eq!(acceptance, pb::BusinessAcceptanceStatus::Unspecified);
}

// A sender that could confirm its own packet would make every receipt worthless. REQ-064, HR-11
#[tokio::test]
async fn a_sender_cannot_acknowledge_for_the_receiver() {
    let (world, held, claimed) = World::with_claimed().await;
    let request = receipt_request(REVIEWER, &claimed);
    refused(world.acknowledge(WRITER, request.clone()).await, "RECEIVER_NOT_OWNER");
    let mut named = request;
    named.receipt.as_mut().expect("a receipt").receiver = REVIEWER.to_owned();
    refused(world.acknowledge(WRITER, named).await, "IDENTITY_MISMATCH");
    let task = world.see_all(&held.task_id).await;
    world.stands(&task, WRITER, 1, pb::HandoffStatus::Pending);
}

// A lost answer makes a receiver ask again, also long after its lease: a second transition would
// double the work. REQ-069, HR-12
#[tokio::test]
async fn the_same_receipt_again_gets_the_stored_one() {
    let (world, held, claimed) = World::with_claimed().await;
    let request = receipt_request(REVIEWER, &claimed);
    let first = world.acknowledge(REVIEWER, request.clone()).await.expect("receives");
    world.pass(24 * 3600);
    let again = pb::AcknowledgeHandoffRequest { request_id: fresh(), ..request };
    let second = world.acknowledge(REVIEWER, again).await.expect("repeats");

    assert_eq!(second.receipt, first.receipt);
    let (first, second) = (first.outcome.expect("one"), second.outcome.expect("one"));
    assert_eq!((second.epoch, second.revision), (first.epoch, first.revision));
    assert!(second.replayed);
    assert_eq!(receipts(&world.events(&held.task_id).await), 1);
}

// If a second reading could replace the first, the record would say what nobody verified. REQ-069,
// HR-13
#[tokio::test]
async fn another_receipt_after_the_first_is_a_conflict() {
    let (world, held, claimed) = World::with_claimed().await;
    let request = receipt_request(REVIEWER, &claimed);
    world.acknowledge(REVIEWER, request.clone()).await.expect("receives");
    let mut other = pb::AcknowledgeHandoffRequest { request_id: fresh(), ..request };
    artifacts(other.receipt.as_mut().expect("a receipt"))[0].digest = OTHER.to_owned();
    refused(world.acknowledge(REVIEWER, other).await, "RECEIPT_CONFLICT");
    let task = world.see_all(&held.task_id).await;
    world.stands(&task, REVIEWER, 2, pb::HandoffStatus::Received);
}

// A receipt of what has since been rejected would take over work that does not stand. REQ-068,
// HR-14
#[tokio::test]
async fn a_bound_element_that_changed_makes_the_receipt_stale() {
    let (world, held, claimed) = World::with_claimed().await;
    world.readback(VERIFIER, &held, pb::ReadbackResult::Fail).await.expect("fails it");
    let request = receipt_request(REVIEWER, &claimed);
    refused(world.acknowledge(REVIEWER, request).await, "STALE_HANDOFF");
    let task = world.see_all(&held.task_id).await;
    world.stands(&task, WRITER, 1, pb::HandoffStatus::Stale);
}

// Two receivers that both believe to hold the task do the work twice. REQ-064, HR-15
#[tokio::test]
async fn of_two_receivers_one_receives() {
    let world = World::new().await;
    world.register(&[("agent:one", &["review"]), ("agent:two", &["review"])]).await;
    let mut held = world.ready().await;
    let offered = world.offer(&mut held, "capability:review").await;
    let id = offered.outcome.expect("an outcome").handoff_id;
    let (one, two) = tokio::join!(world.claim("agent:one", &id), world.claim("agent:two", &id));
    let (winner, claimed, loser, lost) = match (one, two) {
        (Ok(claimed), lost) => ("agent:one", claimed, "agent:two", lost),
        (lost, Ok(claimed)) => ("agent:two", claimed, "agent:one", lost),
        (Err(one), Err(two)) => panic!("nobody claims: {one} {two}"),
    };
    refused(lost, "CLAIM_HELD");
    let (right, wrong) = (receipt_request(winner, &claimed), receipt_request(loser, &claimed));
    let (right, wrong) =
        tokio::join!(world.acknowledge(winner, right), world.acknowledge(loser, wrong));
    right.expect("receives");
    wrong.expect_err("only one receives");
    let task = world.see_all(&held.task_id).await;
    world.stands(&task, winner, 2, pb::HandoffStatus::Received);
    assert_eq!(receipts(&world.events(&held.task_id).await), 1);
}

// An answer that is lost with the broker must not lose the receipt, nor double it. REQ-069, HR-16
#[tokio::test]
async fn a_receipt_whose_answer_was_lost_is_there_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = || {
        let store = SledStore::open(folder.path(), 8 << 20).expect("opens");
        AnyStore::Sled(Box::new(store))
    };
    let world = World::over(open(), |_| {}).await;
    world.register(&[(REVIEWER, &["review"])]).await;
    let mut held = world.ready().await;
    let claimed = world.offer_and_claim(&mut held, REVIEWER).await;
    let request = receipt_request(REVIEWER, &claimed);
    world.acknowledge(REVIEWER, request.clone()).await.expect("receives, and nobody hears it");
    world.end().await.expect("ends");

    let world = World::over(open(), |_| {}).await;
    let task = world.see_all(&held.task_id).await;
    world.stands(&task, REVIEWER, 2, pb::HandoffStatus::Received);
    let done = world.acknowledge(REVIEWER, request).await.expect("replays");
    let outcome = done.outcome.expect("an outcome");
    assert_eq!((outcome.epoch, outcome.replayed), (2, true));
    assert_eq!(receipts(&world.events(&held.task_id).await), 1);
    world.end().await.expect("ends");
}

// Absent and empty differ: "no artifacts" must be said, or a receiver that looked at none passes.
// REQ-060, HR-17
#[tokio::test]
async fn a_packet_without_artifacts_needs_an_explicit_empty_echo() {
    let world = World::new().await;
    world.register(&[(REVIEWER, &["review"])]).await;
    let mut held = world.task().await;
    let none = pb::ArtifactDescriptorListField {
        state: Some(pb::artifact_descriptor_list_field::State::Value(Default::default())),
    };
    let mut checkpoint = example::checkpoint();
    checkpoint.artifact_descriptors = Some(none.clone());
    world.put_this_checkpoint(&mut held, checkpoint).await.expect("puts");
    let change = |r: &mut pb::OfferHandoffRequest| {
        r.packet.as_mut().expect("a packet").artifact_descriptors = Some(none);
    };
    let offered = world.offer_with(&mut held, REVIEWER, change).await.expect("offers");
    let id = offered.outcome.expect("an outcome").handoff_id;
    let claimed = world.claim(REVIEWER, &id).await.expect("claims");

    let mut absent = receipt_request(REVIEWER, &claimed);
    absent.receipt.as_mut().expect("a receipt").artifacts = None;
    let status = refused(world.acknowledge(REVIEWER, absent).await, "RECEIPT_MISMATCH");
    assert_eq!(facts(&status)["elements"], "artifacts");
    let empty = receipt_request(REVIEWER, &claimed);
    let sent = empty.receipt.as_ref().and_then(|r| r.artifacts.clone());
    assert_eq!(sent, Some(pb::ArtifactSetEcho::default()));
    world.acknowledge(REVIEWER, empty).await.expect("receives");
}

// A receipt that needed the chat history would make that history the state. REQ-031, HR-18
#[tokio::test]
async fn a_task_without_history_is_received_without_it() {
    let world = World::new().await;
    world.register(&[(REVIEWER, &["review"])]).await;
    let mut held = world
        .task_with(|r| {
            let history = i32::from(pb::Trait::HistoryMatters);
            r.shape.as_mut().expect("a shape").traits.retain(|t| *t != history);
            let contract = r.contract.as_mut().expect("a contract");
            contract.history_pointer_or_curated_history = None;
        })
        .await;
    world.put_artifact(&mut held).await;
    world.put_checkpoint(&mut held).await;
    let change = |r: &mut pb::OfferHandoffRequest| {
        r.packet.as_mut().expect("a packet").history_pointer = None;
    };
    let offered = world.offer_with(&mut held, REVIEWER, change).await.expect("offers");
    let id = offered.outcome.expect("an outcome").handoff_id;
    let claimed = world.claim(REVIEWER, &id).await.expect("claims");
    world.receive(&held, REVIEWER, &claimed).await;
}

// A receiver that finds a fault must be able to say which, and the task must stay with its sender.
// REQ-066, HR-19
#[tokio::test]
async fn a_rejection_names_its_element_and_leaves_the_owner() {
    let (world, held, claimed) = World::with_claimed().await;
    let id = claimed.packet.expect("a packet").handoff_id;
    let rejected = world.reject(REVIEWER, &id).await.expect("rejects");
    assert_eq!(rejected.status(), pb::HandoffStatus::Rejected);
    let task = world.see_all(&held.task_id).await;
    world.stands(&task, WRITER, 1, pb::HandoffStatus::Rejected);
    let handoff = world.see_handoff(WRITER, &id).await.expect("sees");
    assert_eq!(handoff.failing_element(), pb::ReceiptElement::Artifacts);
    assert_eq!(handoff.end_comment, "the artifact is another one");
    assert_eq!(handoff.end_reason(), pb::HandoffEndReason::RefusedByReceiver);
}

// A former owner that goes on writing would undo the new owner's work. REQ-067, HR-20
#[tokio::test]
async fn the_old_owner_writes_no_more_after_the_receipt() {
    let (world, mut held, claimed) = World::with_claimed().await;
    world.receive(&held, REVIEWER, &claimed).await;
    let before = world.see_all(&held.task_id).await;
    refused(world.work(&mut held).await, "STALE_EPOCH");
    let mut guessed = held.clone();
    (guessed.epoch, guessed.revision) = (before.epoch, before.revision);
    refused(world.work(&mut guessed).await, "STALE_EPOCH");
    let mut never = held.clone();
    never.owner = VERIFIER.to_owned();
    refused(world.work(&mut never).await, "NOT_OWNER");
    assert_eq!(world.see_all(&held.task_id).await.revision, before.revision);
}

// Unbounded attempts would let a receiver guess, and would keep the sender waiting. REQ-058
#[tokio::test]
async fn attempts_are_bounded_and_then_the_offer_ends() {
    let (world, held, claimed) = World::with_claimed().await;
    let id = claimed.packet.clone().expect("a packet").handoff_id;
    for left in (0..5).rev() {
        let mut request = receipt_request(REVIEWER, &claimed);
        request.receipt.as_mut().expect("a receipt").artifacts = None;
        let status = refused(world.acknowledge(REVIEWER, request).await, "RECEIPT_MISMATCH");
        assert_eq!(facts(&status)["attemptsLeft"], left.to_string());
    }
    let handoff = world.see_handoff(WRITER, &id).await.expect("sees");
    assert_eq!(handoff.status(), pb::HandoffStatus::Rejected);
    assert_eq!(handoff.end_reason(), pb::HandoffEndReason::AttemptsExhausted);
    let status = refused(
        world.acknowledge(REVIEWER, receipt_request(REVIEWER, &claimed)).await,
        "HANDOFF_ENDED",
    );
    assert_eq!(facts(&status)["status"], "REJECTED");
    let task = world.see_all(&held.task_id).await;
    world.stands(&task, WRITER, 1, pb::HandoffStatus::Rejected);
}
