//! How every "no" and every failure travels: status code and `google.rpc` details.
//!
//! What lives here: the one mapping from errors of the broker and of authentication to a gRPC
//! status. What does not: why something is refused (`core`), and how a client reads it
//! (`client/error.rs`). Invariants: every reason has one code, by matches without a wildcard; the
//! trailers of an answer stay below 8 KiB, and what is left out is counted; a client sees nothing
//! of a fault's inside; an unknown thing and an invisible one give the same bytes.
//! `fixtures/errors.txt` shows the table.

use std::collections::HashMap;
use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use super::auth::Denial;
use crate::broker::Error;
use crate::core::refusal::{Reason, Refusal, Violation};
use crate::core::time::Span;
use crate::proto::baton::v1 as pb;
use crate::wire::reason::reason_to_pb;

/// Who gives the reasons: the value of `ErrorInfo.domain`.
pub const DOMAIN: &str = "baton";
/// Findings in one answer. A person corrects no more at once, and a program reads the count.
pub const VIOLATIONS_MAX: usize = 32;
/// The fact that counts all findings, also those that were not kept.
const VIOLATIONS: &str = "violations";
/// Characters of a message or of a description; more is no sentence.
const TEXT_CHARS_MAX: usize = 512;
/// Bytes that a message takes in a trailer, where most of what is not ASCII letters triples.
const MESSAGE_BYTES_MAX: usize = 1536;
/// Bytes of a field's path.
const FIELD_BYTES_MAX: usize = 256;
/// Facts in one answer; no refusal has as many.
const METADATA_MAX: usize = 10;
/// Bytes of one fact: the longest identifier.
const METADATA_BYTES_MAX: usize = 256;
/// Bytes of all details as they travel. Common HTTP/2 stacks refuse trailers above 8 KiB, and then
/// the client would see a broken connection in place of the reason.
const TRAILER_BYTES_MAX: usize = 7936;
/// Bytes that framing adds to one entry of the details.
const ENTRY_BYTES: usize = 16;
/// When to come back to a broker that has too much to do: a few of its commits later.
const OVERLOADED_RETRY: Duration = Duration::from_millis(200);

/// The status that tells `error` to the client of request `request_id` (empty for a read). Faults
/// of the broker and damage are logged here, and only here.
#[must_use]
pub fn status(error: &Error, request_id: &str) -> Status {
    match error {
        Error::Refused(refusal) => refused(refusal),
        Error::Overloaded => {
            let mut answer = Answer::new(pb::Reason::Overloaded, Code::ResourceExhausted, error);
            answer.retry_after = Some(OVERLOADED_RETRY);
            answer.build()
        }
        Error::Stopping => {
            Answer::new(pb::Reason::Stopping, Code::Unavailable, error).about(request_id).build()
        }
        Error::OutcomeUnknown => {
            let answer = Answer::new(pb::Reason::OutcomeUnknown, Code::Unavailable, error);
            answer.about(request_id).build()
        }
        Error::Damaged(detail) => {
            tracing::error!(request_id, detail, "stored data is damaged");
            Answer::new(pb::Reason::StoreDamaged, Code::DataLoss, error).about(request_id).build()
        }
        Error::Internal(detail) => {
            tracing::error!(request_id, detail, "a fault of the broker");
            Answer::new(pb::Reason::Internal, Code::Internal, error).about(request_id).build()
        }
    }
}

/// The status of a call that did not pass authentication.
pub(super) fn denied(denial: &Denial) -> Status {
    let (reason, code) = match denial {
        Denial::Missing => (pb::Reason::AuthenticationRequired, Code::Unauthenticated),
        Denial::Unknown => (pb::Reason::InvalidCredential, Code::Unauthenticated),
        Denial::Metadata { .. } => (pb::Reason::PrincipalMetadataRefused, Code::InvalidArgument),
    };
    let mut answer = Answer::new(reason, code, denial);
    if let Denial::Metadata { key, problem } = denial {
        let violation = Violation { field: (*key).to_owned(), description: problem.clone() };
        answer.violations.push(violation);
    }
    answer.build()
}

fn refused(refusal: &Refusal) -> Status {
    let (reason, code) = (reason_to_pb(refusal.reason), code(refusal.reason));
    let mut answer = Answer::new(reason, code, &refusal.message);
    answer.metadata = refusal.metadata.clone();
    answer.violations.clone_from(&refusal.violations);
    answer.retry_after = refusal.retry_after.map(positive);
    answer.build()
}

/// The status code of each reason of the core.
fn code(reason: Reason) -> Code {
    match reason {
        Reason::NotFound => Code::NotFound,
        Reason::InvalidRequest => Code::InvalidArgument,
        Reason::ContractInvalid => Code::InvalidArgument,
        Reason::UnsupportedContractVersion => Code::Unimplemented,
        Reason::ReferenceCopyMismatch => Code::InvalidArgument,
        Reason::IdempotencyMismatch => Code::FailedPrecondition,
        Reason::StaleEpoch => Code::FailedPrecondition,
        Reason::NotOwner => Code::PermissionDenied,
        Reason::StateConflict => Code::Aborted,
        Reason::Frozen => Code::FailedPrecondition,
        Reason::HandoffPending => Code::FailedPrecondition,
        Reason::HandoffAlreadyOpen => Code::FailedPrecondition,
        Reason::CheckpointRequired => Code::FailedPrecondition,
        Reason::ScopeExceeded => Code::PermissionDenied,
        Reason::SelfHandoff => Code::InvalidArgument,
        Reason::UnknownReceiver => Code::InvalidArgument,
        Reason::BlindImpossible => Code::FailedPrecondition,
        Reason::ReceiverNotOwner => Code::PermissionDenied,
        Reason::ClaimRequired => Code::FailedPrecondition,
        Reason::ClaimHeld => Code::FailedPrecondition,
        Reason::LeaseLapsed => Code::FailedPrecondition,
        Reason::ReceiptMismatch => Code::FailedPrecondition,
        Reason::ReceiptConflict => Code::FailedPrecondition,
        Reason::StaleHandoff => Code::FailedPrecondition,
        Reason::HandoffEnded => Code::FailedPrecondition,
        Reason::PacketMismatch => Code::FailedPrecondition,
        Reason::ObservedTimeImplausible => Code::InvalidArgument,
        Reason::IdentityMismatch => Code::PermissionDenied,
        Reason::IllegalTransition => Code::FailedPrecondition,
        Reason::TaskClosed => Code::FailedPrecondition,
        Reason::TaskCanceled => Code::FailedPrecondition,
        Reason::NotVerifier => Code::PermissionDenied,
        Reason::VerifierNotIndependent => Code::PermissionDenied,
        Reason::ReadbackRequired => Code::FailedPrecondition,
        Reason::AcceptanceNotMet => Code::FailedPrecondition,
        Reason::ArtifactDrift => Code::FailedPrecondition,
        Reason::ArtifactExists => Code::FailedPrecondition,
        Reason::NotOperator => Code::PermissionDenied,
        Reason::OwnerPresent => Code::FailedPrecondition,
        Reason::CheckpointExists => Code::FailedPrecondition,
        Reason::DurabilityRequired => Code::FailedPrecondition,
        Reason::LimitExceeded => Code::ResourceExhausted,
        Reason::LargePayloadInline => Code::InvalidArgument,
        Reason::InvalidPageToken => Code::InvalidArgument,
        Reason::RoleRequired => Code::PermissionDenied,
        Reason::CapabilityNotAllowed => Code::PermissionDenied,
        Reason::AgentExists => Code::FailedPrecondition,
        Reason::ContextOwnershipConflict => Code::PermissionDenied,
        Reason::NoOpenHandoff => Code::FailedPrecondition,
    }
}

/// What goes into a status, before its size is bounded.
struct Answer {
    reason: pb::Reason,
    code: Code,
    message: String,
    metadata: Vec<(&'static str, String)>,
    violations: Vec<Violation>,
    retry_after: Option<Duration>,
}

impl Answer {
    fn new(reason: pb::Reason, code: Code, message: impl ToString) -> Self {
        let (metadata, violations) = (Vec::new(), Vec::new());
        let message = message.to_string();
        Self { reason, code, message, metadata, violations, retry_after: None }
    }

    /// Names the request, so that a report of it can be found in the log.
    fn about(mut self, request_id: &str) -> Self {
        if !request_id.is_empty() {
            self.metadata.push(("requestId", request_id.to_owned()));
        }
        self
    }

    /// How many findings there are. Who collects them may have counted more than it kept.
    fn found(&self) -> usize {
        let counted = self.metadata.iter().find(|(key, _)| *key == VIOLATIONS);
        let counted = counted.and_then(|(_, count)| count.parse().ok()).unwrap_or_default();
        self.violations.len().max(counted)
    }

    fn build(self) -> Status {
        let found = self.found();
        let mut message = cut_message(&self.message);
        let mut metadata = HashMap::new();
        // The room for the count of what is left out is kept free from the start.
        let mut size = 2 * ENTRY_BYTES + 256 + in_trailer(&message) + in_details(message.len());
        for (key, value) in self.metadata.into_iter().take(METADATA_MAX) {
            let value = cut_bytes(&value, METADATA_BYTES_MAX);
            size += in_details(key.len() + value.len() + ENTRY_BYTES);
            metadata.insert(key.to_owned(), value.to_owned());
        }
        let mut findings = Vec::new();
        for violation in self.violations.iter().take(VIOLATIONS_MAX) {
            let field = cut_bytes(&violation.field, FIELD_BYTES_MAX);
            let description = cut_chars(&violation.description, TEXT_CHARS_MAX);
            size += in_details(field.len() + description.len() + ENTRY_BYTES);
            if size > TRAILER_BYTES_MAX {
                break;
            }
            findings.push(tonic_types::FieldViolation::new(field, description));
        }
        let left_out = found.saturating_sub(findings.len());
        if left_out > 0 {
            message.push_str(&format!(" ({left_out} more findings are left out)"));
            metadata.insert("violationsLeftOut".to_owned(), left_out.to_string());
        }
        let name = self.reason.as_str_name();
        let name = name.strip_prefix("REASON_").unwrap_or(name);
        let mut details = ErrorDetails::with_error_info(name, DOMAIN, metadata);
        if !findings.is_empty() {
            details.set_bad_request(findings);
        }
        if let Some(wait) = self.retry_after {
            details.set_retry_info(Some(wait));
        }
        Status::with_error_details(self.code, message, details)
    }
}

/// A wait is never negative; a lease that has just ended asks for none.
fn positive(span: Span) -> Duration {
    Duration::from_micros(u64::try_from(span.as_micros()).unwrap_or_default())
}

/// Bytes that `count` bytes of the details take in a trailer, where they are base64.
fn in_details(count: usize) -> usize {
    count.div_ceil(3) * 4
}

/// Bytes that a message takes in a trailer, where it is percent-encoded.
fn in_trailer(message: &str) -> usize {
    message.chars().map(char_in_trailer).sum()
}

fn char_in_trailer(c: char) -> usize {
    if c.is_ascii_alphanumeric() { 1 } else { 3 * c.len_utf8() }
}

fn cut_message(text: &str) -> String {
    let mut size = 0;
    let fits = |c: &char| {
        size += char_in_trailer(*c);
        size <= MESSAGE_BYTES_MAX
    };
    let kept: String = text.chars().take(TEXT_CHARS_MAX).take_while(fits).collect();
    if kept.len() < text.len() { kept + "..." } else { kept }
}

fn cut_chars(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn cut_bytes(text: &str, max: usize) -> &str {
    text.get(..text.floor_char_boundary(max)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
