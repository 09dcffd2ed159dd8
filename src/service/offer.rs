//! Offers as they come in: the packet is checked, finished and digested before anything is
//! proposed.
//!
//! Invariant: what needs no state is done here, off the committer; the committer only judges
//! whether the packet binds what the task holds.

use std::sync::Arc;

use crate::broker::Error;
use crate::core::Caller;
use crate::core::contract::check_offer;
use crate::core::digest::{Epoch, Revision};
use crate::core::handoff::Receiver;
use crate::core::id::{HandoffId, TaskId};
use crate::core::offer::Terms;
use crate::core::refusal::{Reason, Refusal};
use crate::core::scope::Scope;
use crate::core::task::{Party, Task};
use crate::core::time::Span;
use crate::proto::baton::v1 as pb;
use crate::wire::blind::Withheld;
use crate::wire::canon;
use crate::wire::document::Sealed;
use crate::wire::packet::{self, Filling, PacketFacts};
use crate::wire::stored_packet;
use crate::wire::time;
use crate::wire::violations::Violations;
use crate::wire::work::contract_refusal;

use super::known::Packet;
use super::{Desk, Seen};

/// Registered agents that are looked through for a capability, where there is no principals file.
const AGENTS_LOOKED_AT_MAX: usize = 1000;

/// How an offer is made, parsed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Options {
    ttl: Option<Span>,
    blind: Option<bool>,
    echo_allowed: bool,
}

impl Options {
    pub(super) fn parse(options: Option<&pb::OfferOptions>, violations: &mut Violations) -> Self {
        let Some(options) = options else { return Self::default() };
        let ttl = options.ttl.as_ref().and_then(|ttl| {
            let span = violations.take("options.ttl", time::parse_duration(ttl))?;
            if span <= Span::ZERO {
                violations.add("options.ttl", "is zero; send more, or leave it out");
            }
            Some(span)
        });
        let blind = match pb::BlindMode::try_from(options.blind) {
            Ok(pb::BlindMode::Unspecified) => None,
            Ok(pb::BlindMode::Blind) => Some(true),
            Ok(pb::BlindMode::Open) => Some(false),
            Err(_) => {
                violations.add("options.blind", format!("{} is no blind mode", options.blind));
                None
            }
        };
        Self { ttl, blind, echo_allowed: options.echo_allowed }
    }
}

/// An offer that is ready to be proposed.
pub(super) struct Prepared {
    pub(super) terms: Terms,
    pub(super) document: Sealed,
}

/// What an offer was decided on.
pub(super) struct DecidedOn {
    pub(super) epoch: Epoch,
    pub(super) revision: Revision,
    /// An offer on behalf may say UNKNOWN where a dead owner left nothing.
    pub(super) unknown_allowed: bool,
}

impl Desk {
    /// Checks, finishes and digests a packet.
    pub(super) async fn prepare(
        &self,
        seen: &Seen,
        mut whole: pb::HandoffPacket,
        facts: PacketFacts,
        options: Options,
        on: &DecidedOn,
    ) -> Result<Prepared, Error> {
        let task = &*seen.task;
        let stored = self.contract(task).await?;
        let checkpoint = self.named_checkpoint(task, &facts).await?;
        let differing = packet::differing_copies(&whole, &stored.document, checkpoint.as_deref());
        if !differing.is_empty() {
            return Err(Refusal::new(
                Reason::ReferenceCopyMismatch,
                "the packet repeats stored records differently; copy them from the resume set",
            )
            .with("taskId", &task.id)
            .with_violations(differing)
            .into());
        }
        let handoff = fresh_handoff()?;
        packet::fill(
            &mut whole,
            &Filling {
                handoff: &handoff,
                task,
                epoch: on.epoch,
                revision: on.revision,
                contract: &stored.document,
                contract_canonical: &stored.canonical,
            },
        );
        let findings = check_offer(&stored.contract, &whole, &stored.shape, on.unknown_allowed);
        if !findings.is_empty() {
            return Err(contract_refusal(&findings).into());
        }
        let withheld = Withheld::new(facts.withheld());
        let terms_leak =
            withheld.is_in_bytes(&stored.canonical) || facts.repeated(|text| withheld.is_in(text));
        let digest = canon::digest(&whole).map_err(|e| invalid("packet", &e))?;
        let repeated = checkpoint.is_some();
        let left = stored_packet::leave_out(&mut whole, repeated);
        let bytes = stored_packet::encode(&whole, task.contract_document, repeated);
        stored_packet::put_back(&mut whole, left, repeated);
        let sealed = Sealed { digest, bytes };
        let eligible = self.eligible(&seen.caller, task, &facts.receiver).await?;
        let restores = self.restored(task, &facts).await?;
        let terms = Terms {
            handoff,
            receiver: facts.receiver.clone(),
            eligible,
            packet: sealed.digest,
            contract: task.contract_digest,
            checkpoint: facts.checkpoint.as_ref().map(|(_, digest)| *digest),
            hashable: facts.hashable(),
            scope: facts.scope.clone(),
            terms_leak,
            ttl: options.ttl,
            blind: options.blind,
            echo_allowed: options.echo_allowed,
            restores,
        };
        let known = Packet { message: whole, facts };
        self.known.keep_packet(&task.id, sealed.digest, known);
        Ok(Prepared { terms, document: sealed })
    }

    /// The checkpoint document that the packet names. Comparing with it, not with the latest one,
    /// keeps a repeat of the call from looking wrong after the task has moved.
    async fn named_checkpoint(
        &self,
        task: &Task,
        facts: &PacketFacts,
    ) -> Result<Option<Arc<pb::Checkpoint>>, Error> {
        let Some((id, digest)) = &facts.checkpoint else { return Ok(None) };
        match self.checkpoint_of(&task.id, digest).await? {
            Some(checkpoint) if checkpoint.id == id.as_str() => Ok(Some(checkpoint)),
            _ => Err(Refusal::new(
                Reason::CheckpointRequired,
                format!("task {} has no checkpoint {id} with digest {digest}; put one", task.id),
            )
            .with("taskId", &task.id)
            .into()),
        }
    }

    /// What the receiver held itself under the earlier handoff that the packet restores.
    async fn restored(&self, task: &Task, facts: &PacketFacts) -> Result<Option<Scope>, Error> {
        let Some(id) = &facts.restores else { return Ok(None) };
        let unknown = || {
            Error::from(
                Refusal::new(
                    Reason::ScopeExceeded,
                    format!(
                        "handoff {id} gave {} no scope of this task, so none is restored; leave \
                         restores_handoff_id out",
                        facts.receiver
                    ),
                )
                .with("handoffId", id),
            )
        };
        let (of, handoff) = self.broker.reader().handoff(id).await?.ok_or_else(unknown)?;
        let received = handoff.received.as_ref().ok_or_else(unknown)?;
        let same = facts.receiver == Receiver::Principal(received.receiver.clone());
        if of != task.id || !same {
            return Err(unknown());
        }
        let earlier = self.packet(&task.id, &handoff.packet).await?;
        Ok(Some(earlier.facts.scope.clone()))
    }

    /// Everybody who may receive an offer, with accounts. Without authentication accounts mean
    /// nothing, so that an offer crosses no boundary unless the contract says so.
    pub(super) async fn eligible(
        &self,
        caller: &Caller,
        task: &Task,
        receiver: &Receiver,
    ) -> Result<Vec<Party>, Error> {
        let directory = self.broker.directory();
        if !directory.is_open() {
            return Ok(directory.eligible(&caller.namespace, receiver));
        }
        let reader = self.broker.reader();
        let account = &task.owner.account;
        let party = |id: &str| {
            let principal = crate::core::id::PrincipalId::parse(id).ok()?;
            Some(Party { principal, account: account.clone() })
        };
        match receiver {
            Receiver::Principal(id) => {
                let agent = reader.agent(&caller.namespace, id).await?;
                Ok(agent.and_then(|_| party(id.as_str())).into_iter().collect())
            }
            Receiver::Capability(capability) => {
                let page = reader.agents(&caller.namespace, None, AGENTS_LOOKED_AT_MAX).await?;
                let agents = page.items.iter().filter_map(|stored| stored.agent());
                Ok(agents
                    .filter(|a| a.capabilities.iter().any(|c| c == capability.as_str()))
                    .filter_map(|a| party(&a.agent_id))
                    .collect())
            }
        }
    }
}

/// A new handoff id.
pub(super) fn fresh_handoff() -> Result<HandoffId, Error> {
    HandoffId::parse(&uuid::Uuid::now_v7().to_string()).map_err(internal)
}

/// A new task id.
pub(super) fn fresh_task() -> Result<TaskId, Error> {
    TaskId::parse(&uuid::Uuid::now_v7().to_string()).map_err(internal)
}

fn internal(error: impl std::fmt::Display) -> Error {
    Error::Internal(error.to_string())
}

fn invalid(field: &str, error: &impl ToString) -> Error {
    let mut violations = Violations::default();
    violations.add(field, error.to_string());
    violations.into_refusal().into()
}
