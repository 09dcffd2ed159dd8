//! The key space: one function per kind of key, and nothing else knows how a key looks.
//!
//! Invariants: kinds are told apart by the first byte; numbers are big-endian, so that they sort;
//! names are ended by a zero byte, which no name contains.
//!
//! | First byte | Key | Value |
//! |---|---|---|
//! | `t` | namespace, task | task record |
//! | `e` | task, sequence | event |
//! | `x` | task, digest | document |
//! | `d` | task, slot | segment of remembered answers |
//! | `h` | handoff | handoff record |
//! | `o` | namespace, receiver, position, number | open offer |
//! | `w` | namespace, owner, task | open task of an owner |
//! | `c` | namespace, originator, task | task of an originator |
//! | `k` | namespace, principal, request | answer of a create |
//! | `l` | namespace, task | task whose owner has a lease |
//! | `n` | namespace, context | owner of a context |
//! | `a` | namespace, agent | agent record |

use crate::core::digest::Digest;
use crate::core::handoff::Receiver;
use crate::core::id::{ContextId, HandoffId, Namespace, PrincipalId, RequestId, TaskId};

use super::Key;

fn named(kind: u8, names: &[&str]) -> Key {
    let mut key = Vec::with_capacity(64);
    key.push(kind);
    for name in names {
        key.extend_from_slice(name.as_bytes());
        key.push(0);
    }
    key
}

fn of_task(kind: u8, task: &TaskId) -> Key {
    named(kind, &[task.as_str()])
}

/// A task's record.
#[must_use]
pub fn task(namespace: &Namespace, task: &TaskId) -> Key {
    named(b't', &[namespace.as_str(), task.as_str()])
}

/// The first key of a namespace's task records.
#[must_use]
pub fn tasks(namespace: &Namespace) -> Key {
    named(b't', &[namespace.as_str()])
}

/// An event of a task.
#[must_use]
pub fn event(task: &TaskId, sequence: u64) -> Key {
    let mut key = of_task(b'e', task);
    key.extend_from_slice(&sequence.to_be_bytes());
    key
}

/// A document of a task.
#[must_use]
pub fn document(task: &TaskId, digest: &Digest) -> Key {
    let mut key = of_task(b'x', task);
    key.extend_from_slice(digest.as_bytes());
    key
}

/// A segment of remembered answers.
#[must_use]
pub fn dedup(task: &TaskId, slot: u8) -> Key {
    let mut key = of_task(b'd', task);
    key.push(slot);
    key
}

/// The first key of a task's segments.
#[must_use]
pub fn dedups(task: &TaskId) -> Key {
    of_task(b'd', task)
}

/// A handoff's record.
#[must_use]
pub fn handoff(id: &HandoffId) -> Key {
    named(b'h', &[id.as_str()])
}

/// The first key of the open offers to a receiver.
#[must_use]
pub fn offers(namespace: &Namespace, receiver: &Receiver) -> Key {
    named(b'o', &[namespace.as_str(), &receiver.to_string()])
}

/// An open offer: the n-th that the group at `position` opened or opened again.
#[must_use]
pub fn offer(namespace: &Namespace, receiver: &Receiver, position: u64, number: u32) -> Key {
    let mut key = offers(namespace, receiver);
    key.extend_from_slice(&position.to_be_bytes());
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// The first key of all open offers.
#[must_use]
pub fn all_offers() -> Key {
    vec![b'o']
}

/// An open task of its owner.
#[must_use]
pub fn owned(namespace: &Namespace, owner: &PrincipalId, task: &TaskId) -> Key {
    named(b'w', &[namespace.as_str(), owner.as_str(), task.as_str()])
}

/// The first key of an owner's open tasks.
#[must_use]
pub fn all_owned(namespace: &Namespace, owner: &PrincipalId) -> Key {
    named(b'w', &[namespace.as_str(), owner.as_str()])
}

/// A task of its originator.
#[must_use]
pub fn created(namespace: &Namespace, originator: &PrincipalId, task: &TaskId) -> Key {
    named(b'c', &[namespace.as_str(), originator.as_str(), task.as_str()])
}

/// The first key of an originator's tasks.
#[must_use]
pub fn all_created(namespace: &Namespace, originator: &PrincipalId) -> Key {
    named(b'c', &[namespace.as_str(), originator.as_str()])
}

/// The answer of a create.
#[must_use]
pub fn creation(namespace: &Namespace, principal: &PrincipalId, request: &RequestId) -> Key {
    named(b'k', &[namespace.as_str(), principal.as_str(), request.as_str()])
}

/// A task whose owner has a lease.
#[must_use]
pub fn leased(namespace: &Namespace, task: &TaskId) -> Key {
    named(b'l', &[namespace.as_str(), task.as_str()])
}

/// The first key of all tasks whose owners have a lease.
#[must_use]
pub fn all_leased() -> Key {
    vec![b'l']
}

/// The owner of a context.
#[must_use]
pub fn context(namespace: &Namespace, context: &ContextId) -> Key {
    named(b'n', &[namespace.as_str(), context.as_str()])
}

/// An agent's record.
#[must_use]
pub fn agent(namespace: &Namespace, agent: &PrincipalId) -> Key {
    named(b'a', &[namespace.as_str(), agent.as_str()])
}

/// The first key of a namespace's agents.
#[must_use]
pub fn agents(namespace: &Namespace) -> Key {
    named(b'a', &[namespace.as_str()])
}

/// The first key behind all keys that begin with `prefix`.
#[must_use]
pub fn end(prefix: &[u8]) -> Key {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last.saturating_add(1));
            return end;
        }
    }
    vec![u8::MAX; 8]
}

/// The names of a key, without its kind: the texts that a zero byte ends.
#[must_use]
pub fn names(key: &[u8]) -> Vec<&str> {
    let rest = key.get(1..).unwrap_or_default();
    rest.split(|byte| *byte == 0).filter_map(|part| std::str::from_utf8(part).ok()).collect()
}
