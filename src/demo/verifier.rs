//! The verifier: reads the artifacts back and decides.
//!
//! Invariant: it accepts only what it hashed itself, and it made none of it.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::client::{Client, packet};
use crate::proto::baton::v1 as pb;

use super::report::{DemoError, Report};

/// How long the verifier waits for the task to be completed.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(50);

/// Reads every artifact of a task back and accepts or rejects it.
pub(super) async fn play(client: &Client, task_id: &str) -> Result<(), DemoError> {
    let task = completed(client, task_id).await?;
    let mut revision = task.revision;
    let mut all = true;
    for record in &task.artifacts {
        let descriptor = record.descriptor.clone().unwrap_or_default();
        let request = pb::GetArtifactRequest {
            task_id: task_id.to_owned(),
            artifact_id: descriptor.id.clone(),
        };
        let parts = client.get_artifact(request).await?.parts;
        let observed = packet::content_digest(&parts)?;
        let recorded = descriptor.digest.unwrap_or_default();
        let result =
            if observed == recorded { pb::ReadbackResult::Pass } else { pb::ReadbackResult::Fail };
        all &= result == pb::ReadbackResult::Pass;
        let request = pb::RecordReadbackRequest {
            task_id: task_id.to_owned(),
            artifact_id: descriptor.id.clone(),
            version: descriptor.version,
            artifact_digest: recorded,
            evidence: Some(pb::ReadbackEvidence {
                method: "fetched the content and hashed it".to_owned(),
                observed,
                observed_at: Some(packet::now()),
                result: result.into(),
                ..Default::default()
            }),
            ..Default::default()
        };
        let outcome = client.record_readback(request).await?.outcome.unwrap_or_default();
        revision = outcome.revision;
        Report::new("read_back", format!("read {:?} back and hashed it", descriptor.id))
            .with("artifact_id", &descriptor.id)
            .with("pass", result == pb::ReadbackResult::Pass)
            .tell();
    }
    let accept = all && !task.artifacts.is_empty();
    let verdict = if accept {
        pb::BusinessAcceptanceStatus::Accepted
    } else {
        pb::BusinessAcceptanceStatus::Rejected
    };
    let request = pb::DecideAcceptanceRequest {
        task_id: task_id.to_owned(),
        expected_revision: revision,
        decision: Some(pb::AcceptanceDecision {
            verdict: verdict.into(),
            comment: "both artifacts read back".to_owned(),
            acceptance_contract_ref: "demo-acceptance@1".to_owned(),
            ..Default::default()
        }),
        ..Default::default()
    };
    match client.decide_acceptance(request).await {
        Ok(_) => Report::new("decided", "decides, as someone who made none of it"),
        Err(failure) => Report::new("decided", failure.message.clone()).refused(&failure),
    }
    .with("accepted", accept)
    .tell();
    Ok(())
}

/// The task, once its owner has reported the end of the work.
async fn completed(client: &Client, task_id: &str) -> Result<pb::Task, DemoError> {
    let end = Instant::now() + PATIENCE;
    loop {
        let request = pb::GetTaskStateRequest { task_id: task_id.to_owned() };
        let task = client.get_task_state(request).await?.task.unwrap_or_default();
        let axes = task.axes.unwrap_or_default();
        if axes.acceptance() == pb::BusinessAcceptanceStatus::Verifying {
            return Ok(task);
        }
        if Instant::now() >= end {
            return Err(DemoError::wrong("the task was not completed in time"));
        }
        sleep(LOOK).await;
    }
}
