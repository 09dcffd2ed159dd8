//! The owner's writes as they come in: creation, checkpoint, status, artifact.
//!
//! Invariants: every violation is found before anything is proposed; what the broker fills must be
//! unset or equal; a digest of inline content is computed here, never believed.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::axis::{ReleasedBy, Runtime};
use crate::core::contract::{Finding, contract_document};
use crate::core::digest::Digest;
use crate::core::id::{
    ArtifactId, CheckpointId, ContextId, InstanceId, PrincipalId, RunId, TaskId, VersionLabel,
};
use crate::core::owner::Guard;
use crate::core::refusal::{Reason, Refusal, Violation};
use crate::core::scope::Scope;
use crate::core::task::{AcceptancePolicy, Policy};
use crate::core::work::{PutArtifact, PutCheckpoint, ReportStatus};
use crate::proto::baton::{store::v1 as store, v1 as pb};
use pb::artifact_part::Content;

use super::axis::{released_by_from_pb, runtime_from_pb};
use super::canon;
use super::document::{Sealed, seal};
use super::scope::parse_scope;
use super::violations::Violations;
use super::{guard, packet, time};

/// Bytes of content that the broker keeps for one artifact version. Larger content is stored
/// elsewhere and named by location and digest (REQ-045).
pub const CONTENT_BYTES_MAX: usize = 1 << 20;

/// Bytes of each text of a descriptor. It stands in the task's record, which is written as a whole.
const DESCRIPTOR_BYTES_MAX: usize = 2048;

/// Bytes of a task class.
const CLASS_BYTES_MAX: usize = 256;

/// Verifiers, approvers or expected roles that a policy may name.
const POLICY_ITEMS_MAX: usize = 256;

/// A refusal that lists findings of the contract table.
#[must_use]
pub fn contract_refusal(findings: &[Finding]) -> Refusal {
    let violations = findings.iter().map(|f| Violation {
        field: format!("{}:{}", f.code, f.field),
        description: f.description.clone(),
    });
    let unsupported = findings.iter().any(|f| f.code == "UNSUPPORTED_CONTRACT_VERSION");
    let reason =
        if unsupported { Reason::UnsupportedContractVersion } else { Reason::ContractInvalid };
    let first = findings.first().map_or("", |f| f.description.as_str());
    Refusal::new(reason, format!("{} findings; the first: {first}", findings.len()))
        .with_violations(violations.collect())
}

/// The facts of a creation.
#[derive(Clone, Debug)]
pub struct Creation {
    /// The contract as it is stored, with its shape.
    pub stored: store::StoredContract,
    /// The fixed part.
    pub document: pb::ContractDocument,
    /// CONTRACT_VERSION.
    pub version: VersionLabel,
    /// The policy.
    pub policy: Policy,
    /// The owner's authority.
    pub scope: Option<Scope>,
    /// The owner's process.
    pub instance: InstanceId,
    /// The group.
    pub context: Option<ContextId>,
    /// Class for routing.
    pub class: String,
}

/// Parses a creation. The contract's own findings are judged by the contract table beside this.
pub fn create(
    request: &pb::CreateTaskRequest,
    task: &TaskId,
    caller: &PrincipalId,
    violations: &mut Violations,
) -> Option<Creation> {
    let contract = violations.require("contract", request.contract.as_ref());
    let shape = request.shape.clone().unwrap_or_default();
    traits(&shape, violations);
    let instance = guard::instance_id(&request.instance_id, "instance_id", violations);
    let scope = match &request.scope {
        None => Some(None),
        Some(scope) => own_scope(scope, caller, violations).map(Some),
    };
    let context = if request.context_id.is_empty() {
        Some(None)
    } else {
        violations.take("context_id", ContextId::parse(&request.context_id)).map(Some)
    };
    if request.task_class.len() > CLASS_BYTES_MAX {
        violations.add("task_class", format!("send at most {CLASS_BYTES_MAX} bytes"));
    }
    if contract.is_some_and(|contract| contract.task_id.is_some()) {
        violations.add("contract.task_id", "is filled by the broker; leave it out");
    }
    // Without a contract the policy is looked at all the same, so that one answer names everything.
    let document = contract.map(contract_document).unwrap_or_default();
    let version = version_of(&document);
    let policy = policy(request.policy.as_ref(), &document, &shape, violations);
    let mut stored = contract?.clone();
    stored.task_id =
        Some(pb::TextField { state: Some(pb::text_field::State::Value(task.to_string())) });
    Some(Creation {
        stored: store::StoredContract { contract: Some(stored), shape: Some(shape) },
        document,
        version: version?,
        policy: policy?,
        scope: scope?,
        instance: instance?,
        context: context?,
        class: request.task_class.clone(),
    })
}

fn version_of(document: &pb::ContractDocument) -> Option<VersionLabel> {
    match document.contract_version.as_ref()?.state.as_ref()? {
        pb::text_field::State::Value(text) => VersionLabel::parse(text).ok(),
        pb::text_field::State::Absence(_) => None,
    }
}

fn traits(shape: &pb::ContractShape, violations: &mut Violations) {
    for (n, value) in shape.traits.iter().enumerate() {
        let field = format!("shape.traits[{n}]");
        match pb::Trait::try_from(*value) {
            Ok(pb::Trait::Unspecified) | Err(_) => {
                violations.add(&field, format!("{value} is no trait; leave it out"));
            }
            Ok(_) => {}
        }
    }
    if pb::Tier::try_from(shape.tier).is_err() {
        violations.add("shape.tier", format!("{} is no tier", shape.tier));
    }
}

fn own_scope(
    scope: &pb::AuthorizationScope,
    caller: &PrincipalId,
    violations: &mut Violations,
) -> Option<Scope> {
    let mut own = scope.clone();
    if own.principal.is_empty() {
        own.principal = caller.to_string();
    }
    if own.principal != caller.as_str() {
        violations.add("scope.principal", format!("is not the caller {caller}; leave it out"));
    }
    parse_scope(&own, "scope", violations)
}

fn has(shape: &pb::ContractShape, wanted: pb::Trait) -> bool {
    shape.traits.contains(&i32::from(wanted))
}

/// The policy, made stricter by what contract and shape say.
pub fn policy(
    given: Option<&pb::TaskPolicy>,
    document: &pb::ContractDocument,
    shape: &pb::ContractShape,
    violations: &mut Violations,
) -> Option<Policy> {
    let given = given.cloned().unwrap_or_default();
    let verifiers = principals(&given.verifiers, "policy.verifiers", violations);
    let approvers = principals(&given.approvers, "policy.approvers", violations);
    let mut expected = expected_of(document);
    if expected.keys().any(|role| role.is_empty() || role.len() > CLASS_BYTES_MAX) {
        violations.add(
            "contract.expected_artifacts",
            format!("each item needs a role of 1 to {CLASS_BYTES_MAX} bytes"),
        );
    }
    for (n, role) in given.expected.iter().enumerate() {
        if role.role.is_empty() || role.count == 0 || role.role.len() > CLASS_BYTES_MAX {
            violations.add(
                &format!("policy.expected[{n}]"),
                format!("needs a role of at most {CLASS_BYTES_MAX} bytes and a count"),
            );
        }
        let entry = expected.entry(role.role.clone()).or_default();
        *entry = (*entry).max(role.count);
    }
    if expected.len() > POLICY_ITEMS_MAX {
        violations.add("policy.expected", format!("send at most {POLICY_ITEMS_MAX}"));
    }
    let side_effecting = given.side_effecting
        || has(shape, pb::Trait::SideEffecting)
        || document.side_effect_profile.as_ref().is_some_and(|f| {
            matches!(f.state, Some(pb::side_effect_profile_field::State::Value(_)))
        });
    let acceptance = acceptance(given.acceptance, &expected, side_effecting, violations);
    let owner_lease = match &given.owner_lease {
        None => Some(None),
        Some(lease) => violations.take("policy.owner_lease", time::parse_duration(lease)).map(Some),
    };
    Some(Policy {
        acceptance: acceptance?,
        verifiers: verifiers?,
        approvers: approvers?,
        trust_boundary: given.trust_boundary || has(shape, pb::Trait::TrustBoundary),
        owner_lease: owner_lease?,
        originator_may_offer: given.originator_may_offer_on_behalf,
        expected,
        side_effecting,
    })
}

fn expected_of(document: &pb::ContractDocument) -> BTreeMap<String, u32> {
    use pb::expected_artifact_list_field::State;
    let field = document.expected_artifacts.as_ref().and_then(|f| f.state.as_ref());
    let Some(State::Value(list)) = field else { return BTreeMap::new() };
    let mut expected = BTreeMap::new();
    for item in &list.items {
        let count = expected.entry(item.role.clone()).or_insert(0_u32);
        *count = count.saturating_add(item.count);
    }
    expected
}

fn acceptance(
    given: i32,
    expected: &BTreeMap<String, u32>,
    side_effecting: bool,
    violations: &mut Violations,
) -> Option<AcceptancePolicy> {
    match pb::AcceptancePolicy::try_from(given) {
        Ok(pb::AcceptancePolicy::NotApplicable) if !expected.is_empty() || side_effecting => {
            violations.add(
                "policy.acceptance",
                "is NOT_APPLICABLE although an artifact or an effect is expected; use VERIFIER",
            );
            None
        }
        Ok(pb::AcceptancePolicy::NotApplicable) => Some(AcceptancePolicy::NotApplicable),
        Ok(pb::AcceptancePolicy::Unspecified | pb::AcceptancePolicy::Verifier) => {
            Some(AcceptancePolicy::Verifier)
        }
        Err(_) => {
            violations.add("policy.acceptance", format!("{given} is no acceptance policy"));
            None
        }
    }
}

fn principals(
    names: &[String],
    field: &str,
    violations: &mut Violations,
) -> Option<BTreeSet<PrincipalId>> {
    if names.len() > POLICY_ITEMS_MAX {
        violations.add(field, format!("send at most {POLICY_ITEMS_MAX}"));
        return None;
    }
    let mut all = BTreeSet::new();
    let mut complete = true;
    for (n, name) in names.iter().enumerate() {
        match violations.take(&format!("{field}[{n}]"), PrincipalId::parse(name)) {
            Some(id) => drop(all.insert(id)),
            None => complete = false,
        }
    }
    complete.then_some(all)
}

/// Parses a checkpoint and fills in what is the broker's. The findings of the contract table are
/// judged beside this.
pub fn checkpoint(
    checkpoint: &pb::Checkpoint,
    task: &TaskId,
    contract_version: &VersionLabel,
    guard: Guard,
    violations: &mut Violations,
) -> Option<(PutCheckpoint, pb::Checkpoint, Sealed)> {
    let id = violations.take("checkpoint.id", CheckpointId::parse(&checkpoint.id));
    if !checkpoint.task_id.is_empty() && checkpoint.task_id != task.as_str() {
        violations.add("checkpoint.task_id", "is not the task; leave it out");
    }
    packet::sources(checkpoint.source_snapshot.as_ref(), "checkpoint.source_snapshot", violations);
    let path = "checkpoint.artifact_descriptors";
    let artifacts = packet::artifacts(checkpoint.artifact_descriptors.as_ref(), path, violations);
    let mut whole = checkpoint.clone();
    whole.task_id = task.to_string();
    whole.contract_version = contract_version.to_string();
    let sealed = violations.take("checkpoint", seal(&whole));
    let artifacts = artifacts?.unwrap_or_default();
    let sealed = sealed?;
    let put = PutCheckpoint {
        guard,
        id: id?,
        digest: sealed.digest,
        artifacts: artifacts
            .into_iter()
            .map(|(id, (version, digest))| (id, version, digest))
            .collect(),
        not_done_units: not_done_units(checkpoint),
    };
    Some((put, whole, sealed))
}

fn not_done_units(checkpoint: &pb::Checkpoint) -> u32 {
    use pb::not_done_unit_list_field::State;
    match checkpoint.not_done.as_ref().and_then(|f| f.state.as_ref()) {
        Some(State::Value(list)) => u32::try_from(list.items.len()).unwrap_or(u32::MAX),
        Some(State::Absence(_)) | None => 0,
    }
}

/// Parses a status report.
pub fn status(
    report: Option<&pb::StatusReport>,
    guard: Guard,
    violations: &mut Violations,
) -> Option<(ReportStatus, Sealed)> {
    let report = violations.require("report", report)?;
    let runtime = violations.take("report.runtime", runtime_from_pb(report.runtime));
    let waits = matches!(runtime, Some(Runtime::Paused | Runtime::Blocked));
    let explains = waits || matches!(runtime, Some(Runtime::Failed | Runtime::UnknownCause));
    guard::optional_text(&report.comment, "report.comment", violations);
    if explains {
        // REQ-085: each of them with its resume condition and next safe action.
        guard::text(&report.resume_condition, "report.resume_condition", violations);
        guard::text(&report.next_safe_action, "report.next_safe_action", violations);
    }
    if matches!(runtime, Some(Runtime::Failed | Runtime::Blocked | Runtime::Canceled)) {
        // REQ-086: no cause without evidence.
        guard::text(&report.evidence, "report.evidence", violations);
    }
    let released_by = if waits {
        violations.take("report.released_by", released_by_from_pb(report.released_by))
    } else {
        Some(ReleasedBy::Nobody)
    };
    let sealed = violations.take("report", seal(report));
    let sealed = sealed?;
    let command = ReportStatus {
        guard,
        runtime: runtime?,
        released_by: released_by?,
        effect_uncertain: report.effect_uncertain,
        report: sealed.digest,
    };
    Some((command, sealed))
}

/// Parses an artifact: its digest is computed where the content is here, and required where it is
/// not.
pub fn artifact(
    request: &pb::PutArtifactRequest,
    guard: Guard,
    violations: &mut Violations,
) -> Option<(PutArtifact, Option<Sealed>)> {
    let descriptor = violations.require("descriptor", request.descriptor.as_ref())?;
    let id = violations.take("descriptor.id", ArtifactId::parse(&descriptor.id));
    let version = violations.take("descriptor.version", VersionLabel::parse(&descriptor.version));
    packet::algorithm(&descriptor.digest_algorithm, "descriptor.digest_algorithm", violations);
    for (field, value) in [
        ("descriptor.type", &descriptor.r#type),
        ("descriptor.media_type", &descriptor.media_type),
        ("descriptor.location", &descriptor.location),
        ("descriptor.role", &descriptor.role),
        ("descriptor.digested", &descriptor.digested),
    ] {
        if value.len() > DESCRIPTOR_BYTES_MAX {
            let bytes = value.len();
            violations
                .add(field, format!("has {bytes} bytes; send at most {DESCRIPTOR_BYTES_MAX}"));
        }
    }
    if descriptor.carrier == i32::from(pb::ArtifactCarrier::Message) {
        violations.add(
            "descriptor.carrier",
            "is MESSAGE: a message is no artifact; store the content and name location and digest",
        );
    }
    let run = if request.run_id.is_empty() {
        Some(None)
    } else {
        violations.take("run_id", RunId::parse(&request.run_id)).map(Some)
    };
    let content = content(request, descriptor, violations)?;
    Some((
        PutArtifact {
            guard,
            id: id?,
            version: version?,
            digest: content.digest,
            role: descriptor.role.clone(),
            kind: descriptor.r#type.clone(),
            media_type: descriptor.media_type.clone(),
            location: descriptor.location.clone(),
            size_bytes: content.size_bytes,
            digested: content.digested,
            run: run?,
            content: content.sealed.as_ref().map(|s| s.digest),
        },
        content.sealed,
    ))
}

struct Kept {
    digest: Digest,
    size_bytes: Option<u64>,
    digested: String,
    sealed: Option<Sealed>,
}

fn content(
    request: &pb::PutArtifactRequest,
    descriptor: &pb::ArtifactDescriptor,
    violations: &mut Violations,
) -> Option<Kept> {
    if request.parts.is_empty() {
        guard::text(&descriptor.location, "descriptor.location", violations);
        let text = violations.require("descriptor.digest", descriptor.digest.as_ref())?;
        let digest = guard::digest(text, "descriptor.digest", violations)?;
        return Some(Kept {
            digest,
            size_bytes: descriptor.size_bytes,
            digested: descriptor.digested.clone(),
            sealed: None,
        });
    }
    let (digest, size) = parts_digest(&request.parts, violations)?;
    if descriptor.digest.as_ref().is_some_and(|given| *given != digest.to_string()) {
        violations.add("descriptor.digest", format!("is not the digest of the content, {digest}"));
    }
    if descriptor.size_bytes.is_some_and(|given| given != size) {
        violations.add("descriptor.size_bytes", format!("is not the size of the content, {size}"));
    }
    let kept = store::ArtifactContent { parts: request.parts.clone() };
    let sealed = violations.take("parts", seal(&kept))?;
    let digested = if descriptor.digested.is_empty() {
        if request.parts.len() == 1 { "bytes of the part" } else { "canonical list of the parts" }
            .to_owned()
    } else {
        descriptor.digested.clone()
    };
    Some(Kept { digest, size_bytes: Some(size), digested, sealed: Some(sealed) })
}

/// The digest and size of inline content. Source: design section 9.
/// Refuses content that is too large to be kept by the broker.
///
/// # Errors
/// `LARGE_PAYLOAD_INLINE` with the size.
pub fn check_inline(parts: &[pb::ArtifactPart]) -> Result<(), Refusal> {
    let size = |part: &pb::ArtifactPart| match &part.content {
        Some(Content::Raw(raw)) => raw.len(),
        Some(Content::Text(text)) => text.len(),
        None => 0,
    };
    let size: usize = parts.iter().map(size).sum();
    if size <= CONTENT_BYTES_MAX {
        return Ok(());
    }
    let violation =
        Violation { field: "parts".to_owned(), description: format!("have {size} bytes") };
    Err(Refusal::new(
        Reason::LargePayloadInline,
        format!(
            "parts have {size} bytes; at most {CONTENT_BYTES_MAX} are kept inline. Store the \
             content elsewhere and give location and digest"
        ),
    )
    .with_violations(vec![violation]))
}

fn parts_digest(parts: &[pb::ArtifactPart], violations: &mut Violations) -> Option<(Digest, u64)> {
    let mut digests = Vec::new();
    let mut size = 0_u64;
    for (n, part) in parts.iter().enumerate() {
        let field = format!("parts[{n}].content");
        let bytes: &[u8] = match violations.require(&field, part.content.as_ref())? {
            Content::Raw(raw) => raw,
            Content::Text(text) => text.as_bytes(),
        };
        size = size.saturating_add(bytes.len() as u64);
        digests.push((part.media_type.as_str(), canon::part_digest_raw(bytes)));
    }
    let digest = violations.take("parts", canon::artifact_digest(&digests))?;
    Some((digest, size))
}
