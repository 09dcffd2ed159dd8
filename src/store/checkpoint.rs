//! Checkpoints: what is in the journal goes to sled, behind the answers.
//!
//! Lives here: the thread that moves a layer of changes into sled, and when. What does not:
//! committing and reading (`sled`), the sled batch (`value`).
//!
//! ## Invariants
//! * A checkpoint is: the witness synced, the journal's other file begun, the layer frozen; one
//!   sled batch with the record of how far sled is; sled's flush; a sync of sled's log on a
//!   descriptor of our own. Only then the frozen layer goes, and its file may be written over.
//! * A failed write, flush or sync stops the store for good.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::StoreError;
use super::chain::Applied;
use super::overlay::Layer;
use super::sled::{Shared, Writer};
use super::value::{self, Known};
use super::witness::Seal;

/// A layer of this size is moved at once. It bounds the time for which sled keeps readers waiting
/// while it takes the batch: some 20 ms.
const LAYER_BYTES: usize = 4 << 20;

/// A layer that is smaller waits this long at most, so that a start has little to do.
const PERIOD: Duration = Duration::from_secs(1);

/// A commit waits while the layer that it would write to is larger, until sled has caught up. It
/// bounds memory, journal and the work of a start.
pub(super) const LAYER_BYTES_MAX: usize = 64 << 20;

/// What a checkpoint works with.
pub(super) struct Checkpointer {
    pub(super) applied: Applied,
    pub(super) known: Known,
    /// sled's log, opened once more: a failed write-back is told once to each descriptor.
    pub(super) log: File,
}

impl Checkpointer {
    /// Works until the store is closed or stops. A store that is closed in order has everything in
    /// sled then.
    pub(super) fn run(self, shared: &Shared) {
        let ended = catch_unwind(AssertUnwindSafe(|| self.work(shared)));
        if ended.is_err() {
            // Or commits would wait for ever.
            let mut writer = shared.writer.lock().unwrap_or_else(PoisonError::into_inner);
            writer.stopped.get_or_insert_with(|| "a checkpoint panicked".to_owned());
            shared.wake.notify_all();
        }
    }

    fn work(mut self, shared: &Shared) {
        loop {
            // Who has panicked with the writer in hand has stopped the store.
            let Some(mut writer) = shared.due() else { return };
            let ends = writer.closing;
            let upto = writer.head;
            let frozen =
                if upto == self.applied.seal { Ok(None) } else { freeze(shared, &mut writer) };
            drop(writer);
            let result = frozen.and_then(|layer| match layer {
                Some(layer) => self.carry_out(shared, &layer, upto),
                None => Ok(()),
            });
            let mut writer = shared.writer.lock().unwrap_or_else(PoisonError::into_inner);
            match result {
                Ok(()) => {
                    let mut overlay =
                        shared.overlay.write().unwrap_or_else(PoisonError::into_inner);
                    overlay.frozen = None;
                }
                Err(error) => {
                    writer.stopped.get_or_insert_with(|| error.to_string());
                }
            }
            shared.wake.notify_all();
            if ends || writer.stopped.is_some() {
                return;
            }
        }
    }

    /// Moves a layer into sled; it is on disk there when this returns `Ok`.
    pub(super) fn carry_out(
        &mut self,
        shared: &Shared,
        layer: &Layer,
        upto: Seal,
    ) -> Result<(), StoreError> {
        let mut plan =
            shared.engine(|engine| value::plan(engine, &self.known, layer, self.applied.tally))?;
        let applied = Applied { seal: upto, tally: plan.tally };
        plan.batch.insert(&Applied::KEY, applied.encode());
        shared.engine(|engine| {
            engine.apply(plan.batch)?;
            engine.flush()
        })?;
        let path = shared.directory.db_file();
        self.log.sync_data().map_err(|error| StoreError::io(&path, &error))?;
        shared.directory.check_no_blobs()?;
        self.known.carried_out(plan.left);
        self.applied = applied;
        Ok(())
    }
}

/// Takes the layer out of the way of commits, and the journal with it.
fn freeze(shared: &Shared, writer: &mut Writer) -> Result<Option<Arc<Layer>>, StoreError> {
    writer.witness.sync()?;
    writer.journal.turn()?;
    let mut overlay = shared.overlay.write().unwrap_or_else(PoisonError::into_inner);
    let layer = Arc::new(std::mem::take(&mut overlay.active));
    overlay.frozen = Some(Arc::clone(&layer));
    shared.layer_bytes.store(0, Ordering::Release);
    Ok(Some(layer))
}

impl Shared {
    /// Waits until a checkpoint is due; nothing if the store has stopped.
    fn due(&self) -> Option<MutexGuard<'_, Writer>> {
        let mut writer = self.writer.lock().ok()?;
        let until = Instant::now() + PERIOD;
        loop {
            if writer.stopped.is_some() {
                return None;
            }
            let left = until.saturating_duration_since(Instant::now());
            let full = self.layer_bytes.load(Ordering::Acquire) >= LAYER_BYTES;
            if writer.closing || full || left.is_zero() {
                return Some(writer);
            }
            writer = self.wake.wait_timeout(writer, left).ok()?.0;
        }
    }

    /// True if the checkpoint should not wait for its time.
    pub(super) fn is_layer_full(&self) -> bool {
        self.layer_bytes.load(Ordering::Acquire) >= LAYER_BYTES
    }
}
