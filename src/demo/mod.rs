//! `baton demo`: the main job on real input, told in four acts.
//!
//! What lives here: the command's arguments, and the parts that its processes play. What does not:
//! anything that the broker or an agent could not do without it. Invariants: broker and agents are
//! processes of their own with principals of their own that meet only at the port; what the user
//! gave is read and never written; every process is ended with the demo, whatever its end is.
//!
//! Start reading at `acts.rs`.

mod acts;
mod checker;
mod false_broker;
mod file;
mod report;
mod reviewer;
mod stage;
mod terms;
mod verifier;
mod writer;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use tokio::sync::mpsc;

use crate::client::{Client, Identity, Token};

pub use report::DemoError;

use report::Report;
use reviewer::Reviewer;
use stage::{Stage, Teller};
use writer::Writer;

/// Files that are taken if none is named.
const FILES: [&str; 2] = ["README.md", "Cargo.toml"];
/// How long the whole demo may take.
const DEMO_LONGEST: Duration = Duration::from_secs(180);
/// How long a call of a part may take; longer than a restart of the broker.
const CALL_LONGEST: Duration = Duration::from_secs(30);
/// Variable that a part gets its token in; arguments would show it to everybody on the machine.
const TOKEN_VARIABLE: &str = "BATON_DEMO_TOKEN";

/// Shows a task changing hands: a broker and its agents as separate processes, on real files.
///
/// A writer drafts an overview of the files and offers the task; a reviewer verifies and goes on.
/// Then a source changes in between, the broker is killed, and the old owner writes late. Nothing
/// is written beside the files. Ends with 0 only if each act ended as it must.
#[derive(Debug, Args)]
pub struct Demo {
    /// Files that the work is about; README.md and Cargo.toml of this directory if left out.
    #[arg(value_name = "FILE")]
    paths: Vec<PathBuf>,
    /// Print one JSON object a step.
    #[arg(long)]
    json: bool,
    /// Break one part, to see that the demo notices.
    #[arg(long = "break", value_name = "PART", hide = true)]
    fault: Option<Fault>,
}

/// A part that does not do its job. The demo must then fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fault {
    /// The reviewer copies the packet's digests.
    CopyInsteadOfHash,
    /// The broker takes any receipt.
    SkipComparison,
    /// The broker loses what it acknowledged.
    ForgetOnCrash,
    /// The broker takes writes of an old epoch.
    IgnoreEpoch,
}

impl Demo {
    /// Plays all acts; true if each ended as it must.
    ///
    /// # Errors
    /// The files cannot be used, or the processes cannot be started.
    pub fn run(&self) -> Result<bool, DemoError> {
        let paths = self.paths()?;
        blocking(async {
            let teller = Teller { json: self.json };
            let mut stage = tokio::select! {
                built = Stage::build(teller, self.fault) => built?,
                () = interrupted() => return Err(DemoError::wrong("interrupted")),
            };
            let played = tokio::select! {
                played = acts::play(&mut stage, &paths) => played,
                () = tokio::time::sleep(DEMO_LONGEST) => {
                    Err(DemoError::wrong("the demo did not come to its end in three minutes"))
                }
                () = interrupted() => Err(DemoError::wrong("interrupted")),
            };
            stage.close().await;
            played
        })
    }

    fn paths(&self) -> Result<Vec<PathBuf>, DemoError> {
        let given = if self.paths.is_empty() {
            FILES.iter().map(PathBuf::from).collect()
        } else {
            self.paths.clone()
        };
        for path in &given {
            if !path.is_file() {
                let text = format!(
                    "{} is no file; start the demo where README.md and Cargo.toml are, or name \
                     files: baton demo FILE...",
                    path.display()
                );
                return Err(DemoError::Usage(text));
            }
        }
        Ok(given)
    }
}

/// One process of the demo. Started by it, not by people.
#[derive(Debug, Args)]
pub struct DemoAgent {
    #[command(subcommand)]
    part: Part,
}

/// Which part a process plays.
#[derive(Debug, Subcommand)]
enum Part {
    /// Drafts and offers.
    Writer {
        /// The broker's address.
        #[arg(long)]
        address: String,
        /// Offer with digests shown.
        #[arg(long)]
        open_view: bool,
        /// Write once more after control has moved.
        #[arg(long)]
        late: bool,
        /// The files.
        paths: Vec<PathBuf>,
    },
    /// Verifies, takes over, reviews.
    Reviewer {
        /// The broker's address.
        #[arg(long)]
        address: String,
        /// The task of the act.
        #[arg(long)]
        task: String,
        /// Wait for a line on stdin between claim and reading.
        #[arg(long)]
        wait: bool,
        /// Copy the packet's digests.
        #[arg(long)]
        copy: bool,
    },
    /// Reads back and accepts.
    Verifier {
        /// The broker's address.
        #[arg(long)]
        address: String,
        /// The task.
        #[arg(long)]
        task: String,
    },
    /// Checks a task's record.
    Checker {
        /// The broker's address.
        #[arg(long)]
        address: String,
        /// The task.
        #[arg(long)]
        task: String,
    },
    /// A broker that does not do its job, in front of one that does.
    FalseBroker {
        /// The address of the one that does.
        #[arg(long)]
        address: String,
        /// What it does not do.
        #[arg(long)]
        fault: Fault,
    },
}

impl DemoAgent {
    /// Plays the part; ends with it, or when stdin ends.
    ///
    /// # Errors
    /// The part could not be played; it has been told on stdout, too.
    pub fn run(&self) -> Result<(), DemoError> {
        let played = blocking(self.part.play());
        if let Err(error) = &played {
            let report = Report::new("failed", error.to_string());
            match error {
                DemoError::Failure(failure) => report.refused(failure),
                _ => report,
            }
            .tell();
        }
        played
    }
}

impl Part {
    async fn play(&self) -> Result<(), DemoError> {
        let mut lines = stdin_lines();
        match self {
            Self::Reviewer { address, task, wait, copy } => {
                let client = client(address).await?;
                let part = Reviewer { task: task.clone(), wait: *wait, copy: *copy };
                part.play(client, lines).await
            }
            other => tokio::select! {
                played = other.play_alone() => played,
                () = async { while lines.recv().await.is_some() {} } => Ok(()),
            },
        }
    }

    async fn play_alone(&self) -> Result<(), DemoError> {
        match self {
            Self::Writer { address, open_view, late, paths } => {
                let part = Writer { paths: paths.clone(), open_view: *open_view, late: *late };
                part.play(client(address).await?).await
            }
            Self::Verifier { address, task } => verifier::play(&client(address).await?, task).await,
            Self::Checker { address, task } => checker::play(&client(address).await?, task).await,
            Self::FalseBroker { address, fault } => {
                false_broker::play(address, *fault, token()?).await
            }
            Self::Reviewer { .. } => Ok(()),
        }
    }
}

fn token() -> Result<String, DemoError> {
    std::env::var(TOKEN_VARIABLE)
        .map_err(|_| DemoError::Usage("the demo starts its processes itself".to_owned()))
}

async fn client(address: &str) -> Result<Client, DemoError> {
    let identity = Identity::Token(Token::new(token()?));
    Ok(Client::connect(address, identity).await?.with_deadline(CALL_LONGEST))
}

/// Lines of stdin. The stream ends with the parent, and with it everything that waits here.
fn stdin_lines() -> mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    // Ends with stdin, or with the process.
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

fn blocking<T>(future: impl Future<Output = Result<T, DemoError>>) -> Result<T, DemoError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(future)
}

async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut signals) => drop(signals.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = terminated => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
