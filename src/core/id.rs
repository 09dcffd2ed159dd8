//! Identifiers: one newtype per noun, parsed once at the edge.
//!
//! What lives here: the spelling of each identifier. What does not: making new ones (ids are
//! drawn at the edge and passed in) and what an identifier refers to.
//!
//! Invariants: a value that exists is well-formed and in its one spelling, so equality of values
//! is equality of identity; UUIDs are lower-case and hyphenated.

use std::fmt;

/// Longest piece of a refused value that an error repeats, in characters.
const ECHO_CHARS_MAX: usize = 64;

/// Why a text is not an identifier: what is wrong, with which value, and what to send instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {value:?} is not valid: {problem}; {remedy}")]
pub struct IdError {
    kind: &'static str,
    value: String,
    problem: String,
    remedy: &'static str,
}

impl IdError {
    /// The identifier's type, for example `TaskId`.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The refused value, cut after 64 characters.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// What is wrong with it.
    pub fn problem(&self) -> &str {
        &self.problem
    }

    /// What to send instead.
    pub fn remedy(&self) -> &'static str {
        self.remedy
    }

    fn new(kind: &'static str, value: &str, problem: String, remedy: &'static str) -> Self {
        Self { kind, value: echo(value), problem, remedy }
    }
}

/// The beginning of `value`, short enough to be repeated in an error.
pub(super) fn echo(value: &str) -> String {
    match value.char_indices().nth(ECHO_CHARS_MAX) {
        Some((end, _)) => format!("{}...", value.get(..end).unwrap_or_default()),
        None => value.to_owned(),
    }
}

/// The spelling of one kind of identifier.
struct Shape {
    kind: &'static str,
    bytes_max: usize,
    allowed: fn(char) -> bool,
    remedy: &'static str,
}

impl Shape {
    fn check(&self, text: &str) -> Result<String, IdError> {
        let refuse = |problem| Err(IdError::new(self.kind, text, problem, self.remedy));
        if text.is_empty() {
            return refuse("it is empty".to_owned());
        }
        if text.len() > self.bytes_max {
            return refuse(format!(
                "it has {} bytes and at most {} are allowed",
                text.len(),
                self.bytes_max
            ));
        }
        if let Some((at, c)) = text.char_indices().find(|&(_, c)| !(self.allowed)(c)) {
            return refuse(format!("the character {c:?} at byte {at} is not allowed"));
        }
        Ok(text.to_owned())
    }
}

fn parse_uuid(kind: &'static str, text: &str) -> Result<String, IdError> {
    const REMEDY: &str = "send a hyphenated UUID such as 018f4e9a-7b2c-7d3e-8f10-2a3b4c5d6e7f";
    let refuse = |problem: &str| Err(IdError::new(kind, text, problem.to_owned(), REMEDY));
    if text.is_empty() {
        return refuse("it is empty");
    }
    // The length leaves the hyphenated form alone: the braced, URN and bare forms differ in it.
    if text.len() != uuid::fmt::Hyphenated::LENGTH {
        return refuse("it is not 36 characters long");
    }
    match uuid::Uuid::parse_str(text) {
        Ok(uuid) => Ok(uuid.hyphenated().to_string()),
        Err(_) => refuse("it is not a hyphenated UUID"),
    }
}

fn is_token_char(c: char) -> bool {
    c.is_ascii_graphic() && c != '"' && c != '\\'
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

fn is_lower_name_char(c: char) -> bool {
    is_name_char(c) && !c.is_ascii_uppercase()
}

fn is_text_char(c: char) -> bool {
    !c.is_control()
}

const TOKEN_REMEDY: &str = "send 1 to 256 visible ASCII characters without spaces, quotation \
                            marks and backslashes";

/// Defines identifiers: `Name: "doc" => parse function body over `text`.
macro_rules! ids {
    ($($(#[$doc:meta])+ $name:ident = |$text:ident| $parse:expr;)+) => {$(
        $(#[$doc])+
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Reads the identifier; the error names what is wrong and what to send instead.
            pub fn parse($text: &str) -> Result<Self, IdError> {
                $parse.map(Self)
            }

            /// The identifier in its one spelling.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )+};
}

const fn token(kind: &'static str) -> Shape {
    Shape { kind, bytes_max: 256, allowed: is_token_char, remedy: TOKEN_REMEDY }
}

ids! {
    /// One piece of work; never changes. A UUID of any version; upper case is read, lower kept.
    TaskId = |text| parse_uuid("TaskId", text);
    /// One offer of control, from offer to its terminal state. A UUID.
    HandoffId = |text| parse_uuid("HandoffId", text);
    /// The caller's name for one mutating request. A UUID.
    RequestId = |text| parse_uuid("RequestId", text);

    /// The authenticated caller, for example `agent:writer`, `local:anonymous` or
    /// `baton:readback`: 1 to 256 visible ASCII characters without space, `"` and `\`.
    PrincipalId = |text| token("PrincipalId").check(text);
    /// The tenant boundary around principals and tasks: 1 to 64 of `[a-z0-9._-]`.
    Namespace = |text| Shape {
        kind: "Namespace",
        bytes_max: 64,
        allowed: is_lower_name_char,
        remedy: "send 1 to 64 lower-case letters, digits, dots, underscores and hyphens",
    }.check(text);
    /// One process of a principal. A token of 1 to 256 characters.
    InstanceId = |text| token("InstanceId").check(text);
    /// One artifact within its task. A token of 1 to 256 characters.
    ArtifactId = |text| token("ArtifactId").check(text);
    /// One authoritative input: 1 to 1024 bytes of any text without control characters.
    EntityId = |text| Shape {
        kind: "EntityId",
        bytes_max: 1024,
        allowed: is_text_char,
        remedy: "send 1 to 1024 bytes of UTF-8 text without control characters",
    }.check(text);
    /// One frozen resume point. A token of 1 to 256 characters.
    CheckpointId = |text| token("CheckpointId").check(text);
    /// One group of tasks. A token of 1 to 256 characters.
    ContextId = |text| token("ContextId").check(text);
    /// One execution attempt inside a task. A token of 1 to 256 characters.
    RunId = |text| token("RunId").check(text);
    /// What an agent declares that it can do: 1 to 128 of `[A-Za-z0-9._-]`.
    Capability = |text| Shape {
        kind: "Capability",
        bytes_max: 128,
        allowed: is_name_char,
        remedy: "send 1 to 128 letters, digits, dots, underscores and hyphens",
    }.check(text);
    /// The version of an artifact, an entity or a contract: 1 to 256 bytes of any text without
    /// control characters; compared as it is, never ordered by meaning.
    VersionLabel = |text| Shape {
        kind: "VersionLabel",
        bytes_max: 256,
        allowed: is_text_char,
        remedy: "send 1 to 256 bytes of UTF-8 text without control characters",
    }.check(text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // Two spellings of one task id would be two tasks, and a retry would start the work twice.
    #[test]
    fn a_uuid_has_one_spelling() {
        let upper = TaskId::parse("018F4E9A-7B2C-7D3E-8F10-2A3B4C5D6E7F").unwrap();
        let lower = TaskId::parse("018f4e9a-7b2c-7d3e-8f10-2a3b4c5d6e7f").unwrap();
        assert_eq!(upper, lower);
        assert_eq!(upper.as_str(), "018f4e9a-7b2c-7d3e-8f10-2a3b4c5d6e7f");
        for other in [
            "",
            "018f4e9a7b2c7d3e8f102a3b4c5d6e7f",
            "{018f4e9a-7b2c-7d3e-8f10-2a3b4c5d6e7f}",
            "urn:uuid:018f4e9a-7b2c-7d3e-8f10-2a3b4c5d6e7f",
            "018f4e9a-7b2c-7d3e-8f10-2a3b4c5d6e7g",
            "018f4e9a-7b2c7d3e-8f10--2a3b4c5d6e7f",
        ] {
            assert!(TaskId::parse(other).is_err(), "{other}");
        }
    }

    // An identifier with a space or a quotation mark breaks logs, keys and metadata downstream.
    #[test]
    fn tokens_refuse_what_is_not_visible_ascii() {
        for good in ["agent:writer", "local:anonymous", "baton:readback", "a/b@c", "~"] {
            assert_eq!(PrincipalId::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", "a b", "a\n", "a\"b", "a\\b", "\u{e4}", "a\u{7f}"] {
            assert!(PrincipalId::parse(bad).is_err(), "{bad:?}");
        }
        assert!(PrincipalId::parse(&"x".repeat(256)).is_ok());
        assert!(PrincipalId::parse(&"x".repeat(257)).is_err());
        assert!(Namespace::parse("team-1.prod_eu").is_ok());
        assert!(Namespace::parse("Team").is_err());
        assert!(Namespace::parse(&"n".repeat(65)).is_err());
        assert!(Capability::parse("Summarise.v2").is_ok());
        assert!(Capability::parse("capability:x").is_err());
    }

    // Sources are named in the users' own words; refusing those would lose the source.
    #[test]
    fn entities_and_versions_take_any_text_without_controls() {
        assert!(EntityId::parse("Vertrag \u{2116} 7, \u{1f4c4}").is_ok());
        assert!(EntityId::parse("a\u{0}").is_err());
        assert!(EntityId::parse("a\u{85}").is_err());
        assert!(EntityId::parse(&"\u{e4}".repeat(512)).is_ok());
        assert!(EntityId::parse(&"\u{e4}".repeat(513)).is_err());
        assert!(VersionLabel::parse("2026-01-01 (final)").is_ok());
        assert!(VersionLabel::parse("").is_err());
    }

    // A caller that cannot see what is wrong sends the same thing again.
    #[test]
    fn an_error_names_problem_value_and_remedy_and_stays_short() {
        let error = Namespace::parse(&"\u{e4}".repeat(5000)).unwrap_err();
        assert_eq!(error.kind(), "Namespace");
        assert_eq!(error.value().chars().count(), 64 + 3);
        let text = error.to_string();
        assert!(text.contains("10000 bytes") && text.contains("send 1 to 64"), "{text}");
        assert!(text.len() < 400);
        let text = PrincipalId::parse("a b").unwrap_err().to_string();
        assert!(text.contains("' ' at byte 1"), "{text}");
    }

    proptest! {
        // Whatever is accepted must read back as itself, else a stored key is lost.
        #[test]
        fn what_is_accepted_reads_back(text in ".{0,40}") {
            if let Ok(id) = EntityId::parse(&text) {
                prop_assert_eq!(EntityId::parse(id.as_str()).unwrap(), id);
            }
            if let Ok(id) = PrincipalId::parse(&text) {
                prop_assert_eq!(id.as_str(), text);
            }
        }
    }
}
