//! The demo: it succeeds on real files, leaves nothing behind, and fails if any part is broken.

// A test stops at the first surprise.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const README: &str = "# A project\n\nSome words on it.\n\n## Use\n\ntext\n";
const CARGO: &str = "[package]\nname = \"a\"\n\n[dependencies]\n";

/// A folder with the two files and a folder for temporary things.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("README.md"), README).expect("writes");
    fs::write(folder.path().join("Cargo.toml"), CARGO).expect("writes");
    fs::create_dir(folder.path().join("temporary")).expect("makes a folder");
    folder
}

fn demo(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
    command.arg("demo").args(arguments).current_dir(folder);
    command.env("TMPDIR", folder.join("temporary"));
    command
}

/// The steps that were told.
fn steps(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("every line is JSON")).collect()
}

/// The reasons that the acts met, as (act, step, reason).
fn reasons(steps: &[Value]) -> Vec<(u64, &str, &str)> {
    let met = steps.iter().filter_map(|step| {
        Some((step["act"].as_u64()?, step["step"].as_str()?, step["reason"].as_str()?))
    });
    met.collect()
}

/// The acts that ended as they must.
fn good(steps: &[Value]) -> Vec<u64> {
    let ends = steps.iter().filter(|s| s["step"] == "end" && s["ok"] == true);
    ends.filter_map(|step| step["act"].as_u64()).collect()
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).expect("reads").next().is_none()
}

// The first thing that a newcomer starts would not work, or would litter.
#[test]
fn each_act_ends_as_it_must_and_nothing_is_left() {
    let folder = folder();
    let output = demo(folder.path(), &["--json"]).output().expect("runs");
    let steps = steps(&output);
    assert!(output.status.success(), "{steps:#?} {}", String::from_utf8_lossy(&output.stderr));
    assert!(steps.iter().all(|step| step["ok"] == true), "{steps:#?}");
    assert_eq!(good(&steps), [1, 2, 3, 4]);
    let met = reasons(&steps);
    let wanted = [(2, "acknowledged", "RECEIPT_MISMATCH"), (4, "late_write", "STALE_EPOCH")];
    assert_eq!(met, wanted);
    assert!(is_empty(&folder.path().join("temporary")), "a folder is left");
    let mut names: Vec<_> = fs::read_dir(folder.path())
        .expect("reads")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["Cargo.toml", "README.md", "temporary"]);
    assert_eq!(fs::read_to_string(folder.path().join("README.md")).expect("reads"), README);
}

// Two files of one name, a name that is no ASCII, an empty file: users have them.
#[test]
fn files_of_the_user_are_taken_and_the_story_is_told_in_words() {
    let folder = folder();
    fs::create_dir(folder.path().join("more")).expect("makes a folder");
    fs::write(folder.path().join("more/README.md"), "other\n").expect("writes");
    fs::write(folder.path().join("\u{e4} b.txt"), "").expect("writes");
    let files = ["\u{e4} b.txt", "README.md", "more/README.md"];
    let output = demo(folder.path(), &files).output().expect("runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text} {}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("RECEIPT_MISMATCH") && text.contains("4 of 4 acts"), "{text}");
}

// A file that is not there must be named before anything starts.
#[test]
fn missing_files_are_named() {
    let folder = folder();
    let output = demo(folder.path(), &["README.md", "none.md"]).output().expect("runs");
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&output.stderr).contains("none.md"));
}

/// Runs the demo with a broken part: it fails, and just these acts are good.
#[track_caller]
fn broken(fault: &str, wanted: &[u64]) {
    let folder = folder();
    let output = demo(folder.path(), &["--json", "--break", fault]).output().expect("runs");
    let steps = steps(&output);
    assert_eq!(output.status.code(), Some(1), "{steps:#?}");
    assert_eq!(good(&steps), wanted, "{steps:#?} {}", String::from_utf8_lossy(&output.stderr));
    assert!(is_empty(&folder.path().join("temporary")), "a folder is left");
}

// A demo that succeeds with an agent that verifies nothing proves nothing.
#[test]
fn an_agent_that_copies_is_noticed() {
    let folder = folder();
    let output = demo(folder.path(), &["--json", "--break", "copy-instead-of-hash"]).output();
    let output = output.expect("runs");
    let steps = steps(&output);
    assert_eq!(output.status.code(), Some(1), "{steps:#?}");
    let good = good(&steps);
    assert!(!good.contains(&1) && !good.contains(&2), "{good:?} {steps:#?}");
}

// A demo that succeeds with a broker that takes any receipt proves nothing.
#[test]
fn a_broker_that_skips_the_comparison_is_noticed() {
    broken("skip-comparison", &[1, 3, 4]);
}

// A demo that succeeds with a broker that loses what it acknowledged proves nothing.
#[test]
fn a_broker_that_forgets_is_noticed() {
    broken("forget-on-crash", &[1, 2, 4]);
}

// A demo that succeeds with a broker that does not fence proves nothing.
#[test]
fn a_broker_that_takes_late_writes_is_noticed() {
    broken("ignore-epoch", &[1, 2, 3]);
}

// A broker that outlives its demo holds a port and a folder that nobody knows of.
#[test]
fn an_interrupted_demo_ends_its_processes() {
    let folder = folder();
    let mut child = demo(folder.path(), &["--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let first = lines.next().expect("a line").expect("reads");
    let first: Value = serde_json::from_str(&first).expect("JSON");
    let address = first["address"].as_str().expect("an address").trim_start_matches("http://");
    assert!(TcpStream::connect(address).is_ok(), "the broker listens at {address}");
    let asked = Command::new("kill").arg(child.id().to_string()).status().expect("asks it to end");
    assert!(asked.success());
    let ended = child.wait().expect("ends");
    assert!(!ended.success());
    assert!(TcpStream::connect(address).is_err(), "the broker is still there");
    assert!(is_empty(&folder.path().join("temporary")), "a folder is left");
}
