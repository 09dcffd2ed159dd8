//! The store on disk: a journal, sled behind it, a chain of groups, and a witness.
//!
//! Lives here: opening, committing, reading, closing. What each step relies on lives in its own
//! room: the directory's files (`directory`), the journal, what is not in sled yet (`overlay`),
//! moving it there (`checkpoint`), records and chunks (`record`, `value`), chain and witness.
//!
//! ## Invariants
//! * A commit is: the group written to the journal, its changes laid over sled, a sync of the
//!   journal, the witness. Only then it returns. Sled gets it later, and not a change that a later
//!   one has replaced.
//! * A failed write, flush or sync stops the store for good.
//! * The store serves only when journal, chain, witness and the tally of all records agree. What
//!   sled has lost and the journal still has is written to sled again.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Instant;

use super::chain::{self, Applied};
use super::checkpoint::{Checkpointer, LAYER_BYTES_MAX};
use super::directory::Directory;
use super::engine::{Engine, LOCK_PATIENCE, LOCK_PAUSE};
use super::journal::Journal;
use super::overlay::{Layer, Overlay};
use super::value::{self, Known};
use super::witness::{Seal, Witness};
use super::{
    Batch, Direction, Durability, Expectations, Key, Position, Store, StoreError, Stored, holds,
    record, scan,
};

/// Bytes of pages that sled keeps in memory. Its heap is a multiple of it.
pub const CACHE_BYTES_DEFAULT: u64 = 64 << 20;

/// The store on disk.
pub struct SledStore {
    shared: Arc<Shared>,
    checkpointer: Mutex<Option<JoinHandle<()>>>,
    /// Locked for the life of the store, so that a second process touches nothing.
    _lock: File,
}

/// What commits, reads and checkpoints work on. Of two locks the one above is taken first.
pub(super) struct Shared {
    pub(super) writer: Mutex<Writer>,
    /// Something has changed that a commit or a checkpoint may wait for.
    pub(super) wake: Condvar,
    /// Held by a read as long as it also reads sled, so that no group is seen in part.
    pub(super) overlay: RwLock<Overlay>,
    engine: RwLock<Engine>,
    /// Bytes of the layer that commits write to.
    pub(super) layer_bytes: AtomicUsize,
    position: AtomicU64,
    pub(super) directory: Directory,
}

/// What one commit after the other changes.
pub(super) struct Writer {
    pub(super) head: Seal,
    pub(super) journal: Journal,
    pub(super) witness: Witness,
    pub(super) stopped: Option<String>,
    /// The last checkpoint is asked for.
    pub(super) closing: bool,
    closed: bool,
}

impl SledStore {
    /// Opens or creates the store in `path`, with `cache_bytes` of pages in memory.
    ///
    /// # Errors
    /// `InUse` if another process has it, `UnknownFormat`, `Corrupt` if what is there is not
    /// provably all that was acknowledged, `Io`.
    pub fn open(path: &Path, cache_bytes: u64) -> Result<Self, StoreError> {
        let directory = Directory::prepare(path)?;
        let lock = lock(path)?;
        let existed = directory.db_file().exists();
        let last_stop = directory.begin_start()?;
        if existed && !last_stop.orderly {
            directory.copy_aside()?;
        }
        let opened = open_verified(&directory, cache_bytes, last_stop.seal);
        let (shared, checkpointer) = opened.map_err(|error| directory.advise(error))?;
        directory.end_start()?;
        let shared = Arc::new(shared);
        let for_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("checkpointer".to_owned())
            .spawn(move || checkpointer.run(&for_thread))
            .map_err(|error| StoreError::io(path, &error))?;
        Ok(Self { shared, checkpointer: Mutex::new(Some(thread)), _lock: lock })
    }

    /// Stops in order: everything is in sled and on disk, and the next start need not copy anything
    /// aside.
    ///
    /// # Errors
    /// `Io`. A store that has stopped after a fault is not marked as clean.
    pub fn close(&self) -> Result<(), StoreError> {
        let shared = &self.shared;
        // A panic between write and answer: the head may be ahead of the witness.
        let panicked = shared.writer.is_poisoned();
        {
            let mut writer = shared.writer();
            if writer.closed {
                return Ok(());
            }
            writer.closed = true;
            writer.closing = true;
        }
        shared.wake.notify_all();
        let thread = self.checkpointer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let died = thread.is_some_and(|thread| thread.join().is_err());
        let mut writer = shared.writer();
        let stopped = writer.stopped.replace("the store is closed".to_owned());
        let mut engine = shared.engine.write().unwrap_or_else(PoisonError::into_inner);
        engine.close()?;
        if panicked || died || stopped.is_some() {
            return Ok(());
        }
        writer.witness.sync()?;
        shared.directory.check_no_blobs()?;
        shared.directory.settle()?;
        shared.directory.mark_clean(writer.head)
    }
}

impl Shared {
    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works with sled.
    pub(super) fn engine<T>(
        &self,
        work: impl FnOnce(&Engine) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let engine = self.engine.read().unwrap_or_else(PoisonError::into_inner);
        work(&engine)
    }

    fn check(&self, expect: Expectations) -> Result<(), StoreError> {
        let overlay = self.overlay.read().unwrap_or_else(PoisonError::into_inner);
        for (name, expect) in expect {
            let present = match overlay.get(&name) {
                Some(change) => change.operation.value().map(|_| change.position),
                None => {
                    let key = record::user_key(&name);
                    let found = self.engine(|engine| engine.get(&key))?;
                    match found {
                        Some(bytes) => Some(record::decode(&key, &bytes)?.position),
                        None => None,
                    }
                }
            };
            if !holds(expect, present) {
                return Err(StoreError::Conflict { key: name });
            }
        }
        Ok(())
    }

    fn carry_out(
        &self,
        writer: &mut Writer,
        batch: Batch,
        applied: &mut dyn FnMut(Position),
    ) -> Result<Position, StoreError> {
        let (expect, operations) = batch.into_operations()?;
        self.check(expect)?;
        let previous = writer.head.hash;
        let position = Position(writer.head.position.0.saturating_add(1));
        let hash = chain::link(&previous, position, &operations);
        let seal = Seal { position, hash };
        writer.journal.append(&previous, seal, &operations)?;
        {
            let mut overlay = self.overlay.write().unwrap_or_else(PoisonError::into_inner);
            overlay.active.absorb(position, operations);
            self.layer_bytes.store(overlay.active.bytes(), Ordering::Release);
        }
        writer.head = seal;
        applied(position);
        writer.journal.sync()?;
        writer.witness.testify(seal)?;
        self.position.store(position.0, Ordering::Release);
        Ok(position)
    }
}

impl Store for SledStore {
    fn durability(&self) -> Durability {
        Durability::Durable
    }

    fn position(&self) -> Position {
        Position(self.shared.position.load(Ordering::Acquire))
    }

    fn get(&self, key: &[u8]) -> Result<Option<Stored>, StoreError> {
        let overlay = self.shared.overlay.read().unwrap_or_else(PoisonError::into_inner);
        self.shared.engine(|engine| scan::get(engine, &overlay, key))
    }

    fn scan(
        &self,
        from: &[u8],
        to: &[u8],
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<(Key, Stored)>, StoreError> {
        if from >= to || limit == 0 {
            return Ok(Vec::new());
        }
        let overlay = self.shared.overlay.read().unwrap_or_else(PoisonError::into_inner);
        self.shared.engine(|engine| scan::scan(engine, &overlay, (from, to), direction, limit))
    }

    fn commit(
        &self,
        batch: Batch,
        applied: &mut dyn FnMut(Position),
    ) -> Result<Position, StoreError> {
        let shared = &self.shared;
        let Ok(mut writer) = shared.writer.lock() else {
            return Err(StoreError::Stopped { cause: "a commit panicked".to_owned() });
        };
        // Sled has to catch up before memory and journal grow without bound.
        while shared.layer_bytes.load(Ordering::Acquire) >= LAYER_BYTES_MAX
            && writer.stopped.is_none()
        {
            writer = shared.wake.wait(writer).unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(cause) = &writer.stopped {
            return Err(StoreError::Stopped { cause: cause.clone() });
        }
        let result = shared.carry_out(&mut writer, batch, applied);
        if let Err(error @ (StoreError::Io { .. } | StoreError::Corrupt { .. })) = &result {
            writer.stopped = Some(error.to_string());
        }
        if shared.is_layer_full() {
            shared.wake.notify_all();
        }
        result
    }
}

impl Drop for SledStore {
    fn drop(&mut self) {
        // Whoever cares for the result has called `close` before.
        let _ = self.close();
    }
}

/// Locks the directory. A process that was just killed may still hold it for a moment.
pub(super) fn lock(root: &Path) -> Result<File, StoreError> {
    let path = root.join("lock");
    let file = File::create(&path).map_err(|error| StoreError::io(&path, &error))?;
    let until = Instant::now() + LOCK_PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < until => {
                std::thread::sleep(LOCK_PAUSE);
            }
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::InUse { path: root.to_path_buf() });
            }
            Err(TryLockError::Error(error)) => return Err(StoreError::io(&path, &error)),
        }
    }
}

/// Opens sled's files and the journal, checks that they hold what was acknowledged, and nothing
/// else, and brings sled up to the journal.
fn open_verified(
    directory: &Directory,
    cache_bytes: u64,
    clean: Option<Seal>,
) -> Result<(Shared, Checkpointer), StoreError> {
    let engine = Engine::open(&directory.db(), cache_bytes)?;
    directory.check_no_blobs()?;
    directory.settle()?;
    let applied = match engine.get(&Applied::KEY)? {
        Some(bytes) => Applied::decode(&bytes)?,
        None => Applied::nothing(),
    };
    let tally = value::survey(&engine)?;
    if tally != applied.tally {
        return Err(StoreError::corrupt(format!(
            "group {} left {} records, and {} are there or some are not the same",
            applied.seal.position,
            applied.tally.records(),
            tally.records()
        )));
    }
    let (journal, entries) = Journal::load(directory.root(), applied.seal)?;
    let seals: Vec<Seal> = entries.iter().map(|entry| entry.seal).collect();
    let (witness, testified) = match Witness::load(&directory.witness())? {
        Some((witness, seal)) => (Some(witness), Some(seal)),
        None => (None, None),
    };
    let head = chain::judge(applied.seal, &seals, testified, clean, directory.is_begun())?;
    let witness = match witness {
        Some(witness) => witness,
        None => Witness::create(&directory.witness())?,
    };
    // Complete groups that were not acknowledged are kept from now on.
    witness.testify(head)?;
    witness.sync()?;
    let log = File::open(directory.db_file())
        .map_err(|error| StoreError::io(&directory.db_file(), &error))?;
    let mut checkpointer = Checkpointer { applied, known: Known::new(), log };
    let writer = Writer { head, journal, witness, stopped: None, closing: false, closed: false };
    let shared = Shared {
        writer: Mutex::new(writer),
        wake: Condvar::new(),
        overlay: RwLock::default(),
        engine: RwLock::new(engine),
        layer_bytes: AtomicUsize::new(0),
        position: AtomicU64::new(head.position.0),
        directory: directory.clone(),
    };
    let mut layer = Layer::default();
    for entry in entries {
        layer.absorb(entry.seal.position, entry.operations);
    }
    if head != applied.seal {
        checkpointer.carry_out(&shared, &layer, head)?;
    }
    Ok((shared, checkpointer))
}
