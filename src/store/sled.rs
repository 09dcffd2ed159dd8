//! The store on disk: sled, our own sync, a chain of groups, and a witness.
//!
//! Lives here: opening, committing, closing. What each step relies on lives in its own room: the
//! directory's files (`directory`), records and chunks (`record`, `value`), chain and witness.
//!
//! ## Invariants
//! * A commit is: one sled batch with its group record, sled's flush, a sync of sled's log on a
//!   descriptor of our own, the witness with its sync. Only then it returns.
//! * A failed write, flush or sync stops the store for good.
//! * The store serves only when chain, witness and the tally of all records agree.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::Instant;

use super::chain::{self, Group, RING_GROUPS};
use super::directory::Directory;
use super::engine::{Engine, LOCK_PATIENCE, LOCK_PAUSE};
use super::record::GROUP;
use super::value::{self, Known};
use super::witness::{Seal, Witness};
use super::{Batch, Direction, Durability, Key, Position, Store, StoreError, Stored, record};

/// Bytes of pages that sled keeps in memory. Its heap is a multiple of it.
pub const CACHE_BYTES_DEFAULT: u64 = 64 << 20;

/// The store on disk.
pub struct SledStore {
    engine: RwLock<Engine>,
    /// Held by a scan and by the applying of a batch, so that a scan sees no group in part.
    whole: RwLock<()>,
    writer: Mutex<Writer>,
    position: AtomicU64,
    directory: Directory,
    /// Locked for the life of the store, so that a second process touches nothing.
    _lock: File,
}

struct Writer {
    head: Group,
    known: Known,
    witness: Witness,
    /// sled's log, opened once more: a failed write-back is told once to each descriptor.
    log: File,
    stopped: Option<String>,
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
        let (engine, writer) = opened.map_err(|error| directory.advise(error))?;
        directory.end_start()?;
        Ok(Self {
            engine: RwLock::new(engine),
            whole: RwLock::new(()),
            position: AtomicU64::new(writer.head.position.0),
            writer: Mutex::new(writer),
            directory,
            _lock: lock,
        })
    }

    /// Stops in order: everything is on disk and the next start need not copy anything aside.
    ///
    /// # Errors
    /// `Io`. A store that has stopped after a fault is not marked as clean.
    pub fn close(&self) -> Result<(), StoreError> {
        let writer = self.writer.lock();
        // A panic between write and answer: the head may be ahead of the witness.
        let panicked = writer.is_err();
        let mut writer = writer.unwrap_or_else(PoisonError::into_inner);
        if writer.closed {
            return Ok(());
        }
        writer.closed = true;
        let stopped = writer.stopped.replace("the store is closed".to_owned());
        let mut engine = self.engine.write().unwrap_or_else(PoisonError::into_inner);
        engine.close()?;
        if panicked || stopped.is_some() {
            return Ok(());
        }
        let path = self.directory.db_file();
        writer.log.sync_all().map_err(|error| StoreError::io(&path, &error))?;
        self.directory.check_no_blobs()?;
        self.directory.settle()?;
        self.directory.mark_clean(writer.head.seal())
    }

    fn read<T>(
        &self,
        work: impl FnOnce(&Engine) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let engine = self.engine.read().unwrap_or_else(PoisonError::into_inner);
        work(&engine)
    }

    fn carry_out(
        &self,
        writer: &mut Writer,
        batch: Batch,
        applied: &mut dyn FnMut(Position),
    ) -> Result<Position, StoreError> {
        let (expect, operations) = batch.into_operations()?;
        let position = Position(writer.head.position.0.saturating_add(1));
        self.read(|engine| {
            let known = &mut writer.known;
            let tally = writer.head.tally;
            let mut plan = value::plan(engine, known, position, &operations, expect, tally)?;
            let next = writer.head.next(position, &operations, plan.tally);
            let (key, bytes) = next.encode();
            plan.batch.insert(key, bytes);
            {
                let _whole = self.whole.write().unwrap_or_else(PoisonError::into_inner);
                engine.apply(plan.batch)?;
            }
            known.carried_out(plan.left);
            writer.head = next;
            Ok(())
        })?;
        applied(position);
        self.read(Engine::flush)?;
        let path = self.directory.db_file();
        writer.log.sync_data().map_err(|error| StoreError::io(&path, &error))?;
        if position.0.is_multiple_of(RING_GROUPS) {
            self.directory.check_no_blobs()?;
        }
        writer.witness.testify(writer.head.seal())?;
        self.position.store(position.0, Ordering::Release);
        Ok(position)
    }
}

impl Store for SledStore {
    fn durability(&self) -> Durability {
        Durability::Durable
    }

    fn position(&self) -> Position {
        Position(self.position.load(Ordering::Acquire))
    }

    fn get(&self, key: &[u8]) -> Result<Option<Stored>, StoreError> {
        let key = record::user_key(key);
        let _whole = self.whole.read().unwrap_or_else(PoisonError::into_inner);
        self.read(|engine| match engine.get(&key)? {
            Some(bytes) => value::join(engine, &key, &bytes).map(Some),
            None => Ok(None),
        })
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
        let (from, to) = (record::user_key(from), record::user_key(to));
        let _whole = self.whole.read().unwrap_or_else(PoisonError::into_inner);
        self.read(|engine| {
            let mut found = Vec::new();
            engine.visit(&from, &to, direction, &mut |key, bytes| {
                let name = key.get(1..).unwrap_or_default().to_vec();
                found.push((name, value::join(engine, key, bytes)?));
                Ok(found.len() < limit)
            })?;
            Ok(found)
        })
    }

    fn commit(
        &self,
        batch: Batch,
        applied: &mut dyn FnMut(Position),
    ) -> Result<Position, StoreError> {
        let Ok(mut writer) = self.writer.lock() else {
            return Err(StoreError::Stopped { cause: "a commit panicked".to_owned() });
        };
        if let Some(cause) = &writer.stopped {
            return Err(StoreError::Stopped { cause: cause.clone() });
        }
        let result = self.carry_out(&mut writer, batch, applied);
        if let Err(error @ (StoreError::Io { .. } | StoreError::Corrupt { .. })) = &result {
            writer.stopped = Some(error.to_string());
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
fn lock(root: &Path) -> Result<File, StoreError> {
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

/// Opens sled's files and checks that they hold what was acknowledged, and nothing else.
fn open_verified(
    directory: &Directory,
    cache_bytes: u64,
    clean: Option<Seal>,
) -> Result<(Engine, Writer), StoreError> {
    let engine = Engine::open(&directory.db(), cache_bytes)?;
    directory.check_no_blobs()?;
    directory.settle()?;
    let ring = chain::ring(groups(&engine)?)?;
    let (witness, seal) = match Witness::load(&directory.witness())? {
        Some((witness, seal)) => (Some(witness), Some(seal)),
        None => (None, None),
    };
    chain::judge(&ring, seal, clean)?;
    let head = ring.last().cloned().unwrap_or_else(Group::genesis);
    let tally = value::survey(&engine)?;
    if tally != head.tally {
        return Err(StoreError::corrupt(format!(
            "group {} left {} records, and {} are there or some are not the same",
            head.position,
            head.tally.records(),
            tally.records()
        )));
    }
    let witness = match witness {
        Some(witness) => witness,
        None => Witness::create(&directory.witness())?,
    };
    let log = File::open(directory.db_file())
        .map_err(|error| StoreError::io(&directory.db_file(), &error))?;
    // Complete groups that were not acknowledged are kept from now on.
    log.sync_data().map_err(|error| StoreError::io(&directory.db_file(), &error))?;
    witness.testify(head.seal())?;
    let known = Known::new();
    Ok((engine, Writer { head, known, witness, log, stopped: None, closed: false }))
}

fn groups(engine: &Engine) -> Result<Vec<Group>, StoreError> {
    let mut groups = Vec::new();
    engine.visit(&[GROUP], &[GROUP.saturating_add(1)], Direction::Forward, &mut |key, bytes| {
        groups.push(Group::decode(key, bytes)?);
        Ok(true)
    })?;
    Ok(groups)
}
