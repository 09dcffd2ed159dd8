//! `baton bench`: how close a durable handoff comes to a bare call on the same machine in the same
//! run.
//!
//! What lives here: the rounds and the table. What does not: the load (`cycle.rs`) and the
//! yardsticks (`echo.rs`, `disk.rs`). Invariants: servers and load are separate processes; echo,
//! sync and cycle alternate within each round, so that a noisy machine hits all three; data is on a
//! real disk.

mod cycle;
mod disk;
mod echo;

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use tonic::transport::{Channel, Endpoint};

use crate::console::{print, say};
use crate::principals::{Entry, append_principal, new_token};
use crate::store;

use cycle::{Agents, Shuttle};
use echo::Bytes;

/// Connections of the load: with one, the transport is the limit.
const CONNECTIONS: usize = 4;

/// Measures the durable handoff cycle (offer, claim, receipt) against a bare gRPC echo with the
/// same bytes and against bare fdatasync, in alternating rounds. `ratio` is cycles / (echoes / 3).
#[derive(Debug, Args)]
pub struct Bench {
    /// Directory for the store of the run; removed afterwards. It must be on a disk.
    #[arg(long, value_name = "DIR", default_value = "./baton-bench")]
    data_dir: PathBuf,
    /// Rounds of each case; the median counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Length of each measurement, in milliseconds.
    #[arg(long, default_value_t = 1500)]
    #[arg(value_parser = clap::value_parser!(u64).range(100..=60_000))]
    span_ms: u64,
    /// Calls in flight, one case each.
    #[arg(long, value_delimiter = ',', default_value = "1,8,64,256")]
    in_flight: Vec<usize>,
    /// Print one JSON object a row.
    #[arg(long)]
    json: bool,
    /// Serve echoes instead; the bench starts itself so.
    #[arg(long, hide = true)]
    serve_echo: bool,
}

/// What one measurement gave.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Measured {
    /// Per second.
    rate: f64,
    /// Milliseconds.
    p50_ms: f64,
    /// Milliseconds.
    p99_ms: f64,
}

impl Measured {
    #[expect(clippy::cast_precision_loss, reason = "counts and times far below 2^52")]
    fn of(mut latencies: Vec<Duration>, took: Duration) -> Self {
        latencies.sort_unstable();
        let at = |per_mille: usize| {
            let place = latencies.len().saturating_sub(1) * per_mille / 1000;
            latencies.get(place).map_or(0.0, |l| l.as_secs_f64() * 1000.0)
        };
        let rate = latencies.len() as f64 / took.as_secs_f64().max(1e-9);
        Self { rate, p50_ms: at(500), p99_ms: at(990) }
    }
}

/// One case over its rounds.
struct Row {
    case: &'static str,
    in_flight: usize,
    rounds: Vec<Measured>,
    ratios: Vec<f64>,
    syncs: u64,
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

impl Row {
    fn new(case: &'static str, in_flight: usize) -> Self {
        Self { case, in_flight, rounds: Vec::new(), ratios: Vec::new(), syncs: 0 }
    }

    fn of(&self, part: impl Fn(&Measured) -> f64) -> f64 {
        median(self.rounds.iter().map(part).collect())
    }

    fn show(&self, json: bool) -> anyhow::Result<()> {
        let (rate, p50, p99) = (self.of(|m| m.rate), self.of(|m| m.p50_ms), self.of(|m| m.p99_ms));
        let ratio = (!self.ratios.is_empty()).then(|| median(self.ratios.clone()));
        let best = self.ratios.iter().copied().fold(f64::NAN, f64::max);
        if json {
            let mut row = serde_json::json!({
                "case": self.case,
                "in_flight": self.in_flight,
                "rounds": self.rounds.len(),
                "per_second": rate.round(),
                "p50_ms": p50,
                "p99_ms": p99,
            });
            if let (Some(ratio), Some(row)) = (ratio, row.as_object_mut()) {
                row.insert("ratio".to_owned(), ratio.into());
                row.insert("ratio_best".to_owned(), best.into());
                row.insert("syncs".to_owned(), self.syncs.into());
            }
            return print(&row.to_string());
        }
        let tail = ratio.map(|r| format!("{r:>8.3}{best:>8.3}{:>9}", self.syncs));
        print(&format!(
            "{:<10}{:>10}{:>12.0}{:>10.3}{:>10.3}{}",
            self.case,
            self.in_flight,
            rate,
            p50,
            p99,
            tail.unwrap_or_default()
        ))
    }
}

/// A child process that is ended with its owner.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(arguments: &[&str]) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("this program has no path")?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("a server cannot be started")?;
        let stdout = child.stdout.take().context("a server without stdout")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let address = serde_json::from_str::<serde_json::Value>(&line)
            .ok()
            .and_then(|first| Some(first.get("address")?.as_str()?.to_owned()));
        let server = Self { child, address: address.clone().unwrap_or_default() };
        address.context("a server did not say its address")?;
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; there is nothing left to do then.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Bench {
    /// Runs all rounds and prints the table.
    ///
    /// # Errors
    /// A server cannot be started, a call failed, or the directory is not on a disk.
    pub fn run(&self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        if self.serve_echo {
            return runtime.block_on(echo::serve());
        }
        std::fs::create_dir_all(&self.data_dir)
            .with_context(|| format!("cannot make {}", self.data_dir.display()))?;
        disk::refuse_memory(&self.data_dir)?;
        let result = runtime.block_on(self.rounds());
        std::fs::remove_dir_all(&self.data_dir)
            .with_context(|| format!("cannot remove {}", self.data_dir.display()))?;
        result
    }

    async fn rounds(&self) -> anyhow::Result<()> {
        let (agents, principals) = self.agents()?;
        let store = self.data_dir.join("store");
        let store_arg = store.display().to_string();
        let broker = Server::start(&[
            "serve",
            "--json",
            "--listen",
            "127.0.0.1:0",
            "--data-dir",
            &store_arg,
            "--principals",
            &principals,
        ])?;
        let echo = Server::start(&["bench", "--serve-echo"])?;
        let (to_broker, to_echo) = (connect(&broker).await?, connect(&echo).await?);
        let calls = bytes_of_calls(&agents, &to_broker).await?;
        self.head(&calls)?;
        for in_flight in &self.in_flight {
            let mut shuttles = Vec::new();
            for n in 0..*in_flight {
                let channel = to_broker.get(n % CONNECTIONS).context("no connection")?.clone();
                shuttles.push(Shuttle::make(agents.clone(), channel).await?);
            }
            let rows = self.case(*in_flight, shuttles, &calls, &to_echo, &store).await?;
            for row in rows {
                row.show(self.json)?;
            }
        }
        Ok(())
    }

    async fn case(
        &self,
        in_flight: usize,
        mut shuttles: Vec<Shuttle>,
        calls: &[Bytes],
        to_echo: &[Channel],
        store: &std::path::Path,
    ) -> anyhow::Result<[Row; 3]> {
        let span = Duration::from_millis(self.span_ms);
        let mut echoes = Row::new("echo", in_flight);
        let mut syncs = Row::new("fdatasync", 1);
        let mut cycles = Row::new("cycle", in_flight);
        for _ in 0..self.rounds {
            let echo = echo::load(to_echo, calls, in_flight, span).await?;
            syncs.rounds.push(disk::syncs(&self.data_dir, span / 3)?);
            let before = store::acknowledged(store)?;
            let (back, cycle) = cycle::load(shuttles, span).await?;
            shuttles = back;
            let groups = store::acknowledged(store)?.0.saturating_sub(before.0);
            // Each group syncs the journal once.
            cycles.syncs = cycles.syncs.saturating_add(groups);
            cycles.ratios.push(cycle.rate / (echo.rate / 3.0));
            cycles.rounds.push(cycle);
            echoes.rounds.push(echo);
        }
        Ok([echoes, syncs, cycles])
    }

    fn head(&self, calls: &[Bytes]) -> anyhow::Result<()> {
        say(&format!(
            "calls of a cycle, bytes sent/answered: {}; {} rounds of {} ms, medians",
            calls
                .iter()
                .map(|c| format!("{}/{}", c.sent, c.answered))
                .collect::<Vec<_>>()
                .join(", "),
            self.rounds,
            self.span_ms
        ));
        if self.json {
            return Ok(());
        }
        print("case       in flight  per second    p50 ms    p99 ms   ratio    best    syncs")
    }

    /// Two agents of different accounts, in a principals file of the run.
    fn agents(&self) -> anyhow::Result<(Agents, String)> {
        let file = self.data_dir.join("principals.toml");
        if file.exists() {
            std::fs::remove_file(&file)?;
        }
        let mut tokens = Vec::new();
        let names = ["agent:writer", "agent:reviewer"].map(str::to_owned);
        for name in &names {
            let (token, token_sha256) = new_token()?;
            let entry = Entry { id: name.clone(), token_sha256, ..Entry::default() };
            append_principal(&file, entry)?;
            tokens.push(token);
        }
        let tokens =
            tokens.try_into().map_err(|_| anyhow::anyhow!("two agents have two tokens"))?;
        Ok((Agents { names, tokens }, file.display().to_string()))
    }
}

async fn connect(server: &Server) -> anyhow::Result<Vec<Channel>> {
    let mut channels = Vec::new();
    for _ in 0..CONNECTIONS {
        let endpoint = Endpoint::from_shared(server.address.clone())?.tcp_nodelay(true);
        channels.push(endpoint.connect().await.context("a server does not answer")?);
    }
    Ok(channels)
}

/// The bytes of the three calls of a cycle, measured on one.
async fn bytes_of_calls(agents: &Agents, channels: &[Channel]) -> anyhow::Result<Vec<Bytes>> {
    let channel = channels.first().context("no connection")?.clone();
    let mut shuttle = Shuttle::make(agents.clone(), channel).await?;
    Ok(shuttle.go().await?.to_vec())
}
