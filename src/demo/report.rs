//! Reports of the demo's processes: one JSON object a line.
//!
//! What lives here: the form that the processes report in, and failures. What does not: what is
//! expected of them. Invariant: a reason is given as the broker gave it.

use std::io::Write as _;

use serde_json::{Map, Value, json};

use crate::client::Failure;
use crate::client::packet::PacketError;

/// Why a process of the demo cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// A call failed where none may.
    #[error(transparent)]
    Failure(#[from] Failure),
    /// A packet cannot be made.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// Files, processes, pipes.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The files that were asked for cannot be used.
    #[error("{0}")]
    Usage(String),
    /// Something else, said in words.
    #[error("{0}")]
    Wrong(String),
}

impl DemoError {
    /// In words.
    pub(super) fn wrong(text: impl Into<String>) -> Self {
        Self::Wrong(text.into())
    }
}

/// The reason of a failure as it travels, for example `STALE_EPOCH`; the status code if the broker
/// gave none.
pub(super) fn reason(failure: &Failure) -> String {
    match failure.reason {
        Some(reason) => {
            let name = reason.as_str_name();
            name.strip_prefix("REASON_").unwrap_or(name).to_owned()
        }
        None => format!("{:?}", failure.code),
    }
}

/// One step that a process took.
#[derive(Clone, Debug, Default)]
pub(super) struct Report {
    /// Which.
    pub(super) step: String,
    /// The broker's reason, if it refused.
    pub(super) reason: Option<String>,
    /// For a person.
    pub(super) text: String,
    /// For a program.
    pub(super) facts: Map<String, Value>,
}

impl Report {
    /// A step, in words.
    pub(super) fn new(step: &str, text: impl Into<String>) -> Self {
        Self { step: step.to_owned(), text: text.into(), ..Self::default() }
    }

    /// With the broker's refusal.
    pub(super) fn refused(mut self, failure: &Failure) -> Self {
        self.reason = Some(reason(failure));
        self.with("violations", failure.violations.iter().map(|v| &v.field).collect::<Vec<_>>())
    }

    /// With a fact.
    pub(super) fn with(mut self, key: &str, value: impl serde::Serialize) -> Self {
        // Texts, numbers and lists of them always have a JSON form.
        self.facts.insert(key.to_owned(), json!(value));
        self
    }

    /// A fact that is a text; empty if there is none.
    pub(super) fn text_of(&self, key: &str) -> &str {
        self.facts.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    /// A fact that is a number; 0 if there is none.
    pub(super) fn number_of(&self, key: &str) -> u64 {
        self.facts.get(key).and_then(Value::as_u64).unwrap_or_default()
    }

    /// Writes it to stdout. A parent that no longer listens is no reason to fail.
    pub(super) fn tell(self) {
        let mut line = Map::new();
        line.insert("step".to_owned(), json!(self.step));
        line.insert("reason".to_owned(), json!(self.reason));
        line.insert("text".to_owned(), json!(self.text));
        line.extend(self.facts);
        let mut stdout = std::io::stdout().lock();
        let _ = writeln!(stdout, "{}", Value::Object(line));
        let _ = stdout.flush();
    }

    /// Reads a line; none if it is no report.
    pub(super) fn read(line: &str) -> Option<Self> {
        let Ok(Value::Object(mut facts)) = serde_json::from_str(line) else { return None };
        let Some(Value::String(step)) = facts.remove("step") else { return None };
        let text_or_none = |value: Option<Value>| match value {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        let reason = text_or_none(facts.remove("reason"));
        let text = text_or_none(facts.remove("text")).unwrap_or_default();
        Some(Self { step, reason, text, facts })
    }
}
