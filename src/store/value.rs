//! Values of any size as records of at most 4 KiB.
//!
//! Lives here: cutting a large value into chunks, joining it again, and counting what is stored. A
//! value that fits one record is exactly one sled key.
//!
//! ## Invariants
//! * The chunks of a value are written and removed in the batch that writes and removes its
//!   manifest. Chunk keys begin with the position of the group, so none is ever used twice.
//! * Readers and `survey` run while no batch is being applied.

use super::cache::Cache;
use super::chain::Tally;
use super::engine::Engine;
use super::overlay::{Change, Layer};
use super::record::{CHUNK, GROUP, PAYLOAD_BYTES_MAX, Record, Shape, USER, user_key};
use super::series::Pack;
use super::{Direction, Operation, Position, StoreError, Stored, record};

/// Half of the keys whose present record is known without asking sled.
const KNOWN_HALF: usize = 8192;

/// What stands under a user key.
#[derive(Clone, Copy, Debug)]
struct Present {
    crc: u32,
    position: Position,
    chunks: Chunks,
}

impl Present {
    fn read(key: &[u8], bytes: &[u8]) -> Result<Self, StoreError> {
        let record = record::decode(key, bytes)?;
        Ok(Self { crc: record.crc, position: record.position, chunks: chunks_of(key, &record)? })
    }
}

/// What the writer itself wrote or removed last under the keys that it used last. A look into sled
/// costs as much as half a write, and most keys that change have changed a moment ago.
pub(super) struct Known(Cache<Vec<u8>, Option<Present>>);

impl Known {
    pub(super) fn new() -> Self {
        Self(Cache::new(KNOWN_HALF))
    }

    /// Takes over what a plan left behind, once it was carried out.
    pub(super) fn carried_out(&mut self, left: Left) {
        for (key, present) in left.0 {
            self.0.insert(key, present);
        }
    }

    fn has(&self, key: &[u8]) -> bool {
        self.0.get_by(key).is_some()
    }

    fn present(&self, engine: &Engine, key: &[u8]) -> Result<Option<Present>, StoreError> {
        if let Some(known) = self.0.get_by(key) {
            return Ok(*known);
        }
        engine.get(key)?.map(|bytes| Present::read(key, &bytes)).transpose()
    }
}

/// What will stand under the keys of a plan.
pub(super) struct Left(Vec<(Vec<u8>, Option<Present>)>);

/// What carries out the operations of a group.
pub(super) struct Plan {
    pub(super) batch: sled::Batch,
    pub(super) tally: Tally,
    pub(super) left: Left,
}

/// The plan that carries out the changes of a layer. `tally` is the one before it.
pub(super) fn plan(
    engine: &Engine,
    known: &Known,
    layer: &Layer,
    tally: Tally,
) -> Result<Plan, StoreError> {
    let changes = layer.changes();
    let mut plan = Plan { batch: sled::Batch::default(), tally, left: Left(Vec::new()) };
    let mut chunk_next = 0;
    let mut pack = Pack::default();
    for (name, Change { position, operation }) in changes {
        if let Operation::Append(value) = operation {
            if pack.take(name, *position, value) {
                continue;
            }
            plan.pack(&mut pack);
            if pack.take(name, *position, value) {
                continue;
            }
        }
        let key = user_key(name);
        let old = match operation {
            Operation::Add(_) | Operation::Append(_) => {
                debug_assert!(engine.get(&key)?.is_none(), "{} is not new", name.escape_ascii());
                None
            }
            Operation::Put(_) | Operation::Delete => known.present(engine, &key)?,
        };
        if let Some(old) = old {
            plan.clear(&key, &old);
        }
        let present = match operation.value() {
            Some(value) => Some(plan.write(&key, value, *position, &mut chunk_next)?),
            None => {
                if old.is_some() {
                    plan.batch.remove(key.as_slice());
                }
                None
            }
        };
        // What is new is seldom changed again.
        if !matches!(operation, Operation::Add(_) | Operation::Append(_)) || known.has(&key) {
            plan.left.0.push((key, present));
        }
    }
    plan.pack(&mut pack);
    Ok(plan)
}

impl Plan {
    /// Writes the entries that were packed, if there are any.
    fn pack(&mut self, pack: &mut Pack) {
        let Some((name, newest, payload)) = pack.close() else { return };
        let key = user_key(&name);
        let (bytes, crc) = record::encode(&key, Shape::Pack, newest, &payload);
        self.tally.add(&key, crc, newest);
        self.batch.insert(key, bytes);
    }

    /// Takes out of the tally what is written over or removed, and its chunks out of the store.
    fn clear(&mut self, key: &[u8], old: &Present) {
        self.tally.remove(key, old.crc, old.position);
        for chunk in old.chunks.keys() {
            self.tally.remove(&chunk, 0, old.position);
            self.batch.remove(chunk);
        }
    }

    fn write(
        &mut self,
        key: &[u8],
        value: &[u8],
        position: Position,
        chunk_next: &mut u32,
    ) -> Result<Present, StoreError> {
        let mut chunks = Chunks { position, value_bytes: 0, first: 0 };
        let (bytes, crc) = if value.len() <= PAYLOAD_BYTES_MAX {
            record::encode(key, Shape::Whole, position, value)
        } else {
            chunks = Chunks::cut(value, position, *chunk_next)?;
            for (chunk, part) in chunks.keys().zip(value.chunks(PAYLOAD_BYTES_MAX)) {
                let (bytes, _) = record::encode(&chunk, Shape::Chunk, position, part);
                self.tally.add(&chunk, 0, position);
                self.batch.insert(chunk, bytes);
            }
            *chunk_next = chunks.first.saturating_add(chunks.count());
            record::encode(key, Shape::Manifest, position, &chunks.encode())
        };
        self.tally.add(key, crc, position);
        self.batch.insert(key, bytes);
        Ok(Present { crc, position, chunks })
    }
}

/// The value that the record under a user key stands for.
pub(super) fn join(engine: &Engine, key: &[u8], record: &Record<'_>) -> Result<Stored, StoreError> {
    let position = record.position;
    if record.shape == Shape::Whole {
        return Ok(Stored { position, value: record.payload.to_vec() });
    }
    let chunks = chunks_of(key, record)?;
    let mut value = Vec::new();
    for chunk in chunks.keys() {
        let Some(bytes) = engine.get(&chunk)? else {
            return Err(damaged(key, "a part of the value is missing"));
        };
        let part = record::decode(&chunk, &bytes)?;
        if part.shape != Shape::Chunk || part.position != position {
            return Err(damaged(key, "a part of the value belongs to another value"));
        }
        value.extend(part.payload);
    }
    if value.len() != usize::try_from(chunks.value_bytes).unwrap_or(usize::MAX) {
        return Err(damaged(key, "the parts of the value have the wrong length"));
    }
    Ok(Stored { position, value })
}

/// Reads every record beside the group record, checks each, and counts them.
pub(super) fn survey(engine: &Engine) -> Result<Tally, StoreError> {
    let mut tally = Tally::default();
    engine.visit(&[], &[u8::MAX], Direction::Forward, &mut |key, bytes| {
        match key.first() {
            Some(&USER) => {
                let record = record::decode(key, bytes)?;
                tally.add(key, record.crc, record.position);
            }
            Some(&CHUNK) => tally.add(key, 0, record::decode(key, bytes)?.position),
            Some(&GROUP) => {}
            _ => return Err(damaged(key, "the kind of key is unknown")),
        }
        Ok(true)
    })?;
    Ok(tally)
}

/// The chunks of a large value; nothing for a whole one.
#[derive(Clone, Copy, Debug)]
struct Chunks {
    position: Position,
    value_bytes: u32,
    first: u32,
}

impl Chunks {
    fn cut(value: &[u8], position: Position, first: u32) -> Result<Self, StoreError> {
        let bytes_max = usize::try_from(u32::MAX).unwrap_or(usize::MAX);
        let too_large = |_| StoreError::TooLarge { what: "value", bytes: value.len(), bytes_max };
        let value_bytes = u32::try_from(value.len()).map_err(too_large)?;
        Ok(Self { position, value_bytes, first })
    }

    fn count(&self) -> u32 {
        let part_bytes = u32::try_from(PAYLOAD_BYTES_MAX).unwrap_or(u32::MAX);
        self.value_bytes.div_ceil(part_bytes)
    }

    fn keys(&self) -> impl Iterator<Item = Vec<u8>> {
        let (position, first) = (self.position, self.first);
        (first..first.saturating_add(self.count())).map(move |number| {
            let mut key = Vec::with_capacity(13);
            key.push(CHUNK);
            key.extend(position.0.to_be_bytes());
            key.extend(number.to_be_bytes());
            key
        })
    }

    /// Payload of the manifest: bytes of the value, number of the first chunk.
    fn encode(&self) -> [u8; 8] {
        (u64::from(self.value_bytes) << 32 | u64::from(self.first)).to_be_bytes()
    }
}

fn chunks_of(key: &[u8], record: &Record<'_>) -> Result<Chunks, StoreError> {
    let position = record.position;
    match (record.shape, record.payload) {
        (Shape::Whole, _) => Ok(Chunks { position, value_bytes: 0, first: 0 }),
        (Shape::Manifest, &[b0, b1, b2, b3, f0, f1, f2, f3]) => Ok(Chunks {
            position,
            value_bytes: u32::from_be_bytes([b0, b1, b2, b3]),
            first: u32::from_be_bytes([f0, f1, f2, f3]),
        }),
        _ => Err(damaged(key, "the record is neither a value nor a manifest")),
    }
}

fn damaged(key: &[u8], what: &str) -> StoreError {
    StoreError::corrupt(format!("record of key {}: {what}", key.escape_ascii()))
}
