//! `TaskService`: the state of tasks.

use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::broker::{Change, Error};
use crate::core::contract::{check_checkpoint, check_materialised};
use crate::core::event::{ReadbackResult, TaskCreated};
use crate::core::id::{ArtifactId, RequestId, TaskId, VersionLabel};
use crate::core::party::Sight;
use crate::core::refusal::{Reason, Refusal};
use crate::core::verify::{DecideAcceptance, RecordReadback};
use crate::core::{Caller, Command, Outcome, control};
use crate::proto::baton::v1 as pb;
use crate::proto::baton::v1::task_service_server::TaskService;
use crate::wire::axis::readback_result_from_pb;
use crate::wire::document::{Sealed, note, seal};
use crate::wire::violations::Violations;
use crate::wire::work::{self, contract_refusal};
use crate::wire::{canon, guard, time};

use super::offer::fresh_task;
use super::{
    Desk, Seen, answer, content, kept, next_token, outcome, page_size, page_token, refused,
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
        let request = crate::broker::Request { caller, id, digest: content(&message)? };
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
            "the store keeps nothing across a restart and this work needs that; use a durable store",
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
        let contract = self.contract(task).await?.contract.unwrap_or_default();
        let document = crate::core::contract::contract_document(&contract);
        let checkpoint = match &task.checkpoint {
            Some(c) => Some(self.document(&task.id, &c.digest, "Checkpoint").await?),
            None => None,
        };
        let received_packet = match &task.handoff {
            Some(h) if h.received.as_ref().is_some_and(|r| r.receiver == task.owner.principal) => {
                Some(self.document(&task.id, &h.packet, "HandoffPacket").await?)
            }
            _ => None,
        };
        Ok(pb::GetResumeSetResponse {
            task: Some(self.show_task(&seen).await?),
            contract: Some(contract),
            contract_document: Some(document),
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
        let done = self.command(&message, at, command, vec![sealed]).await?;
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
        let done = self.command(&message, at, command, vec![sealed]).await?;
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
        let done = self.command(&message, at, command, sealed.into_iter().collect()).await?;
        Ok(pb::PutArtifactResponse { outcome: outcome(&done), descriptor: Some(descriptor) })
    }

    async fn read_artifact(
        &self,
        request: Request<pb::GetArtifactRequest>,
    ) -> Result<pb::GetArtifactResponse, Error> {
        let seen = self.named_task(&request, &request.get_ref().task_id).await?;
        let mut violations = Violations::default();
        let id = ArtifactId::parse(&request.get_ref().artifact_id);
        let id = violations.take("artifact_id", id);
        let id = violations.finish(id)?;
        let unknown = || {
            refused(
                Refusal::new(Reason::NotFound, format!("artifact {id} is not known to you"))
                    .with("artifactId", &id),
            )
        };
        // A receiver reads artifacts where the packet says they are, once it has fetched and hashed them
        // itself; before its receipt the broker shows it nothing but the packet.
        let artifact = match seen.sight {
            Sight::Full => seen.task.artifacts.get(&id).ok_or_else(unknown)?,
            Sight::Receiver => self.offered_artifact(&seen, &id).ok_or_else(unknown)?,
            Sight::PastOwner { .. } | Sight::None => return Err(unknown()),
        };
        let parts = match &artifact.content {
            Some(digest) => {
                let kept = self
                    .document::<crate::proto::baton::store::v1::ArtifactContent>(
                        &seen.task.id,
                        digest,
                        "ArtifactContent",
                    )
                    .await?;
                kept.parts
            }
            None => Vec::new(),
        };
        let mut record = crate::wire::task::render_artifact(artifact);
        if seen.sight == Sight::Receiver {
            withhold(&mut record);
        }
        Ok(pb::GetArtifactResponse { artifact: Some(record), parts })
    }

    /// The content of an offered artifact is what its receiver hashes, so a claimant may fetch it.
    fn offered_artifact<'s>(
        &self,
        seen: &'s Seen,
        id: &ArtifactId,
    ) -> Option<&'s crate::core::task::Artifact> {
        let (now, started) = self.broker.times();
        let open = seen.task.open_handoff()?;
        let until = open.lease_until(self.broker.limits(), started)?;
        let claim = open.claim.as_ref()?;
        let holds = claim.claimant.principal == seen.caller.party.principal && now < until;
        seen.task.artifacts.get(id).filter(|_| holds)
    }

    async fn readback(
        &self,
        request: Request<pb::RecordReadbackRequest>,
    ) -> Result<pb::RecordReadbackResponse, Error> {
        let seen = self.named_task(&request, &request.get_ref().task_id).await?;
        let message = request.into_inner();
        let mut violations = Violations::default();
        let id = guard::request_id(&message.request_id, &mut violations);
        let parsed = readback_command(&message, &seen, &mut violations);
        let (id, (command, sealed)) = violations.finish(id.zip(parsed))?;
        let at = (seen.caller, id, seen.task.id.clone());
        let command = Command::RecordReadback(command);
        let done = self.command(&message, at, command, vec![sealed]).await?;
        Ok(pb::RecordReadbackResponse { outcome: outcome(&done) })
    }

    async fn acceptance(
        &self,
        request: Request<pb::DecideAcceptanceRequest>,
    ) -> Result<pb::DecideAcceptanceResponse, Error> {
        let seen = self.named_task(&request, &request.get_ref().task_id).await?;
        let message = request.into_inner();
        let mut violations = Violations::default();
        let id = guard::request_id(&message.request_id, &mut violations);
        let revision =
            guard::counter(message.expected_revision, "expected_revision", &mut violations);
        let decision = violations.require("decision", message.decision.as_ref());
        let parsed = decision.and_then(|d| acceptance_command(d, revision?, &mut violations));
        let (id, (command, sealed)) = violations.finish(id.zip(parsed))?;
        let at = (seen.caller, id, seen.task.id.clone());
        let command = Command::DecideAcceptance(command);
        let done = self.command(&message, at, command, vec![sealed]).await?;
        Ok(pb::DecideAcceptanceResponse { outcome: outcome(&done) })
    }

    async fn cancel(
        &self,
        request: Request<pb::CancelTaskRequest>,
    ) -> Result<pb::CancelTaskResponse, Error> {
        let seen = self.named_task(&request, &request.get_ref().task_id).await?;
        let message = request.into_inner();
        let mut violations = Violations::default();
        let id = guard::request_id(&message.request_id, &mut violations);
        guard::optional_text(&message.reason, "reason", &mut violations);
        let id = violations.finish(id)?;
        let said = if message.reason.is_empty() {
            None
        } else {
            Some(note(&message.reason).map_err(|e| unsealed("reason", &e))?)
        };
        let command = Command::Cancel(control::Cancel { note: said.as_ref().map(|s| s.digest) });
        let at = (seen.caller, id, seen.task.id.clone());
        let done = self.command(&message, at, command, said.into_iter().collect()).await?;
        Ok(pb::CancelTaskResponse { outcome: outcome(&done) })
    }

    async fn freeze(&self, request: Request<pb::FreezeTaskRequest>) -> Result<Outcome, Error> {
        let seen = self.named_task(&request, &request.get_ref().task_id).await?;
        let message = request.into_inner();
        let (id, said) = reasoned(&message.request_id, &message.reason)?;
        let command = Command::Freeze(control::Freeze { note: said.digest });
        self.command(&message, (seen.caller, id, seen.task.id.clone()), command, vec![said]).await
    }

    async fn lift(&self, request: Request<pb::LiftFreezeRequest>) -> Result<Outcome, Error> {
        let seen = self.named_task(&request, &request.get_ref().task_id).await?;
        let message = request.into_inner();
        let (id, said) = reasoned(&message.request_id, &message.reason)?;
        let command = Command::Lift(control::Freeze { note: said.digest });
        self.command(&message, (seen.caller, id, seen.task.id.clone()), command, vec![said]).await
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

fn withhold(record: &mut pb::ArtifactRecord) {
    if let Some(descriptor) = &mut record.descriptor {
        descriptor.digest = None;
    }
    record.content.clear();
}

fn readback_command(
    message: &pb::RecordReadbackRequest,
    seen: &Seen,
    violations: &mut Violations,
) -> Option<(RecordReadback, Sealed)> {
    let artifact = violations.take("artifact_id", ArtifactId::parse(&message.artifact_id));
    let version = violations.take("version", VersionLabel::parse(&message.version));
    let digest = guard::digest(&message.artifact_digest, "artifact_digest", violations);
    let evidence = violations.require("evidence", message.evidence.as_ref())?;
    guard::text(&evidence.method, "evidence.method", violations);
    let result = violations.take("evidence.result", readback_result_from_pb(evidence.result));
    violations.require("evidence.observed_at", evidence.observed_at.as_ref());
    if result == Some(ReadbackResult::Pass) {
        guard::text(&evidence.observed, "evidence.observed", violations);
    }
    let me = seen.caller.party.principal.as_str();
    if !evidence.verifier.is_empty() && evidence.verifier != me {
        violations.add("evidence.verifier", format!("is not the caller {me}; leave it out"));
    }
    let whole = pb::ReadbackEvidence { verifier: me.to_owned(), ..evidence.clone() };
    let sealed = violations.take("evidence", seal(&whole))?;
    let command = RecordReadback {
        artifact: artifact?,
        version: version?,
        digest: digest?,
        result: result?,
        observed: crate::core::digest::Digest::parse(&evidence.observed).ok(),
        evidence: sealed.digest,
    };
    Some((command, sealed))
}

fn acceptance_command(
    decision: &pb::AcceptanceDecision,
    revision: u64,
    violations: &mut Violations,
) -> Option<(DecideAcceptance, Sealed)> {
    let accept = match pb::BusinessAcceptanceStatus::try_from(decision.verdict) {
        Ok(pb::BusinessAcceptanceStatus::Accepted) => Some(true),
        Ok(pb::BusinessAcceptanceStatus::Rejected) => Some(false),
        _ => {
            violations.add("decision.verdict", "send ACCEPTED or REJECTED");
            None
        }
    };
    guard::optional_text(&decision.comment, "decision.comment", violations);
    guard::optional_text(
        &decision.acceptance_contract_ref,
        "decision.acceptance_contract_ref",
        violations,
    );
    let sealed = violations.take("decision", seal(decision))?;
    let command = DecideAcceptance {
        revision: crate::core::digest::Revision::new(revision),
        accept: accept?,
        close: decision.close,
        decision: sealed.digest,
    };
    Some((command, sealed))
}

/// A request with a required reason.
pub(super) fn reasoned(request_id: &str, reason: &str) -> Result<(RequestId, Sealed), Error> {
    let mut violations = Violations::default();
    let id = guard::request_id(request_id, &mut violations);
    let text = guard::text(reason, "reason", &mut violations);
    let said = text.and_then(|text| violations.take("reason", note(&text)));
    Ok(violations.finish(id.zip(said))?)
}

fn unsealed(field: &str, error: &canon::CanonError) -> Error {
    let mut violations = Violations::default();
    violations.add(field, error.to_string());
    refused(violations.into_refusal())
}
