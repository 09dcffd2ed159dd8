//! The journal: every group, synced in front of sled before it is acknowledged.
//!
//! Lives here: the bytes of a group on disk, the two files that take turns, and reading them at a
//! start. What does not: which groups sled already has (`chain`), applying them (`checkpoint`).
//!
//! A file begins with a block that names it; groups follow, each at a multiple of 4 KiB, so that
//! writing one never touches a block that another stands in.
//!
//! ```text
//! offset  bytes  field of the first block
//!      0      8  "BATONJNL"
//!      8     16  salt: random, repeated by every group, so that no stored value looks like a group
//!     24      4  CRC-32 of the 24 bytes before it, big-endian
//!
//! offset  bytes  field of a group
//!      0     16  salt of the file
//!     16      8  group number, big-endian
//!     24     32  chain hash of the group before
//!     56     32  chain hash of this group
//!     88      8  bytes of the operations, big-endian
//!     96      4  CRC-32 of the 96 bytes before it, big-endian
//!    100      -  operations: kind (1), bytes of the key (2), key, bytes of the value (4), value
//! ```
//!
//! ## Invariants
//! * A file is written over from its start only when sled has synced everything in it.
//! * What follows the last group of a file is older than its first, or is the torn write of the
//!   group that comes next; anything else is damage.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::chain::{self, Hash};
use super::witness::Seal;
use super::{Key, Operation, Operations, Position, StoreError, disk};

const MAGIC: &[u8; 8] = b"BATONJNL";
const SALT_BYTES: usize = 16;
const HEAD_BYTES: usize = 100;
const BLOCK_BYTES: usize = 4096;

/// Bytes that a file grows by: a sync of blocks that are there already is a third cheaper than one
/// that also writes the file's new size.
const GROWTH_BYTES: usize = 1 << 20;

/// A file that grew beyond this, by one large group, is cut when it is used again.
const KEPT_BYTES: u64 = 96 << 20;

type Salt = [u8; SALT_BYTES];

/// A group as the journal has it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) previous: Hash,
    pub(super) seal: Seal,
    pub(super) operations: Operations,
}

struct Segment {
    file: File,
    path: PathBuf,
    salt: Salt,
    bytes: u64,
}

/// The two files, one of them written to.
pub(super) struct Journal {
    segments: [Segment; 2],
    active: usize,
    end: u64,
    buffer: Vec<u8>,
}

impl Journal {
    /// Opens or makes the two files, and reads every group that is not in sled yet: those after
    /// `applied`. They are in order and chained; the first follows `applied`.
    pub(super) fn load(root: &Path, applied: Seal) -> Result<(Self, Vec<Entry>), StoreError> {
        let (first, mut entries) = Segment::load(&root.join("journal-0"), applied)?;
        let (second, more) = Segment::load(&root.join("journal-1"), applied)?;
        // The file that the newest group is not in is written next.
        let newest = |all: &[Entry]| all.last().map_or(Position(0), |entry| entry.seal.position);
        let active = usize::from(newest(&more) < newest(&entries));
        entries.extend(more);
        entries.sort_by_key(|entry| entry.seal.position);
        let mut head = applied;
        for entry in &entries {
            let next = Position(head.position.0.saturating_add(1));
            if entry.seal.position != next || entry.previous != head.hash {
                return Err(StoreError::corrupt(format!(
                    "the journal has group {} after group {head}, and they are not linked",
                    entry.seal.position,
                    head = head.position
                )));
            }
            head = entry.seal;
        }
        let journal =
            Self { segments: [first, second], active, end: BLOCK_BYTES as u64, buffer: Vec::new() };
        Ok((journal, entries))
    }

    fn segment(&mut self) -> &mut Segment {
        let [first, second] = &mut self.segments;
        if self.active == 0 { first } else { second }
    }

    /// Writes a group behind the last one. It is not on disk before [`Journal::sync`].
    pub(super) fn append(
        &mut self,
        previous: &Hash,
        seal: Seal,
        operations: &Operations,
    ) -> Result<(), StoreError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        encode(&self.segment().salt, previous, seal, operations, &mut buffer)?;
        let at = self.end;
        let result = self.segment().write(at, &buffer);
        self.end = at.saturating_add(buffer.len() as u64);
        // One large group must not keep its memory for good.
        if buffer.capacity() <= GROWTH_BYTES {
            self.buffer = buffer;
        }
        result
    }

    /// Everything that was appended is on disk when this returns `Ok`.
    pub(super) fn sync(&mut self) -> Result<(), StoreError> {
        let segment = self.segment();
        segment.file.sync_data().map_err(|error| StoreError::io(&segment.path, &error))
    }

    /// Goes on at the start of the other file, whose groups are all in sled.
    pub(super) fn turn(&mut self) -> Result<(), StoreError> {
        self.active = 1 - self.active;
        self.end = BLOCK_BYTES as u64;
        let segment = self.segment();
        if segment.bytes > KEPT_BYTES {
            segment.bytes = KEPT_BYTES;
            let cut = segment.file.set_len(KEPT_BYTES);
            cut.map_err(|error| StoreError::io(&segment.path, &error))?;
        }
        Ok(())
    }
}

impl Segment {
    fn load(path: &Path, applied: Seal) -> Result<(Self, Vec<Entry>), StoreError> {
        if !path.exists() {
            Self::create(path)?;
        }
        let bytes = std::fs::read(path).map_err(|error| StoreError::io(path, &error))?;
        let salt = salt(&bytes).ok_or_else(|| {
            StoreError::corrupt(format!("the first block of {} cannot be read", path.display()))
        })?;
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(|error| StoreError::io(path, &error))?;
        let size = bytes.len() as u64;
        let entries = read(&bytes, &salt, applied)
            .map_err(|what| StoreError::corrupt(format!("{}: {what}", path.display())))?;
        Ok((Self { file, path: path.to_path_buf(), salt, bytes: size }, entries))
    }

    /// Makes the file with its first block. It appears whole or not at all.
    fn create(path: &Path) -> Result<(), StoreError> {
        let mut salt: Salt = [0; SALT_BYTES];
        getrandom::fill(&mut salt)
            .map_err(|error| StoreError::io(path, &std::io::Error::other(error)))?;
        let mut block = MAGIC.to_vec();
        block.extend(salt);
        block.extend(crc32fast::hash(&block).to_be_bytes());
        block.resize(BLOCK_BYTES, 0);
        disk::write_whole(path, &block)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), StoreError> {
        let end = at.saturating_add(bytes.len() as u64);
        let failed = |error| StoreError::io(&self.path, &error);
        if end > self.bytes {
            let zeros = vec![0; GROWTH_BYTES];
            while self.bytes < end {
                self.file.write_all_at(&zeros, self.bytes).map_err(failed)?;
                self.bytes = self.bytes.saturating_add(GROWTH_BYTES as u64);
            }
        }
        self.file.write_all_at(bytes, at).map_err(failed)
    }
}

fn salt(bytes: &[u8]) -> Option<Salt> {
    let (head, rest) = bytes.split_first_chunk::<24>()?;
    let (crc, _) = rest.split_first_chunk::<4>()?;
    let salt = head.strip_prefix(MAGIC)?;
    let whole = crc32fast::hash(head) == u32::from_be_bytes(*crc);
    if whole { salt.try_into().ok() } else { None }
}

fn encode(
    salt: &Salt,
    previous: &Hash,
    seal: Seal,
    operations: &Operations,
    out: &mut Vec<u8>,
) -> Result<(), StoreError> {
    let too_large = |bytes: usize| StoreError::TooLarge {
        what: "journal record",
        bytes,
        bytes_max: super::BATCH_BYTES_MAX,
    };
    out.resize(HEAD_BYTES, 0);
    for (key, operation) in operations {
        out.push(operation.kind());
        let key_bytes = u16::try_from(key.len()).map_err(|_| too_large(key.len()))?;
        out.extend(key_bytes.to_be_bytes());
        out.extend_from_slice(key);
        if let Some(value) = operation.value() {
            let value_bytes = u32::try_from(value.len()).map_err(|_| too_large(value.len()))?;
            out.extend(value_bytes.to_be_bytes());
            out.extend_from_slice(value);
        }
    }
    let mut head = Vec::with_capacity(HEAD_BYTES);
    head.extend(salt);
    head.extend(seal.position.0.to_be_bytes());
    head.extend(previous);
    head.extend(seal.hash);
    head.extend((out.len().saturating_sub(HEAD_BYTES) as u64).to_be_bytes());
    head.extend(crc32fast::hash(&head).to_be_bytes());
    for (to, from) in out.iter_mut().zip(head) {
        *to = from;
    }
    out.resize(out.len().next_multiple_of(BLOCK_BYTES), 0);
    Ok(())
}

struct Head {
    previous: Hash,
    seal: Seal,
    bytes: usize,
}

fn head(bytes: &[u8], salt: &Salt) -> Option<Head> {
    let (head, _) = bytes.split_first_chunk::<HEAD_BYTES>()?;
    let (body, crc) = head.split_last_chunk::<4>()?;
    if crc32fast::hash(body) != u32::from_be_bytes(*crc) {
        return None;
    }
    let rest = body.strip_prefix(salt)?;
    let (position, rest) = rest.split_first_chunk::<8>()?;
    let (previous, rest) = rest.split_first_chunk::<32>()?;
    let (hash, rest) = rest.split_first_chunk::<32>()?;
    let bytes = u64::from_be_bytes(*rest.first_chunk::<8>()?);
    let position = Position(u64::from_be_bytes(*position));
    Some(Head {
        previous: *previous,
        seal: Seal { position, hash: *hash },
        bytes: usize::try_from(bytes).ok()?,
    })
}

fn operations(mut bytes: &[u8]) -> Option<Operations> {
    let mut all = Operations::new();
    while !bytes.is_empty() {
        let (kind, rest) = bytes.split_first()?;
        let (length, rest) = rest.split_first_chunk::<2>()?;
        let (key, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        let mut value = Vec::new();
        bytes = rest;
        if *kind != Operation::DELETE {
            let (length, rest) = rest.split_first_chunk::<4>()?;
            let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
            let (found, rest) = rest.split_at_checked(length)?;
            value = found.to_vec();
            bytes = rest;
        }
        let key: Key = key.to_vec();
        all.insert(key, Operation::of_kind(*kind, value)?);
    }
    Some(all)
}

/// The group whose head is at the start of `bytes`, if it is whole.
fn entry(bytes: &[u8], salt: &Salt) -> Option<(Entry, usize)> {
    let Head { previous, seal, bytes: length } = head(bytes, salt)?;
    let body = bytes.get(HEAD_BYTES..HEAD_BYTES.checked_add(length)?)?;
    let operations = operations(body)?;
    let whole = chain::link(&previous, seal.position, &operations) == seal.hash;
    let takes = HEAD_BYTES.checked_add(length)?.next_multiple_of(BLOCK_BYTES);
    whole.then_some((Entry { previous, seal, operations }, takes))
}

/// The groups of a file after `applied`; an error says what is damaged.
fn read(bytes: &[u8], salt: &Salt, applied: Seal) -> Result<Vec<Entry>, String> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut at = BLOCK_BYTES;
    let mut last: Option<Seal> = None;
    while let Some((entry, takes)) = entry(bytes.get(at..).unwrap_or_default(), salt) {
        // What follows the newest group is older: this file was written over up to here.
        if last.is_some_and(|l| entry.seal.position <= l.position || entry.previous != l.hash) {
            break;
        }
        last = Some(entry.seal);
        at = at.saturating_add(takes);
        if entry.seal.position > applied.position {
            entries.push(entry);
        }
    }
    // The torn write of the next group may stand here. Behind it nothing may be younger.
    let newest = last.map_or(applied.position, |l| l.position.max(applied.position));
    let after = at.saturating_add(BLOCK_BYTES);
    for block in bytes.get(after..).unwrap_or_default().chunks(BLOCK_BYTES) {
        if let Some(found) = head(block, salt).filter(|h| h.seal.position > newest) {
            return Err(format!(
                "group {} is there, and what stands before it cannot be read",
                found.seal.position
            ));
        }
    }
    Ok(entries)
}
