//! Who is known in which namespace, and what each may declare.
//!
//! With authentication the principals file says it; without, the agent registry does and everybody
//! may declare anything, since everybody is on this machine. Invariant: a capability counts only
//! for who may declare it.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::handoff::Receiver;
use crate::core::id::{Capability, Namespace, PrincipalId};
use crate::core::task::Party;

/// What is known of one principal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// Identity.
    pub id: PrincipalId,
    /// The account that it belongs to.
    pub account: String,
    /// It may act as operator.
    pub operator: bool,
    /// What it may declare.
    pub capabilities: BTreeSet<Capability>,
}

/// The principals of all namespaces, or none where there is no authentication.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    principals: Option<BTreeMap<Namespace, BTreeMap<PrincipalId, Principal>>>,
}

impl Directory {
    /// No authentication: whoever registers as agent is known.
    #[must_use]
    pub fn open() -> Self {
        Self { principals: None }
    }

    /// The principals of the file.
    pub fn of(all: impl IntoIterator<Item = (Namespace, Principal)>) -> Self {
        let mut principals: BTreeMap<Namespace, BTreeMap<PrincipalId, Principal>> = BTreeMap::new();
        for (namespace, principal) in all {
            principals.entry(namespace).or_default().insert(principal.id.clone(), principal);
        }
        Self { principals: Some(principals) }
    }

    /// True if there is no principals file.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.principals.is_none()
    }

    /// One principal of the file.
    #[must_use]
    pub fn principal(&self, namespace: &Namespace, id: &PrincipalId) -> Option<&Principal> {
        self.principals.as_ref()?.get(namespace)?.get(id)
    }

    /// Who may receive an offer, by the file.
    #[must_use]
    pub fn eligible(&self, namespace: &Namespace, receiver: &Receiver) -> Vec<Party> {
        let Some(here) = self.principals.as_ref().and_then(|all| all.get(namespace)) else {
            return Vec::new();
        };
        let may = |p: &&Principal| match receiver {
            Receiver::Principal(id) => p.id == *id,
            Receiver::Capability(capability) => p.capabilities.contains(capability),
        };
        here.values()
            .filter(may)
            .map(|p| Party { principal: p.id.clone(), account: p.account.clone() })
            .collect()
    }
}
