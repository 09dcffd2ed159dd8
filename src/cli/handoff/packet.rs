//! A packet made of a task's resume set.
//!
//! What lives here: copying the checkpoint word by word, and what is derived from the task's
//! record. What does not: receiver, reason and scope, which the offer gives. Invariants: a
//! field that was
//! given stays as it is; on behalf of an owner nothing is said for it: what the checkpoint does not
//! hold is UNKNOWN with the reason.

use crate::cli::field::{no_text, not_applicable, said, text, unknown};
use crate::proto::baton::v1 as pb;
use crate::wire::packet::goal_of;

/// Who offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Sender {
    /// The owner, who knows its own work.
    Owner,
    /// Another, who knows what is on record.
    OnBehalf,
}

const NO_CHECKPOINT: &str = "the owner left no checkpoint";
const NOT_SAID: &str = "the owner's last checkpoint does not say it";

/// Fills the fields that `given` leaves open.
pub(in crate::cli) fn packet(
    given: pb::HandoffPacket,
    resume: &pb::GetResumeSetResponse,
    sender: Sender,
) -> pb::HandoffPacket {
    let task = resume.task.clone().unwrap_or_default();
    let mut packet = given;
    packet.task_id.clone_from(&task.task_id);
    if packet.last_safe_checkpoint.is_none() {
        packet.last_safe_checkpoint.clone_from(&task.checkpoint);
    }
    match (&resume.checkpoint, sender) {
        (Some(checkpoint), _) => copy(&mut packet, checkpoint),
        // The broker then says that a checkpoint is needed.
        (None, Sender::Owner) => {}
        (None, Sender::OnBehalf) => unknown_state(&mut packet),
    }
    if let Some(contract) = &resume.contract {
        packet.context_id = packet.context_id.or_else(|| contract.context_id.clone());
        packet.stop_condition = packet.stop_condition.or_else(|| contract.stop_condition.clone());
    }
    let goal = resume.contract_document.as_ref().and_then(goal_of);
    packet.active_goal = packet.active_goal.or(goal);
    long_run(&mut packet, resume, &task, sender);
    packet
}

/// What a packet repeats of its checkpoint.
fn copy(packet: &mut pb::HandoffPacket, c: &pb::Checkpoint) {
    fn put<T: Clone>(to: &mut Option<T>, from: &Option<T>) {
        if to.is_none() {
            to.clone_from(from);
        }
    }
    put(&mut packet.current_state, &c.current_state);
    put(&mut packet.source_snapshot, &c.source_snapshot);
    put(&mut packet.completed_units, &c.completed_units);
    put(&mut packet.not_done, &c.not_done);
    put(&mut packet.open_unknown, &c.open_unknown);
    put(&mut packet.blockers, &c.blockers);
    put(&mut packet.artifact_descriptors, &c.artifact_descriptors);
    put(&mut packet.next_action, &c.next_action);
    put(&mut packet.pending_action, &c.pending_action);
    put(&mut packet.completed_boundary, &c.completed_boundary);
    put(&mut packet.version_set, &c.version_set);
}

/// The state of a task whose owner left nothing.
fn unknown_state(packet: &mut pb::HandoffPacket) {
    use pb::artifact_descriptor_list_field::State as Artifacts;
    use pb::blocker_list_field::State as Blockers;
    use pb::completed_unit_list_field::State as Completed;
    use pb::not_done_unit_list_field::State as NotDone;
    use pb::source_snapshot_field::State as Sources;
    use pb::unknown_item_list_field::State as Unknowns;
    let nothing = || unknown(NO_CHECKPOINT);
    packet.current_state.get_or_insert_with(|| absent_text(NO_CHECKPOINT));
    packet.next_action.get_or_insert_with(|| absent_text(NO_CHECKPOINT));
    packet.source_snapshot.get_or_insert_with(|| pb::SourceSnapshotField {
        state: Some(Sources::Absence(nothing())),
    });
    packet.completed_units.get_or_insert_with(|| pb::CompletedUnitListField {
        state: Some(Completed::Absence(nothing())),
    });
    packet.not_done.get_or_insert_with(|| pb::NotDoneUnitListField {
        state: Some(NotDone::Absence(nothing())),
    });
    packet.artifact_descriptors.get_or_insert_with(|| pb::ArtifactDescriptorListField {
        state: Some(Artifacts::Absence(nothing())),
    });
    packet.open_unknown.get_or_insert_with(|| pb::UnknownItemListField {
        state: Some(Unknowns::Absence(nothing())),
    });
    packet
        .blockers
        .get_or_insert_with(|| pb::BlockerListField { state: Some(Blockers::Absence(nothing())) });
}

fn absent_text(reason: &str) -> pb::TextField {
    pb::TextField { state: Some(pb::text_field::State::Absence(unknown(reason))) }
}

/// What a packet says beside the checkpoint.
fn long_run(
    packet: &mut pb::HandoffPacket,
    resume: &pb::GetResumeSetResponse,
    task: &pb::Task,
    sender: Sender,
) {
    use pb::canonical_pointer_list_field::State as Pointers;
    use pb::external_side_effect_list_field::State as Effects;
    use pb::resume_invariant_list_field::State as Invariants;
    use pb::version_set_field::State as Versions;
    let behind = sender == Sender::OnBehalf;
    let reason = if resume.checkpoint.is_some() { NOT_SAID } else { NO_CHECKPOINT };
    if packet.pending_action.is_none() {
        packet.pending_action = no_text(if behind { unknown(reason) } else { not_applicable() });
    }
    if packet.completed_boundary.is_none() {
        packet.completed_boundary =
            if behind { no_text(unknown(reason)) } else { text(&boundary(resume)) };
    }
    if packet.external_side_effects.is_none() {
        let state =
            if behind { Effects::Absence(unknown(reason)) } else { Effects::Value(effects(task)) };
        packet.external_side_effects = Some(pb::ExternalSideEffectListField { state: Some(state) });
    }
    if packet.version_set.is_none() {
        let items = vec![pb::ComponentVersion {
            component: "contract".to_owned(),
            version: task.contract_version.clone(),
        }];
        let state = Some(Versions::Value(pb::VersionSet { items }));
        packet.version_set = Some(pb::VersionSetField { state });
    }
    if packet.canonical_pointers.is_none() {
        let items = pointers(packet, resume);
        let state = Some(Pointers::Value(pb::CanonicalPointerList { items }));
        packet.canonical_pointers = Some(pb::CanonicalPointerListField { state });
    }
    if packet.resume_invariants.is_none() {
        let state = Some(Invariants::Value(pb::ResumeInvariantList { items: invariants(task) }));
        packet.resume_invariants = Some(pb::ResumeInvariantListField { state });
    }
}

/// The last accepted bounded step, as the checkpoint's completed units tell it.
fn boundary(resume: &pb::GetResumeSetResponse) -> String {
    use pb::completed_unit_list_field::State;
    let units = resume.checkpoint.as_ref().and_then(|c| c.completed_units.as_ref());
    match units.and_then(|f| f.state.as_ref()) {
        Some(State::Value(list)) => match list.items.last() {
            Some(last) => last.unit.clone(),
            None => "nothing is completed".to_owned(),
        },
        _ => "nothing is listed as completed".to_owned(),
    }
}

/// The effects that the owner's own reports tell of.
fn effects(task: &pb::Task) -> pb::ExternalSideEffectList {
    if !task.axes.as_ref().is_some_and(|a| a.effect_uncertain) {
        return pb::ExternalSideEffectList::default();
    }
    let items = vec![pb::ExternalSideEffect {
        operation_id: "unconfirmed".to_owned(),
        description: "an effect that the owner reported as uncertain".to_owned(),
        commit_state: pb::CommitState::CommitUnknown.into(),
        evidence: task.status_report.clone(),
    }];
    pb::ExternalSideEffectList { items }
}

/// What the packet points to: its sources, its artifacts, the acceptance contract.
fn pointers(
    packet: &pb::HandoffPacket,
    resume: &pb::GetResumeSetResponse,
) -> Vec<pb::CanonicalPointer> {
    use pb::artifact_descriptor_list_field::State as Artifacts;
    use pb::source_snapshot_field::State as Sources;
    let pointer = |kind: &str, to: &str, version: &str| pb::CanonicalPointer {
        kind: kind.to_owned(),
        r#ref: to.to_owned(),
        version: version.to_owned(),
    };
    let mut all = Vec::new();
    let sources = packet.source_snapshot.as_ref().and_then(|f| f.state.as_ref());
    if let Some(Sources::Value(snapshot)) = sources {
        all.extend(snapshot.entities.iter().map(|e| pointer("source", &e.entity_id, &e.version)));
    }
    let artifacts = packet.artifact_descriptors.as_ref().and_then(|f| f.state.as_ref());
    if let Some(Artifacts::Value(list)) = artifacts {
        all.extend(list.items.iter().map(|a| pointer("artifact", &a.id, &a.version)));
    }
    let document = resume.contract_document.as_ref();
    if let Some(acceptance) = said(document.and_then(|d| d.acceptance_contract_ref.as_ref())) {
        let (to, version) = acceptance.split_once('@').unwrap_or((acceptance, ""));
        all.push(pointer("acceptance_contract", to, version));
    }
    all
}

/// What the broker's record shows about a safe resume. Nothing is said about the other invariants.
fn invariants(task: &pb::Task) -> Vec<pb::ResumeInvariantStatement> {
    let checkpoint = task.checkpoint.as_ref();
    let named = checkpoint.map_or_else(
        || "there is no checkpoint".to_owned(),
        |c| format!("checkpoint {} {}", c.id, c.digest),
    );
    let certain = !task.axes.as_ref().is_some_and(|a| a.effect_uncertain);
    let says = |invariant: pb::ResumeInvariant, holds: bool, evidence: String| {
        pb::ResumeInvariantStatement { invariant: invariant.into(), holds: Some(holds), evidence }
    };
    let mut all = vec![
        says(pb::ResumeInvariant::Identity, true, format!("task {}", task.task_id)),
        says(pb::ResumeInvariant::Canonicality, checkpoint.is_some(), named.clone()),
        says(pb::ResumeInvariant::Position, checkpoint.is_some(), named),
        says(
            pb::ResumeInvariant::Auditability,
            true,
            format!("event {} {}", task.last_sequence, task.chain_head),
        ),
    ];
    // A report says "uncertain" for certain; its silence proves no effect.
    if !certain {
        let evidence = format!("status report {}", task.status_report);
        all.push(says(pb::ResumeInvariant::SideEffectSafety, false, evidence));
    }
    all
}
