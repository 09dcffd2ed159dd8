//! `TaskService`: the state of tasks.

use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::broker::{Change, Error};
use crate::core::contract::{check_checkpoint, check_materialised};
use crate::core::event::TaskCreated;
use crate::core::id::TaskId;
use crate::core::party::Sight;
use crate::core::refusal::{Reason, Refusal};
use crate::core::{Caller, Command, Outcome};
use crate::proto::baton::v1 as pb;
use crate::proto::baton::v1::task_service_server::TaskService;
use crate::wire::document::seal;
use crate::wire::violations::Violations;
use crate::wire::work::{self, contract_refusal};
use crate::wire::{canon, guard, time};

use super::offer::fresh_task;
use super::{
    Desk, Seen, answer, content, kept, next_token, outcome, page_size, page_token, unsealed,
};

#[tonic::async_trait]
impl TaskService for Desk {
    async fn create_task(
        &self,
        request: Request<pb::CreateTaskRequest>,
    ) -> Result<Response<pb::CreateTaskResponse>, Status> {
        let id = request.get_ref().request_id.clone();
        answer(self.create(request).await, &id)
    }

    async fn get_task_state(
        &self,
        request: Request<pb::GetTaskStateRequest>,
    ) -> Result<Response<pb::GetTaskStateResponse>, Status> {
        answer(self.task_state(request).await, "")
    }

    async fn get_resume_set(
        &self,
        request: Request<pb::GetResumeSetRequest>,
    ) -> Result<Response<pb::GetResumeSetResponse>, Status> {
        answer(self.resume_set(request).await, "")
    }

    async fn list_tasks(
        &self,
        request: Request<pb::ListTasksRequest>,
    ) -> Result<Response<pb::ListTasksResponse>, Status> {
        answer(self.tasks(request).await, "")
    }

    async fn put_checkpoint(
        &self,
        request: Request<pb::PutCheckpointRequest>,
    ) -> Result<Response<pb::PutCheckpointResponse>, Status> {
        let id = request.get_ref().request_id.clone();
        answer(self.checkpoint(request).await, &id)
    }

    async fn report_status(
        &self,
        request: Request<pb::ReportStatusRequest>,
    ) -> Result<Response<pb::ReportStatusResponse>, Status> {
        let id = request.get_ref().request_id.clone();
        answer(self.report(request).await, &id)
    }

    async fn put_artifact(
        &self,
        request: Request<pb::PutArtifactRequest>,
    ) -> Result<Response<pb::PutArtifactResponse>, Status> {
        let id = request.get_ref().request_id.clone();
        answer(self.artifact(request).await, &id)
    }

    async fn get_artifact(
        &self,
        request: Request<pb::GetArtifactRequest>,
    ) -> Result<Response<pb::GetArtifactResponse>, Status> {
        answer(self.read_artifact(request).await, "")
    }

    async fn record_readback(
        &self,
        request: Request<pb::RecordReadbackRequest>,
    ) -> Result<Response<pb::RecordReadbackResponse>, Status> {
        let id = request.get_ref().request_id.clone();
        answer(self.readback(request).await, &id)
    }

    async fn decide_acceptance(
        &self,
        request: Request<pb::DecideAcceptanceRequest>,
    ) -> Result<Response<pb::DecideAcceptanceResponse>, Status> {
        let id = request.get_ref().request_id.clone();
        answer(self.acceptance(request).await, &id)
    }

    async fn cancel_task(
        &self,
        request: Request<pb::CancelTaskRequest>,
    ) -> Result<Response<pb::CancelTaskResponse>, Status> {
        let id = request.get_ref().request_id.clone();
        answer(self.cancel(request).await, &id)
    }

    async fn freeze_task(
        &self,
        request: Request<pb::FreezeTaskRequest>,
    ) -> Result<Response<pb::FreezeTaskResponse>, Status> {
        let id = request.get_ref().request_id.clone();
        let result = self.freeze(request).await;
        answer(result.map(|o| pb::FreezeTaskResponse { outcome: outcome(&o) }), &id)
    }

    async fn lift_freeze(
        &self,
        request: Request<pb::LiftFreezeRequest>,
    ) -> Result<Response<pb::LiftFreezeResponse>, Status> {
        let id = request.get_ref().request_id.clone();
        let result = self.lift(request).await;
        answer(result.map(|o| pb::LiftFreezeResponse { outcome: outcome(&o) }), &id)
    }

    type WatchTaskStream = ReceiverStream<Result<pb::WatchTaskResponse, Status>>;

    async fn watch_task(
        &self,
        request: Request<pb::WatchTaskRequest>,
    ) -> Result<Response<Self::WatchTaskStream>, Status> {
        answer(self.watch_events(request).await, "")
    }
}

impl Desk {
    async fn create(
        &self,
        request: Request<pb::CreateTaskRequest>,
    ) -> Result<pb::CreateTaskResponse, Error> {
        let caller = self.caller(&request).await?;
        let message = request.into_inner();
        let mut violations = Violations::default();
        let id = guard::request_id(&message.request_id, &mut violations);
        let task = fresh_task()?;
        let creation = work::create(&message, &task, &caller.party.principal, &mut violations);
        if let (true, Some(contract)) = (violations.is_empty(), &message.contract) {
            let findings = check_materialised(contract);
            if !findings.is_empty() {
                return Err(contract_refusal(&findings).into());
            }
        }
        let (id, creation) = violations.finish(id.zip(creation))?;
        self.refuse_if_volatile(&message)?;
        let stored = seal(&creation.stored).map_err(|e| unsealed("contract", &e))?;
        let contract_digest =
            canon::digest(&creation.document).map_err(|e| unsealed("contract", &e))?;
        let created = TaskCreated {
            originator: caller.party.clone(),
            instance: creation.instance,
            context: creation.context,
            class: creation.class,
            contract_version: creation.version,
            contract_digest,
            contract_document: stored.digest,
            scope: creation.scope,
            policy: creation.policy,
        };
        let request = crate::broker::Request { caller, id, digest: content(&message) };
        let change = Change::Create { task, created: Box::new(created) };
        let done = self.broker.propose(request, change, kept(vec![stored])).await?;
        Ok(pb::CreateTaskResponse { outcome: outcome(&done) })
    }

    /// REQ-043: work that must outlive the process is refused on a store that does not.
    fn refuse_if_volatile(&self, message: &pb::CreateTaskRequest) -> Result<(), Error> {
        if self.broker.keeps_promises() {
            return Ok(());
        }
        let triggers = [
            pb::Trait::SessionCrossing,
            pb::Trait::LongRunning,
            pb::Trait::Retryable,
            pb::Trait::OwnerTransfer,
        ];
        let shape = message.shape.clone().unwrap_or_default();
        let durable = triggers.iter().any(|t| shape.traits.contains(&i32::from(*t)))
            || shape.tier >= i32::from(pb::Tier::Oc2);
        if !durable {
            return Ok(());
        }
        Err(Refusal::new(
            Reason::DurabilityRequired,
            "the store keeps nothing across a restart and this work needs that; use a durable \
             store",
        )
        .into())
    }

    async fn task_state(
        &self,
        request: Request<pb::GetTaskStateRequest>,
    ) -> Result<pb::GetTaskStateResponse, Error> {
        let seen = self.named_task(&request, &request.get_ref().task_id).await?;
        let task = Some(self.show_task(&seen).await?);
        let status_report = self.shown_report(&seen).await?;
        Ok(pb::GetTaskStateResponse { task, status_report })
    }

    async fn shown_report(&self, seen: &Seen) -> Result<Option<pb::StatusReport>, Error> {
        match (seen.sight, &seen.task.status_report) {
            (Sight::Full, Some(digest)) => {
                Ok(Some(self.document(&seen.task.id, digest, "StatusReport").await?))
            }
            _ => Ok(None),
        }
    }

    async fn resume_set(
        &self,
        request: Request<pb::GetResumeSetRequest>,
    ) -> Result<pb::GetResumeSetResponse, Error> {
        let seen = self.named_task(&request, &request.get_ref().task_id).await?;
        if seen.sight != Sight::Full {
            return Err(Refusal::new(
                Reason::NotOwner,
                "the resume set is for the owner; the receiver of an offer claims it instead",
            )
            .with("taskId", &seen.task.id)
            .into());
        }
        let task = &seen.task;
        let stored = self.contract(task).await?;
        let checkpoint = match &task.checkpoint {
            Some(c) => Some(self.document(&task.id, &c.digest, "Checkpoint").await?),
            None => None,
        };
        let received_packet = match &task.handoff {
            Some(h) if h.received.as_ref().is_some_and(|r| r.receiver == task.owner.principal) => {
                Some(self.packet(&task.id, &h.packet).await?.message.clone())
            }
            _ => None,
        };
        Ok(pb::GetResumeSetResponse {
            task: Some(self.show_task(&seen).await?),
            contract: Some(stored.contract.clone()),
            contract_document: Some(stored.document.clone()),
            checkpoint,
            received_packet,
            status_report: self.shown_report(&seen).await?,
        })
    }

    async fn tasks(
        &self,
        request: Request<pb::ListTasksRequest>,
    ) -> Result<pb::ListTasksResponse, Error> {
        let caller = self.caller(&request).await?;
        let message = request.into_inner();
        let mut violations = Violations::default();
        let size = page_size(message.page_size, &mut violations);
        let filter = violations.require("filter", pb::TaskFilter::try_from(message.filter).ok());
        let filter = violations.finish(filter)?;
        let token = page_token(&message.page_token)?;
        let (reader, namespace) = (self.broker.reader(), &caller.namespace);
        let me = &caller.party.principal;
        let page = match filter {
            pb::TaskFilter::Unspecified | pb::TaskFilter::OwnedOpen => {
                reader.owned(namespace, me, token, size).await?
            }
            pb::TaskFilter::Created => reader.created(namespace, me, token, size).await?,
            pb::TaskFilter::All if caller.operator => {
                reader.all_tasks(namespace, token, size).await?
            }
            pb::TaskFilter::All => {
                return Err(Refusal::new(
                    Reason::NotOperator,
                    "only an operator lists all tasks; list those that you own or created",
                )
                .into());
            }
        };
        let mut tasks = Vec::new();
        for task in page.items {
            let sight = crate::core::party::sight(&task, &caller);
            if sight != Sight::None {
                let seen = Seen { caller: caller.clone(), task, sight };
                tasks.push(self.show_task(&seen).await?);
            }
        }
        Ok(pb::ListTasksResponse { tasks, next_page_token: next_token(page.next) })
    }

    async fn checkpoint(
        &self,
        request: Request<pb::PutCheckpointRequest>,
    ) -> Result<pb::PutCheckpointResponse, Error> {
        let seen = self.named_task(&request, &request.get_ref().task_id).await?;
        let message = request.into_inner();
        let mut violations = Violations::default();
        let id = guard::request_id(&message.request_id, &mut violations);
        let guarded = guard::guard(message.guard.as_ref(), &mut violations);
        let given = violations.require("checkpoint", message.checkpoint.as_ref());
        let parsed = guarded.zip(given).and_then(|(guarded, given)| {
            let version = &seen.task.contract_version;
            work::checkpoint(given, &seen.task.id, version, guarded, &mut violations)
        });
        let (id, (command, whole, sealed)) = violations.finish(id.zip(parsed))?;
        let findings = check_checkpoint(&whole);
        if !findings.is_empty() {
            return Err(contract_refusal(&findings).into());
        }
        let digest = sealed.digest;
        let at = (seen.caller, id, seen.task.id.clone());
        let command = Command::PutCheckpoint(command);
        let done = self.command(content(&message), at, command, vec![sealed]).await?;
        let checkpoint = self.fixed(&seen.task.id, &whole.id, digest, &done).await?;
        Ok(pb::PutCheckpointResponse { outcome: outcome(&done), checkpoint: Some(checkpoint) })
    }

    /// The identity of a checkpoint that was just fixed, or long ago by the same request.
    async fn fixed(
        &self,
        task: &TaskId,
        id: &str,
        digest: crate::core::digest::Digest,
        done: &Outcome,
    ) -> Result<pb::CheckpointRef, Error> {
        let page = self.broker.reader().events(task, done.sequence.saturating_sub(1), 1).await?;
        let event = page.events.first().map(|(_, bytes)| crate::wire::record::decode_event(bytes));
        let version = match event {
            Some(Ok(event)) => match event.detail {
                Some(pb::event::Detail::CheckpointPut(put)) => {
                    put.checkpoint.map_or(0, |c| c.version)
                }
                _ => 0,
            },
            _ => 0,
        };
        Ok(pb::CheckpointRef {
            id: id.to_owned(),
            version,
            fixed_at: Some(time::render_timestamp(done.decided_at)),
            digest: digest.to_string(),
        })
    }

    async fn report(
        &self,
        request: Request<pb::ReportStatusRequest>,
    ) -> Result<pb::ReportStatusResponse, Error> {
        let seen = self.named_task(&request, &request.get_ref().task_id).await?;
        let message = request.into_inner();
        let mut violations = Violations::default();
        let id = guard::request_id(&message.request_id, &mut violations);
        let guarded = guard::guard(message.guard.as_ref(), &mut violations);
        let parsed =
            guarded.and_then(|g| work::status(message.report.as_ref(), g, &mut violations));
        let (id, (command, sealed)) = violations.finish(id.zip(parsed))?;
        let at = (seen.caller, id, seen.task.id.clone());
        let command = Command::ReportStatus(command);
        let done = self.command(content(&message), at, command, vec![sealed]).await?;
        Ok(pb::ReportStatusResponse { outcome: outcome(&done) })
    }

    async fn artifact(
        &self,
        request: Request<pb::PutArtifactRequest>,
    ) -> Result<pb::PutArtifactResponse, Error> {
        let seen = self.named_task(&request, &request.get_ref().task_id).await?;
        let message = request.into_inner();
        let mut violations = Violations::default();
        let id = guard::request_id(&message.request_id, &mut violations);
        let guarded = guard::guard(message.guard.as_ref(), &mut violations);
        work::check_inline(&message.parts)?;
        let parsed = guarded.and_then(|g| work::artifact(&message, g, &mut violations));
        let (id, (command, sealed)) = violations.finish(id.zip(parsed))?;
        let descriptor = pb::ArtifactDescriptor {
            digest: Some(command.digest.to_string()),
            size_bytes: command.size_bytes,
            digest_algorithm: "sha-256".to_owned(),
            digested: command.digested.clone(),
            carrier: pb::ArtifactCarrier::Artifact.into(),
            ..message.descriptor.clone().unwrap_or_default()
        };
        let at = (seen.caller, id, seen.task.id.clone());
        let command = Command::PutArtifact(Box::new(command));
        let done =
            self.command(content(&message), at, command, sealed.into_iter().collect()).await?;
        Ok(pb::PutArtifactResponse { outcome: outcome(&done), descriptor: Some(descriptor) })
    }

    /// The task that a request names, if the caller may see it.
    pub(super) async fn named_task<T>(
        &self,
        request: &Request<T>,
        text: &str,
    ) -> Result<Seen, Error> {
        let caller: Caller = self.caller(request).await?;
        let mut violations = Violations::default();
        let id = guard::task_id(text, "task_id", &mut violations);
        let id = violations.finish(id)?;
        self.seen(&caller, &id).await
    }
}
