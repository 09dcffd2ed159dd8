//! The command line as a person and as a script use it: the real binary, a real port, exit codes.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A broker in a process of its own, ended with the test.
struct Served {
    child: Child,
    address: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The binary, without what the environment of the test says about brokers.
fn baton() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
    for key in ["BATON_ADDRESS", "BATON_TOKEN", "BATON_PRINCIPAL"] {
        command.env_remove(key);
    }
    command.stdin(Stdio::null());
    command
}

fn serve(dir: &Path, more: &[&str]) -> Served {
    let mut child = baton()
        .args(["serve", "--listen", "127.0.0.1:0", "--json", "--data-dir", "data"])
        .args(more)
        .current_dir(dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("a pipe");
    BufReader::new(stdout).read_line(&mut line).expect("a line");
    let first: Value = serde_json::from_str(&line).expect("the first line is JSON");
    Served { child, address: first["address"].as_str().expect("an address").to_owned() }
}

impl Served {
    /// Asks the broker to stop, and gives its exit code.
    fn terminate(&mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        assert!(Command::new("sh").args(["-c", &format!("kill -TERM {pid}")]).status().is_ok());
        let mut told = String::new();
        self.child.stderr.take().expect("a pipe").read_to_string(&mut told).expect("text");
        let code = self.child.wait().expect("it ends").code();
        assert!(told.contains("stopping"), "{told}");
        code
    }
}

/// What a command answered.
struct Said {
    code: i32,
    out: String,
    err: String,
}

impl Said {
    /// The only object on stdout.
    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {} {}", self.out, self.err))
    }

    #[track_caller]
    fn done(self) -> Self {
        assert_eq!(self.code, 0, "{} {}", self.out, self.err);
        self
    }

    /// A refusal: code 2, the reason for people and for programs.
    #[track_caller]
    fn refused(&self, reason: &str) {
        assert_eq!(self.code, 2, "{} {}", self.out, self.err);
        assert_eq!(self.json()["error"]["reason"], reason);
        assert!(self.err.starts_with(&format!("baton: {reason}: ")), "{}", self.err);
    }
}

/// A person in a folder, with what says who it is.
struct Person<'a> {
    dir: &'a Path,
    address: String,
    who: Vec<String>,
}

impl Person<'_> {
    fn run(&self, args: &[&str]) -> Said {
        let done = baton()
            .args(args)
            .args(&self.who)
            .args(["--json", "--address", &self.address])
            .current_dir(self.dir)
            .output()
            .expect("the binary starts");
        Said {
            code: done.status.code().expect("an exit code"),
            out: String::from_utf8(done.stdout).expect("text"),
            err: String::from_utf8(done.stderr).expect("text"),
        }
    }
}

const CREATE: &[&str] = &[
    "task",
    "create",
    "--objective",
    "review",
    "--criterion",
    "reviewed",
    "--allow",
    "read",
    "--prohibit",
    "delete",
    "--stop",
    "reviewed",
    "--resource",
    "store://a/**",
    "--operation",
    "read",
    "--expect",
    "report",
];

/// A task with artifact and checkpoint, offered to the reviewer: task and handoff.
fn offered(writer: &Person<'_>, verifier: &str) -> (String, String) {
    std::fs::write(writer.dir.join("source.txt"), "source").expect("writes");
    std::fs::write(writer.dir.join("draft.md"), "draft").expect("writes");
    let created = writer.run(&[CREATE, &["--verifier", verifier]].concat()).done().json();
    let task = created["outcome"]["taskId"].as_str().expect("an id").to_owned();
    let artifact = ["--file", "draft.md", "--id", "draft", "--version", "v1", "--role", "report"];
    writer.run(&[&["task", "artifact", &task], &artifact[..]].concat()).done();
    let state = ["--state", "draft ready", "--next", "review", "--source", "src=source.txt"];
    writer.run(&[&["task", "checkpoint", &task], &state[..]].concat()).done();
    let offer = [
        "handoff",
        "offer",
        &task,
        "--to",
        "agent:reviewer",
        "--reason",
        "ready",
        "--resource",
        "store://a/b",
        "--operation",
        "read",
        "--blind",
    ];
    let offer = writer.run(&offer).done().json();
    (task, offer["outcome"]["handoffId"].as_str().expect("an id").to_owned())
}

fn whole_handoff(writer: &Person<'_>, reviewer: &Person<'_>, verifier: &Person<'_>, name: &str) {
    for (person, capability) in [(writer, "draft"), (reviewer, "review")] {
        let card = ["--name", "A", "--description", "tests", "--capability", capability];
        person.run(&[&["agent", "register"], &card[..]].concat()).done();
    }
    let (task, handoff) = offered(writer, name);
    let listed = reviewer.run(&["handoff", "list"]).done().json();
    assert_eq!(listed["handoffId"], *handoff);
    let claimed = reviewer.run(&["handoff", "claim", &handoff, "--instance", "r-1"]).done().json();
    assert_eq!(claimed["blind"], true);
    // Nothing to echo, nothing said about where to read: nobody is asked.
    assert_eq!(reviewer.run(&["handoff", "ack", &handoff, "--echo"]).code, 64);
    assert_eq!(reviewer.run(&["handoff", "ack", &handoff]).code, 64);
    let wrong = reviewer.run(&["handoff", "ack", &handoff, "--source", "src=draft.md"]);
    wrong.refused("RECEIPT_MISMATCH");
    let violations = wrong.json()["error"]["violations"].clone();
    assert_eq!(violations[0]["field"], "receipt.source_snapshot[src]");
    let files = ["--source", "src=source.txt", "--artifact", "draft=draft.md"];
    let done = reviewer.run(&[&["handoff", "ack", &handoff], &files[..]].concat()).done().json();
    assert_eq!(done["outcome"]["epoch"], "2");
    let late = writer.run(&["task", "report", &task, "--status", "working", "--epoch", "1"]);
    late.refused("STALE_EPOCH");
    reviewer.run(&["task", "report", &task, "--status", "working"]).done();
    reviewer.run(&["task", "report", &task, "--status", "completed"]).done();
    let read = verifier.run(&["task", "readback", &task, "--artifact", "draft"]);
    read.done();
    verifier.run(&["task", "accept", &task, "--comment", "good"]).done();
    let shown = reviewer.run(&["task", "show", &task]).done().json();
    assert_eq!(shown["task"]["axes"]["acceptance"], "BUSINESS_ACCEPTANCE_STATUS_ACCEPTED");
    let watched = reviewer.run(&["task", "watch", &task]).done();
    let events: Vec<Value> =
        watched.out.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    assert!(events.iter().any(|e| e["handoffReceived"]["receiver"] == "agent:reviewer"));
}

// A person who cannot move a task from a shell cannot rescue one either.
#[test]
fn a_whole_handoff_goes_by_commands_alone() {
    let dir = TempDir::new().expect("a folder");
    let mut served = serve(dir.path(), &[]);
    let person = |name: &str| Person {
        dir: dir.path(),
        address: served.address.clone(),
        who: vec!["--as".to_owned(), name.to_owned()],
    };
    let (writer, reviewer) = (person("agent:writer"), person("agent:reviewer"));
    whole_handoff(&writer, &reviewer, &person("agent:checker"), "agent:checker");
    // An absent owner is replaced from what is on record, here nothing.
    let created = writer.run(CREATE).done().json();
    let task = created["outcome"]["taskId"].as_str().expect("an id");
    let takeover = [
        "task",
        "takeover",
        task,
        "--to",
        "agent:reviewer",
        "--reason",
        "gone",
        "--scope-from-owner",
    ];
    let mut lead = person("human:lead");
    lead.run(&takeover).refused("NOT_FOUND");
    lead.who.push("--operator".to_owned());
    lead.run(&takeover).done();
    lead.run(&["task", "freeze", task, "--reason", "look"]).done();
    lead.run(&["task", "lift", task, "--reason", "seen"]).done();
    lead.run(&["task", "cancel", task]).done();
    // What all this has left behind is whole, and an operator can see that.
    let doctor = ["doctor", "--data-dir", "data", "--json"];
    let in_use = alone(dir.path(), &doctor);
    assert_eq!(in_use.code, 1, "{}", in_use.err);
    assert!(in_use.err.contains("in use"), "{}", in_use.err);
    assert_eq!(served.terminate(), Some(0));
    let report = alone(dir.path(), &doctor).done().json();
    assert_eq!(report["ok"], true, "{report}");
    assert_eq!((&report["tasks"], &report["openOffers"]), (&2.into(), &0.into()), "{report}");
    let witness = dir.path().join("data/witness");
    std::fs::remove_file(witness).expect("is removed");
    let damaged = alone(dir.path(), &doctor);
    assert_eq!(damaged.code, 1);
    assert!(damaged.err.contains("witness is missing"), "{}", damaged.err);
    assert_eq!(alone(dir.path(), &["doctor", "--data-dir", "nowhere"]).code, 64);
}

/// A command that needs no broker.
fn alone(dir: &Path, args: &[&str]) -> Said {
    let output = baton().args(args).current_dir(dir).output().expect("the binary starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Said {
        code: output.status.code().unwrap_or(-1),
        out: text(&output.stdout),
        err: text(&output.stderr),
    }
}

// With tokens, nobody is who it says it is.
#[test]
fn a_whole_handoff_goes_with_tokens() {
    let dir = TempDir::new().expect("a folder");
    let token = |id: &str, capability: &str| {
        let args = ["token", "new", id, "--capability", capability, "--json"];
        let made = baton().args(args).current_dir(dir.path()).output().expect("starts");
        let made: Value = serde_json::from_slice(&made.stdout).expect("JSON");
        made["token"].as_str().expect("a token").to_owned()
    };
    let tokens = [
        token("agent:writer", "draft"),
        token("agent:reviewer", "review"),
        token("agent:checker", "check"),
    ];
    let served = serve(dir.path(), &["--principals", "principals.toml"]);
    let person = |who: &[&str]| Person {
        dir: dir.path(),
        address: served.address.clone(),
        who: who.iter().map(|w| (*w).to_owned()).collect(),
    };
    let [writer, reviewer, checker] = tokens.each_ref().map(|t| person(&["--token", t]));
    whole_handoff(&writer, &reviewer, &checker, "agent:checker");
    person(&[]).run(&["task", "list"]).refused("AUTHENTICATION_REQUIRED");
    person(&["--token", "wrong"]).run(&["task", "list"]).refused("INVALID_CREDENTIAL");
    let both = person(&["--token", &tokens[0], "--as", "agent:reviewer"]).run(&["task", "list"]);
    assert_eq!(both.code, 64, "{}", both.err);
}

// A script decides by the exit code alone.
#[test]
fn exit_codes_tell_faults_refusals_and_misuse_apart() {
    let dir = TempDir::new().expect("a folder");
    let mut served = serve(dir.path(), &[]);
    let mut person = Person { dir: dir.path(), address: served.address.clone(), who: Vec::new() };
    assert_eq!(person.run(&["task", "create"]).code, 64);
    assert_eq!(person.run(&["task", "list", "--help"]).code, 0);
    let unknown = "00000000-0000-7000-8000-000000000000";
    person.run(&["task", "show", unknown]).refused("NOT_FOUND");
    person.run(&["task", "show", "no-uuid"]).refused("INVALID_REQUEST");
    let second = baton()
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data"])
        .current_dir(dir.path())
        .output()
        .expect("starts");
    let text = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(1), "{text}");
    assert!(text.contains("data"), "{text}");
    assert_eq!(served.terminate(), Some(0));
    person.address.clone_from(&served.address);
    assert_eq!(person.run(&["task", "list"]).code, 1);
}

// Whoever has read the address may stop the broker at once; a stop that is not in order costs the
// next start a copy of all data.
#[test]
fn a_broker_that_has_told_its_address_stops_in_order() {
    let dir = TempDir::new().expect("a folder");
    for _ in 0..5 {
        assert_eq!(serve(dir.path(), &[]).terminate(), Some(0));
        assert!(dir.path().join("data/clean").exists());
    }
}
