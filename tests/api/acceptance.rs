//! Acceptance: never the executor's own claim, and never without re-reading the result.

use baton::core::contract::example;
use baton::proto::baton::v1 as pb;
use pb::BusinessAcceptanceStatus as Acceptance;
use pb::{ReadbackResult, RuntimeStatus as Runtime};

use crate::packets::example_artifact;
use crate::steps::{REVIEWER, VERIFIER, WRITER, report};
use crate::world::{Held, World, fields, refused};

/// A task whose owner has ended, with nothing left to do.
async fn finished(world: &World) -> Held {
    let mut held = world.task().await;
    world.put_artifact(&mut held).await;
    done_checkpoint(world, &mut held).await;
    world.work(&mut held).await.expect("works");
    world.report(&mut held, report(Runtime::RuntimeCompleted)).await.expect("completes");
    held
}

async fn done_checkpoint(world: &World, held: &mut Held) {
    let mut checkpoint = example::checkpoint();
    checkpoint.not_done = Some(pb::NotDoneUnitListField {
        state: Some(pb::not_done_unit_list_field::State::Value(Default::default())),
    });
    world.put_this_checkpoint(held, checkpoint).await.expect("puts");
}

async fn axes(world: &World, held: &Held) -> (Runtime, Acceptance, pb::Disposition) {
    let axes = world.see_all(&held.task_id).await.axes.expect("axes");
    (axes.runtime(), axes.acceptance(), axes.disposition())
}

// An engine's end that counted as acceptance would accept whatever was made. REQ-080, REQ-081
#[tokio::test]
async fn a_completion_opens_verification_and_accepts_nothing() {
    let world = World::new().await;
    let held = finished(&world).await;
    let seen = axes(&world, &held).await;
    assert_eq!(seen, (Runtime::RuntimeCompleted, Acceptance::Verifying, pb::Disposition::Open));
}

// Accepted and closed, after everything was read back by somebody else. REQ-083
#[tokio::test]
async fn a_result_that_was_read_back_is_accepted_and_the_task_closes() {
    let world = World::new().await;
    let mut held = finished(&world).await;
    let early = world.decide(VERIFIER, &held.task_id, Acceptance::Accepted).await;
    assert_eq!(fields(&refused(early, "READBACK_REQUIRED")), ["artifacts[art-1]"]);
    world.readback(VERIFIER, &held, ReadbackResult::Inconclusive).await.expect("records");
    let still = world.decide(VERIFIER, &held.task_id, Acceptance::Accepted).await;
    refused(still, "READBACK_REQUIRED");
    world.readback(VERIFIER, &held, ReadbackResult::Pass).await.expect("records");
    world.decide(VERIFIER, &held.task_id, Acceptance::Accepted).await.expect("accepts");
    let seen = axes(&world, &held).await;
    assert_eq!(seen, (Runtime::RuntimeCompleted, Acceptance::Accepted, pb::Disposition::Closed));
    held.revision = world.see_all(&held.task_id).await.revision;
    refused(world.work(&mut held).await, "TASK_CLOSED");
}

// An executor that confirms itself is a claim, not evidence. REQ-082
#[tokio::test]
async fn an_executor_verifies_nothing_that_it_made() {
    let world = World::new().await;
    world.register(&[(REVIEWER, &["review"])]).await;
    let mut held = world
        .task_with(|r| {
            let verifiers = [VERIFIER, WRITER, REVIEWER].map(str::to_owned).to_vec();
            r.policy.as_mut().expect("a policy").verifiers = verifiers;
        })
        .await;
    world.put_artifact(&mut held).await;
    done_checkpoint(&world, &mut held).await;
    let own = world.readback(WRITER, &held, ReadbackResult::Pass).await;
    refused(own, "VERIFIER_NOT_INDEPENDENT");
    let change = |r: &mut pb::OfferHandoffRequest| {
        r.packet.as_mut().expect("a packet").not_done = Some(pb::NotDoneUnitListField {
            state: Some(pb::not_done_unit_list_field::State::Value(Default::default())),
        });
    };
    let offered = world.offer_with(&mut held, REVIEWER, change).await.expect("offers");
    let id = offered.outcome.expect("an outcome").handoff_id;
    let claimed = world.claim(REVIEWER, &id).await.expect("claims");
    let mut taken = world.receive(&held, REVIEWER, &claimed).await;
    // Neither who put it, though it owns nothing now, nor who has owned the task since.
    for executor in [WRITER, REVIEWER] {
        let own = world.readback(executor, &held, ReadbackResult::Pass).await;
        refused(own, "VERIFIER_NOT_INDEPENDENT");
    }
    world.work(&mut taken).await.expect("works");
    world.report(&mut taken, report(Runtime::RuntimeCompleted)).await.expect("completes");
    world.readback(VERIFIER, &held, ReadbackResult::Pass).await.expect("records");
    for executor in [WRITER, REVIEWER] {
        let own = world.decide(executor, &held.task_id, Acceptance::Accepted).await;
        refused(own, "VERIFIER_NOT_INDEPENDENT");
    }
    world.decide(VERIFIER, &held.task_id, Acceptance::Accepted).await.expect("accepts");
}

// A second name of the executor is the executor. REQ-082
#[tokio::test]
async fn a_verifier_of_the_executors_account_is_not_independent() {
    let known: [(&str, &str, &[&str]); 3] =
        [(WRITER, "svc-a", &[]), (VERIFIER, "svc-a", &[]), ("human:operator", "ops", &[])];
    let world = World::with_accounts(&known).await;
    let held = finished(&world).await;
    let own = world.readback(VERIFIER, &held, ReadbackResult::Pass).await;
    refused(own, "VERIFIER_NOT_INDEPENDENT");
    let own = world.decide(VERIFIER, &held.task_id, Acceptance::Accepted).await;
    refused(own, "VERIFIER_NOT_INDEPENDENT");
}

// Whoever is not named as verifier could accept its friend's work. REQ-082
#[tokio::test]
async fn only_a_verifier_of_the_contract_verifies() {
    let world = World::new().await;
    let held = finished(&world).await;
    let own = world.readback(WRITER, &held, ReadbackResult::Pass).await;
    refused(own, "NOT_VERIFIER");
    refused(world.decide(WRITER, &held.task_id, Acceptance::Accepted).await, "NOT_VERIFIER");
    let mut stale = crate::steps::readback_request(&held, ReadbackResult::Pass);
    stale.artifact_digest = crate::receipts::OTHER.to_owned();
    let status = world.tasks().record_readback(crate::world::by(VERIFIER, stale)).await;
    refused(status, "ARTIFACT_DRIFT");
    let mut unseen = crate::steps::readback_request(&held, ReadbackResult::Pass);
    unseen.evidence.as_mut().expect("evidence").observed = "saved successfully".to_owned();
    let status = world.tasks().record_readback(crate::world::by(VERIFIER, unseen)).await;
    refused(status, "ARTIFACT_DRIFT");
}

// Acceptance with units left to do would close half a task. REQ-083
#[tokio::test]
async fn a_result_with_units_left_is_not_accepted() {
    let world = World::new().await;
    let mut held = world.ready().await;
    world.work(&mut held).await.expect("works");
    world.report(&mut held, report(Runtime::RuntimeCompleted)).await.expect("completes");
    world.readback(VERIFIER, &held, ReadbackResult::Pass).await.expect("records");
    let status = world.decide(VERIFIER, &held.task_id, Acceptance::Accepted).await;
    assert_eq!(fields(&refused(status, "ACCEPTANCE_NOT_MET")), ["checkpoint.not_done"]);
}

// A result without its deliverable would be accepted for its good words. REQ-081, REQ-082
#[tokio::test]
async fn a_result_without_the_expected_artifact_is_not_accepted() {
    let world = World::new().await;
    let mut held = world.task().await;
    let mut checkpoint = example::checkpoint();
    checkpoint.artifact_descriptors = Some(pb::ArtifactDescriptorListField {
        state: Some(pb::artifact_descriptor_list_field::State::Value(Default::default())),
    });
    checkpoint.not_done = Some(pb::NotDoneUnitListField {
        state: Some(pb::not_done_unit_list_field::State::Value(Default::default())),
    });
    world.put_this_checkpoint(&mut held, checkpoint).await.expect("puts");
    world.work(&mut held).await.expect("works");
    world.report(&mut held, report(Runtime::RuntimeCompleted)).await.expect("completes");
    let status = world.decide(VERIFIER, &held.task_id, Acceptance::Accepted).await;
    assert_eq!(fields(&refused(status, "ACCEPTANCE_NOT_MET")), ["policy.expected[report]"]);
    world.decide(VERIFIER, &held.task_id, Acceptance::Rejected).await.expect("rejects");
    let seen = axes(&world, &held).await;
    assert_eq!(seen, (Runtime::RuntimeCompleted, Acceptance::Rejected, pb::Disposition::Open));
    // A rejection is not a failure of the engine, and rework goes on. REQ-084
    held.revision = world.see_all(&held.task_id).await.revision;
    world.put_artifact(&mut held).await;
    assert_eq!(axes(&world, &held).await.1, Acceptance::Verifying);
}

// A passing readback of an old version must not accept the new one. REQ-081
#[tokio::test]
async fn a_new_version_is_read_back_again() {
    let world = World::new().await;
    let mut held = world.ready().await;
    held.revision =
        world.readback(VERIFIER, &held, ReadbackResult::Pass).await.expect("ok").revision;
    let newer = pb::ArtifactDescriptor { version: "v4".to_owned(), ..example_artifact() };
    world.put_this_artifact(&mut held, newer.clone()).await.expect("puts");
    let artifacts = world.see_all(&held.task_id).await.artifacts;
    assert_eq!(artifacts[0].state(), pb::ArtifactState::Put);
    let status = world.readback(VERIFIER, &held, ReadbackResult::Pass).await;
    refused(status, "ARTIFACT_DRIFT");
    refused(world.put_this_artifact(&mut held, newer).await, "ARTIFACT_EXISTS");
}

// A status that moves where it likes makes every report worthless. REQ-085, REQ-086, REQ-088
#[tokio::test]
async fn the_runtime_axis_moves_only_where_it_may() {
    let world = World::new().await;
    let mut held = world.ready().await;
    for to in [Runtime::RuntimeCompleted, Runtime::Reconciling, Runtime::Canceled] {
        refused(world.report(&mut held, report(to)).await, "ILLEGAL_TRANSITION");
    }
    world.work(&mut held).await.expect("works");
    refused(world.report(&mut held, report(Runtime::Submitted)).await, "ILLEGAL_TRANSITION");
    world.report(&mut held, report(Runtime::UnknownCause)).await.expect("reports");
    for to in [Runtime::Working, Runtime::RuntimeCompleted, Runtime::Failed] {
        refused(world.report(&mut held, report(to)).await, "ILLEGAL_TRANSITION");
    }
    world.report(&mut held, report(Runtime::Reconciling)).await.expect("reconciles");
    world.work(&mut held).await.expect("works");
    let mut uncertain = report(Runtime::RuntimeCompleted);
    uncertain.effect_uncertain = true;
    refused(world.report(&mut held, uncertain).await, "ILLEGAL_TRANSITION");
    for to in [Runtime::Paused, Runtime::Blocked, Runtime::Failed, Runtime::UnknownCause] {
        let bare = pb::StatusReport { runtime: to.into(), ..Default::default() };
        refused(world.report(&mut held, bare).await, "INVALID_REQUEST");
    }
    world.report(&mut held, report(Runtime::Paused)).await.expect("pauses");
    world.work(&mut held).await.expect("works");
    world.report(&mut held, report(Runtime::RuntimeCompleted)).await.expect("completes");
    refused(world.work(&mut held).await, "ILLEGAL_TRANSITION");
}

// A pause without a resume point cannot be resumed. REQ-085
#[tokio::test]
async fn a_pause_needs_a_checkpoint() {
    let world = World::new().await;
    let mut held = world.task().await;
    world.work(&mut held).await.expect("works");
    refused(world.report(&mut held, report(Runtime::Paused)).await, "CHECKPOINT_REQUIRED");
}

// A cancel that claims the end of what may have happened outside would hide it. REQ-089
#[tokio::test]
async fn a_cancel_with_an_open_effect_reconciles_before_it_ends() {
    let world = World::new().await;
    let mut held = world.ready().await;
    let mut uncertain = report(Runtime::Working);
    uncertain.effect_uncertain = true;
    world.report(&mut held, uncertain).await.expect("reports");
    world.cancel(WRITER, &held).await.expect("cancels");
    let task = world.see_all(&held.task_id).await;
    let now = axes(&world, &held).await;
    assert_eq!((now.0, now.2), (Runtime::Reconciling, pb::Disposition::Open));
    refused(world.work(&mut held).await, "TASK_CANCELED");
    (held.epoch, held.revision) = (task.epoch, task.revision);
    refused(world.work(&mut held).await, "TASK_CANCELED");
    world.report(&mut held, report(Runtime::Canceled)).await.expect("reconciled");
    let now = axes(&world, &held).await;
    assert_eq!((now.0, now.2), (Runtime::Canceled, pb::Disposition::Closed));
}
