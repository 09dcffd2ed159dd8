//! A task: the message and the core's. The stored form is the public message.
//!
//! Invariant: `load_task(&render_task(t)) == t` for every task that events can make and whose chain
//! head is set, as it is before a task is stored.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::digest::{Epoch, Revision};
use crate::core::id::{
    ArtifactId, CheckpointId, ContextId, HandoffId, InstanceId, PrincipalId, RequestId, RunId,
    TaskId, VersionLabel,
};
use crate::core::task::{Artifact, CheckpointFacts, Freeze, PastOwner, Policy, Task};
use crate::proto::baton::v1 as pb;

use super::axis::{
    acceptance_policy_from_pb, acceptance_policy_to_pb, artifact_state_from_pb,
    artifact_state_to_pb, load_axes, render_axes,
};
use super::handoff::{
    load_counter, load_digest, load_handoff, load_id, load_optional_digest, load_optional_time,
    load_party, load_time, render_handoff,
};
use super::scope::{load_scope, render_scope};
use super::{StoredError, time};

const NAME: &str = "Task";

/// The task as a message.
#[must_use]
pub fn render_task(task: &Task) -> pb::Task {
    pb::Task {
        task_id: task.id.to_string(),
        context_id: task.context.as_ref().map(ToString::to_string).unwrap_or_default(),
        task_class: task.class.clone(),
        originator: task.originator.principal.to_string(),
        owner: task.owner.principal.to_string(),
        owner_account: task.owner.account.clone(),
        instance_id: task.instance.to_string(),
        epoch: task.epoch.get(),
        revision: task.revision.get(),
        axes: Some(render_axes(&task.axes, task.handoff.as_ref().map(|h| h.status))),
        contract_version: task.contract_version.to_string(),
        contract_digest: task.contract_digest.to_string(),
        contract_document: task.contract_document.to_string(),
        scope: task.scope.as_ref().map(render_scope),
        checkpoint: task.checkpoint.as_ref().map(render_checkpoint),
        artifacts: task.artifacts.values().map(render_artifact).collect(),
        handoff: task.handoff.as_ref().map(|h| render_handoff(h, &task.id, &task.class)),
        not_done_units: task.checkpoint.as_ref().map_or(0, |c| c.not_done_units),
        freeze: task.freeze.as_ref().map(render_freeze),
        policy: Some(render_policy(&task.policy)),
        created_at: Some(time::render_timestamp(task.created_at)),
        last_updated: Some(pb::LastUpdated {
            time: Some(time::render_timestamp(task.updated_at)),
            by: task.updated_by.to_string(),
        }),
        status_report: task.status_report.map(|d| d.to_string()).unwrap_or_default(),
        owner_absent: task.owner_absent,
        owner_lease_expires_at: task.owner_lease_until.map(time::render_timestamp),
        past_owners: task.past_owners.iter().map(render_past).collect(),
        last_sequence: task.sequence,
        chain_head: task.chain_head.map(|d| d.to_string()).unwrap_or_default(),
        checkpoints: task.checkpoint.as_ref().map_or(0, |c| c.version),
        view: pb::TaskView::Unspecified.into(),
        artifacts_changed_since_checkpoint: task.artifacts_moved,
        last_request_id: task.updated_request.as_ref().map(ToString::to_string).unwrap_or_default(),
        originator_account: task.originator.account.clone(),
        cancel_requested: task.cancel_requested,
        digests_shown_to: task.shown_to.iter().map(ToString::to_string).collect(),
    }
}

/// Reads a stored task.
///
/// # Errors
/// A value cannot be read, or is missing.
pub fn load_task(task: &pb::Task) -> Result<Task, StoredError> {
    check_copies(task)?;
    let updated = task.last_updated.as_ref();
    let updated = updated.ok_or_else(|| StoredError::missing(NAME, "last_updated"))?;
    let policy = task.policy.as_ref().ok_or_else(|| StoredError::missing(NAME, "policy"))?;
    let checkpoint =
        task.checkpoint.as_ref().map(|c| load_checkpoint(c, task.not_done_units)).transpose()?;
    let artifacts = task.artifacts.iter().map(|a| {
        let artifact = load_artifact(a)?;
        Ok((artifact.id.clone(), artifact))
    });
    Ok(Task {
        id: load_id(NAME, "task_id", TaskId::parse(&task.task_id))?,
        context: match task.context_id.as_str() {
            "" => None,
            text => Some(load_id(NAME, "context_id", ContextId::parse(text))?),
        },
        class: task.task_class.clone(),
        originator: load_party(NAME, &task.originator, &task.originator_account)?,
        owner: load_party(NAME, &task.owner, &task.owner_account)?,
        instance: load_id(NAME, "instance_id", InstanceId::parse(&task.instance_id))?,
        epoch: Epoch::new(load_counter(NAME, "epoch", task.epoch)?),
        revision: Revision::new(load_counter(NAME, "revision", task.revision)?),
        axes: load_axes(task.axes.as_ref())?,
        contract_version: load_version(NAME, &task.contract_version)?,
        contract_digest: load_digest(NAME, "contract_digest", &task.contract_digest)?,
        contract_document: load_digest(NAME, "contract_document", &task.contract_document)?,
        scope: task.scope.as_ref().map(load_scope).transpose()?,
        checkpoint,
        artifacts_moved: task.artifacts_changed_since_checkpoint,
        artifacts: artifacts.collect::<Result<BTreeMap<_, _>, StoredError>>()?,
        handoff: task.handoff.as_ref().map(load_handoff).transpose()?,
        freeze: task.freeze.as_ref().map(load_freeze).transpose()?,
        policy: load_policy(policy)?,
        created_at: load_time(NAME, "created_at", task.created_at.as_ref())?,
        updated_at: load_time(NAME, "last_updated.time", updated.time.as_ref())?,
        updated_by: load_id(NAME, "last_updated.by", PrincipalId::parse(&updated.by))?,
        updated_request: match task.last_request_id.as_str() {
            "" => None,
            text => Some(load_id(NAME, "last_request_id", RequestId::parse(text))?),
        },
        status_report: load_optional_digest(NAME, "status_report", &task.status_report)?,
        owner_absent: task.owner_absent,
        owner_lease_until: load_optional_time(
            NAME,
            "owner_lease_expires_at",
            task.owner_lease_expires_at.as_ref(),
        )?,
        cancel_requested: task.cancel_requested,
        past_owners: task.past_owners.iter().map(load_past).collect::<Result<_, _>>()?,
        shown_to: task
            .digests_shown_to
            .iter()
            .map(|id| load_id(NAME, "digests_shown_to", PrincipalId::parse(id)))
            .collect::<Result<_, _>>()?,
        sequence: load_counter(NAME, "last_sequence", task.last_sequence)?,
        chain_head: Some(load_digest(NAME, "chain_head", &task.chain_head)?),
    })
}

/// What the message holds twice must agree: an optional part that was lost shows here.
fn check_copies(task: &pb::Task) -> Result<(), StoredError> {
    let lost = |field: &'static str| Err(StoredError::bad(NAME, field, &"contradicts its copy"));
    let axis = task.axes.as_ref().map_or(0, |axes| axes.handoff);
    if axis != task.handoff.as_ref().map_or(0, |handoff| handoff.status) {
        return lost("handoff");
    }
    if task.checkpoints != task.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.version) {
        return lost("checkpoint");
    }
    let lease = task.policy.as_ref().and_then(|policy| policy.owner_lease);
    if lease.is_some() != task.owner_lease_expires_at.is_some() {
        return lost("owner_lease_expires_at");
    }
    let ids: BTreeSet<&str> = task.artifacts.iter().map(artifact_id).collect();
    if ids.len() != task.artifacts.len() {
        return Err(StoredError::bad(NAME, "artifacts", &"name one artifact twice"));
    }
    Ok(())
}

fn artifact_id(artifact: &pb::ArtifactRecord) -> &str {
    artifact.descriptor.as_ref().map_or("", |descriptor| &descriptor.id)
}

/// A checkpoint's identity as a message.
#[must_use]
pub fn render_checkpoint(checkpoint: &CheckpointFacts) -> pb::CheckpointRef {
    pb::CheckpointRef {
        id: checkpoint.id.to_string(),
        version: checkpoint.version,
        fixed_at: Some(time::render_timestamp(checkpoint.fixed_at)),
        digest: checkpoint.digest.to_string(),
    }
}

fn load_checkpoint(
    stored: &pb::CheckpointRef,
    not_done_units: u32,
) -> Result<CheckpointFacts, StoredError> {
    const NAME: &str = "CheckpointRef";
    Ok(CheckpointFacts {
        id: load_id(NAME, "id", CheckpointId::parse(&stored.id))?,
        version: load_counter(NAME, "version", stored.version)?,
        fixed_at: load_time(NAME, "fixed_at", stored.fixed_at.as_ref())?,
        digest: load_digest(NAME, "digest", &stored.digest)?,
        not_done_units,
    })
}

fn render_freeze(freeze: &Freeze) -> pb::Freeze {
    pb::Freeze {
        by: freeze.by.to_string(),
        frozen_at: Some(time::render_timestamp(freeze.since)),
        reason: String::new(),
        note: freeze.note.to_string(),
    }
}

fn load_freeze(stored: &pb::Freeze) -> Result<Freeze, StoredError> {
    const NAME: &str = "Freeze";
    Ok(Freeze {
        by: load_id(NAME, "by", PrincipalId::parse(&stored.by))?,
        since: load_time(NAME, "frozen_at", stored.frozen_at.as_ref())?,
        note: load_digest(NAME, "note", &stored.note)?,
    })
}

fn render_past(past: &PastOwner) -> pb::PastOwner {
    pb::PastOwner {
        principal: past.party.principal.to_string(),
        account: past.party.account.clone(),
        until_epoch: past.until_epoch.get(),
        until_revision: past.until_revision.get(),
        until_sequence: past.until_sequence,
        handoff_id: past.handoff.as_ref().map(ToString::to_string).unwrap_or_default(),
    }
}

fn load_past(stored: &pb::PastOwner) -> Result<PastOwner, StoredError> {
    const NAME: &str = "PastOwner";
    Ok(PastOwner {
        party: load_party(NAME, &stored.principal, &stored.account)?,
        until_epoch: Epoch::new(load_counter(NAME, "until_epoch", stored.until_epoch)?),
        until_revision: Revision::new(load_counter(NAME, "until_revision", stored.until_revision)?),
        until_sequence: load_counter(NAME, "until_sequence", stored.until_sequence)?,
        handoff: match stored.handoff_id.as_str() {
            "" => None,
            text => Some(load_id(NAME, "handoff_id", HandoffId::parse(text))?),
        },
    })
}

/// A policy as a message.
#[must_use]
pub fn render_policy(policy: &Policy) -> pb::TaskPolicy {
    let names = |all: &BTreeSet<PrincipalId>| all.iter().map(ToString::to_string).collect();
    pb::TaskPolicy {
        acceptance: acceptance_policy_to_pb(policy.acceptance).into(),
        verifiers: names(&policy.verifiers),
        approvers: names(&policy.approvers),
        trust_boundary: policy.trust_boundary,
        owner_lease: policy.owner_lease.map(time::render_duration),
        originator_may_offer_on_behalf: policy.originator_may_offer,
        expected: policy
            .expected
            .iter()
            .map(|(role, count)| pb::ExpectedRole { role: role.clone(), count: *count })
            .collect(),
        side_effecting: policy.side_effecting,
    }
}

/// Reads a stored policy.
///
/// # Errors
/// A value cannot be read.
pub fn load_policy(stored: &pb::TaskPolicy) -> Result<Policy, StoredError> {
    const NAME: &str = "TaskPolicy";
    let names = |field: &'static str, all: &[String]| {
        all.iter()
            .map(|n| load_id(NAME, field, PrincipalId::parse(n)))
            .collect::<Result<BTreeSet<_>, _>>()
    };
    let lease = stored.owner_lease.as_ref().map(|lease| {
        time::parse_duration(lease).map_err(|e| StoredError::bad(NAME, "owner_lease", &e))
    });
    Ok(Policy {
        acceptance: acceptance_policy_from_pb(stored.acceptance)
            .map_err(|e| StoredError::bad(NAME, "acceptance", &e))?,
        verifiers: names("verifiers", &stored.verifiers)?,
        approvers: names("approvers", &stored.approvers)?,
        trust_boundary: stored.trust_boundary,
        owner_lease: lease.transpose()?,
        originator_may_offer: stored.originator_may_offer_on_behalf,
        expected: stored.expected.iter().map(|e| (e.role.clone(), e.count)).collect(),
        side_effecting: stored.side_effecting,
    })
}

/// An artifact's record as a message.
#[must_use]
pub fn render_artifact(artifact: &Artifact) -> pb::ArtifactRecord {
    pb::ArtifactRecord {
        descriptor: Some(render_descriptor(artifact)),
        put_by: artifact.put_by.principal.to_string(),
        put_at: Some(time::render_timestamp(artifact.put_at)),
        state: artifact_state_to_pb(artifact.state).into(),
        run_id: artifact.run.as_ref().map(ToString::to_string).unwrap_or_default(),
        put_by_account: artifact.put_by.account.clone(),
        put_sequence: artifact.put_sequence,
        content: artifact.content.map(|d| d.to_string()).unwrap_or_default(),
    }
}

/// An artifact's descriptor as a message.
#[must_use]
pub fn render_descriptor(artifact: &Artifact) -> pb::ArtifactDescriptor {
    pb::ArtifactDescriptor {
        id: artifact.id.to_string(),
        r#type: artifact.kind.clone(),
        media_type: artifact.media_type.clone(),
        location: artifact.location.clone(),
        version: artifact.version.to_string(),
        digest: Some(artifact.digest.to_string()),
        role: artifact.role.clone(),
        size_bytes: artifact.size_bytes,
        digest_algorithm: "sha-256".to_owned(),
        digested: artifact.digested.clone(),
        carrier: pb::ArtifactCarrier::Artifact.into(),
    }
}

/// Reads a stored artifact record.
///
/// # Errors
/// A value cannot be read, or is missing.
pub fn load_artifact(stored: &pb::ArtifactRecord) -> Result<Artifact, StoredError> {
    const NAME: &str = "ArtifactRecord";
    let d = stored.descriptor.as_ref().ok_or_else(|| StoredError::missing(NAME, "descriptor"))?;
    Ok(Artifact {
        id: load_id(NAME, "id", ArtifactId::parse(&d.id))?,
        version: load_version(NAME, &d.version)?,
        digest: load_digest(NAME, "digest", d.digest.as_deref().unwrap_or_default())?,
        role: d.role.clone(),
        kind: d.r#type.clone(),
        media_type: d.media_type.clone(),
        location: d.location.clone(),
        size_bytes: d.size_bytes,
        digested: d.digested.clone(),
        put_by: load_party(NAME, &stored.put_by, &stored.put_by_account)?,
        put_at: load_time(NAME, "put_at", stored.put_at.as_ref())?,
        put_sequence: load_counter(NAME, "put_sequence", stored.put_sequence)?,
        state: artifact_state_from_pb(stored.state)
            .map_err(|e| StoredError::bad(NAME, "state", &e))?,
        run: match stored.run_id.as_str() {
            "" => None,
            text => Some(load_id(NAME, "run_id", RunId::parse(text))?),
        },
        content: load_optional_digest(NAME, "content", &stored.content)?,
    })
}

/// Reads a stored version label.
pub(super) fn load_version(name: &'static str, text: &str) -> Result<VersionLabel, StoredError> {
    load_id(name, "version", VersionLabel::parse(text))
}
