//! Fields of contracts, checkpoints and packets, made of what a command line says.
//!
//! What lives here: values and absences as messages, files as sources and artifacts. What does not:
//! which fields a document needs. Invariant: nothing is said that the caller or the broker did not
//! say.

use std::path::Path;
use std::time::{Duration, SystemTime};

use clap::Args;

use crate::cli::Failed;
use crate::cli::connection::now;
use crate::cli::output::{read_file, span};
use crate::proto::baton::v1 as pb;
use crate::wire::canon;

/// A text.
pub(super) fn text(value: &str) -> Option<pb::TextField> {
    Some(pb::TextField { state: Some(pb::text_field::State::Value(value.to_owned())) })
}

/// A list of texts.
pub(super) fn texts(items: &[String]) -> Option<pb::TextListField> {
    let list = pb::TextList { items: items.to_vec() };
    Some(pb::TextListField { state: Some(pb::text_list_field::State::Value(list)) })
}

/// The value of a text field, if it has one.
pub(super) fn said(field: Option<&pb::TextField>) -> Option<&str> {
    match field?.state.as_ref()? {
        pb::text_field::State::Value(value) => Some(value),
        pb::text_field::State::Absence(_) => None,
    }
}

/// UNKNOWN with its reason.
pub(super) fn unknown(reason: &str) -> pb::Absence {
    let kind = pb::absence::Kind::Unknown(pb::Unknown { reason: reason.to_owned() });
    pb::Absence { kind: Some(kind) }
}

/// NOT_APPLICABLE.
pub(super) fn not_applicable() -> pb::Absence {
    pb::Absence { kind: Some(pb::absence::Kind::NotApplicable(pb::NotApplicable {})) }
}

/// A text field that says why there is no text.
pub(super) fn no_text(absence: pb::Absence) -> Option<pb::TextField> {
    Some(pb::TextField { state: Some(pb::text_field::State::Absence(absence)) })
}

/// The authority that a command gives.
#[derive(Clone, Debug, Args)]
pub(super) struct ScopeFlags {
    /// Resource of the scope: a URI, or a prefix that ends in `/*` or `/**`. May be repeated.
    #[arg(long = "resource", value_name = "URI")]
    pub(super) resources: Vec<String>,
    /// Operation of the scope. May be repeated.
    #[arg(long = "operation", value_name = "NAME")]
    pub(super) operations: Vec<String>,
    /// The scope ends after this long: 90s, 15m, 8h, 2d. Without it, it lasts as long as the task.
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(super) expires_in: Option<u64>,
    /// Forbidden although an operation would cover it. May be repeated.
    #[arg(long = "scope-prohibits", value_name = "NAME")]
    pub(super) prohibitions: Vec<String>,
    /// Condition that an approval must meet. May be repeated.
    #[arg(long = "approval-condition", value_name = "TEXT")]
    pub(super) approval_conditions: Vec<String>,
}

impl ScopeFlags {
    /// True if nothing of it was given.
    pub(super) fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.operations.is_empty() && self.expires_in.is_none()
    }

    /// The scope for a principal. What a narrower scope must keep of `parent` is kept.
    pub(super) fn scope(
        &self,
        principal: &str,
        parent: Option<&pb::AuthorizationScope>,
    ) -> pb::AuthorizationScope {
        let kept = |given: &[String], parents: Option<&Vec<String>>| {
            let mut all = given.to_vec();
            all.extend(parents.into_iter().flatten().filter(|p| !given.contains(p)).cloned());
            all
        };
        let expires_at = match self.expires_in {
            Some(seconds) => Some(in_seconds(seconds)),
            None => parent.and_then(|p| p.expires_at),
        };
        pb::AuthorizationScope {
            principal: principal.to_owned(),
            resources: self.resources.clone(),
            operations: self.operations.clone(),
            expires_at,
            approval_conditions: kept(
                &self.approval_conditions,
                parent.map(|p| &p.approval_conditions),
            ),
            prohibitions: kept(&self.prohibitions, parent.map(|p| &p.prohibitions)),
        }
    }
}

/// So many seconds from now.
fn in_seconds(seconds: u64) -> prost_types::Timestamp {
    let mut time = now();
    time.seconds = time.seconds.saturating_add(i64::try_from(seconds).unwrap_or(i64::MAX));
    time
}

/// `ENTITY[@VERSION]=PATH`: a file as a source that was read now.
pub(super) fn source(name: &str, path: &Path) -> Result<pb::SourceEntity, Failed> {
    let content = read_file(path)?;
    let (entity_id, version) = match name.rsplit_once('@') {
        Some((entity, version)) => (entity.to_owned(), version.to_owned()),
        None => (name.to_owned(), modified(path)?),
    };
    Ok(pb::SourceEntity {
        entity_id,
        version,
        digest: Some(canon::part_digest_raw(&content).to_string()),
        obtained_at: Some(now()),
        location: location(path)?,
        media_type: String::new(),
        size_bytes: Some(content.len() as u64),
        digest_algorithm: "sha-256".to_owned(),
        digested: "raw bytes of the file".to_owned(),
    })
}

/// Where a file stands, as a URI.
pub(super) fn location(path: &Path) -> Result<String, Failed> {
    let path = std::fs::canonicalize(path)
        .map_err(|e| Failed::Usage(format!("{}: {e}", path.display())))?;
    Ok(format!("file://{}", path.display()))
}

/// The version of a file that has no other: when it was last written.
fn modified(path: &Path) -> Result<String, Failed> {
    let time = std::fs::metadata(path).and_then(|m| m.modified());
    let time = time.map_err(|e| Failed::Usage(format!("{}: {e}", path.display())))?;
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Ok(format!(
        "modified {}",
        prost_types::Timestamp {
            seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            nanos: 0,
        }
    ))
}
