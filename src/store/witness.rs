//! The witness: which group was acknowledged last, kept outside of sled.
//!
//! Lives here: the file `witness` and its slots. sled drops the end of a damaged log without an
//! error; only a record that sled does not touch can show it.
//!
//! The file has two slots, each in a 4 KiB block of its own, written in turn, so that a torn write
//! leaves the slot before it. A slot:
//!
//! ```text
//! offset  bytes  field
//!      0      4  "BWIT"
//!      4      1  format, 1
//!      5      3  zero
//!      8      8  group number, big-endian
//!     16     32  chain hash of that group
//!     48     12  zero
//!     60      4  CRC-32 of the 60 bytes before it, big-endian
//! ```

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::chain::{self, Hash};
use super::{Position, StoreError, disk};

/// Bytes of a slot.
pub(super) const SLOT_BYTES: usize = 64;

/// Distance of the slots: a page of the file system, so that no write touches both.
const SLOT_DISTANCE_BYTES: u64 = 4096;

/// Two slots.
const FILE_BYTES: usize = 8192;

const MAGIC: [u8; 4] = *b"BWIT";
const FORMAT: u8 = 1;

/// A group's number and its chain hash: what is testified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seal {
    pub(super) position: Position,
    pub(super) hash: Hash,
}

impl Seal {
    pub(super) fn encode(self) -> [u8; SLOT_BYTES] {
        let mut bytes = Vec::with_capacity(SLOT_BYTES);
        bytes.extend(MAGIC);
        bytes.extend([FORMAT, 0, 0, 0]);
        bytes.extend(self.position.0.to_be_bytes());
        bytes.extend(self.hash);
        bytes.extend([0; 12]);
        bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
        let mut slot = [0; SLOT_BYTES];
        for (to, from) in slot.iter_mut().zip(bytes) {
            *to = from;
        }
        slot
    }

    /// `None` if the bytes are not a whole seal of the known format.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (slot, _) = bytes.split_first_chunk::<SLOT_BYTES>()?;
        let (body, crc) = slot.split_last_chunk::<4>()?;
        if crc32fast::hash(body) != u32::from_be_bytes(*crc) {
            return None;
        }
        let (head, rest) = body.split_first_chunk::<8>()?;
        let (position, rest) = rest.split_first_chunk::<8>()?;
        let (hash, _) = rest.split_first_chunk::<32>()?;
        let known = head.starts_with(&MAGIC) && head.get(4) == Some(&FORMAT);
        known.then_some(Self { position: Position(u64::from_be_bytes(*position)), hash: *hash })
    }
}

/// The open witness file. It stays open for the life of the store: a failed write-back is told
/// once to each descriptor, and only to descriptors that were open then.
pub(super) struct Witness {
    file: File,
    path: PathBuf,
}

impl Witness {
    /// Opens the file and reads the newest whole slot; `None` if there is no file.
    pub(super) fn load(path: &Path) -> Result<Option<(Self, Seal)>, StoreError> {
        let file = match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StoreError::io(path, &error)),
        };
        let mut newest: Option<Seal> = None;
        for slot in 0..2 {
            let mut bytes = [0; SLOT_BYTES];
            match file.read_exact_at(&mut bytes, slot * SLOT_DISTANCE_BYTES) {
                Ok(()) => {}
                // A file that ends before the slot: nothing was written there, or it was cut.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => continue,
                Err(error) => return Err(StoreError::io(path, &error)),
            }
            let seal = Seal::decode(&bytes);
            newest = [newest, seal].into_iter().flatten().max_by_key(|seal| seal.position);
        }
        let Some(seal) = newest else {
            return Err(StoreError::corrupt(format!(
                "neither slot of {} can be read, so nothing shows which groups were acknowledged",
                path.display()
            )));
        };
        Ok(Some((Self { file, path: path.to_path_buf() }, seal)))
    }

    /// Makes the file for a store without groups. It appears whole or not at all.
    pub(super) fn create(path: &Path) -> Result<Self, StoreError> {
        let genesis = Seal { position: Position(0), hash: chain::GENESIS };
        let mut bytes = genesis.encode().to_vec();
        // Both blocks exist from the start, so that a testimony never changes the file's size.
        bytes.resize(FILE_BYTES, 0);
        disk::write_whole(path, &bytes)?;
        match Self::load(path)? {
            Some((witness, seal)) if seal == genesis => Ok(witness),
            _ => Err(StoreError::corrupt(format!("{} reads back differently", path.display()))),
        }
    }

    /// Testifies the group, which is on disk. A killed process leaves the testimony to the next
    /// one; a power loss only what [`Witness::sync`] has covered.
    pub(super) fn testify(&self, seal: Seal) -> Result<(), StoreError> {
        let slot = seal.position.0 % 2;
        self.file
            .write_all_at(&seal.encode(), slot * SLOT_DISTANCE_BYTES)
            .map_err(|error| StoreError::io(&self.path, &error))
    }

    /// Every testimony is on disk when this returns `Ok`.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        self.file.sync_data().map_err(|error| StoreError::io(&self.path, &error))
    }
}
