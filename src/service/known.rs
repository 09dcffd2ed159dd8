//! Documents that are read again and again, decoded once.
//!
//! What lives here: the packets of open offers with what they bind, contracts with their canonical
//! form, checkpoints. What does not: anything that can change. Invariant: everything here is named
//! by the digest of its content, so an entry is never wrong; the number of entries is bounded.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::broker::Error;
use crate::broker::cache::Cache;
use crate::core::contract::contract_document;
use crate::core::digest::Digest;
use crate::core::id::TaskId;
use crate::core::task::Task;
use crate::proto::baton::{store::v1 as store, v1 as pb};
use crate::wire::canon;
use crate::wire::packet::{self, PacketFacts};
use crate::wire::stored_packet;
use crate::wire::violations::Violations;

use super::Desk;

/// Half of the entries of each kind. A packet of the usual size takes some 20 KiB decoded.
const HALF: usize = 512;

/// A finished packet and what it binds.
pub(super) struct Packet {
    pub(super) message: pb::HandoffPacket,
    pub(super) facts: PacketFacts,
}

/// A stored contract and its fixed part.
pub(super) struct Contract {
    pub(super) contract: pb::OperatingContract,
    pub(super) shape: pb::ContractShape,
    pub(super) document: pb::ContractDocument,
    /// The canonical form of `document`.
    pub(super) canonical: Vec<u8>,
}

type Key = (TaskId, Digest);

/// What is known decoded.
pub(super) struct Known {
    packets: Mutex<Cache<Key, Arc<Packet>>>,
    contracts: Mutex<Cache<Key, Arc<Contract>>>,
    checkpoints: Mutex<Cache<Key, Arc<pb::Checkpoint>>>,
}

impl Known {
    pub(super) fn new() -> Self {
        Self {
            packets: Mutex::new(Cache::new(HALF)),
            contracts: Mutex::new(Cache::new(HALF)),
            checkpoints: Mutex::new(Cache::new(HALF)),
        }
    }

    /// Takes over a packet that was just finished.
    pub(super) fn keep_packet(&self, task: &TaskId, digest: Digest, packet: Packet) {
        lock(&self.packets).insert((task.clone(), digest), Arc::new(packet));
    }
}

fn lock<T>(kept: &Mutex<T>) -> MutexGuard<'_, T> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Desk {
    /// A stored packet with what it binds.
    pub(super) async fn packet(
        &self,
        task: &TaskId,
        digest: &Digest,
    ) -> Result<Arc<Packet>, Error> {
        let key = (task.clone(), *digest);
        if let Some(packet) = lock(&self.known.packets).get(&key) {
            return Ok(Arc::clone(packet));
        }
        let message = self.whole_packet(task, digest).await?;
        let mut violations = Violations::default();
        let facts = packet::parse(&message, &mut violations)
            .ok_or_else(|| Error::Damaged(format!("packet {digest} cannot be read")))?;
        let packet = Arc::new(Packet { message, facts });
        lock(&self.known.packets).insert(key, Arc::clone(&packet));
        Ok(packet)
    }

    /// A stored packet, with what it repeats of other documents put back.
    async fn whole_packet(
        &self,
        task: &TaskId,
        digest: &Digest,
    ) -> Result<pb::HandoffPacket, Error> {
        let damaged =
            |what: &str| Error::Damaged(format!("packet {digest} of task {task}: {what}"));
        let stored = self.document::<store::StoredPacket>(task, digest, "StoredPacket").await?;
        let contract = Digest::parse(&stored.contract_document)
            .map_err(|_| damaged("it names no contract"))?;
        let contract = self.contract_of(task, &contract).await?;
        let named = stored.packet.as_ref().and_then(|p| p.last_safe_checkpoint.as_ref());
        let checkpoint = match named.filter(|_| stored.checkpoint_left_out) {
            None => None,
            Some(named) => {
                let named =
                    Digest::parse(&named.digest).map_err(|_| damaged("it names no checkpoint"))?;
                let found = self.checkpoint_of(task, &named).await?;
                Some(found.ok_or_else(|| damaged("its checkpoint is missing"))?)
            }
        };
        let (document, canonical) = (&contract.document, &contract.canonical);
        let packet = stored_packet::complete(stored, document, canonical, checkpoint.as_deref());
        match canon::digest(&packet) {
            Ok(found) if found == *digest => Ok(packet),
            _ => Err(damaged("its content is not that of its digest")),
        }
    }

    /// The stored contract of a task.
    pub(super) async fn contract(&self, task: &Task) -> Result<Arc<Contract>, Error> {
        self.contract_of(&task.id, &task.contract_document).await
    }

    async fn contract_of(&self, task: &TaskId, digest: &Digest) -> Result<Arc<Contract>, Error> {
        let key = (task.clone(), *digest);
        if let Some(contract) = lock(&self.known.contracts).get(&key) {
            return Ok(Arc::clone(contract));
        }
        let stored = self.document::<store::StoredContract>(task, digest, "StoredContract").await?;
        let contract = stored.contract.unwrap_or_default();
        let document = contract_document(&contract);
        let canonical =
            canon::canonical_json(&document).map_err(|e| Error::Damaged(e.to_string()))?;
        let shape = stored.shape.unwrap_or_default();
        let contract = Arc::new(Contract { contract, shape, document, canonical });
        lock(&self.known.contracts).insert(key, Arc::clone(&contract));
        Ok(contract)
    }

    /// A stored checkpoint; none if the task has no document of this digest.
    pub(super) async fn checkpoint_of(
        &self,
        task: &TaskId,
        digest: &Digest,
    ) -> Result<Option<Arc<pb::Checkpoint>>, Error> {
        let key = (task.clone(), *digest);
        if let Some(checkpoint) = lock(&self.known.checkpoints).get(&key) {
            return Ok(Some(Arc::clone(checkpoint)));
        }
        let Some(bytes) = self.broker.reader().document(task, digest).await? else {
            return Ok(None);
        };
        // A digest that names a document of another kind names no checkpoint.
        let decoded = crate::wire::record::decode::<pb::Checkpoint>("Checkpoint", &bytes);
        let Ok(checkpoint) = decoded else { return Ok(None) };
        let checkpoint = Arc::new(checkpoint);
        lock(&self.known.checkpoints).insert(key, Arc::clone(&checkpoint));
        Ok(Some(checkpoint))
    }
}
