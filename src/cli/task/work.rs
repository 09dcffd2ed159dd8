//! `baton task checkpoint` and `report`: what an owner says about its work.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::cli::connection::{Session, answered, request_id};
use crate::cli::field::{no_text, not_applicable, source, text};
use crate::cli::output::{named_path, read_message, show};
use crate::cli::task::{OwnerFlags, left_behind, present};
use crate::cli::{Done, Failed};
use crate::proto::baton::v1 as pb;

/// Fixes the resume point, from flags or from a file; flags go before the file.
#[derive(Debug, Args)]
#[command(after_help = "From flags: sets that are not given are empty, which says `none`; the \
artifacts are all that stand; the action that was intended and is not confirmed is the one of \
--pending, or none.

Examples:
  baton task checkpoint TASK --id cp-1 --state 'draft ready' --next 'review the draft' \\
      --done 'draft=artifact:draft' --todo review --source 'file:README.md=README.md'
  baton task checkpoint TASK --file checkpoint.json")]
pub(super) struct Checkpoint {
    /// The task.
    task: String,
    /// The checkpoint as ProtoJSON of baton.v1.Checkpoint; `-` is stdin.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Identifier, unique in the task; `cp-<revision>` if nothing says otherwise.
    #[arg(long)]
    id: Option<String>,
    /// The value that changes the next decision.
    #[arg(long, value_name = "TEXT", required_unless_present = "file")]
    state: Option<String>,
    /// The one next step.
    #[arg(long, value_name = "TEXT", required_unless_present = "file")]
    next: Option<String>,
    /// Completed unit with its evidence: UNIT=EVIDENCE. May be repeated.
    #[arg(long = "done", value_name = "UNIT=EVIDENCE", value_parser = unit)]
    done: Vec<(String, String)>,
    /// Unit that is not started. May be repeated.
    #[arg(long = "todo", value_name = "UNIT")]
    todo: Vec<String>,
    /// File that the work was done on: ENTITY[@VERSION]=PATH. It is read and hashed now; without a
    /// version, the time when it was last written is one. May be repeated.
    #[arg(long = "source", value_name = "ENTITY=PATH", value_parser = named_path)]
    sources: Vec<(String, PathBuf)>,
    /// Action that was intended and is not confirmed.
    #[arg(long, value_name = "TEXT")]
    pending: Option<String>,
    /// The last accepted bounded step.
    #[arg(long, value_name = "TEXT")]
    boundary: Option<String>,
    #[command(flatten)]
    owner: OwnerFlags,
}

fn unit(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((unit, evidence)) if !unit.is_empty() && !evidence.is_empty() => {
            Ok((unit.to_owned(), evidence.to_owned()))
        }
        _ => Err("give UNIT=EVIDENCE; work without evidence belongs to --todo".to_owned()),
    }
}

impl Checkpoint {
    pub(super) async fn run(&self, session: &Session) -> Done {
        let task = present(session, &self.task).await?;
        let mut checkpoint = match &self.file {
            Some(path) => read_message::<pb::Checkpoint>(path)?,
            None => bare(&task),
        };
        self.put(&mut checkpoint)?;
        if checkpoint.id.is_empty() {
            checkpoint.id = format!("cp-{}", task.revision);
        }
        let request = pb::PutCheckpointRequest {
            request_id: request_id(),
            task_id: self.task.clone(),
            guard: Some(self.owner.guard(&task)),
            checkpoint: Some(checkpoint),
        };
        let done = answered(session.tasks().put_checkpoint(session.ask(request)).await)?;
        show(session, &done, |done| {
            let named = done.checkpoint.clone().unwrap_or_default();
            let more = [("checkpoint", named.id), ("digest", named.digest)];
            left_behind(done.outcome.as_ref(), &more)
        })
    }

    fn put(&self, checkpoint: &mut pb::Checkpoint) -> Result<(), Failed> {
        use pb::completed_unit_list_field::State as Completed;
        use pb::not_done_unit_list_field::State as NotDone;
        if let Some(id) = &self.id {
            checkpoint.id.clone_from(id);
        }
        for (field, given) in [
            (&mut checkpoint.current_state, &self.state),
            (&mut checkpoint.next_action, &self.next),
            (&mut checkpoint.pending_action, &self.pending),
            (&mut checkpoint.completed_boundary, &self.boundary),
        ] {
            if let Some(given) = given {
                *field = text(given);
            }
        }
        if !self.done.is_empty() {
            let units = self.done.iter().map(|(unit, evidence)| pb::CompletedUnit {
                unit: unit.clone(),
                evidence: evidence.clone(),
            });
            let list = pb::CompletedUnitList { items: units.collect() };
            let state = Some(Completed::Value(list));
            checkpoint.completed_units = Some(pb::CompletedUnitListField { state });
        }
        if !self.todo.is_empty() {
            let units = self.todo.iter().map(|unit| pb::NotDoneUnit {
                unit: unit.clone(),
                kind: pb::NotDoneKind::NotStarted.into(),
            });
            let list = pb::NotDoneUnitList { items: units.collect() };
            checkpoint.not_done =
                Some(pb::NotDoneUnitListField { state: Some(NotDone::Value(list)) });
        }
        if !self.sources.is_empty() {
            let entities = self.sources.iter().map(|(name, path)| source(name, path));
            let snapshot = pb::SourceSnapshot { entities: entities.collect::<Result<_, _>>()? };
            let state = Some(pb::source_snapshot_field::State::Value(snapshot));
            checkpoint.source_snapshot = Some(pb::SourceSnapshotField { state });
        }
        Ok(())
    }
}

/// A checkpoint that says "none" to every set but the artifacts that stand.
fn bare(task: &pb::Task) -> pb::Checkpoint {
    use pb::artifact_descriptor_list_field::State as Artifacts;
    use pb::blocker_list_field::State as Blockers;
    use pb::completed_unit_list_field::State as Completed;
    use pb::not_done_unit_list_field::State as NotDone;
    use pb::source_snapshot_field::State as Sources;
    use pb::unknown_item_list_field::State as Unknowns;
    let stands = |a: &&pb::ArtifactRecord| a.state != i32::from(pb::ArtifactState::Rejected);
    let items = task.artifacts.iter().filter(stands).filter_map(|a| a.descriptor.clone());
    let artifacts = pb::ArtifactDescriptorList { items: items.collect() };
    pb::Checkpoint {
        source_snapshot: Some(pb::SourceSnapshotField {
            state: Some(Sources::Value(Default::default())),
        }),
        completed_units: Some(pb::CompletedUnitListField {
            state: Some(Completed::Value(Default::default())),
        }),
        not_done: Some(pb::NotDoneUnitListField {
            state: Some(NotDone::Value(Default::default())),
        }),
        artifact_descriptors: Some(pb::ArtifactDescriptorListField {
            state: Some(Artifacts::Value(artifacts)),
        }),
        open_unknown: Some(pb::UnknownItemListField {
            state: Some(Unknowns::Value(Default::default())),
        }),
        blockers: Some(pb::BlockerListField { state: Some(Blockers::Value(Default::default())) }),
        pending_action: no_text(not_applicable()),
        ..Default::default()
    }
}

/// Says how the execution stands.
#[derive(Debug, Args)]
#[command(after_help = "`completed` says that the execution has ended; it accepts nothing.

Examples:
  baton task report TASK --status working --comment 'second chapter'
  baton task report TASK --status blocked --released-by permission \\
      --resume-condition 'access granted' --next-safe-action 'ask again' --evidence ticket:17")]
pub(super) struct Report {
    /// The task.
    task: String,
    /// The runtime axis.
    #[arg(long)]
    status: Runtime,
    /// What is going on, for a person.
    #[arg(long, value_name = "TEXT", default_value = "")]
    comment: String,
    /// What must be the case before work goes on.
    #[arg(long, value_name = "TEXT", default_value = "")]
    resume_condition: String,
    /// The next safe action.
    #[arg(long, value_name = "TEXT", default_value = "")]
    next_safe_action: String,
    /// Who ends the pause or block.
    #[arg(long)]
    released_by: Option<ReleasedBy>,
    /// Reference to the evidence.
    #[arg(long, value_name = "REF", default_value = "")]
    evidence: String,
    /// An outside effect may exist that nobody has confirmed.
    #[arg(long)]
    effect_uncertain: bool,
    #[command(flatten)]
    owner: OwnerFlags,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Runtime {
    Submitted,
    Working,
    Paused,
    Blocked,
    Failed,
    UnknownCause,
    Reconciling,
    Canceled,
    #[value(alias = "runtime-completed")]
    Completed,
    Rejected,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ReleasedBy {
    Client,
    Human,
    Credential,
    Permission,
    Other,
}

impl Report {
    pub(super) async fn run(&self, session: &Session) -> Done {
        let task = present(session, &self.task).await?;
        let report = pb::StatusReport {
            runtime: runtime(self.status).into(),
            comment: self.comment.clone(),
            resume_condition: self.resume_condition.clone(),
            next_safe_action: self.next_safe_action.clone(),
            released_by: released_by(self.released_by).into(),
            evidence: self.evidence.clone(),
            effect_uncertain: self.effect_uncertain,
        };
        let request = pb::ReportStatusRequest {
            request_id: request_id(),
            task_id: self.task.clone(),
            guard: Some(self.owner.guard(&task)),
            report: Some(report),
        };
        let done = answered(session.tasks().report_status(session.ask(request)).await)?;
        show(session, &done, |done| left_behind(done.outcome.as_ref(), &[]))
    }
}

fn runtime(status: Runtime) -> pb::RuntimeStatus {
    match status {
        Runtime::Submitted => pb::RuntimeStatus::Submitted,
        Runtime::Working => pb::RuntimeStatus::Working,
        Runtime::Paused => pb::RuntimeStatus::Paused,
        Runtime::Blocked => pb::RuntimeStatus::Blocked,
        Runtime::Failed => pb::RuntimeStatus::Failed,
        Runtime::UnknownCause => pb::RuntimeStatus::UnknownCause,
        Runtime::Reconciling => pb::RuntimeStatus::Reconciling,
        Runtime::Canceled => pb::RuntimeStatus::Canceled,
        Runtime::Completed => pb::RuntimeStatus::RuntimeCompleted,
        Runtime::Rejected => pb::RuntimeStatus::Rejected,
    }
}

fn released_by(given: Option<ReleasedBy>) -> pb::ReleasedBy {
    match given {
        None => pb::ReleasedBy::Unspecified,
        Some(ReleasedBy::Client) => pb::ReleasedBy::Client,
        Some(ReleasedBy::Human) => pb::ReleasedBy::Human,
        Some(ReleasedBy::Credential) => pb::ReleasedBy::Credential,
        Some(ReleasedBy::Permission) => pb::ReleasedBy::Permission,
        Some(ReleasedBy::Other) => pb::ReleasedBy::Other,
    }
}
