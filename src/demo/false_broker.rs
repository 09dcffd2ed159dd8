//! A broker that does not do its job, as the agents see it: a front before one that does.
//!
//! What lives here: forwarding every call of tasks and handoffs, and two faults. What does not: any
//! fault in the broker itself; nothing in the product can be told to skip a check. Invariants:
//! callers keep their own credentials; only the one faulty answer differs.

use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status, Streaming};

use crate::client::packet::{artifacts_of, sources_of};
use crate::proto::baton::v1 as pb;
use pb::handoff_service_client::HandoffServiceClient;
use pb::handoff_service_server::{HandoffService, HandoffServiceServer};
use pb::task_service_client::TaskServiceClient;
use pb::task_service_server::{TaskService, TaskServiceServer};

use super::Fault;
use super::report::{DemoError, Report, reason};

/// Serves until the process ends. `token` is an operator's, who may see every packet.
pub(super) async fn play(address: &str, fault: Fault, token: String) -> Result<(), DemoError> {
    let bad = |e: tonic::transport::Error| DemoError::wrong(e.to_string());
    let behind = Endpoint::from_shared(address.to_owned()).map_err(bad)?.connect_lazy();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let front = format!("http://{}", listener.local_addr()?);
    Report::new("listening", "stands between the agents and the broker, and lies")
        .with("address", front)
        .tell();
    let front = Front { behind, fault, token };
    Server::builder()
        .add_service(TaskServiceServer::new(front.clone()))
        .add_service(HandoffServiceServer::new(front))
        .serve_with_incoming(TcpListenerStream::new(listener))
        .await
        .map_err(bad)
}

#[derive(Clone)]
struct Front {
    behind: Channel,
    fault: Fault,
    token: String,
}

/// The same request with the caller's credential.
fn forward<T>(request: Request<T>) -> Request<T> {
    let credential = request.metadata().get("authorization").cloned();
    let mut forwarded = Request::new(request.into_inner());
    if let Some(credential) = credential {
        forwarded.metadata_mut().insert("authorization", credential);
    }
    forwarded
}

type Answer<T> = Result<Response<T>, Status>;

/// An answer as it came; a connection that broke behind is told as what it is for the caller.
fn relayed<T>(answer: Answer<T>) -> Answer<T> {
    answer.map_err(|status| {
        if std::error::Error::source(&status).is_some() {
            Status::unavailable(status.message())
        } else {
            status
        }
    })
}

impl Front {
    fn tasks(&self) -> TaskServiceClient<Channel> {
        TaskServiceClient::new(self.behind.clone())
    }

    fn handoffs(&self) -> HandoffServiceClient<Channel> {
        HandoffServiceClient::new(self.behind.clone())
    }

    /// The receipt that the broker behind would take, made of its own packet.
    async fn right(&self, receipt: &mut pb::HandoffReceipt, handoff_id: &str) {
        let message = pb::GetHandoffRequest { handoff_id: handoff_id.to_owned() };
        let mut request = Request::new(message);
        if let Ok(bearer) = format!("Bearer {}", self.token).parse() {
            request.metadata_mut().insert("authorization", bearer);
        }
        let Ok(seen) = self.handoffs().get_handoff(request).await else { return };
        let packet = seen.into_inner().packet.unwrap_or_default();
        let sources = sources_of(packet.source_snapshot.as_ref()).iter();
        let entities = sources.map(|s| pb::SourceEcho {
            entity_id: s.entity_id.clone(),
            version: s.version.clone(),
            digest: s.digest.clone(),
        });
        let artifacts = artifacts_of(packet.artifact_descriptors.as_ref()).iter();
        let items = artifacts.map(|a| pb::ArtifactEcho {
            id: a.id.clone(),
            version: a.version.clone(),
            digest: a.digest.clone().unwrap_or_default(),
        });
        receipt.source_snapshot = Some(pb::SourceSnapshotEcho { entities: entities.collect() });
        receipt.artifacts = Some(pb::ArtifactSetEcho { items: items.collect() });
    }
}

#[tonic::async_trait]
impl TaskService for Front {
    type WatchTaskStream = Streaming<pb::WatchTaskResponse>;

    async fn create_task(
        &self,
        request: Request<pb::CreateTaskRequest>,
    ) -> Answer<pb::CreateTaskResponse> {
        relayed(self.tasks().create_task(forward(request)).await)
    }

    async fn get_task_state(
        &self,
        request: Request<pb::GetTaskStateRequest>,
    ) -> Answer<pb::GetTaskStateResponse> {
        relayed(self.tasks().get_task_state(forward(request)).await)
    }

    async fn get_resume_set(
        &self,
        request: Request<pb::GetResumeSetRequest>,
    ) -> Answer<pb::GetResumeSetResponse> {
        relayed(self.tasks().get_resume_set(forward(request)).await)
    }

    async fn list_tasks(
        &self,
        request: Request<pb::ListTasksRequest>,
    ) -> Answer<pb::ListTasksResponse> {
        relayed(self.tasks().list_tasks(forward(request)).await)
    }

    async fn put_checkpoint(
        &self,
        request: Request<pb::PutCheckpointRequest>,
    ) -> Answer<pb::PutCheckpointResponse> {
        relayed(self.tasks().put_checkpoint(forward(request)).await)
    }

    async fn report_status(
        &self,
        request: Request<pb::ReportStatusRequest>,
    ) -> Answer<pb::ReportStatusResponse> {
        relayed(self.tasks().report_status(forward(request)).await)
    }

    async fn put_artifact(
        &self,
        request: Request<pb::PutArtifactRequest>,
    ) -> Answer<pb::PutArtifactResponse> {
        let answer = relayed(self.tasks().put_artifact(forward(request)).await);
        match answer {
            Err(status)
                if self.fault == Fault::IgnoreEpoch
                    && reason(&status.clone().into()) == "STALE_EPOCH" =>
            {
                let outcome = Some(pb::Outcome::default());
                Ok(Response::new(pb::PutArtifactResponse { outcome, descriptor: None }))
            }
            answer => answer,
        }
    }

    async fn get_artifact(
        &self,
        request: Request<pb::GetArtifactRequest>,
    ) -> Answer<pb::GetArtifactResponse> {
        relayed(self.tasks().get_artifact(forward(request)).await)
    }

    async fn record_readback(
        &self,
        request: Request<pb::RecordReadbackRequest>,
    ) -> Answer<pb::RecordReadbackResponse> {
        relayed(self.tasks().record_readback(forward(request)).await)
    }

    async fn decide_acceptance(
        &self,
        request: Request<pb::DecideAcceptanceRequest>,
    ) -> Answer<pb::DecideAcceptanceResponse> {
        relayed(self.tasks().decide_acceptance(forward(request)).await)
    }

    async fn cancel_task(
        &self,
        request: Request<pb::CancelTaskRequest>,
    ) -> Answer<pb::CancelTaskResponse> {
        relayed(self.tasks().cancel_task(forward(request)).await)
    }

    async fn freeze_task(
        &self,
        request: Request<pb::FreezeTaskRequest>,
    ) -> Answer<pb::FreezeTaskResponse> {
        relayed(self.tasks().freeze_task(forward(request)).await)
    }

    async fn lift_freeze(
        &self,
        request: Request<pb::LiftFreezeRequest>,
    ) -> Answer<pb::LiftFreezeResponse> {
        relayed(self.tasks().lift_freeze(forward(request)).await)
    }

    async fn watch_task(
        &self,
        request: Request<pb::WatchTaskRequest>,
    ) -> Answer<Self::WatchTaskStream> {
        relayed(self.tasks().watch_task(forward(request)).await)
    }
}

#[tonic::async_trait]
impl HandoffService for Front {
    type WatchHandoffsStream = Streaming<pb::WatchHandoffsResponse>;

    async fn offer_handoff(
        &self,
        request: Request<pb::OfferHandoffRequest>,
    ) -> Answer<pb::OfferHandoffResponse> {
        relayed(self.handoffs().offer_handoff(forward(request)).await)
    }

    async fn offer_on_behalf(
        &self,
        request: Request<pb::OfferOnBehalfRequest>,
    ) -> Answer<pb::OfferOnBehalfResponse> {
        relayed(self.handoffs().offer_on_behalf(forward(request)).await)
    }

    async fn claim_handoff(
        &self,
        request: Request<pb::ClaimHandoffRequest>,
    ) -> Answer<pb::ClaimHandoffResponse> {
        relayed(self.handoffs().claim_handoff(forward(request)).await)
    }

    async fn renew_claim(
        &self,
        request: Request<pb::RenewClaimRequest>,
    ) -> Answer<pb::RenewClaimResponse> {
        relayed(self.handoffs().renew_claim(forward(request)).await)
    }

    async fn acknowledge_handoff(
        &self,
        request: Request<pb::AcknowledgeHandoffRequest>,
    ) -> Answer<pb::AcknowledgeHandoffResponse> {
        let mut request = forward(request);
        if self.fault == Fault::SkipComparison {
            let id = request.get_ref().handoff_id.clone();
            if let Some(receipt) = &mut request.get_mut().receipt {
                self.right(receipt, &id).await;
            }
        }
        relayed(self.handoffs().acknowledge_handoff(request).await)
    }

    async fn reject_handoff(
        &self,
        request: Request<pb::RejectHandoffRequest>,
    ) -> Answer<pb::RejectHandoffResponse> {
        relayed(self.handoffs().reject_handoff(forward(request)).await)
    }

    async fn withdraw_handoff(
        &self,
        request: Request<pb::WithdrawHandoffRequest>,
    ) -> Answer<pb::WithdrawHandoffResponse> {
        relayed(self.handoffs().withdraw_handoff(forward(request)).await)
    }

    async fn resume_ownership(
        &self,
        request: Request<pb::ResumeOwnershipRequest>,
    ) -> Answer<pb::ResumeOwnershipResponse> {
        relayed(self.handoffs().resume_ownership(forward(request)).await)
    }

    async fn get_handoff(
        &self,
        request: Request<pb::GetHandoffRequest>,
    ) -> Answer<pb::GetHandoffResponse> {
        relayed(self.handoffs().get_handoff(forward(request)).await)
    }

    async fn list_handoffs(
        &self,
        request: Request<pb::ListHandoffsRequest>,
    ) -> Answer<pb::ListHandoffsResponse> {
        relayed(self.handoffs().list_handoffs(forward(request)).await)
    }

    async fn watch_handoffs(
        &self,
        request: Request<pb::WatchHandoffsRequest>,
    ) -> Answer<Self::WatchHandoffsStream> {
        relayed(self.handoffs().watch_handoffs(forward(request)).await)
    }
}
