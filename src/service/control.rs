//! Stopping a task: what `TaskService` does for originators and operators.

use tonic::Request;

use crate::broker::Error;
use crate::core::digest::Digest;
use crate::core::id::RequestId;
use crate::core::{Command, Outcome, control};
use crate::proto::baton::v1 as pb;
use crate::wire::document::{Sealed, note};
use crate::wire::guard;
use crate::wire::violations::Violations;

use super::{Desk, Seen, content, outcome, unsealed};

impl Desk {
    pub(super) async fn cancel(
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
        let done = self.command(content(&message), at, command, said.into_iter().collect()).await?;
        Ok(pb::CancelTaskResponse { outcome: outcome(&done) })
    }

    pub(super) async fn freeze(
        &self,
        request: Request<pb::FreezeTaskRequest>,
    ) -> Result<Outcome, Error> {
        let seen = self.named_task(&request, &request.get_ref().task_id).await?;
        let message = request.into_inner();
        let reasoned = reasoned(&message.request_id, &message.reason)?;
        self.flagged(seen, content(&message), reasoned, Command::Freeze).await
    }

    pub(super) async fn lift(
        &self,
        request: Request<pb::LiftFreezeRequest>,
    ) -> Result<Outcome, Error> {
        let seen = self.named_task(&request, &request.get_ref().task_id).await?;
        let message = request.into_inner();
        let reasoned = reasoned(&message.request_id, &message.reason)?;
        self.flagged(seen, content(&message), reasoned, Command::Lift).await
    }

    async fn flagged(
        &self,
        seen: Seen,
        content: Digest,
        (id, said): (RequestId, Sealed),
        command: impl FnOnce(control::Freeze) -> Command,
    ) -> Result<Outcome, Error> {
        let command = command(control::Freeze { note: said.digest });
        let at = (seen.caller, id, seen.task.id.clone());
        self.command(content, at, command, vec![said]).await
    }
}

/// A request with a required reason.
pub(super) fn reasoned(request_id: &str, reason: &str) -> Result<(RequestId, Sealed), Error> {
    let mut violations = Violations::default();
    let said = said(request_id, reason, &mut violations);
    Ok(violations.finish(said)?)
}

/// The same for a call with more to find fault with.
pub(super) fn said(
    request_id: &str,
    reason: &str,
    violations: &mut Violations,
) -> Option<(RequestId, Sealed)> {
    let id = guard::request_id(request_id, violations);
    let text = guard::text(reason, "reason", violations);
    let said = text.and_then(|text| violations.take("reason", note(&text)));
    id.zip(said)
}
