//! The parts that the example's contract, checkpoint and packet have in common.
//!
//! What lives here: one function per part, and the fields that tests build of texts. What does not:
//! the documents. Invariant: a part is the same wherever it stands, as a packet must repeat its
//! checkpoint.

use prost_types::Timestamp;

use crate::proto::baton::v1 as pb;

use super::{ARTIFACT, ARTIFACT_DIGEST, HISTORY_DIGEST, SOURCE, SOURCE_DIGEST};

/// A text field with a value.
#[must_use]
pub fn text(value: &str) -> Option<pb::TextField> {
    Some(pb::TextField { state: Some(pb::text_field::State::Value(value.to_owned())) })
}

/// A list field with values.
#[must_use]
pub fn texts(items: &[&str]) -> Option<pb::TextListField> {
    let list = pb::TextList { items: owned(items) };
    Some(pb::TextListField { state: Some(pb::text_list_field::State::Value(list)) })
}

/// The scope of the example, for a principal.
#[must_use]
pub fn scope(principal: &str) -> pb::AuthorizationScope {
    pb::AuthorizationScope {
        principal: principal.to_owned(),
        resources: owned(&["store://reports/*"]),
        operations: owned(&["read", "draft"]),
        expires_at: at(22 * 60),
        approval_conditions: Vec::new(),
        prohibitions: Vec::new(),
    }
}

/// 2026-09-05T02:00:00Z and so many minutes.
pub(super) fn at(minutes: i64) -> Option<Timestamp> {
    Some(Timestamp { seconds: 1_788_573_600 + 60 * minutes, nanos: 0 })
}

pub(super) fn owned(items: &[&str]) -> Vec<String> {
    items.iter().map(|&item| item.to_owned()).collect()
}

pub(super) fn not_applicable() -> Option<pb::TextField> {
    let kind = Some(pb::absence::Kind::NotApplicable(pb::NotApplicable {}));
    Some(pb::TextField { state: Some(pb::text_field::State::Absence(pb::Absence { kind })) })
}

pub(super) fn current_state() -> Option<pb::TextField> {
    text("stage-2 of 3 ready to start")
}

pub(super) fn next_action() -> Option<pb::TextField> {
    text("run stage-2 on art-1 v3")
}

pub(super) fn completed_boundary() -> Option<pb::TextField> {
    text("stage-1")
}

pub(super) fn handoff_reason() -> Option<pb::TextField> {
    text("stage-1 accepted; review capability needed")
}

pub(super) fn stop_condition() -> Option<pb::TextListField> {
    texts(&["answer emitted", "scope exceeded -> stop"])
}

pub(super) fn handoff_from() -> pb::Owner {
    pb::Owner { id: "agent:writer".to_owned(), role: "author".to_owned(), capabilities: Vec::new() }
}

pub(super) fn next_owner() -> pb::Owner {
    pb::Owner {
        id: "agent:reviewer".to_owned(),
        role: String::new(),
        capabilities: owned(&["review"]),
    }
}

pub(super) fn last_updated() -> pb::LastUpdated {
    pb::LastUpdated { time: at(30), by: "agent:writer".to_owned() }
}

pub(super) fn sources() -> Option<pb::SourceSnapshotField> {
    let entity = pb::SourceEntity {
        entity_id: "src:catalog".to_owned(),
        version: "rev-41".to_owned(),
        digest: Some(SOURCE_DIGEST.to_owned()),
        obtained_at: at(0),
        location: "store://sources/catalog".to_owned(),
        media_type: "text/plain".to_owned(),
        size_bytes: Some(SOURCE.len() as u64),
        digest_algorithm: "sha-256".to_owned(),
        digested: "raw bytes of the file".to_owned(),
    };
    let snapshot = pb::SourceSnapshot { entities: vec![entity] };
    Some(pb::SourceSnapshotField { state: Some(pb::source_snapshot_field::State::Value(snapshot)) })
}

pub(super) fn artifacts() -> Option<pb::ArtifactDescriptorListField> {
    let artifact = pb::ArtifactDescriptor {
        id: "art-1".to_owned(),
        r#type: "document".to_owned(),
        media_type: "text/markdown".to_owned(),
        location: "store://reports/art-1".to_owned(),
        version: "v3".to_owned(),
        digest: Some(ARTIFACT_DIGEST.to_owned()),
        role: "report".to_owned(),
        size_bytes: Some(ARTIFACT.len() as u64),
        digest_algorithm: "sha-256".to_owned(),
        digested: "raw bytes of the file".to_owned(),
        carrier: pb::ArtifactCarrier::Artifact.into(),
    };
    let list = pb::ArtifactDescriptorList { items: vec![artifact] };
    Some(pb::ArtifactDescriptorListField {
        state: Some(pb::artifact_descriptor_list_field::State::Value(list)),
    })
}

pub(super) fn completed_units() -> Option<pb::CompletedUnitListField> {
    let unit =
        pb::CompletedUnit { unit: "stage-1".to_owned(), evidence: "readback:rb-1".to_owned() };
    let list = pb::CompletedUnitList { items: vec![unit] };
    Some(pb::CompletedUnitListField {
        state: Some(pb::completed_unit_list_field::State::Value(list)),
    })
}

pub(super) fn not_done() -> Option<pb::NotDoneUnitListField> {
    let unit = |unit: &str| pb::NotDoneUnit {
        unit: unit.to_owned(),
        kind: pb::NotDoneKind::NotStarted.into(),
    };
    let list = pb::NotDoneUnitList { items: vec![unit("stage-2"), unit("stage-3")] };
    Some(pb::NotDoneUnitListField { state: Some(pb::not_done_unit_list_field::State::Value(list)) })
}

pub(super) fn no_unknowns() -> Option<pb::UnknownItemListField> {
    Some(pb::UnknownItemListField {
        state: Some(pb::unknown_item_list_field::State::Value(Default::default())),
    })
}

pub(super) fn no_blockers() -> Option<pb::BlockerListField> {
    Some(pb::BlockerListField {
        state: Some(pb::blocker_list_field::State::Value(Default::default())),
    })
}

pub(super) fn history() -> Option<pb::HistoryPointerField> {
    let pointer = pb::HistoryPointer {
        r#ref: "store://history/h-1".to_owned(),
        version: "v2".to_owned(),
        digest: HISTORY_DIGEST.to_owned(),
        covers: "decision on catalog revision".to_owned(),
    };
    Some(pb::HistoryPointerField { state: Some(pb::history_pointer_field::State::Value(pointer)) })
}

pub(super) fn execution_evidence() -> Option<pb::ExecutionEvidenceField> {
    let evidence = pb::ExecutionEvidence {
        declared_sources: texts(&["src:catalog"]),
        evidenced_sources: texts(&["src:catalog"]),
        requested_action: "draft".to_owned(),
        executed_action: "draft".to_owned(),
        trace: "trace-0".to_owned(),
        before: "v2".to_owned(),
        after: "v3".to_owned(),
    };
    Some(pb::ExecutionEvidenceField {
        state: Some(pb::execution_evidence_field::State::Value(evidence)),
    })
}

pub(super) fn canonical_pointers() -> Option<pb::CanonicalPointerListField> {
    let pointer = |kind: &str, to: &str, version: &str| pb::CanonicalPointer {
        kind: kind.to_owned(),
        r#ref: to.to_owned(),
        version: version.to_owned(),
    };
    let items = vec![
        pointer("source", "src:catalog", "rev-41"),
        pointer("artifact", "art-1", "v3"),
        pointer("config", "cfg-2026.09.1", "cfg-2026.09.1"),
        pointer("acceptance_contract", "acc-5", "v2"),
    ];
    Some(pb::CanonicalPointerListField {
        state: Some(pb::canonical_pointer_list_field::State::Value(pb::CanonicalPointerList {
            items,
        })),
    })
}

pub(super) fn version_set() -> Option<pb::VersionSetField> {
    let component = |component: &str, version: &str| pb::ComponentVersion {
        component: component.to_owned(),
        version: version.to_owned(),
    };
    let items = vec![
        component("config", "cfg-2026.09.1"),
        component("model", "m-1"),
        component("schema", "0.2"),
    ];
    Some(pb::VersionSetField {
        state: Some(pb::version_set_field::State::Value(pb::VersionSet { items })),
    })
}

pub(super) fn resume_invariants() -> Option<pb::ResumeInvariantListField> {
    let holds = |invariant: pb::ResumeInvariant, evidence: &str| pb::ResumeInvariantStatement {
        invariant: invariant.into(),
        holds: Some(true),
        evidence: evidence.to_owned(),
    };
    let items = vec![
        holds(pb::ResumeInvariant::Identity, "checkpoint:cp-4"),
        holds(pb::ResumeInvariant::Canonicality, "checkpoint:cp-4"),
        holds(pb::ResumeInvariant::Position, "checkpoint:cp-4"),
        holds(pb::ResumeInvariant::SideEffectSafety, "trace-0"),
        holds(pb::ResumeInvariant::VersionCompatibility, "cfg-2026.09.1"),
        holds(pb::ResumeInvariant::Provenance, "readback:rb-1"),
        holds(pb::ResumeInvariant::Recovery, "checkpoint:cp-4"),
        holds(pb::ResumeInvariant::Auditability, "store://history/h-1"),
    ];
    Some(pb::ResumeInvariantListField {
        state: Some(pb::resume_invariant_list_field::State::Value(pb::ResumeInvariantList {
            items,
        })),
    })
}
