//! What every request carries: ids, the owner's guard, free text.
//!
//! Invariant: an identifier that comes in is parsed here or refused with its field; nothing is
//! trimmed or repaired.

use crate::core::digest::{Digest, Epoch, Revision};
use crate::core::id::{HandoffId, InstanceId, RequestId, TaskId};
use crate::core::owner::Guard;
use crate::proto::baton::v1 as pb;

use super::violations::Violations;

/// Bytes that one free text may have.
pub const TEXT_BYTES_MAX: usize = 16 << 10;

/// Parses a task id.
pub fn task_id(text: &str, field: &str, violations: &mut Violations) -> Option<TaskId> {
    violations.take(field, TaskId::parse(text))
}

/// Parses a handoff id.
pub fn handoff_id(text: &str, field: &str, violations: &mut Violations) -> Option<HandoffId> {
    violations.take(field, HandoffId::parse(text))
}

/// Parses a request id. Every change carries one (REQ-255).
pub fn request_id(text: &str, violations: &mut Violations) -> Option<RequestId> {
    violations.take("request_id", RequestId::parse(text))
}

/// Parses a digest.
pub fn digest(text: &str, field: &str, violations: &mut Violations) -> Option<Digest> {
    violations.take(field, Digest::parse(text))
}

/// Parses an instance id.
pub fn instance_id(text: &str, field: &str, violations: &mut Violations) -> Option<InstanceId> {
    violations.take(field, InstanceId::parse(text))
}

/// Parses the guard of an owner's write.
pub fn guard(guard: Option<&pb::OwnerGuard>, violations: &mut Violations) -> Option<Guard> {
    let guard = violations.require("guard", guard)?;
    let epoch = counter(guard.epoch, "guard.epoch", violations);
    let revision = counter(guard.expected_revision, "guard.expected_revision", violations);
    let instance = instance_id(&guard.instance_id, "guard.instance_id", violations);
    Some(Guard {
        epoch: Epoch::new(epoch?),
        revision: Revision::new(revision?),
        instance: instance?,
    })
}

/// A counter that starts at one: zero says that it was left out.
pub fn counter(value: u64, field: &str, violations: &mut Violations) -> Option<u64> {
    violations.require(field, (value > 0).then_some(value))
}

/// A text that must be there.
pub fn text(value: &str, field: &str, violations: &mut Violations) -> Option<String> {
    if value.trim().is_empty() {
        violations.add(field, "is required and empty; say it");
        return None;
    }
    optional_text(value, field, violations)
}

/// A text that may be empty, within the limit.
pub fn optional_text(value: &str, field: &str, violations: &mut Violations) -> Option<String> {
    if value.len() > TEXT_BYTES_MAX {
        violations.add(field, format!("has {} bytes; send at most {TEXT_BYTES_MAX}", value.len()));
        return None;
    }
    Some(value.to_owned())
}
