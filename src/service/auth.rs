//! temporary
use crate::core::{Caller, id::*, task::Party};
#[derive(Clone)]
pub struct Authenticator;
impl Authenticator {
    pub fn open() -> Self {
        Self
    }
}
impl tonic::service::Interceptor for Authenticator {
    fn call(
        &mut self,
        mut request: tonic::Request<()>,
    ) -> Result<tonic::Request<()>, tonic::Status> {
        let p = request
            .metadata()
            .get("baton-principal")
            .and_then(|v| v.to_str().ok())
            .unwrap_or("local:anonymous")
            .to_owned();
        let op = request.metadata().get("baton-role").is_some();
        let principal =
            PrincipalId::parse(&p).map_err(|e| tonic::Status::invalid_argument(e.to_string()))?;
        let namespace =
            Namespace::parse("default").map_err(|e| tonic::Status::internal(e.to_string()))?;
        request.extensions_mut().insert(Caller {
            party: Party { account: p, principal },
            namespace,
            operator: op,
            capabilities: Default::default(),
        });
        Ok(request)
    }
}
