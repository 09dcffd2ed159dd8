//! What a client learns from a call that failed.
//!
//! What lives here: reading a gRPC status and its `google.rpc` details. What does not: writing them
//! (`service/status.rs`), and whether to repeat (the caller's). Invariants: a status of any server
//! can be read; details of another domain, and what cannot be decoded, give no reason and no error.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::proto::baton::v1 as pb;

/// The value of `ErrorInfo.domain` in a broker's answers.
const DOMAIN: &str = "baton";

/// One thing that is wrong with one field of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Path of the field, in the proto's names.
    pub field: String,
    /// What is wrong, with the value, and the remedy.
    pub description: String,
}

/// A call that failed, with what the server said about it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The broker's reason; none if another party answered, or nobody.
    pub reason: Option<pb::Reason>,
    /// The status code.
    pub code: Code,
    /// For a person.
    pub message: String,
    /// For a program: ids and present values by lowerCamelCase key, for example `revision`.
    pub metadata: BTreeMap<String, String>,
    /// What is wrong with the request, one entry a finding.
    pub violations: Vec<Finding>,
    /// How long to wait before a repeat, if the broker knows.
    pub retry_after: Option<Duration>,
    status: Status,
}

impl Failure {
    /// True if the broker gave this reason.
    #[must_use]
    pub fn is(&self, reason: pb::Reason) -> bool {
        self.reason == Some(reason)
    }

    /// The status as it came.
    #[must_use]
    pub fn status(&self) -> &Status {
        &self.status
    }
}

/// Reads a status of any server.
#[must_use]
pub fn parse_status(status: &Status) -> Failure {
    let details = status.get_error_details();
    let ours = details.error_info().filter(|info| info.domain == DOMAIN);
    let reason = ours.and_then(|i| pb::Reason::from_str_name(&format!("REASON_{}", i.reason)));
    let metadata = ours.map(|info| info.metadata.clone().into_iter().collect());
    let violations = details.bad_request().map(|bad| {
        let finding = |v: &tonic_types::FieldViolation| Finding {
            field: v.field.clone(),
            description: v.description.clone(),
        };
        bad.field_violations.iter().map(finding).collect()
    });
    Failure {
        reason,
        code: status.code(),
        message: status.message().to_owned(),
        metadata: metadata.unwrap_or_default(),
        violations: violations.unwrap_or_default(),
        retry_after: details.retry_info().and_then(|retry| retry.retry_delay),
        status: status.clone(),
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        parse_status(&status)
    }
}

/// `STALE_EPOCH: message`, then a line for each finding.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason {
            Some(reason) => {
                let name = reason.as_str_name();
                write!(f, "{}", name.strip_prefix("REASON_").unwrap_or(name))?;
            }
            None => write!(f, "{}", self.code.description())?,
        }
        write!(f, ": {}", self.message)?;
        for finding in &self.violations {
            write!(f, "\n  {}: {}", finding.field, finding.description)?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.status)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tonic_types::ErrorDetails;

    use super::*;

    // An agent that cannot read the reason cannot tell "stop" from "try again".
    #[test]
    fn every_detail_of_a_refusal_is_read() {
        let facts = HashMap::from([("revision".to_owned(), "7".to_owned())]);
        let mut details = ErrorDetails::with_error_info("CLAIM_HELD", DOMAIN, facts);
        details.add_bad_request_violation("claim.instance_id", "is empty; send one");
        details.set_retry_info(Some(Duration::from_secs(3)));
        let status = Status::with_error_details(Code::FailedPrecondition, "held", details);
        let failure = Failure::from(status);
        assert!(failure.is(pb::Reason::ClaimHeld));
        assert_eq!(failure.code, Code::FailedPrecondition);
        assert_eq!(failure.metadata["revision"], "7");
        assert_eq!(failure.retry_after, Some(Duration::from_secs(3)));
        let text = failure.to_string();
        assert_eq!(text, "CLAIM_HELD: held\n  claim.instance_id: is empty; send one");
    }

    // A proxy's answer must not be taken for a decision of the broker.
    #[test]
    fn answers_of_others_have_no_reason() {
        let foreign = ErrorDetails::with_error_info("CLAIM_HELD", "example.com", HashMap::new());
        for status in [
            Status::unavailable("no route"),
            Status::with_error_details(Code::Unknown, "x", foreign),
            Status::with_details(Code::Internal, "x", vec![0xff, 0xff].into()),
        ] {
            let failure = parse_status(&status);
            assert_eq!((failure.reason, failure.metadata.len()), (None, 0));
            assert_eq!(failure.message, status.message());
        }
    }
}
