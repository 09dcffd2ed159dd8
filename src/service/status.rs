//! temporary
use crate::broker;
pub fn status(error: &broker::Error, _request_id: &str) -> tonic::Status {
    match error {
        broker::Error::Refused(r) => tonic::Status::failed_precondition(format!(
            "{:?}: {} {:?}",
            r.reason, r.message, r.violations
        )),
        other => tonic::Status::internal(format!("{other:?}")),
    }
}
