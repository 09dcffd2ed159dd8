//! Withholding: the view of a packet that a receiver of a blind offer gets before its receipt.
//!
//! What lives here: leaving out expected digests and masking every other occurrence of them. What
//! does not: whether an offer is blind (`core::offer`). Invariant: no byte of the view spells a
//! withheld digest, in any field, in upper or lower case.

use prost_reflect::{DynamicMessage, Value};

use crate::core::digest::Digest;
use crate::proto::baton::v1 as pb;
use pb::artifact_descriptor_list_field::State as ArtifactsState;
use pb::source_snapshot_field::State as SnapshotState;

use super::canon::{self, CanonError};

/// What stands where a withheld value stood.
pub const MASK: &str = "[withheld]";

/// Hexadecimal digits of a digest.
const DIGITS: usize = 64;

/// Texts of withheld digests, to be found in other texts.
#[derive(Clone, Debug, Default)]
pub struct Withheld(Vec<String>);

impl Withheld {
    /// The digests to withhold.
    pub fn new(digests: impl IntoIterator<Item = Digest>) -> Self {
        let hex = |digest: Digest| digest.to_string().split_off("sha256:".len());
        Self(digests.into_iter().map(hex).collect())
    }

    /// True if `text` spells one of them.
    #[must_use]
    pub fn is_in(&self, text: &str) -> bool {
        self.is_in_bytes(text.as_bytes())
    }

    /// True if `bytes` spell one of them.
    #[must_use]
    pub fn is_in_bytes(&self, bytes: &[u8]) -> bool {
        // 64 hexadecimal digits in a row are rare, so it is enough to look at such runs; and a run
        // of 64 covers one of any 64 bytes in a row, so it is enough to look at every 64th byte.
        let mut at = DIGITS - 1;
        while let Some((head, tail)) = bytes.split_at_checked(at).filter(|(_, t)| !t.is_empty()) {
            let digit = |byte: &u8| byte.is_ascii_hexdigit();
            let after = tail.iter().take_while(|byte| digit(byte)).count();
            if after > 0 {
                let before = head.iter().rev().take_while(|byte| digit(byte)).count();
                let run = bytes.get(at - before..at + after).unwrap_or_default();
                if self.is_in_run(run) {
                    return true;
                }
            }
            at += after + DIGITS;
        }
        false
    }

    fn is_in_run(&self, run: &[u8]) -> bool {
        if run.len() < DIGITS {
            return false;
        }
        let lower = run.to_ascii_lowercase();
        self.0.iter().any(|hex| lower.windows(hex.len()).any(|w| w == hex.as_bytes()))
    }

    /// `text` with every occurrence masked.
    #[must_use]
    pub fn mask(&self, text: &str) -> Option<String> {
        if !self.is_in(text) {
            return None;
        }
        let mut masked = text.to_owned();
        for hex in &self.0 {
            while let Some(at) = masked.to_ascii_lowercase().find(hex) {
                let end = at.saturating_add(hex.len());
                let (Some(head), Some(tail)) = (masked.get(..at), masked.get(end..)) else { break };
                let head = head.strip_suffix("sha256:").unwrap_or(head);
                masked = format!("{head}{MASK}{tail}");
            }
        }
        Some(masked)
    }
}

/// The view of a packet without the digests that its receiver has to find out itself.
///
/// # Errors
/// The packet cannot be read by its descriptor; a fault of the broker.
pub fn view(
    packet: &pb::HandoffPacket,
    withheld: &Withheld,
) -> Result<pb::HandoffPacket, CanonError> {
    let mut shown = packet.clone();
    if let Some(pb::SourceSnapshotField { state: Some(SnapshotState::Value(snapshot)) }) =
        &mut shown.source_snapshot
    {
        for entity in &mut snapshot.entities {
            entity.digest = None;
        }
    }
    if let Some(pb::ArtifactDescriptorListField { state: Some(ArtifactsState::Value(list)) }) =
        &mut shown.artifact_descriptors
    {
        for descriptor in &mut list.items {
            descriptor.digest = None;
        }
    }
    mask_message(shown, withheld)
}

/// A message with every occurrence of a withheld digest masked, whatever field it is in.
///
/// # Errors
/// The message cannot be read by its descriptor.
pub fn mask_message<M: prost::Message + prost::Name + Default>(
    message: M,
    withheld: &Withheld,
) -> Result<M, CanonError> {
    let bytes = message.encode_to_vec();
    if !withheld.is_in_bytes(&bytes) {
        // The usual case: nothing else names them, so nothing has to be taken apart.
        return Ok(message);
    }
    let name = M::full_name();
    let descriptor =
        canon::descriptor(&name).ok_or_else(|| CanonError::UnknownMessage(name.clone()))?;
    let mut dynamic = DynamicMessage::decode(descriptor, bytes.as_slice())?;
    if !mask_dynamic(&mut dynamic, withheld) {
        return Ok(message);
    }
    M::decode(prost::Message::encode_to_vec(&dynamic).as_slice()).map_err(CanonError::from)
}

fn mask_dynamic(message: &mut DynamicMessage, withheld: &Withheld) -> bool {
    let mut changed = false;
    let fields: Vec<_> = message.fields().map(|(field, _)| field).collect();
    for field in fields {
        let mut value = message.get_field(&field).into_owned();
        if mask_value(&mut value, withheld) {
            message.set_field(&field, value);
            changed = true;
        }
    }
    changed
}

fn mask_value(value: &mut Value, withheld: &Withheld) -> bool {
    match value {
        Value::String(text) => match withheld.mask(text) {
            Some(masked) => {
                *text = masked;
                true
            }
            None => false,
        },
        Value::Message(inner) => mask_dynamic(inner, withheld),
        Value::List(items) => {
            let mut changed = false;
            for item in items {
                changed |= mask_value(item, withheld);
            }
            changed
        }
        Value::Map(entries) => {
            let mut changed = false;
            for item in entries.values_mut() {
                changed |= mask_value(item, withheld);
            }
            changed
        }
        Value::Bool(_)
        | Value::I32(_)
        | Value::I64(_)
        | Value::U32(_)
        | Value::U64(_)
        | Value::F32(_)
        | Value::F64(_)
        | Value::Bytes(_)
        | Value::EnumNumber(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Withheld;
    use crate::core::digest::Digest;

    proptest! {
        // A digest that is not seen, wherever it stands, is told to whom it must be withheld from.
        #[test]
        fn a_digest_is_seen_wherever_it_stands(
            before in "[0-9a-fA-F]{0,70}|[ -~]{0,200}",
            after in "[0-9a-fA-F]{0,70}|[ -~]{0,200}",
            bytes: [u8; 32],
            upper: bool,
        ) {
            let digest = Digest::from_bytes(bytes);
            let withheld = Withheld::new([Digest::of(b"another"), digest]);
            let mut hex = digest.to_string().replace("sha256:", "");
            if upper {
                hex = hex.to_ascii_uppercase();
            }
            let text = format!("{before}{hex}{after}");
            prop_assert!(withheld.is_in(&text));
            prop_assert!(!Withheld::new([digest]).is_in(&withheld.mask(&text).unwrap()));
            let short = format!("{before}-{}-{after}", &hex[1..]);
            prop_assert!(!withheld.is_in(&short));
        }
    }
}
