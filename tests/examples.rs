//! The examples that an agent's author begins with, against a broker.

// A test stops at the first surprise.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

/// A process that ends with the test.
struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("reads");
        line
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn example(name: &str) -> Command {
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_baton"));
    Command::new(binary.with_file_name("examples").join(name))
}

// What an author copies first would not work.
#[test]
fn a_task_goes_from_one_example_to_the_other() {
    // A run of this test alone has not built them.
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--examples"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    assert!(build.status().expect("builds").success());
    let mut serve = Command::new(env!("CARGO_BIN_EXE_baton"));
    serve.args(["serve", "--listen", "127.0.0.1:0", "--json", "--memory", "--test-mode"]);
    let mut broker = Running::start(serve.stderr(Stdio::null()));
    let first: Value = serde_json::from_str(&broker.line()).expect("JSON");
    let address = first["address"].as_str().expect("an address");
    let mut accept = Running::start(example("accept").arg(address));
    assert_eq!(accept.line(), "registered\n");
    let offered = example("offer").arg(address).output().expect("runs");
    let text = String::from_utf8_lossy(&offered.stdout);
    let said = String::from_utf8_lossy(&offered.stderr);
    assert!(text.ends_with("HANDOFF_STATUS_RECEIVED\n"), "{text} {said}");
    let mut rest = String::new();
    accept.lines.read_to_string(&mut rest).expect("ends");
    assert!(rest.contains("under epoch 2"), "{rest}");
}
