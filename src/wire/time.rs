//! Times and durations: protobuf's and the core's.
//!
//! Invariant: the core counts whole microseconds; finer times are refused, not rounded.

use crate::core::time::{Span, Timestamp};

const MICROS: i64 = 1_000_000;
const NANOS: i32 = 1_000_000_000;
/// Largest duration that ProtoJSON can print, in seconds.
const DURATION_SECONDS_MAX: i64 = 315_576_000_000;

/// A time or duration that the core cannot hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// Outside the years 1 to 9999, or not normalised.
    #[error("is outside the years 1 to 9999; send a valid time")]
    Range,
    /// Finer than a microsecond.
    #[error("is finer than a microsecond; send whole microseconds")]
    TooFine,
    /// A duration that is not normalised, or longer than the canonical form can print.
    #[error("is no duration of at most 315576000000 seconds; send nanos below one second")]
    DurationRange,
    /// A duration below zero.
    #[error("is negative; send a duration of zero or more")]
    Negative,
}

/// The core's time.
///
/// # Errors
/// Out of range, or finer than a microsecond.
pub fn parse_timestamp(time: &prost_types::Timestamp) -> Result<Timestamp, TimeError> {
    if !(0..NANOS).contains(&time.nanos) {
        return Err(TimeError::Range);
    }
    if time.nanos % 1000 != 0 {
        return Err(TimeError::TooFine);
    }
    time.seconds
        .checked_mul(MICROS)
        .and_then(|micros| micros.checked_add(i64::from(time.nanos / 1000)))
        .and_then(Timestamp::from_micros)
        .ok_or(TimeError::Range)
}

/// The message.
#[must_use]
pub fn render_timestamp(time: Timestamp) -> prost_types::Timestamp {
    let micros = time.as_micros();
    let nanos = i32::try_from(micros.rem_euclid(MICROS) * 1000).unwrap_or_default();
    prost_types::Timestamp { seconds: micros.div_euclid(MICROS), nanos }
}

/// The core's duration.
///
/// # Errors
/// Negative, out of range, or finer than a microsecond.
pub fn parse_duration(duration: &prost_types::Duration) -> Result<Span, TimeError> {
    if duration.seconds < 0 || duration.nanos < 0 {
        return Err(TimeError::Negative);
    }
    if duration.nanos >= NANOS || duration.seconds > DURATION_SECONDS_MAX {
        return Err(TimeError::DurationRange);
    }
    if duration.nanos % 1000 != 0 {
        return Err(TimeError::TooFine);
    }
    duration
        .seconds
        .checked_mul(MICROS)
        .and_then(|micros| micros.checked_add(i64::from(duration.nanos / 1000)))
        .map(Span::from_micros)
        .ok_or(TimeError::DurationRange)
}

/// The message.
#[must_use]
pub fn render_duration(span: Span) -> prost_types::Duration {
    let micros = span.as_micros();
    let nanos = i32::try_from(micros.rem_euclid(MICROS) * 1000).unwrap_or_default();
    prost_types::Duration { seconds: micros.div_euclid(MICROS), nanos }
}
