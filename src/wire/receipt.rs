//! The receipt as it comes in, and its five elements in canonical form.
//!
//! Invariants: an absent element stays absent; a key that comes twice is refused; order never
//! matters; what the broker fills must be unset or equal.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::core::digest::Digest;
use crate::core::id::{ArtifactId, EntityId, HandoffId, PrincipalId, VersionLabel};
use crate::core::receipt::Echo;
use crate::core::scope::Scope;
use crate::core::time::Timestamp;
use crate::proto::baton::v1 as pb;

use super::canon::{self, CanonError};
use super::scope::parse_scope;
use super::violations::Violations;
use super::{guard, time};

/// A receipt, parsed.
#[derive(Clone, Debug)]
pub struct ReceiptFacts {
    /// The five elements.
    pub echo: Echo,
    /// When the receiver read.
    pub observed_at: Option<Timestamp>,
}

/// Parses a receipt. What is malformed is refused; what is absent is left to the comparison.
pub fn parse(
    receipt: &pb::HandoffReceipt,
    caller: &PrincipalId,
    handoff: &HandoffId,
    violations: &mut Violations,
) -> Option<ReceiptFacts> {
    filled(receipt, caller, handoff, violations);
    let contract = match &receipt.contract {
        None => Some(None),
        Some(echo) => {
            let version = VersionLabel::parse(&echo.version);
            let version = violations.take("receipt.contract.version", version);
            let digest = guard::digest(&echo.digest, "receipt.contract.digest", violations);
            version.zip(digest).map(Some)
        }
    };
    let sources = sources(receipt.source_snapshot.as_ref(), violations);
    let artifacts = artifacts(receipt.artifacts.as_ref(), violations);
    let scope = match &receipt.scope {
        None => Some(None),
        Some(scope) => parse_scope(scope, "receipt.scope", violations).map(Some),
    };
    let observed_at = match &receipt.observed_at {
        None => violations.require("receipt.observed_at", None::<Timestamp>).map(Some),
        Some(at) => violations.take("receipt.observed_at", time::parse_timestamp(at)).map(Some),
    };
    let task = (!receipt.task_id.is_empty()).then(|| receipt.task_id.clone());
    Some(ReceiptFacts {
        echo: Echo {
            task,
            contract: contract?,
            sources: sources?,
            artifacts: artifacts?,
            scope: scope?,
        },
        observed_at: observed_at?,
    })
}

fn filled(
    receipt: &pb::HandoffReceipt,
    caller: &PrincipalId,
    handoff: &HandoffId,
    violations: &mut Violations,
) {
    if !receipt.receiver.is_empty() && receipt.receiver != caller.as_str() {
        violations.add(
            "receipt.receiver",
            format!("names another party than the caller {caller}; leave it out"),
        );
    }
    if !receipt.handoff_id.is_empty() && receipt.handoff_id != handoff.as_str() {
        violations.add("receipt.handoff_id", format!("is not {handoff}; leave it out"));
    }
    if receipt.verified_at.is_some() || !receipt.assurances.is_empty() {
        violations.add("receipt.verified_at", "is filled by the broker; leave it out");
    }
}

type Sources = BTreeMap<EntityId, (VersionLabel, Option<Digest>)>;

fn sources(
    echo: Option<&pb::SourceSnapshotEcho>,
    violations: &mut Violations,
) -> Option<Option<Sources>> {
    let Some(echo) = echo else { return Some(None) };
    let mut all = Sources::new();
    let mut complete = true;
    for (n, entity) in echo.entities.iter().enumerate() {
        let at = |name: &str| format!("receipt.source_snapshot.entities[{n}].{name}");
        let id = violations.take(&at("entity_id"), EntityId::parse(&entity.entity_id));
        let version = violations.take(&at("version"), VersionLabel::parse(&entity.version));
        let digest = match &entity.digest {
            None => Some(None),
            Some(text) => guard::digest(text, &at("digest"), violations).map(Some),
        };
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

type Artifacts = BTreeMap<ArtifactId, (VersionLabel, Digest)>;

fn artifacts(
    echo: Option<&pb::ArtifactSetEcho>,
    violations: &mut Violations,
) -> Option<Option<Artifacts>> {
    let Some(echo) = echo else { return Some(None) };
    let mut all = Artifacts::new();
    let mut complete = true;
    for (n, item) in echo.items.iter().enumerate() {
        let at = |name: &str| format!("receipt.artifacts.items[{n}].{name}");
        let id = violations.take(&at("id"), ArtifactId::parse(&item.id));
        let version = violations.take(&at("version"), VersionLabel::parse(&item.version));
        let digest = guard::digest(&item.digest, &at("digest"), violations);
        let (Some(id), Some(version), Some(digest)) = (id, version, digest) else {
            complete = false;
            continue;
        };
        if all.insert(id, (version, digest)).is_some() {
            violations.add(&at("id"), format!("{} comes twice", item.id));
        }
    }
    complete.then_some(Some(all))
}

/// The digest over the five elements as they were sent, whatever their order: two receipts are
/// identical if these are equal.
///
/// # Errors
/// The value has no canonical form; cannot happen for parsed elements.
pub fn elements_digest(echo: &Echo) -> Result<Digest, CanonError> {
    let sources = echo.sources.as_ref().map(|all| {
        all.iter()
            .map(|(id, (version, digest))| {
                json!([id.as_str(), version.as_str(), digest.map(|d| d.to_string())])
            })
            .collect::<Vec<Value>>()
    });
    let artifacts = echo.artifacts.as_ref().map(|all| {
        all.iter()
            .map(|(id, (version, digest))| {
                json!([id.as_str(), version.as_str(), digest.to_string()])
            })
            .collect::<Vec<Value>>()
    });
    let contract = echo
        .contract
        .as_ref()
        .map(|(version, digest)| json!([version.as_str(), digest.to_string()]));
    canon::element_digest(&json!({
        "taskId": echo.task.as_ref().map(|t| t.to_ascii_lowercase()),
        "contract": contract,
        "sourceSnapshot": sources,
        "artifacts": artifacts,
        "scope": echo.scope.as_ref().map(scope_value),
    }))
}

fn scope_value(scope: &Scope) -> Value {
    let texts = |items: Vec<String>| Value::from(items);
    json!({
        "principal": scope.principal,
        "resources": texts(scope.resources.iter().map(ToString::to_string).collect()),
        "operations": texts(scope.operations.iter().map(ToString::to_string).collect()),
        "expiresAt": scope.expires_at.map(|t| t.to_string()),
        "approvalConditions": texts(scope.approval_conditions.iter().cloned().collect()),
        "prohibitions": texts(scope.prohibitions.iter().cloned().collect()),
    })
}
