//! sled behind four verbs.
//!
//! Lives here: every call into sled. A panic in sled becomes `Corrupt` and closes the engine for
//! good, because sled's locks and pages are in an unknown state then. Keys and values are sled's;
//! their frames are not known here.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::caught::caught;
use super::{Direction, StoreError};

/// Period of sled's background thread. Its garbage collection runs only there, so the period must
/// be set; durability does not rest on it.
const FLUSH_PERIOD_MS: u64 = 500;

/// How long a lock is waited for. A process that was just killed may still hold it for a moment,
/// and so may an engine that was just closed.
pub(super) const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// Pause between two tries of a lock.
pub(super) const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// What is done with an entry; `false` ends the visit.
pub(super) type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> Result<bool, StoreError> + 'a;

/// A key and what stands under it.
type Entry = (sled::IVec, sled::IVec);

/// An open sled database.
pub(super) struct Engine {
    db: Option<sled::Db>,
    path: PathBuf,
    broken: OnceLock<String>,
}

impl Engine {
    /// Opens or creates the database in `path`.
    pub(super) fn open(path: &Path, cache_bytes: u64) -> Result<Self, StoreError> {
        let config = sled::Config::new()
            .path(path)
            .cache_capacity(cache_bytes)
            .flush_every_ms(Some(FLUSH_PERIOD_MS));
        let until = Instant::now() + LOCK_PATIENCE;
        loop {
            match caught(|| config.open()) {
                Ok(Ok(db)) => {
                    let path = path.to_path_buf();
                    return Ok(Self { db: Some(db), path, broken: OnceLock::new() });
                }
                Ok(Err(error)) if is_lock(&error) && Instant::now() < until => {
                    std::thread::sleep(LOCK_PAUSE);
                }
                Ok(Err(error)) if is_lock(&error) => {
                    return Err(StoreError::InUse { path: path.to_path_buf() });
                }
                Ok(Err(sled::Error::Unsupported(found))) => {
                    return Err(StoreError::UnknownFormat { found });
                }
                Ok(Err(error)) => return Err(translate(path, &error)),
                Err(panic) => {
                    return Err(StoreError::corrupt(format!("sled cannot read it: {panic}")));
                }
            }
        }
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<sled::IVec>, StoreError> {
        self.run(|db| db.get(key).map_err(|error| translate(&self.path, &error)))
    }

    /// The entry with the last key before `key`.
    pub(super) fn before(&self, key: &[u8]) -> Result<Option<Entry>, StoreError> {
        self.run(|db| db.get_lt(key).map_err(|error| translate(&self.path, &error)))
    }

    /// Hands the entries in `[from, to)` to `each` until it answers `false`.
    pub(super) fn visit(
        &self,
        from: &[u8],
        to: &[u8],
        direction: Direction,
        each: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        self.run(|db| {
            let mut range = db.range(from..to);
            loop {
                let entry = match direction {
                    Direction::Forward => range.next(),
                    Direction::Reverse => range.next_back(),
                };
                let Some(entry) = entry else { return Ok(()) };
                let (key, value) = entry.map_err(|error| translate(&self.path, &error))?;
                if !each(&key, &value)? {
                    return Ok(());
                }
            }
        })
    }

    /// Applies the batch: visible to readers, on its way to the file, not durable.
    pub(super) fn apply(&self, batch: sled::Batch) -> Result<(), StoreError> {
        self.run(|db| db.apply_batch(batch).map_err(|error| translate(&self.path, &error)))
    }

    /// Hands everything applied to the operating system. This does not make it durable: sled
    /// starts the write-out of the pages and syncs neither the file's size nor the disk's cache.
    pub(super) fn flush(&self) -> Result<(), StoreError> {
        self.run(|db| db.flush().map(|_| ()).map_err(|error| translate(&self.path, &error)))
    }

    /// Closes the database. Its threads have ended and its files are written when this returns.
    pub(super) fn close(&mut self) -> Result<(), StoreError> {
        let flushed = if self.db.is_some() { self.flush() } else { Ok(()) };
        let db = self.db.take();
        // sled asserts in its destructors, too.
        caught(|| drop(db)).map_err(StoreError::corrupt)?;
        flushed
    }

    fn run<T>(
        &self,
        work: impl FnOnce(&sled::Db) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if let Some(cause) = self.broken.get() {
            return Err(StoreError::Stopped { cause: cause.clone() });
        }
        let Some(db) = &self.db else {
            return Err(StoreError::Stopped { cause: "the store is closed".to_owned() });
        };
        caught(|| work(db)).unwrap_or_else(|panic| {
            let error = StoreError::corrupt(format!("sled panicked: {panic}"));
            // Only the first cause is kept.
            let _ = self.broken.set(error.to_string());
            Err(error)
        })
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Whoever cares for the result has called `close` before.
        let _ = self.close();
    }
}

/// sled tells of a held lock only in the text of an I/O error.
fn is_lock(error: &sled::Error) -> bool {
    matches!(error, sled::Error::Io(io) if io.to_string().contains("could not acquire lock"))
}

fn translate(path: &Path, error: &sled::Error) -> StoreError {
    match error {
        sled::Error::Io(io) => StoreError::io(path, io),
        other => StoreError::corrupt(format!("sled reports: {other}")),
    }
}
