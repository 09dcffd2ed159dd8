//! A complete contract, checkpoint and packet for tests, examples and benches.
//!
//! What lives here: the catalogue's complete handoff with versioned source, configuration and
//! evaluation, as messages; the bytes behind its digests, so that a receiver can fetch and hash
//! them. What does not: anything that the broker uses. Invariants: `check_materialised`,
//! `check_checkpoint` and `check_offer` find nothing in it; digests that only the broker computes
//! (contract, checkpoint) are left empty for the caller to set.

use crate::proto::baton::v1 as pb;

mod parts;

use parts::{
    artifacts, at, canonical_pointers, completed_boundary, completed_units, current_state,
    execution_evidence, handoff_from, handoff_reason, history, last_updated, next_action,
    next_owner, no_blockers, no_unknowns, not_applicable, not_done, owned, resume_invariants,
    sources, stop_condition, version_set,
};
pub use parts::{scope, text, texts};

use super::contract_document;

/// The content of the source `src:catalog`, version `rev-41`.
pub const SOURCE: &[u8] = b"catalogue, revision 41, chapters 1-3\n";
/// Digest of [`SOURCE`].
pub const SOURCE_DIGEST: &str =
    "sha256:63f68185437cfdd7a611bbf5c4969102502acb816933807233e86dd5a122f246";
/// The content of the artifact `art-1`, version `v3`.
pub const ARTIFACT: &[u8] = b"# Report\n\nanswer, version 3\n";
/// Digest of [`ARTIFACT`].
pub const ARTIFACT_DIGEST: &str =
    "sha256:cacbb7e3566af09aec955c76d35cc67af3799b1f21a23ce9bb0f3c99f602ccfd";
/// The content of the curated history, version `v2`.
pub const HISTORY: &[u8] = b"decision on catalog revision\n";
/// Digest of [`HISTORY`].
pub const HISTORY_DIGEST: &str =
    "sha256:9c9df128401064507a49ce4882ed5712b4537b3d2c54a8c22cf622a6298fe107";

/// The contract: the fields of the catalogue's complete handoff, after its receipt.
#[must_use]
pub fn contract() -> pb::OperatingContract {
    pb::OperatingContract {
        input_entity_version_snapshot: sources(),
        current_state: current_state(),
        artifact_descriptor: artifacts(),
        completed_units: completed_units(),
        not_done: not_done(),
        open_unknowns: no_unknowns(),
        blockers: no_blockers(),
        next_action: next_action(),
        last_updated: Some(pb::LastUpdatedField {
            state: Some(pb::last_updated_field::State::Value(last_updated())),
        }),
        task_id: text("task-7"),
        checkpoint_id_time: Some(pb::CheckpointIdTimeField {
            state: Some(pb::checkpoint_id_time_field::State::Value(pb::CheckpointIdTime {
                id: "cp-4".to_owned(),
                version: 4,
                fixed_at: at(30),
            })),
        }),
        ..with_transfer(with_execution(terms()))
    }
}

/// What is agreed before any work: the terms.
fn terms() -> pb::OperatingContract {
    pb::OperatingContract {
        contract_version: text("0.2"),
        config_release_ref: text("cfg-2026.09.1"),
        objective: text("Answer one question about the catalogue"),
        completion_criteria: texts(&["answer present", "scope honoured"]),
        acceptance_contract_ref: text("acc-5@v2"),
        allowed_actions: texts(&["read", "draft"]),
        prohibited_actions: texts(&["write", "send", "delete", "share"]),
        authorization_scope: Some(pb::ScopeField {
            state: Some(pb::scope_field::State::Value(scope("agent:writer"))),
        }),
        authoritative_inputs: Some(pb::SourceRefListField {
            state: Some(pb::source_ref_list_field::State::Value(pb::SourceRefList {
                items: vec![pb::SourceRef {
                    entity_id: "src:catalog".to_owned(),
                    scope: "chapters 1-3".to_owned(),
                    authority: String::new(),
                }],
            })),
        }),
        expected_artifacts: Some(pb::ExpectedArtifactListField {
            state: Some(pb::expected_artifact_list_field::State::Value(pb::ExpectedArtifactList {
                items: vec![pb::ExpectedArtifact {
                    role: "report".to_owned(),
                    count: 1,
                    ..Default::default()
                }],
            })),
        }),
        stop_condition: stop_condition(),
        evidence_labels: Some(pb::EvidenceLabelListField {
            state: Some(pb::evidence_label_list_field::State::Value(pb::EvidenceLabelList {
                items: vec![pb::EvidenceLabel {
                    assertion: "answer".to_owned(),
                    label: "observed".to_owned(),
                }],
            })),
        }),
        ..Default::default()
    }
}

/// Adds who works, how it stands and what was seen of it.
fn with_execution(contract: pb::OperatingContract) -> pb::OperatingContract {
    use pb::business_acceptance_status_field::State as Acceptance;
    use pb::runtime_status_field::State as Runtime;
    pb::OperatingContract {
        execution_actor: Some(pb::ExecutionActorField {
            state: Some(pb::execution_actor_field::State::Value(pb::ExecutionActor {
                agent: "writer".to_owned(),
                model: "m-1".to_owned(),
                surface: "grpc".to_owned(),
                account: "svc-a".to_owned(),
                role: "author".to_owned(),
            })),
        }),
        run_time_window: Some(pb::RunTimeWindowField {
            state: Some(pb::run_time_window_field::State::Value(pb::RunTimeWindow {
                start: at(0),
                end: at(30),
                observed_at: at(31),
            })),
        }),
        runtime_status: Some(pb::RuntimeStatusField {
            state: Some(Runtime::Value(pb::RuntimeStatus::Paused.into())),
        }),
        business_acceptance_status: Some(pb::BusinessAcceptanceStatusField {
            state: Some(Acceptance::Value(pb::BusinessAcceptanceStatus::Verifying.into())),
        }),
        execution_evidence: execution_evidence(),
        readback_evidence: Some(pb::ReadbackEvidenceField {
            state: Some(pb::readback_evidence_field::State::Value(pb::ReadbackEvidence {
                method: "fetch artifact by location and compare digest".to_owned(),
                observed: ARTIFACT_DIGEST.to_owned(),
                observed_at: at(60),
                verifier: "verifier:readback-1".to_owned(),
                result: pb::ReadbackResult::Pass.into(),
            })),
        }),
        ..contract
    }
}

/// Adds the transfer and its receipt, which echoes the contract by its version alone.
fn with_transfer(contract: pb::OperatingContract) -> pb::OperatingContract {
    let receipt = pb::HandoffReceipt {
        receipt_id: "rc-1".to_owned(),
        receiver: "agent:reviewer".to_owned(),
        task_id: "task-7".to_owned(),
        contract: Some(pb::ContractEcho { version: "0.2".to_owned(), digest: String::new() }),
        source_snapshot: Some(pb::SourceSnapshotEcho {
            entities: vec![pb::SourceEcho {
                entity_id: "src:catalog".to_owned(),
                version: "rev-41".to_owned(),
                digest: Some(SOURCE_DIGEST.to_owned()),
            }],
        }),
        artifacts: Some(pb::ArtifactSetEcho {
            items: vec![pb::ArtifactEcho {
                id: "art-1".to_owned(),
                version: "v3".to_owned(),
                digest: ARTIFACT_DIGEST.to_owned(),
            }],
        }),
        scope: Some(scope("agent:writer")),
        verified_at: at(50),
        ..Default::default()
    };
    pb::OperatingContract {
        handoff_from: Some(pb::OwnerField {
            state: Some(pb::owner_field::State::Value(handoff_from())),
        }),
        next_owner: Some(pb::OwnerField {
            state: Some(pb::owner_field::State::Value(next_owner())),
        }),
        handoff_reason: handoff_reason(),
        handoff_receipt: Some(pb::HandoffReceiptField {
            state: Some(pb::handoff_receipt_field::State::Value(receipt)),
        }),
        history_pointer_or_curated_history: history(),
        ..contract
    }
}

/// The declared shape of the work.
#[must_use]
pub fn shape() -> pb::ContractShape {
    let traits = [
        pb::Trait::SessionCrossing,
        pb::Trait::OwnerTransfer,
        pb::Trait::IsAsync,
        pb::Trait::VersionedConfig,
        pb::Trait::RepeatedEval,
        pb::Trait::TrustBoundary,
        pb::Trait::SourceBacked,
        pb::Trait::MutableSource,
        pb::Trait::ArtifactTask,
        pb::Trait::HistoryMatters,
    ];
    pb::ContractShape {
        tier: pb::Tier::Oc2.into(),
        traits: traits.into_iter().map(i32::from).collect(),
    }
}

/// The checkpoint after stage 1, as its owner gives it.
#[must_use]
pub fn checkpoint() -> pb::Checkpoint {
    pb::Checkpoint {
        id: "cp-4".to_owned(),
        task_id: String::new(),
        contract_version: String::new(),
        current_state: current_state(),
        source_snapshot: sources(),
        completed_units: completed_units(),
        not_done: not_done(),
        artifact_descriptors: artifacts(),
        open_unknown: no_unknowns(),
        blockers: no_blockers(),
        next_action: next_action(),
        pending_action: not_applicable(),
        completed_boundary: completed_boundary(),
        version_set: version_set(),
    }
}

/// A complete packet for tests, examples and benches: as the sender gives it. What the broker fills
/// is unset. The version and the digest of the checkpoint are the broker's answer when it was put.
#[must_use]
pub fn offered(task_id: &str) -> pb::HandoffPacket {
    pb::HandoffPacket {
        task_id: task_id.to_owned(),
        current_state: current_state(),
        source_snapshot: sources(),
        completed_units: completed_units(),
        not_done: not_done(),
        open_unknown: no_unknowns(),
        blockers: no_blockers(),
        artifact_descriptors: artifacts(),
        next_owner: Some(next_owner()),
        handoff_reason: handoff_reason(),
        next_action: next_action(),
        stop_condition: stop_condition(),
        scope: Some(scope("agent:reviewer")),
        history_pointer: history(),
        canonical_pointers: canonical_pointers(),
        active_goal: Some(pb::ActiveGoal {
            objective: "Answer one question about the catalogue".to_owned(),
            completion_criteria: owned(&["answer present", "scope honoured"]),
        }),
        completed_boundary: completed_boundary(),
        pending_action: not_applicable(),
        last_safe_checkpoint: Some(pb::CheckpointRef {
            id: "cp-4".to_owned(),
            version: 4,
            fixed_at: at(30),
            digest: String::new(),
        }),
        external_side_effects: Some(pb::ExternalSideEffectListField {
            state: Some(pb::external_side_effect_list_field::State::Value(Default::default())),
        }),
        version_set: version_set(),
        resume_invariants: resume_invariants(),
        execution_evidence: execution_evidence(),
        ..Default::default()
    }
}

/// A complete packet for tests, examples and benches: finished, as [`super::check_offer`] judges
/// it.
#[must_use]
pub fn packet(task_id: &str) -> pb::HandoffPacket {
    pb::HandoffPacket {
        contract: Some(contract_document(&contract())),
        runtime_status: pb::RuntimeStatus::Paused.into(),
        business_acceptance_status: pb::BusinessAcceptanceStatus::Verifying.into(),
        handoff_from: Some(handoff_from()),
        last_updated: Some(last_updated()),
        ..offered(task_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::digest::Digest;

    // A receiver that fetches and hashes would be told that it is wrong.
    #[test]
    fn digests_are_those_of_the_bytes() {
        for (bytes, digest) in
            [(SOURCE, SOURCE_DIGEST), (ARTIFACT, ARTIFACT_DIGEST), (HISTORY, HISTORY_DIGEST)]
        {
            assert_eq!(Digest::of(bytes).to_string(), digest);
        }
    }
}
