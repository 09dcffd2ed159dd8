//! The same request again: the same answer, and nothing twice.

use baton::core::contract::example;
use baton::proto::baton::v1 as pb;

use crate::packets::{create_request, offer_request, receipt_request};
use crate::steps::{REVIEWER, VERIFIER, WRITER, readback_request, report};
use crate::world::{World, by, by_operator, fresh, refused};

/// The outcome of a repeat is the first one, marked as a repeat.
#[track_caller]
fn same(first: Option<pb::Outcome>, second: Option<pb::Outcome>) -> pb::Outcome {
    let (first, second) = (first.expect("an outcome"), second.expect("an outcome"));
    assert!(!first.replayed && second.replayed);
    assert_eq!(pb::Outcome { replayed: false, ..second }, first);
    first
}

/// Sends a request twice, and once more with other content.
macro_rules! twice {
    ($world:ident, $client:ident, $rpc:ident, $by:expr, $request:expr, $other:expr) => {{
        let request = $request;
        let first = $world.$client().$rpc($by(request.clone())).await.expect("first").into_inner();
        let second =
            $world.$client().$rpc($by(request.clone())).await.expect("second").into_inner();
        let outcome = same(first.outcome.clone(), second.outcome.clone());
        let (mut plain, mut again) = (first.clone(), second);
        (plain.outcome, again.outcome) = (None, None);
        assert_eq!(again, plain, stringify!($rpc));
        let mut other = request;
        #[allow(clippy::redundant_closure_call)]
        ($other)(&mut other);
        let other = $world.$client().$rpc($by(other)).await;
        refused(other, "IDEMPOTENCY_MISMATCH");
        (outcome, first)
    }};
}

// A lost answer is asked for again: a second effect would be a second invoice. REQ-255
#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one call after the other")]
async fn every_change_is_safe_to_repeat_and_never_mistaken_for_another() {
    let world = World::new().await;
    world.register(&[(REVIEWER, &["review"])]).await;
    let writer = |m| by(WRITER, m);
    let (outcome, _) = twice!(
        world,
        tasks,
        create_task,
        writer,
        create_request(|_| {}),
        |r: &mut pb::CreateTaskRequest| {
            r.task_class = "other".to_owned();
        }
    );
    let mut held = world.held(&outcome);
    let writer = |m| by(WRITER, m);
    let request = pb::PutArtifactRequest {
        request_id: fresh(),
        task_id: held.task_id.clone(),
        guard: held.guard(),
        descriptor: Some(crate::packets::example_artifact()),
        ..Default::default()
    };
    let (outcome, _) =
        twice!(world, tasks, put_artifact, writer, request, |r: &mut pb::PutArtifactRequest| {
            r.run_id = "run-9".to_owned();
        });
    held.moved(Some(outcome));
    let writer = |m| by(WRITER, m);
    let request = pb::PutCheckpointRequest {
        request_id: fresh(),
        task_id: held.task_id.clone(),
        guard: held.guard(),
        checkpoint: Some(pb::Checkpoint { id: "cp-1".to_owned(), ..example::checkpoint() }),
    };
    let (outcome, put) = twice!(
        world,
        tasks,
        put_checkpoint,
        writer,
        request,
        |r: &mut pb::PutCheckpointRequest| {
            r.checkpoint.as_mut().expect("one").next_action = example::text("another step");
        }
    );
    held.moved(Some(outcome));
    held.checkpoint = put.checkpoint;
    let writer = |m| by(WRITER, m);
    let request = pb::ReportStatusRequest {
        request_id: fresh(),
        task_id: held.task_id.clone(),
        guard: held.guard(),
        report: Some(report(pb::RuntimeStatus::Working)),
    };
    let (outcome, _) =
        twice!(world, tasks, report_status, writer, request, |r: &mut pb::ReportStatusRequest| {
            r.report.as_mut().expect("one").comment = "other".to_owned();
        });
    held.moved(Some(outcome));
    let verifier = |m| by(VERIFIER, m);
    let request = readback_request(&held, pb::ReadbackResult::Pass);
    let (outcome, _) = twice!(
        world,
        tasks,
        record_readback,
        verifier,
        request,
        |r: &mut pb::RecordReadbackRequest| {
            r.evidence.as_mut().expect("one").method = "other".to_owned();
        }
    );
    held.moved(Some(outcome));
    let request = |reason: &str| pb::FreezeTaskRequest {
        request_id: fresh(),
        task_id: held.task_id.clone(),
        reason: reason.to_owned(),
    };
    twice!(
        world,
        tasks,
        freeze_task,
        by_operator,
        request("hold"),
        |r: &mut pb::FreezeTaskRequest| {
            r.reason = "other".to_owned();
        }
    );
    let request = pb::LiftFreezeRequest {
        request_id: fresh(),
        task_id: held.task_id.clone(),
        reason: "go on".to_owned(),
    };
    let (outcome, _) =
        twice!(world, tasks, lift_freeze, by_operator, request, |r: &mut pb::LiftFreezeRequest| {
            r.reason = "other".to_owned();
        });
    held.moved(Some(outcome));
    handoffs(&world, held).await;
}

#[expect(clippy::too_many_lines, reason = "one call after the other")]
async fn handoffs(world: &World, mut held: crate::world::Held) {
    let writer = |m| by(WRITER, m);
    let other = |r: &mut pb::OfferHandoffRequest| {
        let packet = r.packet.as_mut().expect("a packet");
        packet.handoff_reason = example::text("other");
    };
    let request = offer_request(&held, REVIEWER);
    let (outcome, offered) = twice!(world, handoffs, offer_handoff, writer, request, other);
    held.moved(Some(outcome.clone()));
    let writer = |m| by(WRITER, m);
    let request = pb::WithdrawHandoffRequest {
        request_id: fresh(),
        handoff_id: outcome.handoff_id,
        packet_digest: offered.packet_digest,
        reason: "not now".to_owned(),
    };
    let (outcome, _) = twice!(
        world,
        handoffs,
        withdraw_handoff,
        writer,
        request,
        |r: &mut pb::WithdrawHandoffRequest| {
            r.reason = "other".to_owned();
        }
    );
    held.moved(Some(outcome));
    let offered = world.offer(&mut held, REVIEWER).await;
    let reviewer = |m| by(REVIEWER, m);
    let request = pb::RejectHandoffRequest {
        request_id: fresh(),
        handoff_id: offered.outcome.expect("an outcome").handoff_id,
        reason: "no".to_owned(),
        ..Default::default()
    };
    let (outcome, _) = twice!(
        world,
        handoffs,
        reject_handoff,
        reviewer,
        request,
        |r: &mut pb::RejectHandoffRequest| {
            r.reason = "other".to_owned();
        }
    );
    held.moved(Some(outcome));
    let offered = world.offer(&mut held, REVIEWER).await;
    let reviewer = |m| by(REVIEWER, m);
    let request = pb::ClaimHandoffRequest {
        request_id: fresh(),
        handoff_id: offered.outcome.expect("an outcome").handoff_id,
        instance_id: format!("{REVIEWER}-1"),
    };
    let (_, claimed) = twice!(
        world,
        handoffs,
        claim_handoff,
        reviewer,
        request,
        |r: &mut pb::ClaimHandoffRequest| {
            r.instance_id = "other".to_owned();
        }
    );
    let reviewer = |m| by(REVIEWER, m);
    let request = receipt_request(REVIEWER, &claimed);
    let (outcome, _) = twice!(
        world,
        handoffs,
        acknowledge_handoff,
        reviewer,
        request,
        |r: &mut pb::AcknowledgeHandoffRequest| {
            r.instance_id = "other".to_owned();
        }
    );
    let reviewer = |m| by(REVIEWER, m);
    let request = pb::ResumeOwnershipRequest {
        request_id: fresh(),
        task_id: held.task_id.clone(),
        epoch: outcome.epoch,
        instance_id: "reviewer-2".to_owned(),
    };
    let (outcome, _) = twice!(
        world,
        handoffs,
        resume_ownership,
        reviewer,
        request,
        |r: &mut pb::ResumeOwnershipRequest| {
            r.instance_id = "other".to_owned();
        }
    );
    world.register(&[(WRITER, &[])]).await;
    let mut back = offer_request(&held, WRITER);
    back.packet.as_mut().expect("a packet").handoff_reason = example::text("take over");
    let request = pb::OfferOnBehalfRequest {
        request_id: fresh(),
        expected_revision: outcome.revision,
        packet: back.packet,
        options: None,
        reason: "gone".to_owned(),
    };
    twice!(
        world,
        handoffs,
        offer_on_behalf,
        by_operator,
        request,
        |r: &mut pb::OfferOnBehalfRequest| {
            r.reason = "other".to_owned();
        }
    );
    let request = pb::CancelTaskRequest {
        request_id: fresh(),
        task_id: held.task_id.clone(),
        reason: "over".to_owned(),
    };
    twice!(world, tasks, cancel_task, by_operator, request, |r: &mut pb::CancelTaskRequest| {
        r.reason = "other".to_owned();
    });
}

// A decision that is asked for twice closes once. REQ-255
#[tokio::test]
async fn a_decision_is_safe_to_repeat_after_it_closed_the_task() {
    let world = World::new().await;
    let mut held = world.ready().await;
    world.work(&mut held).await.expect("works");
    world.report(&mut held, report(pb::RuntimeStatus::RuntimeCompleted)).await.expect("completes");
    let request = pb::DecideAcceptanceRequest {
        request_id: fresh(),
        task_id: held.task_id.clone(),
        expected_revision: held.revision,
        decision: Some(pb::AcceptanceDecision {
            verdict: pb::BusinessAcceptanceStatus::Rejected.into(),
            comment: "no".to_owned(),
            acceptance_contract_ref: "acc-5@v2".to_owned(),
            close: true,
        }),
    };
    let verifier = |m| by(VERIFIER, m);
    twice!(
        world,
        tasks,
        decide_acceptance,
        verifier,
        request,
        |r: &mut pb::DecideAcceptanceRequest| {
            r.decision.as_mut().expect("one").comment = "other".to_owned();
        }
    );
}

// One caller's key must not answer for another's request. REQ-255
#[tokio::test]
async fn a_request_id_belongs_to_its_caller_and_its_call() {
    let world = World::new().await;
    let request = create_request(|_| {});
    let one = world.tasks().create_task(by(WRITER, request.clone())).await.expect("creates");
    let two = world.tasks().create_task(by(REVIEWER, request)).await.expect("creates another");
    let (one, two) = (one.into_inner().outcome, two.into_inner().outcome);
    assert_ne!(one.expect("one").task_id, two.expect("one").task_id);
}

// What is remembered is bounded; an older repeat must be told that it is old, never be carried out
// again. The creation is remembered as long as the task. REQ-255
#[tokio::test]
async fn the_newest_128_answers_and_the_creation_are_remembered() {
    let world = World::new().await;
    let create = create_request(|_| {});
    let done = world.tasks().create_task(by(WRITER, create.clone())).await.expect("creates");
    let created = done.into_inner().outcome.expect("an outcome");
    let mut held = world.held(&created);
    let mut requests = Vec::new();
    for _ in 0..129 {
        let request = pb::ReportStatusRequest {
            request_id: fresh(),
            task_id: held.task_id.clone(),
            guard: held.guard(),
            report: Some(report(pb::RuntimeStatus::Working)),
        };
        let done = world.tasks().report_status(by(WRITER, request.clone())).await.expect("works");
        let outcome = done.into_inner().outcome;
        held.moved(outcome.clone());
        requests.push((request, outcome));
    }
    let (newest, _) = requests.split_at(129);
    for (request, outcome) in &newest[1..] {
        let again = world.tasks().report_status(by(WRITER, request.clone())).await;
        same(outcome.clone(), again.expect("is remembered").into_inner().outcome);
    }
    let revision = world.see_all(&held.task_id).await.revision;
    let oldest = world.tasks().report_status(by(WRITER, requests[0].0.clone())).await;
    // The store keeps whole segments, so a little more than 128 may be there.
    if let Err(status) = oldest {
        assert_eq!(crate::world::reason(&status), "STATE_CONFLICT");
    }
    for _ in 0..16 {
        world.work(&mut held).await.expect("works");
    }
    let forgotten = world.tasks().report_status(by(WRITER, requests[0].0.clone())).await;
    let status = refused(forgotten, "STATE_CONFLICT");
    let facts = crate::world::facts(&status);
    assert_eq!(facts["updatedBy"], WRITER);
    assert_eq!(world.see_all(&held.task_id).await.revision, revision + 16);
    let again = world.tasks().create_task(by(WRITER, create)).await.expect("is remembered");
    same(Some(created), again.into_inner().outcome);
}

// A refusal that was remembered would refuse for ever what has become right. REQ-255
#[tokio::test]
async fn a_refusal_is_not_remembered() {
    let (world, mut held) = World::with_ready().await;
    world.freeze(&held.task_id).await;
    held.revision = world.see_all(&held.task_id).await.revision + 1;
    let request = pb::ReportStatusRequest {
        request_id: fresh(),
        task_id: held.task_id.clone(),
        guard: held.guard(),
        report: Some(report(pb::RuntimeStatus::Working)),
    };
    let early = world.tasks().report_status(by(WRITER, request.clone())).await;
    refused(early, "STATE_CONFLICT");
    world.lift(&held.task_id).await;
    world.tasks().report_status(by(WRITER, request)).await.expect("works now");
}
