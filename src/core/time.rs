//! Points in time and spans between them, as numbers.
//!
//! What lives here: arithmetic and the one text form. What does not: a clock; now is always
//! passed in.
//!
//! Invariants: a `Timestamp` lies within the years 1 to 9999, so that each one has an RFC 3339
//! form; arithmetic never overflows and never panics.

use std::fmt;

const MICROS_PER_SECOND: i64 = 1_000_000;
const SECONDS_PER_DAY: i64 = 86_400;
const DAYS_PER_400_YEARS: i64 = 146_097;

/// Microseconds since 1970-01-01T00:00:00Z, within the years 1 to 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// 0001-01-01T00:00:00.000000Z.
    pub const MIN: Self = Self(-62_135_596_800 * MICROS_PER_SECOND);
    /// 9999-12-31T23:59:59.999999Z.
    pub const MAX: Self = Self(253_402_300_800 * MICROS_PER_SECOND - 1);
    /// 1970-01-01T00:00:00.000000Z.
    pub const UNIX_EPOCH: Self = Self(0);

    /// From microseconds since the Unix epoch; `None` outside the years 1 to 9999.
    pub const fn from_micros(micros: i64) -> Option<Self> {
        if Self::MIN.0 <= micros && micros <= Self::MAX.0 { Some(Self(micros)) } else { None }
    }

    /// From microseconds since the Unix epoch; the nearest representable point.
    pub const fn from_micros_saturating(micros: i64) -> Self {
        if micros < Self::MIN.0 {
            Self::MIN
        } else if micros > Self::MAX.0 {
            Self::MAX
        } else {
            Self(micros)
        }
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// `self + span`, or `None` outside the years 1 to 9999.
    pub const fn checked_add(self, span: Span) -> Option<Self> {
        match self.0.checked_add(span.0) {
            Some(micros) => Self::from_micros(micros),
            None => None,
        }
    }

    /// `self - span`, or `None` outside the years 1 to 9999.
    pub const fn checked_sub(self, span: Span) -> Option<Self> {
        match self.0.checked_sub(span.0) {
            Some(micros) => Self::from_micros(micros),
            None => None,
        }
    }

    /// `self + span`, held within [`Timestamp::MIN`] and [`Timestamp::MAX`].
    pub const fn saturating_add(self, span: Span) -> Self {
        Self::from_micros_saturating(self.0.saturating_add(span.0))
    }

    /// `self - span`, held within [`Timestamp::MIN`] and [`Timestamp::MAX`].
    pub const fn saturating_sub(self, span: Span) -> Self {
        Self::from_micros_saturating(self.0.saturating_sub(span.0))
    }

    /// `self - earlier`; negative if `earlier` is the later one. Cannot overflow.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

/// RFC 3339 in UTC with exactly six digits of the second: `2026-01-02T03:04:05.000006Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.div_euclid(MICROS_PER_SECOND);
        let micros = self.0.rem_euclid(MICROS_PER_SECOND);
        let (year, month, day) = civil_from_days(seconds.div_euclid(SECONDS_PER_DAY));
        let of_day = seconds.rem_euclid(SECONDS_PER_DAY);
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
    }
}

/// A length of time in microseconds; may be negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(i64);

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// From microseconds.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// From milliseconds; saturates at the ends of the range (about 292,000 years).
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1000))
    }

    /// From seconds; saturates at the ends of the range (about 292,000 years).
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(MICROS_PER_SECOND))
    }

    /// Microseconds.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// `self + other`, or `None` on overflow.
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(micros) => Some(Self(micros)),
            None => None,
        }
    }

    /// `self + other`, held within the range.
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// `self - other`, held within the range.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// `self * factor`, held within the range.
    pub const fn saturating_mul(self, factor: i64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

/// Seconds with six digits: `-1.500000s`.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let micros = self.0.unsigned_abs();
        write!(f, "{sign}{}.{:06}s", micros / 1_000_000, micros % 1_000_000)
    }
}

/// Year, month and day (proleptic Gregorian) of a day counted from 1970-01-01.
///
/// Years are counted from 1 March, so that the leap day is the last day of its year and every
/// other day has the same place in each year.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    // Days since 0000-03-01, which begins a cycle of 400 years.
    let since_march = days + 719_468;
    let cycle = since_march.div_euclid(DAYS_PER_400_YEARS);
    let day_of_cycle = since_march.rem_euclid(DAYS_PER_400_YEARS);
    // Take out the leap days so far in the cycle: one per 4 years (1461 days less the last),
    // none per 100 years (36,524 days), one at the end of the 400.
    let leap_days = day_of_cycle / 1460 - day_of_cycle / 36_524 + day_of_cycle / 146_096;
    let year_of_cycle = (day_of_cycle - leap_days) / 365;
    let first_day_of_year = 365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100;
    let day_of_year = day_of_cycle - first_day_of_year;
    // From March on, five months have 153 days (31, 30, 31, 30, 31), again and again.
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let (month, carry) = if march_month < 10 { (march_month + 3, 0) } else { (march_month - 9, 1) };
    (cycle * 400 + year_of_cycle + carry, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    // A wrong date in a digest's input makes two honest parties disagree about one snapshot.
    #[test]
    fn every_day_of_the_years_1_to_9999_has_its_date() {
        let mut days = Timestamp::MIN.0.div_euclid(SECONDS_PER_DAY * MICROS_PER_SECOND);
        for year in 1..=9999_i64 {
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            for month in 1..=12 {
                let length = match month {
                    2 if leap => 29,
                    2 => 28,
                    4 | 6 | 9 | 11 => 30,
                    _ => 31,
                };
                for day in 1..=length {
                    assert_eq!(civil_from_days(days), (year, month, day));
                    days += 1;
                }
            }
        }
        assert_eq!(days * SECONDS_PER_DAY * MICROS_PER_SECOND, Timestamp::MAX.0 + 1);
    }

    // The text form is digested; a digit more or less is another digest.
    #[test]
    fn timestamps_print_rfc_3339_in_utc_with_six_digits() {
        let text = |micros| Timestamp::from_micros(micros).unwrap().to_string();
        assert_eq!(text(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(text(-1), "1969-12-31T23:59:59.999999Z");
        assert_eq!(text(951_782_400_000_001), "2000-02-29T00:00:00.000001Z");
        assert_eq!(text(1_767_225_599_123_456), "2025-12-31T23:59:59.123456Z");
        assert_eq!(Timestamp::MIN.to_string(), "0001-01-01T00:00:00.000000Z");
        assert_eq!(Timestamp::MAX.to_string(), "9999-12-31T23:59:59.999999Z");
    }

    // A deadline computed from a hostile span must not wrap into the past.
    #[test]
    fn arithmetic_stays_in_range() {
        assert_eq!(Timestamp::MAX.checked_add(Span::from_micros(1)), None);
        assert_eq!(Timestamp::MIN.checked_sub(Span::from_micros(1)), None);
        assert_eq!(Timestamp::MAX.saturating_add(Span::from_secs(i64::MAX)), Timestamp::MAX);
        assert_eq!(Timestamp::MIN.saturating_sub(Span::from_secs(1)), Timestamp::MIN);
        assert_eq!(Timestamp::from_micros(i64::MAX), None);
        let later = Timestamp::UNIX_EPOCH.checked_add(Span::from_millis(1500)).unwrap();
        assert_eq!(later.since(Timestamp::UNIX_EPOCH), Span::from_micros(1_500_000));
        assert_eq!(Timestamp::UNIX_EPOCH.since(later).to_string(), "-1.500000s");
        assert_eq!(Span::from_micros(i64::MIN).to_string(), "-9223372036854.775808s");
        assert_eq!(Span::from_secs(1).checked_add(Span::from_micros(i64::MAX)), None);
    }
}
