//! The packet: what it binds, what the broker fills in, and what it repeats of stored records.
//!
//! What lives here: reading and finishing a packet. What does not: which fields it must have (the
//! contract table), whether it is bound to the task's present state (`core::offer`), withholding
//! (`blind.rs`). Invariant: a packet never changes once it is finished; its digest covers all of
//! it.

use std::collections::BTreeMap;

use crate::core::axis::Axes;
use crate::core::digest::{Digest, Epoch, Revision};
use crate::core::handoff::Receiver;
use crate::core::id::{ArtifactId, CheckpointId, EntityId, HandoffId, PrincipalId, VersionLabel};
use crate::core::receipt::Elements;
use crate::core::refusal::Violation;
use crate::core::scope::Scope;
use crate::core::task::Task;
use crate::proto::baton::v1 as pb;
use pb::artifact_descriptor_list_field::State as ArtifactsState;
use pb::source_snapshot_field::State as SnapshotState;

use super::axis::{acceptance_to_pb, runtime_to_pb};
use super::handoff::parse_receiver;
use super::scope::{parse_scope, render_scope};
use super::violations::Violations;
use super::{guard, time};

/// What a packet says that decisions need, parsed once.
#[derive(Clone, Debug)]
pub struct PacketFacts {
    /// To whom.
    pub receiver: Receiver,
    /// The authority that travels.
    pub scope: Scope,
    /// The checkpoint that it names.
    pub checkpoint: Option<(CheckpointId, Digest)>,
    /// The earlier handoff that it restores.
    pub restores: Option<HandoffId>,
    /// The sources that it binds; none where it says that they are not known.
    pub sources: Option<BTreeMap<EntityId, (VersionLabel, Option<Digest>)>>,
    /// The artifacts that it binds; none where it says that they are not known.
    pub artifacts: Option<BTreeMap<ArtifactId, (VersionLabel, Digest)>>,
}

impl PacketFacts {
    /// True if there is at least one digest that a receiver can fetch and hash.
    #[must_use]
    pub fn hashable(&self) -> bool {
        let sources = self.sources.iter().flatten().any(|(_, (_, digest))| digest.is_some());
        sources || self.artifacts.as_ref().is_some_and(|all| !all.is_empty())
    }

    /// Every digest that a blind packet withholds.
    pub fn withheld(&self) -> impl Iterator<Item = Digest> {
        let sources = self.sources.iter().flatten().filter_map(|(_, (_, digest))| *digest);
        let artifacts = self.artifacts.iter().flatten().map(|(_, (_, digest))| *digest);
        sources.chain(artifacts)
    }

    /// True if `spells` of a text that the receiver has to repeat word by word, so that it cannot
    /// be masked: the keys and versions of what the packet binds, and its scope.
    pub fn repeated(&self, spells: impl Fn(&str) -> bool) -> bool {
        let sources = self.sources.iter().flatten();
        let sources = sources.flat_map(|(id, (version, _))| [id.as_str(), version.as_str()]);
        let artifacts = self.artifacts.iter().flatten();
        let artifacts = artifacts.flat_map(|(id, (version, _))| [id.as_str(), version.as_str()]);
        let scope = render_scope(&self.scope);
        let lists =
            [&scope.resources, &scope.operations, &scope.approval_conditions, &scope.prohibitions];
        let mut scope = lists.into_iter().flatten().map(String::as_str);
        scope.any(&spells) || sources.chain(artifacts).any(&spells)
    }
}

/// Parses what decisions need of a packet.
pub fn parse(packet: &pb::HandoffPacket, violations: &mut Violations) -> Option<PacketFacts> {
    let next_owner = violations.require("packet.next_owner", packet.next_owner.as_ref());
    let receiver =
        next_owner.and_then(|o| violations.take("packet.next_owner.id", parse_receiver(&o.id)));
    let scope = violations.require("packet.scope", packet.scope.as_ref());
    let scope = scope.and_then(|s| parse_scope(s, "packet.scope", violations));
    let checkpoint = match &packet.last_safe_checkpoint {
        None => Some(None),
        Some(named) => checkpoint_ref(named, violations).map(Some),
    };
    let restores = if packet.restores_handoff_id.is_empty() {
        Some(None)
    } else {
        let field = "packet.restores_handoff_id";
        guard::handoff_id(&packet.restores_handoff_id, field, violations).map(Some)
    };
    let sources = sources(packet.source_snapshot.as_ref(), "packet.source_snapshot", violations);
    let artifacts =
        artifacts(packet.artifact_descriptors.as_ref(), "packet.artifact_descriptors", violations);
    Some(PacketFacts {
        receiver: receiver?,
        scope: scope?,
        checkpoint: checkpoint?,
        restores: restores?,
        sources: sources?,
        artifacts: artifacts?,
    })
}

fn checkpoint_ref(
    named: &pb::CheckpointRef,
    violations: &mut Violations,
) -> Option<(CheckpointId, Digest)> {
    let field = "packet.last_safe_checkpoint";
    let id = violations.take(&format!("{field}.id"), CheckpointId::parse(&named.id));
    let digest = guard::digest(&named.digest, &format!("{field}.digest"), violations);
    Some((id?, digest?))
}

type Sources = BTreeMap<EntityId, (VersionLabel, Option<Digest>)>;
type Artifacts = BTreeMap<ArtifactId, (VersionLabel, Digest)>;

/// Parses a source snapshot: `None` inside says that it is not known.
pub fn sources(
    field: Option<&pb::SourceSnapshotField>,
    path: &str,
    violations: &mut Violations,
) -> Option<Option<Sources>> {
    let Some(SnapshotState::Value(snapshot)) = field.and_then(|f| f.state.as_ref()) else {
        return Some(None);
    };
    let mut all = Sources::new();
    let mut complete = true;
    for (n, entity) in snapshot.entities.iter().enumerate() {
        let at = |name: &str| format!("{path}.entities[{n}].{name}");
        let id = violations.take(&at("entity_id"), EntityId::parse(&entity.entity_id));
        let version = violations.take(&at("version"), VersionLabel::parse(&entity.version));
        let digest = match &entity.digest {
            None => Some(None),
            Some(text) => guard::digest(text, &at("digest"), violations).map(Some),
        };
        algorithm(&entity.digest_algorithm, &at("digest_algorithm"), violations);
        let (Some(id), Some(version), Some(digest)) = (id, version, digest) else {
            complete = false;
            continue;
        };
        if all.insert(id, (version, digest)).is_some() {
            violations.add(&at("entity_id"), format!("{} comes twice", entity.entity_id));
        }
    }
    complete.then_some(Some(all))
}

/// Parses a set of artifact descriptors: `None` inside says that it is not known.
pub fn artifacts(
    field: Option<&pb::ArtifactDescriptorListField>,
    path: &str,
    violations: &mut Violations,
) -> Option<Option<Artifacts>> {
    let Some(ArtifactsState::Value(list)) = field.and_then(|f| f.state.as_ref()) else {
        return Some(None);
    };
    let mut all = Artifacts::new();
    let mut complete = true;
    for (n, descriptor) in list.items.iter().enumerate() {
        let at = |name: &str| format!("{path}.items[{n}].{name}");
        let id = violations.take(&at("id"), ArtifactId::parse(&descriptor.id));
        let version = violations.take(&at("version"), VersionLabel::parse(&descriptor.version));
        let digest = violations.require(&at("digest"), descriptor.digest.as_ref());
        let digest = digest.and_then(|text| guard::digest(text, &at("digest"), violations));
        algorithm(&descriptor.digest_algorithm, &at("digest_algorithm"), violations);
        let (Some(id), Some(version), Some(digest)) = (id, version, digest) else {
            complete = false;
            continue;
        };
        if all.insert(id, (version, digest)).is_some() {
            violations.add(&at("id"), format!("{} comes twice", descriptor.id));
        }
    }
    complete.then_some(Some(all))
}

/// Only one digest algorithm is known; an empty name means it.
pub fn algorithm(name: &str, field: &str, violations: &mut Violations) {
    if !name.is_empty() && name != "sha-256" {
        violations.add(field, format!("{name:?} is not known; use sha-256"));
    }
}

/// Fields that the broker fills must be unset in an offer, or say what it would say.
pub fn check_filled(packet: &pb::HandoffPacket, sender: &PrincipalId, violations: &mut Violations) {
    if !packet.handoff_id.is_empty() {
        violations.add("packet.handoff_id", "is filled by the broker; leave it out");
    }
    if packet.handoff_from.as_ref().is_some_and(|o| !o.id.is_empty() && o.id != sender.as_str()) {
        violations.add(
            "packet.handoff_from.id",
            format!("is not the sender {sender}; it is filled by the broker, leave it out"),
        );
    }
}

/// What a packet repeats of the stored contract and of the checkpoint that it names must be equal
/// to them. Source: REQ-024.
#[must_use]
pub fn differing_copies(
    packet: &pb::HandoffPacket,
    contract: &pb::ContractDocument,
    checkpoint: Option<&pb::Checkpoint>,
) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut differ = |equal: bool, field: &str, of: &str| {
        if !equal {
            found.push(Violation {
                field: format!("packet.{field}"),
                description: format!("differs from the {of}; copy it from the resume set"),
            });
        }
    };
    let given = packet.contract.as_ref();
    differ(given.is_none_or(|c| c == contract), "contract", "stored contract");
    if let Some(goal) = &packet.active_goal {
        differ(goal_of(contract).as_ref() == Some(goal), "active_goal", "stored contract");
    }
    if let Some(c) = checkpoint {
        let p = packet;
        differ(p.current_state == c.current_state, "current_state", "checkpoint");
        differ(p.source_snapshot == c.source_snapshot, "source_snapshot", "checkpoint");
        differ(p.completed_units == c.completed_units, "completed_units", "checkpoint");
        differ(p.not_done == c.not_done, "not_done", "checkpoint");
        differ(p.open_unknown == c.open_unknown, "open_unknown", "checkpoint");
        differ(p.blockers == c.blockers, "blockers", "checkpoint");
        differ(
            p.artifact_descriptors == c.artifact_descriptors,
            "artifact_descriptors",
            "checkpoint",
        );
        differ(p.next_action == c.next_action, "next_action", "checkpoint");
    }
    found
}

/// The goal that a contract sets.
#[must_use]
pub fn goal_of(contract: &pb::ContractDocument) -> Option<pb::ActiveGoal> {
    use pb::text_field::State as Text;
    use pb::text_list_field::State as List;
    let Some(Text::Value(objective)) = contract.objective.as_ref()?.state.as_ref() else {
        return None;
    };
    let Some(List::Value(criteria)) = contract.completion_criteria.as_ref()?.state.as_ref() else {
        return None;
    };
    Some(pb::ActiveGoal {
        objective: objective.clone(),
        completion_criteria: criteria.items.clone(),
    })
}

/// What the broker fills into a packet.
#[derive(Clone, Debug)]
pub struct Filling<'a> {
    /// The new handoff.
    pub handoff: &'a HandoffId,
    /// The task as it stands.
    pub task: &'a Task,
    /// The epoch that the offer is made under.
    pub epoch: Epoch,
    /// The revision that it was decided on.
    pub revision: Revision,
    /// The stored terms.
    pub contract: &'a pb::ContractDocument,
    /// Their canonical form.
    pub contract_canonical: &'a [u8],
}

/// Fills in what is the broker's, so that the packet is whole and can be digested.
pub fn fill(packet: &mut pb::HandoffPacket, filling: &Filling<'_>) {
    let task = filling.task;
    let axes: &Axes = &task.axes;
    packet.handoff_id = filling.handoff.to_string();
    packet.epoch = filling.epoch.get();
    packet.revision = filling.revision.get();
    packet.contract = Some(filling.contract.clone());
    packet.contract_canonical = filling.contract_canonical.to_vec();
    packet.runtime_status = runtime_to_pb(axes.runtime).into();
    packet.business_acceptance_status = acceptance_to_pb(axes.acceptance).into();
    packet.handoff_from.get_or_insert_default().id = task.owner.principal.to_string();
    packet.last_updated = Some(pb::LastUpdated {
        time: Some(time::render_timestamp(task.updated_at)),
        by: task.updated_by.to_string(),
    });
}

/// The five elements that a finished packet binds.
#[must_use]
pub fn elements<'a>(task: &'a Task, facts: &'a PacketFacts) -> Elements<'a> {
    Elements {
        task: &task.id,
        contract: (&task.contract_version, task.contract_digest),
        sources: facts.sources.as_ref(),
        artifacts: facts.artifacts.as_ref(),
        scope: &facts.scope,
    }
}
