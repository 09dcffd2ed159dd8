//! A broker that is killed at any moment loses nothing that it acknowledged and doubles nothing.

// A test stops at the first surprise.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "api/packets.rs"]
mod packets;
#[allow(dead_code)]
#[path = "api/world.rs"]
mod world;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use baton::core::contract::example;
use baton::proto::baton::v1 as pb;
use packets::{example_artifact, packet_scope, receipt_request};
use pb::agent_service_client::AgentServiceClient;
use pb::handoff_service_client::HandoffServiceClient;
use pb::task_service_client::TaskServiceClient;
use tonic::transport::Channel;
use world::{by, fresh};

/// Kills. Each is followed by a start and a look at every task.
const ROUNDS: u32 = 100;

/// Tasks that change hands while the broker is killed.
const TASKS: usize = 6;

const AGENTS: [&str; 2] = ["agent:writer", "agent:reviewer"];

/// A broker in a process of its own.
struct Broker {
    child: Child,
    channel: Channel,
}

impl Broker {
    async fn start(data: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_baton"))
            .args(["serve", "--json", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(data)
            .env("BATON_LOG", "error")
            .stdout(Stdio::piped())
            .spawn()
            .expect("the broker starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let first: serde_json::Value =
            serde_json::from_str(&line).unwrap_or_else(|_| panic!("said {line:?}"));
        let address = first["address"].as_str().expect("an address").to_owned();
        let channel = Channel::from_shared(address).unwrap().connect().await.expect("answers");
        Self { child, channel }
    }

    fn kill(&mut self) {
        self.child.kill().expect("is killed");
        self.child.wait().expect("has ended");
    }

    fn tasks(&self) -> TaskServiceClient<Channel> {
        TaskServiceClient::new(self.channel.clone())
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a driver does next with its task.
#[derive(Clone, Debug)]
enum Step {
    Offer(Box<pb::OfferHandoffRequest>),
    Claim(pb::ClaimHandoffRequest),
    Acknowledge(Box<pb::AcknowledgeHandoffRequest>),
}

/// One task, the step that is to be carried out, and what was acknowledged so far.
#[derive(Clone, Debug)]
struct Driver {
    task_id: String,
    packet: pb::HandoffPacket,
    step: Step,
    holder: usize,
    epoch: u64,
    revision: u64,
    /// Receipts and resumes that were acknowledged: the epoch rose so often.
    moves: u64,
}

impl Driver {
    async fn new(broker: &Broker) -> Self {
        let mut contract = example::contract();
        contract.task_id = None;
        let scope = pb::AuthorizationScope { expires_at: None, ..packet_scope("") };
        let mut driver = Self {
            task_id: String::new(),
            packet: pb::HandoffPacket::default(),
            step: Step::Claim(pb::ClaimHandoffRequest::default()),
            holder: 0,
            epoch: 0,
            revision: 0,
            moves: 0,
        };
        let request = pb::CreateTaskRequest {
            request_id: fresh(),
            contract: Some(contract),
            shape: Some(example::shape()),
            scope: Some(scope),
            instance_id: "instance-0".to_owned(),
            ..Default::default()
        };
        let created = broker.tasks().create_task(by(AGENTS[0], request)).await.unwrap();
        driver.task_id = driver.moved(created.into_inner().outcome).task_id;
        let request = pb::PutArtifactRequest {
            request_id: fresh(),
            task_id: driver.task_id.clone(),
            guard: driver.guard(),
            descriptor: Some(example_artifact()),
            ..Default::default()
        };
        let put = broker.tasks().put_artifact(by(AGENTS[0], request)).await.unwrap();
        driver.moved(put.into_inner().outcome);
        let mut checkpoint = example::checkpoint();
        checkpoint.task_id = String::new();
        checkpoint.contract_version = String::new();
        let request = pb::PutCheckpointRequest {
            request_id: fresh(),
            task_id: driver.task_id.clone(),
            guard: driver.guard(),
            checkpoint: Some(checkpoint),
        };
        let put = broker.tasks().put_checkpoint(by(AGENTS[0], request)).await.unwrap();
        let put = put.into_inner();
        driver.packet = example::offered(&driver.task_id);
        driver.packet.last_safe_checkpoint = put.checkpoint;
        driver.moved(put.outcome);
        driver.step = driver.offer();
        driver
    }

    fn guard(&self) -> Option<pb::OwnerGuard> {
        Some(pb::OwnerGuard {
            epoch: self.epoch,
            expected_revision: self.revision,
            instance_id: format!("instance-{}", self.holder),
        })
    }

    fn moved(&mut self, outcome: Option<pb::Outcome>) -> pb::Outcome {
        let outcome = outcome.expect("an outcome");
        assert!(outcome.revision >= self.revision && outcome.epoch >= self.epoch);
        self.epoch = outcome.epoch;
        self.revision = outcome.revision;
        outcome
    }

    fn offer(&self) -> Step {
        let receiver = AGENTS[1 - self.holder];
        let mut packet = self.packet.clone();
        packet.next_owner.get_or_insert_default().id = receiver.to_owned();
        packet.scope = Some(pb::AuthorizationScope { expires_at: None, ..packet_scope(receiver) });
        Step::Offer(Box::new(pb::OfferHandoffRequest {
            request_id: fresh(),
            guard: self.guard(),
            packet: Some(packet),
            ..Default::default()
        }))
    }

    /// Carries the step out. The same step again, after a lost answer, is the same request.
    async fn go(&mut self, channel: &Channel) -> Result<(), tonic::Status> {
        let mut handoffs = HandoffServiceClient::new(channel.clone());
        let receiver = 1 - self.holder;
        match self.step.clone() {
            Step::Offer(request) => {
                let offered = handoffs.offer_handoff(by(AGENTS[self.holder], *request)).await?;
                let outcome = self.moved(offered.into_inner().outcome);
                self.step = Step::Claim(pb::ClaimHandoffRequest {
                    request_id: fresh(),
                    handoff_id: outcome.handoff_id,
                    instance_id: format!("instance-{receiver}"),
                });
            }
            Step::Claim(request) => {
                // A lost lease costs nothing: the claim is made anew.
                let request = pb::ClaimHandoffRequest { request_id: fresh(), ..request };
                let instance_id = request.instance_id.clone();
                let claimed = handoffs.claim_handoff(by(AGENTS[receiver], request)).await?;
                let claimed = claimed.into_inner();
                let mut receipt = receipt_request(AGENTS[receiver], &claimed);
                receipt.instance_id = instance_id;
                self.step = Step::Acknowledge(Box::new(receipt));
            }
            Step::Acknowledge(request) => {
                let handoff_id = request.handoff_id.clone();
                let instance_id = request.instance_id.clone();
                let done = handoffs.acknowledge_handoff(by(AGENTS[receiver], *request)).await;
                let done = match done {
                    Err(status) if world::reason(&status) == "CLAIM_REQUIRED" => {
                        // The lease was answered before it was on disk, and died with the broker.
                        let request_id = fresh();
                        let claim = pb::ClaimHandoffRequest { request_id, handoff_id, instance_id };
                        self.step = Step::Claim(claim);
                        return Ok(());
                    }
                    other => other?.into_inner(),
                };
                self.moved(done.outcome);
                self.moves += 1;
                self.holder = receiver;
                self.step = self.offer();
            }
        }
        Ok(())
    }
}

/// Checks one task against what its driver was told, and the whole record against itself.
async fn check(broker: &Broker, driver: &Driver) {
    let request = pb::GetTaskStateRequest { task_id: driver.task_id.clone() };
    let state = broker.tasks().get_task_state(by(AGENTS[driver.holder], request)).await;
    let task = state.expect("the task is there").into_inner().task.unwrap();
    if task.view() == pb::TaskView::PastOwner {
        // The receipt that was under way when the broker died was kept: control moved, and its
        // former owner sees the task up to there.
        assert!(matches!(driver.step, Step::Acknowledge(_)), "{driver:?}");
        assert_eq!(task.epoch, driver.epoch);
        return;
    }
    // The originator sees all of it, also when that receipt was kept.
    let kept = u64::from(matches!(driver.step, Step::Acknowledge(_)) && task.epoch > driver.epoch);
    let owner = if kept == 1 { 1 - driver.holder } else { driver.holder };
    assert_eq!(task.owner, AGENTS[owner]);
    assert_eq!((task.epoch, driver.epoch), (1 + driver.moves + kept, 1 + driver.moves));
    assert!(task.revision == driver.revision || task.revision == driver.revision + 1);
}

/// The whole record of a task: no gap, every link right, and as many moves as were acknowledged.
async fn check_record(broker: &Broker, driver: &Driver) {
    let request = pb::WatchTaskRequest { task_id: driver.task_id.clone(), after_sequence: 0 };
    let mut stream = broker
        .tasks()
        .watch_task(by(AGENTS[driver.holder], request))
        .await
        .expect("watches")
        .into_inner();
    let request = pb::GetTaskStateRequest { task_id: driver.task_id.clone() };
    let state = broker.tasks().get_task_state(by(AGENTS[driver.holder], request)).await;
    let task = state.expect("the task is there").into_inner().task.unwrap();
    let (mut head, mut moves, mut sequence) = (String::new(), 0, 0);
    while sequence < task.last_sequence {
        let next = tokio::time::timeout(Duration::from_secs(10), stream.message()).await;
        let event = next.expect("in time").expect("reads").unwrap().event.unwrap();
        sequence += 1;
        assert_eq!(event.sequence, sequence);
        assert_eq!(event.previous_digest, head);
        let digest = baton::wire::event::event_digest(&event).unwrap().to_string();
        assert_eq!(event.digest, digest);
        head = digest;
        moves += u64::from(matches!(
            event.detail,
            Some(pb::event::Detail::HandoffReceived(_) | pb::event::Detail::OwnershipResumed(_))
        ));
    }
    assert_eq!((head, moves), (task.chain_head, driver.moves));
    assert_eq!(task.owner, AGENTS[driver.holder]);
}

/// Registers the agents, so that they can be offered tasks.
async fn register(broker: &Broker) {
    for agent in AGENTS {
        let request = pb::RegisterAgentRequest {
            request_id: fresh(),
            card: Some(baton::proto::lf::a2a::v1::AgentCard {
                name: agent.to_owned(),
                description: "an agent of a test".to_owned(),
                version: "1".to_owned(),
                ..Default::default()
            }),
            ..Default::default()
        };
        let mut agents = AgentServiceClient::new(broker.channel.clone());
        agents.register_agent(by(agent, request)).await.expect("registers");
    }
}

/// Goes on until the broker is gone; gives the driver back with its unanswered step.
async fn drive(mut driver: Driver, channel: Channel) -> Driver {
    while driver.go(&channel).await.is_ok() {}
    driver
}

// What is lost or doubled in a crash is what users of such systems lose money by.
// REQ-042, HR-16
#[tokio::test]
async fn a_hundred_kills_lose_nothing_and_double_nothing() {
    let data = tempfile::tempdir().unwrap();
    let mut broker = Broker::start(data.path()).await;
    register(&broker).await;
    let mut drivers = Vec::new();
    for _ in 0..TASKS {
        drivers.push(Driver::new(&broker).await);
    }
    for round in 0..ROUNDS {
        let running: Vec<_> = drivers
            .into_iter()
            .map(|driver| tokio::spawn(drive(driver, broker.channel.clone())))
            .collect();
        // Any moment: from the first call to well into the work.
        let moment = Duration::from_micros(u64::from(round * 7919 % 60_000));
        let begun = std::time::Instant::now();
        while begun.elapsed() < moment {
            tokio::task::yield_now().await;
        }
        broker.kill();
        drivers = Vec::new();
        for driver in running {
            drivers.push(driver.await.unwrap());
        }
        broker = Broker::start(data.path()).await;
        for driver in &mut drivers {
            check(&broker, driver).await;
            // The unanswered step is repeated as it was: it happened, or it happens now.
            driver.go(&broker.channel).await.expect("the step is settled");
        }
    }
    let moves: u64 = drivers.iter().map(|d| d.moves).sum();
    assert!(moves > u64::from(ROUNDS), "only {moves} handoffs in {ROUNDS} rounds");
    for driver in &drivers {
        check_record(&broker, driver).await;
    }
    // And what is on disk says the same everywhere.
    broker.kill();
    let report = baton::doctor::examine(data.path()).expect("the store opens");
    assert!(report.is_healthy() && report.tasks == TASKS as u64, "{report:?}");
}

// An agent that dies in the middle must find its tasks again, and its old process must be fenced,
// while others go on undisturbed.
// REQ-067, REQ-260
#[tokio::test]
async fn agents_that_are_killed_under_load_go_on_where_they_were() {
    let data = tempfile::tempdir().unwrap();
    let broker = Broker::start(data.path()).await;
    register(&broker).await;
    let mut drivers = Vec::new();
    for _ in 0..TASKS {
        drivers.push(Driver::new(&broker).await);
    }
    for round in 0..30_u32 {
        let running: Vec<_> = drivers
            .iter()
            .map(|driver| {
                let shared = std::sync::Arc::new(tokio::sync::Mutex::new(driver.clone()));
                let (theirs, channel) = (std::sync::Arc::clone(&shared), broker.channel.clone());
                let work =
                    tokio::spawn(
                        async move { while theirs.lock().await.go(&channel).await.is_ok() {} },
                    );
                (shared, work)
            })
            .collect();
        let moment = Duration::from_micros(u64::from(5_000 + round * 7919 % 30_000));
        let begun = std::time::Instant::now();
        while begun.elapsed() < moment {
            tokio::task::yield_now().await;
        }
        // The processes are gone in the middle of their calls; what they held is not.
        let mut left = Vec::new();
        for (shared, work) in running {
            work.abort();
            assert!(work.await.is_err(), "the work ended by itself");
            left.push(shared.lock().await.clone());
        }
        drivers = Vec::new();
        for driver in left {
            drivers.push(driver.restarted(&broker, round).await);
        }
    }
    for driver in &drivers {
        check_record(&broker, driver).await;
    }
}

impl Driver {
    /// The same agents in new processes: they find the task, settle the step that was under way,
    /// and take the task up under a new instance, which fences the old one.
    async fn restarted(mut self, broker: &Broker, round: u32) -> Self {
        self.go(&broker.channel).await.expect("the step is settled by repeating it");
        while !matches!(self.step, Step::Offer(_)) {
            self.go(&broker.channel).await.expect("goes on");
        }
        let owner = AGENTS[self.holder];
        let request = pb::ListTasksRequest { page_size: 100, ..Default::default() };
        let owned = broker.tasks().list_tasks(by(owner, request)).await.expect("lists");
        let owned = owned.into_inner().tasks;
        assert!(owned.iter().any(|task| task.task_id == self.task_id), "lost in round {round}");
        let old = self.step.clone();
        let request = pb::ResumeOwnershipRequest {
            request_id: fresh(),
            task_id: self.task_id.clone(),
            epoch: self.epoch,
            instance_id: format!("instance-{}", self.holder),
        };
        let mut handoffs = HandoffServiceClient::new(broker.channel.clone());
        let resumed = handoffs.resume_ownership(by(owner, request)).await.expect("resumes");
        self.moved(resumed.into_inner().outcome);
        self.moves += 1;
        // The old process comes back late with what it had in mind.
        if let Step::Offer(request) = old {
            let late = handoffs.offer_handoff(by(owner, *request)).await.expect_err("is fenced");
            assert_eq!(world::reason(&late), "STALE_EPOCH");
        }
        self.step = self.offer();
        self
    }
}
