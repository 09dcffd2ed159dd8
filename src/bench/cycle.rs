//! The load: durable handoff cycles, each an offer, a claim and a receipt that moves control.
//!
//! A worker owns one task and moves it to and fro between two agents of different accounts, so that
//! every offer is blind and every receipt is compared.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use prost::Message as _;
use tonic::Request;
use tonic::transport::Channel;

use crate::core::contract::example;
use crate::core::digest::Digest;
use crate::proto::baton::v1 as pb;
use pb::handoff_service_client::HandoffServiceClient;
use pb::task_service_client::TaskServiceClient;

use super::Measured;
use super::echo::Bytes;

/// The two agents and the tokens that prove them.
#[derive(Clone, Debug)]
pub(super) struct Agents {
    pub(super) names: [String; 2],
    pub(super) tokens: [String; 2],
}

/// A task on its way to and fro.
pub(super) struct Shuttle {
    agents: Agents,
    tasks: TaskServiceClient<Channel>,
    handoffs: HandoffServiceClient<Channel>,
    packet: pb::HandoffPacket,
    scopes: [pb::AuthorizationScope; 2],
    holder: usize,
    epoch: u64,
    revision: u64,
}

fn fresh() -> String {
    uuid::Uuid::now_v7().to_string()
}

/// Text that brings the packet of fixture F-06 to at least 4 KiB, as real state would.
fn filling() -> String {
    let line = "stage-2 reads chapters 1 to 3 of the catalogue and drafts one section a chapter; ";
    line.repeat(36)
}

impl Shuttle {
    /// Creates the task, its artifact and its checkpoint.
    pub(super) async fn make(agents: Agents, channel: Channel) -> anyhow::Result<Self> {
        let mut shuttle = Self {
            agents,
            tasks: TaskServiceClient::new(channel.clone()),
            handoffs: HandoffServiceClient::new(channel),
            packet: pb::HandoffPacket::default(),
            scopes: Default::default(),
            holder: 0,
            epoch: 0,
            revision: 0,
        };
        shuttle.scopes = [shuttle.scope(0)?, shuttle.scope(1)?];
        let task_id = shuttle.create().await?;
        shuttle.put_artifact(&task_id).await?;
        shuttle.fix(&task_id).await?;
        Ok(shuttle)
    }

    fn by<T>(&self, agent: usize, message: T) -> anyhow::Result<Request<T>> {
        let token = self.agents.tokens.get(agent).context("no such agent")?;
        let mut request = Request::new(message);
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse()?);
        Ok(request)
    }

    fn guard(&self) -> Option<pb::OwnerGuard> {
        Some(pb::OwnerGuard {
            epoch: self.epoch,
            expected_revision: self.revision,
            instance_id: format!("instance-{}", self.holder),
        })
    }

    fn moved(&mut self, outcome: Option<pb::Outcome>) -> anyhow::Result<pb::Outcome> {
        let outcome = outcome.context("an answer without an outcome")?;
        self.epoch = outcome.epoch;
        self.revision = outcome.revision;
        Ok(outcome)
    }

    fn scope(&self, agent: usize) -> anyhow::Result<pb::AuthorizationScope> {
        let name = self.agents.names.get(agent).context("no such agent")?;
        let packet = example::packet("00000000-0000-7000-8000-000000000000");
        let scope = packet.scope.context("the example has a scope")?;
        Ok(pb::AuthorizationScope { principal: name.clone(), expires_at: None, ..scope })
    }

    async fn create(&mut self) -> anyhow::Result<String> {
        let mut contract = example::contract();
        contract.task_id = None;
        let request = pb::CreateTaskRequest {
            request_id: fresh(),
            contract: Some(contract),
            shape: Some(example::shape()),
            scope: Some(self.scope(0)?),
            instance_id: "instance-0".to_owned(),
            ..Default::default()
        };
        let request = self.by(0, request)?;
        let created = self.tasks.create_task(request).await?.into_inner();
        Ok(self.moved(created.outcome)?.task_id)
    }

    async fn put_artifact(&mut self, task_id: &str) -> anyhow::Result<()> {
        use pb::artifact_descriptor_list_field::State;
        let field = example::checkpoint().artifact_descriptors.and_then(|f| f.state);
        let Some(State::Value(list)) = field else { anyhow::bail!("the example has artifacts") };
        let request = pb::PutArtifactRequest {
            request_id: fresh(),
            task_id: task_id.to_owned(),
            guard: self.guard(),
            descriptor: list.items.into_iter().next(),
            ..Default::default()
        };
        let request = self.by(0, request)?;
        let put = self.tasks.put_artifact(request).await?.into_inner();
        self.moved(put.outcome)?;
        Ok(())
    }

    async fn fix(&mut self, task_id: &str) -> anyhow::Result<()> {
        let mut checkpoint = example::checkpoint();
        checkpoint.task_id = String::new();
        checkpoint.contract_version = String::new();
        checkpoint.current_state =
            Some(pb::TextField { state: Some(pb::text_field::State::Value(filling())) });
        let mut packet = example::offered(task_id);
        packet.current_state.clone_from(&checkpoint.current_state);
        let request = pb::PutCheckpointRequest {
            request_id: fresh(),
            task_id: task_id.to_owned(),
            guard: self.guard(),
            checkpoint: Some(checkpoint),
        };
        let request = self.by(0, request)?;
        let put = self.tasks.put_checkpoint(request).await?.into_inner();
        packet.last_safe_checkpoint = put.checkpoint;
        self.moved(put.outcome)?;
        self.packet = packet;
        Ok(())
    }

    /// One cycle: control moves once. Gives the bytes of its three calls.
    pub(super) async fn go(&mut self) -> anyhow::Result<[Bytes; 3]> {
        let receiver = 1 - self.holder;
        let mut packet = self.packet.clone();
        packet
            .next_owner
            .get_or_insert_default()
            .id
            .clone_from(self.agents.names.get(receiver).context("no such agent")?);
        packet.scope = self.scopes.get(receiver).cloned();
        let offer = pb::OfferHandoffRequest {
            request_id: fresh(),
            guard: self.guard(),
            packet: Some(packet),
            ..Default::default()
        };
        let mut bytes = [Bytes { sent: offer.encoded_len(), answered: 0 }; 3];
        let offered = self.handoffs.offer_handoff(self.by(self.holder, offer)?).await?.into_inner();
        let answered = offered.encoded_len();
        let outcome = self.moved(offered.outcome)?;
        let instance_id = format!("instance-{receiver}");
        let claim = pb::ClaimHandoffRequest {
            request_id: fresh(),
            handoff_id: outcome.handoff_id.clone(),
            instance_id: instance_id.clone(),
        };
        let sent = claim.encoded_len();
        let claimed = self.handoffs.claim_handoff(self.by(receiver, claim)?).await?.into_inner();
        let [first, second, third] = &mut bytes;
        first.answered = answered;
        *second = Bytes { sent, answered: claimed.encoded_len() };
        let receipt = receipt(&claimed)?;
        let acknowledge = pb::AcknowledgeHandoffRequest {
            request_id: fresh(),
            handoff_id: outcome.handoff_id,
            packet_digest: claimed.packet_digest,
            instance_id,
            receipt: Some(receipt),
        };
        third.sent = acknowledge.encoded_len();
        let request = self.by(receiver, acknowledge)?;
        let done = self.handoffs.acknowledge_handoff(request).await?.into_inner();
        third.answered = done.encoded_len();
        self.moved(done.outcome)?;
        self.holder = receiver;
        Ok(bytes)
    }
}

/// What a receiver sends that has hashed everything itself. The example's content is hashed once.
fn receipt(claimed: &pb::ClaimHandoffResponse) -> anyhow::Result<pb::HandoffReceipt> {
    use pb::artifact_descriptor_list_field::State as Artifacts;
    use pb::source_snapshot_field::State as Sources;
    let packet = claimed.packet.as_ref().context("a claim without a packet")?;
    let contract = packet.contract.as_ref().and_then(|c| c.contract_version.as_ref());
    let Some(pb::text_field::State::Value(version)) = contract.and_then(|f| f.state.as_ref())
    else {
        anyhow::bail!("a packet without a contract version");
    };
    let sources = match packet.source_snapshot.as_ref().and_then(|f| f.state.as_ref()) {
        Some(Sources::Value(snapshot)) => snapshot.entities.as_slice(),
        _ => &[],
    };
    let artifacts = match packet.artifact_descriptors.as_ref().and_then(|f| f.state.as_ref()) {
        Some(Artifacts::Value(list)) => list.items.as_slice(),
        _ => &[],
    };
    Ok(pb::HandoffReceipt {
        task_id: packet.task_id.clone(),
        contract: Some(pb::ContractEcho {
            version: version.clone(),
            digest: Digest::of(&packet.contract_canonical).to_string(),
        }),
        source_snapshot: Some(pb::SourceSnapshotEcho {
            entities: sources
                .iter()
                .map(|entity| pb::SourceEcho {
                    entity_id: entity.entity_id.clone(),
                    version: entity.version.clone(),
                    digest: Some(example::SOURCE_DIGEST.to_owned()),
                })
                .collect(),
        }),
        artifacts: Some(pb::ArtifactSetEcho {
            items: artifacts
                .iter()
                .map(|artifact| pb::ArtifactEcho {
                    id: artifact.id.clone(),
                    version: artifact.version.clone(),
                    digest: example::ARTIFACT_DIGEST.to_owned(),
                })
                .collect(),
        }),
        scope: packet.scope.clone(),
        observed_at: claimed.outcome.as_ref().and_then(|o| o.decided_at),
        ..Default::default()
    })
}

/// Cycles with all of `shuttles` at once for `span`.
///
/// # Errors
/// A call failed.
pub(super) async fn load(
    shuttles: Vec<Shuttle>,
    span: Duration,
) -> anyhow::Result<(Vec<Shuttle>, Measured)> {
    let begun = Instant::now();
    let end = begun + span;
    let mut workers = tokio::task::JoinSet::new();
    for mut shuttle in shuttles {
        workers.spawn(async move {
            let mut latencies = Vec::new();
            while Instant::now() < end {
                let at = Instant::now();
                shuttle.go().await?;
                latencies.push(at.elapsed());
            }
            anyhow::Ok((shuttle, latencies))
        });
    }
    let mut back = Vec::new();
    let mut all = Vec::new();
    while let Some(worker) = workers.join_next().await {
        let (shuttle, latencies) = worker.context("a worker panicked")??;
        back.push(shuttle);
        all.extend(latencies);
    }
    Ok((back, Measured::of(all, begun.elapsed())))
}
