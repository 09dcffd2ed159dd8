//! Events: the message and the core's, and the digest that chains them.
//!
//! Invariant: the digest covers the whole event but itself, so that any change of the record shows.

use crate::core::axis::HandoffStatus;
use crate::core::digest::{Digest, Epoch, Revision};
use crate::core::event::{Event, HandoffReceived, Recorded, TaskCreated};
use crate::core::id::{
    ArtifactId, CheckpointId, ContextId, HandoffId, InstanceId, PrincipalId, RequestId, TaskId,
};
use crate::core::receipt::Element;
use crate::proto::baton::v1 as pb;
use pb::event::Detail;

use super::axis::{
    artifact_state_from_pb, artifact_state_to_pb, element_from_pb, element_to_pb,
    end_reason_from_pb, end_reason_to_pb, handoff_status_from_pb, handoff_status_to_pb, load_axes,
    readback_result_from_pb, readback_result_to_pb, render_axes,
};
use super::handoff::{
    load_assurances, load_claim, load_counter, load_digest, load_handoff, load_id,
    load_optional_digest, load_party, load_time, render_assurances, render_claim, render_handoff,
};
use super::reason::{reason_from_pb, reason_to_pb};
use super::scope::{load_scope, render_scope};
use super::task::{load_artifact, load_policy, load_version, render_artifact, render_policy};
use super::{StoredError, canon, time};

const NAME: &str = "Event";

/// The digest of an event: over its canonical form without the digest itself.
///
/// # Errors
/// The event says nothing, or has no canonical form; a fault of the broker.
pub fn event_digest(event: &pb::Event) -> Result<Digest, StoredError> {
    if event.detail.is_none() {
        return Err(StoredError::missing(NAME, "detail"));
    }
    canon::digest_without(event, &["digest"]).map_err(|e| StoredError::bad(NAME, "digest", &e))
}

/// [`event_digest`] of an event without a digest, by its encoded form.
pub(super) fn encoded_digest(event: &pb::Event, encoded: &[u8]) -> Result<Digest, StoredError> {
    if event.detail.is_none() {
        return Err(StoredError::missing(NAME, "detail"));
    }
    let digest = canon::digest_of_encoded::<pb::Event>(encoded);
    digest.map_err(|e| StoredError::bad(NAME, "digest", &e))
}

/// The event as a message.
#[must_use]
pub fn render_event(task: &TaskId, record: &Recorded, digest: Option<Digest>) -> pb::Event {
    let text = |digest: Option<Digest>| digest.map(|d| d.to_string()).unwrap_or_default();
    pb::Event {
        task_id: task.to_string(),
        sequence: record.sequence,
        time: Some(time::render_timestamp(record.time)),
        principal: record.by.to_string(),
        request_id: record.request.as_ref().map(ToString::to_string).unwrap_or_default(),
        revision: record.revision.get(),
        epoch: record.epoch.get(),
        previous_digest: text(record.previous),
        digest: text(digest),
        detail: render_detail(task, &record.event),
    }
}

fn note(digest: Option<Digest>) -> String {
    digest.map(|d| d.to_string()).unwrap_or_default()
}

fn render_detail(task: &TaskId, event: &Event) -> Option<Detail> {
    Some(match event {
        Event::TaskCreated(created) => Detail::TaskCreated(render_created(created)),
        Event::CheckpointPut { id, version, digest, not_done_units } => {
            Detail::CheckpointPut(pb::CheckpointPut {
                checkpoint: Some(pb::CheckpointRef {
                    id: id.to_string(),
                    version: *version,
                    fixed_at: None,
                    digest: digest.to_string(),
                }),
                not_done_units: *not_done_units,
            })
        }
        Event::StatusReported { axes, report } => Detail::StatusReported(pb::StatusReported {
            axes: Some(render_axes(axes, None)),
            report: report.to_string(),
        }),
        Event::ArtifactPut { artifact, axes } => Detail::ArtifactPut(pb::ArtifactPut {
            artifact: Some(render_artifact(artifact)),
            axes: Some(render_axes(axes, None)),
        }),
        Event::ReadbackRecorded { artifact, version, verifier, result, evidence, state } => {
            Detail::ReadbackRecorded(pb::ReadbackRecorded {
                artifact_id: artifact.to_string(),
                version: version.to_string(),
                verifier: verifier.to_string(),
                result: readback_result_to_pb(*result).into(),
                evidence: evidence.to_string(),
                state: artifact_state_to_pb(*state).into(),
            })
        }
        Event::AcceptanceDecided { axes, verifier, decision } => {
            Detail::AcceptanceDecided(pb::AcceptanceDecided {
                axes: Some(render_axes(axes, None)),
                verifier: verifier.to_string(),
                decision: decision.to_string(),
            })
        }
        Event::TaskCanceled { axes, note: said } => Detail::TaskCanceled(pb::TaskCanceled {
            axes: Some(render_axes(axes, None)),
            note: note(*said),
        }),
        Event::TaskFrozen { note } => Detail::TaskFrozen(pb::TaskFrozen { note: note.to_string() }),
        Event::FreezeLifted { note } => {
            Detail::FreezeLifted(pb::FreezeLifted { note: note.to_string() })
        }
        Event::OwnershipResumed { instance } => {
            Detail::OwnershipResumed(pb::OwnershipResumed { instance_id: instance.to_string() })
        }
        Event::OwnerAbsent => Detail::OwnerAbsent(pb::OwnerAbsent {}),
        Event::WriteRefused { reason, rpc } => Detail::WriteRefused(pb::WriteRefused {
            reason: reason_to_pb(*reason).into(),
            rpc: (*rpc).to_owned(),
        }),
        Event::HandoffOffered { .. }
        | Event::HandoffClaimed { .. }
        | Event::ClaimLapsed { .. }
        | Event::ReceiptRefused { .. }
        | Event::HandoffReceived(_)
        | Event::HandoffEnded { .. }
        | Event::HandoffReturned { .. } => return render_handoff_detail(task, event),
    })
}

fn render_handoff_detail(task: &TaskId, event: &Event) -> Option<Detail> {
    Some(match event {
        Event::HandoffOffered { handoff } => Detail::HandoffOffered(pb::HandoffOffered {
            handoff: Some(render_handoff(handoff, task, "")),
        }),
        Event::HandoffClaimed { handoff, claim } => Detail::HandoffClaimed(pb::HandoffClaimed {
            handoff_id: handoff.to_string(),
            claim: Some(render_claim(claim)),
        }),
        Event::ClaimLapsed { handoff, claimant } => Detail::ClaimLapsed(pb::ClaimLapsed {
            handoff_id: handoff.to_string(),
            claimant: claimant.to_string(),
        }),
        Event::ReceiptRefused { handoff, receiver, elements } => {
            Detail::ReceiptRefused(pb::ReceiptRefused {
                handoff_id: handoff.to_string(),
                receiver: receiver.to_string(),
                elements: elements.iter().map(|e| element_to_pb(*e).into()).collect(),
            })
        }
        Event::HandoffReceived(received) => Detail::HandoffReceived(pb::HandoffReceived {
            handoff_id: received.handoff.to_string(),
            receiver: received.receiver.principal.to_string(),
            account: received.receiver.account.clone(),
            instance_id: received.instance.to_string(),
            receipt: received.receipt.to_string(),
            scope: Some(render_scope(&received.scope)),
            axes: Some(render_axes(&received.axes, Some(HandoffStatus::Received))),
            assurances: render_assurances(&received.assurances),
            elements: received.elements.to_string(),
        }),
        Event::HandoffEnded { handoff, status, reason, failing, note: said } => {
            Detail::HandoffEnded(pb::HandoffEnded {
                handoff_id: handoff.to_string(),
                status: handoff_status_to_pb(*status).into(),
                reason: reason.map_or(0, |r| end_reason_to_pb(r).into()),
                failing_element: failing.map_or(0, |e| element_to_pb(e).into()),
                note: note(*said),
            })
        }
        Event::HandoffReturned { handoff, refused_by, failing, note: said } => {
            Detail::HandoffReturned(pb::HandoffReturned {
                handoff_id: handoff.to_string(),
                refused_by: refused_by.to_string(),
                failing_element: failing.map_or(0, |e| element_to_pb(e).into()),
                note: note(*said),
            })
        }
        // Nothing is made up: an event without a detail gets no digest and is never stored.
        _ => return None,
    })
}

fn render_created(created: &TaskCreated) -> pb::TaskCreated {
    pb::TaskCreated {
        originator: created.originator.principal.to_string(),
        account: created.originator.account.clone(),
        instance_id: created.instance.to_string(),
        context_id: created.context.as_ref().map(ToString::to_string).unwrap_or_default(),
        task_class: created.class.clone(),
        contract_version: created.contract_version.to_string(),
        contract_digest: created.contract_digest.to_string(),
        contract_document: created.contract_document.to_string(),
        scope: created.scope.as_ref().map(render_scope),
        policy: Some(render_policy(&created.policy)),
    }
}

/// Reads a stored event, with its digest.
///
/// # Errors
/// A value cannot be read; the detail is not known. A reader that meets an unknown detail must
/// stop.
pub fn load_event(event: &pb::Event) -> Result<(Recorded, Option<Digest>), StoredError> {
    let detail = event.detail.as_ref().ok_or_else(|| StoredError::missing(NAME, "detail"))?;
    let previous = load_optional_digest(NAME, "previous_digest", &event.previous_digest)?;
    let sequence = load_counter(NAME, "sequence", event.sequence)?;
    if (sequence == 1) != previous.is_none() {
        return Err(StoredError::bad(NAME, "previous_digest", &"does not fit the sequence"));
    }
    let record = Recorded {
        sequence,
        time: load_time(NAME, "time", event.time.as_ref())?,
        by: load_id(NAME, "principal", PrincipalId::parse(&event.principal))?,
        request: match event.request_id.as_str() {
            "" => None,
            text => Some(load_id(NAME, "request_id", RequestId::parse(text))?),
        },
        revision: Revision::new(load_counter(NAME, "revision", event.revision)?),
        epoch: Epoch::new(load_counter(NAME, "epoch", event.epoch)?),
        previous,
        event: load_detail(detail)?,
    };
    Ok((record, load_optional_digest(NAME, "digest", &event.digest)?))
}

fn load_detail(detail: &Detail) -> Result<Event, StoredError> {
    let bad = |field: &'static str, e: &dyn ToString| StoredError {
        message: NAME,
        field,
        problem: e.to_string(),
    };
    Ok(match detail {
        Detail::TaskCreated(d) => Event::TaskCreated(Box::new(load_created(d)?)),
        Detail::CheckpointPut(d) => {
            let c = d.checkpoint.as_ref();
            let c = c.ok_or_else(|| StoredError::missing(NAME, "checkpoint"))?;
            Event::CheckpointPut {
                id: load_id(NAME, "checkpoint.id", CheckpointId::parse(&c.id))?,
                version: load_counter(NAME, "checkpoint.version", c.version)?,
                digest: load_digest(NAME, "checkpoint.digest", &c.digest)?,
                not_done_units: d.not_done_units,
            }
        }
        Detail::StatusReported(d) => Event::StatusReported {
            axes: load_axes(d.axes.as_ref())?,
            report: load_digest(NAME, "report", &d.report)?,
        },
        Detail::ArtifactPut(d) => {
            let a = d.artifact.as_ref();
            let a = a.ok_or_else(|| StoredError::missing(NAME, "artifact"))?;
            let axes = load_axes(d.axes.as_ref())?;
            Event::ArtifactPut { artifact: Box::new(load_artifact(a)?), axes }
        }
        Detail::ReadbackRecorded(d) => Event::ReadbackRecorded {
            artifact: load_id(NAME, "artifact_id", ArtifactId::parse(&d.artifact_id))?,
            version: load_version(NAME, &d.version)?,
            verifier: load_id(NAME, "verifier", PrincipalId::parse(&d.verifier))?,
            result: readback_result_from_pb(d.result).map_err(|e| bad("result", &e))?,
            evidence: load_digest(NAME, "evidence", &d.evidence)?,
            state: artifact_state_from_pb(d.state).map_err(|e| bad("state", &e))?,
        },
        Detail::AcceptanceDecided(d) => Event::AcceptanceDecided {
            axes: load_axes(d.axes.as_ref())?,
            verifier: load_id(NAME, "verifier", PrincipalId::parse(&d.verifier))?,
            decision: load_digest(NAME, "decision", &d.decision)?,
        },
        Detail::TaskCanceled(d) => Event::TaskCanceled {
            axes: load_axes(d.axes.as_ref())?,
            note: load_optional_digest(NAME, "note", &d.note)?,
        },
        Detail::TaskFrozen(d) => Event::TaskFrozen { note: load_digest(NAME, "note", &d.note)? },
        Detail::FreezeLifted(d) => {
            Event::FreezeLifted { note: load_digest(NAME, "note", &d.note)? }
        }
        Detail::OwnershipResumed(d) => Event::OwnershipResumed {
            instance: load_id(NAME, "instance_id", InstanceId::parse(&d.instance_id))?,
        },
        Detail::OwnerAbsent(_) => Event::OwnerAbsent,
        Detail::WriteRefused(d) => load_write_refused(d)?,
        Detail::HandoffOffered(_)
        | Detail::HandoffClaimed(_)
        | Detail::ClaimLapsed(_)
        | Detail::ReceiptRefused(_)
        | Detail::HandoffReceived(_)
        | Detail::HandoffEnded(_)
        | Detail::HandoffReturned(_) => load_handoff_detail(detail)?,
    })
}

fn load_handoff_detail(detail: &Detail) -> Result<Event, StoredError> {
    let handoff = |text: &str| load_id(NAME, "handoff_id", HandoffId::parse(text));
    let principal =
        |field: &'static str, text: &str| load_id(NAME, field, PrincipalId::parse(text));
    Ok(match detail {
        Detail::HandoffOffered(d) => {
            let h = d.handoff.as_ref().ok_or_else(|| StoredError::missing(NAME, "handoff"))?;
            Event::HandoffOffered { handoff: Box::new(load_handoff(h)?) }
        }
        Detail::HandoffClaimed(d) => {
            let claim = d.claim.as_ref().ok_or_else(|| StoredError::missing(NAME, "claim"))?;
            Event::HandoffClaimed { handoff: handoff(&d.handoff_id)?, claim: load_claim(claim)? }
        }
        Detail::ClaimLapsed(d) => Event::ClaimLapsed {
            handoff: handoff(&d.handoff_id)?,
            claimant: principal("claimant", &d.claimant)?,
        },
        Detail::ReceiptRefused(d) => Event::ReceiptRefused {
            handoff: handoff(&d.handoff_id)?,
            receiver: principal("receiver", &d.receiver)?,
            elements: d.elements.iter().map(|e| element(*e)).collect::<Result<_, _>>()?,
        },
        Detail::HandoffReceived(d) => Event::HandoffReceived(Box::new(load_received(d)?)),
        Detail::HandoffEnded(d) => Event::HandoffEnded {
            handoff: handoff(&d.handoff_id)?,
            status: handoff_status_from_pb(d.status)
                .map_err(|e| StoredError::bad(NAME, "status", &e))?,
            reason: match d.reason {
                0 => None,
                n => Some(end_reason_from_pb(n).map_err(|e| StoredError::bad(NAME, "reason", &e))?),
            },
            failing: optional_element(d.failing_element)?,
            note: load_optional_digest(NAME, "note", &d.note)?,
        },
        Detail::HandoffReturned(d) => Event::HandoffReturned {
            handoff: handoff(&d.handoff_id)?,
            refused_by: principal("refused_by", &d.refused_by)?,
            failing: optional_element(d.failing_element)?,
            note: load_optional_digest(NAME, "note", &d.note)?,
        },
        _ => return Err(StoredError::bad(NAME, "detail", &"is no handoff's")),
    })
}

fn element(number: i32) -> Result<Element, StoredError> {
    element_from_pb(number).map_err(|e| StoredError::bad(NAME, "element", &e))
}

fn optional_element(number: i32) -> Result<Option<Element>, StoredError> {
    if number == 0 { Ok(None) } else { element(number).map(Some) }
}

fn load_received(d: &pb::HandoffReceived) -> Result<HandoffReceived, StoredError> {
    let scope = d.scope.as_ref().ok_or_else(|| StoredError::missing(NAME, "scope"))?;
    Ok(HandoffReceived {
        handoff: load_id(NAME, "handoff_id", HandoffId::parse(&d.handoff_id))?,
        receiver: load_party(NAME, &d.receiver, &d.account)?,
        instance: load_id(NAME, "instance_id", InstanceId::parse(&d.instance_id))?,
        receipt: load_digest(NAME, "receipt", &d.receipt)?,
        elements: load_digest(NAME, "elements", &d.elements)?,
        scope: load_scope(scope)?,
        axes: load_axes(d.axes.as_ref())?,
        assurances: load_assurances(&d.assurances)?,
    })
}

fn load_created(d: &pb::TaskCreated) -> Result<TaskCreated, StoredError> {
    let policy = d.policy.as_ref().ok_or_else(|| StoredError::missing(NAME, "policy"))?;
    Ok(TaskCreated {
        originator: load_party(NAME, &d.originator, &d.account)?,
        instance: load_id(NAME, "instance_id", InstanceId::parse(&d.instance_id))?,
        context: match d.context_id.as_str() {
            "" => None,
            text => Some(load_id(NAME, "context_id", ContextId::parse(text))?),
        },
        class: d.task_class.clone(),
        contract_version: load_version(NAME, &d.contract_version)?,
        contract_digest: load_digest(NAME, "contract_digest", &d.contract_digest)?,
        contract_document: load_digest(NAME, "contract_document", &d.contract_document)?,
        scope: d.scope.as_ref().map(load_scope).transpose()?,
        policy: load_policy(policy)?,
    })
}

/// The calls that change a task, as [`crate::core::Command::rpc`] names them: the writes that can
/// be refused on record.
pub(super) const RPCS: &[&str] = &[
    "PutCheckpoint",
    "ReportStatus",
    "PutArtifact",
    "RecordReadback",
    "DecideAcceptance",
    "CancelTask",
    "FreezeTask",
    "LiftFreeze",
    "OfferHandoff",
    "OfferOnBehalf",
    "ClaimHandoff",
    "RenewClaim",
    "AcknowledgeHandoff",
    "RejectHandoff",
    "WithdrawHandoff",
    "ResumeOwnership",
];

fn load_write_refused(d: &pb::WriteRefused) -> Result<Event, StoredError> {
    let rpc = RPCS.iter().find(|rpc| **rpc == d.rpc);
    let rpc = rpc.ok_or_else(|| StoredError::bad(NAME, "rpc", &d.rpc))?;
    let reason = reason_from_pb(d.reason).map_err(|e| StoredError::bad(NAME, "reason", &e))?;
    Ok(Event::WriteRefused { reason, rpc })
}
