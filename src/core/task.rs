//! The task: what one command may read and change, and how events fold into it.
//!
//! What lives here: the aggregate, `apply`, and the check of its invariants. What does not:
//! judging; `apply` records what already happened and cannot fail. Invariants: at most one owner;
//! at most one open handoff; `sequence` has no gap; axes as in [`Axes::check`]. Start reading at
//! [`Task`].

use std::collections::{BTreeMap, BTreeSet};

use super::axis::{Axes, HandoffStatus};
use super::digest::{Digest, Epoch, Revision};
use super::event::{Event, HandoffReceived, Recorded, TaskCreated};
use super::handoff::Handoff;
use super::id::{
    ArtifactId, CheckpointId, ContextId, HandoffId, InstanceId, PrincipalId, RequestId, RunId,
    TaskId, VersionLabel,
};
use super::scope::Scope;
use super::time::{Span, Timestamp};

/// Different owners that one task may have had. All are remembered: each may read up to its
/// handoff, and none may verify what it executed. An offer that would pass the limit is refused.
pub const PAST_OWNERS_MAX: usize = 256;

/// Claimants of open offers that one task remembers.
pub const SHOWN_MAX: usize = 256;

/// Artifacts that one task may hold.
pub const ARTIFACTS_MAX: usize = 1024;

/// A principal and the account that it belongs to. Two principals of one account are not
/// independent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Party {
    /// The principal.
    pub principal: PrincipalId,
    /// The account.
    pub account: String,
}

/// Who accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptancePolicy {
    /// Nothing is to be accepted.
    NotApplicable,
    /// One of the verifiers decides.
    Verifier,
}

/// What the contract settles about the task's handling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Who accepts.
    pub acceptance: AcceptancePolicy,
    /// Who may verify.
    pub verifiers: BTreeSet<PrincipalId>,
    /// Who may approve.
    pub approvers: BTreeSet<PrincipalId>,
    /// Handoffs are blind by default.
    pub trust_boundary: bool,
    /// How long the owner may stay silent.
    pub owner_lease: Option<Span>,
    /// The originator may offer on behalf of an absent owner.
    pub originator_may_offer: bool,
    /// Artifact roles and counts that acceptance needs.
    pub expected: BTreeMap<String, u32>,
    /// A cancel must reconcile first.
    pub side_effecting: bool,
}

/// How an artifact version stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArtifactState {
    /// Put, not verified.
    Put,
    /// A readback passed.
    Verified,
    /// A readback failed.
    Rejected,
}

/// The present version of an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// Identifier.
    pub id: ArtifactId,
    /// Version.
    pub version: VersionLabel,
    /// Digest.
    pub digest: Digest,
    /// The part that it plays.
    pub role: String,
    /// Kind of thing.
    pub kind: String,
    /// Media type.
    pub media_type: String,
    /// Where it can be fetched.
    pub location: String,
    /// Size in bytes, if known.
    pub size_bytes: Option<u64>,
    /// What is hashed.
    pub digested: String,
    /// Who put it.
    pub put_by: Party,
    /// When.
    pub put_at: Timestamp,
    /// Number of the event that put it.
    pub put_sequence: u64,
    /// How it stands.
    pub state: ArtifactState,
    /// The run that made it.
    pub run: Option<RunId>,
    /// Digest under which the content is kept, if it is.
    pub content: Option<Digest>,
}

/// The latest checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointFacts {
    /// Its id.
    pub id: CheckpointId,
    /// Its number in the task.
    pub version: u64,
    /// When it was fixed.
    pub fixed_at: Timestamp,
    /// Digest of the document.
    pub digest: Digest,
    /// How many units it lists as not done.
    pub not_done_units: u32,
}

/// A freeze in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Freeze {
    /// The operator.
    pub by: PrincipalId,
    /// Since when.
    pub since: Timestamp,
    /// Digest of the reason.
    pub note: Digest,
}

/// An owner of the past.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastOwner {
    /// Who.
    pub party: Party,
    /// The last epoch that it held.
    pub until_epoch: Epoch,
    /// The revision that took control away.
    pub until_revision: Revision,
    /// The event that took control away.
    pub until_sequence: u64,
    /// The handoff that took control away.
    pub handoff: Option<HandoffId>,
}

/// A task's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Identity; never changes.
    pub id: TaskId,
    /// The group that it belongs to.
    pub context: Option<ContextId>,
    /// Class for routing.
    pub class: String,
    /// Who created it.
    pub originator: Party,
    /// Who holds control now.
    pub owner: Party,
    /// The owner's process.
    pub instance: InstanceId,
    /// The fencing token of the owner's writes.
    pub epoch: Epoch,
    /// The subject of compare-and-swap.
    pub revision: Revision,
    /// The axes.
    pub axes: Axes,
    /// CONTRACT_VERSION.
    pub contract_version: VersionLabel,
    /// Digest of the contract document.
    pub contract_digest: Digest,
    /// Digest of the whole stored contract.
    pub contract_document: Digest,
    /// The owner's authority; none if the task was created without one.
    pub scope: Option<Scope>,
    /// The latest checkpoint.
    pub checkpoint: Option<CheckpointFacts>,
    /// Artifact versions were put or rejected since the latest checkpoint.
    pub artifacts_moved: bool,
    /// Present versions of the artifacts.
    pub artifacts: BTreeMap<ArtifactId, Artifact>,
    /// The latest handoff; open while PENDING.
    pub handoff: Option<Handoff>,
    /// The freeze in force.
    pub freeze: Option<Freeze>,
    /// The policy.
    pub policy: Policy,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Who changed it last.
    pub updated_by: PrincipalId,
    /// The request that changed it last.
    pub updated_request: Option<RequestId>,
    /// Digest of the latest status report.
    pub status_report: Option<Digest>,
    /// The owner's lease ran out.
    pub owner_absent: bool,
    /// When the owner's lease runs out.
    pub owner_lease_until: Option<Timestamp>,
    /// A cancel was asked for and reconciles.
    pub cancel_requested: bool,
    /// Owners of the past, oldest first, each once.
    pub past_owners: Vec<PastOwner>,
    /// Who was given expected digests by the claim of an open offer: at most [`SHOWN_MAX`] are
    /// remembered, and beyond that everybody counts as one of them.
    pub shown_to: BTreeSet<PrincipalId>,
    /// Number of the latest event.
    pub sequence: u64,
    /// Digest of the latest event. Set by whoever computes digests, not by `apply`.
    pub chain_head: Option<Digest>,
}

impl Task {
    /// The task that its first event makes.
    #[must_use]
    pub fn create(id: TaskId, record: &Recorded, created: &TaskCreated) -> Self {
        Self {
            id,
            context: created.context.clone(),
            class: created.class.clone(),
            originator: created.originator.clone(),
            owner: created.originator.clone(),
            instance: created.instance.clone(),
            epoch: record.epoch,
            revision: record.revision,
            axes: Axes::submitted(),
            contract_version: created.contract_version.clone(),
            contract_digest: created.contract_digest,
            contract_document: created.contract_document,
            scope: created.scope.clone(),
            checkpoint: None,
            artifacts_moved: false,
            artifacts: BTreeMap::new(),
            handoff: None,
            freeze: None,
            policy: created.policy.clone(),
            created_at: record.time,
            updated_at: record.time,
            updated_by: record.by.clone(),
            updated_request: record.request.clone(),
            status_report: None,
            owner_absent: false,
            owner_lease_until: created.policy.owner_lease.map(|s| record.time.saturating_add(s)),
            cancel_requested: false,
            past_owners: Vec::new(),
            shown_to: BTreeSet::new(),
            sequence: record.sequence,
            chain_head: None,
        }
    }

    /// True if `principal` may have been given digests of this task before.
    #[must_use]
    pub fn was_shown_digests(&self, principal: &PrincipalId) -> bool {
        self.shown_to.len() >= SHOWN_MAX || self.shown_to.contains(principal)
    }

    /// The open handoff, if one is.
    #[must_use]
    pub fn open_handoff(&self) -> Option<&Handoff> {
        self.handoff.as_ref().filter(|h| h.status == HandoffStatus::Pending)
    }

    /// The past ownership of a principal, if it had one.
    #[must_use]
    pub fn past_owner(&self, principal: &PrincipalId) -> Option<&PastOwner> {
        self.past_owners.iter().find(|past| past.party.principal == *principal)
    }

    /// Puts `event` into its envelope: the next number, and the revision and epoch after it.
    #[must_use]
    pub fn record(
        &self,
        event: Event,
        by: PrincipalId,
        request: Option<RequestId>,
        time: Timestamp,
    ) -> Recorded {
        let revision = if event.changes_state() { self.revision.next() } else { self.revision };
        let epoch = if event.raises_epoch() { self.epoch.next() } else { self.epoch };
        Recorded {
            sequence: self.sequence.saturating_add(1),
            time,
            by,
            request,
            revision,
            epoch,
            previous: self.chain_head,
            event,
        }
    }

    /// Checks the invariants of the aggregate. A broken one is a fault of the broker: nothing may
    /// be stored after it.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn check(&self) -> Result<(), &'static str> {
        self.axes.check()?;
        if !self.axes.is_open() && self.open_handoff().is_some() {
            return Err("a closed task has an open handoff");
        }
        if self.epoch.get() == 0 || self.revision.get() == 0 || self.sequence == 0 {
            return Err("epoch, revision or sequence is zero");
        }
        Ok(())
    }
}

/// Records `record` in `task`. Cannot fail and never judges: it already happened. A creation is not
/// applied but made by [`Task::create`].
pub fn apply(task: &mut Task, record: &Recorded) {
    match &record.event {
        Event::TaskCreated(_) | Event::WriteRefused { .. } => {}
        Event::CheckpointPut { id, version, digest, not_done_units } => {
            task.checkpoint = Some(CheckpointFacts {
                id: id.clone(),
                version: *version,
                fixed_at: record.time,
                digest: *digest,
                not_done_units: *not_done_units,
            });
            task.artifacts_moved = false;
        }
        Event::StatusReported { axes, report } => {
            task.axes = *axes;
            task.status_report = Some(*report);
        }
        Event::ArtifactPut { artifact, axes } => {
            task.axes = *axes;
            task.artifacts.insert(artifact.id.clone(), (**artifact).clone());
            task.artifacts_moved = true;
        }
        Event::ReadbackRecorded { artifact, state, .. } => apply_readback(task, artifact, *state),
        Event::AcceptanceDecided { axes, .. } => task.axes = *axes,
        Event::TaskCanceled { axes, .. } => {
            task.axes = *axes;
            task.cancel_requested = true;
        }
        Event::TaskFrozen { note } => {
            task.freeze = Some(Freeze { by: record.by.clone(), since: record.time, note: *note });
        }
        Event::FreezeLifted { .. } => apply_lift(task, record.time),
        Event::HandoffOffered { handoff } => task.handoff = Some((**handoff).clone()),
        Event::HandoffReceived(received) => apply_received(task, record, received),
        Event::OwnershipResumed { instance } => task.instance = instance.clone(),
        Event::OwnerAbsent => task.owner_absent = true,
        Event::HandoffClaimed { .. }
        | Event::ClaimLapsed { .. }
        | Event::ReceiptRefused { .. }
        | Event::HandoffEnded { .. }
        | Event::HandoffReturned { .. } => {
            if let Some(handoff) = &mut task.handoff {
                handoff.apply(record);
            }
            remember_shown(task, &record.event);
        }
    }
    settle_envelope(task, record);
}

/// The claim of an open offer gives out the expected digests.
fn remember_shown(task: &mut Task, event: &Event) {
    let Event::HandoffClaimed { claim, .. } = event else { return };
    let open = task.handoff.as_ref().is_some_and(|handoff| !handoff.blind);
    if open && task.shown_to.len() < SHOWN_MAX {
        task.shown_to.insert(claim.claimant.principal.clone());
    }
}

fn apply_readback(task: &mut Task, id: &ArtifactId, state: ArtifactState) {
    if let Some(artifact) = task.artifacts.get_mut(id) {
        let was_standing = artifact.state != ArtifactState::Rejected;
        artifact.state = state;
        if was_standing && state == ArtifactState::Rejected {
            task.artifacts_moved = true;
        }
    }
}

/// A freeze stops the clocks: what was left of a deadline when it began is left when it ends.
fn apply_lift(task: &mut Task, now: Timestamp) {
    let Some(freeze) = task.freeze.take() else {
        return;
    };
    let frozen = now.since(freeze.since);
    task.owner_lease_until = task.owner_lease_until.map(|until| until.saturating_add(frozen));
    if let Some(handoff) = &mut task.handoff {
        handoff.deadline = handoff.deadline.saturating_add(frozen);
    }
}

fn apply_received(task: &mut Task, record: &Recorded, received: &HandoffReceived) {
    let past = PastOwner {
        party: std::mem::replace(&mut task.owner, received.receiver.clone()),
        until_epoch: task.epoch,
        until_revision: record.revision,
        until_sequence: record.sequence,
        handoff: Some(received.handoff.clone()),
    };
    task.past_owners.retain(|p| {
        p.party.principal != past.party.principal
            && p.party.principal != received.receiver.principal
    });
    task.past_owners.push(past);
    task.instance = received.instance.clone();
    task.scope = Some(received.scope.clone());
    task.axes = received.axes;
    if let Some(handoff) = &mut task.handoff {
        handoff.apply(record);
    }
}

fn settle_envelope(task: &mut Task, record: &Recorded) {
    task.sequence = record.sequence;
    task.epoch = record.epoch;
    if !record.event.changes_state() {
        return;
    }
    task.revision = record.revision;
    task.updated_at = record.time;
    task.updated_by = record.by.clone();
    task.updated_request.clone_from(&record.request);
    if record.by == task.owner.principal {
        // Every write of the owner shows that it is there.
        task.owner_absent = false;
        task.owner_lease_until =
            task.policy.owner_lease.map(|lease| record.time.saturating_add(lease));
    }
}
