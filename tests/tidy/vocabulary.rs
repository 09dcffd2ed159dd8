//! Names and words that are not used, and calls that only some rooms make.
//!
//! What lives here: lists of words with the reason for each, and the check of a file against them.
//! What does not: the rooms' own lists, which stand in the table of rooms. Invariant: an exception
//! is a line in a list here, with its reason.

use crate::source::{Source, code, line_of, name_at, without_tests, words};

/// Last words of a type's name that say nothing about the thing.
const TYPE_SUFFIXES: &[&str] = &[
    "Base",
    "Data",
    "Handler",
    "Helper",
    "Helpers",
    "Impl",
    "Info",
    "Manager",
    "Processor",
    "Service",
    "Util",
    "Utils",
];

/// Names of modules that collect what has no place.
const MODULES: &[&str] = &[
    "common", "helper", "helpers", "manager", "misc", "prelude", "traits", "types", "util", "utils",
];

/// What is not written in code at all, and why.
const NEVER: &[(&str, &str)] = &[
    ("todo!", "unfinished code is not committed"),
    ("unimplemented!", "unfinished code is not committed"),
    ("dbg!", "a trace of debugging"),
    ("#[ignore", "a test that does not run proves nothing"),
    ("#[should_panic", "a test names the error that it expects"),
    ("lazy_static!", "no global state"),
    ("async_trait", "async functions in traits need no macro"),
];

/// Ways to start something that runs on its own.
const SPAWNS: &[&str] =
    &["tokio::spawn", "task::spawn", "thread::spawn", "thread::Builder", "JoinSet::spawn"];

/// Rooms that own running tasks: each of them also sees to their end.
const SPAWN_ROOMS: &[&str] = &["server", "broker", "client", "cli", "demo", "bench"];

/// Files outside of those rooms that start tasks, and who sees to their end.
const SPAWN_FILES: &[(&str, &str)] = &[
    (
        "src/service/watch.rs",
        "a stream's task ends with its reader, its right to see the task, or the broker",
    ),
    ("src/store/sled.rs", "closing the store, or dropping it, waits for the checkpoints' end"),
];

/// Tests that may sleep: path, reason. Waiting for something by sleeping is none.
const SLEEP_FILES: &[(&str, &str)] = &[];

/// Words that no file of the project contains, and why. In two pieces, so that this list does not
/// find itself.
const WORDS: &[(&str, &str)] = &[
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("/tm", "p/"), "a path of one machine; tests use a fresh folder of their own"),
    (concat!("/ro", "ot/"), "a path of one machine"),
    (concat!("/ho", "me/"), "a path of one machine"),
    (concat!("crates", ".io"), "a registry's host name"),
    (concat!("pypi", ".org"), "a registry's host name"),
    (concat!("FIX", "ME"), "what is open is written down elsewhere, or done"),
    (concat!("TO", "DO"), "what is open is written down elsewhere, or done"),
    (concat!("XX", "X:"), "what is open is written down elsewhere, or done"),
];

/// Findings of one Rust file.
pub(crate) fn check(source: Source<'_>) -> Vec<String> {
    let code = code(source.text);
    let plain = without_tests(&code);
    let mut findings = names(source, &code);
    for (word, reason) in NEVER {
        findings.extend(
            words(&code, word)
                // tonic's generated traits ask for its own macro.
                .filter(|at| !code.get(..*at).is_some_and(|head| head.ends_with("tonic::")))
                .map(|at| source.at(line_of(&code, at), &format!("`{word}`: {reason}"))),
        );
    }
    let in_src = source.path.starts_with("src/");
    let owned = SPAWN_FILES.iter().any(|(path, _)| *path == source.path);
    if in_src && !owned && !SPAWN_ROOMS.contains(&source.room()) {
        for word in SPAWNS {
            findings.extend(words(&plain, word).map(|at| {
                let what = format!("`{word}` outside of {SPAWN_ROOMS:?}: nobody sees to its end");
                source.at(line_of(&plain, at), &what)
            }));
        }
    }
    if !SLEEP_FILES.iter().any(|(path, _)| *path == source.path) {
        for at in words(&code, "sleep").chain(words(&code, "sleep_until")) {
            // In src/, waiting is part of the product; in a test module, it is not.
            let in_test = !in_src || plain[at..].starts_with(' ');
            if in_test {
                let what = "a test waits for a signal or polls with a bound, it does not sleep";
                findings.push(source.at(line_of(&code, at), what));
            }
        }
    }
    findings
}

/// Findings of the words of any text file.
pub(crate) fn text(source: Source<'_>) -> Vec<String> {
    let mut findings = Vec::new();
    for (at, line) in source.text.lines().enumerate() {
        for (word, reason) in WORDS.iter().filter(|(word, _)| line.contains(word)) {
            findings.push(source.at(at + 1, &format!("`{word}`: {reason}")));
        }
    }
    findings
}

fn names(source: Source<'_>, code: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for keyword in ["struct ", "enum ", "trait ", "type ", "union "] {
        for at in words(code, keyword) {
            let name = name_at(code, at + keyword.len());
            let last = name.rfind(|c: char| c.is_ascii_uppercase()).map_or(name, |at| &name[at..]);
            if TYPE_SUFFIXES.contains(&last) {
                let what = format!("`{name}`: `{last}` does not say what the thing is");
                findings.push(source.at(line_of(code, at), &what));
            }
        }
    }
    for at in words(code, "mod ") {
        let name = name_at(code, at + "mod ".len());
        if MODULES.contains(&name) {
            let what = format!("module `{name}`: things stand with their noun");
            findings.push(source.at(line_of(code, at), &what));
        }
    }
    if source.path == "src/error.rs" {
        findings.push(source.at(1, "errors stand in the room that they come from"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check(Source { path, text }).len()
    }

    #[test]
    fn empty_names_are_found() {
        for text in [
            "struct TaskManager;",
            "pub(crate) enum PacketHelper {}",
            "trait Processor {}",
            "type StoreImpl = ();",
            "mod utils;",
            "pub mod common {}",
        ] {
            assert_eq!(count("src/store/mod.rs", text), 1, "{text}");
        }
        assert_eq!(count("src/error.rs", "pub enum Error {}"), 1);
        for text in ["struct Implement;", "struct Database;", "// struct TaskManager\nmod utility;"]
        {
            assert_eq!(count("src/store/mod.rs", text), 0, "{text}");
        }
    }

    #[test]
    fn unfinished_and_unrun_code_is_found() {
        for text in [
            "fn a() { todo!() }",
            "fn a() { unimplemented!(\"x\") }",
            "#[test]\n#[ignore = \"slow\"]\nfn a() {}",
            "#[test]\n#[should_panic]\nfn a() {}",
            "fn a() { dbg!(1); }",
        ] {
            assert_eq!(count("src/store/mod.rs", text), 1, "{text}");
            assert_eq!(count("tests/store.rs", text), 1, "{text}");
        }
        assert_eq!(count("tests/store.rs", "const A: &str = \"todo!()\"; // #[ignore]"), 0);
    }

    #[test]
    fn tasks_are_started_only_where_somebody_owns_them() {
        for text in ["fn a() { tokio::spawn(b()); }", "fn a() { std::thread::spawn(b); }"] {
            assert_eq!(count("src/store/value.rs", text), 1, "{text}");
            assert_eq!(count("src/broker/mod.rs", text), 0, "{text}");
            assert_eq!(count("tests/api/main.rs", text), 0, "{text}");
        }
        assert_eq!(count("src/store/value.rs", "tokio::task::spawn_blocking(a)"), 0);
    }

    #[test]
    fn sleeping_tests_are_found() {
        let test = "#[cfg(test)]\nmod tests {\n fn a() { std::thread::sleep(b); }\n}";
        assert_eq!(count("src/broker/mod.rs", test), 1);
        assert_eq!(count("tests/api/main.rs", "tokio::time::sleep(a).await;"), 1);
        assert_eq!(count("tests/api/main.rs", "sleep_until(a).await;"), 1);
        assert_eq!(count("src/broker/mod.rs", "tokio::time::sleep(a).await;"), 0);
    }

    #[test]
    fn foreign_words_are_found() {
        for (word, _) in WORDS {
            let line = format!("see {word}x");
            assert_eq!(text(Source { path: "README.md", text: &line }).len(), 1, "{line}");
        }
        assert!(text(Source { path: "README.md", text: "see below" }).is_empty());
    }
}
