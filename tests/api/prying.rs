//! A receiver that calls everything that it can call, and keeps what it is told.

use baton::core::contract::example;
use baton::proto::baton::v1 as pb;
use tonic::Status;
use tonic::transport::Channel;

use crate::packets::{example_artifact, offer_request};
use crate::steps::{REVIEWER, WRITER, next, readback_request, report};
use crate::world::{Held, by, fresh};

/// Clients of one connection.
pub(crate) struct Receiver {
    pub(crate) tasks: pb::task_service_client::TaskServiceClient<Channel>,
    pub(crate) handoffs: pb::handoff_service_client::HandoffServiceClient<Channel>,
    pub(crate) agents: pb::agent_service_client::AgentServiceClient<Channel>,
    /// Messages and details of refusals: headers are compressed, so they are kept decoded.
    pub(crate) refusals: Vec<u8>,
}

impl Receiver {
    pub(crate) fn over(channel: &Channel) -> Self {
        Self {
            tasks: pb::task_service_client::TaskServiceClient::new(channel.clone()),
            handoffs: pb::handoff_service_client::HandoffServiceClient::new(channel.clone()),
            agents: pb::agent_service_client::AgentServiceClient::new(channel.clone()),
            refusals: Vec::new(),
        }
    }

    pub(crate) fn heard<T>(&mut self, result: Result<T, Status>) -> Option<T> {
        match result {
            Ok(answer) => Some(answer),
            Err(status) => {
                self.refusals.extend_from_slice(status.message().as_bytes());
                self.refusals.extend_from_slice(status.details());
                None
            }
        }
    }

    /// Calls everything that reads.
    pub(crate) async fn read(&mut self, task_id: &str, handoff_id: &str) {
        let (task_id, handoff_id) = (task_id.to_owned(), handoff_id.to_owned());
        let request = pb::GetTaskStateRequest { task_id: task_id.clone() };
        let heard = self.tasks.get_task_state(by(REVIEWER, request)).await;
        self.heard(heard);
        let request = pb::GetResumeSetRequest { task_id: task_id.clone() };
        let heard = self.tasks.get_resume_set(by(REVIEWER, request)).await;
        self.heard(heard);
        let (artifact_id, request) = ("art-1".to_owned(), task_id.clone());
        let request = pb::GetArtifactRequest { task_id: request, artifact_id };
        let heard = self.tasks.get_artifact(by(REVIEWER, request)).await;
        self.heard(heard);
        for filter in 0..4 {
            let request = pb::ListTasksRequest { filter, ..Default::default() };
            let heard = self.tasks.list_tasks(by(REVIEWER, request)).await;
            self.heard(heard);
        }
        let request = pb::WatchTaskRequest { task_id, after_sequence: 0 };
        let heard = self.tasks.watch_task(by(REVIEWER, request)).await;
        if let Some(stream) = self.heard(heard) {
            let first = next(&mut stream.into_inner()).await;
            self.heard(first);
        }
        let request = pb::GetHandoffRequest { handoff_id };
        let heard = self.handoffs.get_handoff(by(REVIEWER, request)).await;
        self.heard(heard);
        let request = pb::ListHandoffsRequest::default();
        let heard = self.handoffs.list_handoffs(by(REVIEWER, request)).await;
        self.heard(heard);
        let request = pb::WatchHandoffsRequest {};
        let heard = self.handoffs.watch_handoffs(by(REVIEWER, request)).await;
        if let Some(stream) = self.heard(heard) {
            let first = next(&mut stream.into_inner()).await;
            assert!(self.heard(first).flatten().is_some(), "the offer is announced");
        }
        let request = pb::GetAgentRequest { agent_id: REVIEWER.to_owned() };
        let heard = self.agents.get_agent(by(REVIEWER, request)).await;
        self.heard(heard);
        let heard = self.agents.list_agents(by(REVIEWER, pb::ListAgentsRequest::default())).await;
        self.heard(heard);
    }

    /// Tries every write of an owner, a verifier and an operator.
    pub(crate) async fn try_writes(&mut self, held: &Held, handoff_id: &str, packet_digest: &str) {
        let (task_id, request_id, guard) = (held.task_id.clone(), fresh(), held.guard());
        let checkpoint = Some(example::checkpoint());
        let request = pb::PutCheckpointRequest { request_id, task_id, guard, checkpoint };
        let heard = self.tasks.put_checkpoint(by(REVIEWER, request)).await;
        self.heard(heard);
        let report = Some(report(pb::RuntimeStatus::Working));
        let (task_id, request_id, guard) = (held.task_id.clone(), fresh(), held.guard());
        let request = pb::ReportStatusRequest { request_id, task_id, guard, report };
        let heard = self.tasks.report_status(by(REVIEWER, request)).await;
        self.heard(heard);
        let request = pb::PutArtifactRequest {
            request_id: fresh(),
            task_id: held.task_id.clone(),
            guard: held.guard(),
            descriptor: Some(example_artifact()),
            ..Default::default()
        };
        let heard = self.tasks.put_artifact(by(REVIEWER, request)).await;
        self.heard(heard);
        // The guess of a digest is the caller's own; what comes back must not confirm more.
        let request = readback_request(held, pb::ReadbackResult::Fail);
        let request = pb::RecordReadbackRequest {
            artifact_digest: crate::receipts::OTHER.to_owned(),
            ..request
        };
        let heard = self.tasks.record_readback(by(REVIEWER, request)).await;
        self.heard(heard);
        let (task_id, reason) = (held.task_id.clone(), "mine".to_owned());
        let request = pb::CancelTaskRequest { request_id: fresh(), task_id, reason };
        let heard = self.tasks.cancel_task(by(REVIEWER, request)).await;
        self.heard(heard);
        let request = pb::ResumeOwnershipRequest {
            request_id: fresh(),
            task_id: held.task_id.clone(),
            epoch: 1,
            instance_id: "x".to_owned(),
        };
        let heard = self.handoffs.resume_ownership(by(REVIEWER, request)).await;
        self.heard(heard);
        let heard = self.handoffs.offer_handoff(by(REVIEWER, offer_request(held, WRITER))).await;
        self.heard(heard);
        let request = pb::WithdrawHandoffRequest {
            request_id: fresh(),
            handoff_id: handoff_id.to_owned(),
            packet_digest: packet_digest.to_owned(),
            reason: String::new(),
        };
        let heard = self.handoffs.withdraw_handoff(by(REVIEWER, request)).await;
        self.heard(heard);
    }
}

impl Receiver {
    pub(crate) async fn read_after(&mut self, handoff_id: &str) {
        let request = pb::GetHandoffRequest { handoff_id: handoff_id.to_owned() };
        self.handoffs.get_handoff(by(REVIEWER, request)).await.expect("reads");
    }
}
