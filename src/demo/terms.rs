//! The demo's contract, checkpoints and scopes.
//!
//! What lives here: documents of this one story. What does not: how they are sent. Invariant: what
//! a document says of a file or an artifact comes from a reading, never from another document.

use prost_types::Timestamp;

use crate::client::packet::{not_applicable, now, text, texts};
use crate::proto::baton::v1 as pb;

use super::file::File;

/// The writer, who asks for the work and begins it.
pub(super) const WRITER: &str = "agent:writer";
/// The reviewer, who goes on.
pub(super) const REVIEWER: &str = "agent:reviewer";
/// The verifier, who accepts.
pub(super) const VERIFIER: &str = "verifier:readback";
/// The checker, who looks at everything and changes nothing.
pub(super) const CHECKER: &str = "operator:checker";
/// The draft's artifact id, role and unit of work.
pub(super) const DRAFT: &str = "draft";
/// The review's artifact id, role and unit of work.
pub(super) const REVIEW: &str = "review";

const OBJECTIVE: &str = "An overview of the given files, reviewed against the files themselves";
const CRITERIA: [&str; 2] = [
    "the draft gives figures and outline of each file",
    "the review was made from the files, not from the draft",
];
const RELEASE: &str = concat!("baton-demo-", env!("CARGO_PKG_VERSION"));
/// How long the reviewer's authority lasts, in seconds.
const AUTHORITY_S: i64 = 3600;

/// A task about some files, for its writer.
pub(super) fn creation(files: &[File], instance_id: &str) -> pb::CreateTaskRequest {
    let expected = [DRAFT, REVIEW].map(|role| pb::ExpectedArtifact {
        role: role.to_owned(),
        count: 1,
        media_type: "text/markdown".to_owned(),
        ..Default::default()
    });
    let inputs = files.iter().map(|file| pb::SourceRef {
        entity_id: file.id.clone(),
        scope: "the whole file".to_owned(),
        authority: "given by the user".to_owned(),
    });
    let label = pb::EvidenceLabel { assertion: "figures".to_owned(), label: "observed".to_owned() };
    let contract = pb::OperatingContract {
        contract_version: text("0.2"),
        config_release_ref: text(RELEASE),
        objective: text(OBJECTIVE),
        completion_criteria: texts(CRITERIA),
        acceptance_contract_ref: text("demo-acceptance@1"),
        allowed_actions: texts(["read", "draft", "review"]),
        prohibited_actions: texts(["write", "delete"]),
        authoritative_inputs: Some(pb::SourceRefListField {
            state: Some(pb::source_ref_list_field::State::Value(pb::SourceRefList {
                items: inputs.collect(),
            })),
        }),
        source_authority_rule: text("the file as it is on disk"),
        expected_artifacts: Some(pb::ExpectedArtifactListField {
            state: Some(pb::expected_artifact_list_field::State::Value(pb::ExpectedArtifactList {
                items: expected.to_vec(),
            })),
        }),
        stop_condition: texts(["review delivered", "a file cannot be read"]),
        evidence_labels: Some(pb::EvidenceLabelListField {
            state: Some(pb::evidence_label_list_field::State::Value(pb::EvidenceLabelList {
                items: vec![label],
            })),
        }),
        ..Default::default()
    };
    pb::CreateTaskRequest {
        contract: Some(contract),
        shape: Some(shape()),
        policy: Some(pb::TaskPolicy {
            acceptance: pb::AcceptancePolicy::Verifier.into(),
            verifiers: vec![VERIFIER.to_owned()],
            ..Default::default()
        }),
        scope: Some(writers_scope(files)),
        instance_id: instance_id.to_owned(),
        task_class: "overview".to_owned(),
        ..Default::default()
    }
}

fn shape() -> pb::ContractShape {
    let traits = [
        pb::Trait::SessionCrossing,
        pb::Trait::OwnerTransfer,
        pb::Trait::IsAsync,
        pb::Trait::VersionedConfig,
        pb::Trait::SourceBacked,
        pb::Trait::MutableSource,
        pb::Trait::ArtifactTask,
    ];
    pb::ContractShape {
        tier: pb::Tier::Oc2.into(),
        traits: traits.into_iter().map(i32::from).collect(),
    }
}

fn words(items: &[&str]) -> Vec<String> {
    items.iter().map(|&item| item.to_owned()).collect()
}

/// The writer may read the files, draft and review.
fn writers_scope(files: &[File]) -> pb::AuthorizationScope {
    pb::AuthorizationScope {
        resources: files.iter().map(|file| file.uri.clone()).collect(),
        operations: words(&["read", "draft", "review"]),
        prohibitions: words(&["write"]),
        ..Default::default()
    }
}

/// Narrower: no drafting, one prohibition more, and an end.
pub(super) fn reviewers_scope(files: &[File]) -> pb::AuthorizationScope {
    let end = Timestamp { seconds: now().seconds + AUTHORITY_S, nanos: 0 };
    pb::AuthorizationScope {
        operations: words(&["read", "review"]),
        prohibitions: words(&["write", "publish"]),
        expires_at: Some(end),
        ..writers_scope(files)
    }
}

/// A version of a Markdown artifact whose content the broker keeps.
pub(super) fn artifact(
    role: &str,
    version: u32,
    content: String,
) -> (pb::ArtifactDescriptor, pb::ArtifactPart) {
    let media_type = "text/markdown".to_owned();
    let descriptor = pb::ArtifactDescriptor {
        id: role.to_owned(),
        r#type: "document".to_owned(),
        media_type: media_type.clone(),
        location: format!("baton:artifact/{role}"),
        version: version.to_string(),
        role: role.to_owned(),
        digest_algorithm: "sha-256".to_owned(),
        digested: "UTF-8 bytes of the text".to_owned(),
        carrier: pb::ArtifactCarrier::Artifact.into(),
        ..Default::default()
    };
    let content = Some(pb::artifact_part::Content::Text(content));
    (descriptor, pb::ArtifactPart { media_type, content })
}

/// Where the work stands after a unit.
pub(super) struct Stand<'a> {
    /// Identifier of the checkpoint.
    pub(super) id: &'a str,
    /// CURRENT_STATE.
    pub(super) current_state: &'a str,
    /// Units that are done, with the artifact that shows it.
    pub(super) done: &'a [&'a str],
    /// Units that are not.
    pub(super) not_done: &'a [&'a str],
    /// NEXT_ACTION.
    pub(super) next_action: &'a str,
}

/// The checkpoint of a stand.
pub(super) fn checkpoint(
    stand: &Stand<'_>,
    sources: Vec<pb::SourceEntity>,
    artifacts: Vec<pb::ArtifactDescriptor>,
) -> pb::Checkpoint {
    use pb::{
        artifact_descriptor_list_field as artifact_list, blocker_list_field as blocker_list,
        completed_unit_list_field as completed_list, not_done_unit_list_field as not_done_list,
        source_snapshot_field as snapshot, unknown_item_list_field as unknown_list,
        version_set_field as version_set,
    };
    let done = stand.done.iter().map(|unit| pb::CompletedUnit {
        unit: (*unit).to_owned(),
        evidence: format!("artifact:{unit}"),
    });
    let not_done = stand.not_done.iter().map(|unit| pb::NotDoneUnit {
        unit: (*unit).to_owned(),
        kind: pb::NotDoneKind::NotStarted.into(),
    });
    let version =
        pb::ComponentVersion { component: "config".to_owned(), version: RELEASE.to_owned() };
    let sources = snapshot::State::Value(pb::SourceSnapshot { entities: sources });
    let artifacts = artifact_list::State::Value(pb::ArtifactDescriptorList { items: artifacts });
    let done = completed_list::State::Value(pb::CompletedUnitList { items: done.collect() });
    let not_done = not_done_list::State::Value(pb::NotDoneUnitList { items: not_done.collect() });
    let versions = version_set::State::Value(pb::VersionSet { items: vec![version] });
    pb::Checkpoint {
        id: stand.id.to_owned(),
        current_state: text(stand.current_state),
        source_snapshot: Some(pb::SourceSnapshotField { state: Some(sources) }),
        completed_units: Some(pb::CompletedUnitListField { state: Some(done) }),
        not_done: Some(pb::NotDoneUnitListField { state: Some(not_done) }),
        artifact_descriptors: Some(pb::ArtifactDescriptorListField { state: Some(artifacts) }),
        open_unknown: Some(pb::UnknownItemListField {
            state: Some(unknown_list::State::Value(pb::UnknownItemList::default())),
        }),
        blockers: Some(pb::BlockerListField {
            state: Some(blocker_list::State::Value(pb::BlockerList::default())),
        }),
        next_action: text(stand.next_action),
        pending_action: not_applicable(),
        completed_boundary: text(stand.done.last().copied().unwrap_or("nothing")),
        version_set: Some(pb::VersionSetField { state: Some(versions) }),
        ..Default::default()
    }
}

/// What the writer says about a safe resume: nothing was done outside, all evidence is the
/// checkpoint.
pub(super) fn invariants(checkpoint: &str) -> Vec<pb::ResumeInvariantStatement> {
    use pb::ResumeInvariant as Invariant;
    let all = [
        Invariant::Identity,
        Invariant::Canonicality,
        Invariant::Position,
        Invariant::SideEffectSafety,
        Invariant::VersionCompatibility,
        Invariant::Provenance,
        Invariant::Recovery,
        Invariant::Auditability,
    ];
    let holds = |invariant: Invariant| pb::ResumeInvariantStatement {
        invariant: invariant.into(),
        holds: Some(true),
        evidence: format!("checkpoint:{checkpoint}"),
    };
    all.into_iter().map(holds).collect()
}
