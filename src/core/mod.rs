//! The pure core: it judges commands and folds events, and does nothing else.
//!
//! What lives here: state, commands, events, refusals and the decisions between them. What does
//! not: I/O, clocks, randomness, async, logging, protobuf on the wire. Invariants: same state,
//! command and context give the same answer; `decide` changes nothing; `apply` never judges and
//! cannot fail; time and ids come in from outside. Start reading at [`decide`].

pub mod axis;
pub mod claim;
pub mod contract;
pub mod control;
pub mod digest;
pub mod event;
pub mod handoff;
pub mod id;
pub mod offer;
pub mod owner;
pub mod party;
pub mod receipt;
pub mod refusal;
pub mod scope;
pub mod task;
pub mod time;
pub mod verify;
pub mod work;

use std::collections::BTreeSet;

use digest::{Epoch, Revision};
use event::Event;
use handoff::Handoff;
use id::{Capability, HandoffId, Namespace, TaskId};
use refusal::Refusal;
use task::{Party, Task};
use time::{Span, Timestamp};

/// The authenticated caller. Made from the connection or its credential, never from a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Principal and account.
    pub party: Party,
    /// The namespace that it lives in.
    pub namespace: Namespace,
    /// It may act as operator of its namespace.
    pub operator: bool,
    /// What it may declare.
    pub capabilities: BTreeSet<Capability>,
}

/// Technical limits that decisions depend on. Each has a documented default in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long a claim holds without renewal.
    pub lease: Span,
    /// How many claims one offer may have.
    pub claims_max: u32,
    /// How many receipts of one offer may differ.
    pub attempts_max: u32,
    /// How far a receiver's clock may be off.
    pub observed_skew: Span,
    /// How long an offer stands if it does not say.
    pub offer_ttl: Span,
    /// How long an offer may stand.
    pub offer_ttl_max: Span,
}

/// Everything outside state and command that a decision may depend on.
#[derive(Clone, Debug)]
pub struct Context<'a> {
    /// The time of the decision.
    pub now: Timestamp,
    /// When the broker started; leases given before it are good for one interval after it.
    pub started: Timestamp,
    /// Who asks.
    pub caller: &'a Caller,
    /// The limits in force.
    pub limits: &'a Limits,
}

/// What a decision reads.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The task.
    pub task: &'a Task,
    /// The handoff that the command names, if it is not the task's latest.
    pub ended: Option<&'a Handoff>,
}

/// The "yes" of the domain: what happened, and what the answer needs beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// What happened, in order.
    pub events: Vec<Event>,
    /// The handoff that it was about.
    pub handoff: Option<HandoffId>,
    /// The end of the lease that was given or renewed. A renewal has no event.
    pub lease_until: Option<Timestamp>,
    /// The receipt that was accepted before, if the command repeats it.
    pub repeats: Option<handoff::Received>,
}

impl Decision {
    /// The answer to a receipt that was accepted before: nothing happens.
    #[must_use]
    pub fn repeat(handoff: HandoffId, received: handoff::Received) -> Self {
        Self { handoff: Some(handoff), repeats: Some(received), ..Self::default() }
    }

    /// One event.
    #[must_use]
    pub fn event(event: Event) -> Self {
        Self { events: vec![event], ..Self::default() }
    }

    /// Events about a handoff.
    #[must_use]
    pub fn about(handoff: &HandoffId, events: Vec<Event>) -> Self {
        Self { events, handoff: Some(handoff.clone()), ..Self::default() }
    }

    /// The same with a lease.
    #[must_use]
    pub fn with_lease(mut self, until: Timestamp) -> Self {
        self.lease_until = Some(until);
        self
    }
}

/// The answer to an accepted change. A repeat of the request gets the same one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The task; none for a change of the agent registry.
    pub task: Option<TaskId>,
    /// Its revision after the change, or the agent's.
    pub revision: Revision,
    /// Its epoch after the change.
    pub epoch: Epoch,
    /// Number of its latest event.
    pub sequence: u64,
    /// The handoff that the change was about.
    pub handoff: Option<HandoffId>,
    /// When it was decided.
    pub decided_at: Timestamp,
    /// The end of the lease that was given.
    pub lease_until: Option<Timestamp>,
    /// True if it was carried out by an earlier call.
    pub replayed: bool,
}

/// The "no" of the domain, with what belongs into the record all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The refusal.
    pub refusal: Refusal,
    /// What is recorded although the command is refused.
    pub events: Vec<Event>,
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, events: Vec::new() }
    }
}

/// What a decision gives.
pub type Judged = Result<Decision, Refused>;

/// What is asked of a task that exists. Creation is judged by [`work::create`].
#[derive(Clone, Debug)]
pub enum Command {
    /// Fix the resume point.
    PutCheckpoint(work::PutCheckpoint),
    /// Move the runtime axis.
    ReportStatus(work::ReportStatus),
    /// Put an artifact version.
    PutArtifact(Box<work::PutArtifact>),
    /// Record a readback.
    RecordReadback(verify::RecordReadback),
    /// Decide acceptance.
    DecideAcceptance(verify::DecideAcceptance),
    /// Cancel.
    Cancel(control::Cancel),
    /// Freeze.
    Freeze(control::Freeze),
    /// Lift a freeze.
    Lift(control::Freeze),
    /// Offer to another agent.
    Offer(Box<offer::OfferHandoff>),
    /// Offer on behalf of an absent owner.
    OfferOnBehalf(Box<offer::OfferOnBehalf>),
    /// Claim.
    Claim(claim::ClaimHandoff),
    /// Renew a claim.
    Renew(claim::ClaimHandoff),
    /// Present a receipt.
    Acknowledge(Box<receipt::AcknowledgeHandoff>),
    /// Refuse an offer.
    Reject(claim::RejectHandoff),
    /// Take an offer back.
    Withdraw(claim::WithdrawHandoff),
    /// Go on under a new instance.
    Resume(owner::ResumeOwnership),
}

impl Command {
    /// True if the task's record may grow by much of what the caller sends.
    #[must_use]
    pub fn brings_content(&self) -> bool {
        matches!(
            self,
            Self::PutArtifact(_) | Self::Offer(_) | Self::OfferOnBehalf(_) | Self::Acknowledge(_)
        )
    }

    /// The call that carries the command.
    #[must_use]
    pub fn rpc(&self) -> &'static str {
        match self {
            Self::PutCheckpoint(_) => "PutCheckpoint",
            Self::ReportStatus(_) => "ReportStatus",
            Self::PutArtifact(_) => "PutArtifact",
            Self::RecordReadback(_) => "RecordReadback",
            Self::DecideAcceptance(_) => "DecideAcceptance",
            Self::Cancel(_) => "CancelTask",
            Self::Freeze(_) => "FreezeTask",
            Self::Lift(_) => "LiftFreeze",
            Self::Offer(_) => "OfferHandoff",
            Self::OfferOnBehalf(_) => "OfferOnBehalf",
            Self::Claim(_) => "ClaimHandoff",
            Self::Renew(_) => "RenewClaim",
            Self::Acknowledge(_) => "AcknowledgeHandoff",
            Self::Reject(_) => "RejectHandoff",
            Self::Withdraw(_) => "WithdrawHandoff",
            Self::Resume(_) => "ResumeOwnership",
        }
    }

    /// The handoff that the command names.
    #[must_use]
    pub fn handoff(&self) -> Option<&HandoffId> {
        match self {
            Self::Claim(c) | Self::Renew(c) => Some(&c.handoff),
            Self::Acknowledge(c) => Some(&c.handoff),
            Self::Reject(c) => Some(&c.handoff),
            Self::Withdraw(c) => Some(&c.handoff),
            Self::PutCheckpoint(_)
            | Self::ReportStatus(_)
            | Self::PutArtifact(_)
            | Self::RecordReadback(_)
            | Self::DecideAcceptance(_)
            | Self::Cancel(_)
            | Self::Freeze(_)
            | Self::Lift(_)
            | Self::Offer(_)
            | Self::OfferOnBehalf(_)
            | Self::Resume(_) => None,
        }
    }
}

/// Judges a command. Changes nothing.
///
/// # Errors
/// The refusal, with what is recorded beside it.
pub fn decide(view: &View<'_>, command: &Command, context: &Context<'_>) -> Judged {
    match command {
        Command::PutCheckpoint(c) => work::put_checkpoint(view.task, c, context),
        Command::ReportStatus(c) => work::report_status(view.task, c, context),
        Command::PutArtifact(c) => work::put_artifact(view.task, c, context),
        Command::RecordReadback(c) => verify::record_readback(view.task, c, context),
        Command::DecideAcceptance(c) => verify::decide_acceptance(view.task, c, context),
        Command::Cancel(c) => control::cancel(view.task, c, context),
        Command::Freeze(c) => control::freeze(view.task, c, context),
        Command::Lift(c) => control::lift(view.task, c, context),
        Command::Offer(c) => offer::offer(view.task, c, context),
        Command::OfferOnBehalf(c) => offer::offer_on_behalf(view.task, c, context),
        Command::Claim(c) => claim::claim(view, c, context),
        Command::Renew(c) => claim::renew(view, c, context),
        Command::Acknowledge(c) => receipt::acknowledge(view, c, context),
        Command::Reject(c) => claim::reject(view, c, context),
        Command::Withdraw(c) => claim::withdraw(view, c, context),
        Command::Resume(c) => owner::resume(view.task, c, context),
    }
}
