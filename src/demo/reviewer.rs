//! The reviewer: claims, opens and hashes everything itself, acknowledges, reviews.
//!
//! Invariants: no digest in its receipt comes from the packet; its review is made from the files.

use std::sync::Arc;

use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use crate::client::packet::{self, artifacts_of, sources_of, text_of};
use crate::client::{Agent, Client, Duties, Failure, Offered, Owned, Readings, Step, Verdict};
use crate::proto::baton::v1 as pb;

use super::file::File;
use super::report::{DemoError, Report};
use super::terms::{self, DRAFT, REVIEW, Stand};

/// How the reviewer plays.
#[derive(Clone, Debug)]
pub(super) struct Reviewer {
    /// The task of the act. What an act that went wrong left open is not this one's.
    pub(super) task: String,
    /// Wait for a line on stdin between claim and reading.
    pub(super) wait: bool,
    /// Copy the packet's digests instead of hashing: an agent as it must not be.
    pub(super) copy: bool,
}

impl Reviewer {
    /// Plays until the review is done or stdin ends.
    pub(super) async fn play(
        self,
        client: Client,
        mut lines: mpsc::UnboundedReceiver<String>,
    ) -> Result<(), DemoError> {
        let desk = Arc::new(Desk { part: self, go: CancellationToken::new(), done: Notify::new() });
        let ended = Arc::clone(&desk);
        let shutdown = async move {
            loop {
                tokio::select! {
                    () = ended.done.notified() => return,
                    line = lines.recv() => match line {
                        Some(_) => ended.go.cancel(),
                        None => return,
                    }
                }
            }
        };
        let instance_id = format!("reviewer-{}", std::process::id());
        Agent::new(client, instance_id).run(desk, shutdown).await?;
        Ok(())
    }
}

struct Desk {
    part: Reviewer,
    /// Told once; a claim that is made again does not wait again.
    go: CancellationToken,
    done: Notify,
}

impl Duties for Desk {
    async fn verify(&self, offered: &Offered) -> Verdict {
        if !self.is_mine(&offered.packet.task_id) {
            let reason = "it is of another act".to_owned();
            return Verdict::Reject { element: pb::ReceiptElement::Unspecified, reason };
        }
        if self.part.wait {
            self.go.cancelled().await;
        }
        let read = if self.part.copy { copied(offered) } else { read(offered).await };
        match read {
            Ok(readings) => Verdict::Receipt(readings),
            Err((element, reason)) => {
                Report::new("failed", format!("cannot read what it was offered: {reason}")).tell();
                Verdict::Reject { element, reason }
            }
        }
    }

    async fn work(
        &self,
        mut owned: Owned,
        resume: pb::GetResumeSetResponse,
    ) -> Result<(), Failure> {
        let checkpoint = resume.checkpoint.unwrap_or_default();
        // Taken up again after a restart: there may be nothing left but to wait for the verifier.
        let left = names(checkpoint.not_done.as_ref(), REVIEW);
        if !left || !self.is_mine(owned.task_id()) {
            return Ok(());
        }
        // A review that an earlier process put without a checkpoint stands; this is the next one.
        let standing = resume.task.iter().flat_map(|t| &t.artifacts).filter_map(|a| {
            let descriptor = a.descriptor.as_ref().filter(|d| d.id == REVIEW)?;
            descriptor.version.parse::<u32>().ok()
        });
        let version = standing.max().unwrap_or(0) + 1;
        let next = text_of(checkpoint.next_action.as_ref()).unwrap_or_default();
        Report::new("took_over", format!("is the owner now and goes on with: {next}"))
            .with("epoch", owned.epoch())
            .with("next_action", next)
            .tell();
        review(&mut owned, &checkpoint, version).await?;
        self.done.notify_one();
        Ok(())
    }

    fn observe(&self, step: &Step<'_>) {
        match step {
            Step::Claimed { offered } if self.is_mine(&offered.packet.task_id) => claimed(offered),
            Step::Acknowledged { received } => acknowledged(received),
            Step::Mismatched { offered, failure } if self.is_mine(&offered.packet.task_id) => {
                Report::new("acknowledged", "sent what it read, and it is not what was offered")
                    .refused(failure)
                    .tell();
            }
            Step::Stopped { task_id, failure } if self.is_mine(task_id) => {
                Report::new("stopped", failure.message.clone()).refused(failure).tell();
            }
            // A claim that is dropped is missed by whoever waits for its receipt.
            _ => {}
        }
    }
}

impl Desk {
    fn is_mine(&self, task_id: &str) -> bool {
        self.part.task == task_id
    }
}

/// True if the units that are not done have this one.
fn names(not_done: Option<&pb::NotDoneUnitListField>, unit: &str) -> bool {
    match not_done.and_then(|field| field.state.as_ref()) {
        Some(pb::not_done_unit_list_field::State::Value(list)) => {
            list.items.iter().any(|item| item.unit == unit)
        }
        _ => false,
    }
}

fn claimed(offered: &Offered) {
    let shown = sources_of(offered.packet.source_snapshot.as_ref())
        .iter()
        .filter(|source| source.digest.is_some())
        .count();
    Report::new("claimed", format!("claimed it; the packet shows {shown} source digests"))
        .with("blind", offered.blind)
        .with("digests_shown", shown)
        .tell();
}

fn acknowledged(received: &pb::AcknowledgeHandoffResponse) {
    let outcome = received.outcome.clone().unwrap_or_default();
    let receipt = received.receipt.clone().unwrap_or_default();
    let fetched = receipt
        .assurances
        .iter()
        .filter(|a| a.assurance() == pb::EchoAssurance::FetchedAndHashed)
        .count();
    let text = format!("named {fetched} digests that it was not shown: the receipt matches");
    Report::new("acknowledged", text)
        .with("epoch", outcome.epoch)
        .with("revision", outcome.revision)
        .with("fetched_and_hashed", fetched)
        .with("replayed", outcome.replayed)
        .tell();
}

type Unread = (pb::ReceiptElement, String);

/// Opens and hashes every source and every artifact of the packet.
async fn read(offered: &Offered) -> Result<Readings, Unread> {
    let mut readings = Readings { observed_at: Some(packet::now()), ..Default::default() };
    for source in sources_of(offered.packet.source_snapshot.as_ref()) {
        let file = File::fetch(&source.location)
            .map_err(|reason| (pb::ReceiptElement::SourceSnapshot, reason))?;
        readings.sources.push(pb::SourceEcho {
            entity_id: source.entity_id.clone(),
            version: file.version,
            digest: Some(file.digest),
        });
    }
    for artifact in artifacts_of(offered.packet.artifact_descriptors.as_ref()) {
        let unread = |reason: String| (pb::ReceiptElement::Artifacts, reason);
        let parts = offered.content(&artifact.id).await.map_err(|f| unread(f.to_string()))?;
        let digest = packet::content_digest(&parts).map_err(|e| unread(e.to_string()))?;
        readings.artifacts.push(pb::ArtifactEcho {
            id: artifact.id.clone(),
            version: artifact.version.clone(),
            digest,
        });
    }
    Ok(readings)
}

/// What the packet says, without a look at anything.
fn copied(offered: &Offered) -> Result<Readings, Unread> {
    let source = |s: &pb::SourceEntity| pb::SourceEcho {
        entity_id: s.entity_id.clone(),
        version: s.version.clone(),
        digest: s.digest.clone(),
    };
    let artifact = |a: &pb::ArtifactDescriptor| pb::ArtifactEcho {
        id: a.id.clone(),
        version: a.version.clone(),
        digest: a.digest.clone().unwrap_or_default(),
    };
    let packet = &offered.packet;
    Ok(Readings {
        sources: sources_of(packet.source_snapshot.as_ref()).iter().map(source).collect(),
        artifacts: artifacts_of(packet.artifact_descriptors.as_ref())
            .iter()
            .map(artifact)
            .collect(),
        observed_at: Some(packet::now()),
    })
}

/// The work: compare the draft with the files, say what is to be remarked, and end.
async fn review(
    owned: &mut Owned,
    checkpoint: &pb::Checkpoint,
    version: u32,
) -> Result<(), Failure> {
    let request =
        pb::GetArtifactRequest { task_id: owned.task_id().to_owned(), artifact_id: DRAFT.into() };
    let draft = owned.client().get_artifact(request).await?;
    let sources = sources_of(checkpoint.source_snapshot.as_ref());
    let remarks = remarks(sources, &draft.parts);
    let mut content = format!("# Review\n\n{} files read again.\n\n", sources.len());
    if remarks.is_empty() {
        content.push_str("- figures and outlines of the draft are those of the files\n");
    }
    for remark in &remarks {
        content.push_str(&format!("- {remark}\n"));
    }
    let (descriptor, part) = terms::artifact(REVIEW, version, content);
    let put = owned.put_artifact(descriptor, vec![part]).await?;
    let text = format!("read the files again and wrote a review with {} remarks", remarks.len());
    Report::new("reviewed", text).with("digest", &put.digest).with("remarks", &remarks).tell();
    let stand = Stand {
        id: REVIEW,
        current_state: "draft and review written",
        done: &[DRAFT, REVIEW],
        not_done: &[],
        next_action: "read both artifacts back and decide",
    };
    let draft = draft.artifact.and_then(|record| record.descriptor);
    let artifacts = draft.into_iter().chain([put]).collect();
    owned.checkpoint(terms::checkpoint(&stand, sources.to_vec(), artifacts)).await?;
    owned
        .report_status(pb::StatusReport {
            runtime: pb::RuntimeStatus::RuntimeCompleted.into(),
            comment: "review delivered".to_owned(),
            ..Default::default()
        })
        .await?;
    Report::new("completed", "reports RUNTIME_COMPLETED, which accepts nothing yet").tell();
    Ok(())
}

/// What is to be remarked on the files, and on a draft whose figures are not theirs.
fn remarks(sources: &[pb::SourceEntity], draft: &[pb::ArtifactPart]) -> Vec<String> {
    let draft: String =
        draft.iter().map(|part| String::from_utf8_lossy(packet::part_bytes(part))).collect();
    let mut remarks = Vec::new();
    for source in sources {
        match File::fetch(&source.location) {
            Ok(file) if draft.contains(&file.overview()) => remarks.extend(file.remarks()),
            Ok(file) => remarks.push(format!("{}: the draft's figures are not its own", file.name)),
            Err(reason) => remarks.push(reason),
        }
    }
    remarks
}
