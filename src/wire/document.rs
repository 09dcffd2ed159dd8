//! Documents: messages that are kept whole under their canonical digest.
//!
//! Invariant: the digest is over the canonical form of exactly what is stored.

use prost::{Message, Name};

use crate::core::digest::Digest;
use crate::proto::baton::store::v1 as store;

use super::StoredError;
use super::canon::{self, CanonError};
use super::record::decode;

/// A document in its stored form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Its canonical digest.
    pub digest: Digest,
    /// Its encoded form.
    pub bytes: Vec<u8>,
}

/// Seals a message as a document.
///
/// # Errors
/// A field has no canonical form, for example an unknown enum value; the error names it.
pub fn seal<M: Message + Name>(message: &M) -> Result<Sealed, CanonError> {
    let bytes = message.encode_to_vec();
    Ok(Sealed { digest: canon::digest_of_encoded::<M>(&bytes)?, bytes })
}

/// Seals a free text.
///
/// # Errors
/// As [`seal`].
pub fn note(text: &str) -> Result<Sealed, CanonError> {
    seal(&store::Note { text: text.to_owned() })
}

/// Reads a free text.
///
/// # Errors
/// The bytes are no note.
pub fn read_note(bytes: &[u8]) -> Result<String, StoredError> {
    Ok(decode::<store::Note>("Note", bytes)?.text)
}
