//! `baton task list`, `show` and `watch`.

use clap::Args;
use tokio_stream::StreamExt as _;

use crate::cli::connection::{Session, answered};
use crate::cli::output::{pairs, proto_json, show, table, when, word};
use crate::cli::task::state;
use crate::cli::{Done, print};
use crate::proto::baton::v1 as pb;
use pb::event::Detail;

/// Lists tasks, the latest first.
#[derive(Debug, Args)]
pub(super) struct List {
    /// All tasks of the namespace. Operators only.
    #[arg(long, conflicts_with = "created")]
    all: bool,
    /// Tasks that the caller created, whoever owns them.
    #[arg(long)]
    created: bool,
}

impl List {
    pub(super) async fn run(&self, session: &Session) -> Done {
        let filter = match (self.all, self.created) {
            (true, _) => pb::TaskFilter::All,
            (_, true) => pb::TaskFilter::Created,
            _ => pb::TaskFilter::OwnedOpen,
        };
        let mut rows = Vec::new();
        let mut page_token = String::new();
        loop {
            let request =
                pb::ListTasksRequest { page_size: 100, page_token, filter: filter.into() };
            let page = answered(session.tasks().list_tasks(session.ask(request)).await)?;
            for task in page.tasks {
                if session.json {
                    print(&proto_json(&task)?)?;
                } else {
                    rows.push(row(task));
                }
            }
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        if session.json {
            return Ok(());
        }
        let titles =
            ["TASK", "OWNER", "RUNTIME", "ACCEPTANCE", "HANDOFF", "EPOCH", "REVISION", "CLASS"];
        table(titles, &rows)
    }
}

fn row(task: pb::Task) -> [String; 8] {
    let axes = task.axes.unwrap_or_default();
    let mut owner = task.owner;
    if task.owner_absent {
        owner.push_str(" (absent)");
    }
    let mut runtime = word(axes.runtime().as_str_name(), "RUNTIME_STATUS_");
    if task.freeze.is_some() {
        runtime.push_str(" (frozen)");
    }
    [
        task.task_id,
        owner,
        runtime,
        word(axes.acceptance().as_str_name(), "BUSINESS_ACCEPTANCE_STATUS_"),
        word(axes.handoff().as_str_name(), "HANDOFF_STATUS_"),
        task.epoch.to_string(),
        task.revision.to_string(),
        task.task_class,
    ]
}

/// Shows one task.
#[derive(Debug, Args)]
pub(super) struct Show {
    /// The task.
    task: String,
}

impl Show {
    pub(super) async fn run(&self, session: &Session) -> Done {
        let found = state(session, &self.task).await?;
        show(session, &found, |found| {
            let task = found.task.clone().unwrap_or_default();
            if task.view() == pb::TaskView::Receiver {
                pairs(&[("task", task.task_id.clone()), ("class", task.task_class.clone())])?;
                let note =
                    "Offered to you: until your receipt, `baton handoff show` shows the rest.";
                return Ok(print(note)?);
            }
            about(&task, &found.status_report.clone().unwrap_or_default())?;
            artifacts(&task)
        })
    }
}

fn about(task: &pb::Task, report: &pb::StatusReport) -> Done {
    let axes = task.axes.unwrap_or_default();
    let scope = task.scope.clone().unwrap_or_default();
    let handoff = task.handoff.clone().unwrap_or_default();
    let checkpoint = task.checkpoint.clone().unwrap_or_default();
    let frozen = task.freeze.clone().unwrap_or_default();
    let updated = task.last_updated.clone().unwrap_or_default();
    let yes = |is: bool| if is { "yes".to_owned() } else { String::new() };
    let to = if handoff.next_owner.is_empty() {
        String::new()
    } else {
        format!("{} to {}", handoff.handoff_id, handoff.next_owner)
    };
    pairs(&[
        ("task", task.task_id.clone()),
        ("context", task.context_id.clone()),
        ("class", task.task_class.clone()),
        ("originator", task.originator.clone()),
        ("owner", task.owner.clone()),
        ("owner absent", yes(task.owner_absent)),
        ("instance", task.instance_id.clone()),
        ("epoch", task.epoch.to_string()),
        ("revision", task.revision.to_string()),
        ("runtime", word(axes.runtime().as_str_name(), "RUNTIME_STATUS_")),
        ("acceptance", word(axes.acceptance().as_str_name(), "BUSINESS_ACCEPTANCE_STATUS_")),
        ("handoff", word(axes.handoff().as_str_name(), "HANDOFF_STATUS_")),
        ("latest handoff", to),
        ("approval", word(axes.approval().as_str_name(), "APPROVAL_STATUS_")),
        ("disposition", word(axes.disposition().as_str_name(), "DISPOSITION_")),
        ("released by", word(axes.released_by().as_str_name(), "RELEASED_BY_")),
        ("effect uncertain", yes(axes.effect_uncertain)),
        ("cancel asked for", yes(task.cancel_requested)),
        ("frozen by", frozen.by),
        ("frozen because", frozen.reason),
        ("contract", format!("{} {}", task.contract_version, task.contract_digest)),
        ("resources", scope.resources.join(" ")),
        ("operations", scope.operations.join(" ")),
        ("prohibited", scope.prohibitions.join(" ")),
        ("scope ends", when(scope.expires_at.as_ref())),
        ("checkpoint", checkpoint.id),
        ("units not done", task.not_done_units.to_string()),
        ("report", report.comment.clone()),
        ("next safe action", report.next_safe_action.clone()),
        ("created", when(task.created_at.as_ref())),
        ("updated", when(updated.time.as_ref())),
        ("updated by", updated.by),
        ("events", task.last_sequence.to_string()),
    ])
}

fn artifacts(task: &pb::Task) -> Done {
    if task.artifacts.is_empty() {
        return Ok(());
    }
    let rows = task.artifacts.iter().map(|record| {
        let artifact = record.descriptor.clone().unwrap_or_default();
        [
            artifact.id,
            artifact.version,
            artifact.role,
            word(record.state().as_str_name(), "ARTIFACT_STATE_"),
            record.put_by.clone(),
            artifact.digest.unwrap_or_default(),
        ]
    });
    print("")?;
    table(["ARTIFACT", "VERSION", "ROLE", "STATE", "BY", "DIGEST"], &rows.collect::<Vec<_>>())
}

/// Prints a task's events.
#[derive(Debug, Args)]
pub(super) struct Watch {
    /// The task.
    task: String,
    /// Events after this number.
    #[arg(long, value_name = "N", default_value_t = 0)]
    after: u64,
}

impl Watch {
    pub(super) async fn run(&self, session: &Session) -> Done {
        let request =
            pb::WatchTaskRequest { task_id: self.task.clone(), after_sequence: self.after };
        let events = session.tasks().watch_task(session.follow(request)).await;
        let mut events = answered(events)?;
        while let Some(event) = events.next().await {
            let event = answered(event.map(tonic::Response::new))?.event.unwrap_or_default();
            if session.json {
                print(&proto_json(&event)?)?;
                continue;
            }
            print(&format!(
                "{:>4}  {}  r{} e{}  {}  {}",
                event.sequence,
                when(event.time.as_ref()),
                event.revision,
                event.epoch,
                event.principal,
                event.detail.as_ref().map(told).unwrap_or_default(),
            ))?;
        }
        Ok(())
    }
}

/// What an event says, in one line.
fn told(detail: &Detail) -> String {
    let runtime = |axes: &Option<pb::Axes>| {
        word(axes.unwrap_or_default().runtime().as_str_name(), "RUNTIME_STATUS_")
    };
    match detail {
        Detail::TaskCreated(_) => "task created".to_owned(),
        Detail::CheckpointPut(e) => {
            format!("checkpoint {}", e.checkpoint.clone().unwrap_or_default().id)
        }
        Detail::StatusReported(e) => format!("status {}", runtime(&e.axes)),
        Detail::ArtifactPut(e) => {
            let put = e.artifact.clone().unwrap_or_default().descriptor.unwrap_or_default();
            format!("artifact {} {}", put.id, put.version)
        }
        Detail::ReadbackRecorded(e) => {
            let result = word(e.result().as_str_name(), "READBACK_RESULT_");
            format!("readback of {} {}: {result}", e.artifact_id, e.version)
        }
        Detail::AcceptanceDecided(e) => {
            let axes = e.axes.unwrap_or_default();
            word(axes.acceptance().as_str_name(), "BUSINESS_ACCEPTANCE_STATUS_")
        }
        Detail::TaskCanceled(e) => format!("canceled, now {}", runtime(&e.axes)),
        Detail::TaskFrozen(_) => "frozen".to_owned(),
        Detail::FreezeLifted(_) => "freeze lifted".to_owned(),
        Detail::HandoffOffered(e) => {
            let handoff = e.handoff.clone().unwrap_or_default();
            format!("offered to {}: handoff {}", handoff.next_owner, handoff.handoff_id)
        }
        Detail::HandoffClaimed(e) => format!("claimed: handoff {}", e.handoff_id),
        Detail::ClaimLapsed(e) => format!("claim of {} lapsed: {}", e.claimant, e.handoff_id),
        Detail::ReceiptRefused(e) => {
            let names: Vec<_> =
                e.elements().map(|n| word(n.as_str_name(), "RECEIPT_ELEMENT_")).collect();
            format!("receipt of {} differs in {}", e.receiver, names.join(", "))
        }
        Detail::HandoffReceived(e) => {
            format!("received by {}: handoff {}", e.receiver, e.handoff_id)
        }
        Detail::HandoffEnded(e) => {
            let status = word(e.status().as_str_name(), "HANDOFF_STATUS_");
            format!("handoff {} {status}", e.handoff_id)
        }
        Detail::HandoffReturned(e) => format!("refused by {}, offered on", e.refused_by),
        Detail::OwnershipResumed(e) => format!("owner goes on as {}", e.instance_id),
        Detail::OwnerAbsent(_) => "owner absent".to_owned(),
        Detail::WriteRefused(e) => {
            format!("{} refused: {}", e.rpc, word(e.reason().as_str_name(), "REASON_"))
        }
    }
}
