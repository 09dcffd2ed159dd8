//! Who calls: from a call's metadata to a caller, before anything else looks at the call.
//!
//! What lives here: reading the credential, or without authentication the stated name. What does
//! not: who exists (`principals`), what a caller may do (`core`). Invariants: the caller comes from
//! the metadata and never from a body; with authentication nobody names itself; a credential is
//! neither logged nor repeated. The services for health and reflection stay outside of this gate.
//!
//! Without authentication a broker listens on the loopback address alone, and everybody on the
//! machine can be anybody in it, also an operator: that mode keeps mistakes apart, not people.

use std::collections::BTreeSet;
use std::sync::Arc;

use tonic::metadata::MetadataMap;
use tonic::service::Interceptor;
use tonic::{Request, Status};

use super::status;
use crate::core::Caller;
use crate::core::id::{Namespace, PrincipalId};
use crate::core::task::Party;
use crate::principals::{Principals, is_reserved};

/// Metadata with the credential: `Bearer <token>`.
pub const AUTHORIZATION: &str = "authorization";
/// Metadata that names the caller where there is no authentication.
pub const PRINCIPAL: &str = "baton-principal";
/// Metadata that asks for a role where there is no authentication; `operator` is the only value.
pub const ROLE: &str = "baton-role";
/// The caller that says nothing, where there is no authentication.
pub const ANONYMOUS: &str = "local:anonymous";
/// The namespace of everybody, where there is no authentication.
pub const NAMESPACE: &str = "default";

/// Why a call has no caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// There is no credential.
    #[error("this broker needs a credential; send metadata `authorization: Bearer <token>`")]
    Missing,
    /// The credential is nobody's.
    #[error("the credential is not known; ask the operator for a token made by `baton token new`")]
    Unknown,
    /// The caller names itself where it may not, or badly.
    #[error("metadata `{key}`: {problem}")]
    Metadata {
        /// The metadata's key.
        key: &'static str,
        /// What is wrong, with the value, and the remedy.
        problem: String,
    },
}

/// The gate that every call of Baton's own services passes. It puts the [`Caller`] into the
/// request's extensions.
#[derive(Clone, Debug)]
pub enum Authenticator {
    /// No authentication, for a broker on the loopback address: callers name themselves. What such
    /// a caller may declare is left empty; the agent registry says it.
    Open,
    /// Callers prove by a token who they are.
    Tokens(Arc<Principals>),
}

impl Authenticator {
    /// The caller of a call with this metadata.
    ///
    /// # Errors
    /// There is no known caller.
    pub fn caller(&self, metadata: &MetadataMap) -> Result<Caller, Denial> {
        match self {
            Self::Open => stated(metadata),
            Self::Tokens(principals) => proved(principals, metadata),
        }
    }
}

impl Interceptor for Authenticator {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let caller = self.caller(request.metadata()).map_err(|denial| {
            tracing::debug!(%denial, "a call without a known caller");
            status::denied(&denial)
        })?;
        request.extensions_mut().insert(caller);
        Ok(request)
    }
}

fn proved(principals: &Principals, metadata: &MetadataMap) -> Result<Caller, Denial> {
    let mut values = metadata.get_all(AUTHORIZATION).iter();
    let value = values.next().ok_or(Denial::Missing)?;
    // Of two credentials neither is the right one.
    if values.next().is_some() {
        return Err(Denial::Unknown);
    }
    let value = value.to_str().map_err(|_| Denial::Unknown)?;
    let (scheme, token) = value.split_once(' ').ok_or(Denial::Unknown)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Denial::Unknown);
    }
    let caller = principals.authenticate(token.trim()).ok_or(Denial::Unknown)?;
    for key in [PRINCIPAL, ROLE] {
        if metadata.contains_key(key) {
            let problem = "it is not taken, the credential says who calls; leave it out".to_owned();
            return Err(Denial::Metadata { key, problem });
        }
    }
    Ok(caller)
}

fn stated(metadata: &MetadataMap) -> Result<Caller, Denial> {
    let name = one(metadata, PRINCIPAL)?.unwrap_or(ANONYMOUS);
    let refused = |key, problem: String| Denial::Metadata { key, problem };
    let principal =
        PrincipalId::parse(name).map_err(|error| refused(PRINCIPAL, error.to_string()))?;
    if is_reserved(&principal) {
        let problem = format!("{name:?} is a name of the broker itself; take another");
        return Err(refused(PRINCIPAL, problem));
    }
    let operator = match one(metadata, ROLE)? {
        None => false,
        Some("operator") => true,
        Some(other) => {
            let problem = format!("{other:?} is not a role; send `operator` or leave it out");
            return Err(refused(ROLE, problem));
        }
    };
    let namespace = Namespace::parse(NAMESPACE).map_err(|e| refused(PRINCIPAL, e.to_string()))?;
    let party = Party { account: principal.as_str().to_owned(), principal };
    Ok(Caller { party, namespace, operator, capabilities: BTreeSet::new() })
}

/// The only value of a key, if there is one.
fn one<'a>(metadata: &'a MetadataMap, key: &'static str) -> Result<Option<&'a str>, Denial> {
    let mut values = metadata.get_all(key).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        let problem = "it is sent more than once; send it once".to_owned();
        return Err(Denial::Metadata { key, problem });
    }
    let text = value.to_str().map_err(|_| {
        let problem = format!("{value:?} is not visible ASCII; send visible ASCII");
        Denial::Metadata { key, problem }
    })?;
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use tonic::Code;
    use tonic::metadata::MetadataValue;

    use super::*;
    use crate::principals::{Entry, append_principal, new_token};

    fn call(
        authenticator: &Authenticator,
        metadata: &[(&'static str, &str)],
    ) -> Result<Caller, Status> {
        let mut request = Request::new(());
        for (key, value) in metadata {
            let value = MetadataValue::try_from(value.as_bytes()).unwrap();
            request.metadata_mut().append(*key, value);
        }
        let request = authenticator.clone().call(request)?;
        Ok(request.extensions().get::<Caller>().unwrap().clone())
    }

    /// A gate with one principal, and its token.
    fn with_tokens() -> (Authenticator, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("principals.toml");
        let (token, token_sha256) = new_token().unwrap();
        let entry = Entry { id: "agent:a".to_owned(), token_sha256, ..Entry::default() };
        append_principal(&path, entry).unwrap();
        let principals = Principals::load(&path).unwrap();
        (Authenticator::Tokens(Arc::new(principals)), token)
    }

    fn refused(authenticator: &Authenticator, metadata: &[(&'static str, &str)]) -> (Code, String) {
        use tonic_types::StatusExt as _;
        let status = call(authenticator, metadata).unwrap_err();
        (status.code(), status.get_details_error_info().unwrap().reason)
    }

    // A caller taken from anything but its credential could act as anybody.
    #[test]
    fn a_token_proves_the_caller() {
        let (gate, token) = with_tokens();
        for scheme in ["Bearer", "bearer", "BEARER"] {
            let caller = call(&gate, &[(AUTHORIZATION, &format!("{scheme} {token}"))]).unwrap();
            assert_eq!(caller.party.principal.as_str(), "agent:a");
            assert!(!caller.operator);
        }
    }

    // A gate that lets an unknown credential through is none; one that repeats it leaks it.
    #[test]
    fn calls_without_a_known_credential_are_refused() {
        let (gate, token) = with_tokens();
        let missing = (Code::Unauthenticated, "AUTHENTICATION_REQUIRED".to_owned());
        assert_eq!(refused(&gate, &[]), missing);
        assert_eq!(refused(&gate, &[(PRINCIPAL, "agent:a")]), missing);
        let unknown = (Code::Unauthenticated, "INVALID_CREDENTIAL".to_owned());
        let good = format!("Bearer {token}");
        let wrong = format!("Bearer baton_{}", "0".repeat(64));
        for bad in [token.as_str(), "Bearer ", "Basic YTpi", &wrong, "Bearer \u{e4}", ""] {
            assert_eq!(refused(&gate, &[(AUTHORIZATION, bad)]), unknown, "{bad}");
        }
        assert_eq!(refused(&gate, &[(AUTHORIZATION, &good), (AUTHORIZATION, &wrong)]), unknown);
        let status = call(&gate, &[(AUTHORIZATION, &wrong)]).unwrap_err();
        assert!(!format!("{status:?}").contains("baton_0"));
    }

    // A stated name beside a credential is a mistake or an attempt; ignoring it hides either.
    #[test]
    fn with_a_credential_nobody_names_itself() {
        let (gate, token) = with_tokens();
        let good = format!("Bearer {token}");
        for key in [PRINCIPAL, ROLE] {
            let got = refused(&gate, &[(AUTHORIZATION, &good), (key, "operator")]);
            assert_eq!(got, (Code::InvalidArgument, "PRINCIPAL_METADATA_REFUSED".to_owned()));
        }
    }

    // On one machine a newcomer's first call must work, and two agents must be two.
    #[test]
    fn without_authentication_callers_name_themselves() {
        let caller = call(&Authenticator::Open, &[]).unwrap();
        assert_eq!(caller.party.principal.as_str(), ANONYMOUS);
        assert_eq!((caller.party.account.as_str(), caller.operator), (ANONYMOUS, false));
        assert_eq!(caller.namespace.as_str(), NAMESPACE);
        assert!(caller.capabilities.is_empty());
        let sent = [(PRINCIPAL, "agent:b"), (ROLE, "operator"), (AUTHORIZATION, "Bearer x")];
        let caller = call(&Authenticator::Open, &sent).unwrap();
        assert_eq!(caller.party.principal.as_str(), "agent:b");
        assert!(caller.operator);
    }

    // A malformed name that is replaced by a default makes two agents one.
    #[test]
    fn malformed_metadata_is_refused_with_key_and_value() {
        use tonic_types::StatusExt as _;
        for (key, value) in [
            (PRINCIPAL, ""),
            (PRINCIPAL, "a b"),
            (PRINCIPAL, "\u{e4}"),
            (PRINCIPAL, "baton:readback"),
            (PRINCIPAL, "gateway:x"),
            (ROLE, "root"),
            (ROLE, ""),
        ] {
            let status = call(&Authenticator::Open, &[(key, value)]).unwrap_err();
            let details = status.get_error_details();
            assert_eq!(details.error_info().unwrap().reason, "PRINCIPAL_METADATA_REFUSED");
            let violation = &details.bad_request().unwrap().field_violations[0];
            assert_eq!(violation.field, key);
            let shown = value.is_ascii() && violation.description.contains(&format!("{value:?}"));
            assert!(shown || !value.is_ascii(), "{}", violation.description);
        }
        let twice = [(PRINCIPAL, "a"), (PRINCIPAL, "b")];
        assert!(call(&Authenticator::Open, &twice).is_err());
    }
}
