//! The agent registry: what an agent says of itself.
//!
//! Invariants: an agent's registration is its own; an update names the revision that it was decided
//! on.

use crate::core::Outcome;
use crate::core::digest::{Epoch, Revision};
use crate::core::id::PrincipalId;
use crate::core::refusal::{Reason, Refusal};
use crate::store::key;
use crate::wire::agent::{StoredAgent, decode_agent, encode_agent};

use super::group::{Group, replay};
use super::loaded::dedup_key;
use super::{Error, Request};

/// Answers that an agent's record remembers.
const REMEMBERED_MAX: usize = 16;

/// A change of the registry. The body is an encoded registration without revision and times.
#[derive(Clone, Debug)]
pub enum AgentChange {
    /// Register the caller.
    Register {
        /// The registration.
        body: Vec<u8>,
    },
    /// Replace the caller's registration.
    Update {
        /// The revision that it was decided on.
        expected: Revision,
        /// The registration.
        body: Vec<u8>,
    },
    /// Remove a registration.
    Remove {
        /// Whose.
        agent: PrincipalId,
    },
}

impl AgentChange {
    fn rpc(&self) -> &'static str {
        match self {
            Self::Register { .. } => "RegisterAgent",
            Self::Update { .. } => "UpdateAgent",
            Self::Remove { .. } => "RemoveAgent",
        }
    }
}

impl Group<'_> {
    /// Carries out a change of the registry.
    pub(super) fn agent(
        &mut self,
        request: &Request,
        change: &AgentChange,
    ) -> Result<Outcome, Error> {
        let caller = &request.caller.party.principal;
        let agent = match change {
            AgentChange::Remove { agent } => agent,
            AgentChange::Register { .. } | AgentChange::Update { .. } => caller,
        };
        let at = key::agent(&request.caller.namespace, agent);
        let damaged = |e: crate::wire::StoredError| Error::Damaged(e.to_string());
        let mut stored = match self.value(&at)? {
            Some(bytes) => decode_agent(&bytes).map_err(damaged)?,
            None => StoredAgent::default(),
        };
        let remembered_as = dedup_key(request, change.rpc());
        if let Some(entry) = stored.remembered(&remembered_as) {
            return replay(entry, request);
        }
        judge(&mut stored, request, change, agent, self.ground().now)?;
        let outcome = Outcome {
            task: None,
            revision: Revision::new(stored.revision()),
            epoch: Epoch::new(0),
            sequence: 0,
            handoff: None,
            decided_at: self.ground().now,
            lease_until: None,
            replayed: false,
        };
        stored.remember(remembered_as, request.digest, outcome.clone(), REMEMBERED_MAX);
        self.put(at, encode_agent(&stored));
        Ok(outcome)
    }
}

fn judge(
    stored: &mut StoredAgent,
    request: &Request,
    change: &AgentChange,
    agent: &PrincipalId,
    now: crate::core::time::Timestamp,
) -> Result<(), Error> {
    let damaged = |e: crate::wire::StoredError| Error::Internal(e.to_string());
    match change {
        AgentChange::Register { body } => {
            if stored.is_registered() {
                return Err(Refusal::new(
                    Reason::AgentExists,
                    format!("{agent} is registered already; update it, naming its revision"),
                )
                .with("agentId", agent)
                .with("revision", stored.revision())
                .into());
            }
            stored.register(body, now).map_err(damaged)?;
        }
        AgentChange::Update { expected, body } => {
            if !stored.is_registered() {
                return Err(unknown(agent).into());
            }
            if stored.revision() != expected.get() {
                return Err(Refusal::new(
                    Reason::StateConflict,
                    format!(
                        "{agent} is at revision {}, not {expected}; read it again and decide again",
                        stored.revision()
                    ),
                )
                .with("agentId", agent)
                .with("revision", stored.revision())
                .into());
            }
            stored.register(body, now).map_err(damaged)?;
        }
        AgentChange::Remove { .. } => {
            let own = *agent == request.caller.party.principal;
            if !stored.is_registered() {
                return Err(unknown(agent).into());
            }
            if !own && !request.caller.operator {
                return Err(Refusal::new(
                    Reason::NotOperator,
                    format!("only {agent} itself or an operator removes its registration"),
                )
                .with("agentId", agent)
                .into());
            }
            stored.remove();
        }
    }
    Ok(())
}

/// The answer for an agent that is not registered.
#[must_use]
pub(super) fn unknown(agent: &PrincipalId) -> Refusal {
    Refusal::new(Reason::NotFound, format!("agent {agent} is not registered; check the id"))
        .with("agentId", agent)
}
