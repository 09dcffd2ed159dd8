//! The receiver's side: an agent that verifies what it is offered, and works on it.
//!
//! `baton serve` first, then this: `accept http://127.0.0.1:7717`. It ends after one task.

use std::sync::Arc;

use baton::client::packet::{self, artifacts_of, sources_of};
use baton::client::{Agent, Client, Duties, Failure, Identity, Offered, Owned, Readings, Verdict};
use baton::core::contract::example;
use baton::proto::baton::v1 as pb;
use tokio::sync::Notify;

struct Reviewer(Notify);

impl Duties for Reviewer {
    async fn verify(&self, offered: &Offered) -> Verdict {
        let mut read = Readings { observed_at: Some(packet::now()), ..Default::default() };
        for source in sources_of(offered.packet.source_snapshot.as_ref()) {
            read.sources.push(pb::SourceEcho {
                entity_id: source.entity_id.clone(),
                version: source.version.clone(),
                // Fetch `source.location` here; the example's source is at hand.
                digest: Some(packet::digest(example::SOURCE)),
            });
        }
        for artifact in artifacts_of(offered.packet.artifact_descriptors.as_ref()) {
            let content = offered.content(&artifact.id).await;
            let digest = content.ok().and_then(|parts| packet::content_digest(&parts).ok());
            let (id, version) = (artifact.id.clone(), artifact.version.clone());
            read.artifacts.push(pb::ArtifactEcho {
                id,
                version,
                digest: digest.unwrap_or_default(),
            });
        }
        Verdict::Receipt(read)
    }

    async fn work(&self, task: Owned, resume: pb::GetResumeSetResponse) -> Result<(), Failure> {
        let checkpoint = resume.checkpoint.unwrap_or_default();
        let next = packet::text_of(checkpoint.next_action.as_ref()).unwrap_or_default();
        println!("owner of {} under epoch {}: {next}", task.task_id(), task.epoch());
        self.0.notify_one();
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or("http://127.0.0.1:7717".to_owned());
    let client = Client::connect(&address, Identity::principal("agent:reviewer")).await?;
    let card = baton::proto::lf::a2a::v1::AgentCard {
        name: "reviewer".to_owned(),
        description: "reviews".to_owned(),
        version: "1".to_owned(),
        ..Default::default()
    };
    let request = pb::RegisterAgentRequest { card: Some(card), ..Default::default() };
    client.register_agent(request).await?;
    println!("registered");
    let reviewer = Arc::new(Reviewer(Notify::new()));
    let done = Arc::clone(&reviewer);
    let instance = format!("accept-{}", std::process::id());
    Agent::new(client, instance).run(reviewer, async move { done.0.notified().await }).await?;
    Ok(())
}
