//! Building blocks: fields of documents, packets, and what a receiver computes of one.
//!
//! What lives here: copying a resume set into a packet word by word, and digests as a receiver
//! takes them. What does not: what the work is. Invariants: nothing is inferred; what nobody said
//! is asked for as an argument; a digest is always computed over bytes at hand.

use std::time::SystemTime;

use prost_types::Timestamp;

use crate::proto::baton::v1 as pb;
use crate::wire::canon::{self, CanonError};

/// Why a packet or an echo of one cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum PacketError {
    /// The task has no checkpoint, so there is nothing durable to hand over.
    #[error("the task has no checkpoint; put one, then read the resume set again")]
    NoCheckpoint,
    /// A part of the resume set or of the packet is not there.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// The packet's two forms of the contract are not the same.
    #[error("contract_canonical is not the canonical form of contract")]
    ContractDiffers,
    /// Something has no canonical form.
    #[error(transparent)]
    Canon(#[from] CanonError),
}

/// What a sender says about a transfer beside what the checkpoint holds.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// To whom: a principal id or `capability:<name>`.
    pub to: String,
    /// Why control moves.
    pub reason: String,
    /// When the receiver must stop. At least one.
    pub stop_condition: Vec<String>,
    /// The receiver's authority, within the sender's. `principal` is filled with `to`.
    pub scope: pb::AuthorizationScope,
    /// Effects of the work on the outside; empty says that there is none.
    pub external_side_effects: Vec<pb::ExternalSideEffect>,
    /// What the sender says about a safe resume. At least one.
    pub resume_invariants: Vec<pb::ResumeInvariantStatement>,
}

/// The packet of a transfer: what the resume set says, copied word by word, and the transfer. What
/// the broker fills is left unset; optional fields are the caller's to add.
///
/// # Errors
/// There is no checkpoint, or the resume set lacks the task or the terms.
pub fn packet_from(
    resume: &pb::GetResumeSetResponse,
    transfer: Transfer,
) -> Result<pb::HandoffPacket, PacketError> {
    let task = resume.task.as_ref().ok_or(PacketError::Missing("task"))?;
    let terms = resume.contract_document.as_ref();
    let terms = terms.ok_or(PacketError::Missing("contract_document"))?;
    let checkpoint = resume.checkpoint.clone().ok_or(PacketError::NoCheckpoint)?;
    let scope = pb::AuthorizationScope { principal: transfer.to.clone(), ..transfer.scope };
    let pointers = pointers(terms, &checkpoint);
    Ok(pb::HandoffPacket {
        task_id: task.task_id.clone(),
        current_state: checkpoint.current_state,
        source_snapshot: checkpoint.source_snapshot,
        completed_units: checkpoint.completed_units,
        not_done: checkpoint.not_done,
        open_unknown: checkpoint.open_unknown,
        blockers: checkpoint.blockers,
        artifact_descriptors: checkpoint.artifact_descriptors,
        next_action: checkpoint.next_action,
        pending_action: checkpoint.pending_action,
        completed_boundary: checkpoint.completed_boundary,
        version_set: checkpoint.version_set,
        last_safe_checkpoint: task.checkpoint.clone(),
        next_owner: Some(pb::Owner { id: transfer.to, ..Default::default() }),
        handoff_reason: text(transfer.reason),
        stop_condition: texts(transfer.stop_condition),
        scope: Some(scope),
        canonical_pointers: Some(pb::CanonicalPointerListField {
            state: Some(pb::canonical_pointer_list_field::State::Value(pointers)),
        }),
        active_goal: Some(pb::ActiveGoal {
            objective: text_of(terms.objective.as_ref()).unwrap_or_default().to_owned(),
            completion_criteria: texts_of(terms.completion_criteria.as_ref()).to_vec(),
        }),
        external_side_effects: Some(pb::ExternalSideEffectListField {
            state: Some(pb::external_side_effect_list_field::State::Value(
                pb::ExternalSideEffectList { items: transfer.external_side_effects },
            )),
        }),
        resume_invariants: Some(pb::ResumeInvariantListField {
            state: Some(pb::resume_invariant_list_field::State::Value(pb::ResumeInvariantList {
                items: transfer.resume_invariants,
            })),
        }),
        ..Default::default()
    })
}

/// What the snapshot, the artifacts and the terms point to.
fn pointers(terms: &pb::ContractDocument, checkpoint: &pb::Checkpoint) -> pb::CanonicalPointerList {
    let pointer = |kind: &str, to: &str, version: &str| pb::CanonicalPointer {
        kind: kind.to_owned(),
        r#ref: to.to_owned(),
        version: version.to_owned(),
    };
    let sources = sources_of(checkpoint.source_snapshot.as_ref()).iter();
    let artifacts = artifacts_of(checkpoint.artifact_descriptors.as_ref()).iter();
    let mut items: Vec<_> = sources.map(|s| pointer("source", &s.entity_id, &s.version)).collect();
    items.extend(artifacts.map(|a| pointer("artifact", &a.id, &a.version)));
    let config = text_of(terms.config_release_ref.as_ref());
    items.extend(config.map(|c| pointer("config", c, c)));
    pb::CanonicalPointerList { items }
}

/// `sha256:<hex>` of the packet's contract, as element 2 of a receipt needs it.
#[must_use]
pub fn contract_digest(packet: &pb::HandoffPacket) -> String {
    digest(&packet.contract_canonical)
}

/// Element 2 of a receipt. Checks that the terms that a receiver reads are the ones it echoes.
///
/// # Errors
/// The packet has no contract or no version, or its two forms differ.
pub fn contract_echo(packet: &pb::HandoffPacket) -> Result<pb::ContractEcho, PacketError> {
    let contract = packet.contract.as_ref().ok_or(PacketError::Missing("contract"))?;
    if canon::canonical_json(contract)? != packet.contract_canonical {
        return Err(PacketError::ContractDiffers);
    }
    let version = text_of(contract.contract_version.as_ref());
    let version = version.ok_or(PacketError::Missing("contract.contract_version"))?.to_owned();
    Ok(pb::ContractEcho { version, digest: contract_digest(packet) })
}

/// `sha256:<hex>` of bytes as they are.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    canon::part_digest_raw(bytes).to_string()
}

/// `sha256:<hex>` of an artifact's content: of its one part, or over the list of its parts.
///
/// # Errors
/// There is no part.
pub fn content_digest(parts: &[pb::ArtifactPart]) -> Result<String, PacketError> {
    let each = parts
        .iter()
        .map(|part| (part.media_type.as_str(), canon::part_digest_raw(part_bytes(part))));
    Ok(canon::artifact_digest(&each.collect::<Vec<_>>())?.to_string())
}

/// The bytes of a part; of a text, its UTF-8.
#[must_use]
pub fn part_bytes(part: &pb::ArtifactPart) -> &[u8] {
    match &part.content {
        Some(pb::artifact_part::Content::Raw(bytes)) => bytes,
        Some(pb::artifact_part::Content::Text(text)) => text.as_bytes(),
        None => &[],
    }
}

/// The sources of a snapshot; none also where there is no value.
#[must_use]
pub fn sources_of(field: Option<&pb::SourceSnapshotField>) -> &[pb::SourceEntity] {
    match field.and_then(|f| f.state.as_ref()) {
        Some(pb::source_snapshot_field::State::Value(snapshot)) => &snapshot.entities,
        _ => &[],
    }
}

/// The artifacts of a list; none also where there is no value.
#[must_use]
pub fn artifacts_of(field: Option<&pb::ArtifactDescriptorListField>) -> &[pb::ArtifactDescriptor] {
    match field.and_then(|f| f.state.as_ref()) {
        Some(pb::artifact_descriptor_list_field::State::Value(list)) => &list.items,
        _ => &[],
    }
}

/// The text of a field, if it has a value.
#[must_use]
pub fn text_of(field: Option<&pb::TextField>) -> Option<&str> {
    match field.and_then(|f| f.state.as_ref()) {
        Some(pb::text_field::State::Value(text)) => Some(text),
        _ => None,
    }
}

/// The texts of a field; none also where there is no value.
#[must_use]
pub fn texts_of(field: Option<&pb::TextListField>) -> &[String] {
    match field.and_then(|f| f.state.as_ref()) {
        Some(pb::text_list_field::State::Value(list)) => &list.items,
        _ => &[],
    }
}

/// A text field with a value.
#[must_use]
pub fn text(value: impl Into<String>) -> Option<pb::TextField> {
    Some(pb::TextField { state: Some(pb::text_field::State::Value(value.into())) })
}

/// A text field that says NOT_APPLICABLE.
#[must_use]
pub fn not_applicable() -> Option<pb::TextField> {
    let kind = Some(pb::absence::Kind::NotApplicable(pb::NotApplicable {}));
    Some(pb::TextField { state: Some(pb::text_field::State::Absence(pb::Absence { kind })) })
}

/// A list field with values; without any, the explicit empty set.
#[must_use]
pub fn texts<T: Into<String>>(items: impl IntoIterator<Item = T>) -> Option<pb::TextListField> {
    let list = pb::TextList { items: items.into_iter().map(Into::into).collect() };
    Some(pb::TextListField { state: Some(pb::text_list_field::State::Value(list)) })
}

/// Now, by this machine's clock, in the precision that has a canonical form (microseconds).
#[must_use]
pub fn now() -> Timestamp {
    let now = Timestamp::from(SystemTime::now());
    Timestamp { nanos: now.nanos - now.nanos % 1000, ..now }
}
