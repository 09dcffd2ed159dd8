//! Verification: readbacks and the decision on acceptance.
//!
//! What lives here: who may verify and what acceptance needs. What does not: executing. Invariants:
//! nobody verifies what it, or another principal of its account, put or has owned since; acceptance
//! follows from passing readbacks of what is expected, never from a report. Source: design rule 7.

use super::axis::{Acceptance, Axes, Disposition, HandoffStatus, Runtime};
use super::claim::ended;
use super::digest::{Digest, Revision};
use super::event::{Event, ReadbackResult};
use super::handoff::EndReason;
use super::id::{ArtifactId, VersionLabel};
use super::refusal::{Reason, Refusal, Violation};
use super::task::{Artifact, ArtifactState, Party, Task};
use super::{Context, Decision, Judged, owner};

/// Records what re-reading an artifact showed.
#[derive(Clone, Debug)]
pub struct RecordReadback {
    /// The artifact.
    pub artifact: ArtifactId,
    /// The version that was read.
    pub version: VersionLabel,
    /// The digest of that version, as recorded.
    pub digest: Digest,
    /// The result.
    pub result: ReadbackResult,
    /// The value that was seen, if it is a digest.
    pub observed: Option<Digest>,
    /// Digest of the evidence.
    pub evidence: Digest,
}

/// Judges a readback. It needs no epoch: it binds by the artifact's digest, and it goes on while an
/// offer is open. One that fails makes an open offer that binds the artifact stale.
///
/// # Errors
/// The caller is no independent verifier; the artifact is unknown or has moved; PASS without having
/// seen the recorded digest.
pub fn record_readback(task: &Task, command: &RecordReadback, context: &Context<'_>) -> Judged {
    verifier(task, context)?;
    let artifact = bound_artifact(task, command)?;
    independent_of(task, artifact, context)?;
    if task.axes.runtime != Runtime::Reconciling {
        owner::open(task)?;
    }
    if command.result == ReadbackResult::Pass && command.observed != Some(command.digest) {
        return Err(Refusal::new(
            Reason::ArtifactDrift,
            format!(
                "a passing readback of {} must have observed its recorded digest; report FAIL \
                 otherwise",
                command.artifact
            ),
        )
        .with("artifactId", &command.artifact)
        .into());
    }
    let state = match command.result {
        ReadbackResult::Pass => ArtifactState::Verified,
        ReadbackResult::Fail => ArtifactState::Rejected,
        ReadbackResult::Inconclusive => artifact.state,
    };
    let mut events = vec![Event::ReadbackRecorded {
        artifact: command.artifact.clone(),
        version: command.version.clone(),
        verifier: context.caller.party.principal.clone(),
        result: command.result,
        evidence: command.evidence,
        state,
    }];
    let falls = state == ArtifactState::Rejected && artifact.state != ArtifactState::Rejected;
    if let (true, Some(open)) = (falls, task.open_handoff()) {
        events.push(ended(open, HandoffStatus::Stale, Some(EndReason::ArtifactChanged)));
    }
    Ok(Decision { events, ..Decision::default() })
}

fn bound_artifact<'t>(task: &'t Task, command: &RecordReadback) -> Result<&'t Artifact, Refusal> {
    let Some(artifact) = task.artifacts.get(&command.artifact) else {
        return Err(Refusal::new(
            Reason::NotFound,
            format!("artifact {} is not known in task {}", command.artifact, task.id),
        )
        .with("artifactId", &command.artifact));
    };
    if artifact.version == command.version && artifact.digest == command.digest {
        return Ok(artifact);
    }
    Err(Refusal::new(
        Reason::ArtifactDrift,
        format!(
            "artifact {} stands in version {}, which is not what was read; read it again",
            artifact.id, artifact.version
        ),
    )
    .with("artifactId", &artifact.id)
    .with("version", &artifact.version))
}

/// Decides acceptance.
#[derive(Clone, Debug)]
pub struct DecideAcceptance {
    /// The revision that it was judged on.
    pub revision: Revision,
    /// True: accepted. False: rejected.
    pub accept: bool,
    /// Close the task with a rejection.
    pub close: bool,
    /// Digest of the decision.
    pub decision: Digest,
}

/// Judges a decision on acceptance.
///
/// # Errors
/// The caller is no independent verifier; the revision is another one; verification is not open;
/// something expected is missing or not read back.
pub fn decide_acceptance(task: &Task, command: &DecideAcceptance, context: &Context<'_>) -> Judged {
    verifier(task, context)?;
    independent(task, context)?;
    owner::at_revision(task, command.revision, "DecideAcceptance")?;
    owner::open(task)?;
    super::claim::not_frozen(task)?;
    let ready = task.axes.runtime == Runtime::RuntimeCompleted
        && task.axes.acceptance == Acceptance::Verifying;
    if !ready {
        return Err(Refusal::new(
            Reason::IllegalTransition,
            format!(
                "task {} is {} and not open for verification; its owner reports \
                 RUNTIME_COMPLETED first",
                task.id,
                task.axes.runtime.name()
            ),
        )
        .with("taskId", &task.id)
        .into());
    }
    if command.accept {
        met(task)?;
    }
    let axes = Axes {
        acceptance: if command.accept { Acceptance::Accepted } else { Acceptance::Rejected },
        disposition: if command.accept || command.close {
            Disposition::Closed
        } else {
            Disposition::Open
        },
        ..task.axes
    };
    let mut events = Vec::new();
    if let (Disposition::Closed, Some(open)) = (axes.disposition, task.open_handoff()) {
        events.push(ended(open, HandoffStatus::Stale, None));
    }
    events.push(Event::AcceptanceDecided {
        axes,
        verifier: context.caller.party.principal.clone(),
        decision: command.decision,
    });
    Ok(Decision { events, ..Decision::default() })
}

/// What acceptance needs: every expected artifact, each read back, nothing rejected, nothing left
/// to do.
fn met(task: &Task) -> Result<(), Refusal> {
    let standing = |role: &str| {
        task.artifacts
            .values()
            .filter(|a| a.role == role && a.state == ArtifactState::Verified)
            .count()
    };
    let unread: Vec<Violation> = task
        .artifacts
        .values()
        .filter(|a| a.state == ArtifactState::Put)
        .map(|a| Violation {
            field: format!("artifacts[{}]", a.id),
            description: format!("version {} has no passing readback", a.version),
        })
        .collect();
    if !unread.is_empty() {
        return Err(Refusal::new(
            Reason::ReadbackRequired,
            format!("task {} has artifacts that nobody has read back; record readbacks", task.id),
        )
        .with("taskId", &task.id)
        .with_violations(unread));
    }
    let mut unmet: Vec<Violation> = task
        .policy
        .expected
        .iter()
        .filter(|(role, count)| standing(role) < **count as usize)
        .map(|(role, count)| Violation {
            field: format!("policy.expected[{role}]"),
            description: format!("{} of {count} verified artifacts of this role", standing(role)),
        })
        .collect();
    if let Some(checkpoint) = task.checkpoint.as_ref().filter(|c| c.not_done_units > 0) {
        unmet.push(Violation {
            field: "checkpoint.not_done".to_owned(),
            description: format!("{} units are not done", checkpoint.not_done_units),
        });
    }
    if unmet.is_empty() {
        return Ok(());
    }
    Err(Refusal::new(
        Reason::AcceptanceNotMet,
        format!("task {} does not meet its contract; finish what is listed", task.id),
    )
    .with("taskId", &task.id)
    .with_violations(unmet))
}

fn verifier(task: &Task, context: &Context<'_>) -> Result<(), Refusal> {
    let caller = &context.caller.party.principal;
    if task.policy.verifiers.contains(caller) {
        return Ok(());
    }
    Err(Refusal::new(
        Reason::NotVerifier,
        format!("{caller} is not a verifier of task {}; its policy names who is", task.id),
    )
    .with("taskId", &task.id))
}

/// The caller did not put this artifact version and has not owned the task since it was put, and
/// neither has a principal of its account.
fn independent_of(task: &Task, artifact: &Artifact, context: &Context<'_>) -> Result<(), Refusal> {
    let since = task.past_owners.iter().filter(|p| p.until_sequence > artifact.put_sequence);
    let executors = since.map(|p| &p.party).chain([&artifact.put_by, &task.owner]);
    not_among(executors, task, context)
}

/// The caller neither owns nor owned the task nor put any of its artifacts.
fn independent(task: &Task, context: &Context<'_>) -> Result<(), Refusal> {
    let puts = task.artifacts.values().map(|a| &a.put_by);
    let owners = task.past_owners.iter().map(|p| &p.party);
    not_among(puts.chain(owners).chain([&task.owner]), task, context)
}

fn not_among<'p>(
    mut executors: impl Iterator<Item = &'p Party>,
    task: &Task,
    context: &Context<'_>,
) -> Result<(), Refusal> {
    let caller = &context.caller.party;
    let same = |p: &&Party| p.principal == caller.principal || p.account == caller.account;
    match executors.find(same) {
        None => Ok(()),
        Some(executor) => Err(Refusal::new(
            Reason::VerifierNotIndependent,
            format!(
                "{} may not verify what {} executed; let a verifier of another account do it",
                caller.principal, executor.principal
            ),
        )
        .with("taskId", &task.id)),
    }
}
