//! The configuration: one struct, where each value comes from, and whether they fit together.
//!
//! What lives here: keys, defaults with their reasons, layers and checks. What does not: opening or
//! binding anything; rooms are given their own small part. Invariants: a flag wins over the
//! environment (`BATON_<KEY>`), that over the file, that over the default; unknown keys are
//! refused; all problems are told at once. No value here is a secret; the principals file holds
//! those.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Bytes of a configuration file; one with every key has less than one thousand.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// The name of an environment variable begins so; the key in upper case follows.
const VARIABLE_PREFIX: &str = "BATON_";

/// Everything that can be set, parsed. Paths are relative to the folder that the broker starts in.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Address and port to listen on; port 0 takes a free one.
    pub listen: String,
    /// Folder of the store; made if it is not there.
    pub data_dir: PathBuf,
    /// Who may call. Without it there is no authentication, and only this machine is listened to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principals_file: Option<PathBuf>,
    /// Listen to other machines although there is no authentication.
    pub allow_unprotected_bind: bool,
    /// How long a claim holds without renewal, in milliseconds.
    pub lease_ms: i64,
    /// How long an offer stands if it does not say, in seconds.
    pub offer_ttl_s: i64,
    /// How long an offer may stand, in seconds.
    pub offer_ttl_max_s: i64,
    /// How many claims one offer may have.
    pub claims_max: i64,
    /// How many receipts of one offer may differ before it ends.
    pub attempts_max: i64,
    /// How far a receiver's clock may be off, in seconds.
    pub observed_skew_s: i64,
    /// Memory for the store's cache, in MiB.
    pub cache_mib: i64,
    /// Size of one message that is received, in bytes.
    pub message_bytes_max: i64,
    /// Streams that may be open at the same time, for all callers together.
    pub streams_max: i64,
    /// A store that keeps nothing may hold work that needs a durable one. For tests.
    pub test_mode: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            // Only this machine: without a principals file everybody who reaches the port is
            // anybody.
            listen: "127.0.0.1:7717".to_owned(),
            // Beside where the broker was started, so that a first try leaves nothing elsewhere.
            data_dir: PathBuf::from("./baton-data"),
            principals_file: None,
            allow_unprotected_bind: false,
            // Long enough for a pause of a live agent, short enough that a dead one is noticed.
            lease_ms: 30_000,
            // A first offer that nobody takes ends while its client still waits.
            offer_ttl_s: 15 * 60,
            // An offer to a person may stand over a week-end; a forgotten one ends.
            offer_ttl_max_s: 7 * 24 * 3600,
            // A receiver that crashes again and again does not keep an offer open without end.
            claims_max: 16,
            // Honest mistakes are few; guessing takes many.
            attempts_max: 5,
            // Machines with time synchronisation are far closer; containers after a pause are not.
            observed_skew_s: 300,
            // The working set of some ten thousand open tasks, on a small machine.
            cache_mib: 64,
            // What gRPC clients expect; what is larger is stored elsewhere and referred to.
            message_bytes_max: 4 * 1024 * 1024,
            // Each takes some KiB and one wake-up an event.
            streams_max: 1024,
            test_mode: false,
        }
    }
}

/// What flags have set.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(default)]
#[allow(missing_docs)] // the keys of `Config`, documented there
pub struct Overrides {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_dir: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principals_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_unprotected_bind: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offer_ttl_s: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offer_ttl_max_s: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claims_max: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts_max: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_skew_s: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_mib: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_bytes_max: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams_max: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_mode: Option<bool>,
}

/// What kind of value a key takes, which an environment variable does not show.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Whole,
    Switch,
}

/// Every key, in the order in which they are shown.
const KEYS: &[(&str, Kind)] = &[
    ("listen", Kind::Text),
    ("data_dir", Kind::Text),
    ("principals_file", Kind::Text),
    ("allow_unprotected_bind", Kind::Switch),
    ("lease_ms", Kind::Whole),
    ("offer_ttl_s", Kind::Whole),
    ("offer_ttl_max_s", Kind::Whole),
    ("claims_max", Kind::Whole),
    ("attempts_max", Kind::Whole),
    ("observed_skew_s", Kind::Whole),
    ("cache_mib", Kind::Whole),
    ("message_bytes_max", Kind::Whole),
    ("streams_max", Kind::Whole),
    ("test_mode", Kind::Switch),
];

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// The configuration file.
    File,
    /// A variable of the environment.
    Environment,
    /// A flag of the command line.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::File => "file",
            Self::Environment => "environment",
            Self::Flag => "flag",
        })
    }
}

/// One value in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its key.
    pub key: &'static str,
    /// Its value as it would stand in the file; `(none)` if there is none.
    pub value: String,
    /// Where it comes from.
    pub origin: Origin,
}

/// What is wrong with the configuration: all of it, each with key, value and remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the configuration is not usable:\n  {}", problems.join("\n  "))]
pub struct ConfigError {
    /// The problems.
    pub problems: Vec<String>,
}

/// A configuration and where its values come from. Not yet checked: see [`Config::check`].
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The values.
    pub config: Config,
    origins: BTreeMap<String, Origin>,
}

impl Loaded {
    /// Every key with value and origin.
    #[must_use]
    pub fn effective(&self) -> Vec<Setting> {
        let values = table(&self.config);
        let setting = |(key, _): &(&'static str, Kind)| Setting {
            key,
            value: values.get(*key).map_or_else(|| "(none)".to_owned(), ToString::to_string),
            origin: self.origins.get(*key).copied().unwrap_or(Origin::Default),
        };
        KEYS.iter().map(setting).collect()
    }
}

impl Config {
    /// Puts defaults, the file, the environment and flags on top of each other.
    ///
    /// # Errors
    /// The file or a variable cannot be read; all problems are named.
    pub fn load(path: Option<&Path>, overrides: &Overrides) -> Result<Loaded, ConfigError> {
        Self::load_from(path, &|name| std::env::var_os(name), overrides)
    }

    /// The same with an environment of the caller's.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn load_from(
        path: Option<&Path>,
        environment: &dyn Fn(&str) -> Option<std::ffi::OsString>,
        overrides: &Overrides,
    ) -> Result<Loaded, ConfigError> {
        let mut problems = Vec::new();
        let file = path.map_or_else(|| Ok(toml::Table::new()), read);
        let file = file.unwrap_or_else(|problem| {
            problems.push(problem);
            toml::Table::new()
        });
        let variables = variables(environment, &mut problems);
        let mut merged = toml::Table::new();
        let mut origins = BTreeMap::new();
        for (layer, origin) in [
            (file, Origin::File),
            (variables, Origin::Environment),
            (table(overrides), Origin::Flag),
        ] {
            for (key, value) in layer {
                origins.insert(key.clone(), origin);
                merged.insert(key, value);
            }
        }
        match merged.try_into() {
            Ok(config) if problems.is_empty() => Ok(Loaded { config, origins }),
            Ok(_) => Err(ConfigError { problems }),
            Err(e) => {
                problems.push(e.to_string());
                Err(ConfigError { problems })
            }
        }
    }

    /// The address to listen on. `localhost` is taken for 127.0.0.1; other names are not looked up.
    ///
    /// # Errors
    /// It is no address.
    pub fn listen_addr(&self) -> Result<SocketAddr, String> {
        let spelt = match self.listen.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}"),
            None => self.listen.clone(),
        };
        spelt.parse().map_err(|_| {
            let listen = &self.listen;
            format!("listen = {listen:?} is no address; give IP and port such as 127.0.0.1:7717")
        })
    }

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
            ("message_bytes_max", self.message_bytes_max, 64 * 1024, 64 * 1024 * 1024),
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

/// A layer as a table. A struct of texts, numbers and switches always has one, unless a path is not
/// UTF-8; such a path stays out and the default shows in the effective values.
fn table(layer: &impl Serialize) -> toml::Table {
    toml::Table::try_from(layer).unwrap_or_default()
}

/// The file's keys. Read by itself first, so that an error names its line.
fn read(path: &Path) -> Result<toml::Table, String> {
    let shown = path.display();
    let file = std::fs::File::open(path)
        .map_err(|e| format!("{shown} cannot be read: {e}; check the path and its rights"))?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(|e| format!("{shown} cannot be read: {e}; write it in UTF-8"))?;
    let wrong = |e: toml::de::Error| format!("{shown}: {}", e.to_string().trim_end());
    toml::from_str::<Config>(&text).map_err(wrong)?;
    toml::from_str(&text).map_err(wrong)
}

/// The environment's keys. A variable that is empty counts as not set.
fn variables(
    environment: &dyn Fn(&str) -> Option<std::ffi::OsString>,
    problems: &mut Vec<String>,
) -> toml::Table {
    let mut layer = toml::Table::new();
    for (key, kind) in KEYS {
        let name = format!("{VARIABLE_PREFIX}{}", key.to_ascii_uppercase());
        let Some(raw) = environment(&name).filter(|raw| !raw.is_empty()) else {
            continue;
        };
        let text = raw.to_str();
        let value = match kind {
            Kind::Text => text.map(|t| toml::Value::String(t.to_owned())),
            Kind::Whole => text.and_then(|t| t.parse().ok()).map(toml::Value::Integer),
            Kind::Switch => text.and_then(|t| t.parse().ok()).map(toml::Value::Boolean),
        };
        let wanted = match kind {
            Kind::Text => "text in UTF-8",
            Kind::Whole => "a whole number",
            Kind::Switch => "true or false",
        };
        match value {
            Some(value) => {
                layer.insert((*key).to_owned(), value);
            }
            None => problems.push(format!("{name} = {raw:?} is not usable; give {wanted}")),
        }
    }
    layer
}

#[cfg(test)]
mod tests;
