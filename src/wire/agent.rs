//! The stored form of an agent's registration.
//!
//! Invariant: revision and times are the broker's; the rest is what the agent said of itself.

use prost::Message as _;

use crate::core::Outcome;
use crate::core::digest::Digest;
use crate::core::time::Timestamp;
use crate::proto::baton::{store::v1 as store, v1 as pb};

use super::record::{Remembered, decode, load_remembered, render_remembered};
use super::{StoredError, time};

/// A registration with its remembered answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredAgent {
    agent: Option<pb::Agent>,
    revision: u64,
    recent: Vec<Remembered>,
}

impl StoredAgent {
    /// True unless it was never registered or removed.
    #[must_use]
    pub fn is_registered(&self) -> bool {
        self.agent.is_some()
    }

    /// How often it was registered or updated.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The registration.
    #[must_use]
    pub fn agent(&self) -> Option<&pb::Agent> {
        self.agent.as_ref()
    }

    /// The answer to an earlier call.
    #[must_use]
    pub fn remembered(&self, key: &Digest) -> Option<&Remembered> {
        self.recent.iter().find(|entry| entry.key == *key)
    }

    /// Remembers an answer, and forgets the oldest beyond `most`.
    pub fn remember(&mut self, key: Digest, request: Digest, outcome: Outcome, most: usize) {
        self.recent.push(Remembered { key, request, outcome });
        while self.recent.len() > most {
            self.recent.remove(0);
        }
    }

    /// Takes over a registration.
    ///
    /// # Errors
    /// The body is no registration.
    pub fn register(&mut self, body: &[u8], now: Timestamp) -> Result<(), StoredError> {
        let mut agent = decode::<pb::Agent>("Agent", body)?;
        let stamp = time::render_timestamp(now);
        let since = self.agent.as_ref().and_then(|old| old.registered_at);
        self.revision = self.revision.saturating_add(1);
        agent.revision = self.revision;
        agent.registered_at = since.or(Some(stamp));
        agent.updated_at = Some(stamp);
        self.agent = Some(agent);
        Ok(())
    }

    /// Forgets the registration; the remembered answers and the revision stay.
    pub fn remove(&mut self) {
        self.agent = None;
        self.revision = self.revision.saturating_add(1);
    }
}

/// The stored form.
#[must_use]
pub fn encode_agent(stored: &StoredAgent) -> Vec<u8> {
    store::AgentRecord {
        agent: stored.agent.clone(),
        recent: stored.recent.iter().map(render_remembered).collect(),
        revision: stored.revision,
    }
    .encode_to_vec()
}

/// Reads the stored form.
///
/// # Errors
/// The value cannot be read.
pub fn decode_agent(bytes: &[u8]) -> Result<StoredAgent, StoredError> {
    let record = decode::<store::AgentRecord>("AgentRecord", bytes)?;
    Ok(StoredAgent {
        agent: record.agent,
        revision: record.revision,
        recent: record.recent.iter().map(load_remembered).collect::<Result<_, _>>()?,
    })
}
