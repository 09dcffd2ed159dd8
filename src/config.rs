//! The configuration: one struct, where each value comes from, and whether they fit together.
//!
//! What lives here: keys, defaults with their reasons and layers; what fits together is in `check`.
//! What does not: opening or binding anything; rooms are given their own small part. Invariants: a
//! flag wins over the environment (`BATON_<KEY>`), that over the file, that over the default;
//! unknown keys are refused; all problems are told at once. No value here is a secret; the
//! principals file holds those.

mod check;

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
            // Each takes up to 120 KiB and one wake-up an event.
            streams_max: 4096,
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
        let values = table(&self.config).unwrap_or_default();
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
        let flags = table(overrides).unwrap_or_else(|problem| {
            problems.push(problem);
            toml::Table::new()
        });
        let mut merged = toml::Table::new();
        let mut origins = BTreeMap::new();
        for (layer, origin) in
            [(file, Origin::File), (variables, Origin::Environment), (flags, Origin::Flag)]
        {
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
}

/// A layer as a table.
fn table(layer: &impl Serialize) -> Result<toml::Table, String> {
    // Texts, numbers and switches have a form in TOML; a path may be no text.
    toml::Table::try_from(layer).map_err(|e| format!("a value has no form: {e}; give UTF-8 paths"))
}

/// The file's keys. Read by itself first, so that an error names its line.
fn read(path: &Path) -> Result<toml::Table, String> {
    let shown = path.display();
    let file = std::fs::File::open(path)
        .map_err(|e| format!("{shown} cannot be read: {e}; check the path and its rights"))?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .map_err(|e| format!("{shown} cannot be read: {e}; write it in UTF-8"))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("{shown} has more than {FILE_BYTES_MAX} bytes; is it the right file?"));
    }
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
