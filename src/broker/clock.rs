//! The one place where the broker asks for the time.
//!
//! Invariant: nothing else in the crate reads a clock for a decision; a harness injects its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::core::time::{Span, Timestamp};

/// Where the time comes from.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The machine's clock.
    #[default]
    System,
    /// A clock that a harness moves.
    Manual(ManualClock),
}

/// A clock that stands still until it is moved. Clones share the time.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// A clock that stands at `now`.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(now.as_micros())))
    }

    /// Moves the clock forward, or back where `by` is negative.
    pub fn advance(&self, by: Span) {
        self.0.fetch_add(by.as_micros(), Ordering::SeqCst);
    }

    /// The time that it shows.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        Timestamp::from_micros_saturating(self.0.load(Ordering::SeqCst))
    }
}

impl Clock {
    /// The present time, in whole microseconds.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match self {
            Self::System => {
                let since = std::time::SystemTime::now()
                    .duration_since(std::time::UNIX_EPOCH)
                    .unwrap_or_default();
                let micros = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
                Timestamp::from_micros_saturating(micros)
            }
            Self::Manual(clock) => clock.now(),
        }
    }
}
