//! Bad input: refused with its field, all of it at once, and nothing is changed.

use baton::core::contract::example;
use baton::proto::baton::v1 as pb;
use tonic::{Code, Status};

use crate::packets::{create_request, example_artifact, receipt_request};
use crate::steps::{REVIEWER, VERIFIER, WRITER, readback_request, report};
use crate::world::{Held, World, by, fields, fresh, refused};

async fn reported(
    world: &World,
    held: &Held,
    change: impl FnOnce(&mut pb::ReportStatusRequest),
) -> Status {
    let mut request = pb::ReportStatusRequest {
        request_id: fresh(),
        task_id: held.task_id.clone(),
        guard: held.guard(),
        report: Some(report(pb::RuntimeStatus::Working)),
    };
    change(&mut request);
    world.tasks().report_status(by(WRITER, request)).await.expect_err("should be refused")
}

#[track_caller]
fn faults(status: &Status, wanted: &[&str]) {
    let found = fields(status);
    assert_eq!(crate::world::reason(status), "INVALID_REQUEST", "{status:?}");
    for field in wanted {
        assert!(found.iter().any(|f| f == field), "{field} is not in {found:?}");
    }
}

fn guard(r: &mut pb::ReportStatusRequest) -> &mut pb::OwnerGuard {
    r.guard.as_mut().expect("a guard")
}

// A default that stands for a choice makes a choice that nobody made. REQ-080
#[tokio::test]
async fn a_missing_or_an_unknown_enum_value_is_refused() {
    let (world, held) = World::with_ready().await;
    for value in [0, 99, -1] {
        let status =
            reported(&world, &held, |r| r.report.as_mut().expect("one").runtime = value).await;
        faults(&status, &["report.runtime"]);
        let status = reported(&world, &held, |r| {
            let mut paused = report(pb::RuntimeStatus::Paused);
            paused.released_by = value;
            r.report = Some(paused);
        })
        .await;
        faults(&status, &["report.released_by"]);
        let mut request = readback_request(&held, pb::ReadbackResult::Fail);
        request.evidence.as_mut().expect("one").result = value;
        let status = world.tasks().record_readback(by(VERIFIER, request)).await;
        faults(&status.expect_err("refused"), &["evidence.result"]);
        let request = pb::DecideAcceptanceRequest {
            request_id: fresh(),
            task_id: held.task_id.clone(),
            expected_revision: held.revision,
            decision: Some(pb::AcceptanceDecision {
                verdict: value,
                acceptance_contract_ref: "acc-5@v2".to_owned(),
                ..Default::default()
            }),
        };
        let status = world.tasks().decide_acceptance(by(VERIFIER, request)).await;
        faults(&status.expect_err("refused"), &["decision.verdict"]);
    }
    let mut held = held;
    let blind = |r: &mut pb::OfferHandoffRequest| {
        r.options = Some(pb::OfferOptions { blind: 9, ..Default::default() });
    };
    let status = world.offer_with(&mut held, REVIEWER, blind).await;
    faults(&status.expect_err("refused"), &["options.blind"]);
    let request = pb::ListTasksRequest { filter: 9, ..Default::default() };
    let status = world.tasks().list_tasks(by(WRITER, request)).await;
    faults(&status.expect_err("refused"), &["filter"]);
    let offered = world.offer(&mut held, REVIEWER).await;
    let request = pb::RejectHandoffRequest {
        handoff_id: offered.outcome.expect("one").handoff_id,
        failing_element: 77,
        packet_digest: "none".to_owned(),
        ..Default::default()
    };
    let status = world.handoffs().reject_handoff(by(REVIEWER, request)).await;
    let wanted = ["failing_element", "packet_digest", "request_id", "reason"];
    faults(&status.expect_err("refused"), &wanted);
}

// An id without bounds becomes a key without bounds. REQ-255
#[tokio::test]
async fn an_id_that_is_over_long_or_malformed_is_refused() {
    let (world, held) = World::with_ready().await;
    let long = "x".repeat(2000);
    let status = reported(&world, &held, |r| guard(r).instance_id.clone_from(&long)).await;
    faults(&status, &["guard.instance_id"]);
    assert!(status.message().len() < 700, "the answer repeats all of it");
    for id in ["", "7", "not-a-uuid", &long, "018f4e9a7b2c7d3e8f102a3b4c5d6e7f"] {
        let status = reported(&world, &held, |r| r.request_id = id.to_owned()).await;
        faults(&status, &["request_id"]);
        let status = reported(&world, &held, |r| r.task_id = id.to_owned()).await;
        faults(&status, &["task_id"]);
        let request = pb::GetHandoffRequest { handoff_id: id.to_owned() };
        let status = world.handoffs().get_handoff(by(WRITER, request)).await;
        faults(&status.expect_err("refused"), &["handoff_id"]);
    }
    let mut held = held;
    for id in [long.as_str(), "two words", "new\nline", ""] {
        let bad = pb::ArtifactDescriptor { id: id.to_owned(), ..example_artifact() };
        let status = world.put_this_artifact(&mut held, bad).await.expect_err("refused");
        faults(&status, &["descriptor.id"]);
    }
}

// A request without an id cannot be asked for again, and a zero epoch would be nobody's. REQ-255
#[tokio::test]
async fn a_write_without_its_counters_is_refused() {
    let (world, held) = World::with_ready().await;
    faults(&reported(&world, &held, |r| r.guard = None).await, &["guard"]);
    faults(&reported(&world, &held, |r| guard(r).epoch = 0).await, &["guard.epoch"]);
    let zero = reported(&world, &held, |r| guard(r).expected_revision = 0).await;
    faults(&zero, &["guard.expected_revision"]);
    faults(&reported(&world, &held, |r| r.request_id.clear()).await, &["request_id"]);
    faults(&reported(&world, &held, |r| r.report = None).await, &["report"]);
}

// One fault at a time costs a round trip each. REQ-255
#[tokio::test]
async fn all_faults_are_named_at_once() {
    let (world, held) = World::with_ready().await;
    let status = reported(&world, &held, |r| {
        r.request_id = "7".to_owned();
        *guard(r) = pb::OwnerGuard::default();
    })
    .await;
    let wanted = ["request_id", "guard.epoch", "guard.expected_revision", "guard.instance_id"];
    faults(&status, &wanted);
    let empty = world.tasks().create_task(by(WRITER, pb::CreateTaskRequest::default())).await;
    let status = empty.expect_err("refused");
    faults(&status, &["request_id", "contract", "instance_id"]);
}

// A digest that is nearly one would be compared with what it is not. REQ-060
#[tokio::test]
async fn a_malformed_digest_is_refused() {
    let (world, held, claimed) = World::with_claimed().await;
    let hex = "0".repeat(64);
    let bad = ["", "sha256:", "sha256:12", &hex, &format!("md5:{hex}"), &format!("sha256:{hex}0")];
    for digest in bad {
        let mut request = receipt_request(REVIEWER, &claimed);
        request.packet_digest = digest.to_owned();
        let receipt = request.receipt.as_mut().expect("a receipt");
        receipt.artifacts.as_mut().expect("one").items[0].digest = digest.to_owned();
        receipt.source_snapshot.as_mut().expect("one").entities[0].digest = Some(digest.to_owned());
        receipt.contract.as_mut().expect("one").digest = digest.to_owned();
        let status = world.acknowledge(REVIEWER, request).await.expect_err("refused");
        let wanted = [
            "packet_digest",
            "receipt.artifacts.items[0].digest",
            "receipt.source_snapshot.entities[0].digest",
            "receipt.contract.digest",
        ];
        faults(&status, &wanted);
    }
    let task = world.see_all(&held.task_id).await;
    assert_eq!(task.handoff.expect("one").attempts, 0, "what cannot be read is no attempt");
}

// Two values under one key: whichever is taken, the other was not looked at. REQ-060
#[tokio::test]
async fn a_key_that_comes_twice_is_refused() {
    let (world, _held, claimed) = World::with_claimed().await;
    let mut request = receipt_request(REVIEWER, &claimed);
    let receipt = request.receipt.as_mut().expect("a receipt");
    let items = &mut receipt.artifacts.as_mut().expect("one").items;
    items.push(items[0].clone());
    let entities = &mut receipt.source_snapshot.as_mut().expect("one").entities;
    entities.push(entities[0].clone());
    let status = world.acknowledge(REVIEWER, request).await.expect_err("refused");
    let wanted = ["receipt.artifacts.items[1].id", "receipt.source_snapshot.entities[1].entity_id"];
    faults(&status, &wanted);

    let (world, mut held) = World::with_ready().await;
    let mut checkpoint = example::checkpoint();
    if let Some(pb::artifact_descriptor_list_field::State::Value(list)) =
        checkpoint.artifact_descriptors.as_mut().and_then(|f| f.state.as_mut())
    {
        list.items.push(example_artifact());
    }
    let twice = world.put_this_checkpoint(&mut held, checkpoint).await;
    assert_eq!(twice.expect_err("refused").code(), Code::InvalidArgument);
}

// Fields that the broker fills are not a caller's to say. REQ-065
#[tokio::test]
async fn what_the_broker_fills_is_refused_from_a_caller() {
    let (world, mut held, claimed) = World::with_claimed().await;
    let mut request = receipt_request(REVIEWER, &claimed);
    let receipt = request.receipt.as_mut().expect("a receipt");
    receipt.assurances = vec![pb::ElementAssurance {
        element: pb::ReceiptElement::Artifacts.into(),
        key: "art-1".to_owned(),
        assurance: pb::EchoAssurance::FetchedAndHashed.into(),
    }];
    let status = world.acknowledge(REVIEWER, request).await.expect_err("refused");
    faults(&status, &["receipt.verified_at"]);
    let mut unread = receipt_request(REVIEWER, &claimed);
    unread.receipt.as_mut().expect("a receipt").observed_at = None;
    let status = world.acknowledge(REVIEWER, unread).await.expect_err("refused");
    faults(&status, &["receipt.observed_at"]);
    let forged = |r: &mut pb::OfferHandoffRequest| {
        let packet = r.packet.as_mut().expect("a packet");
        packet.handoff_id = fresh();
        packet.handoff_from = Some(pb::Owner { id: REVIEWER.to_owned(), ..Default::default() });
    };
    let status = world.offer_with(&mut held, "agent:other", forged).await.expect_err("refused");
    faults(&status, &["packet.handoff_id", "packet.handoff_from.id"]);
}

// A message without bounds is memory without bounds. REQ-255
#[tokio::test]
async fn an_oversized_message_or_text_is_refused_and_the_server_goes_on() {
    let (world, mut held) = World::with_ready().await;
    let status = reported(&world, &held, |r| {
        r.report.as_mut().expect("one").comment = "x".repeat(5 << 20);
    })
    .await;
    assert!([Code::OutOfRange, Code::ResourceExhausted].contains(&status.code()), "{status:?}");
    let status = reported(&world, &held, |r| {
        r.report.as_mut().expect("one").comment = "x".repeat(20 << 10);
    })
    .await;
    faults(&status, &["report.comment"]);
    let request = pb::PutArtifactRequest {
        request_id: fresh(),
        task_id: held.task_id.clone(),
        guard: held.guard(),
        descriptor: Some(pb::ArtifactDescriptor {
            id: "art-9".to_owned(),
            digest: None,
            size_bytes: None,
            ..example_artifact()
        }),
        parts: vec![pb::ArtifactPart {
            media_type: "text/plain".to_owned(),
            content: Some(pb::artifact_part::Content::Raw(vec![0; (1 << 20) + 1])),
        }],
        ..Default::default()
    };
    let large = world.tasks().put_artifact(by(WRITER, request)).await;
    refused(large, "LARGE_PAYLOAD_INLINE");
    world.work(&mut held).await.expect("the server goes on");
}

// A contract that lacks its core would be discovered to lack it by the third agent. REQ-001
#[tokio::test]
async fn a_contract_without_its_core_creates_nothing() {
    let world = World::new().await;
    let request = create_request(|r| {
        let contract = r.contract.as_mut().expect("a contract");
        contract.objective = None;
        contract.completion_criteria = None;
        contract.stop_condition = None;
    });
    let status = refused(world.tasks().create_task(by(WRITER, request)).await, "CONTRACT_INVALID");
    assert!(fields(&status).len() >= 3, "{status:?}");
    let request = create_request(|r| {
        r.contract.as_mut().expect("a contract").contract_version = example::text("9.9");
    });
    let status = world.tasks().create_task(by(WRITER, request)).await;
    refused(status, "UNSUPPORTED_CONTRACT_VERSION");
    let mine = world.tasks().list_tasks(by(WRITER, pb::ListTasksRequest::default())).await;
    assert!(mine.expect("lists").into_inner().tasks.is_empty());
}

// A page without bounds is a list without bounds. REQ-255
#[tokio::test]
async fn a_page_size_out_of_range_and_a_foreign_token_are_refused() {
    let world = World::new().await;
    for page_size in [-1, 101, i32::MAX] {
        let request = pb::ListTasksRequest { page_size, ..Default::default() };
        let status = world.tasks().list_tasks(by(WRITER, request)).await;
        faults(&status.expect_err("refused"), &["page_size"]);
        let request = pb::ListHandoffsRequest { page_size, ..Default::default() };
        let status = world.handoffs().list_handoffs(by(WRITER, request)).await;
        faults(&status.expect_err("refused"), &["page_size"]);
    }
    for token in ["zz", "abc", &"00".repeat(2000), "+f", "00", "ffff", "746465666175"] {
        let page_token = token.to_owned();
        let request = pb::ListHandoffsRequest { page_token: page_token.clone(), page_size: 0 };
        refused(world.handoffs().list_handoffs(by(WRITER, request)).await, "INVALID_PAGE_TOKEN");
        let request = pb::ListTasksRequest { page_token: page_token.clone(), ..Default::default() };
        refused(world.tasks().list_tasks(by(WRITER, request)).await, "INVALID_PAGE_TOKEN");
        let request = pb::ListAgentsRequest { page_token, ..Default::default() };
        refused(world.agents().list_agents(by(WRITER, request)).await, "INVALID_PAGE_TOKEN");
    }
}

// A caller that names itself badly must not become somebody. REQ-065
#[tokio::test]
async fn a_malformed_principal_or_role_is_refused() {
    let world = World::new().await;
    let list = pb::ListTasksRequest::default;
    for name in ["two words", "baton:clock", &"x".repeat(2000)] {
        let status = world.tasks().list_tasks(by(name, list())).await;
        refused(status, "PRINCIPAL_METADATA_REFUSED");
    }
    let mut request = by(WRITER, list());
    request.metadata_mut().insert("baton-role", "emperor".parse().expect("a value"));
    refused(world.tasks().list_tasks(request).await, "PRINCIPAL_METADATA_REFUSED");
}

// A record that outgrows what the store takes would stop the broker for everybody.
#[tokio::test]
async fn a_task_that_grows_too_large_is_refused_and_nobody_else_is() {
    let world = World::new().await;
    let mut held = world
        .task_with(|request| {
            let scope = request.scope.as_mut().expect("the example has a scope");
            let path = "p".repeat(1900);
            scope.resources.extend((0..1000).map(|n| format!("store://{n}/{path}")));
            scope.resources.truncate(1000);
        })
        .await;
    let long = "x".repeat(2048);
    let mut put = 0;
    let refusal = loop {
        let descriptor = pb::ArtifactDescriptor {
            id: format!("artifact-{put}"),
            media_type: long.clone(),
            location: long.clone(),
            role: long.clone(),
            digested: long.clone(),
            r#type: long.clone(),
            ..example_artifact()
        };
        match world.put_this_artifact(&mut held, descriptor).await {
            Ok(()) => put += 1,
            Err(refusal) => break refusal,
        }
        assert!(put < 1024, "no limit was met");
    };
    refused(Err::<(), _>(refusal), "LIMIT_EXCEEDED");
    assert!(put > 50, "{put}");
    // Everybody else goes on, and so does what only ends the task.
    world.task().await;
    world.freeze(&held.task_id).await;
    world.lift(&held.task_id).await;
    assert_eq!(world.see_all(&held.task_id).await.artifacts.len(), put);
}
