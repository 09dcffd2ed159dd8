//! Digests and the two counters of a task.
//!
//! What lives here: the values and their text form. What does not: what is digested
//! (canonical bytes are made elsewhere).
//!
//! Invariant: a digest has one spelling, so equality of text is equality of bytes.

use std::fmt;

use sha2::{Digest as _, Sha256};

use super::id::echo;

const PREFIX: &str = "sha256:";

/// Why a text is not a digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("digest {value:?} is not valid: {problem}; send sha256: and 64 lower-case hex digits")]
pub struct DigestError {
    value: String,
    problem: &'static str,
}

/// A SHA-256 digest, written `sha256:` and 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// A digest that was computed or stored elsewhere.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Reads `sha256:<64 lower-case hex digits>`; other algorithms, lengths and upper case are
    /// refused, so that one digest has one spelling.
    pub fn parse(text: &str) -> Result<Self, DigestError> {
        let refuse = |problem| Err(DigestError { value: echo(text), problem });
        let Some(hex) = text.strip_prefix(PREFIX) else {
            return refuse("it does not begin with sha256:");
        };
        if hex.len() != 64 {
            return refuse("it has not 64 hex digits");
        }
        if hex.bytes().any(|b| matches!(b, b'A'..=b'F')) {
            return refuse("it has upper-case hex digits, write them in lower case");
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
            let value = pair.iter().try_fold(0_u8, |high, &c| Some(high << 4 | nibble(c)?));
            let Some(value) = value else {
                return refuse("it has a character that is no hex digit");
            };
            *byte = value;
        }
        Ok(Self(bytes))
    }
}

fn nibble(c: u8) -> Option<u8> {
    match c {
        b'0'..=b'9' => Some(c - b'0'),
        b'a'..=b'f' => Some(c - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A digest is written several times a call, so its digits go out in one piece.
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            for (digit, nibble) in pair.iter_mut().zip([byte >> 4, byte & 0xf]) {
                *digit = DIGITS.get(usize::from(nibble)).copied().unwrap_or(b'0');
            }
        }
        f.write_str(PREFIX)?;
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The fencing token of an owner's writes: rises by one with each change of owner or instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(u64);

/// Rises by one with each committed change of a task's state; the subject of compare-and-swap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(u64);

impl Epoch {
    /// The counter at `value`.
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The next one. Saturates at `u64::MAX`, which one change a nanosecond reaches after
    /// 584 years; saturating keeps arithmetic free of panics.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl Revision {
    /// The counter at `value`.
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The next one. Saturates at `u64::MAX`, as [`Epoch::next`].
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // A receiver computes the digest with a library of its own; the value must be the standard's.
    #[test]
    fn a_digest_is_sha_256() {
        assert_eq!(
            Digest::of(b"abc").to_string(),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    // Two spellings of one digest would make an honest receipt a mismatch.
    #[test]
    fn a_digest_has_one_spelling() {
        let good = Digest::of(b"").to_string();
        let bad = [
            good.to_uppercase(),
            good.replace("e3", "E3"),
            good.replace("sha256:", ""),
            good.replace("sha256", "sha512"),
            good.replace("e3", "g3"),
            format!("{good}0"),
            good[..70].to_owned(),
            String::new(),
            format!("sha256:{}", "\u{e4}".repeat(32)),
        ];
        for text in bad {
            let error = Digest::parse(&text).unwrap_err().to_string();
            assert!(error.contains("64 lower-case hex digits"), "{error}");
        }
    }

    // A counter that wrapped would let an old owner write again.
    #[test]
    fn counters_rise_and_never_wrap() {
        assert_eq!(Epoch::new(1).next(), Epoch::new(2));
        assert_eq!(Epoch::new(u64::MAX).next(), Epoch::new(u64::MAX));
        assert_eq!(Revision::new(u64::MAX).next().to_string(), u64::MAX.to_string());
    }

    proptest! {
        // A stored digest that does not read back would orphan what it names.
        #[test]
        fn a_printed_digest_reads_back(bytes: [u8; 32]) {
            let digest = Digest::from_bytes(bytes);
            prop_assert_eq!(Digest::parse(&digest.to_string()).unwrap(), digest);
        }
    }
}
