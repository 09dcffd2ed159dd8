//! The steps of a task's life, as tests take them, each through the generated clients.

use baton::core::contract::example;
use baton::core::time::Span;
use baton::proto::baton::v1 as pb;
use tonic::Status;

use crate::packets::receipt_request;
use crate::world::{Held, World, by, by_operator, fresh};

pub(crate) const WRITER: &str = "agent:writer";
pub(crate) const REVIEWER: &str = "agent:reviewer";
pub(crate) const VERIFIER: &str = "verifier:readback-1";

impl World {
    /// A broker with a registered reviewer, and a task that can be offered.
    pub(crate) async fn with_ready() -> (Self, Held) {
        let world = Self::new().await;
        world.register(&[(REVIEWER, &["review"])]).await;
        let held = world.ready().await;
        (world, held)
    }

    /// The same with the task offered to the reviewer and claimed.
    pub(crate) async fn with_claimed() -> (Self, Held, pb::ClaimHandoffResponse) {
        let (world, mut held) = Self::with_ready().await;
        let claimed = world.offer_and_claim(&mut held, REVIEWER).await;
        (world, held, claimed)
    }

    pub(crate) async fn offer_and_claim(
        &self,
        held: &mut Held,
        receiver: &str,
    ) -> pb::ClaimHandoffResponse {
        let offered = self.offer(held, receiver).await;
        let handoff_id = offered.outcome.expect("an outcome").handoff_id;
        let claimed = self.claim(receiver, &handoff_id).await.expect("claims");
        // A claim is answered before its sync, and others read it only after that.
        let sequence = claimed.outcome.as_ref().expect("an outcome").event_sequence;
        let seen = async { while self.see_all(&held.task_id).await.last_sequence < sequence {} };
        let waited = tokio::time::timeout(std::time::Duration::from_secs(10), seen).await;
        waited.expect("a claim is on disk soon");
        claimed
    }

    /// Moves the task to `receiver` and gives what the receiver then holds.
    pub(crate) async fn hand_over(&self, held: &mut Held, receiver: &str) -> Held {
        let claimed = self.offer_and_claim(held, receiver).await;
        self.receive(held, receiver, &claimed).await
    }

    /// The honest receipt of a claim.
    pub(crate) async fn receive(
        &self,
        held: &Held,
        receiver: &str,
        claimed: &pb::ClaimHandoffResponse,
    ) -> Held {
        let request = receipt_request(receiver, claimed);
        let instance = request.instance_id.clone();
        let done = self.acknowledge(receiver, request).await.expect("receives");
        let outcome = done.outcome.expect("an outcome");
        Held {
            owner: receiver.to_owned(),
            instance,
            epoch: outcome.epoch,
            revision: outcome.revision,
            ..held.clone()
        }
    }

    /// Reports WORKING: the smallest write of an owner.
    pub(crate) async fn work(&self, held: &mut Held) -> Result<(), Status> {
        self.report(held, report(pb::RuntimeStatus::Working)).await
    }

    pub(crate) async fn report(
        &self,
        held: &mut Held,
        report: pb::StatusReport,
    ) -> Result<(), Status> {
        let request = pb::ReportStatusRequest {
            request_id: fresh(),
            task_id: held.task_id.clone(),
            guard: held.guard(),
            report: Some(report),
        };
        let done = self.tasks().report_status(by(&held.owner, request)).await?;
        held.moved(done.into_inner().outcome);
        Ok(())
    }

    pub(crate) async fn reject(
        &self,
        agent: &str,
        handoff_id: &str,
    ) -> Result<pb::RejectHandoffResponse, Status> {
        let request = pb::RejectHandoffRequest {
            request_id: fresh(),
            handoff_id: handoff_id.to_owned(),
            packet_digest: String::new(),
            failing_element: pb::ReceiptElement::Artifacts.into(),
            reason: "the artifact is another one".to_owned(),
        };
        Ok(self.handoffs().reject_handoff(by(agent, request)).await?.into_inner())
    }

    pub(crate) async fn withdraw(
        &self,
        held: &mut Held,
        offered: &pb::OfferHandoffResponse,
    ) -> Result<(), Status> {
        let outcome = offered.outcome.clone().expect("an outcome");
        let request = pb::WithdrawHandoffRequest {
            request_id: fresh(),
            handoff_id: outcome.handoff_id,
            packet_digest: offered.packet_digest.clone(),
            reason: "not now".to_owned(),
        };
        let done = self.handoffs().withdraw_handoff(by(&held.owner, request)).await?;
        held.moved(done.into_inner().outcome);
        Ok(())
    }

    pub(crate) async fn readback(
        &self,
        verifier: &str,
        held: &Held,
        result: pb::ReadbackResult,
    ) -> Result<pb::Outcome, Status> {
        let request = readback_request(held, result);
        let done = self.tasks().record_readback(by(verifier, request)).await?;
        Ok(done.into_inner().outcome.expect("an outcome"))
    }

    pub(crate) async fn decide(
        &self,
        verifier: &str,
        task_id: &str,
        verdict: pb::BusinessAcceptanceStatus,
    ) -> Result<pb::Outcome, Status> {
        let revision = self.see_all(task_id).await.revision;
        let request = pb::DecideAcceptanceRequest {
            request_id: fresh(),
            task_id: task_id.to_owned(),
            expected_revision: revision,
            decision: Some(pb::AcceptanceDecision {
                verdict: verdict.into(),
                comment: "judged".to_owned(),
                acceptance_contract_ref: "acc-5@v2".to_owned(),
                close: false,
            }),
        };
        let done = self.tasks().decide_acceptance(by(verifier, request)).await?;
        Ok(done.into_inner().outcome.expect("an outcome"))
    }

    pub(crate) async fn cancel(&self, principal: &str, held: &Held) -> Result<(), Status> {
        let request = pb::CancelTaskRequest {
            request_id: fresh(),
            task_id: held.task_id.clone(),
            reason: "no longer wanted".to_owned(),
        };
        self.tasks().cancel_task(by(principal, request)).await.map(|_| ())
    }

    pub(crate) async fn freeze(&self, task_id: &str) {
        let (request_id, task_id) = (fresh(), task_id.to_owned());
        let request = pb::FreezeTaskRequest { request_id, task_id, reason: "hold".to_owned() };
        self.tasks().freeze_task(by_operator(request)).await.expect("freezes");
    }

    pub(crate) async fn lift(&self, task_id: &str) {
        let (request_id, task_id) = (fresh(), task_id.to_owned());
        let request = pb::LiftFreezeRequest { request_id, task_id, reason: "go on".to_owned() };
        self.tasks().lift_freeze(by_operator(request)).await.expect("lifts");
    }

    pub(crate) async fn resume(
        &self,
        held: &Held,
        epoch: u64,
        instance: &str,
    ) -> Result<Held, Status> {
        let request = pb::ResumeOwnershipRequest {
            request_id: fresh(),
            task_id: held.task_id.clone(),
            epoch,
            instance_id: instance.to_owned(),
        };
        let done = self.handoffs().resume_ownership(by(&held.owner, request)).await?;
        let mut resumed = Held { instance: instance.to_owned(), ..held.clone() };
        resumed.moved(done.into_inner().outcome);
        Ok(resumed)
    }

    /// The task as an operator sees it.
    pub(crate) async fn see_all(&self, task_id: &str) -> pb::Task {
        let request = pb::GetTaskStateRequest { task_id: task_id.to_owned() };
        let state = self.tasks().get_task_state(by_operator(request)).await.expect("sees");
        state.into_inner().task.expect("a task")
    }

    /// The handoff as an operator sees it.
    pub(crate) async fn see_handoff_all(&self, id: &str) -> pb::Handoff {
        let request = pb::GetHandoffRequest { handoff_id: id.to_owned() };
        let state = self.handoffs().get_handoff(by_operator(request)).await.expect("sees");
        state.into_inner().handoff.expect("a handoff")
    }

    /// The open offers that an agent can receive.
    pub(crate) async fn offers_to(&self, agent: &str) -> Vec<pb::HandoffSummary> {
        let request = pb::ListHandoffsRequest::default();
        let page = self.handoffs().list_handoffs(by(agent, request)).await.expect("lists");
        page.into_inner().handoffs
    }

    /// All events of a task until now.
    pub(crate) async fn events(&self, task_id: &str) -> Vec<pb::Event> {
        let last = self.see_all(task_id).await.last_sequence;
        self.events_after(task_id, 0, last).await
    }

    /// The events after one number up to another.
    pub(crate) async fn events_after(
        &self,
        task_id: &str,
        after: u64,
        last: u64,
    ) -> Vec<pb::Event> {
        let request = pb::WatchTaskRequest { task_id: task_id.to_owned(), after_sequence: after };
        let stream = self.tasks().watch_task(by_operator(request)).await.expect("watches");
        let mut stream = stream.into_inner();
        let mut events: Vec<pb::Event> = Vec::new();
        while events.last().map_or(after, |e| e.sequence) < last {
            let next = next(&mut stream).await.expect("reads").expect("goes on");
            events.push(next.event.expect("an event"));
        }
        events
    }

    /// Asserts who owns the task, under which epoch, and how its latest handoff stands.
    #[track_caller]
    pub(crate) fn stands(
        &self,
        task: &pb::Task,
        owner: &str,
        epoch: u64,
        status: pb::HandoffStatus,
    ) {
        let handoff = task.handoff.as_ref().map_or(0, |h| h.status);
        let handoff = pb::HandoffStatus::try_from(handoff).expect("a status");
        assert_eq!((task.owner.as_str(), task.epoch, handoff), (owner, epoch, status));
    }

    pub(crate) fn pass(&self, seconds: i64) {
        self.clock.advance(Span::from_secs(seconds));
    }
}

/// A report that is complete for its status.
pub(crate) fn report(runtime: pb::RuntimeStatus) -> pb::StatusReport {
    use pb::RuntimeStatus as R;
    let waits = matches!(runtime, R::Paused | R::Blocked);
    let stands = waits || matches!(runtime, R::Failed | R::UnknownCause);
    let text = |text: &str| if stands { text.to_owned() } else { String::new() };
    pb::StatusReport {
        runtime: runtime.into(),
        resume_condition: text("the catalogue answers again"),
        next_safe_action: text("read the checkpoint"),
        released_by: if waits { pb::ReleasedBy::Other } else { pb::ReleasedBy::Unspecified }.into(),
        evidence: "trace-0".to_owned(),
        ..Default::default()
    }
}

/// A readback of the example's artifact.
pub(crate) fn readback_request(
    held: &Held,
    result: pb::ReadbackResult,
) -> pb::RecordReadbackRequest {
    let passed = result == pb::ReadbackResult::Pass;
    pb::RecordReadbackRequest {
        request_id: fresh(),
        task_id: held.task_id.clone(),
        artifact_id: "art-1".to_owned(),
        version: "v3".to_owned(),
        artifact_digest: example::ARTIFACT_DIGEST.to_owned(),
        evidence: Some(pb::ReadbackEvidence {
            method: "fetched and hashed".to_owned(),
            observed: if passed { example::ARTIFACT_DIGEST } else { "another" }.to_owned(),
            observed_at: Some(prost_types::Timestamp { seconds: 1_788_580_800, nanos: 0 }),
            verifier: String::new(),
            result: result.into(),
        }),
    }
}

/// How many of the events have this detail.
pub(crate) fn count(events: &[pb::Event], is: impl Fn(&pb::event::Detail) -> bool) -> usize {
    events.iter().filter(|e| e.detail.as_ref().is_some_and(&is)).count()
}

/// How many receipts moved control.
pub(crate) fn receipts(events: &[pb::Event]) -> usize {
    count(events, |d| matches!(d, pb::event::Detail::HandoffReceived(_)))
}

impl World {
    /// What the writer holds after a creation.
    pub(crate) fn held(&self, created: &pb::Outcome) -> Held {
        Held {
            task_id: created.task_id.clone(),
            owner: WRITER.to_owned(),
            instance: "writer-1".to_owned(),
            epoch: created.epoch,
            revision: created.revision,
            checkpoint: None,
        }
    }
}

/// The next message of a stream. A stream that says nothing is found here, and not by waiting.
pub(crate) async fn next<T>(stream: &mut tonic::Streaming<T>) -> Result<Option<T>, Status> {
    let next = tokio::time::timeout(std::time::Duration::from_secs(20), stream.message());
    next.await.expect("the stream says nothing")
}
