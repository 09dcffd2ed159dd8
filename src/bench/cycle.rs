//! The load: durable handoff cycles, each an offer, a claim and a receipt that moves control.
//!
//! A worker owns one task and moves it to and fro between two agents of different accounts, so that
//! every offer is blind and every receipt is compared.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use prost::Message;
use tonic::Request;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic_prost::ProstCodec;

use crate::core::contract::example;
use crate::core::digest::Digest;
use crate::proto::baton::{bench::v1 as load, v1 as pb};
use pb::task_service_client::TaskServiceClient;

use super::Measured;
use super::echo::Bytes;

/// The two agents and the tokens that prove them.
#[derive(Clone, Debug)]
pub(super) struct Agents {
    pub(super) names: [String; 2],
    pub(super) tokens: [String; 2],
}

const OFFER: &str = "/baton.v1.HandoffService/OfferHandoff";
const CLAIM: &str = "/baton.v1.HandoffService/ClaimHandoff";
const ACKNOWLEDGE: &str = "/baton.v1.HandoffService/AcknowledgeHandoff";

/// A task on its way to and fro.
pub(super) struct Shuttle {
    agents: Agents,
    proofs: [MetadataValue<Ascii>; 2],
    tasks: TaskServiceClient<Channel>,
    calls: Grpc<Channel>,
    /// The packet to each agent, encoded.
    packets: [Vec<u8>; 2],
    /// What each agent answers, once it has looked.
    receipts: [Option<pb::HandoffReceipt>; 2],
    holder: usize,
    epoch: u64,
    revision: u64,
}

/// A request id: drawn once a process, then counted, since drawing takes a call of the system.
fn fresh() -> String {
    static DRAWN: LazyLock<u128> = LazyLock::new(|| uuid::Uuid::now_v7().as_u128());
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let counted = DRAWN.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed).into());
    uuid::Uuid::from_u128(counted).to_string()
}

/// Text that brings the packet of fixture F-06 to at least 4 KiB, as real state would.
fn filling() -> String {
    let line = "stage-2 reads chapters 1 to 3 of the catalogue and drafts one section a chapter; ";
    line.repeat(36)
}

impl Shuttle {
    /// Creates the task, its artifact and its checkpoint.
    pub(super) async fn make(agents: Agents, channel: Channel) -> anyhow::Result<Self> {
        let [first, second] = &agents.tokens;
        let proof = |token: &str| format!("Bearer {token}").parse::<MetadataValue<Ascii>>();
        let mut shuttle = Self {
            proofs: [proof(first)?, proof(second)?],
            agents,
            tasks: TaskServiceClient::new(channel.clone()),
            calls: Grpc::new(channel),
            packets: Default::default(),
            receipts: Default::default(),
            holder: 0,
            epoch: 0,
            revision: 0,
        };
        let task_id = shuttle.create().await?;
        shuttle.put_artifact(&task_id).await?;
        shuttle.fix(&task_id).await?;
        Ok(shuttle)
    }

    fn by<T>(&self, agent: usize, message: T) -> anyhow::Result<Request<T>> {
        let proof = self.proofs.get(agent).context("no such agent")?;
        let mut request = Request::new(message);
        request.metadata_mut().insert("authorization", proof.clone());
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
        self.packets = [self.packet_to(0, &packet)?, self.packet_to(1, &packet)?];
        Ok(())
    }

    fn packet_to(&self, agent: usize, packet: &pb::HandoffPacket) -> anyhow::Result<Vec<u8>> {
        let mut packet = packet.clone();
        let name = self.agents.names.get(agent).context("no such agent")?;
        packet.next_owner.get_or_insert_default().id.clone_from(name);
        packet.scope = Some(self.scope(agent)?);
        Ok(packet.encode_to_vec())
    }

    /// One cycle: control moves once. Gives the bytes of its three calls. What is the same in every
    /// cycle was encoded before, and what no next call needs stays encoded: the load is to take as
    /// little as it can of the machine that it measures.
    pub(super) async fn go(&mut self) -> anyhow::Result<[Bytes; 3]> {
        let receiver = 1 - self.holder;
        let offer = load::Offer {
            request_id: fresh(),
            guard: self.guard(),
            packet: self.packets.get(receiver).context("no such agent")?.clone(),
        };
        let sent = offer.encoded_len();
        let offered: load::Offered = self.call(OFFER, self.holder, offer).await?;
        let first = Bytes { sent, answered: offered.encoded_len() };
        let outcome = self.moved(offered.outcome)?;
        let instance_id = format!("instance-{receiver}");
        let claim = pb::ClaimHandoffRequest {
            request_id: fresh(),
            handoff_id: outcome.handoff_id.clone(),
            instance_id: instance_id.clone(),
        };
        let sent = claim.encoded_len();
        let claimed: load::Claimed = self.call(CLAIM, receiver, claim).await?;
        let second = Bytes { sent, answered: claimed.encoded_len() };
        let acknowledge = pb::AcknowledgeHandoffRequest {
            request_id: fresh(),
            handoff_id: outcome.handoff_id,
            receipt: Some(self.receipt(receiver, &claimed)?),
            packet_digest: claimed.packet_digest,
            instance_id,
        };
        let sent = acknowledge.encoded_len();
        let done: load::Acknowledged = self.call(ACKNOWLEDGE, receiver, acknowledge).await?;
        let third = Bytes { sent, answered: done.encoded_len() };
        self.moved(done.outcome)?;
        self.holder = receiver;
        Ok([first, second, third])
    }

    async fn call<Q, A>(&mut self, path: &'static str, by: usize, message: Q) -> anyhow::Result<A>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let request = self.by(by, message)?;
        self.calls.ready().await?;
        let path = PathAndQuery::from_static(path);
        Ok(self.calls.unary(request, path, ProstCodec::<Q, A>::default()).await?.into_inner())
    }

    /// The receipt of an agent: the same in every cycle but for the time of looking.
    fn receipt(
        &mut self,
        receiver: usize,
        claimed: &load::Claimed,
    ) -> anyhow::Result<pb::HandoffReceipt> {
        let kept = self.receipts.get_mut(receiver).context("no such agent")?;
        let receipt = match kept {
            Some(receipt) => receipt,
            None => kept.insert(receipt(&pb::HandoffPacket::decode(claimed.packet.as_slice())?)?),
        };
        let observed_at = claimed.outcome.as_ref().and_then(|o| o.decided_at);
        Ok(pb::HandoffReceipt { observed_at, ..receipt.clone() })
    }
}

/// What a receiver sends that has hashed everything itself. The example's content is hashed once.
fn receipt(packet: &pb::HandoffPacket) -> anyhow::Result<pb::HandoffReceipt> {
    use pb::artifact_descriptor_list_field::State as Artifacts;
    use pb::source_snapshot_field::State as Sources;
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
