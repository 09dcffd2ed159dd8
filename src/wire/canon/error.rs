//! Why something has no canonical form.
//!
//! What lives here: the errors and the path to the field that is at fault. What does not: the
//! rules. Invariant: an error about a value names its field.

use std::fmt;

/// Why a message or value has no canonical form.
#[derive(Debug, thiserror::Error)]
pub enum CanonError {
    /// The type is not among the descriptors that this program was built with.
    #[error("no descriptor of message {0}; only messages of this program's proto files have one")]
    UnknownMessage(String),
    /// A field that was to be left out does not exist.
    #[error("message {message} has no field {field} to leave out")]
    UnknownField {
        /// The message's full name.
        message: String,
        /// The field's name in the proto file.
        field: String,
    },
    /// The message cannot be read back, for example because it is nested too deeply.
    #[error("the message cannot be read by its descriptor: {0}; nest it less deeply")]
    Unreadable(#[from] prost::DecodeError),
    /// One field's value has no canonical form.
    #[error("{field}: {problem}")]
    Value {
        /// Path of the field in lowerCamelCase, for example `scope.expiresAt`.
        field: FieldPath,
        /// What is wrong, and what to send instead.
        problem: Problem,
    },
    /// An artifact without parts has no digest.
    #[error("an artifact without parts has no digest; give it at least one part")]
    NoParts,
    /// Writing JSON failed.
    #[error("the value cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// A path from the digested value down to one field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldPath(Vec<String>);

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("(whole value)");
        }
        // Collected from the inside out.
        for (n, step) in self.0.iter().rev().enumerate() {
            if n > 0 && !step.starts_with('[') {
                f.write_str(".")?;
            }
            f.write_str(step)?;
        }
        Ok(())
    }
}

/// What is wrong with one field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// `float` and `double` print differently in different libraries.
    #[error("floating point fields have no canonical form; use an integer or a string")]
    Float,
    /// A number that a double does not hold, or does not hold alone.
    #[error("the number is above 2^53 in magnitude or not finite; send it as a string")]
    Number,
    /// The enum number has no name here.
    #[error("enum number {0} has no name; send a value of this version")]
    EnumNumber(i32),
    /// Outside the years 1 to 9999, or nanoseconds outside a second.
    #[error("the time is outside the years 1 to 9999; send a valid time")]
    TimeRange,
    /// Finer than a microsecond.
    #[error("{0} ns is finer than a microsecond; cut it to microseconds")]
    Nanos(i32),
    /// Outside ProtoJSON's range, or signs that disagree.
    #[error("the duration is out of range or its signs disagree; send a valid duration")]
    DurationRange,
    /// A dynamic value of no kind.
    #[error("the value has no kind; send null if null is meant")]
    NoKind,
    /// A well-known type with a JSON form of its own that nothing here uses.
    #[error("the message type has no canonical form here; use a message of baton.v1")]
    Type,
}

impl From<Problem> for CanonError {
    fn from(problem: Problem) -> Self {
        Self::Value { field: FieldPath::default(), problem }
    }
}

impl CanonError {
    /// The same error, one step further out.
    pub(super) fn within(mut self, step: impl FnOnce() -> String) -> Self {
        if let Self::Value { field, .. } = &mut self {
            field.0.push(step());
        }
        self
    }
}
