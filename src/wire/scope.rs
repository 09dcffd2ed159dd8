//! Scopes: the message and the core's.
//!
//! Invariant: every bad member is its own violation; a member that comes twice is refused, since
//! order and repetition never carry meaning.

use std::collections::BTreeSet;

use crate::core::scope::{Operation, Resource, Scope};
use crate::proto::baton::v1 as pb;

use super::violations::Violations;
use super::{StoredError, time};

/// Parses a scope that came in.
pub fn parse_scope(
    scope: &pb::AuthorizationScope,
    path: &str,
    violations: &mut Violations,
) -> Option<Scope> {
    let mut found = Violations::default();
    if scope.principal.trim().is_empty() {
        found.add(&format!("{path}.principal"), "is required and empty; name who may act");
    }
    let resources =
        members(&scope.resources, &format!("{path}.resources"), &mut found, Resource::parse);
    let operations = members(&scope.operations, &format!("{path}.operations"), &mut found, |t| {
        Operation::parse(t)
    });
    for (name, empty) in
        [("resources", scope.resources.is_empty()), ("operations", scope.operations.is_empty())]
    {
        if empty {
            found.add(&format!("{path}.{name}"), "is required and empty; name at least one");
        }
    }
    let plain = |text: &str| Ok::<String, std::convert::Infallible>(text.to_owned());
    let conditions = members(
        &scope.approval_conditions,
        &format!("{path}.approval_conditions"),
        &mut found,
        plain,
    );
    let prohibitions =
        members(&scope.prohibitions, &format!("{path}.prohibitions"), &mut found, plain);
    let expires_at = match &scope.expires_at {
        None => Some(None),
        Some(at) => found.take(&format!("{path}.expires_at"), time::parse_timestamp(at)).map(Some),
    };
    let parsed = expires_at.map(|expires_at| Scope {
        principal: scope.principal.clone(),
        resources,
        operations,
        expires_at,
        approval_conditions: conditions,
        prohibitions,
    });
    for error in parsed.iter().filter_map(|s| s.check_limits().err()).flatten() {
        found.add(path, error.to_string());
    }
    let clean = found.is_empty();
    violations.extend(found);
    parsed.filter(|_| clean)
}

fn members<T: Ord, E: std::fmt::Display>(
    texts: &[String],
    path: &str,
    violations: &mut Violations,
    parse: impl Fn(&str) -> Result<T, E>,
) -> BTreeSet<T> {
    let mut all = BTreeSet::new();
    for (n, text) in texts.iter().enumerate() {
        let field = format!("{path}[{n}]");
        if let Some(member) = violations.take(&field, parse(text))
            && !all.insert(member)
        {
            violations.add(&field, format!("{text:?} comes twice"));
        }
    }
    all
}

/// The message, with its members in order.
#[must_use]
pub fn render_scope(scope: &Scope) -> pb::AuthorizationScope {
    pb::AuthorizationScope {
        principal: scope.principal.clone(),
        resources: scope.resources.iter().map(ToString::to_string).collect(),
        operations: scope.operations.iter().map(ToString::to_string).collect(),
        expires_at: scope.expires_at.map(time::render_timestamp),
        approval_conditions: scope.approval_conditions.iter().cloned().collect(),
        prohibitions: scope.prohibitions.iter().cloned().collect(),
    }
}

/// Reads a stored scope.
///
/// # Errors
/// A member cannot be read.
pub fn load_scope(scope: &pb::AuthorizationScope) -> Result<Scope, StoredError> {
    let mut violations = Violations::default();
    let parsed = parse_scope(scope, "scope", &mut violations);
    violations
        .finish(parsed)
        .map_err(|refusal| StoredError::bad("AuthorizationScope", "members", &refusal.message))
}
