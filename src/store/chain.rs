//! The chain of groups: what the store must contain, told independently of sled.
//!
//! Lives here: the hash that links a group to the one before it, the tally of all records, the
//! record of what sled has, and the judgement over it, journal, witness and clean stop. No I/O.
//!
//! ## Invariants
//! * `hash(n) = SHA-256(hash(n - 1), n, operations of n)`; the hash of group 0 is 32 zero bytes.
//! * Sled has all groups up to one, and one record that names it.
//! * The tally in that record fits the records in sled: a lost, changed or resurrected
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

/// Number and sum of everything that is stored beside the group record.
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

/// How far sled is: the group up to which it has everything, and the sum of what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Applied {
    pub(super) seal: Seal,
    pub(super) tally: Tally,
}

impl Applied {
    /// The empty store.
    pub(super) fn nothing() -> Self {
        Self { seal: Seal { position: Position(0), hash: GENESIS }, tally: Tally::default() }
    }

    /// The sled key of the record.
    pub(super) const KEY: [u8; 1] = [GROUP];

    /// The record.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut payload = Vec::with_capacity(56);
        payload.extend(self.seal.hash);
        payload.extend(self.tally.records.to_be_bytes());
        payload.extend(self.tally.sum.to_be_bytes());
        record::encode(&Self::KEY, Shape::Group, self.seal.position, &payload).0
    }

    /// Reads the record.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let record = record::decode(&Self::KEY, bytes)?;
        let fields = || {
            let (hash, rest) = record.payload.split_first_chunk::<32>()?;
            let (records, sum) = rest.split_first_chunk::<8>()?;
            let tally = Tally {
                records: u64::from_be_bytes(*records),
                sum: u128::from_be_bytes(sum.try_into().ok()?),
            };
            Some(Self { seal: Seal { position: record.position, hash: *hash }, tally })
        };
        fields().filter(|_| record.shape == Shape::Group).ok_or_else(|| {
            StoreError::corrupt("the record of the newest group cannot be read".to_owned())
        })
    }
}

/// The hash of a group.
pub(super) fn link(previous: &Hash, position: Position, operations: &Operations) -> Hash {
    let mut hasher = Sha256::new();
    hasher.update(previous);
    hasher.update(position.0.to_be_bytes());
    let length = |bytes: &[u8]| u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes();
    for (key, operation) in operations {
        hasher.update(length(key));
        hasher.update(key);
        hasher.update([operation.kind()]);
        if let Some(value) = operation.value() {
            hasher.update(length(value));
            hasher.update(value);
        }
    }
    hasher.finalize().into()
}

/// Compares what sled and the journal have with what is testified outside of them. `journal` are
/// the groups after `applied`, in order; `clean` is the seal of the last orderly stop, if the store
/// was stopped in order; `begun` says that the store was opened before, so that it has a witness.
/// Gives the newest group.
pub(super) fn judge(
    applied: Seal,
    journal: &[Seal],
    witness: Option<Seal>,
    clean: Option<Seal>,
    begun: bool,
) -> Result<Seal, StoreError> {
    let head = journal.last().copied().unwrap_or(applied);
    let Some(witness) = witness else {
        return match head.position.0 {
            0 if !begun && clean.is_none() => Ok(head),
            _ => Err(StoreError::corrupt(format!(
                "the witness is missing, and the store holds groups up to {}, so nothing shows \
                 whether acknowledged groups are lost",
                head.position
            ))),
        };
    };
    let known = Known { applied, journal, head: head.position };
    known.testified(witness, "the witness")?;
    let Some(clean) = clean else { return Ok(head) };
    known.testified(clean, "the last orderly stop")?;
    if clean.position != head.position || clean.position != witness.position {
        return Err(StoreError::corrupt(format!(
            "the last orderly stop was at group {}, and now the witness stands at group {} and \
             the store at group {}",
            clean.position, witness.position, head.position
        )));
    }
    Ok(head)
}

/// The groups whose hashes are known.
struct Known<'a> {
    applied: Seal,
    journal: &'a [Seal],
    head: Position,
}

impl Known<'_> {
    fn testified(&self, seal: Seal, by: &str) -> Result<(), StoreError> {
        let Self { applied, journal, head } = self;
        if seal.position > *head {
            return Err(StoreError::corrupt(format!(
                "groups {} to {} were acknowledged and are lost: {by} stands at group {}, the \
                 store at group {head}",
                head.0.saturating_add(1),
                seal.position,
                seal.position
            )));
        }
        let mut known = std::iter::once(applied).chain(*journal);
        match known.find(|group| group.position == seal.position) {
            None => Err(StoreError::corrupt(format!(
                "{by} stands at group {}, too far behind the store at group {head} to be compared",
                seal.position
            ))),
            Some(group) if group.hash != seal.hash => Err(StoreError::corrupt(format!(
                "group {} in the store is not the one that {by} saw: another history was put in \
                 place",
                seal.position
            ))),
            Some(_) => Ok(()),
        }
    }
}
