//! The log: where it goes, in which form, and the names of its fields.
//!
//! What lives here: the subscriber and the field names. What does not: what is worth a line.
//! Invariants: the log goes to stderr, since stdout is data; a field has one name in every line.
//! Credentials and contents of messages are never logged.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// The variable that says what is logged, for example `info,baton::broker=debug`.
pub const FILTER_VARIABLE: &str = "BATON_LOG";
/// What is logged if nobody says.
const FILTER_DEFAULT: &str = "info";

/// The task that a line is about.
pub const TASK_ID: &str = "task_id";
/// The handoff that a line is about.
pub const HANDOFF_ID: &str = "handoff_id";
/// The agent that a line is about.
pub const AGENT_ID: &str = "agent_id";
/// The caller's id of the request.
pub const REQUEST_ID: &str = "request_id";
/// Who calls.
pub const PRINCIPAL: &str = "principal";
/// The namespace of the caller.
pub const NAMESPACE: &str = "namespace";
/// The call.
pub const RPC: &str = "rpc";
/// The epoch of the task after the change.
pub const EPOCH: &str = "epoch";
/// The revision of the task after the change.
pub const REVISION: &str = "revision";
/// Why a call was refused.
pub const REASON: &str = "reason";
/// How long it took, in microseconds.
pub const ELAPSED_US: &str = "elapsed_us";

/// The form of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Lines for a person.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter cannot be read.
    #[error("BATON_LOG = {value:?}: {problem}; give for example info or baton=debug")]
    Filter {
        /// What was set.
        value: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The process has a subscriber already.
    #[error("the log is set up already: {0}")]
    Taken(String),
}

/// Sends the log of this process to stderr, filtered by `BATON_LOG`.
///
/// # Errors
/// The filter cannot be read, or the process has a subscriber.
pub fn start(form: Form) -> Result<(), TelemetryError> {
    let filter = filter(std::env::var(FILTER_VARIABLE).ok().as_deref())?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // A full disk under stderr must not panic in whoever has something to say.
        .log_internal_errors(false)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let started = match form {
        Form::Text => builder.try_init(),
        Form::Json => builder.json().flatten_event(true).try_init(),
    };
    started.map_err(|e| TelemetryError::Taken(e.to_string()))
}

/// The filter that `value` asks for. An empty one counts as not set.
fn filter(value: Option<&str>) -> Result<EnvFilter, TelemetryError> {
    let value = value.filter(|value| !value.trim().is_empty()).unwrap_or(FILTER_DEFAULT);
    EnvFilter::try_new(value)
        .map_err(|e| TelemetryError::Filter { value: value.to_owned(), problem: e.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    // A filter that is misspelt and ignored leaves the operator without the lines that were asked
    // for.
    #[test]
    fn filters_are_read_or_refused() {
        for unset in [None, Some(""), Some(" ")] {
            assert_eq!(filter(unset).unwrap().to_string(), "info");
        }
        assert_eq!(filter(Some("baton=debug")).unwrap().to_string(), "baton=debug");
        let error = filter(Some("baton=loud")).unwrap_err().to_string();
        assert!(error.contains("baton=loud") && error.contains("give for example"), "{error}");
    }

    // A constant that is no longer taken as a field's name would log its spelling instead.
    #[test]
    fn names_are_usable_as_fields() {
        tracing::trace!({ TASK_ID } = "t", { ELAPSED_US } = 1, "a line");
    }

    // A second start must not panic in an embedding process that has a log of its own.
    #[test]
    fn a_second_start_is_refused() {
        // Silent, so that the lines of other tests stay out of their report.
        let silent = tracing::subscriber::NoSubscriber::new();
        // Taken already is what this test wants as well.
        let _ = tracing::subscriber::set_global_default(silent);
        assert!(matches!(start(Form::Text), Err(TelemetryError::Taken(_))));
        assert!(matches!(start(Form::Json), Err(TelemetryError::Taken(_))));
    }
}
