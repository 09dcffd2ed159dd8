//! A real server on a real port with real clients, and the few steps that most tests begin with.

use std::collections::BTreeMap;
use std::time::Duration;

use baton::broker::{Broker, Clock, Directory, ManualClock, Setup};
use baton::core::contract::example;
use baton::core::digest::Digest;
use baton::core::time::Timestamp;
use baton::proto::baton::v1 as pb;
use baton::server;
use baton::store::AnyStore;
use pb::agent_service_client::AgentServiceClient;
use pb::handoff_service_client::HandoffServiceClient;
use pb::task_service_client::TaskServiceClient;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

/// 2026-09-05T04:00:00Z: after the example's own times and before its scope expires.
pub(crate) const NOW_MICROS: i64 = 1_788_580_800_000_000;

/// A broker in this process, on a port of its own, with a clock that stands still.
pub(crate) struct World {
    pub(crate) clock: ManualClock,
    pub(crate) address: String,
    channel: Channel,
    stop: Option<oneshot::Sender<()>>,
    server: tokio::task::JoinHandle<Result<(), server::Error>>,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::over(AnyStore::Memory(baton::store::MemoryStore::new()), |_| {}).await
    }

    pub(crate) async fn over(store: AnyStore, change: impl FnOnce(&mut Setup)) -> Self {
        let clock = ManualClock::new(Timestamp::from_micros(NOW_MICROS).expect("a time"));
        let mut setup = Setup::new(Clock::Manual(clock.clone()));
        setup.test_mode = true;
        change(&mut setup);
        let broker = Broker::start(store, setup, Directory::open()).expect("the broker starts");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let (stop, stopped) = oneshot::channel();
        let server = tokio::spawn(server::run(
            broker,
            baton::service::auth::Authenticator::Open,
            listener,
            server::Options { drain: Duration::from_secs(2), ..server::Options::default() },
            async {
                let _ = stopped.await;
            },
        ));
        let channel = Channel::from_shared(address.clone())
            .expect("an address")
            .connect()
            .await
            .expect("the server answers");
        Self { clock, address, channel, stop: Some(stop), server }
    }

    /// Ends the server and gives what it ended with.
    pub(crate) async fn end(mut self) -> Result<(), server::Error> {
        drop(self.stop.take());
        drop(self.channel);
        self.server.await.expect("the server task")
    }

    pub(crate) fn tasks(&self) -> TaskServiceClient<Channel> {
        TaskServiceClient::new(self.channel.clone())
    }

    pub(crate) fn handoffs(&self) -> HandoffServiceClient<Channel> {
        HandoffServiceClient::new(self.channel.clone())
    }

    pub(crate) fn agents(&self) -> AgentServiceClient<Channel> {
        AgentServiceClient::new(self.channel.clone())
    }

    /// Registers agents, so that they can be offered tasks.
    pub(crate) async fn register(&self, agents: &[(&str, &[&str])]) {
        for (agent, capabilities) in agents {
            let request = pb::RegisterAgentRequest {
                request_id: fresh(),
                card: Some(baton::proto::lf::a2a::v1::AgentCard {
                    name: (*agent).to_owned(),
                    description: "an agent of a test".to_owned(),
                    version: "1".to_owned(),
                    ..Default::default()
                }),
                capabilities: capabilities.iter().map(|c| (*c).to_owned()).collect(),
                ..Default::default()
            };
            self.agents().register_agent(by(agent, request)).await.expect("registers");
        }
    }
}

/// A request of `principal`.
pub(crate) fn by<T>(principal: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("baton-principal", principal.parse().expect("a principal"));
    request
}

/// A request of an operator.
pub(crate) fn by_operator<T>(message: T) -> Request<T> {
    let mut request = by("human:operator", message);
    request.metadata_mut().insert("baton-role", "operator".parse().expect("a role"));
    request
}

/// A new request id.
pub(crate) fn fresh() -> String {
    uuid::Uuid::now_v7().to_string()
}

/// The reason that a refusal names.
pub(crate) fn reason(status: &Status) -> String {
    use tonic_types::StatusExt as _;
    status
        .get_details_error_info()
        .map(|info| info.reason)
        .unwrap_or_else(|| format!("no reason: {:?} {}", status.code(), status.message()))
}

/// The facts that a refusal carries.
pub(crate) fn facts(status: &Status) -> BTreeMap<String, String> {
    use tonic_types::StatusExt as _;
    status
        .get_details_error_info()
        .map(|info| info.metadata.into_iter().collect())
        .unwrap_or_default()
}

/// Asserts a refusal and gives it back.
#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(result: Result<T, Status>, wanted: &str) -> Status {
    let status = result.expect_err("should be refused");
    assert_eq!(reason(&status), wanted, "{} ({:?})", status.message(), status.code());
    assert_ne!(status.code(), Code::Unknown);
    status
}

/// Where a task stands, as its owner keeps it.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) task_id: String,
    pub(crate) owner: String,
    pub(crate) instance: String,
    pub(crate) epoch: u64,
    pub(crate) revision: u64,
    pub(crate) checkpoint: Option<pb::CheckpointRef>,
}

impl Held {
    pub(crate) fn guard(&self) -> Option<pb::OwnerGuard> {
        Some(pb::OwnerGuard {
            epoch: self.epoch,
            expected_revision: self.revision,
            instance_id: self.instance.clone(),
        })
    }

    pub(crate) fn moved(&mut self, outcome: Option<pb::Outcome>) {
        let outcome = outcome.expect("an outcome");
        self.revision = outcome.revision;
        self.epoch = outcome.epoch;
    }
}

impl World {
    /// A task of the example, owned by `agent:writer`.
    pub(crate) async fn task(&self) -> Held {
        self.task_with(|_| {}).await
    }

    pub(crate) async fn task_with(&self, change: impl FnOnce(&mut pb::CreateTaskRequest)) -> Held {
        let mut contract = example::contract();
        contract.task_id = None;
        let mut request = pb::CreateTaskRequest {
            request_id: fresh(),
            contract: Some(contract),
            shape: Some(example::shape()),
            policy: Some(pb::TaskPolicy {
                verifiers: vec!["verifier:readback-1".to_owned()],
                ..Default::default()
            }),
            scope: Some(pb::AuthorizationScope { principal: String::new(), ..packet_scope("") }),
            instance_id: "writer-1".to_owned(),
            task_class: "review".to_owned(),
            context_id: String::new(),
        };
        change(&mut request);
        let instance = request.instance_id.clone();
        let created = self.tasks().create_task(by("agent:writer", request)).await;
        let outcome = created.expect("creates").into_inner().outcome.expect("an outcome");
        Held {
            task_id: outcome.task_id,
            owner: "agent:writer".to_owned(),
            instance,
            epoch: outcome.epoch,
            revision: outcome.revision,
            checkpoint: None,
        }
    }

    /// Puts the example's artifact.
    pub(crate) async fn put_artifact(&self, held: &mut Held) {
        let descriptor = example_artifact();
        let request = pb::PutArtifactRequest {
            request_id: fresh(),
            task_id: held.task_id.clone(),
            guard: held.guard(),
            descriptor: Some(descriptor),
            ..Default::default()
        };
        let put = self.tasks().put_artifact(by(&held.owner, request)).await.expect("puts");
        held.moved(put.into_inner().outcome);
    }

    /// Puts the example's checkpoint.
    pub(crate) async fn put_checkpoint(&self, held: &mut Held) {
        let mut checkpoint = example::checkpoint();
        checkpoint.id = format!("cp-{}", held.revision);
        checkpoint.task_id = String::new();
        checkpoint.contract_version = String::new();
        let request = pb::PutCheckpointRequest {
            request_id: fresh(),
            task_id: held.task_id.clone(),
            guard: held.guard(),
            checkpoint: Some(checkpoint),
        };
        let put = self.tasks().put_checkpoint(by(&held.owner, request)).await.expect("puts");
        let put = put.into_inner();
        held.checkpoint = put.checkpoint;
        held.moved(put.outcome);
    }

    /// A task with artifact and checkpoint, ready to be offered.
    pub(crate) async fn ready(&self) -> Held {
        let mut held = self.task().await;
        self.put_artifact(&mut held).await;
        self.put_checkpoint(&mut held).await;
        held
    }

    /// Offers the task to `receiver`.
    pub(crate) async fn offer(&self, held: &mut Held, receiver: &str) -> pb::OfferHandoffResponse {
        self.offer_with(held, receiver, |_| {}).await.expect("offers")
    }

    pub(crate) async fn offer_with(
        &self,
        held: &mut Held,
        receiver: &str,
        change: impl FnOnce(&mut pb::OfferHandoffRequest),
    ) -> Result<pb::OfferHandoffResponse, Status> {
        let mut request = offer_request(held, receiver);
        change(&mut request);
        let offered = self.handoffs().offer_handoff(by(&held.owner, request)).await?.into_inner();
        held.moved(offered.outcome.clone());
        Ok(offered)
    }

    pub(crate) async fn claim(
        &self,
        agent: &str,
        handoff_id: &str,
    ) -> Result<pb::ClaimHandoffResponse, Status> {
        let request = pb::ClaimHandoffRequest {
            request_id: fresh(),
            handoff_id: handoff_id.to_owned(),
            instance_id: format!("{agent}-1"),
        };
        Ok(self.handoffs().claim_handoff(by(agent, request)).await?.into_inner())
    }

    pub(crate) async fn acknowledge(
        &self,
        agent: &str,
        request: pb::AcknowledgeHandoffRequest,
    ) -> Result<pb::AcknowledgeHandoffResponse, Status> {
        Ok(self.handoffs().acknowledge_handoff(by(agent, request)).await?.into_inner())
    }

    /// The task as `principal` sees it.
    pub(crate) async fn see(&self, principal: &str, task_id: &str) -> Result<pb::Task, Status> {
        let request = pb::GetTaskStateRequest { task_id: task_id.to_owned() };
        let state = self.tasks().get_task_state(by(principal, request)).await?;
        Ok(state.into_inner().task.expect("a task"))
    }

    /// The handoff as `principal` sees it.
    pub(crate) async fn see_handoff(
        &self,
        principal: &str,
        id: &str,
    ) -> Result<pb::Handoff, Status> {
        let request = pb::GetHandoffRequest { handoff_id: id.to_owned() };
        let state = self.handoffs().get_handoff(by(principal, request)).await?;
        Ok(state.into_inner().handoff.expect("a handoff"))
    }
}

/// The scope of the example's packet, for `principal`.
pub(crate) fn packet_scope(principal: &str) -> pb::AuthorizationScope {
    let packet = example::packet("00000000-0000-7000-8000-000000000000");
    pb::AuthorizationScope {
        principal: principal.to_owned(),
        ..packet.scope.expect("the example has a scope")
    }
}

/// The example's artifact.
pub(crate) fn example_artifact() -> pb::ArtifactDescriptor {
    use pb::artifact_descriptor_list_field::State;
    let field = example::checkpoint().artifact_descriptors.expect("artifacts");
    match field.state {
        Some(State::Value(list)) => list.items.into_iter().next().expect("an artifact"),
        _ => panic!("the example has artifacts"),
    }
}

/// An offer of the example's packet.
pub(crate) fn offer_request(held: &Held, receiver: &str) -> pb::OfferHandoffRequest {
    let mut packet = example::offered(&held.task_id);
    packet.last_safe_checkpoint.clone_from(&held.checkpoint);
    packet.next_owner.get_or_insert_default().id = receiver.to_owned();
    packet.scope = Some(packet_scope(receiver));
    pb::OfferHandoffRequest {
        request_id: fresh(),
        guard: held.guard(),
        packet: Some(packet),
        options: None,
        supersedes: String::new(),
    }
}

/// An honest receipt: what a receiver sends that has fetched and hashed everything itself.
pub(crate) fn receipt_request(
    agent: &str,
    claimed: &pb::ClaimHandoffResponse,
) -> pb::AcknowledgeHandoffRequest {
    let packet = claimed.packet.clone().expect("a packet");
    let outcome = claimed.outcome.clone().expect("an outcome");
    let contract = packet.contract.as_ref().and_then(|c| c.contract_version.clone());
    let version = match contract.and_then(|f| f.state) {
        Some(pb::text_field::State::Value(version)) => version,
        _ => panic!("a packet has a contract version"),
    };
    let receipt = pb::HandoffReceipt {
        task_id: packet.task_id.clone(),
        contract: Some(pb::ContractEcho {
            version,
            digest: Digest::of(&packet.contract_canonical).to_string(),
        }),
        source_snapshot: Some(sources_read(&packet)),
        artifacts: Some(artifacts_read(&packet)),
        scope: packet.scope.clone(),
        observed_at: outcome.decided_at,
        ..Default::default()
    };
    pb::AcknowledgeHandoffRequest {
        request_id: fresh(),
        handoff_id: packet.handoff_id,
        packet_digest: claimed.packet_digest.clone(),
        instance_id: format!("{agent}-1"),
        receipt: Some(receipt),
    }
}

/// Hashes the example's source.
fn sources_read(packet: &pb::HandoffPacket) -> pb::SourceSnapshotEcho {
    use pb::source_snapshot_field::State;
    let Some(State::Value(snapshot)) = packet.source_snapshot.clone().and_then(|f| f.state) else {
        return pb::SourceSnapshotEcho::default();
    };
    let entities = snapshot.entities.into_iter().map(|entity| pb::SourceEcho {
        entity_id: entity.entity_id,
        version: entity.version,
        digest: Some(Digest::of(example::SOURCE).to_string()),
    });
    pb::SourceSnapshotEcho { entities: entities.collect() }
}

/// Hashes the example's artifact.
fn artifacts_read(packet: &pb::HandoffPacket) -> pb::ArtifactSetEcho {
    use pb::artifact_descriptor_list_field::State;
    let field = packet.artifact_descriptors.clone().and_then(|f| f.state);
    let Some(State::Value(list)) = field else { return pb::ArtifactSetEcho::default() };
    let items = list.items.into_iter().map(|artifact| pb::ArtifactEcho {
        id: artifact.id,
        version: artifact.version,
        digest: Digest::of(example::ARTIFACT).to_string(),
    });
    pb::ArtifactSetEcho { items: items.collect() }
}
