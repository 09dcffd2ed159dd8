//! The sender's side: create a task, put an artifact, fix a checkpoint, offer, wait for the end.
//!
//! `baton serve` first, then `accept`, then this: `offer http://127.0.0.1:7717`

use baton::client::packet::{self, Transfer};
use baton::client::{Client, Identity, Owned};
use baton::core::contract::example;
use baton::proto::baton::v1 as pb;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).ok_or("name the broker's address")?;
    let client = Client::connect(&address, Identity::principal("agent:writer")).await?;

    // Your contract, checkpoint and artifact go here.
    let creation = pb::CreateTaskRequest {
        contract: Some(pb::OperatingContract { task_id: None, ..example::contract() }),
        shape: Some(example::shape()),
        scope: Some(pb::AuthorizationScope { expires_at: None, ..example::scope("agent:writer") }),
        instance_id: "offer-1".to_owned(),
        ..Default::default()
    };
    let outcome = client.create_task(creation).await?.outcome;
    let mut task = Owned::new(client.clone(), "offer-1", outcome.as_ref())?;
    let checkpoint = example::checkpoint();
    for artifact in packet::artifacts_of(checkpoint.artifact_descriptors.as_ref()) {
        let content = Some(pb::artifact_part::Content::Raw(example::ARTIFACT.to_vec()));
        let part = pb::ArtifactPart { media_type: artifact.media_type.clone(), content };
        task.put_artifact(artifact.clone(), vec![part]).await?;
    }
    task.checkpoint(checkpoint).await?;

    let holds = pb::ResumeInvariantStatement {
        invariant: pb::ResumeInvariant::Position.into(),
        holds: Some(true),
        evidence: "checkpoint:cp-4".to_owned(),
    };
    let transfer = Transfer {
        to: "agent:reviewer".to_owned(),
        reason: "the review capability is needed".to_owned(),
        stop_condition: vec!["answer emitted".to_owned()],
        scope: pb::AuthorizationScope { expires_at: None, ..example::scope("agent:reviewer") },
        external_side_effects: Vec::new(),
        resume_invariants: vec![holds],
    };
    let offered = example::offered("");
    let mut packet = packet::packet_from(&task.resume_set().await?, transfer)?;
    packet.history_pointer = offered.history_pointer;
    packet.execution_evidence = offered.execution_evidence;
    let handoff_id = task.offer(packet, None).await?.outcome.unwrap_or_default().handoff_id;
    let mut looks = tokio::time::interval(std::time::Duration::from_millis(100));
    loop {
        looks.tick().await;
        let request = pb::GetHandoffRequest { handoff_id: handoff_id.clone() };
        let status = client.get_handoff(request).await?.handoff.unwrap_or_default().status();
        if status != pb::HandoffStatus::Pending {
            println!("{}", status.as_str_name());
            return Ok(());
        }
    }
}
