//! Resources: URIs and prefixes of URIs, in one normal form.
//!
//! What lives here: reading, normalising and covering. What does not: fetching anything, or
//! knowing what a scheme means.
//!
//! Invariants: a `Resource` is normalised, so equal text is the same resource; it holds no `..`
//! in any encoding, and `*` stands nowhere but at the end of a prefix.
//!
//! The normal form: scheme and host in lower case; percent-encoded unreserved characters
//! decoded, other percent-encodings with upper-case hex; `/` after a bare host dropped. Nothing
//! else is changed: a port stays as written, also the scheme's default one, and letters of the
//! path keep their case. Empty and `.` segments are refused, not removed, because servers
//! disagree about them.

use std::fmt;

use crate::core::id::echo;

/// Longest resource, in bytes.
pub const RESOURCE_BYTES_MAX: usize = 2048;
/// How many layers of percent-encoding are looked through before a resource is refused.
const DECODINGS_MAX: usize = 5;

/// Why a text is not a resource.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("resource {value:?} is not valid: {problem}; {remedy}")]
pub struct ResourceError {
    value: String,
    problem: &'static str,
    remedy: &'static str,
}

/// What is wrong, and what to send instead.
type Refused = (&'static str, &'static str);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Reach {
    /// The one URI.
    Exact,
    /// Exactly one segment more than the base: ends `/*`.
    Segment,
    /// At least one segment more than the base: ends `/**`.
    Subtree,
}

impl Reach {
    const fn suffix(self) -> &'static str {
        match self {
            Self::Exact => "",
            Self::Segment => "/*",
            Self::Subtree => "/**",
        }
    }
}

/// An exact URI, or a prefix that ends `/*` (exactly one segment more) or `/**` (one or more).
///
/// A prefix speaks of paths alone: a URI with a query or a fragment is covered only by itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    /// Normalised, without the wildcard.
    base: String,
    reach: Reach,
}

impl Resource {
    /// Reads and normalises a URI or a prefix of URIs.
    pub fn parse(text: &str) -> Result<Self, ResourceError> {
        parse(text).map_err(|(problem, remedy)| ResourceError {
            value: echo(text),
            problem,
            remedy,
        })
    }

    /// True if everything that `other` names is named by `self` too.
    pub fn covers(&self, other: &Self) -> bool {
        if self == other {
            return true;
        }
        match (self.reach, other.reach) {
            (Reach::Exact, _) | (Reach::Segment, Reach::Segment | Reach::Subtree) => false,
            (Reach::Segment, Reach::Exact) => {
                self.path_below(other).is_some_and(|path| !path.contains('/'))
            }
            (Reach::Subtree, Reach::Exact) => self.path_below(other).is_some(),
            (Reach::Subtree, Reach::Segment | Reach::Subtree) => {
                self.base == other.base || self.path_below(other).is_some()
            }
        }
    }

    /// What `other`'s base has after this base and a `/`, if that is one segment or more.
    fn path_below<'a>(&self, other: &'a Self) -> Option<&'a str> {
        let path = other.base.strip_prefix(self.base.as_str())?.strip_prefix('/')?;
        // A leading `/` is met where the base is a bare scheme and the other has an authority.
        let below = !path.is_empty() && !path.starts_with('/') && !path.contains(['?', '#']);
        below.then_some(path)
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.base)?;
        f.write_str(self.reach.suffix())
    }
}

fn parse(text: &str) -> Result<Resource, Refused> {
    if text.is_empty() {
        return Err(("it is empty", "send a URI such as https://example.org/orders/17"));
    }
    if text.len() > RESOURCE_BYTES_MAX {
        return Err(("it is longer than 2048 bytes", "name a prefix that ends /* or /**"));
    }
    if !text.chars().all(is_uri_char) {
        return Err(("it has a character that no URI has", "percent-encode it as UTF-8"));
    }
    let Some((scheme, rest)) = text.split_once(':').filter(|(scheme, _)| is_scheme(scheme)) else {
        return Err(("it has no scheme", "begin with a scheme, for example https:// or urn:"));
    };
    let (authority, rest) = split_authority(rest);
    let path_end = rest.find(['?', '#']).unwrap_or(rest.len());
    let (path, tail) = rest.split_at(path_end);
    let (path, reach) = if let Some(path) = path.strip_suffix("/**") {
        (path, Reach::Subtree)
    } else if let Some(path) = path.strip_suffix("/*") {
        (path, Reach::Segment)
    } else {
        (path, Reach::Exact)
    };
    if path.contains('*') || tail.contains('*') || authority.is_some_and(|a| a.contains('*')) {
        return Err((
            "it has a wildcard elsewhere than at the end of its path",
            "end it with /* (one segment) or /** (any depth), and write a literal * as %2A",
        ));
    }
    if reach != Reach::Exact && !tail.is_empty() {
        return Err(("it is a prefix with a query or fragment", "leave the query out"));
    }

    let path = normal_percent(path)?;
    let tail = normal_percent(tail)?;
    refuse_dots(&path, &tail)?;
    let mut base = format!("{}:", scheme.to_ascii_lowercase());
    if let Some(authority) = authority {
        base.push_str("//");
        base.push_str(&normal_authority(authority)?);
    }
    // A bare host and a host with `/` are one resource; a prefix has dropped that `/` already.
    let bare = authority.is_some() && reach == Reach::Exact && path == "/";
    let path = if bare { "" } else { path.as_str() };
    check_segments(authority.is_some(), path, reach, &tail)?;
    base.push_str(path);
    base.push_str(&tail);
    Ok(Resource { base, reach })
}

/// RFC 3986: unreserved, reserved and `%`.
fn is_uri_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-._~:/?#[]@!$&'()*+,;=%".contains(c)
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

/// The authority, if there is one, and what follows it.
fn split_authority(rest: &str) -> (Option<&str>, &str) {
    match rest.strip_prefix("//") {
        Some(rest) => {
            let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            let (authority, rest) = rest.split_at(end);
            (Some(authority), rest)
        }
        None => (None, rest),
    }
}

/// The host in lower case; user information before the last `@` keeps its case.
fn normal_authority(authority: &str) -> Result<String, Refused> {
    let host_at = authority.rfind('@').map_or(0, |at| at + 1);
    let (user, host) = authority.split_at(host_at);
    let mut normal = normal_percent(user)?;
    // Lower-casing comes between two passes, because decoding may give letters and the hex
    // digits are upper-case again after the second pass.
    normal.push_str(&normal_percent(&normal_percent(host)?.to_ascii_lowercase())?);
    // A dot segment cannot stand in a host, but a reader that decodes late may see one there.
    if has_dot_dot(&normal) {
        return Err(DOT_DOT);
    }
    Ok(normal)
}

/// Decodes percent-encoded unreserved characters and upper-cases the hex of the others.
fn normal_percent(text: &str) -> Result<String, Refused> {
    let mut out = String::with_capacity(text.len());
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        let (plain, encoded) = rest.split_at(at);
        let triplet = encoded.get(..3);
        let Some(byte) = triplet.and_then(decode_triplet) else {
            return Err(("it has a % without two hex digits", "write a literal % as %25"));
        };
        if byte.is_ascii_control() {
            return Err(("it has an encoded control character", "name it without one"));
        }
        out.push_str(plain);
        decoded.extend_from_slice(plain.as_bytes());
        decoded.push(byte);
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push_str(&triplet.unwrap_or_default().to_ascii_uppercase());
        }
        rest = encoded.get(3..).unwrap_or_default();
    }
    out.push_str(rest);
    decoded.extend_from_slice(rest.as_bytes());
    // Overlong forms such as %C0%AE are not UTF-8; lenient readers take that one for a dot.
    if std::str::from_utf8(&decoded).is_err() {
        return Err(("its percent-encoding is not UTF-8", "percent-encode the text's UTF-8 bytes"));
    }
    Ok(out)
}

fn decode_triplet(triplet: &str) -> Option<u8> {
    let hex = triplet.strip_prefix('%')?;
    // `from_str_radix` would take a sign for a digit.
    let all_hex = hex.bytes().all(|b| b.is_ascii_hexdigit());
    if all_hex { u8::from_str_radix(hex, 16).ok() } else { None }
}

const DOT_DOT: Refused =
    ("it has a .. segment, plain or encoded", "write the path that is meant, without ..");

fn refuse_dots(path: &str, tail: &str) -> Result<(), Refused> {
    if has_dot_dot(path) || has_dot_dot(tail) {
        return Err(DOT_DOT);
    }
    Ok(())
}

/// True if some reader may see a `..` segment in `text`, however often it decodes, and whichever
/// of the usual separators it splits at.
fn has_dot_dot(text: &str) -> bool {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..DECODINGS_MAX {
        let separators = b"/\\;?#&=";
        if bytes.split(|b| separators.contains(b)).any(|piece| piece == b"..") {
            return true;
        }
        let decoded = decode_once(&bytes);
        // A pass that decodes something makes the text shorter.
        if decoded.len() == bytes.len() {
            return false;
        }
        bytes = decoded;
    }
    // Nobody encodes this often to name something; unbounded passes would cost quadratic time.
    true
}

/// Decodes every percent-encoding once; a `%` that begins none stays.
fn decode_once(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&first, after)) = rest.split_first() {
        let triplet = rest.get(..3).and_then(|t| std::str::from_utf8(t).ok());
        match triplet.and_then(decode_triplet) {
            Some(byte) => {
                out.push(byte);
                rest = rest.get(3..).unwrap_or_default();
            }
            None => {
                out.push(first);
                rest = after;
            }
        }
    }
    out
}

fn check_segments(
    has_authority: bool,
    path: &str,
    reach: Reach,
    tail: &str,
) -> Result<(), Refused> {
    if path.is_empty() {
        if has_authority || reach != Reach::Exact || !tail.is_empty() {
            return Ok(());
        }
        return Err(("it names nothing after its scheme", "add what it names, or end it with /**"));
    }
    for segment in path.strip_prefix('/').unwrap_or(path).split('/') {
        if segment.is_empty() {
            return Err(("it has an empty segment", "write single slashes and none at the end"));
        }
        if segment == "." {
            return Err(("it has a . segment", "leave the . segment out"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn resource(text: &str) -> Resource {
        Resource::parse(text).unwrap_or_else(|error| panic!("{error}"))
    }

    // Two spellings of one resource must be one resource, else a grant does not fit its use.
    #[test]
    fn a_resource_has_one_normal_form() {
        for (text, normal) in [
            ("HTTPS://Example.ORG/Orders/17", "https://example.org/Orders/17"),
            ("https://example.org/", "https://example.org"),
            ("https://example.org/%7euser/%41", "https://example.org/~user/A"),
            ("https://example.org/a%2fb%c3%a4", "https://example.org/a%2Fb%C3%A4"),
            ("https://%45xample.org%3a/x", "https://example.org%3A/x"),
            ("ssh://Git@Host:22/x", "ssh://Git@host:22/x"),
            ("http://[2001:DB8::1]:80/**", "http://[2001:db8::1]:80/**"),
            ("URN:isbn:X/*", "urn:isbn:X/*"),
            ("file:///srv/data/**", "file:///srv/data/**"),
            ("https://h/a?q=%7e&r=/x#F", "https://h/a?q=~&r=/x#F"),
            ("https://h/**", "https://h/**"),
            ("https://h/a%2a", "https://h/a%2A"),
        ] {
            assert_eq!(resource(text).to_string(), normal, "{text}");
        }
    }

    // A parent segment lets a holder of one directory reach every other one.
    #[test]
    fn dot_dot_is_refused_in_every_encoding() {
        for text in [
            "https://h/a/../b",
            "https://h/..",
            "https://h/%2e%2e/b",
            "https://h/.%2E/b",
            "https://h/%252e%252e/b",
            "https://h/%25252e./b",
            "https://h/a%2f..%2fb",
            "https://h/a%5c..%5cb",
            "https://h/..;x=1/b",
            "https://h/../**",
            "https://h/a?path=../../b",
            "https://h/%c0%ae%c0%ae/b",
            "https://../b",
            "https://h/#/../b",
            "urn:..",
        ] {
            assert!(Resource::parse(text).is_err(), "{text}");
        }
        assert!(Resource::parse("https://h/a..b/...").is_ok());
        assert!(Resource::parse("https://h/100%25").is_ok());
        assert!(Resource::parse(&format!("https://h/%{}", "25".repeat(900))).is_err());
    }

    // A wildcard in the middle or in the host would grant what nobody reviewed.
    #[test]
    fn malformed_resources_are_refused_with_a_remedy() {
        for text in [
            "",
            "no-scheme",
            "/srv/data",
            "1a://h",
            "a:",
            "a:/",
            "https://*",
            "https://**",
            "https://*.example.org/a",
            "https://h/*/b",
            "https://h/a*",
            "https://h/a/***",
            "https://h/**/*",
            "*",
            "https://h/a?x=*",
            "https://h/a/*?x=1",
            "https://h/?q=/*",
            "https://h//a",
            "https://h/a/",
            "https://h/a//**",
            "https://h/./a",
            "https://h/%2e/a",
            "https://h/a b",
            "https://h/\u{e4}",
            "https://h/%zz",
            "https://h/%+1",
            "https://h/%4",
            "https://h/%00",
            "https://h\\a",
        ] {
            let error = Resource::parse(text).expect_err(text).to_string();
            assert!(error.contains("; "), "{error}");
        }
        assert!(Resource::parse(&format!("urn:{}", "x".repeat(2044))).is_ok());
        assert!(Resource::parse(&format!("urn:{}", "x".repeat(2045))).is_err());
    }

    // The question that every use of a grant asks.
    #[test]
    fn prefixes_cover_what_lies_below_them() {
        let cases = [
            ("https://h/a", "https://h/a", true),
            ("https://h/a", "https://h/a/b", false),
            ("https://h/a/*", "https://h/a/b", true),
            ("https://h/a/*", "https://h/a", false),
            ("https://h/a/*", "https://h/a/b/c", false),
            ("https://h/a/*", "https://h/ab", false),
            ("https://h/a/*", "https://h/a/**", false),
            ("https://h/a/**", "https://h/a/*", true),
            ("https://h/a/**", "https://h/a/b/c", true),
            ("https://h/a/**", "https://h/a", false),
            ("https://h/a/**", "https://h/a/b/**", true),
            ("https://h/a/**", "https://h/ab/**", false),
            ("https://h/a/**", "https://h/a/b?x=/c", false),
            ("https://h/a/*", "https://h/a/b#c", false),
            ("https://h/a?x=1", "https://h/a?x=1", true),
            ("https://h/**", "https://h/", false),
            ("https://h/**", "https://h.evil/a", false),
            ("https:/**", "https://h/a", false),
            ("https:/**", "https://h/**", false),
            ("https:/**", "https:/h/a", true),
            ("https://h/a/**", "https://h:443/a/b", false),
        ];
        for (parent, child, covered) in cases {
            assert_eq!(resource(parent).covers(&resource(child)), covered, "{parent} {child}");
        }
    }

    fn encoded(c: char) -> impl Strategy<Value = String> {
        let hex = format!("%{:02x}", u32::from(c));
        let twice = hex.replace('%', "%25");
        prop_oneof![Just(c.to_string()), Just(hex.to_uppercase()), Just(hex), Just(twice)]
    }

    proptest! {
        // A stored resource that reads back as another one changes a grant at rest.
        #[test]
        fn what_is_accepted_reads_back(
            text in "[a-zA-Z:]{1,3}:/{0,3}[a-bA%2eE./*?#:@]{0,16}(/\\*{1,2})?",
        ) {
            if let Ok(read) = Resource::parse(&text) {
                prop_assert_eq!(Resource::parse(&read.to_string()).unwrap(), read);
            }
        }

        // One undetected spelling of `..` is enough to leave the granted prefix.
        #[test]
        fn no_spelling_of_dot_dot_is_accepted(
            before in prop::sample::select(vec!["", "a/", "a%2f", "a/b%5C", "a%252F"]),
            first in encoded('.'),
            second in encoded('.'),
            after in prop::sample::select(vec!["", "/b", "%2Fb", "/**", ";v=1/b", "?x=1"]),
        ) {
            let text = format!("https://h/{before}{first}{second}{after}");
            prop_assert!(Resource::parse(&text).is_err(), "{}", text);
        }

        // Covering is inclusion: what the child names, the parent names, for every URI.
        #[test]
        fn covering_is_inclusion(
            parent in "h(/[ab]){0,3}(/\\*|/\\*\\*)?",
            child in "h(/[ab]){0,3}(/\\*|/\\*\\*)?",
        ) {
            let (parent, child) =
                (resource(&format!("x://{parent}")), resource(&format!("x://{child}")));
            // Depth four tells `/*` from `/**` below every base of depth three.
            let mut uris = vec!["x://h".to_owned()];
            let mut level = uris.clone();
            for _ in 0..5 {
                level = level.iter().flat_map(|u| [format!("{u}/a"), format!("{u}/b")]).collect();
                uris.extend(level.iter().cloned());
            }
            let named = |r: &Resource| -> Vec<&String> {
                uris.iter().filter(|uri| r.covers(&resource(uri))).collect()
            };
            let (wide, narrow) = (named(&parent), named(&child));
            let included = narrow.iter().all(|uri| wide.contains(uri));
            prop_assert_eq!(parent.covers(&child), included, "{} {}", parent, child);
        }
    }
}
