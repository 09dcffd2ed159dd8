//! Who sees what: a stranger learns nothing, not even that there is something.

use baton::core::contract::example;
use baton::proto::baton::v1 as pb;
use tonic::Status;

use crate::packets::{offer_request, receipt_request};
use crate::steps::{REVIEWER, VERIFIER, WRITER, next, readback_request, report};
use crate::world::{Held, World, by, fresh, refused};

/// Everything of a status that goes over the wire, but the time of day.
fn bytes(status: &Status) -> (tonic::Code, String, Vec<u8>, Vec<String>) {
    let mut names: Vec<String> = status.metadata().keys().map(|k| format!("{k:?}")).collect();
    names.sort();
    (status.code(), status.message().to_owned(), status.details().to_vec(), names)
}

/// What a stranger gets from every call that names a task or a handoff.
#[expect(clippy::too_many_lines, reason = "one call after the other")]
async fn all_answers(world: &World, held: &Held, handoff_id: &str) -> Vec<(&'static str, Status)> {
    let stranger = "agent:stranger";
    let request_id = || "018f4e9a-7b2c-7d3e-8f10-2a3b4c5d6e7f".to_owned();
    let task_id = || held.task_id.clone();
    let handoff_id = || handoff_id.to_owned();
    let (mut tasks, mut handoffs) = (world.tasks(), world.handoffs());
    let mut all = Vec::new();
    macro_rules! call {
        ($client:ident, $rpc:ident, $request:expr) => {
            let status = $client.$rpc(by(stranger, $request)).await;
            all.push((stringify!($rpc), status.map(|_| ()).expect_err(stringify!($rpc))));
        };
    }
    call!(tasks, get_task_state, pb::GetTaskStateRequest { task_id: task_id() });
    call!(tasks, get_resume_set, pb::GetResumeSetRequest { task_id: task_id() });
    call!(
        tasks,
        put_checkpoint,
        pb::PutCheckpointRequest {
            request_id: request_id(),
            task_id: task_id(),
            guard: held.guard(),
            checkpoint: Some(example::checkpoint()),
        }
    );
    call!(
        tasks,
        report_status,
        pb::ReportStatusRequest {
            request_id: request_id(),
            task_id: task_id(),
            guard: held.guard(),
            report: Some(report(pb::RuntimeStatus::Working)),
        }
    );
    call!(
        tasks,
        put_artifact,
        pb::PutArtifactRequest {
            request_id: request_id(),
            task_id: task_id(),
            guard: held.guard(),
            descriptor: Some(crate::packets::example_artifact()),
            ..Default::default()
        }
    );
    let artifact_id = "art-1".to_owned();
    call!(tasks, get_artifact, pb::GetArtifactRequest { task_id: task_id(), artifact_id });
    let readback = readback_request(held, pb::ReadbackResult::Pass);
    call!(
        tasks,
        record_readback,
        pb::RecordReadbackRequest { request_id: request_id(), ..readback }
    );
    call!(
        tasks,
        decide_acceptance,
        pb::DecideAcceptanceRequest {
            request_id: request_id(),
            task_id: task_id(),
            expected_revision: 1,
            decision: Some(pb::AcceptanceDecision {
                verdict: pb::BusinessAcceptanceStatus::Accepted.into(),
                acceptance_contract_ref: "acc-5@v2".to_owned(),
                ..Default::default()
            }),
        }
    );
    let reason = || "because".to_owned();
    call!(
        tasks,
        cancel_task,
        pb::CancelTaskRequest { request_id: request_id(), task_id: task_id(), reason: reason() }
    );
    call!(
        tasks,
        freeze_task,
        pb::FreezeTaskRequest { request_id: request_id(), task_id: task_id(), reason: reason() }
    );
    call!(
        tasks,
        lift_freeze,
        pb::LiftFreezeRequest { request_id: request_id(), task_id: task_id(), reason: reason() }
    );
    call!(tasks, watch_task, pb::WatchTaskRequest { task_id: task_id(), after_sequence: 0 });
    let offer = offer_request(held, REVIEWER);
    call!(
        handoffs,
        offer_on_behalf,
        pb::OfferOnBehalfRequest {
            request_id: request_id(),
            expected_revision: 1,
            packet: offer.packet.clone(),
            options: None,
            reason: reason(),
        }
    );
    call!(handoffs, offer_handoff, pb::OfferHandoffRequest { request_id: request_id(), ..offer });
    call!(
        handoffs,
        resume_ownership,
        pb::ResumeOwnershipRequest {
            request_id: request_id(),
            task_id: task_id(),
            epoch: 1,
            instance_id: "x".to_owned(),
        }
    );
    let instance_id = || "x".to_owned();
    call!(
        handoffs,
        claim_handoff,
        pb::ClaimHandoffRequest {
            request_id: request_id(),
            handoff_id: handoff_id(),
            instance_id: instance_id(),
        }
    );
    call!(
        handoffs,
        renew_claim,
        pb::RenewClaimRequest {
            request_id: request_id(),
            handoff_id: handoff_id(),
            instance_id: instance_id(),
        }
    );
    call!(
        handoffs,
        acknowledge_handoff,
        pb::AcknowledgeHandoffRequest {
            request_id: request_id(),
            handoff_id: handoff_id(),
            packet_digest: crate::receipts::OTHER.to_owned(),
            instance_id: instance_id(),
            receipt: Some(pb::HandoffReceipt::default()),
        }
    );
    call!(
        handoffs,
        reject_handoff,
        pb::RejectHandoffRequest {
            request_id: request_id(),
            handoff_id: handoff_id(),
            reason: reason(),
            ..Default::default()
        }
    );
    call!(
        handoffs,
        withdraw_handoff,
        pb::WithdrawHandoffRequest {
            request_id: request_id(),
            handoff_id: handoff_id(),
            packet_digest: crate::receipts::OTHER.to_owned(),
            reason: reason(),
        }
    );
    call!(handoffs, get_handoff, pb::GetHandoffRequest { handoff_id: handoff_id() });
    all
}

// An answer that differs tells a stranger which ids exist. REQ-065
#[tokio::test]
async fn a_strangers_answer_is_that_of_an_unknown_id_byte_for_byte() {
    let (world, held, claimed) = World::with_claimed().await;
    let id = claimed.packet.expect("a packet").handoff_id;
    let empty = World::new().await;
    let there = all_answers(&world, &held, &id).await;
    let nowhere = all_answers(&empty, &held, &id).await;
    assert_eq!(there.len(), 21);
    for ((rpc, one), (_, other)) in there.iter().zip(&nowhere) {
        assert_eq!(one.code(), tonic::Code::NotFound, "{rpc}: {one:?}");
        assert_eq!(bytes(one), bytes(other), "{rpc}");
    }
    assert_eq!(world.see_all(&held.task_id).await.last_sequence, 5, "nothing was recorded");
}

// An owner of the past that still saw everything would see what it was not given. REQ-067
#[tokio::test]
async fn a_past_owner_sees_up_to_its_handoff_and_no_further() {
    let world = World::new().await;
    world.register(&[(REVIEWER, &["review"]), ("agent:third", &["review"])]).await;
    let mut held = world.ready().await;
    let mut at_b = world.hand_over(&mut held, REVIEWER).await;
    let mut at_c = world.hand_over(&mut at_b, "agent:third").await;
    let until = world.see_all(&held.task_id).await;
    world.work(&mut at_c).await.expect("works");

    let seen = world.see(REVIEWER, &held.task_id).await.expect("sees");
    assert_eq!(seen.view(), pb::TaskView::PastOwner);
    assert_eq!((seen.revision, seen.last_sequence), (until.revision, until.last_sequence));
    assert_eq!((seen.owner.as_str(), seen.artifacts.len(), seen.axes), ("", 0, None));
    let request = pb::WatchTaskRequest { task_id: held.task_id.clone(), after_sequence: 0 };
    let stream = world.tasks().watch_task(by(REVIEWER, request)).await.expect("watches");
    let mut stream = stream.into_inner();
    let mut last = 0;
    while let Some(next) = next(&mut stream).await.expect("reads") {
        last = next.event.expect("an event").sequence;
    }
    assert_eq!(last, until.last_sequence, "the stream ends with its right to see");
    let request = pb::GetResumeSetRequest { task_id: held.task_id.clone() };
    let set = world.tasks().get_resume_set(by(REVIEWER, request)).await;
    refused(set, "NOT_OWNER");
    let mine = world.tasks().list_tasks(by(REVIEWER, pb::ListTasksRequest::default())).await;
    assert!(mine.expect("lists").into_inner().tasks.is_empty());
}

// A receiver that saw the whole task before its receipt would not have to verify anything. REQ-059
#[tokio::test]
async fn the_receiver_of_an_open_offer_sees_the_offer_only() {
    let (world, mut held) = World::with_ready().await;
    let offered = world.offer(&mut held, REVIEWER).await;
    let id = offered.outcome.clone().expect("an outcome").handoff_id;
    let seen = world.see(REVIEWER, &held.task_id).await.expect("sees");
    let only = pb::Task {
        task_id: held.task_id.clone(),
        task_class: "review".to_owned(),
        view: pb::TaskView::Receiver.into(),
        ..Default::default()
    };
    assert_eq!(seen, only);
    let request = pb::GetHandoffRequest { handoff_id: id.clone() };
    let got = world.handoffs().get_handoff(by(REVIEWER, request.clone())).await.expect("reads");
    assert_eq!(got.into_inner().packet, None, "no packet before a claim");
    let claimed = world.claim(REVIEWER, &id).await.expect("claims");
    let got = world.handoffs().get_handoff(by(REVIEWER, request)).await.expect("reads");
    assert_eq!(got.into_inner().packet, claimed.packet);
    let request = pb::WatchTaskRequest { task_id: held.task_id.clone(), after_sequence: 0 };
    refused(world.tasks().watch_task(by(REVIEWER, request)).await, "NOT_OWNER");
    let summary = world.offers_to(REVIEWER).await;
    assert_eq!((summary.len(), summary[0].handoff_id.as_str()), (1, id.as_str()));
    assert!(world.offers_to("agent:stranger").await.is_empty());
    world.acknowledge(REVIEWER, receipt_request(REVIEWER, &claimed)).await.expect("receives");
    assert!(world.offers_to(REVIEWER).await.is_empty());
    let seen = world.see(REVIEWER, &held.task_id).await.expect("sees");
    assert_eq!(seen.view(), pb::TaskView::Full);
}

// A list that shows more than a read is the read that was refused. REQ-065
#[tokio::test]
async fn lists_show_each_caller_its_own() {
    let world = World::new().await;
    world.register(&[(REVIEWER, &["review"])]).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(world.task().await.task_id);
    }
    let list = async |principal: &str, filter: pb::TaskFilter| {
        let mut found = Vec::new();
        let mut page_token = String::new();
        loop {
            let request = pb::ListTasksRequest { page_size: 2, page_token, filter: filter.into() };
            let page = world.tasks().list_tasks(by(principal, request)).await?.into_inner();
            assert!(page.tasks.len() <= 2);
            found.extend(page.tasks.into_iter().map(|t| t.task_id));
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return Ok::<_, Status>(found);
            }
        }
    };
    for filter in [pb::TaskFilter::OwnedOpen, pb::TaskFilter::Created] {
        let mut mine = list(WRITER, filter).await.expect("lists");
        mine.sort();
        assert_eq!(mine, ids);
        assert!(list(REVIEWER, filter).await.expect("lists").is_empty());
        assert!(list(VERIFIER, filter).await.expect("lists").is_empty());
    }
    refused(list(WRITER, pb::TaskFilter::All).await, "NOT_OPERATOR");
    let request =
        pb::ListTasksRequest { page_token: "not a token".to_owned(), ..Default::default() };
    refused(world.tasks().list_tasks(by(WRITER, request)).await, "INVALID_PAGE_TOKEN");
}

// A context that anybody could write into would mix the work of strangers. REQ-065
#[tokio::test]
async fn a_context_belongs_to_who_used_it_first() {
    let world = World::new().await;
    let context_id = fresh();
    world.task_with(|r| r.context_id.clone_from(&context_id)).await;
    world.task_with(|r| r.context_id.clone_from(&context_id)).await;
    let request = crate::packets::create_request(|r| r.context_id = context_id);
    let other = world.tasks().create_task(by(REVIEWER, request)).await;
    refused(other, "CONTEXT_OWNERSHIP_CONFLICT");
}

// A peer that was asked and did not answer learns that somebody else has received the task, and
// nothing more: neither the task's id nor that it may not ask.
#[tokio::test]
async fn a_peer_that_was_asked_learns_how_the_offer_ended() {
    let world = World::new().await;
    world.register(&[(REVIEWER, &["review"]), ("agent:third", &["review"])]).await;
    let mut held = world.ready().await;
    let offered = world.offer(&mut held, "capability:review").await;
    let handoff_id = offered.outcome.expect("an outcome").handoff_id;
    let claimed = world.claim(REVIEWER, &handoff_id).await.expect("claims");
    world.receive(&held, REVIEWER, &claimed).await;
    let status = world.claim("agent:third", &handoff_id).await;
    refused(status, "HANDOFF_ENDED");
    let seen = world.see_handoff("agent:third", &handoff_id).await.expect("sees");
    assert_eq!(seen.status(), pb::HandoffStatus::Received);
    assert!(seen.receipt.is_none() && seen.handoff_from.is_empty(), "{seen:?}");
}
