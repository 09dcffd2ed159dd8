//! The gRPC services: one file per service, one short method per call.
//!
//! What lives here: authentication, the order of the checks before a proposal, rendering of
//! answers, status codes. What does not: decisions (`core`), the store (ask the broker).
//! Invariants: visibility is asked before anything about a task is said; a caller that is no party
//! gets the answer of an unknown id; a violation is found before anything is proposed.

pub mod agent;
pub mod auth;
mod control;
pub mod handoff;
mod known;
mod offer;
mod show;
pub mod status;
pub mod task;
mod verify;
mod watch;

use std::sync::Arc;

use prost::Message;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Status};

use crate::broker::{Broker, Change, Document, Error};
use crate::core::digest::Digest;
use crate::core::handoff::Handoff;
use crate::core::id::{HandoffId, RequestId, TaskId};
use crate::core::party::{Sight, no_such_handoff, no_such_task, sight};
use crate::core::refusal::Refusal;
use crate::core::task::Task;
use crate::core::{Caller, Command, Outcome};
use crate::proto::baton::v1 as pb;
use crate::wire::canon;
use crate::wire::document::Sealed;
use crate::wire::record::decode;
use crate::wire::violations::Violations;

/// What every service works with.
#[derive(Clone)]
pub struct Desk {
    broker: Broker,
    streams: Arc<tokio::sync::Semaphore>,
    stop: CancellationToken,
    known: Arc<known::Known>,
}

/// A task that the caller may see, and how much of it.
struct Seen {
    caller: Caller,
    task: Arc<Task>,
    sight: Sight,
}

impl Desk {
    /// A desk in front of `broker`, with at most `streams` open streams, which end at `stop`.
    #[must_use]
    pub fn new(broker: Broker, streams: usize, stop: CancellationToken) -> Self {
        let streams = Arc::new(tokio::sync::Semaphore::new(streams));
        Self { broker, streams, stop, known: Arc::new(known::Known::new()) }
    }

    /// The authenticated caller. Without authentication, its capabilities are those that it
    /// registered.
    async fn caller<T>(&self, request: &Request<T>) -> Result<Caller, Error> {
        let caller = request.extensions().get::<Caller>().cloned();
        let mut caller = caller
            .ok_or_else(|| Error::Internal("a call passed without authentication".to_owned()))?;
        if self.broker.directory().is_open() {
            let agent =
                self.broker.reader().agent(&caller.namespace, &caller.party.principal).await?;
            let declared = agent.as_ref().and_then(|a| a.agent());
            caller.capabilities = declared
                .map(|a| a.capabilities.iter().filter_map(|c| parse_capability(c)).collect())
                .unwrap_or_default();
        }
        Ok(caller)
    }

    /// The task, if the caller may see anything of it.
    async fn seen(&self, caller: &Caller, id: &TaskId) -> Result<Seen, Error> {
        let found = self.broker.reader().task(&caller.namespace, id).await?;
        let task = found.ok_or_else(|| no_such_task(id))?;
        match sight(&task, caller) {
            Sight::None => Err(no_such_task(id).into()),
            sight => Ok(Seen { caller: caller.clone(), task, sight }),
        }
    }

    /// The same task after all that is under way. A claim is answered before its sync, so its
    /// claimant may ask for what the claim gives it before reads show the claim. Who was asked by
    /// `handoff` sees that also when somebody else has received it meanwhile.
    async fn settled(&self, seen: Seen, handoff: Option<&Handoff>) -> Result<Seen, Error> {
        let (caller, id) = (seen.caller, &seen.task.id);
        let hidden = || match handoff {
            Some(handoff) => Error::from(no_such_handoff(&handoff.id)),
            None => Error::from(no_such_task(id)),
        };
        let found = self.broker.reader().settled_task(&caller.namespace, id).await?;
        let task = found.ok_or_else(hidden)?;
        match sight(&task, &caller) {
            Sight::None if handoff.is_some_and(|h| h.was_offered_to(&caller)) => {
                Ok(Seen { caller, task, sight: Sight::Receiver })
            }
            Sight::None => Err(hidden()),
            sight => Ok(Seen { caller, task, sight }),
        }
    }

    /// The handoff and its task, if the caller may see anything of it: as its receiver, or as a
    /// party of the task that sees that far.
    async fn seen_handoff(
        &self,
        caller: &Caller,
        id: &HandoffId,
    ) -> Result<(Seen, Handoff), Error> {
        let hidden = || Error::from(no_such_handoff(id));
        let task = self.broker.reader().task_of(id).await?.ok_or_else(hidden)?;
        let found = self.broker.reader().task(&caller.namespace, &task).await?;
        let task = found.ok_or_else(hidden)?;
        let latest = task.handoff.as_ref().filter(|h| h.id == *id).cloned();
        let handoff = match latest {
            Some(handoff) => handoff,
            None => self.broker.reader().handoff(id).await?.ok_or_else(hidden)?.1,
        };
        let asked = handoff.was_offered_to(caller);
        let (sight, shown) = match sight(&task, caller) {
            Sight::Full => (Sight::Full, true),
            Sight::PastOwner { until_sequence } => {
                let own = handoff.from.principal == caller.party.principal;
                let before = handoff.received.as_ref().map(|r| r.sequence);
                let shown = own || before.is_some_and(|at| at <= until_sequence) || asked;
                (Sight::PastOwner { until_sequence }, shown)
            }
            // Of an earlier offer, too, who was asked learns how it ended.
            Sight::Receiver | Sight::None => (Sight::Receiver, asked),
        };
        let seen = Seen { caller: caller.clone(), task, sight };
        if shown { Ok((seen, handoff)) } else { Err(hidden()) }
    }

    /// Proposes a command on a task.
    async fn command(
        &self,
        content: Digest,
        at: (Caller, RequestId, TaskId),
        command: Command,
        documents: Vec<Sealed>,
    ) -> Result<Outcome, Error> {
        let (caller, id, task) = at;
        let request = crate::broker::Request { caller, id, digest: content };
        let change = Change::Task { task, command };
        self.broker.propose(request, change, kept(documents)).await
    }

    /// A document of a task, decoded.
    async fn document<M: Message + Default>(
        &self,
        task: &TaskId,
        digest: &Digest,
        name: &'static str,
    ) -> Result<M, Error> {
        let bytes = self.broker.reader().document(task, digest).await?;
        let bytes = bytes.ok_or_else(|| {
            Error::Damaged(format!("document {digest} of task {task} is missing"))
        })?;
        decode::<M>(name, &bytes).map_err(|e| Error::Damaged(e.to_string()))
    }
}

/// The digest of a request's content: of its one encoded form, which leaves out what this broker
/// does not know. It tells a repeat from another request under the same id, and leaves the broker
/// only as that.
fn content<M: Message>(message: &M) -> Digest {
    Digest::of(&message.encode_to_vec())
}

fn kept(documents: Vec<Sealed>) -> Vec<Document> {
    documents.into_iter().map(|d| Document { digest: d.digest, bytes: d.bytes }).collect()
}

fn parse_capability(text: &str) -> Option<crate::core::id::Capability> {
    crate::core::id::Capability::parse(text).ok()
}

/// Maps the outcome of a call to its answer.
fn answer<T>(result: Result<T, Error>, request_id: &str) -> Result<tonic::Response<T>, Status> {
    result.map(tonic::Response::new).map_err(|error| status::status(&error, request_id))
}

/// A refusal, as an error of the broker.
fn refused(refusal: Refusal) -> Error {
    Error::from(refusal)
}

/// The outcome as a message.
fn outcome(outcome: &Outcome) -> Option<pb::Outcome> {
    Some(crate::wire::record::render_outcome(outcome))
}

/// The size of a page: 50 if none is asked for, 1 to 100 otherwise.
fn page_size(asked: i32, violations: &mut Violations) -> usize {
    match asked {
        0 => 50,
        1..=100 => usize::try_from(asked).unwrap_or(50),
        _ => {
            violations.add("page_size", format!("is {asked}; send 1 to 100, or 0 for 50"));
            50
        }
    }
}

/// A page token is the hexadecimal text of the last key.
fn page_token(token: &str) -> Result<Option<Vec<u8>>, Error> {
    let bad = || {
        Error::from(Refusal::new(
            crate::core::refusal::Reason::InvalidPageToken,
            "page_token is not one of this list; start again without it",
        ))
    };
    if token.is_empty() {
        return Ok(None);
    }
    if !token.len().is_multiple_of(2) || token.len() > 2048 {
        return Err(bad());
    }
    let digits = token.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        let digits = pair.iter().all(u8::is_ascii_hexdigit);
        let text = std::str::from_utf8(pair).ok().filter(|_| digits)?;
        u8::from_str_radix(text, 16).ok()
    };
    digits.map(byte).collect::<Option<Vec<u8>>>().map(Some).ok_or_else(bad)
}

fn next_token(next: Option<Vec<u8>>) -> String {
    next.map(|key| key.iter().map(|byte| format!("{byte:02x}")).collect()).unwrap_or_default()
}

/// A message that has no canonical form is a violation of its sender.
fn unsealed(field: &str, error: &canon::CanonError) -> Error {
    let mut violations = Violations::default();
    violations.add(field, error.to_string());
    refused(violations.into_refusal())
}
