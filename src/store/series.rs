//! Entries of a series, several to a record.
//!
//! Lives here: packing entries and finding them again. What does not: when they are written
//! (`value`), merging with what is not in sled yet (`scan`). Reason: sled's cost is one of keys,
//! and a task's events come many to a checkpoint and are read one after the other.
//!
//! An entry's key is its series and a number of 8 bytes, big-endian. A pack stands under the key of
//! its first entry; its payload is a list of number (8 bytes), group (8 bytes), length (4 bytes)
//! and value.
//!
//! ## Invariants
//! * A pack holds entries of one series with rising numbers, and no entry between them is anywhere
//!   else. So the entry of a key is in the pack whose key comes last before it, or nowhere.
//! * Entries are never changed or removed.

use super::record::{PAYLOAD_BYTES_MAX, Record, Shape};
use super::{Key, Position, StoreError};

/// Bytes of the number at the end of an entry's key.
const NUMBER_BYTES: usize = 8;

/// Bytes that an entry takes beside its value.
const ENTRY_BYTES: usize = NUMBER_BYTES + 8 + 4;

/// Entries that are packed until the record is full or another series begins.
#[derive(Debug, Default)]
pub(super) struct Pack {
    key: Key,
    payload: Vec<u8>,
    newest: Position,
}

/// An entry as a pack has it.
pub(super) struct Entry<'a> {
    pub(super) key: Key,
    pub(super) position: Position,
    pub(super) value: &'a [u8],
}

impl Pack {
    /// Takes the entry in; `false` if it does not belong to this pack or has no room in it.
    pub(super) fn take(&mut self, key: &[u8], position: Position, value: &[u8]) -> bool {
        let Some((series, number)) = key.split_last_chunk::<NUMBER_BYTES>() else { return false };
        let Ok(length) = u32::try_from(value.len()) else { return false };
        let bytes = self.payload.len().saturating_add(ENTRY_BYTES).saturating_add(value.len());
        let fits = bytes <= PAYLOAD_BYTES_MAX && (self.key.is_empty() || self.is_of(series));
        if !fits {
            return false;
        }
        if self.key.is_empty() {
            self.key = key.to_vec();
        }
        self.newest = self.newest.max(position);
        self.payload.extend(number);
        self.payload.extend(position.0.to_be_bytes());
        self.payload.extend(length.to_be_bytes());
        self.payload.extend(value);
        true
    }

    fn is_of(&self, series: &[u8]) -> bool {
        self.key.split_last_chunk::<NUMBER_BYTES>().is_some_and(|(own, _)| own == series)
    }

    /// Key, position of the newest entry and payload, unless it is empty; then it begins anew.
    pub(super) fn close(&mut self) -> Option<(Key, Position, Vec<u8>)> {
        let Self { key, payload, newest } = std::mem::take(self);
        (!key.is_empty()).then_some((key, newest, payload))
    }
}

/// The entries of a record under `key`, if it is a pack, in order.
pub(super) fn entries<'a>(
    key: &[u8],
    record: &Record<'a>,
) -> Result<Option<Vec<Entry<'a>>>, StoreError> {
    if record.shape != Shape::Pack {
        return Ok(None);
    }
    let read = || {
        let (series, _) = key.split_last_chunk::<NUMBER_BYTES>()?;
        let mut entries = Vec::new();
        let mut rest = record.payload;
        while !rest.is_empty() {
            let (number, tail) = rest.split_first_chunk::<NUMBER_BYTES>()?;
            let (position, tail) = tail.split_first_chunk::<8>()?;
            let (length, tail) = tail.split_first_chunk::<4>()?;
            let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
            let (value, tail) = tail.split_at_checked(length)?;
            let key = series.iter().chain(number).copied().collect();
            let position = Position(u64::from_be_bytes(*position));
            entries.push(Entry { key, position, value });
            rest = tail;
        }
        Some(entries)
    };
    read().map(Some).ok_or_else(|| {
        StoreError::corrupt(format!("record of key {}: is no pack", key.escape_ascii()))
    })
}

/// True if the entry of `key` could be in a pack under `pack`.
pub(super) fn may_hold(pack: &[u8], key: &[u8]) -> bool {
    let series = |key: &[u8]| key.len().checked_sub(NUMBER_BYTES);
    pack.len() == key.len()
        && series(key).is_some_and(|end| pack.get(..end) == key.get(..end))
        && pack <= key
}

#[cfg(test)]
mod tests {
    use super::{Pack, may_hold};
    use crate::store::Position;

    fn key(series: &str, number: u64) -> Vec<u8> {
        [series.as_bytes(), &number.to_be_bytes()].concat()
    }

    // An entry in the pack of another series would be another task's event.
    #[test]
    fn a_pack_takes_one_series_up_to_its_size() {
        let mut pack = Pack::default();
        assert!(pack.take(&key("a", 1), Position(7), &[1; 2000]));
        assert!(pack.take(&key("a", 2), Position(7), &[2; 2000]));
        assert!(!pack.take(&key("a", 3), Position(7), &[3; 2000]), "full");
        assert!(!pack.take(&key("b", 3), Position(7), &[3; 2]), "another series");
        let (first, newest, payload) = pack.close().unwrap();
        assert_eq!((first, newest, payload.len()), (key("a", 1), Position(7), 4040));
        assert!(pack.close().is_none());
        assert!(!pack.take(&key("a", 3), Position(7), &[3; 5000]), "too large for any");
        assert!(pack.take(&key("b", 3), Position(7), &[3; 2]));
    }

    #[test]
    fn an_entry_is_looked_for_in_its_own_series() {
        assert!(may_hold(&key("a", 1), &key("a", 7)));
        assert!(!may_hold(&key("a", 8), &key("a", 7)));
        assert!(!may_hold(&key("a", 1), &key("b", 7)));
        assert!(!may_hold(b"x", b"y"));
    }
}
