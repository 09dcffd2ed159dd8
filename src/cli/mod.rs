//! The command line.
//!
//! What lives here: flags, output, exit codes. What does not: decisions, the wire. Invariants:
//! stdout is data and stderr is talk; with `--json` every line of stdout is one JSON object; exit
//! codes are 0 done, 1 fault, 2 refused, 64 usage.

mod agent;
mod connection;
mod demo;
mod doctor;
mod field;
mod handoff;
mod output;
mod proto;
mod serve;
mod task;
mod token;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tonic::Code;

use crate::client::error::Failure;
pub(crate) use crate::console::{print, say};

/// Moves control of a task from one agent to another by a verified receipt.
#[derive(Debug, Parser)]
#[command(name = "baton", version, about)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the broker.
    Serve(serve::Serve),
    /// Make a principal with its token.
    Token(token::Token),
    /// Register agents and list them.
    Agent(agent::Agent),
    /// Create tasks, keep their state, verify and stop them.
    Task(Box<task::Task>),
    /// Move control of a task: offer, claim, acknowledge, reject, withdraw.
    Handoff(Box<handoff::Handoff>),
    /// Write the protobuf files that clients are generated from.
    Proto(proto::Proto),
    /// Check the store of a stopped broker.
    Doctor(doctor::Doctor),
    /// Show a task changing hands between real processes, on real files.
    Demo(crate::demo::Demo),
    /// Play one part of the demo.
    #[command(hide = true)]
    DemoAgent(crate::demo::DemoAgent),
    /// Measure durable handoffs against bare calls and bare syncs on this machine.
    Bench(Box<crate::bench::Bench>),
}

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub enum Failed {
    /// Something does not work. Exit code 1.
    Fault(anyhow::Error),
    /// A call did not succeed. Exit code 2 if the broker said no, 1 if it could not answer.
    Call(Box<Failure>),
    /// The command line or the configuration cannot be used. Exit code 64.
    Usage(String),
}

impl From<anyhow::Error> for Failed {
    fn from(error: anyhow::Error) -> Self {
        Self::Fault(error)
    }
}

/// What a command answers.
pub type Done = Result<(), Failed>;

/// Parses the command line and carries it out.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are answers; anything else is a wrong command line.
            let code = if error.use_stderr() { 64 } else { 0 };
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let json = arguments.command.json();
    let done = match arguments.command {
        Command::Serve(serve) => serve.run(),
        Command::Token(token) => token.run(),
        Command::Agent(agent) => agent.run(),
        Command::Task(task) => task.run(),
        Command::Handoff(handoff) => handoff.run(),
        Command::Proto(proto) => proto.run(),
        Command::Doctor(doctor) => doctor.run(),
        Command::Demo(demo) => demo::run(&demo),
        Command::DemoAgent(part) => demo::play(&part),
        Command::Bench(bench) => bench.run().map_err(Failed::from),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failed::Fault(error)) => told(&format!("{error:#}"), 1),
        Err(Failed::Call(failure)) => {
            if json {
                // Whoever closed stdout does not read the reason either.
                let _ = print(&output::failure_json(&failure));
            }
            told(&output::failure_text(&failure), if is_refusal(&failure) { 2 } else { 1 })
        }
        Err(Failed::Usage(message)) => told(&message, 64),
    }
}

impl Command {
    /// True if a failed call is told as JSON.
    fn json(&self) -> bool {
        match self {
            Self::Agent(agent) => agent.connection.json(),
            Self::Task(task) => task.connection.json(),
            Self::Handoff(handoff) => handoff.connection.json(),
            Self::Serve(_)
            | Self::Token(_)
            | Self::Proto(_)
            | Self::Doctor(_)
            | Self::Demo(_)
            | Self::DemoAgent(_)
            | Self::Bench(_) => false,
        }
    }
}

/// True if the broker judged the call and said no; false if it, or nobody, could answer.
fn is_refusal(failure: &Failure) -> bool {
    let unanswered = matches!(
        failure.code,
        Code::Unavailable
            | Code::Internal
            | Code::DataLoss
            | Code::Unknown
            | Code::DeadlineExceeded
    );
    failure.reason.is_some() && !unanswered
}

fn told(message: &str, code: u8) -> ExitCode {
    say(&format!("baton: {message}"));
    ExitCode::from(code)
}
