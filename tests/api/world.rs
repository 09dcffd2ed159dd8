//! A real server on a real port with real clients, and the few steps that most tests begin with.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::packets::{create_request, example_artifact, offer_request};
use baton::broker::{Broker, Clock, Directory, ManualClock, Setup};
use baton::core::contract::example;
use baton::core::time::Timestamp;
use baton::principals::{Entry, Principals, append_principal, new_token};
use baton::proto::baton::v1 as pb;
use baton::server;
use baton::service::auth::Authenticator;
use baton::store::AnyStore;
use pb::agent_service_client::AgentServiceClient;
use pb::handoff_service_client::HandoffServiceClient;
use pb::task_service_client::TaskServiceClient;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

/// 2026-09-05T04:00:00Z: after the example's own times and before its scope expires.
pub(crate) const NOW_MICROS: i64 = 1_788_580_800_000_000;

/// The way to the server.
pub(crate) type Link = InterceptedService<Channel, Credentials>;

/// With authentication, sends the token of whoever a request names, in place of the name.
#[derive(Clone)]
pub(crate) struct Credentials(Arc<BTreeMap<String, String>>);

impl Interceptor for Credentials {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if self.0.is_empty() {
            return Ok(request);
        }
        let metadata = request.metadata_mut();
        metadata.remove("baton-role");
        let name = metadata.remove("baton-principal").expect("a principal");
        let token = self.0.get(name.to_str().expect("a name")).expect("a known principal");
        metadata.insert("authorization", format!("Bearer {token}").parse().expect("a token"));
        Ok(request)
    }
}

/// A broker in this process, on a port of its own, with a clock that stands still.
pub(crate) struct World {
    pub(crate) clock: ManualClock,
    pub(crate) address: String,
    channel: Channel,
    credentials: Credentials,
    stop: Option<oneshot::Sender<()>>,
    server: tokio::task::JoinHandle<Result<(), server::Error>>,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::over(AnyStore::Memory(baton::store::MemoryStore::new()), |_| {}).await
    }

    pub(crate) async fn over(store: AnyStore, change: impl FnOnce(&mut Setup)) -> Self {
        Self::start(store, change, None).await
    }

    /// With authentication: each principal with its account, and what it may declare.
    pub(crate) async fn with_accounts(known: &[(&str, &str, &[&str])]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("principals.toml");
        let mut tokens = BTreeMap::new();
        for (id, account, capabilities) in known {
            let (token, token_sha256) = new_token().expect("a token");
            tokens.insert((*id).to_owned(), token);
            let operator = id.contains("operator");
            let entry = Entry {
                id: (*id).to_owned(),
                account: Some((*account).to_owned()),
                roles: operator.then(|| "operator".to_owned()).into_iter().collect(),
                capabilities: capabilities.iter().map(|c| (*c).to_owned()).collect(),
                token_sha256,
                ..Entry::default()
            };
            append_principal(&path, entry).expect("a principal");
        }
        let principals = Arc::new(Principals::load(&path).expect("principals"));
        let store = AnyStore::Memory(baton::store::MemoryStore::new());
        Self::start(store, |_| {}, Some((principals, tokens))).await
    }

    async fn start(
        store: AnyStore,
        change: impl FnOnce(&mut Setup),
        known: Option<(Arc<Principals>, BTreeMap<String, String>)>,
    ) -> Self {
        let (directory, authenticator, tokens) = match known {
            None => (Directory::open(), Authenticator::Open, BTreeMap::new()),
            Some((p, tokens)) => (p.directory(), Authenticator::Tokens(p), tokens),
        };
        let clock = ManualClock::new(Timestamp::from_micros(NOW_MICROS).expect("a time"));
        let mut setup = Setup::new(Clock::Manual(clock.clone()));
        setup.test_mode = true;
        change(&mut setup);
        let broker = Broker::start(store, setup, directory).expect("the broker starts");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let (stop, stopped) = oneshot::channel();
        let server = tokio::spawn(server::run(
            broker,
            authenticator,
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
        let credentials = Credentials(Arc::new(tokens));
        Self { clock, address, channel, credentials, stop: Some(stop), server }
    }

    /// Ends the server and gives what it ended with.
    pub(crate) async fn end(mut self) -> Result<(), server::Error> {
        drop(self.stop.take());
        drop(self.channel);
        self.server.await.expect("the server task")
    }

    pub(crate) fn tasks(&self) -> TaskServiceClient<Link> {
        TaskServiceClient::with_interceptor(self.channel.clone(), self.credentials.clone())
    }

    pub(crate) fn handoffs(&self) -> HandoffServiceClient<Link> {
        HandoffServiceClient::with_interceptor(self.channel.clone(), self.credentials.clone())
    }

    pub(crate) fn agents(&self) -> AgentServiceClient<Link> {
        AgentServiceClient::with_interceptor(self.channel.clone(), self.credentials.clone())
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

/// The fields that a refusal finds fault with, in its order.
pub(crate) fn fields(status: &Status) -> Vec<String> {
    use tonic_types::StatusExt as _;
    let found = status.get_details_bad_request().map(|bad| bad.field_violations);
    found.unwrap_or_default().into_iter().map(|v| v.field).collect()
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
        let request = create_request(change);
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
        self.put_this_artifact(held, example_artifact()).await.expect("puts");
    }

    pub(crate) async fn put_this_artifact(
        &self,
        held: &mut Held,
        descriptor: pb::ArtifactDescriptor,
    ) -> Result<(), Status> {
        let request = pb::PutArtifactRequest {
            request_id: fresh(),
            task_id: held.task_id.clone(),
            guard: held.guard(),
            descriptor: Some(descriptor),
            ..Default::default()
        };
        let put = self.tasks().put_artifact(by(&held.owner, request)).await?;
        held.moved(put.into_inner().outcome);
        Ok(())
    }

    /// Puts the example's checkpoint.
    pub(crate) async fn put_checkpoint(&self, held: &mut Held) {
        self.put_this_checkpoint(held, example::checkpoint()).await.expect("puts");
    }

    /// Puts a checkpoint under an id of its own.
    pub(crate) async fn put_this_checkpoint(
        &self,
        held: &mut Held,
        checkpoint: pb::Checkpoint,
    ) -> Result<(), Status> {
        let id = format!("cp-{}", held.revision);
        let request = pb::PutCheckpointRequest {
            request_id: fresh(),
            task_id: held.task_id.clone(),
            guard: held.guard(),
            checkpoint: Some(pb::Checkpoint { id, ..checkpoint }),
        };
        let put = self.tasks().put_checkpoint(by(&held.owner, request)).await?.into_inner();
        held.checkpoint = put.checkpoint;
        held.moved(put.outcome);
        Ok(())
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
