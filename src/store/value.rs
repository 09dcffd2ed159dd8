//! Values of any size as records of at most 4 KiB.
//!
//! Lives here: cutting a large value into chunks, joining it again, and counting what is stored. A
//! value that fits one record is exactly one sled key.
//!
//! ## Invariants
//! * The chunks of a value are written and removed in the batch that writes and removes its
//!   manifest. Chunk keys begin with the position of the group, so none is ever used twice.
//! * Readers and `survey` run while no batch is being applied.

use super::chain::Tally;
use super::engine::Engine;
use super::record::{CHUNK, GROUP, PAYLOAD_BYTES_MAX, Record, Shape, USER, user_key};
use super::{
    Direction, Expect, Expectations, Operations, Position, StoreError, Stored, holds, record,
};

/// The sled batch that carries out `operations` if all expectations hold, and the tally after it.
pub(super) fn plan(
    engine: &Engine,
    position: Position,
    operations: &Operations,
    mut expect: Expectations,
    mut tally: Tally,
) -> Result<(sled::Batch, Tally), StoreError> {
    let mut batch = sled::Batch::default();
    let mut chunk_next = 0;
    for (name, operation) in operations {
        let key = user_key(name);
        let found = engine.get(&key)?;
        let old = match &found {
            Some(bytes) => Some(record::decode(&key, bytes)?),
            None => None,
        };
        // One look serves the expectation and the tally.
        if let Some(expect) = expect.remove(name) {
            check(name, expect, old.as_ref())?;
        }
        if let Some(old) = old {
            tally.remove(&key, old.crc, old.position);
            for chunk in chunks_of(&key, &old)?.keys() {
                tally.remove(&chunk, 0, old.position);
                batch.remove(chunk);
            }
            if operation.is_none() {
                batch.remove(key.as_slice());
            }
        }
        let Some(value) = operation else { continue };
        let (bytes, crc) = if value.len() <= PAYLOAD_BYTES_MAX {
            record::encode(&key, Shape::Whole, position, value)
        } else {
            let chunks = Chunks::cut(value, position, chunk_next)?;
            for (chunk, part) in chunks.keys().zip(value.chunks(PAYLOAD_BYTES_MAX)) {
                let (bytes, _) = record::encode(&chunk, Shape::Chunk, position, part);
                tally.add(&chunk, 0, position);
                batch.insert(chunk, bytes);
            }
            chunk_next = chunks.first.saturating_add(chunks.count());
            record::encode(&key, Shape::Manifest, position, &chunks.encode())
        };
        tally.add(&key, crc, position);
        batch.insert(key, bytes);
    }
    for (name, expect) in expect {
        let key = user_key(&name);
        let found = engine.get(&key)?;
        let old = match &found {
            Some(bytes) => Some(record::decode(&key, bytes)?),
            None => None,
        };
        check(&name, expect, old.as_ref())?;
    }
    Ok((batch, tally))
}

fn check(name: &[u8], expect: Expect, old: Option<&Record<'_>>) -> Result<(), StoreError> {
    if holds(expect, old.map(|record| record.position)) {
        return Ok(());
    }
    Err(StoreError::Conflict { key: name.to_vec() })
}

/// The value that the record under a user key stands for.
pub(super) fn join(engine: &Engine, key: &[u8], bytes: &[u8]) -> Result<Stored, StoreError> {
    let record = record::decode(key, bytes)?;
    let position = record.position;
    if record.shape == Shape::Whole {
        return Ok(Stored { position, value: record.payload.to_vec() });
    }
    let chunks = chunks_of(key, &record)?;
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

/// Reads every record beside the group records, checks each, and counts them.
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
