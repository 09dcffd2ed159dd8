//! Reading through: sled, and over it what sled does not have yet.
//!
//! Lives here: one key and ranges of keys as a reader sees them. Invariant: of a key that is in
//! several places, the youngest change counts.

use std::iter::Peekable;

use super::engine::Engine;
use super::overlay::{Change, Merged, Overlay};
use super::record::{self, Record, user_key};
use super::series::Entry;
use super::{Direction, Key, Position, StoreError, Stored, series, value};

/// The present value of a key.
pub(super) fn get(
    engine: &Engine,
    overlay: &Overlay,
    name: &[u8],
) -> Result<Option<Stored>, StoreError> {
    if let Some(Change { position, operation }) = overlay.get(name) {
        let value = operation.value();
        return Ok(value.map(|value| stored(*position, value)));
    }
    let key = user_key(name);
    if let Some(bytes) = engine.get(&key)? {
        let record = record::decode(&key, &bytes)?;
        return match series::entries(name, &record)? {
            Some(entries) => Ok(entries.first().map(|entry| stored(entry.position, entry.value))),
            None => value::join(engine, &key, &record).map(Some),
        };
    }
    let Some((pack, bytes)) = pack_before(engine, name)? else { return Ok(None) };
    let record = record::decode(&user_key(&pack), &bytes)?;
    let entries = series::entries(&pack, &record)?.unwrap_or_default();
    let entry = entries.into_iter().find(|entry| entry.key == name);
    Ok(entry.map(|entry| stored(entry.position, entry.value)))
}

/// Keys in `[from, to)` with their present values, at most `limit`.
pub(super) fn scan(
    engine: &Engine,
    overlay: &Overlay,
    (from, to): (&[u8], &[u8]),
    direction: Direction,
    limit: usize,
) -> Result<Vec<(Key, Stored)>, StoreError> {
    let over = overlay.range(from, to, direction).peekable();
    let mut scan = Scan { engine, over, from, to, direction, limit, found: Vec::new() };
    // A pack that begins before the range may reach into it.
    let before = pack_before(engine, from)?;
    if let (Direction::Forward, Some((pack, bytes))) = (direction, &before) {
        scan.record(pack, bytes)?;
    }
    let (first, end) = (user_key(from), user_key(to));
    engine.visit(&first, &end, direction, &mut |key, bytes| {
        scan.record(key.get(1..).unwrap_or_default(), bytes)
    })?;
    if let (Direction::Reverse, Some((pack, bytes))) = (direction, &before) {
        scan.record(pack, bytes)?;
    }
    Ok(scan.finish())
}

/// The pack whose entries may come at or after `name`, if it begins before.
fn pack_before(engine: &Engine, name: &[u8]) -> Result<Option<(Key, sled::IVec)>, StoreError> {
    let Some((key, bytes)) = engine.before(&user_key(name))? else { return Ok(None) };
    let pack = key.get(1..).unwrap_or_default();
    Ok(series::may_hold(pack, name).then(|| (pack.to_vec(), bytes)))
}

fn stored(position: Position, value: &[u8]) -> Stored {
    Stored { position, value: value.to_vec() }
}

struct Scan<'a> {
    engine: &'a Engine,
    over: Peekable<Merged<'a>>,
    from: &'a [u8],
    to: &'a [u8],
    direction: Direction,
    limit: usize,
    found: Vec<(Key, Stored)>,
}

impl Scan<'_> {
    fn is_full(&self) -> bool {
        self.found.len() >= self.limit
    }

    /// Takes what a record of sled stands for; `false` once there is enough.
    fn record(&mut self, name: &[u8], bytes: &[u8]) -> Result<bool, StoreError> {
        let key = user_key(name);
        let record = record::decode(&key, bytes)?;
        let Some(mut entries) = series::entries(name, &record)? else {
            if self.above(name) {
                self.found.push((name.to_vec(), self.join(&key, &record)?));
            }
            return Ok(!self.is_full());
        };
        if self.direction == Direction::Reverse {
            entries.reverse();
        }
        for Entry { key, position, value } in entries {
            let in_range = self.from <= key.as_slice() && key.as_slice() < self.to;
            if in_range && self.above(&key) {
                self.found.push((key, stored(position, value)));
            }
            if self.is_full() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn join(&self, key: &[u8], record: &Record<'_>) -> Result<Stored, StoreError> {
        value::join(self.engine, key, record)
    }

    /// Takes what lies over sled up to `name`; `true` if sled's value of `name` still counts.
    fn above(&mut self, name: &[u8]) -> bool {
        let direction = self.direction;
        while !self.is_full() {
            let before = |(next, _): &(&Key, &Change)| direction.is_before(next, name);
            let Some((key, change)) = self.over.next_if(before) else { break };
            self.take(key, change);
        }
        if self.is_full() {
            return false;
        }
        match self.over.next_if(|(next, _)| next.as_slice() == name) {
            Some((key, change)) => {
                self.take(key, change);
                false
            }
            None => true,
        }
    }

    fn take(&mut self, key: &Key, change: &Change) {
        let value = change.operation.value();
        self.found.extend(value.map(|value| (key.clone(), stored(change.position, value))));
    }

    fn finish(mut self) -> Vec<(Key, Stored)> {
        while !self.is_full() {
            let Some((key, change)) = self.over.next() else { break };
            self.take(key, change);
        }
        self.found
    }
}
