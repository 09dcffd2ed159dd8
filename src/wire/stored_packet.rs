//! A packet as it is stored: without what it repeats of other documents of its task.
//!
//! What lives here: leaving those fields out, and putting them back. What does not: which documents
//! they are found in (`service/known.rs`), that the copies are equal (`packet::differing_copies`,
//! asked before). Invariant: what was left out comes back exactly; whoever reads a packet compares
//! its digest, which covers all of it.

use crate::core::digest::Digest;
use crate::proto::baton::{store::v1 as store, v1 as pb};

/// Calls `$each` for every field that a packet repeats of its checkpoint.
macro_rules! of_checkpoint {
    ($each:ident, $($with:tt)*) => {
        $each!(
            $($with)*,
            current_state,
            source_snapshot,
            completed_units,
            not_done,
            open_unknown,
            blockers,
            artifact_descriptors,
            next_action
        )
    };
}

macro_rules! move_fields {
    ($from:ident, $to:ident, $($field:ident),*) => {
        $($to.$field = $from.$field.take();)*
    };
}

macro_rules! copy_fields {
    ($from:ident, $to:ident, $($field:ident),*) => {
        $($to.$field.clone_from(&$from.$field);)*
    };
}

/// The fields that a stored packet does without.
#[derive(Debug, Default)]
pub struct LeftOut(pb::HandoffPacket);

/// Takes out of a finished packet what is not stored with it. `checkpoint` says that the packet
/// names a checkpoint and repeats it.
#[must_use]
pub fn leave_out(packet: &mut pb::HandoffPacket, checkpoint: bool) -> LeftOut {
    let mut left = pb::HandoffPacket {
        contract: packet.contract.take(),
        contract_canonical: std::mem::take(&mut packet.contract_canonical),
        ..Default::default()
    };
    if checkpoint {
        of_checkpoint!(move_fields, packet, left);
    }
    LeftOut(left)
}

/// Puts back what was taken out.
pub fn put_back(packet: &mut pb::HandoffPacket, left: LeftOut, checkpoint: bool) {
    let LeftOut(mut left) = left;
    packet.contract = left.contract.take();
    packet.contract_canonical = std::mem::take(&mut left.contract_canonical);
    if checkpoint {
        of_checkpoint!(move_fields, left, packet);
    }
}

/// The whole packet again, from the documents that it repeats.
#[must_use]
pub fn complete(
    stored: store::StoredPacket,
    contract: &pb::ContractDocument,
    canonical: &[u8],
    checkpoint: Option<&pb::Checkpoint>,
) -> pb::HandoffPacket {
    let mut packet = stored.packet.unwrap_or_default();
    packet.contract = Some(contract.clone());
    packet.contract_canonical = canonical.to_vec();
    if let Some(checkpoint) = checkpoint {
        of_checkpoint!(copy_fields, checkpoint, packet);
    }
    packet
}

/// The stored form of a packet that something was left out of.
#[must_use]
pub fn encode(packet: &pb::HandoffPacket, contract_document: Digest, checkpoint: bool) -> Vec<u8> {
    use prost::Message as _;
    let rest = store::StoredPacket {
        packet: None,
        contract_document: contract_document.to_string(),
        checkpoint_left_out: checkpoint,
    };
    let mut bytes = Vec::with_capacity(packet.encoded_len().saturating_add(128));
    // Field by field, so that the packet need not be copied into the record.
    prost::encoding::message::encode(1, packet, &mut bytes);
    bytes.extend(rest.encode_to_vec());
    bytes
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::{complete, encode, leave_out, put_back};
    use crate::core::contract::{contract_document, example};
    use crate::core::digest::Digest;
    use crate::proto::baton::store::v1::StoredPacket;
    use crate::wire::canon;

    // A packet that comes back with another content would fail every receipt.
    #[test]
    fn what_was_left_out_comes_back() {
        let contract = contract_document(&example::contract());
        let canonical = canon::canonical_json(&contract).unwrap();
        let checkpoint = example::checkpoint();
        for repeated in [false, true] {
            let mut packet = example::offered("01980000-0000-7000-8000-000000000001");
            packet.contract = Some(contract.clone());
            packet.contract_canonical.clone_from(&canonical);
            packet.current_state.clone_from(&checkpoint.current_state);
            let whole = packet.clone();
            let left = leave_out(&mut packet, repeated);
            let bytes = encode(&packet, Digest::of(b"contract"), repeated);
            assert!(bytes.len() < whole.encoded_len() / 2 || !repeated);
            put_back(&mut packet, left, repeated);
            assert_eq!(packet, whole);
            let stored = StoredPacket::decode(bytes.as_slice()).unwrap();
            assert_eq!(stored.contract_document, Digest::of(b"contract").to_string());
            assert_eq!(stored.checkpoint_left_out, repeated);
            let found = repeated.then_some(&checkpoint);
            assert_eq!(complete(stored, &contract, &canonical, found), whole);
        }
    }
}
