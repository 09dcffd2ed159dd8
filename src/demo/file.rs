//! Files as sources: read, hashed, and what is in them.
//!
//! What lives here: reading a file as an authoritative input, figures and an outline of its text.
//! What does not: who reads it. Invariants: the digest is over the bytes that were read here and
//! now; nothing is written; a URI leads back to the path that it was made of.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::client::packet;
use crate::proto::baton::v1 as pb;

/// Headings that are listed of one file.
const OUTLINE_MAX: usize = 40;
/// Largest file that is taken, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// A file as it was read.
pub(super) struct File {
    /// Its name, without folders.
    pub(super) name: String,
    /// Its identifier as a source.
    pub(super) id: String,
    /// Where it is.
    pub(super) uri: String,
    /// Its version: the time of its last change. A plain file has no better one.
    pub(super) version: String,
    /// Digest of its bytes.
    pub(super) digest: String,
    bytes: Vec<u8>,
}

impl File {
    /// Reads a file.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let path = path.canonicalize().map_err(|e| format!("{shown}: {e}"))?;
        let about = path.metadata().map_err(|e| format!("{shown}: {e}"))?;
        if !about.is_file() || about.len() > FILE_BYTES_MAX {
            return Err(format!("{shown} is no file of at most {FILE_BYTES_MAX} bytes"));
        }
        let bytes = std::fs::read(&path).map_err(|e| format!("{shown}: {e}"))?;
        let changed = about.modified().ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
        let changed = changed.unwrap_or_default();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name: String = name.chars().filter(|c| !c.is_control()).collect();
        Ok(Self {
            id: format!("file:{name}"),
            name,
            uri: uri_of(&path),
            version: format!("changed {}.{:06}", changed.as_secs(), changed.subsec_micros()),
            digest: packet::digest(&bytes),
            bytes,
        })
    }

    /// Reads files, each once, and tells those of one name apart by a number.
    pub(super) fn read_all(paths: &[PathBuf]) -> Result<Vec<Self>, String> {
        let mut files: Vec<Self> = Vec::new();
        for path in paths {
            let mut file = Self::read(path)?;
            if files.iter().any(|other| other.uri == file.uri) {
                continue;
            }
            let namesakes = files.iter().filter(|other| other.name == file.name).count();
            if namesakes > 0 {
                file.id = format!("{}#{}", file.id, namesakes + 1);
            }
            files.push(file);
        }
        Ok(files)
    }

    /// Reads the file that a source's location names.
    pub(super) fn fetch(uri: &str) -> Result<Self, String> {
        let path = path_of(uri).ok_or_else(|| format!("{uri:?} is no file on this machine"))?;
        Self::read(&path)
    }

    /// The source, as a snapshot names it.
    pub(super) fn entity(&self) -> pb::SourceEntity {
        pb::SourceEntity {
            entity_id: self.id.clone(),
            version: self.version.clone(),
            digest: Some(self.digest.clone()),
            obtained_at: Some(packet::now()),
            location: self.uri.clone(),
            media_type: self.media_type().to_owned(),
            size_bytes: Some(self.bytes.len() as u64),
            digest_algorithm: "sha-256".to_owned(),
            digested: "raw bytes of the file".to_owned(),
        }
    }

    /// How many bytes it has.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    fn media_type(&self) -> &'static str {
        match self.name.rsplit_once('.').map(|(_, ending)| ending) {
            Some("md") => "text/markdown",
            Some("toml") => "application/toml",
            Some("json") => "application/json",
            _ => "text/plain",
        }
    }

    /// Figures and outline, in Markdown. No digest: a receiver is to compute it.
    pub(super) fn overview(&self) -> String {
        let text = String::from_utf8_lossy(&self.bytes);
        let lines = text.lines().count();
        let blank = text.lines().filter(|line| line.trim().is_empty()).count();
        let words = text.split_whitespace().count();
        let longest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        let outline = self.outline(&text);
        let mut out = format!("## {}\n\n", self.name);
        // Writing to a string cannot fail.
        let _ =
            writeln!(out, "{} bytes, {lines} lines ({blank} blank), {words} words;", self.len());
        let _ = writeln!(out, "longest line {longest} characters; {} sections.\n", outline.len());
        for (depth, title) in outline.iter().take(OUTLINE_MAX) {
            let _ = writeln!(out, "{}- {title}", "  ".repeat(depth.saturating_sub(1)));
        }
        if outline.len() > OUTLINE_MAX {
            let _ = writeln!(out, "- and {} more", outline.len() - OUTLINE_MAX);
        }
        out
    }

    /// What a reviewer would point at.
    pub(super) fn remarks(&self) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.bytes);
        let mut remarks = Vec::new();
        let mut last = 0;
        for (depth, title) in self.outline(&text) {
            if depth > last + 1 {
                remarks.push(format!("{}: section {title:?} skips a level", self.name));
            }
            last = depth;
        }
        let long = text.lines().filter(|line| line.chars().count() > 160).count();
        if long > 0 {
            remarks.push(format!("{}: {long} lines are longer than 160 characters", self.name));
        }
        if !text.is_empty() && !text.ends_with('\n') {
            remarks.push(format!("{}: the last line has no end", self.name));
        }
        remarks
    }

    /// Depth and title of each section.
    fn outline(&self, text: &str) -> Vec<(usize, String)> {
        let mut fenced = false;
        let mut found = Vec::new();
        for line in text.lines().map(str::trim_end) {
            if line.trim_start().starts_with("```") {
                fenced = !fenced;
            }
            let section = match self.media_type() {
                "text/markdown" if !fenced => heading(line),
                "application/toml" => table(line),
                _ => None,
            };
            found.extend(section);
        }
        found
    }
}

fn heading(line: &str) -> Option<(usize, String)> {
    let title = line.trim_start_matches('#');
    let depth = line.len() - title.len();
    let title = title.strip_prefix(' ')?.trim();
    (1..=6).contains(&depth).then(|| (depth, title.to_owned()))
}

fn table(line: &str) -> Option<(usize, String)> {
    let name = line.strip_prefix('[')?.strip_suffix(']')?.trim_matches(['[', ']']);
    Some((1, name.to_owned()))
}

/// `file://` and the path, all but unreserved characters percent-encoded.
fn uri_of(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    let mut uri = "file://".to_owned();
    for &byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

fn path_of(uri: &str) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt as _;
    let mut bytes = Vec::new();
    let mut rest = uri.strip_prefix("file://")?.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let pair = [rest.next()?, rest.next()?];
            let hex = std::str::from_utf8(&pair).ok()?;
            bytes.push(u8::from_str_radix(hex, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    let path = PathBuf::from(std::ffi::OsString::from_vec(bytes));
    path.is_absolute().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    // A file whose name has a space or a letter outside of ASCII could not be fetched again.
    #[test]
    fn a_uri_leads_back_to_its_path() {
        for name in ["/a/README.md", "/a b/%41/\u{e4}*.txt"] {
            let uri = uri_of(Path::new(name));
            assert!(uri.is_ascii() && !uri.contains([' ', '*']), "{uri}");
            assert_eq!(path_of(&uri), Some(PathBuf::from(name)));
        }
        for bad in ["http://a/b", "file://a", "file:///%4", "file:///%zz"] {
            assert_eq!(path_of(bad), None, "{bad}");
        }
    }

    // A comment in a code block is no section of the document.
    #[test]
    fn sections_are_found_outside_of_code() {
        let file = File {
            name: "a.md".to_owned(),
            id: String::new(),
            uri: String::new(),
            version: String::new(),
            digest: String::new(),
            bytes: b"# A\n```\n# no\n```\n### B\n#x\n".to_vec(),
        };
        let text = file.overview();
        assert!(text.contains("2 sections") && text.contains("    - B"), "{text}");
        assert_eq!(file.remarks(), ["a.md: section \"B\" skips a level"]);
    }
}
