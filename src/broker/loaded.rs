//! A task as the committer holds it: the aggregate and the answers that it remembers.
//!
//! Invariants: the newest [`REMEMBERED_MAX`] answers are found again; older ones are forgotten. The
//! newest few stand in the task's own value, full segments beside it, so that a change costs one
//! key and every eighth change two.

use std::collections::VecDeque;

use crate::core::Outcome;
use crate::core::digest::Digest;
use crate::core::id::{Namespace, TaskId};
use crate::core::task::Task;
use crate::store::{AnyStore, Direction, Expect, Key, Position, Store as _, key};
use crate::wire::record::{
    Remembered, TaskParts, decode_segment, decode_task, encode_segment, encode_task,
};

use super::{Error, Request};

/// Answers that one segment holds.
const SEGMENT: usize = 8;

/// Slots of the ring of segments: one more than is needed, so that the oldest can be overwritten.
const SEGMENTS: u64 = 17;

/// Answers that a task remembers. Source: design section 7.
pub(super) const REMEMBERED_MAX: usize = 128;

const _: () = assert!(SEGMENT * (SEGMENTS as usize - 1) == REMEMBERED_MAX);

/// A task in the committer's hands.
#[derive(Clone, Debug)]
pub(super) struct Loaded {
    pub(super) namespace: Namespace,
    pub(super) task: Task,
    /// Where the open offer stands in the index of its receiver; empty if none is open.
    pub(super) offer_key: Key,
    /// The position that its stored value has; none if it was never stored.
    pub(super) position: Option<Position>,
    /// Bytes of the stored value, as of the last look.
    pub(super) stored_bytes: usize,
    recent: Vec<Remembered>,
    older: VecDeque<Vec<Remembered>>,
    segments: u64,
    /// Segments that filled up and are not stored yet.
    full: Vec<(u8, Vec<Remembered>)>,
}

impl Loaded {
    pub(super) fn new(namespace: Namespace, task: Task) -> Self {
        Self {
            namespace,
            task,
            offer_key: Key::new(),
            position: None,
            stored_bytes: 0,
            recent: Vec::new(),
            older: VecDeque::new(),
            segments: 0,
            full: Vec::new(),
        }
    }

    /// Reads a task and its remembered answers.
    pub(super) fn read(
        store: &AnyStore,
        namespace: &Namespace,
        id: &TaskId,
    ) -> Result<Option<Self>, Error> {
        let Some(found) = store.get(&key::task(namespace, id))? else { return Ok(None) };
        let stored = decode_task(&found.value).map_err(|e| Error::Damaged(e.to_string()))?;
        let prefix = key::dedups(id);
        let slots =
            store.scan(&prefix, &key::end(&prefix), Direction::Forward, 2 * SEGMENTS as usize)?;
        let mut segments = Vec::new();
        for (_, value) in &slots {
            let entries =
                decode_segment(&value.value).map_err(|e| Error::Damaged(e.to_string()))?;
            segments.push(entries);
        }
        // Slots are a ring: the oldest is the one that is written next.
        let next = usize::try_from(stored.segments % SEGMENTS).unwrap_or_default();
        if stored.segments >= SEGMENTS && next < segments.len() {
            segments.rotate_left(next);
        }
        Ok(Some(Self {
            namespace: stored.namespace,
            task: stored.task,
            offer_key: stored.offer_key,
            position: Some(found.position),
            stored_bytes: found.value.len(),
            recent: stored.recent,
            older: segments.into(),
            segments: stored.segments,
            full: Vec::new(),
        }))
    }

    /// The answer to an earlier call of the same caller, call and request id.
    pub(super) fn remembered(&self, key: &Digest) -> Option<&Remembered> {
        let older = self.older.iter().flatten();
        self.recent.iter().chain(older).find(|entry| entry.key == *key)
    }

    /// Remembers an answer.
    pub(super) fn remember(&mut self, key: Digest, request: Digest, outcome: Outcome) {
        self.recent.push(Remembered { key, request, outcome });
        if self.recent.len() < SEGMENT {
            return;
        }
        let segment = std::mem::take(&mut self.recent);
        let slot = u8::try_from(self.segments % SEGMENTS).unwrap_or_default();
        self.segments = self.segments.saturating_add(1);
        self.full.push((slot, segment.clone()));
        self.older.push_back(segment);
        while self.older.len() * SEGMENT > REMEMBERED_MAX {
            self.older.pop_front();
        }
    }

    /// Writes the task into a batch's puts.
    pub(super) fn stage(&mut self, puts: &mut std::collections::BTreeMap<Key, Vec<u8>>) {
        for (slot, segment) in self.full.drain(..) {
            puts.insert(key::dedup(&self.task.id, slot), encode_segment(&segment));
        }
        let parts = TaskParts {
            namespace: &self.namespace,
            task: &self.task,
            recent: &self.recent,
            segments: self.segments,
            offer_key: &self.offer_key,
        };
        let bytes = encode_task(&parts);
        self.stored_bytes = bytes.len();
        puts.insert(key::task(&self.namespace, &self.task.id), bytes);
    }

    /// Bytes that the stored value would have with another state.
    pub(super) fn bytes_with(&self, task: &Task) -> usize {
        let parts = TaskParts {
            namespace: &self.namespace,
            task,
            recent: &self.recent,
            segments: self.segments,
            offer_key: &self.offer_key,
        };
        encode_task(&parts).len()
    }

    /// What must still be true of the stored value when this one is written.
    pub(super) fn expectation(&self) -> (Key, Expect) {
        let expect = self.position.map_or(Expect::Absent, Expect::At);
        (key::task(&self.namespace, &self.task.id), expect)
    }
}

/// The key under which a request's answer is remembered.
pub(super) fn dedup_key(request: &Request, rpc: &str) -> Digest {
    let caller = &request.caller;
    let text = format!("{}\0{}\0{rpc}\0{}", caller.namespace, caller.party.principal, request.id);
    Digest::of(text.as_bytes())
}
