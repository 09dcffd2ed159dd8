//! How the configuration sets a broker up.
//!
//! What lives here: from the keys of the configuration to limits of decisions. What does not:
//! reading or checking the configuration. Invariant: a default of the configuration is the default
//! of [`Setup::new`].

use super::{Clock, Setup};
use crate::config::Config;
use crate::core::Limits;
use crate::core::time::Span;

impl Config {
    /// The part of the configuration that the broker needs, by the machine's clock. To be called on
    /// a checked configuration; values out of range are held at its ends.
    #[must_use]
    pub fn setup(&self) -> Setup {
        let count = |value: i64| u32::try_from(value.max(0)).unwrap_or(u32::MAX);
        let limits = Limits {
            lease: Span::from_millis(self.lease_ms),
            claims_max: count(self.claims_max),
            attempts_max: count(self.attempts_max),
            observed_skew: Span::from_secs(self.observed_skew_s),
            offer_ttl: Span::from_secs(self.offer_ttl_s),
            offer_ttl_max: Span::from_secs(self.offer_ttl_max_s),
        };
        Setup { clock: Clock::System, limits, test_mode: self.test_mode }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Two sets of defaults that drift apart make a harness test another broker than the one that
    // runs.
    #[test]
    fn defaults_agree() {
        let (configured, built) = (Config::default().setup(), Setup::new(Clock::System));
        assert_eq!(configured.limits, built.limits);
        assert_eq!(configured.test_mode, built.test_mode);
        let config = Config { lease_ms: 5, test_mode: true, ..Config::default() };
        assert_eq!(config.setup().limits.lease, Span::from_millis(5));
        assert!(config.setup().test_mode);
    }
}
