//! The owner's work: creating a task, checkpoints, status reports, artifacts.
//!
//! What lives here: the decisions on an owner's writes. What does not: their content, which is
//! checked before (`contract`, `wire`). Invariants: every write passes the guard; RUNTIME_COMPLETED
//! opens verification and accepts nothing; a pause has a checkpoint.

use super::axis::{Acceptance, Axes, Disposition, ReleasedBy, Runtime, runtime_moves};
use super::digest::{Digest, Epoch, Revision};
use super::event::{Event, Recorded, TaskCreated};
use super::id::{ArtifactId, CheckpointId, RequestId, RunId, VersionLabel};
use super::owner::{self, Guard};
use super::refusal::{Reason, Refusal};
use super::task::{ARTIFACTS_MAX, AcceptancePolicy, Artifact, ArtifactState, Task};
use super::{Context, Decision, Judged};

/// The first event of a task. Its content was judged before; the caller owns what it creates.
#[must_use]
pub fn create(created: TaskCreated, request: RequestId, context: &Context<'_>) -> Recorded {
    Recorded {
        sequence: 1,
        time: context.now,
        by: context.caller.party.principal.clone(),
        request: Some(request),
        revision: Revision::new(1),
        epoch: Epoch::new(1),
        previous: None,
        event: Event::TaskCreated(Box::new(created)),
    }
}

/// Fixes the resume point.
#[derive(Clone, Debug)]
pub struct PutCheckpoint {
    /// Epoch, revision, instance.
    pub guard: Guard,
    /// Its id.
    pub id: CheckpointId,
    /// Digest of the finished document.
    pub digest: Digest,
    /// The artifacts that it lists, with version and digest.
    pub artifacts: Vec<(ArtifactId, VersionLabel, Digest)>,
    /// How many units it lists as not done.
    pub not_done_units: u32,
}

/// Judges a checkpoint: it lists exactly the artifacts that stand.
///
/// # Errors
/// The guard fails; the id is the latest checkpoint's; an artifact is missing, unknown, rejected or
/// another version.
pub fn put_checkpoint(task: &Task, command: &PutCheckpoint, context: &Context<'_>) -> Judged {
    owner::check(task, &command.guard, "PutCheckpoint", context)?;
    not_canceling(task)?;
    if task.checkpoint.as_ref().is_some_and(|c| c.id == command.id) {
        return Err(Refusal::new(
            Reason::CheckpointExists,
            format!("checkpoint {} exists in task {}; use a new id", command.id, task.id),
        )
        .with("taskId", &task.id)
        .into());
    }
    standing_artifacts(task, command)?;
    let version = task.checkpoint.as_ref().map_or(1, |c| c.version.saturating_add(1));
    Ok(Decision::event(Event::CheckpointPut {
        id: command.id.clone(),
        version,
        digest: command.digest,
        not_done_units: command.not_done_units,
    }))
}

fn standing_artifacts(task: &Task, command: &PutCheckpoint) -> Result<(), Refusal> {
    let drift = |id: &ArtifactId, why: &str| {
        Refusal::new(
            Reason::ArtifactDrift,
            format!(
                "checkpoint.artifact_descriptors: {id} {why}; read the task and list what stands"
            ),
        )
        .with("taskId", &task.id)
        .with("artifactId", id)
    };
    for (id, version, digest) in &command.artifacts {
        match task.artifacts.get(id) {
            None => return Err(drift(id, "was never put")),
            Some(a) if a.state == ArtifactState::Rejected => {
                return Err(drift(id, "was rejected by a readback"));
            }
            Some(a) if a.version != *version => return Err(drift(id, "stands in another version")),
            Some(a) if a.digest != *digest => return Err(drift(id, "stands with another digest")),
            Some(_) => {}
        }
    }
    let listed = |id: &ArtifactId| command.artifacts.iter().any(|(other, _, _)| other == id);
    let missing =
        task.artifacts.values().find(|a| a.state != ArtifactState::Rejected && !listed(&a.id));
    match missing {
        Some(artifact) => Err(drift(&artifact.id, "stands and is not listed")),
        None => Ok(()),
    }
}

/// Moves the runtime axis.
#[derive(Clone, Debug)]
pub struct ReportStatus {
    /// Epoch, revision, instance.
    pub guard: Guard,
    /// The new value.
    pub runtime: Runtime,
    /// Who ends a pause or block.
    pub released_by: ReleasedBy,
    /// Whether an outside effect may exist that nobody has confirmed.
    pub effect_uncertain: bool,
    /// Digest of the report.
    pub report: Digest,
}

/// Judges a status report.
///
/// # Errors
/// The guard fails, or the axis does not move that way.
pub fn report_status(task: &Task, command: &ReportStatus, context: &Context<'_>) -> Judged {
    owner::check(task, &command.guard, "ReportStatus", context)?;
    let to = command.runtime;
    if task.cancel_requested && to != Runtime::Canceled {
        return Err(owner::canceled(task).into());
    }
    legal_move(task, command)?;
    if to == Runtime::Paused && task.checkpoint.is_none() {
        return Err(Refusal::new(
            Reason::CheckpointRequired,
            format!("task {} cannot pause without a checkpoint; put one first", task.id),
        )
        .with("taskId", &task.id)
        .into());
    }
    let waits = matches!(to, Runtime::Paused | Runtime::Blocked);
    let mut axes = Axes {
        runtime: to,
        released_by: if waits { command.released_by } else { ReleasedBy::Nobody },
        effect_uncertain: command.effect_uncertain,
        ..task.axes
    };
    match to {
        Runtime::RuntimeCompleted => complete(task, &mut axes),
        Runtime::Rejected | Runtime::Canceled => axes.disposition = Disposition::Closed,
        _ => {}
    }
    Ok(Decision::event(Event::StatusReported { axes, report: command.report }))
}

/// The engine has ended. What is to be accepted waits for a verifier; only where nothing is, it
/// closes.
fn complete(task: &Task, axes: &mut Axes) {
    match task.policy.acceptance {
        AcceptancePolicy::Verifier => axes.acceptance = Acceptance::Verifying,
        AcceptancePolicy::NotApplicable => {
            axes.acceptance = Acceptance::NotApplicable;
            axes.disposition = Disposition::Closed;
        }
    }
}

fn legal_move(task: &Task, command: &ReportStatus) -> Result<(), Refusal> {
    let (from, to) = (task.axes.runtime, command.runtime);
    let illegal = |why: String| {
        Refusal::new(Reason::IllegalTransition, why)
            .with("taskId", &task.id)
            .with("from", from.name())
            .with("to", to.name())
    };
    if to == Runtime::Canceled {
        let reconciled =
            task.cancel_requested && from == Runtime::Reconciling && !command.effect_uncertain;
        return if reconciled {
            Ok(())
        } else {
            Err(illegal(
                "CANCELED is reached by CancelTask, and after it by a report from \
                         RECONCILING with no uncertain effect"
                    .to_owned(),
            ))
        };
    }
    if !runtime_moves(from).contains(&to) {
        let legal: Vec<&str> = runtime_moves(from).iter().map(|r| r.name()).collect();
        return Err(illegal(format!(
            "runtime does not move from {} to {}; it moves to {}",
            from.name(),
            to.name(),
            if legal.is_empty() { "nothing".to_owned() } else { legal.join(", ") }
        )));
    }
    if from == Runtime::RuntimeCompleted && task.axes.acceptance != Acceptance::Rejected {
        return Err(illegal("rework begins only after the result was rejected".to_owned()));
    }
    if to == Runtime::RuntimeCompleted && command.effect_uncertain {
        return Err(illegal("an uncertain effect is reconciled before completion".to_owned()));
    }
    Ok(())
}

/// Puts an artifact version.
#[derive(Clone, Debug)]
pub struct PutArtifact {
    /// Epoch, revision, instance.
    pub guard: Guard,
    /// Identifier.
    pub id: ArtifactId,
    /// Version.
    pub version: VersionLabel,
    /// Digest: of the content where the broker keeps it, else as the owner names it.
    pub digest: Digest,
    /// Role.
    pub role: String,
    /// Kind of thing.
    pub kind: String,
    /// Media type.
    pub media_type: String,
    /// Location.
    pub location: String,
    /// Size in bytes.
    pub size_bytes: Option<u64>,
    /// What is hashed.
    pub digested: String,
    /// The run that made it.
    pub run: Option<RunId>,
    /// Digest under which the content is kept.
    pub content: Option<Digest>,
}

/// Judges an artifact: a new one, or a new version of one.
///
/// # Errors
/// The guard fails; the task is no longer at work; this version exists with other content; the
/// limit is reached.
pub fn put_artifact(task: &Task, command: &PutArtifact, context: &Context<'_>) -> Judged {
    owner::check(task, &command.guard, "PutArtifact", context)?;
    not_canceling(task)?;
    if let Some(present) = task.artifacts.get(&command.id) {
        if present.version == command.version {
            return Err(Refusal::new(
                Reason::ArtifactExists,
                format!("{} {} exists already; use a new version", command.id, command.version),
            )
            .with("taskId", &task.id)
            .with("artifactId", &command.id)
            .into());
        }
    } else if task.artifacts.len() >= ARTIFACTS_MAX {
        return Err(Refusal::new(
            Reason::LimitExceeded,
            format!("task {} has {ARTIFACTS_MAX} artifacts, the most it may have", task.id),
        )
        .with("taskId", &task.id)
        .into());
    }
    if task.axes.runtime == Runtime::RuntimeCompleted
        && task.axes.acceptance != Acceptance::Rejected
    {
        return Err(Refusal::new(
            Reason::IllegalTransition,
            "the result is being verified; artifacts change only before completion or after a \
             rejection",
        )
        .with("taskId", &task.id)
        .into());
    }
    let mut axes = task.axes;
    if axes.acceptance == Acceptance::Rejected {
        axes.acceptance = Acceptance::Verifying;
    }
    let artifact = Artifact {
        id: command.id.clone(),
        version: command.version.clone(),
        digest: command.digest,
        role: command.role.clone(),
        kind: command.kind.clone(),
        media_type: command.media_type.clone(),
        location: command.location.clone(),
        size_bytes: command.size_bytes,
        digested: command.digested.clone(),
        put_by: context.caller.party.clone(),
        put_at: context.now,
        put_sequence: task.sequence.saturating_add(1),
        state: ArtifactState::Put,
        run: command.run.clone(),
        content: command.content,
    };
    Ok(Decision::event(Event::ArtifactPut { artifact: Box::new(artifact), axes }))
}

fn not_canceling(task: &Task) -> Result<(), Refusal> {
    if task.cancel_requested { Err(owner::canceled(task)) } else { Ok(()) }
}
