//! What is missing in a contract, a checkpoint or an offer.
//!
//! What lives here: which fields each of the three must have and which kinds of nothing it accepts.
//! What does not: the conditions by tier, trait and phase, the comparison of a packet with its
//! checkpoint, and what the entries of a list say (`content`). Invariants: every finding is
//! reported at once, sorted and once; a field that is missing gives exactly one.

use crate::proto::baton::v1 as pb;

use super::content::{self, Content};
use super::field::{Field, Profile, Row, fields_of};
use super::presence::{
    Presence, blank, none_said, plain, presence, presence_in_packet, said, text, whole,
};
use super::stated::{Stated, value};
use super::{SUPPORTED_CONTRACT_VERSIONS, supported_version};

/// The codes of findings. A program may branch on them; they never change.
pub mod code {
    /// Nothing was said where something is required.
    pub const MISSING_FIELD: &str = "MISSING_FIELD";
    /// Explicitly nothing, where a value is required.
    pub const EMPTY_NOT_ALLOWED: &str = "EMPTY_NOT_ALLOWED";
    /// `NOT_APPLICABLE` where the field always applies.
    pub const NOT_APPLICABLE_NOT_ALLOWED: &str = "NOT_APPLICABLE_NOT_ALLOWED";
    /// `UNKNOWN` where the value must be established.
    pub const UNKNOWN_NOT_ALLOWED: &str = "UNKNOWN_NOT_ALLOWED";
    /// `NOT_AVAILABLE` where somebody must supply the value.
    pub const NOT_AVAILABLE_NOT_ALLOWED: &str = "NOT_AVAILABLE_NOT_ALLOWED";
    /// `PENDING` where the value is due now.
    pub const PENDING_NOT_ALLOWED: &str = "PENDING_NOT_ALLOWED";
    /// An absence without its kind, its reason or its planned method.
    pub const UNKNOWN_WITHOUT_REASON: &str = "UNKNOWN_WITHOUT_REASON";
    /// A contract version whose rules the broker does not know.
    pub const UNSUPPORTED_CONTRACT_VERSION: &str = "UNSUPPORTED_CONTRACT_VERSION";
    /// Work listed as completed without evidence.
    pub const UNVERIFIED_COMPLETED: &str = "UNVERIFIED_COMPLETED";
    /// An open question that nothing closes.
    pub const UNKNOWN_WITHOUT_CLOSURE: &str = "UNKNOWN_WITHOUT_CLOSURE";
    /// An open question that lacks another member.
    pub const UNKNOWN_ITEM_INCOMPLETE: &str = "UNKNOWN_ITEM_INCOMPLETE";
    /// Two entries of a set with one key.
    pub const DUPLICATE_KEY: &str = "DUPLICATE_KEY";
    /// A next action of more than one line.
    pub const NOT_ONE_STEP: &str = "NOT_ONE_STEP";
}

/// One thing that is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// One of [`code`].
    pub code: &'static str,
    /// The field: the catalogue's name, or the proto's name of a packet field that has none.
    pub field: &'static str,
    /// What is wrong and what to do, for a person.
    pub description: String,
}

impl Finding {
    pub(super) fn new(code: &'static str, field: &'static str, description: String) -> Self {
        Self { code, field, description }
    }
}

/// The kinds of nothing that a field accepts in the place where it is asked for.
#[derive(Clone, Copy, Default)]
struct Accepts {
    empty: bool,
    not_applicable: bool,
    unknown: bool,
    pending: bool,
}

const VALUE: Accepts =
    Accepts { empty: false, not_applicable: false, unknown: false, pending: false };
const OR_EMPTY: Accepts = Accepts { empty: true, ..VALUE };
const OR_NOT_APPLICABLE: Accepts = Accepts { not_applicable: true, ..VALUE };

impl From<&Row> for Accepts {
    fn from(row: &Row) -> Self {
        Self {
            empty: row.empty_allowed,
            not_applicable: row.not_applicable_allowed,
            pending: row.pending_allowed,
            ..VALUE
        }
    }
}

/// A packet field that the catalogue's 44 do not have.
struct PacketField {
    name: &'static str,
    presence: fn(&pb::HandoffPacket) -> Presence,
    accepts: Accepts,
}

/// The long-run set of REQ-057, without what is a catalogue field too: the checkpoint is
/// `CHECKPOINT_ID_TIME`, the open questions are `OPEN_UNKNOWNS`.
const LONG_RUN: [PacketField; 7] = [
    PacketField {
        name: "canonical_pointers",
        presence: |p| said(&p.canonical_pointers, |l| none_said(&l.items)),
        accepts: OR_EMPTY,
    },
    PacketField {
        name: "active_goal",
        presence: |p| whole(&p.active_goal, is_no_goal),
        accepts: VALUE,
    },
    PacketField {
        name: "completed_boundary",
        presence: |p| text(&p.completed_boundary),
        accepts: VALUE,
    },
    PacketField {
        name: "pending_action",
        presence: |p| text(&p.pending_action),
        accepts: OR_NOT_APPLICABLE,
    },
    PacketField {
        name: "external_side_effects",
        presence: |p| said(&p.external_side_effects, |l| none_said(&l.items)),
        accepts: OR_EMPTY,
    },
    PacketField {
        name: "version_set",
        presence: |p| said(&p.version_set, |l| none_said(&l.items)),
        accepts: VALUE,
    },
    PacketField {
        name: "resume_invariants",
        presence: |p| said(&p.resume_invariants, |l| none_said(&l.items)),
        accepts: VALUE,
    },
];

/// Judges a contract as it is materialised: the seven fields of M0 are there, its version is known,
/// and no absence of any field lacks its reason.
#[must_use]
pub fn check_materialised(contract: &pb::OperatingContract) -> Vec<Finding> {
    let mut findings = Vec::new();
    for field in Field::all() {
        judge_reason(field.name(), &presence(contract, field), &mut findings);
    }
    judge_evidence_reasons(&contract.execution_evidence, &mut findings);
    for row in fields_of(Profile::M0) {
        judge(row.field.name(), &presence(contract, row.field), row.into(), &mut findings);
    }
    if let Some(version) = value(&contract.contract_version)
        && !blank(version)
        && !supported_version(version)
    {
        let known = SUPPORTED_CONTRACT_VERSIONS.join(", ");
        let text = format!("CONTRACT_VERSION `{version}` is not supported; use one of: {known}");
        let code = code::UNSUPPORTED_CONTRACT_VERSION;
        findings.push(Finding::new(code, Field::ContractVersion.name(), text));
    }
    let labels = value(&contract.evidence_labels).into_iter().flat_map(|l| &l.items);
    let assertions = labels.map(|l| &*l.assertion);
    content::keys(Field::EvidenceLabels.name(), "assertion", assertions, &mut findings);
    sorted(findings)
}

/// Judges an offer: the contract that the task has, the finished packet, which is the one whose
/// broker-filled fields are filled, and the declared shape of the work. `unknown_allowed` is for an
/// offer on behalf of an owner that is gone: `UNKNOWN` with a reason then stands for what only that
/// owner could say. Where even `CURRENT_STATE` is unknown, there may be no checkpoint to name.
///
/// The acceptance axis, the run and the context may be unset in a packet, and the receipt is the
/// receiver's to give.
#[must_use]
pub fn check_offer(
    contract: &pb::OperatingContract,
    packet: &pb::HandoffPacket,
    shape: &pb::ContractShape,
    unknown_allowed: bool,
) -> Vec<Finding> {
    let mut findings = check_materialised(contract);
    for field in Field::all() {
        judge_reason(field.name(), &presence_in_packet(packet, field), &mut findings);
    }
    judge_evidence_reasons(&packet.execution_evidence, &mut findings);
    let owners = Accepts { unknown: unknown_allowed, ..VALUE };
    let sets = Accepts { empty: true, ..owners };
    let resumable = fields_of(Profile::C2)
        .filter(|row| !(unknown_allowed && is_without_checkpoint(packet, row.field)))
        .map(|row| (row.field, Accepts { unknown: unknown_allowed, ..row.into() }));
    let transfer = fields_of(Profile::C4)
        .filter(|row| is_asked_of_sender(row.field, shape))
        .map(|row| (row.field, row.into()));
    let rest = [
        (Field::InputEntityVersionSnapshot, sets),
        (Field::ArtifactDescriptor, sets),
        (Field::AuthorizationScope, VALUE),
        (Field::StopCondition, VALUE),
        (Field::RuntimeStatus, VALUE),
    ];
    for (field, accepts) in resumable.chain(transfer).chain(rest) {
        judge(field.name(), &presence_in_packet(packet, field), accepts, &mut findings);
    }
    for field in &LONG_RUN {
        let accepts = Accepts { unknown: unknown_allowed, ..field.accepts };
        judge(field.name, &(field.presence)(packet), accepts, &mut findings);
    }
    content::judge_packet(packet, &mut findings);
    sorted(findings)
}

/// Judges a checkpoint as its owner gives it. Its nine fields are the id and the eight parts of the
/// state; the task, the contract version and the time are the broker's to fill.
#[must_use]
pub fn check_checkpoint(checkpoint: &pb::Checkpoint) -> Vec<Finding> {
    let c = checkpoint;
    let mut findings = Vec::new();
    let sets = [
        (Field::InputEntityVersionSnapshot, said(&c.source_snapshot, |s| none_said(&s.entities))),
        (Field::CompletedUnits, said(&c.completed_units, |l| none_said(&l.items))),
        (Field::NotDone, said(&c.not_done, |l| none_said(&l.items))),
        (Field::ArtifactDescriptor, said(&c.artifact_descriptors, |l| none_said(&l.items))),
        (Field::OpenUnknowns, said(&c.open_unknown, |l| none_said(&l.items))),
        (Field::Blockers, said(&c.blockers, |l| none_said(&l.items))),
    ];
    for (field, presence) in sets {
        judge(field.name(), &presence, OR_EMPTY, &mut findings);
    }
    let values = [
        (Field::CheckpointIdTime, plain(&c.id)),
        (Field::CurrentState, text(&c.current_state)),
        (Field::NextAction, text(&c.next_action)),
    ];
    for (field, presence) in values {
        judge(field.name(), &presence, VALUE, &mut findings);
    }
    let optional = [
        ("pending_action", text(&c.pending_action)),
        ("completed_boundary", text(&c.completed_boundary)),
        ("version_set", said(&c.version_set, |l| none_said(&l.items))),
    ];
    for (name, presence) in optional {
        judge_reason(name, &presence, &mut findings);
    }
    Content::from(c).judge(&mut findings);
    sorted(findings)
}

/// Adds the one finding of a required field, if it has one.
fn judge(field: &'static str, presence: &Presence, accepts: Accepts, findings: &mut Vec<Finding>) {
    let (code, text) = match presence {
        Presence::Value => return,
        Presence::Empty if accepts.empty => return,
        Presence::NotApplicable if accepts.not_applicable => return,
        Presence::Unknown(reason) if accepts.unknown && !blank(reason) => return,
        Presence::Pending(method) if accepts.pending && !blank(method) => return,
        Presence::Absent => (code::MISSING_FIELD, "is missing; give it"),
        Presence::Empty => (code::EMPTY_NOT_ALLOWED, "is empty; give a value that is not blank"),
        Presence::NotApplicable => {
            (code::NOT_APPLICABLE_NOT_ALLOWED, "is NOT_APPLICABLE and always applies here; give it")
        }
        Presence::Unsaid => return judge_reason(field, presence, findings),
        Presence::Unknown(why) | Presence::NotAvailable(why) | Presence::Pending(why)
            if blank(why) =>
        {
            return judge_reason(field, presence, findings);
        }
        Presence::Unknown(_) => {
            (code::UNKNOWN_NOT_ALLOWED, "is UNKNOWN and must be established here; give it")
        }
        Presence::NotAvailable(_) => {
            (code::NOT_AVAILABLE_NOT_ALLOWED, "is NOT_AVAILABLE and must be supplied here; give it")
        }
        Presence::Pending(_) => (code::PENDING_NOT_ALLOWED, "is PENDING and is due here; give it"),
    };
    findings.push(Finding::new(code, field, format!("{field} {text}")));
}

/// Adds the finding of an absence that does not say what it must, required or not.
fn judge_reason(field: &'static str, presence: &Presence, findings: &mut Vec<Finding>) {
    let text = match presence {
        Presence::Absent | Presence::Empty | Presence::Value | Presence::NotApplicable => return,
        Presence::Unsaid => "has an absence without a kind; say which kind it is, or give a value",
        Presence::Unknown(reason) if blank(reason) => "is UNKNOWN without a reason; say why",
        Presence::NotAvailable(reason) if blank(reason) => {
            "is NOT_AVAILABLE without a reason; say why"
        }
        Presence::Pending(method) if blank(method) => {
            "is PENDING without a planned method; say how it will be obtained"
        }
        Presence::Unknown(_) | Presence::NotAvailable(_) | Presence::Pending(_) => return,
    };
    findings.push(Finding::new(code::UNKNOWN_WITHOUT_REASON, field, format!("{field} {text}")));
}

/// The two lists inside execution evidence can hold an absence of their own.
fn judge_evidence_reasons<F>(evidence: &Option<F>, findings: &mut Vec<Finding>)
where
    F: Stated<Value = pb::ExecutionEvidence>,
{
    for list in
        value(evidence).into_iter().flat_map(|e| [&e.declared_sources, &e.evidenced_sources])
    {
        let presence = said(list, |l| l.items.is_empty());
        judge_reason(Field::ExecutionEvidence.name(), &presence, findings);
    }
}

fn is_asked_of_sender(field: Field, shape: &pb::ContractShape) -> bool {
    match field {
        Field::HandoffReceipt => false,
        Field::HistoryPointerOrCuratedHistory => {
            shape.traits.contains(&(pb::Trait::HistoryMatters as i32))
        }
        _ => true,
    }
}

/// A checkpoint reference has no spelling for "unknown", so the state's own absence speaks for it.
fn is_without_checkpoint(packet: &pb::HandoffPacket, field: Field) -> bool {
    field == Field::CheckpointIdTime
        && packet.last_safe_checkpoint.is_none()
        && matches!(text(&packet.current_state), Presence::Unknown(reason) if !blank(&reason))
}

fn is_no_goal(goal: &pb::ActiveGoal) -> bool {
    blank(&goal.objective) || goal.completion_criteria.iter().all(|criterion| blank(criterion))
}

fn sorted(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort();
    findings.dedup();
    findings
}

#[cfg(test)]
mod tests;
