//! Whether the values of a configuration make sense, each and together.
//!
//! What lives here: ranges, contradictions, and what is allowed but worth a warning. What does not:
//! where a value comes from. Invariants: all problems are told at once, each with key, value and
//! remedy; nothing is opened or bound, so a folder may still be missing.

use super::{Config, ConfigError, KEYS, VARIABLE_PREFIX};

impl Config {
    /// Checks every value and how they fit together. Opens and binds nothing.
    ///
    /// # Errors
    /// All problems.
    pub fn check(&self) -> Result<(), ConfigError> {
        let mut problems = self.out_of_range();
        match self.listen_addr() {
            Err(problem) => problems.push(problem),
            Ok(address) => {
                let protected = self.principals_file.is_some() || self.allow_unprotected_bind;
                if !address.ip().is_loopback() && !protected {
                    problems.push(format!(
                        "listen = {:?} is reachable from other machines and there is no \
                         authentication; set principals_file, or listen on 127.0.0.1, or set \
                         allow_unprotected_bind = true if the network keeps strangers out",
                        self.listen
                    ));
                }
            }
        }
        if self.data_dir.as_os_str().is_empty() {
            problems.push("data_dir is empty; name a folder such as ./baton-data".to_owned());
        }
        if self.principals_file.as_ref().is_some_and(|path| path.as_os_str().is_empty()) {
            problems.push("principals_file is empty; name a file or leave the key out".to_owned());
        }
        let (ttl, max) = (self.offer_ttl_s, self.offer_ttl_max_s);
        if ttl > max {
            problems.push(format!(
                "offer_ttl_s = {ttl} is above offer_ttl_max_s = {max}; raise the second or lower \
                 the first"
            ));
        }
        if self.lease_ms > ttl.saturating_mul(1000) {
            problems.push(format!(
                "lease_ms = {} is longer than an offer stands (offer_ttl_s = {ttl}); lower it",
                self.lease_ms
            ));
        }
        if problems.is_empty() { Ok(()) } else { Err(ConfigError { problems }) }
    }

    /// What the operator should know, though the configuration can be used.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        for name in names.filter(|name| is_misspelt(name)) {
            warnings.push(format!("the variable {name} is none that the broker reads"));
        }
        let remote = self.listen_addr().is_ok_and(|address| !address.ip().is_loopback());
        if remote && self.principals_file.is_some() {
            warnings.push(format!(
                "tokens travel unencrypted to {}; let a proxy with TLS stand before the broker",
                self.listen
            ));
        } else if remote {
            warnings.push(format!(
                "whoever reaches {} can act as anybody; set principals_file",
                self.listen
            ));
        }
        if self.test_mode {
            warnings.push("test_mode is on: do not keep real work in this broker".to_owned());
        }
        warnings
    }

    fn out_of_range(&self) -> Vec<String> {
        const DAY_S: i64 = 24 * 3600;
        // Key, value, least, most. The upper ends keep sums of times and sizes far from overflow.
        let ranges = [
            ("lease_ms", self.lease_ms, 100, DAY_S * 1000),
            ("offer_ttl_s", self.offer_ttl_s, 1, 366 * DAY_S),
            ("offer_ttl_max_s", self.offer_ttl_max_s, 1, 366 * DAY_S),
            ("claims_max", self.claims_max, 1, 10_000),
            ("attempts_max", self.attempts_max, 1, 1000),
            ("observed_skew_s", self.observed_skew_s, 0, DAY_S),
            ("cache_mib", self.cache_mib, 1, 1024 * 1024),
            ("message_bytes_max", self.message_bytes_max, 64 * 1024, 8 * 1024 * 1024),
            ("streams_max", self.streams_max, 1, 1_000_000),
        ];
        let outside = ranges.iter().filter(|(_, value, min, max)| value < min || value > max);
        outside
            .map(|(key, value, min, max)| {
                format!("{key} = {value}; give a value of {min} to {max}")
            })
            .collect()
    }
}

/// Variables that other commands read.
const OTHERS: &[&str] = &["LOG", "ADDRESS", "TOKEN", "PRINCIPAL"];

/// True for a variable that looks like a key and is none. What an orchestrator sets for a service
/// of the name `baton` is left alone.
pub(super) fn is_misspelt(name: &str) -> bool {
    let Some(key) = name.strip_prefix(VARIABLE_PREFIX) else { return false };
    let known = KEYS.iter().any(|(known, _)| known.eq_ignore_ascii_case(key));
    let foreign = ["SERVICE_", "PORT"].iter().any(|start| key.starts_with(start));
    !known && !foreign && !OTHERS.contains(&key)
}
