//! The frame around everything that is handed to sled.
//!
//! Lives here: the byte layout of a record, and the first byte that keeps logical keys and internal
//! keys apart. A record proves that it belongs to its key and is whole, because sled cannot tell
//! damage from the end of its log.
//!
//! ```text
//! offset  bytes  field
//!      0      1  format, 1
//!      1      1  shape: 1 whole value, 2 manifest of a chunked value, 3 chunk, 4 the group record,
//!                    5 entries of a series
//!      2      4  CRC-32, big-endian, of sled key, shape, position and payload
//!      6      8  position of the group that wrote it, big-endian
//!     14      -  payload
//! ```

use super::{Position, StoreError};

/// First byte of the sled key of a logical key.
pub(super) const USER: u8 = b'u';
/// First byte of the sled key of a chunk; the position of its group (8 bytes) and a number of its
/// own (4) follow.
pub(super) const CHUNK: u8 = b'c';
/// The sled key of the group record: how far sled is.
pub(super) const GROUP: u8 = b'g';

/// Bytes of the frame.
pub(super) const FRAME_BYTES: usize = 14;

/// Largest record, in bytes, frame included. sled moves larger index pages into files that it
/// never syncs: measured from values of 8 KiB on, never up to 7 KiB.
pub(super) const RECORD_BYTES_MAX: usize = 4096;

/// Largest payload of one record, in bytes.
pub(super) const PAYLOAD_BYTES_MAX: usize = RECORD_BYTES_MAX - FRAME_BYTES;

const FORMAT: u8 = 1;

/// What the payload of a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Whole = 1,
    Manifest = 2,
    Chunk = 3,
    Group = 4,
    Pack = 5,
}

/// A record that was checked against its key.
#[derive(Debug)]
pub(super) struct Record<'a> {
    pub(super) shape: Shape,
    pub(super) crc: u32,
    pub(super) position: Position,
    pub(super) payload: &'a [u8],
}

/// The framed bytes and their checksum.
pub(super) fn encode(
    key: &[u8],
    shape: Shape,
    position: Position,
    payload: &[u8],
) -> (Vec<u8>, u32) {
    let crc = checksum(key, shape, position, payload);
    let mut bytes = Vec::with_capacity(FRAME_BYTES + payload.len());
    bytes.extend([FORMAT, shape as u8]);
    bytes.extend(crc.to_be_bytes());
    bytes.extend(position.0.to_be_bytes());
    bytes.extend(payload);
    debug_assert!(bytes.len() <= RECORD_BYTES_MAX, "a record of {} bytes", bytes.len());
    (bytes, crc)
}

/// Reads a frame; what is not whole, not of this key, or of an unknown format is `Corrupt`.
pub(super) fn decode<'a>(key: &[u8], bytes: &'a [u8]) -> Result<Record<'a>, StoreError> {
    let damaged =
        |what: String| StoreError::corrupt(format!("record of key {}: {what}", key.escape_ascii()));
    let Some((&[format, shape, c0, c1, c2, c3, position @ ..], payload)) =
        bytes.split_first_chunk::<FRAME_BYTES>()
    else {
        return Err(damaged(format!("{} bytes are shorter than a frame", bytes.len())));
    };
    if format != FORMAT {
        return Err(damaged(format!("format {format} is unknown, {FORMAT} is known")));
    }
    let shape = match shape {
        1 => Shape::Whole,
        2 => Shape::Manifest,
        3 => Shape::Chunk,
        4 => Shape::Group,
        5 => Shape::Pack,
        other => return Err(damaged(format!("shape {other} is unknown"))),
    };
    let crc = u32::from_be_bytes([c0, c1, c2, c3]);
    let position = Position(u64::from_be_bytes(position));
    let computed = checksum(key, shape, position, payload);
    if crc != computed {
        return Err(damaged(format!("checksum {crc:08x} does not match {computed:08x}")));
    }
    Ok(Record { shape, crc, position, payload })
}

fn checksum(key: &[u8], shape: Shape, position: Position, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key);
    hasher.update(&[shape as u8]);
    hasher.update(&position.0.to_be_bytes());
    hasher.update(payload);
    hasher.finalize()
}

/// The sled key of a logical key.
pub(super) fn user_key(key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + key.len());
    bytes.push(USER);
    bytes.extend(key);
    bytes
}
