//! The sender's side: create a task, put an artifact, fix a checkpoint, offer, wait for the end.
//!
//! `baton serve` first, then `accept`, then this: `offer http://127.0.0.1:7717`

use baton::client::packet::{self, Transfer};
use baton::client::{Client, Failure, Identity, Owned};
use baton::core::contract::example;
use baton::proto::baton::v1 as pb;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:7717".to_owned());
    let client = Client::connect(&address, Identity::principal("agent:writer")).await?;

    // Your contract, checkpoint and artifact go here; these are complete ones of an example.
    let creation = pb::CreateTaskRequest {
        contract: Some(pb::OperatingContract { task_id: None, ..example::contract() }),
        shape: Some(example::shape()),
        scope: Some(pb::AuthorizationScope { expires_at: None, ..example::scope("agent:writer") }),
        instance_id: "offer-1".to_owned(),
        ..Default::default()
    };
    let created = client.create_task(creation).await?;
    let mut task = Owned::new(client.clone(), "offer-1", created.outcome.as_ref())?;
    let checkpoint = example::checkpoint();
    for artifact in packet::artifacts_of(checkpoint.artifact_descriptors.as_ref()) {
        let content = pb::artifact_part::Content::Raw(example::ARTIFACT.to_vec());
        let media_type = artifact.media_type.clone();
        let part = pb::ArtifactPart { media_type, content: Some(content) };
        task.put_artifact(artifact.clone(), vec![part]).await?;
    }
    task.checkpoint(checkpoint).await?;

    let transfer = Transfer {
        to: "agent:reviewer".to_owned(),
        reason: "the review capability is needed".to_owned(),
        stop_condition: vec!["answer emitted".to_owned()],
        scope: pb::AuthorizationScope {
            expires_at: packet::now()
                .seconds
                .checked_add(3600)
                .map(|seconds| prost_types::Timestamp { seconds, nanos: 0 }),
            ..example::scope("agent:reviewer")
        },
        external_side_effects: Vec::new(),
        resume_invariants: resume_invariants(),
    };
    let mut packet = packet::packet_from(&task.resume_set().await?, transfer)?;
    packet.history_pointer = example::offered("").history_pointer;
    packet.execution_evidence = example::offered("").execution_evidence;
    let handoff_id = task.offer(packet, None).await?.outcome.unwrap_or_default().handoff_id;
    println!("offered {handoff_id}");
    println!("{}", ended(&client, handoff_id).await?.as_str_name());
    Ok(())
}

fn resume_invariants() -> Vec<pb::ResumeInvariantStatement> {
    match example::offered("").resume_invariants.and_then(|field| field.state) {
        Some(pb::resume_invariant_list_field::State::Value(list)) => list.items,
        _ => Vec::new(),
    }
}

async fn ended(client: &Client, handoff_id: String) -> Result<pb::HandoffStatus, Failure> {
    let mut look = tokio::time::interval(std::time::Duration::from_millis(100));
    loop {
        look.tick().await;
        let request = pb::GetHandoffRequest { handoff_id: handoff_id.clone() };
        let handoff = client.get_handoff(request).await?.handoff.unwrap_or_default();
        if handoff.status() != pb::HandoffStatus::Pending {
            return Ok(handoff.status());
        }
    }
}
