//! One method for each call of the three services.
//!
//! What lives here: the calls, as thin as they are. What does not: what to call when. Invariants: a
//! change that comes without a `request_id` gets one before it is first sent, and every repeat
//! carries the same; give one of your own to repeat a change after a restart of your process.
//! Every method fails with what the broker refused, or with what kept it from answering.
//!
//! Source: `baton.v1`, whose comments say what each call binds to and returns.

use tonic::Streaming;

use crate::proto::baton::v1 as pb;
use pb::agent_service_client::AgentServiceClient as Agents;
use pb::handoff_service_client::HandoffServiceClient as Handoffs;
use pb::task_service_client::TaskServiceClient as Tasks;

use super::{Client, Failure, request_id};

/// Fills an empty `request_id`.
fn named(id: &mut String) {
    if id.is_empty() {
        *id = request_id();
    }
}

/// The calls of `AgentService`.
impl Client {
    /// Registers the caller as an agent.
    ///
    /// # Errors
    /// As the module says.
    pub async fn register_agent(
        &self,
        mut request: pb::RegisterAgentRequest,
    ) -> Result<pb::RegisterAgentResponse, Failure> {
        named(&mut request.request_id);
        self.send(request, |to, r| async { Agents::new(to).register_agent(r).await }).await
    }

    /// Replaces the caller's registration.
    ///
    /// # Errors
    /// As the module says.
    pub async fn update_agent(
        &self,
        mut request: pb::UpdateAgentRequest,
    ) -> Result<pb::UpdateAgentResponse, Failure> {
        named(&mut request.request_id);
        self.send(request, |to, r| async { Agents::new(to).update_agent(r).await }).await
    }

    /// Removes a registration.
    ///
    /// # Errors
    /// As the module says.
    pub async fn remove_agent(
        &self,
        mut request: pb::RemoveAgentRequest,
    ) -> Result<pb::RemoveAgentResponse, Failure> {
        named(&mut request.request_id);
        self.send(request, |to, r| async { Agents::new(to).remove_agent(r).await }).await
    }

    /// Reads one registration.
    ///
    /// # Errors
    /// As the module says.
    pub async fn get_agent(
        &self,
        request: pb::GetAgentRequest,
    ) -> Result<pb::GetAgentResponse, Failure> {
        self.send(request, |to, r| async { Agents::new(to).get_agent(r).await }).await
    }

    /// Lists registrations.
    ///
    /// # Errors
    /// As the module says.
    pub async fn list_agents(
        &self,
        request: pb::ListAgentsRequest,
    ) -> Result<pb::ListAgentsResponse, Failure> {
        self.send(request, |to, r| async { Agents::new(to).list_agents(r).await }).await
    }
}

/// The calls of `TaskService`.
impl Client {
    /// Creates a task; the caller owns it.
    ///
    /// # Errors
    /// As the module says.
    pub async fn create_task(
        &self,
        mut request: pb::CreateTaskRequest,
    ) -> Result<pb::CreateTaskResponse, Failure> {
        named(&mut request.request_id);
        self.send(request, |to, r| async { Tasks::new(to).create_task(r).await }).await
    }

    /// Reads a task.
    ///
    /// # Errors
    /// As the module says.
    pub async fn get_task_state(
        &self,
        request: pb::GetTaskStateRequest,
    ) -> Result<pb::GetTaskStateResponse, Failure> {
        self.send(request, |to, r| async { Tasks::new(to).get_task_state(r).await }).await
    }

    /// Reads all that an owner needs to go on.
    ///
    /// # Errors
    /// As the module says.
    pub async fn get_resume_set(
        &self,
        request: pb::GetResumeSetRequest,
    ) -> Result<pb::GetResumeSetResponse, Failure> {
        self.send(request, |to, r| async { Tasks::new(to).get_resume_set(r).await }).await
    }

    /// Lists tasks, a page at a time.
    ///
    /// # Errors
    /// As the module says.
    pub async fn list_tasks(
        &self,
        request: pb::ListTasksRequest,
    ) -> Result<pb::ListTasksResponse, Failure> {
        self.send(request, |to, r| async { Tasks::new(to).list_tasks(r).await }).await
    }

    /// Fixes the resume point.
    ///
    /// # Errors
    /// As the module says.
    pub async fn put_checkpoint(
        &self,
        mut request: pb::PutCheckpointRequest,
    ) -> Result<pb::PutCheckpointResponse, Failure> {
        named(&mut request.request_id);
        self.send(request, |to, r| async { Tasks::new(to).put_checkpoint(r).await }).await
    }

    /// Moves the runtime axis.
    ///
    /// # Errors
    /// As the module says.
    pub async fn report_status(
        &self,
        mut request: pb::ReportStatusRequest,
    ) -> Result<pb::ReportStatusResponse, Failure> {
        named(&mut request.request_id);
        self.send(request, |to, r| async { Tasks::new(to).report_status(r).await }).await
    }

    /// Puts a version of an artifact.
    ///
    /// # Errors
    /// As the module says.
    pub async fn put_artifact(
        &self,
        mut request: pb::PutArtifactRequest,
    ) -> Result<pb::PutArtifactResponse, Failure> {
        named(&mut request.request_id);
        self.send(request, |to, r| async { Tasks::new(to).put_artifact(r).await }).await
    }

    /// Reads an artifact and, if the broker keeps it, its content.
    ///
    /// # Errors
    /// As the module says.
    pub async fn get_artifact(
        &self,
        request: pb::GetArtifactRequest,
    ) -> Result<pb::GetArtifactResponse, Failure> {
        self.send(request, |to, r| async { Tasks::new(to).get_artifact(r).await }).await
    }

    /// Records what re-reading an artifact showed.
    ///
    /// # Errors
    /// As the module says.
    pub async fn record_readback(
        &self,
        mut request: pb::RecordReadbackRequest,
    ) -> Result<pb::RecordReadbackResponse, Failure> {
        named(&mut request.request_id);
        self.send(request, |to, r| async { Tasks::new(to).record_readback(r).await }).await
    }

    /// Accepts or rejects the result.
    ///
    /// # Errors
    /// As the module says.
    pub async fn decide_acceptance(
        &self,
        mut request: pb::DecideAcceptanceRequest,
    ) -> Result<pb::DecideAcceptanceResponse, Failure> {
        named(&mut request.request_id);
        self.send(request, |to, r| async { Tasks::new(to).decide_acceptance(r).await }).await
    }

    /// Cancels a task.
    ///
    /// # Errors
    /// As the module says.
    pub async fn cancel_task(
        &self,
        mut request: pb::CancelTaskRequest,
    ) -> Result<pb::CancelTaskResponse, Failure> {
        named(&mut request.request_id);
        self.send(request, |to, r| async { Tasks::new(to).cancel_task(r).await }).await
    }

    /// Freezes a task.
    ///
    /// # Errors
    /// As the module says.
    pub async fn freeze_task(
        &self,
        mut request: pb::FreezeTaskRequest,
    ) -> Result<pb::FreezeTaskResponse, Failure> {
        named(&mut request.request_id);
        self.send(request, |to, r| async { Tasks::new(to).freeze_task(r).await }).await
    }

    /// Lifts a freeze.
    ///
    /// # Errors
    /// As the module says.
    pub async fn lift_freeze(
        &self,
        mut request: pb::LiftFreezeRequest,
    ) -> Result<pb::LiftFreezeResponse, Failure> {
        named(&mut request.request_id);
        self.send(request, |to, r| async { Tasks::new(to).lift_freeze(r).await }).await
    }

    /// Streams a task's events from a cursor. Open it again after an end, from the last number
    /// seen.
    ///
    /// # Errors
    /// As the module says.
    pub async fn watch_task(
        &self,
        request: pb::WatchTaskRequest,
    ) -> Result<Streaming<pb::WatchTaskResponse>, Failure> {
        self.open(request, |to, r| async { Tasks::new(to).watch_task(r).await }).await
    }
}

/// The calls of `HandoffService`.
impl Client {
    /// Offers a task of the caller.
    ///
    /// # Errors
    /// As the module says.
    pub async fn offer_handoff(
        &self,
        mut request: pb::OfferHandoffRequest,
    ) -> Result<pb::OfferHandoffResponse, Failure> {
        named(&mut request.request_id);
        self.send(request, |to, r| async { Handoffs::new(to).offer_handoff(r).await }).await
    }

    /// Offers the task of an absent owner.
    ///
    /// # Errors
    /// As the module says.
    pub async fn offer_on_behalf(
        &self,
        mut request: pb::OfferOnBehalfRequest,
    ) -> Result<pb::OfferOnBehalfResponse, Failure> {
        named(&mut request.request_id);
        self.send(request, |to, r| async { Handoffs::new(to).offer_on_behalf(r).await }).await
    }

    /// Takes the lease of an offer and reads its packet.
    ///
    /// # Errors
    /// As the module says.
    pub async fn claim_handoff(
        &self,
        mut request: pb::ClaimHandoffRequest,
    ) -> Result<pb::ClaimHandoffResponse, Failure> {
        named(&mut request.request_id);
        self.send(request, |to, r| async { Handoffs::new(to).claim_handoff(r).await }).await
    }

    /// Renews the lease.
    ///
    /// # Errors
    /// As the module says.
    pub async fn renew_claim(
        &self,
        mut request: pb::RenewClaimRequest,
    ) -> Result<pb::RenewClaimResponse, Failure> {
        named(&mut request.request_id);
        self.send(request, |to, r| async { Handoffs::new(to).renew_claim(r).await }).await
    }

    /// Presents the receipt; control moves if it matches.
    ///
    /// # Errors
    /// As the module says.
    pub async fn acknowledge_handoff(
        &self,
        mut request: pb::AcknowledgeHandoffRequest,
    ) -> Result<pb::AcknowledgeHandoffResponse, Failure> {
        named(&mut request.request_id);
        self.send(request, |to, r| async { Handoffs::new(to).acknowledge_handoff(r).await }).await
    }

    /// Refuses an offer.
    ///
    /// # Errors
    /// As the module says.
    pub async fn reject_handoff(
        &self,
        mut request: pb::RejectHandoffRequest,
    ) -> Result<pb::RejectHandoffResponse, Failure> {
        named(&mut request.request_id);
        self.send(request, |to, r| async { Handoffs::new(to).reject_handoff(r).await }).await
    }

    /// Takes an offer back.
    ///
    /// # Errors
    /// As the module says.
    pub async fn withdraw_handoff(
        &self,
        mut request: pb::WithdrawHandoffRequest,
    ) -> Result<pb::WithdrawHandoffResponse, Failure> {
        named(&mut request.request_id);
        self.send(request, |to, r| async { Handoffs::new(to).withdraw_handoff(r).await }).await
    }

    /// Goes on as owner under a new instance.
    ///
    /// # Errors
    /// As the module says.
    pub async fn resume_ownership(
        &self,
        mut request: pb::ResumeOwnershipRequest,
    ) -> Result<pb::ResumeOwnershipResponse, Failure> {
        named(&mut request.request_id);
        self.send(request, |to, r| async { Handoffs::new(to).resume_ownership(r).await }).await
    }

    /// Reads one handoff.
    ///
    /// # Errors
    /// As the module says.
    pub async fn get_handoff(
        &self,
        request: pb::GetHandoffRequest,
    ) -> Result<pb::GetHandoffResponse, Failure> {
        self.send(request, |to, r| async { Handoffs::new(to).get_handoff(r).await }).await
    }

    /// Lists open offers to the caller.
    ///
    /// # Errors
    /// As the module says.
    pub async fn list_handoffs(
        &self,
        request: pb::ListHandoffsRequest,
    ) -> Result<pb::ListHandoffsResponse, Failure> {
        self.send(request, |to, r| async { Handoffs::new(to).list_handoffs(r).await }).await
    }

    /// Streams offers to the caller, first those that are open. Open it again after an end.
    ///
    /// # Errors
    /// As the module says.
    pub async fn watch_handoffs(&self) -> Result<Streaming<pb::WatchHandoffsResponse>, Failure> {
        let request = pb::WatchHandoffsRequest {};
        self.open(request, |to, r| async { Handoffs::new(to).watch_handoffs(r).await }).await
    }
}
