//! Stored values and back: the public messages inside the store's own records.
//!
//! What lives here: encoding and decoding of whole stored values. What does not: keys
//! (`store/key.rs`), frames and checksums (`store`). Invariant: a value that cannot be read is an
//! error that names it; nothing is defaulted.

use prost::Message as _;

use crate::core::Outcome;
use crate::core::digest::{Digest, Epoch, Revision};
use crate::core::event::Recorded;
use crate::core::handoff::Handoff;
use crate::core::id::{HandoffId, Namespace, TaskId};
use crate::core::task::Task;
use crate::proto::baton::{store::v1 as store, v1 as pb};

use super::event::{load_event, render_event};
use super::handoff::{load_handoff, render_handoff};
use super::task::{load_task, render_task};
use super::{StoredError, time};

/// A remembered answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// SHA-256 over principal, call and request id.
    pub key: Digest,
    /// Digest of the request's content.
    pub request: Digest,
    /// The answer.
    pub outcome: Outcome,
}

/// A task with what is kept beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTask {
    /// The namespace that it lives in.
    pub namespace: Namespace,
    /// The task.
    pub task: Task,
    /// The newest remembered answers.
    pub recent: Vec<Remembered>,
    /// How many segments were written.
    pub segments: u64,
    /// Where its open offer stands in the index.
    pub offer_key: Vec<u8>,
}

/// A task with what is kept beside it, borrowed for encoding.
#[derive(Clone, Copy, Debug)]
pub struct TaskParts<'a> {
    /// The namespace that it lives in.
    pub namespace: &'a Namespace,
    /// The task.
    pub task: &'a Task,
    /// The newest remembered answers.
    pub recent: &'a [Remembered],
    /// How many segments were written.
    pub segments: u64,
    /// Where its open offer stands in the index.
    pub offer_key: &'a [u8],
}

/// The stored form of a task.
#[must_use]
pub fn encode_task(parts: &TaskParts<'_>) -> Vec<u8> {
    store::TaskRecord {
        task: Some(render_task(parts.task)),
        recent: parts.recent.iter().map(render_remembered).collect(),
        segments: parts.segments,
        namespace: parts.namespace.to_string(),
        offer_key: parts.offer_key.to_vec(),
    }
    .encode_to_vec()
}

/// Reads a stored task.
///
/// # Errors
/// The value cannot be read.
pub fn decode_task(bytes: &[u8]) -> Result<StoredTask, StoredError> {
    let record = decode::<store::TaskRecord>("TaskRecord", bytes)?;
    let task = record.task.as_ref().ok_or_else(|| StoredError::missing("TaskRecord", "task"))?;
    let namespace = Namespace::parse(&record.namespace)
        .map_err(|e| StoredError::bad("TaskRecord", "namespace", &e))?;
    Ok(StoredTask {
        namespace,
        task: load_task(task)?,
        recent: record.recent.iter().map(load_remembered).collect::<Result<_, _>>()?,
        segments: record.segments,
        offer_key: record.offer_key,
    })
}

/// The stored form of a segment of remembered answers.
#[must_use]
pub fn encode_segment(entries: &[Remembered]) -> Vec<u8> {
    store::DedupSegment { entries: entries.iter().map(render_remembered).collect() }.encode_to_vec()
}

/// Reads a segment.
///
/// # Errors
/// The value cannot be read.
pub fn decode_segment(bytes: &[u8]) -> Result<Vec<Remembered>, StoredError> {
    let segment = decode::<store::DedupSegment>("DedupSegment", bytes)?;
    segment.entries.iter().map(load_remembered).collect()
}

/// The stored form of a create's answer.
#[must_use]
pub fn encode_creation(task: &TaskId, entry: &Remembered) -> Vec<u8> {
    let entry = Some(render_remembered(entry));
    store::CreationRecord { task_id: task.to_string(), entry }.encode_to_vec()
}

/// Reads a create's answer.
///
/// # Errors
/// The value cannot be read.
pub fn decode_creation(bytes: &[u8]) -> Result<Remembered, StoredError> {
    let record = decode::<store::CreationRecord>("CreationRecord", bytes)?;
    let entry = record.entry.ok_or_else(|| StoredError::missing("CreationRecord", "entry"))?;
    load_remembered(&entry)
}

/// The stored form of a handoff.
#[must_use]
pub fn encode_handoff(handoff: &Handoff, task: &TaskId, class: &str) -> Vec<u8> {
    store::HandoffRecord { handoff: Some(render_handoff(handoff, task, class)) }.encode_to_vec()
}

/// Reads a handoff with the task that it belongs to and the task's class.
///
/// # Errors
/// The value cannot be read.
pub fn decode_handoff(bytes: &[u8]) -> Result<(TaskId, Handoff, String), StoredError> {
    let record = decode::<store::HandoffRecord>("HandoffRecord", bytes)?;
    let handoff = record.handoff.ok_or_else(|| StoredError::missing("HandoffRecord", "handoff"))?;
    let task = parse_task_id("HandoffRecord", &handoff.task_id)?;
    Ok((task, load_handoff(&handoff)?, handoff.task_class))
}

/// The stored form of an open offer's index entry.
#[must_use]
pub fn encode_offer(handoff: &HandoffId, task: &TaskId) -> Vec<u8> {
    store::OfferRecord { handoff_id: handoff.to_string(), task_id: task.to_string() }
        .encode_to_vec()
}

/// Reads an open offer's index entry.
///
/// # Errors
/// The value cannot be read.
pub fn decode_offer(bytes: &[u8]) -> Result<(HandoffId, TaskId), StoredError> {
    let record = decode::<store::OfferRecord>("OfferRecord", bytes)?;
    let handoff = HandoffId::parse(&record.handoff_id)
        .map_err(|e| StoredError::bad("OfferRecord", "handoff_id", &e))?;
    Ok((handoff, parse_task_id("OfferRecord", &record.task_id)?))
}

/// The stored form of an event, with its digest: the new head of the task's chain.
///
/// # Errors
/// The event has no canonical form; a fault of the broker.
pub fn seal_event(task: &TaskId, record: &Recorded) -> Result<(Digest, Vec<u8>), StoredError> {
    let event = render_event(task, record, None);
    let mut bytes = event.encode_to_vec();
    let digest = super::event::encoded_digest(&event, &bytes)?;
    // Fields may stand in any order, so the last one can be written behind the others.
    let sealed = pb::Event { digest: digest.to_string(), ..Default::default() };
    bytes.extend(sealed.encode_to_vec());
    Ok((digest, bytes))
}

/// Reads a stored event as the public message.
///
/// # Errors
/// The value cannot be read.
pub fn decode_event(bytes: &[u8]) -> Result<pb::Event, StoredError> {
    decode::<pb::Event>("Event", bytes)
}

/// Reads a stored event as the core's.
///
/// # Errors
/// The value cannot be read.
pub fn decode_recorded(bytes: &[u8]) -> Result<(Recorded, Option<Digest>), StoredError> {
    load_event(&decode_event(bytes)?)
}

/// An answer as a message.
#[must_use]
pub fn render_outcome(outcome: &Outcome) -> pb::Outcome {
    pb::Outcome {
        task_id: outcome.task.as_ref().map(ToString::to_string).unwrap_or_default(),
        revision: outcome.revision.get(),
        epoch: outcome.epoch.get(),
        event_sequence: outcome.sequence,
        handoff_id: outcome.handoff.as_ref().map(ToString::to_string).unwrap_or_default(),
        decided_at: Some(time::render_timestamp(outcome.decided_at)),
        lease_expires_at: outcome.lease_until.map(time::render_timestamp),
        replayed: outcome.replayed,
    }
}

fn load_outcome(outcome: &pb::Outcome) -> Result<Outcome, StoredError> {
    const NAME: &str = "Outcome";
    let task = optional(&outcome.task_id, TaskId::parse)
        .map_err(|e| StoredError::bad(NAME, "task_id", &e))?;
    let handoff = optional(&outcome.handoff_id, HandoffId::parse)
        .map_err(|e| StoredError::bad(NAME, "handoff_id", &e))?;
    let decided = outcome.decided_at.as_ref();
    let decided = decided.ok_or_else(|| StoredError::missing(NAME, "decided_at"))?;
    let stamp = |field: &'static str, t: &prost_types::Timestamp| {
        time::parse_timestamp(t).map_err(|e| StoredError::bad(NAME, field, &e))
    };
    Ok(Outcome {
        task,
        revision: Revision::new(outcome.revision),
        epoch: Epoch::new(outcome.epoch),
        sequence: outcome.event_sequence,
        handoff,
        decided_at: stamp("decided_at", decided)?,
        lease_until: outcome
            .lease_expires_at
            .as_ref()
            .map(|t| stamp("lease_expires_at", t))
            .transpose()?,
        replayed: outcome.replayed,
    })
}

fn optional<T, E>(text: &str, parse: impl Fn(&str) -> Result<T, E>) -> Result<Option<T>, E> {
    if text.is_empty() { Ok(None) } else { parse(text).map(Some) }
}

/// A remembered answer as a message.
#[must_use]
pub fn render_remembered(entry: &Remembered) -> store::DedupEntry {
    store::DedupEntry {
        key: entry.key.as_bytes().to_vec(),
        request_digest: entry.request.as_bytes().to_vec(),
        outcome: Some(render_outcome(&entry.outcome)),
    }
}

/// Reads a remembered answer.
///
/// # Errors
/// The value cannot be read.
pub fn load_remembered(entry: &store::DedupEntry) -> Result<Remembered, StoredError> {
    const NAME: &str = "DedupEntry";
    let bytes = |field: &'static str, bytes: &[u8]| {
        <[u8; 32]>::try_from(bytes)
            .map(Digest::from_bytes)
            .map_err(|_| StoredError::bad(NAME, field, &"is not 32 bytes"))
    };
    let outcome = entry.outcome.as_ref();
    let outcome = outcome.ok_or_else(|| StoredError::missing(NAME, "outcome"))?;
    Ok(Remembered {
        key: bytes("key", &entry.key)?,
        request: bytes("request_digest", &entry.request_digest)?,
        outcome: load_outcome(outcome)?,
    })
}

fn parse_task_id(message: &'static str, text: &str) -> Result<TaskId, StoredError> {
    TaskId::parse(text).map_err(|e| StoredError::bad(message, "task_id", &e))
}

/// Decodes a stored message.
///
/// # Errors
/// The bytes are no such message.
pub fn decode<M: prost::Message + Default>(
    name: &'static str,
    bytes: &[u8],
) -> Result<M, StoredError> {
    M::decode(bytes).map_err(|e| StoredError::bad(name, "bytes", &e))
}
