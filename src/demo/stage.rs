//! The stage: the broker and the agents as processes, and what they report.
//!
//! What lives here: starting, reading, killing; a folder that goes with the demo; telling steps.
//! What does not: the story. Invariants: a process is killed by its own id when its value is
//! dropped; every wait has a bound; tokens are handed over in the environment and never printed.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::report::{DemoError, Report};
use super::terms::{CHECKER, REVIEWER, VERIFIER, WRITER};
use super::{Fault, TOKEN_VARIABLE};

/// How long a process may take for its next step.
const STEP_LONGEST: Duration = Duration::from_secs(40);

/// Who tells what stands around the processes' own steps.
pub(super) const DEMO: &str = "demo";
/// Steps that only a program is told.
const QUIET: [&str; 3] = ["created", "checkpointed", "listening"];

/// Tells the steps to the user.
#[derive(Clone, Copy, Debug)]
pub(super) struct Teller {
    /// One JSON object a line.
    pub(super) json: bool,
}

impl Teller {
    /// A heading; no step.
    pub(super) fn headline(self, text: &str) {
        if !self.json {
            write(text);
        }
    }

    /// A step of an act. Act 0 is what stands around the acts.
    pub(super) fn step(self, act: u32, actor: &str, report: &Report, ok: bool) {
        if self.json {
            let mut line = Map::new();
            line.insert("act".to_owned(), json!(act));
            line.insert("actor".to_owned(), json!(actor));
            line.insert("step".to_owned(), json!(report.step));
            line.insert("ok".to_owned(), json!(ok));
            line.insert("reason".to_owned(), json!(report.reason));
            line.insert("text".to_owned(), json!(report.text));
            line.extend(report.facts.clone());
            return write(&Value::Object(line).to_string());
        }
        if ok && QUIET.contains(&report.step.as_str()) {
            return;
        }
        let reason = report.reason.as_ref().map_or_else(String::new, |r| format!(" -> {r}"));
        if actor == DEMO {
            let mark = if ok { "=> as it must be:" } else { "=> NOT AS IT MUST BE:" };
            return write(&format!("  {mark} {}{reason}", report.text));
        }
        let mark = if ok { "" } else { "   <= not as it must be" };
        write(&format!("  {actor:9} {}{reason}{mark}", report.text));
    }
}

fn write(line: &str) {
    // A closed stdout is no reason to fail; the exit code still tells.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// A folder of the demo's own, removed with it.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, DemoError> {
        use std::os::unix::fs::DirBuilderExt as _;
        let path = std::env::temp_dir().join(format!("baton-demo-{}", uuid::Uuid::new_v4()));
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is left to the system's own cleaning.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The broker's process. Its log goes to a file, which is shown if it does not start.
struct Broker {
    child: Child,
    address: String,
}

/// Everything that the acts need.
pub(super) struct Stage {
    pub(super) teller: Teller,
    pub(super) fault: Option<Fault>,
    broker: Broker,
    false_broker: Option<Actor>,
    front: String,
    tokens: BTreeMap<&'static str, String>,
    binary: PathBuf,
    // Dropped last: the processes above use it.
    folder: Folder,
}

impl Stage {
    /// Makes the principals and starts the broker.
    pub(super) async fn build(teller: Teller, fault: Option<Fault>) -> Result<Self, DemoError> {
        let binary = std::env::current_exe()?;
        let folder = Folder::new()?;
        let mut tokens = BTreeMap::new();
        for (name, id) in principals() {
            tokens.insert(name, token(&binary, &folder.0, name, id).await?);
        }
        let broker = serve(&binary, &folder.0, "127.0.0.1:0", fault).await?;
        let front = broker.address.clone();
        let mut stage =
            Self { teller, fault, broker, false_broker: None, front, tokens, binary, folder };
        if let Some(fault @ (Fault::SkipComparison | Fault::IgnoreEpoch)) = fault {
            stage.put_in_front(fault).await?;
        }
        Ok(stage)
    }

    /// The address that the agents know.
    pub(super) fn address(&self) -> &str {
        &self.front
    }

    /// A broker that does not do its job, between the agents and the one that does.
    async fn put_in_front(&mut self, fault: Fault) -> Result<(), DemoError> {
        let name = match fault {
            Fault::SkipComparison => "skip-comparison",
            _ => "ignore-epoch",
        };
        let mut actor = self.start(0, "checker", &["false-broker", "--fault", name], &[])?;
        self.front = actor.expect("listening", None).await?.text_of("address").to_owned();
        self.false_broker = Some(actor);
        Ok(())
    }

    /// Starts an agent. `name` is its principal.
    pub(super) fn start(
        &self,
        act: u32,
        name: &'static str,
        part: &[&str],
        paths: &[PathBuf],
    ) -> Result<Actor, DemoError> {
        let mut command = command(&self.binary, &self.folder.0);
        command.arg("demo-agent").args(part).args(["--address", &self.front]);
        if !paths.is_empty() {
            command.arg("--").args(paths);
        }
        command.env(TOKEN_VARIABLE, self.tokens.get(name).map_or("", String::as_str));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().ok_or_else(|| DemoError::wrong("no pipe to an agent"))?;
        Ok(Actor {
            act,
            name,
            teller: self.teller,
            stdin: child.stdin.take(),
            lines: BufReader::new(stdout).lines(),
            child,
        })
    }

    /// Kills the broker by SIGKILL, as a crash would.
    pub(super) async fn kill_broker(&mut self) -> Result<u32, DemoError> {
        let id = self.broker.child.id().unwrap_or_default();
        self.broker.child.kill().await?;
        Ok(id)
    }

    /// Ends what still runs, and waits until it has: only then can its folder be removed.
    pub(super) async fn close(mut self) {
        // What cannot be killed any more has ended.
        let _ = timeout(STEP_LONGEST, self.broker.child.kill()).await;
        if let Some(front) = &mut self.false_broker {
            let _ = timeout(STEP_LONGEST, front.child.kill()).await;
        }
    }

    /// Starts the broker again, on the same port and data.
    pub(super) async fn restart_broker(&mut self) -> Result<(), DemoError> {
        let address = self.broker.address.trim_start_matches("http://").to_owned();
        self.broker = serve(&self.binary, &self.folder.0, &address, self.fault).await?;
        Ok(())
    }

    /// Copies of files, in a folder of their own.
    pub(super) fn copies(&self, paths: &[PathBuf]) -> Result<Vec<PathBuf>, DemoError> {
        let mut copies = Vec::new();
        for (n, path) in paths.iter().enumerate() {
            let folder = self.folder.0.join(format!("copy-{n}"));
            fs::create_dir_all(&folder)?;
            let copy = folder.join(path.file_name().unwrap_or_default());
            // Not `fs::copy`, which would also copy that a file cannot be written.
            fs::write(&copy, fs::read(path)?)?;
            copies.push(copy);
        }
        Ok(copies)
    }
}

fn principals() -> [(&'static str, &'static str); 4] {
    [("writer", WRITER), ("reviewer", REVIEWER), ("verifier", VERIFIER), ("checker", CHECKER)]
}

/// A command of this binary, without the user's settings for a broker.
fn command(binary: &Path, folder: &Path) -> Command {
    let mut command = Command::new(binary);
    for (key, _) in std::env::vars_os().filter(|(k, _)| k.to_string_lossy().starts_with("BATON_")) {
        command.env_remove(key);
    }
    command.current_dir(folder).stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Makes a principal with an account of its own, as a user would, and gives its token.
async fn token(binary: &Path, folder: &Path, name: &str, id: &str) -> Result<String, DemoError> {
    let mut command = command(binary, folder);
    command.args(["token", "new", id, "--account", &format!("account-{name}"), "--json"]);
    command.arg("--file").arg(folder.join("principals.toml"));
    if id == CHECKER {
        command.arg("--operator");
    }
    let made = timeout(STEP_LONGEST, command.output()).await.map_err(|_| too_long("token"))??;
    let line: Value = serde_json::from_slice(&made.stdout).unwrap_or_default();
    line.get("token").and_then(Value::as_str).map(str::to_owned).ok_or_else(|| {
        DemoError::wrong(format!("no token: {}", String::from_utf8_lossy(&made.stderr)))
    })
}

/// Starts the broker and waits for its address.
async fn serve(
    binary: &Path,
    folder: &Path,
    listen: &str,
    fault: Option<Fault>,
) -> Result<Broker, DemoError> {
    let log = folder.join("broker.log");
    let mut command = command(binary, folder);
    command.args(["serve", "--json", "--listen", listen]);
    command.arg("--data-dir").arg(folder.join("data"));
    command.arg("--principals").arg(folder.join("principals.toml"));
    if fault == Some(Fault::ForgetOnCrash) {
        command.args(["--memory", "--test-mode"]);
    }
    command.stdout(Stdio::piped()).stderr(fs::File::create(&log)?);
    let mut child = command.spawn()?;
    let stdout = child.stdout.take().ok_or_else(|| DemoError::wrong("no pipe to the broker"))?;
    let mut lines = BufReader::new(stdout).lines();
    let first =
        timeout(STEP_LONGEST, lines.next_line()).await.map_err(|_| too_long("broker"))??;
    let line: Value = first.and_then(|line| serde_json::from_str(&line).ok()).unwrap_or_default();
    match line.get("address").and_then(Value::as_str) {
        Some(address) => Ok(Broker { child, address: address.to_owned() }),
        None => {
            let said = fs::read_to_string(&log).unwrap_or_default();
            Err(DemoError::wrong(format!("the broker does not start: {said}")))
        }
    }
}

fn too_long(who: &str) -> DemoError {
    DemoError::wrong(format!("{who}: no answer in {} s", STEP_LONGEST.as_secs()))
}

/// A process that plays a part.
pub(super) struct Actor {
    act: u32,
    name: &'static str,
    teller: Teller,
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    stdin: Option<ChildStdin>,
}

impl Actor {
    /// Waits for a step and tells it and those before it. `reason` is the refusal that the step
    /// must meet; the steps before it may meet none.
    pub(super) async fn expect(
        &mut self,
        step: &str,
        reason: Option<&str>,
    ) -> Result<Report, DemoError> {
        loop {
            let report = self.next().await?;
            let here = report.step == step;
            let wanted = if here { reason } else { None };
            let ok = report.step != "failed" && report.reason.as_deref() == wanted;
            self.teller.step(self.act, self.name, &report, ok);
            if !ok {
                let met = report.reason.as_deref().unwrap_or("no refusal");
                let must = wanted.unwrap_or("none");
                let text = format!(
                    "{} met {met} in step {:?}, where {must} must be: {}",
                    self.name, report.step, report.text
                );
                return Err(DemoError::wrong(text));
            }
            if here {
                return Ok(report);
            }
        }
    }

    async fn next(&mut self) -> Result<Report, DemoError> {
        loop {
            let line = timeout(STEP_LONGEST, self.lines.next_line()).await;
            match line.map_err(|_| too_long(self.name))?? {
                None => return Err(DemoError::wrong(format!("{} ended too early", self.name))),
                Some(line) => {
                    if let Some(report) = Report::read(&line) {
                        return Ok(report);
                    }
                }
            }
        }
    }

    /// Lets a waiting process go on.
    pub(super) async fn go_on(&mut self) -> Result<(), DemoError> {
        if let Some(stdin) = &mut self.stdin {
            stdin.write_all(b"go\n").await?;
            stdin.flush().await?;
        }
        Ok(())
    }

    /// Waits for the end of a process that ends by itself.
    pub(super) async fn end(mut self) -> Result<(), DemoError> {
        let status = timeout(STEP_LONGEST, self.child.wait()).await;
        let status = status.map_err(|_| too_long(self.name))??;
        if status.success() {
            Ok(())
        } else {
            Err(DemoError::wrong(format!("{} ended with {status}", self.name)))
        }
    }
}
