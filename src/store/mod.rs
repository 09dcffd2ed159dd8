//! Durable state: bytes under ordered keys, changed by one commit entry.
//!
//! Lives here: the `Store` trait, its vocabulary, and `AnyStore`, the closed set of stores.
//! Does not live here: what the bytes mean. The store knows nothing of tasks, and nothing above it
//! knows what the store writes beside the values: journal, frames, chunks, group record, witness.
//!
//! ## Invariants
//! * Nothing but [`Store::commit`] writes. A group is on disk as a whole or not at all, and it is
//!   on disk when `commit` returns `Ok`.
//! * Groups are numbered 1, 2, 3 without gaps. Each stored value carries the number of the group
//!   that wrote it, so a reader can tell a value that a crash could still take back: its position
//!   is greater than [`Store::position`].
//! * After an error that leaves the disk in doubt, the store commits nothing any more. The
//!   process ends and starts again; a sync is never repeated on pages that may be gone.
//!
//! ## Decisions
//! * The trait speaks of bytes, so that the journal stands in front of sled and nothing above has
//!   to know.
//! * `AnyStore` is an enum: the set is closed, and callers need neither `dyn` nor a type parameter.

pub(crate) mod cache;
mod caught;
mod chain;
mod checkpoint;
mod directory;
mod disk;
mod engine;
mod fault;
mod journal;
pub mod key;
mod memory;
mod overlay;
mod record;
mod scan;
mod series;
mod sled;
mod value;
mod witness;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

pub use self::sled::{CACHE_BYTES_DEFAULT, SledStore};
pub use fault::{Fault, FaultStore};
pub use memory::MemoryStore;

/// An opaque key, ordered bytewise; 1 to [`KEY_BYTES_MAX`] bytes.
pub type Key = Vec<u8>;

/// Longest key, in bytes. Keys are copied into every index node, so they have to stay short.
pub const KEY_BYTES_MAX: usize = 512;

/// Largest value, in bytes. A value is held in memory as a whole, several times during a commit.
pub const VALUE_BYTES_MAX: usize = 16 << 20;

/// Largest sum of the keys and values of one batch, in bytes.
pub const BATCH_BYTES_MAX: usize = 64 << 20;

/// Monotonic number of a committed group; 1 is the first, 0 is the empty store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What is left of an acknowledged group when the process or the machine dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Everything: it was synced to disk before it was acknowledged.
    Durable,
    /// Nothing: the store lives in the memory of the process.
    Volatile,
}

/// What must be true of a key at the moment of the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The key has no value.
    Absent,
    /// The key's present value was written by this group.
    At(Position),
}

/// Order of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the smallest key on.
    Forward,
    /// From the greatest key on.
    Reverse,
}

impl Direction {
    /// True if `one` comes before `other`.
    fn is_before(self, one: &[u8], other: &[u8]) -> bool {
        match self {
            Self::Forward => one < other,
            Self::Reverse => one > other,
        }
    }
}

/// Everything that one commit checks and changes.
///
/// Deletes are applied before puts, and of two puts of one key the later one counts. Deleting a
/// key that has no value is no error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Checked against the state before the batch; one that does not hold refuses all of it.
    pub expect: Vec<(Key, Expect)>,
    /// Values to write.
    pub put: Vec<(Key, Vec<u8>)>,
    /// Values under keys that nothing was ever stored under: own numbers that only grow, ids that
    /// were drawn for this. They are written without a look, so a key that has a value after all
    /// makes the next start refuse the store.
    pub add: Vec<(Key, Vec<u8>)>,
    /// Entries of series: under a key that ends with a number of 8 bytes, big-endian, which only
    /// grows within the series that the rest of the key names. Nothing changes or removes them.
    pub append: Vec<(Key, Vec<u8>)>,
    /// Keys to remove.
    pub delete: Vec<Key>,
}

/// What happens to one key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Operation {
    /// The value is written, whatever was there.
    Put(Vec<u8>),
    /// The value is written; nothing is there.
    Add(Vec<u8>),
    /// The value is written as an entry of its series; nothing is there, now and later.
    Append(Vec<u8>),
    /// What is there is removed.
    Delete,
}

impl Operation {
    /// The kind that [`Operation::kind`] gives a removal; the others have a value.
    const DELETE: u8 = 0;

    /// A number of its own for each kind, as it stands on disk.
    fn kind(&self) -> u8 {
        match self {
            Self::Delete => Self::DELETE,
            Self::Put(_) => 1,
            Self::Add(_) => 2,
            Self::Append(_) => 3,
        }
    }

    fn of_kind(kind: u8, value: Vec<u8>) -> Option<Self> {
        match kind {
            Self::DELETE => Some(Self::Delete),
            1 => Some(Self::Put(value)),
            2 => Some(Self::Add(value)),
            3 => Some(Self::Append(value)),
            _ => None,
        }
    }

    fn value(&self) -> Option<&[u8]> {
        match self {
            Self::Put(value) | Self::Add(value) | Self::Append(value) => Some(value),
            Self::Delete => None,
        }
    }
}

/// A batch after the limits were checked: one final operation a key, in key order.
type Operations = BTreeMap<Key, Operation>;

/// What must hold of each key.
type Expectations = BTreeMap<Key, Expect>;

impl Batch {
    /// True if it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { expect: _, put, add, append, delete } = self;
        put.is_empty() && add.is_empty() && append.is_empty() && delete.is_empty()
    }

    /// Checks every limit and folds all but `expect` into one operation a key, `expect` into
    /// one expectation a key. Two different ones of one key cannot both hold.
    fn into_operations(self) -> Result<(Expectations, Operations), StoreError> {
        let mut operations = Operations::new();
        let mut bytes = 0_usize;
        for key in self.delete {
            bytes = bytes.saturating_add(key_len(&key)?);
            operations.insert(key, Operation::Delete);
        }
        let put = self.put.into_iter().map(|(key, value)| (key, Operation::Put(value)));
        let add = self.add.into_iter().map(|(key, value)| (key, Operation::Add(value)));
        let append = self.append.into_iter().map(|(key, value)| (key, Operation::Append(value)));
        for (key, operation) in put.chain(add).chain(append) {
            let value_bytes = operation.value().map_or(0, <[u8]>::len);
            bytes = bytes.saturating_add(key_len(&key)?).saturating_add(value_bytes);
            within("value", value_bytes, VALUE_BYTES_MAX)?;
            operations.insert(key, operation);
        }
        within("batch", bytes, BATCH_BYTES_MAX)?;
        let mut expectations = Expectations::new();
        for (key, expect) in self.expect {
            key_len(&key)?;
            if expectations.get(&key).is_some_and(|other| *other != expect) {
                return Err(StoreError::Conflict { key });
            }
            expectations.insert(key, expect);
        }
        Ok((expectations, operations))
    }
}

fn key_len(key: &[u8]) -> Result<usize, StoreError> {
    if key.is_empty() {
        return Err(StoreError::EmptyKey);
    }
    within("key", key.len(), KEY_BYTES_MAX)?;
    Ok(key.len())
}

fn within(what: &'static str, bytes: usize, bytes_max: usize) -> Result<(), StoreError> {
    if bytes > bytes_max { Err(StoreError::TooLarge { what, bytes, bytes_max }) } else { Ok(()) }
}

/// Whether the expectation holds for the position of the key's present value.
fn holds(expect: Expect, present: Option<Position>) -> bool {
    match expect {
        Expect::Absent => present.is_none(),
        Expect::At(position) => present == Some(position),
    }
}

/// A value and the group that wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The group that wrote the value. Greater than [`Store::position`]: not durable yet.
    pub position: Position,
    /// The value as it was put.
    pub value: Vec<u8>,
}

/// Why the store did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// An expectation of the batch does not hold; nothing was written. Read again and decide anew.
    #[error("key {} has changed since it was read; read it again and decide anew",
        key.escape_ascii())]
    Conflict {
        /// A key whose expectation does not hold.
        key: Key,
    },
    /// What is on disk is not what was acknowledged.
    #[error("the store is damaged: {what}; {remedy}")]
    Corrupt {
        /// What is wrong, with key or group numbers.
        what: String,
        /// What the operator can do.
        remedy: String,
    },
    /// A key without a byte.
    #[error("a key is empty; keys have 1 to {KEY_BYTES_MAX} bytes")]
    EmptyKey,
    /// The operating system refused. Whether the batch is on disk is not known: start again.
    #[error("input or output failed at {}: {text}; free or repair the disk and start again",
        path.display())]
    Io {
        /// The file or directory that was worked on.
        path: PathBuf,
        /// The operating system's own words.
        text: String,
    },
    /// Another process works on the same data.
    #[error("{} is in use by another process; stop that process or choose another directory",
        path.display())]
    InUse {
        /// The data directory.
        path: PathBuf,
    },
    /// An earlier fault stopped the store.
    #[error("the store has stopped after a fault: {cause}; start the process again")]
    Stopped {
        /// The fault that stopped it.
        cause: String,
    },
    /// A limit of this module is exceeded; nothing was written.
    #[error("{what} of {bytes} bytes is too large; at most {bytes_max} bytes")]
    TooLarge {
        /// `key`, `value` or `batch`.
        what: &'static str,
        /// Its size.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// The data was written in a format that this program does not know.
    #[error("unknown store format: {found}; open the data with the version that wrote it")]
    UnknownFormat {
        /// What was found in its place.
        found: String,
    },
}

impl StoreError {
    fn io(path: &Path, error: &std::io::Error) -> Self {
        Self::Io { path: path.to_path_buf(), text: error.to_string() }
    }

    fn corrupt(what: impl Into<String>) -> Self {
        let remedy = "keep the directory as it is and restore a backup".to_owned();
        Self::Corrupt { what: what.into(), remedy }
    }
}

/// State that is changed by whole groups and read by key.
pub trait Store: Send + Sync {
    /// What survives a crash once a commit has returned `Ok`.
    fn durability(&self) -> Durability;

    /// Position of the last group whose commit returned `Ok`. It survives a crash.
    fn position(&self) -> Position;

    /// The key's present value, which may belong to a group whose commit has not returned yet.
    ///
    /// # Errors
    /// `Corrupt`, `Io` or `Stopped`.
    fn get(&self, key: &[u8]) -> Result<Option<Stored>, StoreError>;

    /// Keys in `[from, to)` in order (or reverse), at most `limit`, values included. No group is
    /// seen in part. The values are held in memory, and writers wait meanwhile: keep `limit` small.
    ///
    /// # Errors
    /// `Corrupt`, `Io` or `Stopped`.
    fn scan(
        &self,
        from: &[u8],
        to: &[u8],
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<(Key, Stored)>, StoreError>;

    /// The one commit entry: all of the batch or nothing. When it returns `Ok` the batch is
    /// synced to disk and survives a crash; after `Io` or `Corrupt` it may or may not be there.
    ///
    /// `applied` is called once, after the batch is written in order and visible to readers, and
    /// before the sync. It may read the store; it must not commit. A batch that is refused
    /// (`Conflict`, `EmptyKey`, `TooLarge`, `Stopped`) writes nothing and does not call it.
    ///
    /// # Errors
    /// Any variant except `InUse`. After `Io` and `Corrupt` every further commit is `Stopped`.
    fn commit(
        &self,
        batch: Batch,
        applied: &mut dyn FnMut(Position),
    ) -> Result<Position, StoreError>;
}

/// The last group that the store in `dir` acknowledged, read beside a store that is open. For
/// whoever counts commits from outside.
///
/// # Errors
/// `Corrupt` or `Io`, as the witness can be read.
pub fn acknowledged(dir: &Path) -> Result<Position, StoreError> {
    let found = witness::Witness::load(&dir.join("witness"))?;
    Ok(found.map_or(Position(0), |(_, seal)| seal.position))
}

/// Copies the store in `from`, which nobody has open, to `to`, as it is.
///
/// # Errors
/// `InUse` or `Io`. What was copied by then is left.
pub fn copy_stopped(from: &Path, to: &Path) -> Result<(), StoreError> {
    let _lock = sled::lock(from)?;
    directory::copy(from, to)
}

/// The stores there are. It implements [`Store`], so callers need no `dyn`.
pub enum AnyStore {
    /// In memory, for tests and trials; says of itself that it is volatile.
    Memory(MemoryStore),
    /// On disk.
    Sled(Box<SledStore>),
    /// Any store with a fault planted in it, for tests of what stands above.
    Fault(Box<FaultStore<AnyStore>>),
}

macro_rules! each {
    ($any:expr, $store:ident => $call:expr) => {
        match $any {
            AnyStore::Memory($store) => $call,
            AnyStore::Sled($store) => $call,
            AnyStore::Fault($store) => $call,
        }
    };
}

impl Store for AnyStore {
    fn durability(&self) -> Durability {
        each!(self, store => store.durability())
    }

    fn position(&self) -> Position {
        each!(self, store => store.position())
    }

    fn get(&self, key: &[u8]) -> Result<Option<Stored>, StoreError> {
        each!(self, store => store.get(key))
    }

    fn scan(
        &self,
        from: &[u8],
        to: &[u8],
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<(Key, Stored)>, StoreError> {
        each!(self, store => store.scan(from, to, direction, limit))
    }

    fn commit(
        &self,
        batch: Batch,
        applied: &mut dyn FnMut(Position),
    ) -> Result<Position, StoreError> {
        each!(self, store => store.commit(batch, applied))
    }
}
