//! The principals file: who may call, as what, proved by which token.
//!
//! What lives here: the file's form, its checks, tokens, and adding an entry. What does not:
//! reading a credential from a call (`service/auth.rs`). Invariants: the file holds no token, only
//! its SHA-256; a file with any problem is refused as a whole, with all its problems; an entry that
//! is added leaves every byte before it as it was, and a crash leaves the old file or the new one.

mod append;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::{self, Write as _};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::broker::{Directory, Principal};
use crate::core::Caller;
use crate::core::id::{Capability, Namespace, PrincipalId};
use crate::core::task::Party;

pub use append::append_principal;

/// What every token begins with, so that one is recognised where it should not be.
const TOKEN_PREFIX: &str = "baton_";
/// Random bytes of a token: beyond guessing, which is why a hash without salt is enough.
const TOKEN_BYTES: usize = 32;
/// Bytes of a principals file; some tens of thousands of entries.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Bytes of an account's name.
const ACCOUNT_BYTES_MAX: usize = 256;
/// Names that the broker itself acts under.
const RESERVED: &[&str] = &["baton:", "gateway:"];

/// True if the broker itself acts under such names, so that no caller may.
#[must_use]
pub fn is_reserved(id: &PrincipalId) -> bool {
    RESERVED.iter().any(|prefix| id.as_str().starts_with(prefix))
}

/// One `[[principal]]` of the file, as it is written.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Identity, for example `agent:writer`.
    pub id: String,
    /// The namespace that it lives in; `default` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The account that it belongs to; its id if left out. A verifier of the same account as the
    /// executor is not independent of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// `operator`, or nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// What it may declare as agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// SHA-256 of its token, 64 hexadecimal digits.
    pub token_sha256: String,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    principal: Vec<Entry>,
}

/// Why the principals cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PrincipalsError {
    /// The file cannot be read or written.
    #[error("principals file {}: {problem}: {cause}; {remedy}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What was tried.
        problem: &'static str,
        /// Why it failed.
        cause: std::io::Error,
        /// What to do.
        remedy: &'static str,
    },
    /// It is no TOML of this form; the detail names line and key.
    #[error("principals file {}: {detail}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// Where and what.
        detail: String,
    },
    /// Entries are wrong; all of them are listed.
    #[error("principals file {}:{}", path.display(), lines(problems))]
    Entries {
        /// The file.
        path: PathBuf,
        /// All problems.
        problems: Vec<Problem>,
    },
    /// The machine gave no random bytes.
    #[error("no random bytes for a token: {0}; try again")]
    Random(String),
}

/// One thing that is wrong with one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Which entry: its id and its place, counted from 1.
    pub principal: String,
    /// Its key.
    pub key: &'static str,
    /// What is wrong, with the value, and the remedy.
    pub problem: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.principal, self.key, self.problem)
    }
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().fold(String::new(), |mut text, problem| {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  {problem}");
        text
    })
}

/// The principals of a checked file.
pub struct Principals {
    callers: Vec<Caller>,
    by_token: HashMap<[u8; 32], usize>,
    warnings: Vec<String>,
}

/// Says how many, and nothing of them.
impl fmt::Debug for Principals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Principals").field("count", &self.callers.len()).finish_non_exhaustive()
    }
}

impl Principals {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// The file cannot be read, is of another form, names nobody, or has wrong entries; all of them
    /// are named.
    pub fn load(path: &Path) -> Result<Self, PrincipalsError> {
        let document = parse(path, &read(path)?)?;
        let mut principals = check(path, &document.principal)?;
        if principals.callers.is_empty() {
            let detail =
                "it names nobody, so nobody could call; add one with `baton token new`".to_owned();
            return Err(PrincipalsError::Form { path: path.to_owned(), detail });
        }
        principals.warnings.extend(open_to_others(path));
        Ok(principals)
    }

    /// What the operator should know, though the file can be used.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Who is known in which namespace.
    #[must_use]
    pub fn directory(&self) -> Directory {
        Directory::of(self.callers.iter().map(|caller| {
            let principal = Principal {
                id: caller.party.principal.clone(),
                account: caller.party.account.clone(),
                operator: caller.operator,
                capabilities: caller.capabilities.clone(),
            };
            (caller.namespace.clone(), principal)
        }))
    }

    /// Who holds `token`. It is looked up by its digest, so that the time of the answer tells
    /// nothing of a token that is nearly right; what has not the form of a token is nobody's.
    #[must_use]
    pub fn authenticate(&self, token: &str) -> Option<Caller> {
        let digits = token.strip_prefix(TOKEN_PREFIX)?;
        if digits.len() != 2 * TOKEN_BYTES || unhex(digits).is_none() {
            return None;
        }
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        self.by_token.get(&digest).and_then(|at| self.callers.get(*at)).cloned()
    }
}

/// A new token, to be shown once, and its SHA-256, to be kept.
///
/// # Errors
/// The machine gave no random bytes.
pub fn new_token() -> Result<(String, String), PrincipalsError> {
    let mut bytes = [0_u8; TOKEN_BYTES];
    getrandom::fill(&mut bytes).map_err(|e| PrincipalsError::Random(e.to_string()))?;
    let token = format!("{TOKEN_PREFIX}{}", hex(&bytes));
    let digest = hex(&Sha256::digest(token.as_bytes()));
    Ok((token, digest))
}

fn read(path: &Path) -> Result<String, PrincipalsError> {
    let failed = |cause| PrincipalsError::File {
        path: path.to_owned(),
        problem: "cannot be read",
        cause,
        remedy: "check the path and its rights, or make the file with `baton token new`",
    };
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        let detail = format!("it has more than {FILE_BYTES_MAX} bytes; remove entries");
        return Err(PrincipalsError::Form { path: path.to_owned(), detail });
    }
    Ok(text)
}

fn parse(path: &Path, text: &str) -> Result<Document, PrincipalsError> {
    toml::from_str(text).map_err(|e| {
        // The error's own text repeats the line, and somebody may have put a token there.
        let start = e.span().map_or(0, |span| span.start);
        let line = text.get(..start).map_or(0, |before| before.matches('\n').count()) + 1;
        let detail = format!("line {line}: {}; correct the entry", e.message());
        PrincipalsError::Form { path: path.to_owned(), detail }
    })
}

fn check(path: &Path, entries: &[Entry]) -> Result<Principals, PrincipalsError> {
    let mut problems = Vec::new();
    let (mut callers, mut by_token) = (Vec::new(), HashMap::new());
    let mut names = HashSet::new();
    for (at, entry) in entries.iter().enumerate() {
        let mut found = Findings {
            principal: format!("{:?} (entry {})", entry.id, at + 1),
            problems: &mut problems,
        };
        let caller = check_entry(entry, &mut found);
        let digest = unhex(&entry.token_sha256).and_then(|bytes| bytes.try_into().ok());
        let Some(digest): Option<[u8; 32]> = digest else {
            found.add(
                "token_sha256",
                "it is not 64 hexadecimal digits; `baton token new` prints them",
            );
            continue;
        };
        if by_token.insert(digest, callers.len()).is_some() {
            found.add(
                "token_sha256",
                "another principal has the same; give each a token of its own",
            );
        }
        let Some(caller) = caller else { continue };
        if !names.insert((caller.namespace.clone(), caller.party.principal.clone())) {
            let namespace = &caller.namespace;
            found
                .add("id", format!("it stands twice in namespace `{namespace}`; remove one entry"));
        }
        callers.push(caller);
    }
    if problems.is_empty() {
        Ok(Principals { callers, by_token, warnings: Vec::new() })
    } else {
        Err(PrincipalsError::Entries { path: path.to_owned(), problems })
    }
}

/// Where the problems of one entry go.
struct Findings<'a> {
    principal: String,
    problems: &'a mut Vec<Problem>,
}

impl Findings<'_> {
    fn add(&mut self, key: &'static str, problem: impl ToString) {
        let (principal, problem) = (self.principal.clone(), problem.to_string());
        self.problems.push(Problem { principal, key, problem });
    }

    fn keep<T>(&mut self, key: &'static str, result: Result<T, impl ToString>) -> Option<T> {
        result.map_err(|e| self.add(key, e)).ok()
    }
}

fn check_entry(entry: &Entry, found: &mut Findings<'_>) -> Option<Caller> {
    let principal = found.keep("id", PrincipalId::parse(&entry.id));
    if principal.as_ref().is_some_and(is_reserved) {
        found.add(
            "id",
            "names that begin with `baton:` or `gateway:` are the broker's; take another",
        );
    }
    let namespace = entry.namespace.as_deref().unwrap_or("default");
    let namespace = found.keep("namespace", Namespace::parse(namespace));
    let account = entry.account.as_deref().unwrap_or(&entry.id);
    // One that is left out is the id, which has been judged.
    let bad = account.is_empty() || account.chars().any(char::is_control);
    if entry.account.is_some() && (bad || account.len() > ACCOUNT_BYTES_MAX) {
        let problem =
            "it is empty, has control characters or more than 256 bytes; give a short name";
        found.add("account", problem);
    }
    for role in entry.roles.iter().filter(|role| *role != "operator") {
        found.add("roles", format!("{role:?} is not a role; the only one is \"operator\""));
    }
    let mut capabilities = BTreeSet::new();
    for capability in &entry.capabilities {
        if let Some(capability) = found.keep("capabilities", Capability::parse(capability)) {
            capabilities.insert(capability);
        }
    }
    Some(Caller {
        party: Party { principal: principal?, account: account.to_owned() },
        namespace: namespace?,
        operator: entry.roles.iter().any(|role| role == "operator"),
        capabilities,
    })
}

/// A warning if others than the owner may read or write the file.
#[cfg(unix)]
fn open_to_others(path: &Path) -> Option<String> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then(|| {
        let path = path.display();
        format!("principals file {path} is open to others (mode {mode:04o}); run `chmod 600` on it")
    })
}

#[cfg(not(unix))]
fn open_to_others(_: &Path) -> Option<String> {
    None
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let byte = |at| text.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    (0..text.len()).step_by(2).map(byte).collect()
}

#[cfg(test)]
mod tests;
