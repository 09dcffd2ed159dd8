//! Where messages and the core's values meet, for the network and for the disk alike.
//!
//! What lives here: parsing messages into the core's types and rendering them back, canonical form
//! and digests, withholding. What does not: decisions, I/O, status codes. Invariants: a parse finds
//! every violation before it answers; a stored message that lacks something is an error, never a
//! default; rendering and loading are inverse.

pub mod agent;
pub mod axis;
pub mod blind;
pub mod canon;
pub mod document;
pub mod event;
pub mod guard;
pub mod handoff;
pub mod packet;
pub mod reason;
pub mod receipt;
pub mod record;
pub mod scope;
pub mod stored_packet;
pub mod task;
pub mod time;
pub mod violations;
pub mod work;

#[cfg(test)]
mod test_strategies;
#[cfg(test)]
mod tests;

/// Stored data that cannot be read. The store's checksums held, so it was written by another
/// version or by a fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stored {message}.{field} cannot be read: {problem}")]
pub struct StoredError {
    /// The message.
    pub message: &'static str,
    /// The field.
    pub field: &'static str,
    /// What is wrong with it.
    pub problem: String,
}

impl StoredError {
    /// A required field is not there.
    #[must_use]
    pub fn missing(message: &'static str, field: &'static str) -> Self {
        Self { message, field, problem: "is missing".to_owned() }
    }

    /// A field has a value that cannot be.
    #[must_use]
    pub fn bad(message: &'static str, field: &'static str, problem: &impl ToString) -> Self {
        Self { message, field, problem: problem.to_string() }
    }
}
