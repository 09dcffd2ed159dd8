//! Reading artifacts, and verifying them: what `TaskService` does for receivers and verifiers.

use tonic::Request;

use crate::broker::Error;
use crate::core::Command;
use crate::core::event::ReadbackResult;
use crate::core::id::{ArtifactId, VersionLabel};
use crate::core::party::Sight;
use crate::core::refusal::{Reason, Refusal};
use crate::core::verify::{DecideAcceptance, RecordReadback};
use crate::proto::baton::v1 as pb;
use crate::wire::axis::readback_result_from_pb;
use crate::wire::document::{Sealed, seal};
use crate::wire::guard;
use crate::wire::violations::Violations;

use super::{Desk, Seen, content, outcome, refused};

impl Desk {
    pub(super) async fn read_artifact(
        &self,
        request: Request<pb::GetArtifactRequest>,
    ) -> Result<pb::GetArtifactResponse, Error> {
        let mut seen = self.named_task(&request, &request.get_ref().task_id).await?;
        if seen.sight == Sight::Receiver {
            seen = self.settled(seen, None).await?;
        }
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
        // A receiver reads artifacts where the packet says they are, once it has fetched and hashed
        // them itself; before its receipt the broker shows it nothing but the packet.
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
            if let Some(open) = seen.task.open_handoff() {
                record = self.masked(&seen.task, open, record).await?;
            }
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

    pub(super) async fn readback(
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
        let done = self.command(content(&message), at, command, vec![sealed]).await?;
        Ok(pb::RecordReadbackResponse { outcome: outcome(&done) })
    }

    pub(super) async fn acceptance(
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
        let done = self.command(content(&message), at, command, vec![sealed]).await?;
        Ok(pb::DecideAcceptanceResponse { outcome: outcome(&done) })
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
