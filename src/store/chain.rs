//! The chain of groups: what the store must contain, told independently of sled.
//!
//! Lives here: the hash that links a group to the one before it, the tally of all records, the
//! ring of group records, and the judgement over ring, witness and clean stop. No I/O.
//!
//! ## Invariants
//! * `hash(n) = SHA-256(hash(n - 1), n, operations of n)`; the hash of group 0 is 32 zero bytes.
//! * The ring holds the records of the last [`RING_GROUPS`] groups, without gaps.
//! * The tally of the newest group fits the records in sled: a lost, changed or resurrected
//!   record, wherever in the file, changes the sum. It is proof against accidents, not against
//!   someone who writes to the file.

use sha2::{Digest as _, Sha256};

use super::record::{GROUP, Shape};
use super::witness::Seal;
use super::{Operations, Position, StoreError, record};

/// SHA-256 of a group and of all groups before it.
pub(super) type Hash = [u8; 32];

/// The hash before the first group.
pub(super) const GENESIS: Hash = [0; 32];

/// Groups whose records are kept, so that the chain takes bounded space.
pub(super) const RING_GROUPS: u64 = 1024;

/// Number and sum of everything that is stored beside the group records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    records: u64,
    sum: u128,
}

impl Tally {
    /// Counts a record in. `crc` is 0 for chunks, whose keys are never used twice.
    pub(super) fn add(&mut self, key: &[u8], crc: u32, position: Position) {
        self.records = self.records.wrapping_add(1);
        self.sum = self.sum.wrapping_add(fingerprint(key, crc, position));
    }

    /// Counts a record out.
    pub(super) fn remove(&mut self, key: &[u8], crc: u32, position: Position) {
        self.records = self.records.wrapping_sub(1);
        self.sum = self.sum.wrapping_sub(fingerprint(key, crc, position));
    }

    /// Number of records counted.
    pub(super) fn records(self) -> u64 {
        self.records
    }
}

fn fingerprint(key: &[u8], crc: u32, position: Position) -> u128 {
    let mut hasher = Sha256::new();
    hasher.update(crc.to_be_bytes());
    hasher.update(position.0.to_be_bytes());
    hasher.update(key);
    let hash: Hash = hasher.finalize().into();
    hash.first_chunk::<16>().map_or(0, |bytes| u128::from_be_bytes(*bytes))
}

/// One committed group as the ring keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) position: Position,
    pub(super) previous: Hash,
    pub(super) hash: Hash,
    pub(super) tally: Tally,
}

impl Group {
    /// The empty store.
    pub(super) fn genesis() -> Self {
        Self { position: Position(0), previous: GENESIS, hash: GENESIS, tally: Tally::default() }
    }

    /// The group that follows this one.
    pub(super) fn next(&self, position: Position, operations: &Operations, tally: Tally) -> Self {
        let hash = link(&self.hash, position, operations);
        Self { position, previous: self.hash, hash, tally }
    }

    pub(super) fn seal(&self) -> Seal {
        Seal { position: self.position, hash: self.hash }
    }

    /// Sled key and record of this group.
    pub(super) fn encode(&self) -> (Vec<u8>, Vec<u8>) {
        let key = slot_key(self.position);
        let mut payload = Vec::with_capacity(88);
        payload.extend(self.previous);
        payload.extend(self.hash);
        payload.extend(self.tally.records.to_be_bytes());
        payload.extend(self.tally.sum.to_be_bytes());
        let (bytes, _) = record::encode(&key, Shape::Group, self.position, &payload);
        (key, bytes)
    }

    /// Reads a group record and checks that it is in its slot.
    pub(super) fn decode(key: &[u8], bytes: &[u8]) -> Result<Self, StoreError> {
        let record = record::decode(key, bytes)?;
        let fields = || {
            let (previous, rest) = record.payload.split_first_chunk::<32>()?;
            let (hash, rest) = rest.split_first_chunk::<32>()?;
            let (records, sum) = rest.split_first_chunk::<8>()?;
            let tally = Tally {
                records: u64::from_be_bytes(*records),
                sum: u128::from_be_bytes(sum.try_into().ok()?),
            };
            Some(Self { position: record.position, previous: *previous, hash: *hash, tally })
        };
        let in_place = record.shape == Shape::Group && slot_key(record.position) == key;
        fields().filter(|_| in_place).ok_or_else(|| {
            StoreError::corrupt(format!("record of key {} is no group", key.escape_ascii()))
        })
    }
}

fn slot_key(position: Position) -> Vec<u8> {
    let slot = u16::try_from(position.0 % RING_GROUPS).unwrap_or(u16::MAX);
    let mut key = vec![GROUP];
    key.extend(slot.to_be_bytes());
    key
}

fn link(previous: &Hash, position: Position, operations: &Operations) -> Hash {
    let mut hasher = Sha256::new();
    hasher.update(previous);
    hasher.update(position.0.to_be_bytes());
    let length = |bytes: &[u8]| u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes();
    for (key, operation) in operations {
        hasher.update(length(key));
        hasher.update(key);
        match operation.value() {
            Some(value) => {
                hasher.update([1]);
                hasher.update(length(value));
                hasher.update(value);
            }
            None => hasher.update([0]),
        }
    }
    hasher.finalize().into()
}

/// Orders the records of the ring, checks that none is missing and that each is linked to the one
/// before it. Returns them oldest first.
pub(super) fn ring(mut groups: Vec<Group>) -> Result<Vec<Group>, StoreError> {
    groups.sort_by_key(|group| group.position);
    let count = u64::try_from(groups.len()).unwrap_or(u64::MAX);
    let Some(head) = groups.last().map(|group| group.position.0) else { return Ok(groups) };
    if count != head.min(RING_GROUPS) {
        return Err(StoreError::corrupt(format!(
            "the newest group is {head}, and the records of {count} groups are there instead of {}",
            head.min(RING_GROUPS)
        )));
    }
    for pair in groups.windows(2) {
        if let [before, after] = pair
            && (after.position.0 != before.position.0 + 1 || after.previous != before.hash)
        {
            return Err(StoreError::corrupt(format!(
                "group {} is not linked to group {}",
                after.position, before.position
            )));
        }
    }
    match groups.first() {
        Some(first) if first.position.0 == 1 && first.previous != GENESIS => {
            Err(StoreError::corrupt("group 1 is not the first of its chain"))
        }
        _ => Ok(groups),
    }
}

/// Compares the store with what is testified outside of it. `ring` is checked and oldest first;
/// `clean` is the seal of the last orderly stop, if the store was stopped in order.
pub(super) fn judge(
    ring: &[Group],
    witness: Option<Seal>,
    clean: Option<Seal>,
) -> Result<(), StoreError> {
    let head = ring.last().map_or(Position(0), |group| group.position);
    let Some(witness) = witness else {
        return match head.0 {
            0 => Ok(()),
            _ => Err(StoreError::corrupt(format!(
                "the witness is missing, and the store holds groups up to {head}, so nothing \
                 shows whether acknowledged groups are lost"
            ))),
        };
    };
    testified(ring, head, witness, "the witness")?;
    let Some(clean) = clean else { return Ok(()) };
    testified(ring, head, clean, "the last orderly stop")?;
    if clean.position != head || clean.position != witness.position {
        return Err(StoreError::corrupt(format!(
            "the store was stopped in order at group {}, and now the witness stands at group {} \
             and the store at group {head}",
            clean.position, witness.position
        )));
    }
    Ok(())
}

fn testified(ring: &[Group], head: Position, seal: Seal, by: &str) -> Result<(), StoreError> {
    if seal.position > head {
        return Err(StoreError::corrupt(format!(
            "groups {} to {} were acknowledged and are lost: {by} stands at group {}, the store \
             at group {head}",
            head.0 + 1,
            seal.position,
            seal.position
        )));
    }
    let hash = match seal.position.0 {
        0 => Some(GENESIS),
        _ => ring.iter().find(|group| group.position == seal.position).map(|group| group.hash),
    };
    match hash {
        None => Err(StoreError::corrupt(format!(
            "{by} stands at group {}, too far behind the store at group {head} to be compared",
            seal.position
        ))),
        Some(hash) if hash != seal.hash => Err(StoreError::corrupt(format!(
            "group {} in the store is not the one that {by} saw: another history was put in place",
            seal.position
        ))),
        Some(_) => Ok(()),
    }
}
