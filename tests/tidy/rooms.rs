//! The dependency rule: imports point down.
//!
//! What lives here: the table of rooms, what each may import from the crate and what it may never
//! name, and the check of a file against it. What does not: rules on a file's shape or words.
//! Invariant: a room imports only rooms that stand before it in the table, so there is no circle. A
//! new arrow is a change of design: it needs a reason here.

use crate::source::{Source, code, line_of, name_at, without_tests, words};

/// A room of `src/`, what it may import, and why no more.
pub(crate) struct Room {
    pub(crate) name: &'static str,
    pub(crate) may: &'static [&'static str],
    pub(crate) never: &'static [&'static str],
    pub(crate) reason: &'static str,
}

/// Bottom first.
pub(crate) const ROOMS: &[Room] = &[
    Room {
        name: "proto",
        may: &[],
        never: &[],
        reason: "generated messages are inert and know nobody",
    },
    Room {
        name: "core",
        may: &[],
        never: &[
            "async",
            "await",
            "chrono",
            "getrandom",
            "jiff",
            "prost",
            "prost_reflect",
            "rand",
            "serde",
            "serde_json",
            "sled",
            "tokio",
            "tonic",
            "tracing",
            "new_v4",
            "now_v7",
            "HashMap",
            "HashSet",
            "Instant",
            "SystemTime",
            "std::env",
            "std::fs",
            "std::io",
            "std::net",
            "std::thread",
            "println!",
            "eprintln!",
        ],
        reason: "decisions are pure: same state, command and context, same answer",
    },
    Room {
        name: "wire",
        may: &["proto", "core"],
        never: &["async", "sled", "tokio", "tonic", "Instant", "SystemTime"],
        reason: "the meeting place of messages and domain types; translates, never waits",
    },
    Room {
        name: "config",
        may: &[],
        never: &["prost", "sled", "tokio", "tonic"],
        reason: "a leaf: parsed and checked before anything is opened",
    },
    Room {
        name: "telemetry",
        may: &[],
        never: &["prost", "sled", "tonic"],
        reason: "a leaf: names of spans and fields, and the subscriber",
    },
    Room {
        name: "console",
        may: &[],
        never: &["prost", "sled", "tokio", "tonic"],
        reason: "a leaf: writes lines",
    },
    Room {
        name: "store",
        may: &["proto", "core", "wire", "config", "telemetry"],
        never: &["tonic", "core::decide"],
        reason: "keeps what was decided; never decides, knows no network",
    },
    Room {
        name: "broker",
        // `wire` gives the stored form of what the core decided; the broker never sees a message.
        may: &["core", "wire", "store", "config", "telemetry"],
        never: &["prost", "sled", "tonic"],
        reason: "the shell around the core: no message and no storage engine in it",
    },
    Room {
        name: "principals",
        may: &["core", "broker"],
        never: &["prost", "sled", "tokio", "tonic"],
        reason: "who may call, by a file; knows no network",
    },
    Room {
        name: "service",
        may: &["proto", "core", "wire", "broker", "config", "telemetry", "principals"],
        never: &["sled", "core::decide"],
        reason: "asks the broker; a service that reads the store would answer uncommitted state",
    },
    Room {
        name: "server",
        may: &[
            "proto",
            "core",
            "wire",
            "config",
            "telemetry",
            "store",
            "broker",
            "principals",
            "service",
        ],
        never: &["sled", "core::decide"],
        reason: "puts the rooms together and decides nothing",
    },
    Room {
        name: "client",
        may: &["proto", "wire", "config"],
        never: &["sled"],
        reason: "sees what any client in another language sees",
    },
    Room {
        name: "demo",
        may: &["proto", "wire", "config", "telemetry", "server", "client"],
        never: &["sled"],
        reason: "a user of the product: a server of its own, and clients",
    },
    Room {
        name: "doctor",
        may: &["core", "wire", "store"],
        never: &["sled", "tokio", "tonic", "core::decide"],
        reason: "reads what is stored, and decides and writes nothing",
    },
    Room {
        name: "bench",
        may: &[
            "proto",
            "core",
            "wire",
            "config",
            "telemetry",
            "store",
            "broker",
            "principals",
            "console",
            "server",
            "client",
        ],
        never: &["sled"],
        reason: "measures each layer, through the layer's own door",
    },
    Room {
        name: "cli",
        may: &[
            "proto",
            "wire",
            "config",
            "telemetry",
            "console",
            "principals",
            "client",
            "demo",
            "doctor",
            "bench",
        ],
        never: &["sled"],
        reason: "a client like any other, except in the files listed below",
    },
];

/// Single files that may import more: path or folder, room, reason.
const FILE_EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("src/core/contract", "proto", "the contract is a document: carried and digested as it came"),
    ("src/cli/serve.rs", "server", "the command that runs the server"),
    ("src/cli/replay.rs", "store", "reads a stopped broker's store, and only reads"),
    ("src/cli/export.rs", "store", "reads a stopped broker's store, and only reads"),
];

/// Findings of one file against the table.
pub(crate) fn check(source: Source<'_>) -> Vec<String> {
    let name = source.room();
    if name.is_empty() {
        return Vec::new();
    }
    let Some(room) = ROOMS.iter().find(|room| room.name == name) else {
        return vec![source.at(1, &format!("`{name}` is not in the table of rooms"))];
    };
    let code = code(source.text);
    let mut findings = Vec::new();
    for (line, other) in imports(source.path, &code) {
        // A lower-case name that is no room is a macro or a function of the root.
        let known = ROOMS.iter().any(|room| room.name == other);
        let excepted = FILE_EXCEPTIONS
            .iter()
            .any(|(path, allowed, _)| source.path.starts_with(path) && *allowed == other);
        if known && other != name && !room.may.contains(&other) && !excepted {
            findings.push(
                source.at(line, &format!("`{name}` may not import `{other}`: {}", room.reason)),
            );
        }
    }
    for word in room.never {
        for at in words(&code, word) {
            let line = line_of(&code, at);
            findings
                .push(source.at(line, &format!("`{name}` may not name `{word}`: {}", room.reason)));
        }
    }
    findings
}

/// The rooms that a file names by a path from the root: `crate::x`, `crate::{x, y::z}`, and as many
/// `super::` as lead out of the room.
fn imports<'a>(path: &str, code: &'a str) -> Vec<(usize, &'a str)> {
    let mut found = Vec::new();
    for at in words(code, "crate::") {
        names(code, at + "crate::".len(), &mut found);
    }
    // Modules between the file and the root; test modules are one deeper and are left out.
    let below = path.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod");
    let depth = below.split('/').count();
    let plain = without_tests(code);
    let climb = "super::".repeat(depth);
    for (at, _) in plain.match_indices(&climb) {
        if !plain[..at].ends_with("super::") {
            names(code, at + climb.len(), &mut found);
        }
    }
    found
}

/// The first name of a path, or the first name of each entry of a braced list.
fn names<'a>(code: &'a str, from: usize, found: &mut Vec<(usize, &'a str)>) {
    if !code[from..].starts_with('{') {
        found.push((line_of(code, from), name_at(code, from)));
        return;
    }
    let (mut depth, mut fresh) = (0_usize, false);
    for (at, c) in code.char_indices().filter(|(at, _)| *at >= from) {
        match c {
            '{' => {
                depth += 1;
                fresh = depth == 1;
            }
            '}' if depth == 1 => return,
            '}' => depth -= 1,
            ',' if depth == 1 => fresh = true,
            c if fresh && !c.is_whitespace() => {
                found.push((line_of(code, at), name_at(code, at)));
                fresh = false;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finds(path: &str, text: &str) -> bool {
        !check(Source { path, text }).is_empty()
    }

    #[test]
    fn table_has_no_circle_and_every_reason() {
        for (at, room) in ROOMS.iter().enumerate() {
            assert!(!room.reason.is_empty());
            for other in room.may {
                let below = ROOMS[..at].iter().any(|r| r.name == *other);
                assert!(below, "{} imports {other}, which is not below it", room.name);
            }
        }
    }

    #[test]
    fn arrows_that_point_up_are_found() {
        assert!(finds("src/core/task.rs", "use crate::wire::id;"));
        assert!(finds("src/core/task.rs", "fn a() { crate::store::open() }"));
        assert!(finds("src/core/task.rs", "use crate::{core::id, store::{key, Store}};"));
        assert!(finds("src/core/task.rs", "use super::super::broker::Broker;"));
        assert!(finds("src/core/mod.rs", "use super::broker::Broker;"));
        assert!(finds("src/config.rs", "use super::core::id;"));
        assert!(finds("src/store/mod.rs", "use crate::core::decide;"));
        assert!(finds("src/service/task.rs", "use crate::store::Store;"));
        assert!(finds("src/cli/top.rs", "use crate::server;"));
        assert!(finds("src/attic/mod.rs", ""));
    }

    #[test]
    fn arrows_that_point_down_are_not_found() {
        assert!(!finds("src/wire/task.rs", "use crate::{core::{id, time}, proto::baton::v1};"));
        assert!(!finds("src/core/task.rs", "use super::id::TaskId; use crate::core::time;"));
        assert!(!finds(
            "src/core/task.rs",
            "// use crate::wire;\nconst A: &str = \"crate::wire\";"
        ));
        assert!(!finds("src/cli/serve.rs", "use crate::server;"));
        assert!(!finds("src/core/contract/mod.rs", "use crate::proto::baton::v1 as pb;"));
        assert!(!finds("src/lib.rs", "pub mod core; use crate::store;"));
    }

    #[test]
    fn impure_core_is_found() {
        for text in [
            "use tokio::sync::mpsc;",
            "use std::time::SystemTime;",
            "let t = std::time::Instant::now();",
            "use std::collections::{BTreeMap, HashMap};",
            "let x = rand::random();",
            "use serde::Serialize;",
            "tracing::info!(1);",
            "use tonic::Status;",
            "async fn a() {}",
            "let id = uuid::Uuid::new_v4();",
        ] {
            assert!(finds("src/core/task.rs", text), "{text}");
        }
        assert!(!finds("src/core/task.rs", "let brand = uuid::Uuid::parse_str(a);"));
    }
}
