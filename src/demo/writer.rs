//! The writer: reads the files, drafts, checkpoints, offers, and hands over.
//!
//! Invariants: it writes nothing but to the broker; after its offer it only looks, unless it is
//! asked to play the owner that comes back late.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::client::packet::{self, Transfer};
use crate::client::{Client, Owned};
use crate::proto::baton::v1 as pb;

use super::file::File;
use super::report::{DemoError, Report};
use super::terms::{self, DRAFT, REVIEW, REVIEWER, Stand};

/// How long the writer waits for the end of its offer.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(50);

/// How the writer plays.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    /// The files.
    pub(super) paths: Vec<PathBuf>,
    /// Offer with digests shown.
    pub(super) open_view: bool,
    /// Write once more after control has moved.
    pub(super) late: bool,
}

impl Writer {
    pub(super) async fn play(&self, client: Client) -> Result<(), DemoError> {
        let files = File::read_all(&self.paths).map_err(DemoError::Usage)?;
        let instance_id = format!("writer-{}", std::process::id());
        let created = client.create_task(terms::creation(&files, &instance_id)).await?;
        let mut owned = Owned::new(client.clone(), &instance_id, created.outcome.as_ref())?;
        let names: Vec<_> = files.iter().map(|f| f.name.as_str()).collect();
        Report::new("created", format!("made a task about {}", names.join(" and ")))
            .with("task_id", owned.task_id())
            .with("epoch", owned.epoch())
            .tell();
        draft(&mut owned, &files).await?;
        let offered = self.offer(&mut owned, &files).await?;
        let handoff = ended(&client, &offered).await?;
        let status = handoff.status();
        Report::new("ended", format!("sees that its offer ended: {}", short(status)))
            .with("status", short(status))
            .tell();
        if self.late {
            write_late(&mut owned).await;
        }
        Ok(())
    }

    async fn offer(&self, owned: &mut Owned, files: &[File]) -> Result<String, DemoError> {
        let resume = owned.resume_set().await?;
        let transfer = Transfer {
            to: REVIEWER.to_owned(),
            reason: "the draft needs a reviewer who reads the files".to_owned(),
            stop_condition: vec!["review delivered".to_owned(), "a file changed".to_owned()],
            scope: terms::reviewers_scope(files),
            external_side_effects: Vec::new(),
            resume_invariants: terms::invariants(DRAFT),
        };
        let packet = packet::packet_from(&resume, transfer)?;
        let blind = if self.open_view { pb::BlindMode::Open } else { pb::BlindMode::Blind };
        let options = pb::OfferOptions { blind: blind.into(), ..Default::default() };
        let offered = owned.offer(packet, Some(options)).await?;
        let outcome = offered.outcome.unwrap_or_default();
        Report::new("offered", format!("offered it to {REVIEWER} with a narrower scope"))
            .with("task_id", owned.task_id())
            .with("handoff_id", &outcome.handoff_id)
            .with("blind", offered.blind)
            .with("packet_digest", &offered.packet_digest)
            .with("events", outcome.event_sequence)
            .tell();
        Ok(outcome.handoff_id)
    }
}

async fn draft(owned: &mut Owned, files: &[File]) -> Result<(), DemoError> {
    let mut content = "# Overview\n".to_owned();
    for file in files {
        content.push('\n');
        content.push_str(&file.overview());
    }
    let (descriptor, part) = terms::artifact(DRAFT, 1, content);
    let put = owned.put_artifact(descriptor, vec![part]).await?;
    let bytes: usize = files.iter().map(File::len).sum();
    let text = format!("read {} files ({bytes} bytes) and drafted an overview", files.len());
    Report::new("drafted", text)
        .with("size_bytes", put.size_bytes)
        .with("digest", &put.digest)
        .tell();
    let stand = Stand {
        id: DRAFT,
        current_state: "draft written, not reviewed",
        done: &[DRAFT],
        not_done: &[REVIEW],
        next_action: "review the draft against the files",
    };
    let sources = files.iter().map(File::entity).collect();
    owned.checkpoint(terms::checkpoint(&stand, sources, vec![put])).await?;
    Report::new("checkpointed", "fixed a checkpoint: draft done, review not done").tell();
    Ok(())
}

/// Waits for the end of the offer.
async fn ended(client: &Client, handoff_id: &str) -> Result<pb::Handoff, DemoError> {
    let end = Instant::now() + PATIENCE;
    loop {
        let request = pb::GetHandoffRequest { handoff_id: handoff_id.to_owned() };
        let handoff = client.get_handoff(request).await?.handoff.unwrap_or_default();
        if handoff.status() != pb::HandoffStatus::Pending {
            return Ok(handoff);
        }
        if Instant::now() >= end {
            return Err(DemoError::wrong("nobody answered the writer's offer"));
        }
        sleep(LOOK).await;
    }
}

/// The owner that comes back late writes as if nothing had happened.
async fn write_late(owned: &mut Owned) {
    let (descriptor, part) = terms::artifact("late", 1, "# Late\n".to_owned());
    let report = match owned.put_artifact(descriptor, vec![part]).await {
        Ok(_) => Report::new("late_write", "wrote although it is no longer the owner"),
        Err(failure) => Report::new("late_write", "writes under its old epoch").refused(&failure),
    };
    report.with("epoch", owned.epoch()).tell();
}

/// The status without its prefix.
pub(super) fn short(status: pb::HandoffStatus) -> &'static str {
    let name = status.as_str_name();
    name.strip_prefix("HANDOFF_STATUS_").unwrap_or(name)
}
