//! The authority that travels, and whether one scope lies within another.
//!
//! What lives here: the algebra of scopes. What does not: who holds which scope, and revocation.
//!
//! Invariants: authority never grows in transit: `within(child, parent, now)` holds only if
//! everything that the child permits is permitted by the parent, and every condition and
//! prohibition of the parent binds the child too.

mod resource;

use std::collections::BTreeSet;
use std::fmt;

pub use resource::{RESOURCE_BYTES_MAX, Resource, ResourceError};

use super::id::echo;
use super::time::Timestamp;

/// Most resources that a scope names.
pub const RESOURCES_MAX: usize = 1024;
/// Most operations that a scope names.
pub const OPERATIONS_MAX: usize = 256;
/// Most approval conditions, and most prohibitions, that a scope names.
pub const CONDITIONS_MAX: usize = 256;
/// Longest approval condition or prohibition, in bytes.
pub const CONDITION_BYTES_MAX: usize = 1024;
/// Longest operation, in bytes.
pub const OPERATION_BYTES_MAX: usize = 128;

/// Why something is not a scope or a part of one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    /// The text is no operation.
    #[error(
        "operation {0:?} is not valid; send 1 to 128 letters, digits, dots, underscores, colons \
         and hyphens"
    )]
    Operation(String),
    /// One of the scope's sets is too large.
    #[error("the scope has {count} {what} and at most {max} are allowed; {remedy}")]
    TooMany {
        /// Which set.
        what: &'static str,
        /// How many it holds.
        count: usize,
        /// How many it may hold.
        max: usize,
        /// What to do.
        remedy: &'static str,
    },
    /// An approval condition or prohibition is empty or too long.
    #[error(
        "the {what} {value:?} has {bytes} bytes; send 1 to 1024 bytes and refer to a document \
         for more"
    )]
    ConditionLength {
        /// `approval condition` or `prohibition`.
        what: &'static str,
        /// The value, cut after 64 characters.
        value: String,
        /// Its length.
        bytes: usize,
    },
}

/// The name of something that may be done: an exact token of `[A-Za-z0-9._:-]`, no wildcards.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Operation(String);

impl Operation {
    /// Reads an operation.
    pub fn parse(text: &str) -> Result<Self, ScopeError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '-');
        if text.is_empty() || text.len() > OPERATION_BYTES_MAX || !text.chars().all(allowed) {
            return Err(ScopeError::Operation(echo(text)));
        }
        Ok(Self(text.to_owned()))
    }

    /// The operation's name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a principal may do, with what, until when, and under which conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Who may use it: a principal id or `capability:<name>`.
    pub principal: String,
    /// What it may be used on.
    pub resources: BTreeSet<Resource>,
    /// What may be done with each of them.
    pub operations: BTreeSet<Operation>,
    /// From this point on it permits nothing; `None` is the task's life.
    pub expires_at: Option<Timestamp>,
    /// What must be approved before use.
    pub approval_conditions: BTreeSet<String>,
    /// What stays forbidden whatever else is permitted.
    pub prohibitions: BTreeSet<String>,
}

impl Scope {
    /// True from `expires_at` on. An expired scope covers nothing.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// Every technical limit that the scope exceeds.
    pub fn check_limits(&self) -> Result<(), Vec<ScopeError>> {
        let mut errors = Vec::new();
        let sizes = [
            ("resources", self.resources.len(), RESOURCES_MAX, "name prefixes ending /* or /**"),
            ("operations", self.operations.len(), OPERATIONS_MAX, "name coarser operations"),
            (
                "approval conditions",
                self.approval_conditions.len(),
                CONDITIONS_MAX,
                "join conditions, or refer to a document",
            ),
            (
                "prohibitions",
                self.prohibitions.len(),
                CONDITIONS_MAX,
                "join prohibitions, or refer to a document",
            ),
        ];
        for (what, count, max, remedy) in sizes {
            if count > max {
                errors.push(ScopeError::TooMany { what, count, max, remedy });
            }
        }
        let conditions = self.approval_conditions.iter().map(|c| ("approval condition", c));
        let prohibitions = self.prohibitions.iter().map(|c| ("prohibition", c));
        for (what, text) in conditions.chain(prohibitions) {
            let bytes = text.len();
            if bytes == 0 || bytes > CONDITION_BYTES_MAX {
                errors.push(ScopeError::ConditionLength { what, value: echo(text), bytes });
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }
}

/// One thing by which a child scope exceeds its parent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Excess {
    /// The parent covers nothing any more.
    #[error("the parent scope expired at {0} and covers nothing; obtain a new grant first")]
    ParentExpired(Timestamp),
    /// No resource of the parent covers it.
    #[error("resource {0} is not covered by the parent scope; leave it out or name a part")]
    Resource(Resource),
    /// The parent does not have the operation.
    #[error("operation {0} is not in the parent scope; leave it out")]
    Operation(Operation),
    /// The child would outlive the parent.
    #[error("expiry {child} is later than the parent's {parent}; expire no later than that")]
    ExpiryLater {
        /// The child's expiry.
        child: Timestamp,
        /// The parent's expiry.
        parent: Timestamp,
    },
    /// The child has no expiry and the parent has one.
    #[error("expiry is absent and the parent scope expires at {0}; set it no later than that")]
    ExpiryAbsent(Timestamp),
    /// The child drops a condition.
    #[error("approval condition {0:?} of the parent scope is missing; add it")]
    ApprovalCondition(String),
    /// The child drops a prohibition.
    #[error("prohibition {0:?} of the parent scope is missing; add it")]
    Prohibition(String),
}

impl Excess {
    /// The field of the child's scope message that the excess is in.
    pub fn element(&self) -> &'static str {
        match self {
            Self::ParentExpired(_) | Self::ExpiryLater { .. } | Self::ExpiryAbsent(_) => {
                "expires_at"
            }
            Self::Resource(_) => "resources",
            Self::Operation(_) => "operations",
            Self::ApprovalCondition(_) => "approval_conditions",
            Self::Prohibition(_) => "prohibitions",
        }
    }
}

/// Whether `child` lies within `parent` at `now`; otherwise everything by which it exceeds it.
///
/// The principals are not compared: the child's is the receiver. An absent expiry of the parent
/// is the task's life, which no child can exceed. The child's own expiry against `now` is not
/// judged: an expired child permits nothing and so exceeds nothing.
pub fn within(child: &Scope, parent: &Scope, now: Timestamp) -> Result<(), Vec<Excess>> {
    let mut excess = Vec::new();
    if let Some(end) = parent.expires_at.filter(|_| parent.is_expired(now)) {
        excess.push(Excess::ParentExpired(end));
    }
    let uncovered = child.resources.iter().filter(|r| !covered(r, &parent.resources));
    excess.extend(uncovered.cloned().map(Excess::Resource));
    let operations = child.operations.difference(&parent.operations);
    excess.extend(operations.cloned().map(Excess::Operation));
    match (child.expires_at, parent.expires_at) {
        (None, Some(parent)) => excess.push(Excess::ExpiryAbsent(parent)),
        (Some(child), Some(parent)) if parent < child => {
            excess.push(Excess::ExpiryLater { child, parent });
        }
        (_, None) | (Some(_), Some(_)) => {}
    }
    let dropped = parent.approval_conditions.difference(&child.approval_conditions);
    excess.extend(dropped.cloned().map(Excess::ApprovalCondition));
    let dropped = parent.prohibitions.difference(&child.prohibitions);
    excess.extend(dropped.cloned().map(Excess::Prohibition));
    if excess.is_empty() { Ok(()) } else { Err(excess) }
}

/// Membership first: equal sets of 1024 resources would otherwise cost a million comparisons.
fn covered(resource: &Resource, by: &BTreeSet<Resource>) -> bool {
    by.contains(resource) || by.iter().any(|parent| parent.covers(resource))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn texts(items: &[&str]) -> BTreeSet<String> {
        items.iter().map(|&item| item.to_owned()).collect()
    }

    fn at(micros: i64) -> Option<Timestamp> {
        Timestamp::from_micros(micros)
    }

    fn parent() -> Scope {
        Scope {
            principal: "agent:writer".to_owned(),
            resources: [Resource::parse("crm://orders/**").unwrap()].into(),
            operations: [Operation::parse("order.read").unwrap()].into(),
            expires_at: at(1000),
            approval_conditions: texts(&["four eyes"]),
            prohibitions: texts(&["no refund"]),
        }
    }

    // A receiver that gains one resource, operation, hour or loses one condition has authority
    // that nobody gave; the sender must see all of it at once.
    #[test]
    fn every_excess_is_named_with_its_value() {
        let child = Scope {
            principal: "agent:other".to_owned(),
            resources: ["crm://orders/17", "crm://invoices/1", "crm://orders"]
                .map(|text| Resource::parse(text).unwrap())
                .into(),
            operations: ["order.read", "order.write"].map(|t| Operation::parse(t).unwrap()).into(),
            expires_at: at(1001),
            approval_conditions: texts(&["another"]),
            prohibitions: texts(&[]),
        };
        let messages: Vec<String> =
            within(&child, &parent(), NOW).unwrap_err().iter().map(Excess::to_string).collect();
        let expected = [
            "resource crm://invoices/1 ",
            "resource crm://orders ",
            "operation order.write ",
            "expiry 1970-01-01T00:00:00.001001Z is later",
            "approval condition \"four eyes\"",
            "prohibition \"no refund\"",
        ];
        assert_eq!(messages.len(), expected.len(), "{messages:?}");
        for (message, start) in messages.iter().zip(expected) {
            assert!(message.starts_with(start), "{message}");
        }
    }

    // An absent expiry must not turn a grant of an hour into one for the task's life.
    #[test]
    fn an_absent_expiry_is_the_tasks_life() {
        let (bounded, unbounded) = (parent(), Scope { expires_at: None, ..parent() });
        assert_eq!(
            within(&unbounded, &bounded, NOW),
            Err(vec![Excess::ExpiryAbsent(at(1000).unwrap())])
        );
        assert_eq!(within(&bounded, &unbounded, NOW), Ok(()));
        assert_eq!(within(&unbounded, &unbounded, NOW), Ok(()));
    }

    // An expired grant that can still be passed on never ends.
    #[test]
    fn an_expired_parent_covers_nothing() {
        let end = at(1000).unwrap();
        assert_eq!(within(&parent(), &parent(), at(999).unwrap()), Ok(()));
        assert_eq!(within(&parent(), &parent(), end), Err(vec![Excess::ParentExpired(end)]));
        let nothing = Scope { resources: [].into(), operations: [].into(), ..parent() };
        assert!(within(&nothing, &parent(), end).is_err());
    }

    // The receiver is another principal than the sender in every handoff.
    #[test]
    fn the_principal_is_not_compared() {
        let child = Scope { principal: "capability:billing".to_owned(), ..parent() };
        assert_eq!(within(&child, &parent(), NOW), Ok(()));
    }

    // Unbounded sets would let one caller exhaust the broker's memory and time.
    #[test]
    fn limits_are_reported_together() {
        let mut scope = parent();
        assert_eq!(scope.check_limits(), Ok(()));
        scope.resources = (0..1025).map(|n| Resource::parse(&format!("x:{n}")).unwrap()).collect();
        scope.operations = (0..257).map(|n| Operation::parse(&n.to_string()).unwrap()).collect();
        scope.prohibitions = (0..257).map(|n| n.to_string()).collect();
        scope.approval_conditions = [String::new(), "x".repeat(1025)].into();
        assert_eq!(scope.check_limits().unwrap_err().len(), 5);
    }

    // A wildcard or a space in an operation would be read as permission for more.
    #[test]
    fn operations_are_exact_tokens() {
        assert_eq!(
            Operation::parse("crm:order.read_v2-x").unwrap().as_str(),
            "crm:order.read_v2-x"
        );
        for bad in ["", "*", "order.*", "a b", "a/b", "\u{e4}", &"x".repeat(129)] {
            assert!(Operation::parse(bad).is_err(), "{bad}");
        }
    }

    fn scopes() -> impl Strategy<Value = Scope> {
        let resource = "(a|b)(/[ab]){0,2}(/\\*|/\\*\\*)?"
            .prop_map(|text| Resource::parse(&format!("x://{text}")).unwrap());
        let operation = "[a-c]".prop_map(|text| Operation::parse(&text).unwrap());
        (
            prop::collection::btree_set(resource, 0..4),
            prop::collection::btree_set(operation, 0..3),
            prop::option::of((1_i64..4).prop_map(|micros| at(micros).unwrap())),
            prop::collection::btree_set("[a-b]", 0..3),
            prop::collection::btree_set("[a-b]", 0..3),
        )
            .prop_map(
                |(resources, operations, expires_at, approval_conditions, prohibitions)| Scope {
                    principal: "p".to_owned(),
                    resources,
                    operations,
                    expires_at,
                    approval_conditions,
                    prohibitions,
                },
            )
    }

    /// A scope that lies within `parent`: fewer permissions, more conditions, earlier expiry.
    fn narrowed(parent: &Scope, keep: &[bool], more: &Scope) -> Scope {
        let mut keep = keep.iter().copied().cycle();
        let mut kept = || keep.next().unwrap_or(true);
        let mut child = parent.clone();
        child.resources.retain(|_| kept());
        child.operations.retain(|_| kept());
        child.approval_conditions.extend(more.approval_conditions.iter().cloned());
        child.prohibitions.extend(more.prohibitions.iter().cloned());
        child.expires_at = match (parent.expires_at, more.expires_at) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        child
    }

    /// The normal form: no resource that another one covers.
    fn reduced(scope: &Scope) -> Scope {
        let mut reduced = scope.clone();
        let all = &scope.resources;
        reduced.resources.retain(|r| !all.iter().any(|other| other != r && other.covers(r)));
        reduced
    }

    proptest! {
        // A scope that is not within itself could not be handed back unchanged.
        #[test]
        fn within_is_reflexive(scope in scopes()) {
            prop_assert_eq!(within(&scope, &scope, NOW), Ok(()));
        }

        // A chain of handoffs must not gain authority by its length.
        #[test]
        fn within_is_transitive(
            a in scopes(), b in scopes(), c in scopes(), keep: [bool; 5], keep2: [bool; 5],
        ) {
            if within(&a, &b, NOW).is_ok() && within(&b, &c, NOW).is_ok() {
                prop_assert_eq!(within(&a, &c, NOW), Ok(()));
            }
            let middle = narrowed(&c, &keep, &a);
            let narrow = narrowed(&middle, &keep2, &b);
            prop_assert_eq!(within(&middle, &c, NOW), Ok(()));
            prop_assert_eq!(within(&narrow, &middle, NOW), Ok(()));
            prop_assert_eq!(within(&narrow, &c, NOW), Ok(()));
        }

        // Two scopes that each lie within the other must permit the same.
        #[test]
        fn within_is_antisymmetric_up_to_normal_form(a in scopes(), b in scopes()) {
            let mut redundant = a.clone();
            redundant.resources.extend(reduced(&a).resources);
            prop_assert_eq!(within(&reduced(&a), &a, NOW), Ok(()));
            prop_assert_eq!(within(&a, &reduced(&a), NOW), Ok(()));
            if within(&a, &b, NOW).is_ok() && within(&b, &a, NOW).is_ok() {
                prop_assert_eq!(reduced(&a), reduced(&b));
            }
        }

        // Whatever is added to a child beyond its parent must be found and named.
        #[test]
        fn an_added_element_is_found(parent in scopes(), which in 0..5) {
            let mut child = parent.clone();
            let expected = match which {
                0 => {
                    let added = Resource::parse("x://other/a").unwrap();
                    child.resources.insert(added.clone());
                    Some(Excess::Resource(added))
                }
                1 => {
                    let added = Operation::parse("other").unwrap();
                    child.operations.insert(added.clone());
                    Some(Excess::Operation(added))
                }
                2 => parent.expires_at.map(|end| {
                    let later = at(end.as_micros() + 1).unwrap();
                    child.expires_at = Some(later);
                    Excess::ExpiryLater { child: later, parent: end }
                }),
                3 => child.approval_conditions.pop_first().map(Excess::ApprovalCondition),
                _ => child.prohibitions.pop_first().map(Excess::Prohibition),
            };
            match expected {
                Some(excess) => prop_assert_eq!(within(&child, &parent, NOW), Err(vec![excess])),
                None => prop_assert_eq!(within(&child, &parent, NOW), Ok(())),
            }
        }
    }
}
