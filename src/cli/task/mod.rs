//! `baton task`: create tasks, keep their state, verify and stop them.
//!
//! What lives here: the subcommands, the owner's flags, what a change prints. What does not: the
//! calls themselves, one file for each group of them.

mod artifact;
mod control;
mod create;
mod list;
mod verify;
mod work;

use clap::{Args, Subcommand};

use crate::cli::connection::{Connection, Session, answered};
use crate::cli::output::{pairs, when};
use crate::cli::{Done, Failed};
use crate::proto::baton::v1 as pb;

/// Creates tasks, keeps their state, verifies and stops them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  baton task create --as agent:writer --objective 'Review the README' --criterion 'report put' \\
      --allow read --allow draft --prohibit delete --stop 'report put' \\
      --resource 'file:///srv/project/**' --operation read --operation draft
  baton task checkpoint TASK --as agent:writer --id cp-1 --state 'draft ready' \\
      --next 'review the draft' --todo review --source 'file:README.md=README.md'
  baton task watch TASK --as agent:writer")]
pub(super) struct Task {
    #[command(flatten)]
    pub(super) connection: Connection,
    #[command(subcommand)]
    command: TaskCommand,
}

#[derive(Debug, Subcommand)]
enum TaskCommand {
    /// Create a task; the caller becomes its originator and first owner.
    Create(create::Create),
    /// List tasks: those that the caller owns and that are open, unless told otherwise.
    List(list::List),
    /// Show one task.
    Show(list::Show),
    /// Print a task's events, one a line, and go on as they happen, until the task closes.
    Watch(list::Watch),
    /// Fix the resume point. By the owner.
    Checkpoint(work::Checkpoint),
    /// Say how the execution stands. By the owner.
    Report(work::Report),
    /// Put a version of an artifact. By the owner.
    Artifact(artifact::Artifact),
    /// Write an artifact's content to stdout, if the broker keeps it.
    Content(artifact::Content),
    /// Record what re-reading an artifact showed. By a verifier that is not its executor.
    Readback(verify::Readback),
    /// Accept the result, which closes the task. By a verifier that is not its executor.
    Accept(verify::Accept),
    /// Reject the result. By a verifier that is not its executor.
    Reject(verify::Reject),
    /// Cancel. By originator, owner or operator.
    Cancel(control::Cancel),
    /// Freeze: no claim, no receipt and no owner's write until it is lifted. By an operator.
    Freeze(control::Reasoned),
    /// Lift a freeze. By an operator.
    Lift(control::Reasoned),
    /// Go on as owner under a new instance, which shuts the old process out. By the owner.
    Resume(control::Resume),
    /// Offer the task of an absent owner to another agent. By an operator, or by the originator
    /// where the task's policy says so.
    Takeover(control::Takeover),
}

impl Task {
    /// Carries out the command.
    pub(super) fn run(&self) -> Done {
        self.connection.run(|session| async move {
            let s = &session;
            match &self.command {
                TaskCommand::Create(create) => create.run(s).await,
                TaskCommand::List(list) => list.run(s).await,
                TaskCommand::Show(show) => show.run(s).await,
                TaskCommand::Watch(watch) => watch.run(s).await,
                TaskCommand::Checkpoint(checkpoint) => checkpoint.run(s).await,
                TaskCommand::Report(report) => report.run(s).await,
                TaskCommand::Artifact(artifact) => artifact.run(s).await,
                TaskCommand::Content(content) => content.run(s).await,
                TaskCommand::Readback(readback) => readback.run(s).await,
                TaskCommand::Accept(accept) => accept.run(s).await,
                TaskCommand::Reject(reject) => reject.run(s).await,
                TaskCommand::Cancel(cancel) => cancel.run(s).await,
                TaskCommand::Freeze(freeze) => freeze.freeze(s).await,
                TaskCommand::Lift(lift) => lift.lift(s).await,
                TaskCommand::Resume(resume) => resume.run(s).await,
                TaskCommand::Takeover(takeover) => takeover.run(s).await,
            }
        })
    }
}

/// What an owner's write is bound to.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Owner")]
pub(super) struct OwnerFlags {
    /// Epoch under which the caller holds the task; the present one if left out.
    #[arg(long)]
    epoch: Option<u64>,
    /// Revision that the write was decided on; the present one if left out.
    #[arg(long)]
    revision: Option<u64>,
    /// The caller's process, as named when it took control; the present one if left out.
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,
}

impl OwnerFlags {
    /// The guard; what was not given is read of the task.
    pub(super) fn guard(&self, task: &pb::Task) -> pb::OwnerGuard {
        pb::OwnerGuard {
            epoch: self.epoch.unwrap_or(task.epoch),
            expected_revision: self.revision.unwrap_or(task.revision),
            instance_id: self.instance.clone().unwrap_or_else(|| task.instance_id.clone()),
        }
    }
}

/// The task as the caller may see it.
pub(super) async fn state(
    session: &Session,
    task_id: &str,
) -> Result<pb::GetTaskStateResponse, Failed> {
    let request = pb::GetTaskStateRequest { task_id: task_id.to_owned() };
    answered(session.tasks().get_task_state(session.ask(request)).await)
}

/// The task alone.
pub(super) async fn present(session: &Session, task_id: &str) -> Result<pb::Task, Failed> {
    Ok(state(session, task_id).await?.task.unwrap_or_default())
}

/// Prints what a change left behind.
pub(super) fn left_behind(outcome: Option<&pb::Outcome>, more: &[(&str, String)]) -> Done {
    let outcome = outcome.cloned().unwrap_or_default();
    let mut all = vec![
        ("task", outcome.task_id),
        ("handoff", outcome.handoff_id),
        ("revision", outcome.revision.to_string()),
        ("epoch", outcome.epoch.to_string()),
        ("event", outcome.event_sequence.to_string()),
        ("lease ends", when(outcome.lease_expires_at.as_ref())),
    ];
    all.extend(more.iter().cloned());
    pairs(&all)
}

/// The digest, computed here, of an artifact whose content the broker keeps and shows to the
/// caller; none if it keeps none.
pub(super) async fn fetched(
    session: &Session,
    task_id: &str,
    artifact_id: &str,
) -> Result<Option<String>, Failed> {
    artifact::digest_of(&artifact::fetch(session, task_id, artifact_id).await?.parts)
}
