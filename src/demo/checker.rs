//! The checker: reads the whole record of a task and holds it against itself.
//!
//! Invariants: it changes nothing; it believes no digest that it has not computed.

use crate::client::Client;
use crate::proto::baton::v1 as pb;
use crate::wire::canon;

use super::report::{DemoError, Report};

/// What the checker found out about a task.
#[derive(Debug, Default)]
struct Record {
    events: u64,
    receipts: u64,
    owner: String,
    epoch: u64,
}

/// Reads a task and its record, from the first event to the last.
pub(super) async fn play(client: &Client, task_id: &str) -> Result<(), DemoError> {
    let request = pb::GetTaskStateRequest { task_id: task_id.to_owned() };
    let task = client.get_task_state(request).await?.task.unwrap_or_default();
    let record = read(client, &task).await?;
    if record.owner != task.owner || record.epoch != task.epoch {
        let said = format!("{} under epoch {}", record.owner, record.epoch);
        let text = format!("the record says {said}, the task {} {}", task.owner, task.epoch);
        return Err(DemoError::wrong(text));
    }
    let axes = task.axes.unwrap_or_default();
    let text = format!(
        "reads {} events whose chain holds: one owner, {}, epoch {}",
        record.events, task.owner, task.epoch
    );
    Report::new("checked", text)
        .with("events", record.events)
        .with("receipts", record.receipts)
        .with("owner", &task.owner)
        .with("epoch", task.epoch)
        .with("revision", task.revision)
        .with("handoff", super::writer::short(axes.handoff()))
        .with("artifacts", task.artifacts.len())
        .tell();
    Ok(())
}

/// Reads the events up to the task's last one, and who owned it after each.
async fn read(client: &Client, task: &pb::Task) -> Result<Record, DemoError> {
    let request = pb::WatchTaskRequest { task_id: task.task_id.clone(), after_sequence: 0 };
    let mut events = client.watch_task(request).await?;
    let mut record = Record::default();
    let mut previous = String::new();
    let mut revision = 0;
    while record.events < task.last_sequence {
        let next = events.message().await.map_err(crate::client::Failure::from)?;
        let Some(event) = next.and_then(|next| next.event) else {
            return Err(DemoError::wrong(format!("the record ends after {}", record.events)));
        };
        let number = event.sequence;
        let digest = canon::digest_without(&event, &["digest"])
            .map_err(|e| DemoError::wrong(format!("event {number}: {e}")))?;
        let links = number == record.events + 1
            && event.previous_digest == previous
            && event.digest == digest.to_string()
            && event.revision >= revision
            && event.epoch >= record.epoch;
        if !links {
            return Err(DemoError::wrong(format!("event {number} does not follow the one before")));
        }
        record.events = number;
        revision = event.revision;
        record.epoch = event.epoch;
        previous = event.digest;
        match event.detail {
            Some(pb::event::Detail::TaskCreated(created)) => record.owner = created.originator,
            Some(pb::event::Detail::HandoffReceived(received)) => {
                record.owner = received.receiver;
                record.receipts += 1;
            }
            _ => {}
        }
    }
    if previous != task.chain_head {
        return Err(DemoError::wrong("the last event is not the head of the chain"));
    }
    Ok(record)
}
