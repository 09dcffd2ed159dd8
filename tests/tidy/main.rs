//! The rules of the house, held by a test, so that nobody has to remember them.
//!
//! What lives here: the walk over the files and one test for each set of rules. What does not: the
//! rules, which are pure functions of a path and a text in the modules beside this one, each with a
//! test that shows it a violation. Invariant: only files of the project are read; what is built or
//! generated is not.

#![allow(clippy::expect_used, reason = "a test that cannot read its input has to stop")]
#![allow(clippy::indexing_slicing, reason = "positions come from searches of the same text")]

mod rooms;
mod shape;
mod source;
mod vocabulary;

use std::path::Path;

use source::Source;

/// Folders that are not ours: built, generated or local.
const FOREIGN: &[&str] = &["target", ".git", ".venv", "__pycache__", "baton-data", "node_modules"];
/// Ends of the names of text files.
const TEXTS: &[&str] =
    &["css", "html", "js", "json", "md", "proto", "py", "rs", "sh", "toml", "txt", "yaml", "yml"];

/// All text files of the project: path from the root, text.
fn tree() -> Vec<(String, String)> {
    let mut files = Vec::new();
    walk(Path::new(env!("CARGO_MANIFEST_DIR")), "", &mut files);
    files.sort();
    assert!(files.iter().any(|(path, _)| path == "src/lib.rs"), "the tree was not found");
    files
}

fn walk(dir: &Path, prefix: &str, files: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(dir).expect("a folder") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = entry.path();
        if FOREIGN.contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() {
            walk(&path, &format!("{prefix}{name}/"), files);
        } else if path.extension().is_some_and(|e| TEXTS.iter().any(|t| e == *t)) {
            let text = std::fs::read_to_string(&path).expect("a text file in UTF-8");
            files.push((format!("{prefix}{name}"), text));
        }
    }
}

/// Runs a check over the files whose names end so, and fails with everything that it finds.
fn hold(ending: &str, check: fn(Source<'_>) -> Vec<String>) {
    let findings: Vec<String> = tree()
        .iter()
        .filter(|(path, _)| path.ends_with(ending))
        .flat_map(|(path, text)| check(Source { path, text }))
        .collect();
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
}

// In production: a decision reads a clock, or an answer skips the store; no replay explains it.
#[test]
fn imports_point_down() {
    hold(".rs", rooms::check);
}

#[test]
fn files_keep_their_shape() {
    hold(".rs", shape::check);
    hold(".proto", shape::lines);
}

#[test]
fn names_and_calls_are_the_allowed_ones() {
    hold(".rs", vocabulary::check);
}

#[test]
fn texts_speak_of_the_product_alone() {
    hold("", vocabulary::text);
}
