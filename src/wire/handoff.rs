//! A handoff's record: the message and the core's.
//!
//! Invariant: the receipt's document and the free texts are kept by digest; whoever shows the
//! record to a caller adds them.

use std::collections::BTreeSet;

use crate::core::axis::HandoffStatus;
use crate::core::digest::{Digest, Epoch, Revision};
use crate::core::handoff::{Claim, Handoff, Received, Receiver};
use crate::core::id::{Capability, HandoffId, IdError, InstanceId, PrincipalId, TaskId};
use crate::core::receipt::ElementAssurance;
use crate::core::task::Party;
use crate::core::time::Timestamp;
use crate::proto::baton::v1 as pb;

use super::axis::{
    element_from_pb, element_to_pb, end_reason_from_pb, end_reason_to_pb, handoff_status_from_pb,
    handoff_status_to_pb,
};
use super::{StoredError, time};

const NAME: &str = "Handoff";
const CAPABILITY: &str = "capability:";

/// Parses a receiver: a principal id or `capability:<name>`.
///
/// # Errors
/// Neither.
pub fn parse_receiver(text: &str) -> Result<Receiver, IdError> {
    match text.strip_prefix(CAPABILITY) {
        Some(name) => Capability::parse(name).map(Receiver::Capability),
        None => PrincipalId::parse(text).map(Receiver::Principal),
    }
}

/// The record as a message.
#[must_use]
pub fn render_handoff(handoff: &Handoff, task: &TaskId, class: &str) -> pb::Handoff {
    let text = |digest: Option<Digest>| digest.map(|d| d.to_string()).unwrap_or_default();
    let received = handoff.received.as_ref();
    pb::Handoff {
        handoff_id: handoff.id.to_string(),
        task_id: task.to_string(),
        status: handoff_status_to_pb(handoff.status).into(),
        end_reason: handoff.end_reason.map_or(0, |r| end_reason_to_pb(r).into()),
        handoff_from: handoff.from.principal.to_string(),
        offered_by: handoff.offered_by.to_string(),
        next_owner: handoff.receiver.to_string(),
        packet_digest: handoff.packet.to_string(),
        checkpoint_digest: text(handoff.checkpoint),
        blind: handoff.blind,
        offered_at: Some(time::render_timestamp(handoff.offered_at)),
        deadline: Some(time::render_timestamp(handoff.deadline)),
        claim: handoff.claim.as_ref().map(render_claim),
        claims: handoff.claims,
        attempts: handoff.attempts,
        refused_by: handoff.refused_by.iter().map(ToString::to_string).collect(),
        ended_at: handoff.ended_at.map(time::render_timestamp),
        end_comment: String::new(),
        failing_element: handoff.failing.map_or(0, |e| element_to_pb(e).into()),
        receipt: None,
        received_epoch: received.map_or(0, |r| r.epoch.get()),
        received_revision: received.map_or(0, |r| r.revision.get()),
        supersedes: handoff.supersedes.as_ref().map(ToString::to_string).unwrap_or_default(),
        echo_allowed: handoff.echo_allowed,
        task_class: class.to_owned(),
        on_behalf_note: text(handoff.on_behalf),
        received_elements: received.map(|r| r.elements.to_string()).unwrap_or_default(),
        receipt_document: received.map(|r| r.receipt.to_string()).unwrap_or_default(),
        assurances: received.map(|r| render_assurances(&r.assurances)).unwrap_or_default(),
        end_note: text(handoff.end_note),
        from_account: handoff.from.account.clone(),
        received_by: received.map(|r| r.receiver.to_string()).unwrap_or_default(),
        received_sequence: received.map_or(0, |r| r.sequence),
    }
}

/// A claim as a message.
#[must_use]
pub fn render_claim(claim: &Claim) -> pb::Claim {
    pb::Claim {
        claimant: claim.claimant.principal.to_string(),
        account: claim.claimant.account.clone(),
        instance_id: claim.instance.to_string(),
        claimed_at: Some(time::render_timestamp(claim.claimed_at)),
        lease_expires_at: Some(time::render_timestamp(claim.lease_until)),
    }
}

/// Assurances as messages.
#[must_use]
pub fn render_assurances(all: &[ElementAssurance]) -> Vec<pb::ElementAssurance> {
    all.iter()
        .map(|a| pb::ElementAssurance {
            element: element_to_pb(a.element).into(),
            key: a.key.clone(),
            assurance: if a.fetched {
                pb::EchoAssurance::FetchedAndHashed.into()
            } else {
                pb::EchoAssurance::Echoed.into()
            },
        })
        .collect()
}

/// Reads stored assurances.
///
/// # Errors
/// A value cannot be read.
pub fn load_assurances(all: &[pb::ElementAssurance]) -> Result<Vec<ElementAssurance>, StoredError> {
    const NAME: &str = "ElementAssurance";
    let one = |a: &pb::ElementAssurance| {
        let fetched = match pb::EchoAssurance::try_from(a.assurance) {
            Ok(pb::EchoAssurance::FetchedAndHashed) => true,
            Ok(pb::EchoAssurance::Echoed) => false,
            Ok(pb::EchoAssurance::Unspecified) | Err(_) => {
                return Err(StoredError::bad(NAME, "assurance", &a.assurance));
            }
        };
        let element =
            element_from_pb(a.element).map_err(|e| StoredError::bad(NAME, "element", &e))?;
        Ok(ElementAssurance { element, key: a.key.clone(), fetched })
    };
    all.iter().map(one).collect()
}

/// Reads a stored claim.
///
/// # Errors
/// A value cannot be read.
pub fn load_claim(claim: &pb::Claim) -> Result<Claim, StoredError> {
    const NAME: &str = "Claim";
    Ok(Claim {
        claimant: load_party(NAME, &claim.claimant, &claim.account)?,
        instance: InstanceId::parse(&claim.instance_id)
            .map_err(|e| StoredError::bad(NAME, "instance_id", &e))?,
        claimed_at: load_time(NAME, "claimed_at", claim.claimed_at.as_ref())?,
        lease_until: load_time(NAME, "lease_expires_at", claim.lease_expires_at.as_ref())?,
    })
}

/// Reads a stored handoff.
///
/// # Errors
/// A value cannot be read, or is missing.
pub fn load_handoff(handoff: &pb::Handoff) -> Result<Handoff, StoredError> {
    let status =
        handoff_status_from_pb(handoff.status).map_err(|e| StoredError::bad(NAME, "status", &e))?;
    let optional = |field: &'static str, text: &str| load_optional_digest(NAME, field, text);
    let ended_at = load_optional_time(NAME, "ended_at", handoff.ended_at.as_ref())?;
    if status.is_terminal() != ended_at.is_some() {
        return Err(StoredError::bad(NAME, "ended_at", &"does not fit the status"));
    }
    Ok(Handoff {
        id: load_id(NAME, "handoff_id", HandoffId::parse(&handoff.handoff_id))?,
        status,
        end_reason: match handoff.end_reason {
            0 => None,
            n => Some(end_reason_from_pb(n).map_err(|e| StoredError::bad(NAME, "end_reason", &e))?),
        },
        from: load_party(NAME, &handoff.handoff_from, &handoff.from_account)?,
        offered_by: load_id(NAME, "offered_by", PrincipalId::parse(&handoff.offered_by))?,
        receiver: load_id(NAME, "next_owner", parse_receiver(&handoff.next_owner))?,
        packet: load_digest(NAME, "packet_digest", &handoff.packet_digest)?,
        checkpoint: optional("checkpoint_digest", &handoff.checkpoint_digest)?,
        blind: handoff.blind,
        echo_allowed: handoff.echo_allowed,
        offered_at: load_time(NAME, "offered_at", handoff.offered_at.as_ref())?,
        deadline: load_time(NAME, "deadline", handoff.deadline.as_ref())?,
        claim: handoff.claim.as_ref().map(load_claim).transpose()?,
        claims: handoff.claims,
        attempts: handoff.attempts,
        refused_by: load_principals(&handoff.refused_by)?,
        supersedes: match handoff.supersedes.as_str() {
            "" => None,
            text => Some(load_id(NAME, "supersedes", HandoffId::parse(text))?),
        },
        on_behalf: optional("on_behalf_note", &handoff.on_behalf_note)?,
        ended_at,
        failing: match handoff.failing_element {
            0 => None,
            n => Some(
                element_from_pb(n).map_err(|e| StoredError::bad(NAME, "failing_element", &e))?,
            ),
        },
        end_note: optional("end_note", &handoff.end_note)?,
        received: load_received(handoff, status)?,
    })
}

fn load_received(
    handoff: &pb::Handoff,
    status: HandoffStatus,
) -> Result<Option<Received>, StoredError> {
    if status != HandoffStatus::Received {
        let left = [&handoff.received_by, &handoff.receipt_document, &handoff.received_elements];
        return if left.iter().all(|text| text.is_empty()) {
            Ok(None)
        } else {
            Err(StoredError::bad(NAME, "status", &"is not RECEIVED and a receipt is there"))
        };
    }
    let number = |field: &'static str, value: u64| load_counter(NAME, field, value);
    Ok(Some(Received {
        receiver: load_id(NAME, "received_by", PrincipalId::parse(&handoff.received_by))?,
        epoch: Epoch::new(number("received_epoch", handoff.received_epoch)?),
        revision: Revision::new(number("received_revision", handoff.received_revision)?),
        sequence: number("received_sequence", handoff.received_sequence)?,
        receipt: load_digest(NAME, "receipt_document", &handoff.receipt_document)?,
        elements: load_digest(NAME, "received_elements", &handoff.received_elements)?,
        assurances: load_assurances(&handoff.assurances)?,
    }))
}

fn load_principals(names: &[String]) -> Result<BTreeSet<PrincipalId>, StoredError> {
    names.iter().map(|n| load_id(NAME, "refused_by", PrincipalId::parse(n))).collect()
}

/// Reads a stored identifier.
pub(super) fn load_id<T>(
    message: &'static str,
    field: &'static str,
    parsed: Result<T, IdError>,
) -> Result<T, StoredError> {
    parsed.map_err(|e| StoredError::bad(message, field, &e))
}

/// Reads a stored counter that starts at one: zero says that it was lost.
pub(super) fn load_counter(
    message: &'static str,
    field: &'static str,
    value: u64,
) -> Result<u64, StoredError> {
    if value == 0 { Err(StoredError::missing(message, field)) } else { Ok(value) }
}

/// Reads a stored digest.
pub(super) fn load_digest(
    message: &'static str,
    field: &'static str,
    text: &str,
) -> Result<Digest, StoredError> {
    Digest::parse(text).map_err(|e| StoredError::bad(message, field, &e))
}

/// Reads a stored digest that may be empty.
pub(super) fn load_optional_digest(
    message: &'static str,
    field: &'static str,
    text: &str,
) -> Result<Option<Digest>, StoredError> {
    if text.is_empty() { Ok(None) } else { load_digest(message, field, text).map(Some) }
}

/// Reads a stored time.
pub(super) fn load_time(
    message: &'static str,
    field: &'static str,
    stored: Option<&prost_types::Timestamp>,
) -> Result<Timestamp, StoredError> {
    let stored = stored.ok_or_else(|| StoredError::missing(message, field))?;
    time::parse_timestamp(stored).map_err(|e| StoredError::bad(message, field, &e))
}

/// Reads a stored time that may be unset.
pub(super) fn load_optional_time(
    message: &'static str,
    field: &'static str,
    stored: Option<&prost_types::Timestamp>,
) -> Result<Option<Timestamp>, StoredError> {
    match stored {
        None => Ok(None),
        Some(_) => load_time(message, field, stored).map(Some),
    }
}

/// Reads a stored party.
pub(super) fn load_party(
    message: &'static str,
    principal: &str,
    account: &str,
) -> Result<Party, StoredError> {
    let principal = load_id(message, "principal", PrincipalId::parse(principal))?;
    // An empty account would make every such party the same one, or independent of itself.
    if account.is_empty() {
        return Err(StoredError::missing(message, "account"));
    }
    Ok(Party { principal, account: account.to_owned() })
}

/// What a possible receiver sees of an offer before it claims it.
#[must_use]
pub fn summary(
    handoff: &Handoff,
    task: &TaskId,
    class: &str,
    lease_until: Option<Timestamp>,
    now: Timestamp,
) -> pb::HandoffSummary {
    let live = lease_until.filter(|until| now < *until);
    let from = match handoff.receiver {
        Receiver::Principal(_) => handoff.from.principal.to_string(),
        Receiver::Capability(_) => String::new(),
    };
    pb::HandoffSummary {
        handoff_id: handoff.id.to_string(),
        task_id: task.to_string(),
        next_owner: handoff.receiver.to_string(),
        handoff_from: from,
        task_class: class.to_owned(),
        deadline: Some(time::render_timestamp(handoff.deadline)),
        packet_digest: handoff.packet.to_string(),
        claimed: live.is_some(),
        lease_expires_at: live.map(time::render_timestamp),
    }
}
