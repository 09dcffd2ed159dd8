//! Offering a task: by its owner, or on behalf of an owner that is gone.
//!
//! What lives here: the decisions that open a handoff. What does not: what a packet must contain
//! (the contract table and `wire`, before the decision). Invariants: at most one open handoff a
//! task; the packet binds the task's present checkpoint and artifacts; its scope lies within the
//! sender's.

use std::collections::BTreeSet;

use super::axis::HandoffStatus;
use super::claim::ended;
use super::digest::{Digest, Revision};
use super::event::Event;
use super::handoff::{EndReason, Handoff, Receiver};
use super::id::{HandoffId, PrincipalId};
use super::owner::{self, Guard};
use super::refusal::{Reason, Refusal, Violation};
use super::scope::{self, Scope};
use super::task::{PAST_OWNERS_MAX, Party, Task};
use super::time::{Span, Timestamp};
use super::{Context, Decision, Judged, Refused, claim};

/// What an offer says beside its packet, and what was found out about the packet before the
/// decision.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The new handoff's id.
    pub handoff: HandoffId,
    /// To whom.
    pub receiver: Receiver,
    /// Everybody in the directory who may receive it now, with accounts. Empty: nobody is known.
    pub eligible: Vec<Party>,
    /// Digest of the finished packet.
    pub packet: Digest,
    /// The contract digest that the packet carries.
    pub contract: Digest,
    /// The checkpoint that the packet names.
    pub checkpoint: Option<Digest>,
    /// The packet's scope.
    pub scope: Scope,
    /// True if the packet has at least one digest that a receiver could fetch and hash.
    pub hashable: bool,
    /// True if a digest that a blind packet withholds stands in what the receiver has to hash or to
    /// repeat word by word: the contract's terms, keys, versions, the scope.
    pub terms_leak: bool,
    /// How long the offer stands.
    pub ttl: Option<Span>,
    /// Whether digests are withheld; `None` leaves it to the broker.
    pub blind: Option<bool>,
    /// A blind offer with nothing to hash is allowed.
    pub echo_allowed: bool,
    /// What the receiver held under the earlier handoff that the packet restores, if it names one
    /// that this receiver received.
    pub restores: Option<Scope>,
}

/// An offer by the owner.
#[derive(Clone, Debug)]
pub struct OfferHandoff {
    /// Epoch, revision, instance.
    pub guard: Guard,
    /// The offer.
    pub terms: Terms,
    /// The own open offer that it replaces.
    pub supersedes: Option<HandoffId>,
}

/// Judges an offer by the owner.
///
/// # Errors
/// The guard fails; another offer is open; the receiver is unknown or the sender itself; the packet
/// is older than the task; its scope is wider than the sender's; a blind offer has nothing to hash.
pub fn offer(task: &Task, command: &OfferHandoff, context: &Context<'_>) -> Judged {
    owner::holds(task, &command.guard, context)?;
    owner::at_revision(task, command.guard.revision, "OfferHandoff")?;
    owner::open(task)?;
    claim::not_frozen(task)?;
    let mut events = Vec::new();
    if let Some(event) = replaced(task, command)? {
        events.push(event);
    }
    if task.cancel_requested {
        return Err(owner::canceled(task).into());
    }
    bound(task, &command.terms)?;
    if command.terms.checkpoint.is_none() {
        return Err(checkpoint_required(task, "the packet names none").into());
    }
    let offered = opened(task, &command.terms, command.supersedes.clone(), None, context)?;
    events.push(Event::HandoffOffered { handoff: Box::new(offered) });
    Ok(Decision::about(&command.terms.handoff, events))
}

fn replaced(task: &Task, command: &OfferHandoff) -> Result<Option<Event>, Refusal> {
    match (task.open_handoff(), &command.supersedes) {
        (None, None) => Ok(None),
        (Some(open), Some(named)) if open.id == *named && open.on_behalf.is_none() => {
            Ok(Some(ended(open, HandoffStatus::Superseded, None)))
        }
        (Some(open), _) => Err(Refusal::new(
            Reason::HandoffAlreadyOpen,
            format!(
                "task {} is already offered by handoff {}; withdraw it, or name it in supersedes",
                task.id, open.id
            ),
        )
        .with("taskId", &task.id)
        .with("handoffId", &open.id)),
        (None, Some(named)) => Err(Refusal::new(
            Reason::NoOpenHandoff,
            format!(
                "handoff {named} is not open, so it cannot be superseded; leave supersedes out"
            ),
        )
        .with("handoffId", named)),
    }
}

/// An offer on behalf of an absent owner.
#[derive(Clone, Debug)]
pub struct OfferOnBehalf {
    /// The revision that it was decided on.
    pub revision: Revision,
    /// The offer.
    pub terms: Terms,
    /// Digest of the reason.
    pub note: Digest,
}

/// Judges an offer on behalf: by an operator at any time, by the originator only where the policy
/// says so and the owner is absent.
///
/// # Errors
/// The caller may not; the revision is another one; the terms do not fit.
pub fn offer_on_behalf(task: &Task, command: &OfferOnBehalf, context: &Context<'_>) -> Judged {
    may_offer_on_behalf(task, context)?;
    owner::at_revision(task, command.revision, "OfferOnBehalf")?;
    owner::open(task)?;
    claim::not_frozen(task)?;
    let mut events = Vec::new();
    if let Some(open) = task.open_handoff() {
        if !context.caller.operator {
            return Err(Refusal::new(
                Reason::HandoffAlreadyOpen,
                format!(
                    "task {} is already offered by handoff {}; wait for its end",
                    task.id, open.id
                ),
            )
            .with("handoffId", &open.id)
            .into());
        }
        events.push(ended(open, HandoffStatus::Withdrawn, Some(EndReason::OperatorTakeover)));
    }
    bound(task, &command.terms)?;
    let mut offered = opened(task, &command.terms, None, Some(command.note), context)?;
    offered.offered_by = context.caller.party.principal.clone();
    events.push(Event::HandoffOffered { handoff: Box::new(offered) });
    Ok(Decision::about(&command.terms.handoff, events))
}

fn may_offer_on_behalf(task: &Task, context: &Context<'_>) -> Result<(), Refusal> {
    let caller = &context.caller.party.principal;
    if context.caller.operator {
        return Ok(());
    }
    if task.originator.principal != *caller || !task.policy.originator_may_offer {
        return Err(Refusal::new(
            Reason::NotOperator,
            format!(
                "{caller} may not offer task {} on behalf of its owner; an operator may",
                task.id
            ),
        )
        .with("taskId", &task.id));
    }
    let absent = task.owner_absent
        || owner::lease_until(task, context.started).is_some_and(|until| until <= context.now);
    if absent {
        return Ok(());
    }
    Err(Refusal::new(
        Reason::OwnerPresent,
        format!(
            "the owner of task {} is not absent; only an operator may replace a present owner",
            task.id
        ),
    )
    .with("taskId", &task.id))
}

/// Checks that the packet binds what the task holds now.
fn bound(task: &Task, terms: &Terms) -> Result<(), Refusal> {
    if terms.contract != task.contract_digest {
        return Err(Refusal::new(
            Reason::ReferenceCopyMismatch,
            "packet.contract is not the task's contract; read the resume set again",
        )
        .with("taskId", &task.id));
    }
    let latest = task.checkpoint.as_ref().map(|c| c.digest);
    if terms.checkpoint != latest {
        return Err(checkpoint_required(task, "the packet does not name the latest one"));
    }
    if latest.is_some() && task.artifacts_moved {
        return Err(checkpoint_required(task, "artifacts have changed since the latest one"));
    }
    Ok(())
}

fn checkpoint_required(task: &Task, why: &str) -> Refusal {
    Refusal::new(
        Reason::CheckpointRequired,
        format!(
            "task {} needs a checkpoint before it is offered: {why}; put one and name it",
            task.id
        ),
    )
    .with("taskId", &task.id)
}

fn opened(
    task: &Task,
    terms: &Terms,
    supersedes: Option<HandoffId>,
    on_behalf: Option<Digest>,
    context: &Context<'_>,
) -> Result<Handoff, Refused> {
    known_receiver(task, terms)?;
    within_scope(task, terms, context.now)?;
    room_for_owner(task, terms)?;
    let blind = blind(task, terms)?;
    Ok(Handoff {
        id: terms.handoff.clone(),
        status: HandoffStatus::Pending,
        end_reason: None,
        from: task.owner.clone(),
        offered_by: task.owner.principal.clone(),
        receiver: terms.receiver.clone(),
        packet: terms.packet,
        checkpoint: terms.checkpoint,
        blind,
        echo_allowed: terms.echo_allowed,
        offered_at: context.now,
        deadline: context.now.saturating_add(ttl(terms, context)),
        claim: None,
        claims: 0,
        attempts: 0,
        refused_by: BTreeSet::new(),
        supersedes,
        on_behalf,
        ended_at: None,
        failing: None,
        end_note: None,
        received: None,
    })
}

fn ttl(terms: &Terms, context: &Context<'_>) -> Span {
    terms.ttl.unwrap_or(context.limits.offer_ttl).min(context.limits.offer_ttl_max)
}

fn known_receiver(task: &Task, terms: &Terms) -> Result<(), Refusal> {
    if terms.receiver == Receiver::Principal(task.owner.principal.clone()) {
        return Err(Refusal::new(
            Reason::SelfHandoff,
            format!(
                "{} already owns task {}; use ResumeOwnership for a new process",
                task.owner.principal, task.id
            ),
        )
        .with("taskId", &task.id));
    }
    let others = |p: &&Party| p.principal != task.owner.principal;
    if terms.eligible.iter().any(|p| others(&p)) {
        return Ok(());
    }
    Err(Refusal::new(
        Reason::UnknownReceiver,
        format!(
            "{} is not known in this namespace, or nobody there has the capability; correct \
             next_owner or register the agent",
            terms.receiver
        ),
    )
    .with("taskId", &task.id)
    .with("nextOwner", &terms.receiver))
}

/// A packet's scope lies within the sender's. When it restores what the receiver held itself, it
/// lies within that instead (A to B and back to A).
fn within_scope(task: &Task, terms: &Terms, now: Timestamp) -> Result<(), Refusal> {
    if terms.scope.principal != terms.receiver.to_string() {
        return Err(Refusal::new(
            Reason::IdentityMismatch,
            format!(
                "packet.scope.principal is {}, not the receiver {}; they must be equal",
                terms.scope.principal, terms.receiver
            ),
        ));
    }
    let Some(own) = &task.scope else {
        return Err(Refusal::new(
            Reason::ScopeExceeded,
            format!("task {} has no scope, so none can be handed on; create it with one", task.id),
        )
        .with("taskId", &task.id));
    };
    let parent = terms.restores.as_ref().unwrap_or(own);
    let Err(excess) = scope::within(&terms.scope, parent, now) else {
        return Ok(());
    };
    let violations = excess.into_iter().map(|e| Violation {
        field: format!("packet.scope.{}", e.element()),
        description: e.to_string(),
    });
    Err(Refusal::new(
        Reason::ScopeExceeded,
        "packet.scope is wider than the scope that it must lie within; narrow it",
    )
    .with("taskId", &task.id)
    .with_violations(violations.collect()))
}

fn room_for_owner(task: &Task, terms: &Terms) -> Result<(), Refusal> {
    let known = |p: &PrincipalId| task.past_owner(p).is_some();
    let new = match &terms.receiver {
        Receiver::Principal(principal) => !known(principal),
        Receiver::Capability(_) => true,
    };
    if !new || task.past_owners.len() < PAST_OWNERS_MAX {
        return Ok(());
    }
    Err(Refusal::new(
        Reason::LimitExceeded,
        format!("task {} has had {PAST_OWNERS_MAX} different owners; open a new task", task.id),
    )
    .with("taskId", &task.id))
}

/// Blind by default when the offer crosses a trust boundary: the contract says so, or a possible
/// receiver belongs to another account than the sender.
fn blind(task: &Task, terms: &Terms) -> Result<bool, Refusal> {
    let crosses = task.policy.trust_boundary
        || terms.eligible.iter().any(|p| p.account != task.owner.account);
    let blind = terms.blind.unwrap_or(crosses);
    if !blind {
        return Ok(false);
    }
    let impossible = |why: &str| {
        Refusal::new(
            Reason::BlindImpossible,
            format!("the offer cannot be blind: {why}; allow echoed values, or make it open"),
        )
        .with("taskId", &task.id)
    };
    if terms.terms_leak {
        return Err(impossible(
            "contract, identifiers or scope spell a digest that would be withheld",
        ));
    }
    if !terms.hashable && !terms.echo_allowed {
        return Err(impossible("no source and no artifact has a digest that could be withheld"));
    }
    Ok(true)
}
