//! Everything that is wrong with a request, found before it is answered.
//!
//! Invariant: a caller repairs a form, not one field at a time, so nothing stops at the first
//! violation.

use std::fmt::Display;

use crate::core::refusal::{Reason, Refusal, Violation};

/// Violations that are kept; more are only counted.
const KEPT_MAX: usize = 64;

/// The violations of one request.
#[derive(Clone, Debug, Default)]
pub struct Violations {
    kept: Vec<Violation>,
    left_out: usize,
}

impl Violations {
    /// Adds one.
    pub fn add(&mut self, field: &str, description: impl Into<String>) {
        if self.kept.len() < KEPT_MAX {
            let description = description.into();
            self.kept.push(Violation { field: field.to_owned(), description });
        } else {
            self.left_out = self.left_out.saturating_add(1);
        }
    }

    /// The value of a parse, or its error as a violation.
    pub fn take<T, E: Display>(&mut self, field: &str, parsed: Result<T, E>) -> Option<T> {
        match parsed {
            Ok(value) => Some(value),
            Err(error) => {
                self.add(field, error.to_string());
                None
            }
        }
    }

    /// The value, or a violation that it is missing.
    pub fn require<T>(&mut self, field: &str, value: Option<T>) -> Option<T> {
        if value.is_none() {
            self.add(field, "is required and missing; send it");
        }
        value
    }

    /// Takes over what another look found.
    pub fn extend(&mut self, other: Self) {
        self.left_out = self.left_out.saturating_add(other.left_out);
        for violation in other.kept {
            self.add(&violation.field, violation.description);
        }
    }

    /// True if nothing was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The refusal that lists them.
    #[must_use]
    pub fn into_refusal(self) -> Refusal {
        let count = self.kept.len().saturating_add(self.left_out);
        let first = self
            .kept
            .first()
            .map_or_else(String::new, |v| format!("{} {}", v.field, v.description));
        Refusal::new(
            Reason::InvalidRequest,
            format!("the request has {count} violations; the first: {first}"),
        )
        .with("violations", count)
        .with_violations(self.kept)
    }

    /// The value, if nothing at all is wrong.
    ///
    /// # Errors
    /// The refusal that lists the violations.
    pub fn finish<T>(mut self, value: Option<T>) -> Result<T, Refusal> {
        match value {
            Some(value) if self.is_empty() => Ok(value),
            Some(_) => Err(self.into_refusal()),
            None => {
                if self.is_empty() {
                    self.add("request", "cannot be read");
                }
                Err(self.into_refusal())
            }
        }
    }
}
