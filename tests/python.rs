//! The agents of `examples/python`, as they are shipped, against a real broker: a generated client
//! in another language moves control and recomputes every digest.

// A test stops at the first surprise.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// The longest that one step may take: starting an interpreter and a few calls.
const STEP: Duration = Duration::from_secs(60);

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The interpreter with the pinned packages.
fn python() -> PathBuf {
    let path = root().join(".venv/bin/python");
    assert!(
        path.exists(),
        "{} is missing: run ./check, which makes it and installs \
         examples/python/requirements.txt",
        path.display()
    );
    path
}

/// A process whose lines are read as they come, and which does not outlive the test.
struct Running {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the process starts");
        let (sender, lines) = mpsc::channel();
        forward(child.stdout.take().expect("a pipe"), sender.clone());
        forward(child.stderr.take().expect("a pipe"), sender);
        Self { child, lines, said: Vec::new() }
    }

    /// Reads until a line holds `wanted`, and gives that line.
    fn line_with(&mut self, wanted: &str) -> String {
        loop {
            match self.lines.recv_timeout(STEP) {
                Ok(line) => {
                    self.said.push(line.clone());
                    if line.contains(wanted) {
                        return line;
                    }
                }
                Err(end) => panic!("does not say {wanted:?} ({end}): {:?}", self.said),
            }
        }
    }

    /// Reads to the end and gives the exit code with all that was said.
    fn end(&mut self) -> (i32, String) {
        loop {
            match self.lines.recv_timeout(STEP) {
                Ok(line) => self.said.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("does not end: {:?}", self.said),
            }
        }
        let status = self.child.wait().expect("it has ended");
        (status.code().unwrap_or(-1), self.said.join("\n"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends each line of `pipe`, until it is closed.
fn forward(pipe: impl Read + Send + 'static, sender: Sender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
}

/// A broker, a generated client and two sources, in a folder of their own.
struct Setting {
    folder: tempfile::TempDir,
    address: String,
    _broker: Running,
}

impl Setting {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        let generated = Command::new(python())
            .arg(root().join("examples/python/generate.py"))
            .args(["--baton", env!("CARGO_BIN_EXE_baton"), "--out"])
            .arg(at.join("generated"))
            .output()
            .expect("generate.py runs");
        assert!(generated.status.success(), "{}", String::from_utf8_lossy(&generated.stderr));
        std::fs::write(at.join("one.txt"), "first source\n").expect("a source");
        std::fs::write(at.join("two.txt"), "second source\n").expect("a source");
        let mut serve = Command::new(env!("CARGO_BIN_EXE_baton"));
        serve.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(at.join("data"));
        let mut broker = Running::start(&mut serve);
        let line = broker.line_with("listening on ");
        let address = line.rsplit(' ').next().expect("an address").to_owned();
        Self { folder, address, _broker: broker }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, script: &str, more: &[PathBuf]) -> Running {
        let mut command = Command::new(python());
        command
            .arg(root().join("examples/python").join(script))
            .args(["--address", &self.address, "--generated"])
            .arg(self.path("generated"))
            .args(more)
            .env("PYTHONDONTWRITEBYTECODE", "1");
        Running::start(&mut command)
    }

    fn sources(&self) -> [PathBuf; 2] {
        [self.path("one.txt"), self.path("two.txt")]
    }
}

// An adapter's author who copies the examples could not take over a single task; or the canonical
// form would be one that only Rust computes.
#[test]
fn control_moves_between_agents_in_python() {
    let setting = Setting::new();
    let mut agent = setting.run("agent.py", &[]);
    agent.line_with("registered");
    let mut offer = setting.run("offer.py", &setting.sources());
    // The agent first: if it does not receive, the offer only waits.
    let (code, said) = agent.end();
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("under epoch 2"), "{said}");
    assert!(said.contains("next action: review the draft"), "{said}");
    let (code, said) = offer.end();
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("RECEIVED by agent:reviewer"), "{said}");
    assert!(said.contains("chain verified"), "{said}");
    assert!(said.contains("packet digest recomputed: sha256:"), "{said}");
}

// An agent that verifies would take control of work on sources that have changed.
#[test]
fn a_changed_source_is_seen_by_the_agent_in_python() {
    let setting = Setting::new();
    let mut first = setting.run("agent.py", &[]);
    first.line_with("registered");
    drop(first);
    let mut offer = setting.run("offer.py", &setting.sources());
    offer.line_with("offered ");
    std::fs::write(setting.path("two.txt"), "second sourcE\n").expect("a change of one byte");
    let mut agent = setting.run("agent.py", &[]);
    let (code, said) = agent.end();
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("RECEIPT_MISMATCH"), "{said}");
    assert!(said.contains("receipt.source_snapshot[file:two.txt]"), "{said}");
    assert!(!said.contains("next action"), "{said}");
}
