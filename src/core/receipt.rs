//! The receipt: comparing what a receiver read with what the packet binds, and moving control.
//!
//! What lives here: the five elements, their comparison, and the decision on an acknowledgement.
//! What does not: parsing and digests (`wire`). Invariants: control moves only with a
//! [`MatchedEcho`], which only [`compare`] makes; a difference names element and key and never an
//! expected value.

use std::collections::BTreeMap;

use super::axis::{HandoffStatus, Runtime};
use super::claim;
use super::digest::Digest;
use super::event::{Event, HandoffReceived};
use super::handoff::{EndReason, Handoff};
use super::id::{ArtifactId, EntityId, HandoffId, InstanceId, PrincipalId, TaskId, VersionLabel};
use super::refusal::{Reason, Refusal, Violation};
use super::scope::Scope;
use super::task::Task;
use super::time::Timestamp;
use super::{Context, Decision, Judged, Refused, View};

/// One of the five.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Element {
    /// Task id.
    TaskId,
    /// Contract version and digest.
    Contract,
    /// Source snapshot.
    SourceSnapshot,
    /// Artifacts.
    Artifacts,
    /// Scope.
    Scope,
}

impl Element {
    /// The field of the receipt that holds it.
    #[must_use]
    pub fn field(self) -> &'static str {
        match self {
            Self::TaskId => "task_id",
            Self::Contract => "contract",
            Self::SourceSnapshot => "source_snapshot",
            Self::Artifacts => "artifacts",
            Self::Scope => "scope",
        }
    }
}

/// How the receiver came to the value of one element, or of one key in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElementAssurance {
    /// The element.
    pub element: Element,
    /// The entity or artifact; empty for an element that is one value.
    pub key: String,
    /// True: withheld from the receiver and named by it. False: it could know it without fetching.
    pub fetched: bool,
}

/// What a packet binds.
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a> {
    /// Element 1.
    pub task: &'a TaskId,
    /// Element 2.
    pub contract: (&'a VersionLabel, Digest),
    /// Element 3. `None` where the packet says that the snapshot is not known; nothing matches
    /// that.
    pub sources: Option<&'a BTreeMap<EntityId, (VersionLabel, Option<Digest>)>>,
    /// Element 4. `None` as above.
    pub artifacts: Option<&'a BTreeMap<ArtifactId, (VersionLabel, Digest)>>,
    /// Element 5.
    pub scope: &'a Scope,
}

/// What a receiver sent. An absent element is a difference, never a default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Echo {
    /// Element 1, as it came.
    pub task: Option<String>,
    /// Element 2.
    pub contract: Option<(VersionLabel, Digest)>,
    /// Element 3.
    pub sources: Option<BTreeMap<EntityId, (VersionLabel, Option<Digest>)>>,
    /// Element 4.
    pub artifacts: Option<BTreeMap<ArtifactId, (VersionLabel, Digest)>>,
    /// Element 5.
    pub scope: Option<Scope>,
}

/// One difference. Never an expected value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The element.
    pub element: Element,
    /// The key in it; empty for the element as a whole.
    pub key: String,
    /// What differs, for a person.
    pub description: String,
}

/// The proof that an echo equals a packet's elements. Only [`compare`] makes one.
#[derive(Clone, Debug)]
pub struct MatchedEcho {
    packet: Digest,
    scope: Scope,
    sources: Vec<(EntityId, bool)>,
    artifacts: Vec<ArtifactId>,
}

/// What a comparison showed.
#[derive(Clone, Debug)]
pub enum Comparison {
    /// All five are equal.
    Matched(Box<MatchedEcho>),
    /// These differ.
    Differs(Vec<Mismatch>),
}

/// Compares an echo with the elements of the packet that has digest `packet`. A packet never
/// changes, so this needs no task state and is done before the decision. Source: design section 5,
/// REQ-060.
#[must_use]
pub fn compare(packet: Digest, expected: &Elements<'_>, echo: &Echo) -> Comparison {
    let mut found = Vec::new();
    let task = echo.task.as_deref().map(str::to_ascii_lowercase);
    single(&mut found, Element::TaskId, task.as_deref(), &expected.task.as_str());
    compare_contract(&mut found, expected.contract, echo.contract.as_ref());
    keyed(&mut found, Element::SourceSnapshot, expected.sources, echo.sources.as_ref());
    keyed(&mut found, Element::Artifacts, expected.artifacts, echo.artifacts.as_ref());
    compare_scope(&mut found, expected.scope, echo.scope.as_ref());
    if !found.is_empty() {
        return Comparison::Differs(found);
    }
    let sources = expected.sources.into_iter().flatten();
    let artifacts = expected.artifacts.into_iter().flatten();
    Comparison::Matched(Box::new(MatchedEcho {
        packet,
        scope: expected.scope.clone(),
        sources: sources.map(|(id, (_, digest))| (id.clone(), digest.is_some())).collect(),
        artifacts: artifacts.map(|(id, _)| id.clone()).collect(),
    }))
}

fn push(found: &mut Vec<Mismatch>, element: Element, key: &str, description: &str) {
    found.push(Mismatch { element, key: key.to_owned(), description: description.to_owned() });
}

fn single<T: PartialEq>(
    found: &mut Vec<Mismatch>,
    element: Element,
    echo: Option<T>,
    expected: &T,
) {
    match echo {
        None => push(found, element, "", "is absent; nothing is defaulted"),
        Some(value) if value != *expected => push(found, element, "", "is not the packet's"),
        Some(_) => {}
    }
}

fn compare_contract(
    found: &mut Vec<Mismatch>,
    expected: (&VersionLabel, Digest),
    echo: Option<&(VersionLabel, Digest)>,
) {
    let Some((version, digest)) = echo else {
        return push(found, Element::Contract, "", "is absent; nothing is defaulted");
    };
    if version != expected.0 {
        push(found, Element::Contract, "version", "is not the packet's contract version");
    }
    if *digest != expected.1 {
        push(found, Element::Contract, "digest", "is not the digest of the packet's contract");
    }
}

fn keyed<K: Ord + AsRef<str>, D: PartialEq>(
    found: &mut Vec<Mismatch>,
    element: Element,
    expected: Option<&BTreeMap<K, (VersionLabel, D)>>,
    echo: Option<&BTreeMap<K, (VersionLabel, D)>>,
) {
    let Some(echo) = echo else {
        return push(found, element, "", "is absent; nothing is defaulted");
    };
    let Some(expected) = expected else {
        return push(found, element, "", "is not known to the packet and cannot be confirmed");
    };
    for (key, (version, digest)) in expected {
        match echo.get(key) {
            None => push(found, element, key.as_ref(), "is missing in the receipt"),
            Some((seen, _)) if seen != version => {
                push(found, element, key.as_ref(), "was read in another version");
            }
            Some((_, seen)) if seen != digest => {
                push(found, element, key.as_ref(), "was read with another digest");
            }
            Some(_) => {}
        }
    }
    for key in echo.keys().filter(|key| !expected.contains_key(*key)) {
        push(found, element, key.as_ref(), "is not in the packet");
    }
}

fn compare_scope(found: &mut Vec<Mismatch>, expected: &Scope, echo: Option<&Scope>) {
    let Some(echo) = echo else {
        return push(found, Element::Scope, "", "is absent; nothing is defaulted");
    };
    let parts = [
        ("principal", echo.principal == expected.principal),
        ("resources", echo.resources == expected.resources),
        ("operations", echo.operations == expected.operations),
        ("expires_at", echo.expires_at == expected.expires_at),
        ("approval_conditions", echo.approval_conditions == expected.approval_conditions),
        ("prohibitions", echo.prohibitions == expected.prohibitions),
    ];
    for (key, equal) in parts {
        if !equal {
            push(found, Element::Scope, key, "is not equal to the packet's");
        }
    }
}

/// Presents a receipt.
#[derive(Clone, Debug)]
pub struct AcknowledgeHandoff {
    /// The handoff.
    pub handoff: HandoffId,
    /// The packet that it answers, as the caller names it.
    pub packet: Digest,
    /// The claiming process.
    pub instance: InstanceId,
    /// What the comparison with that packet showed.
    pub comparison: Comparison,
    /// Digest of the receipt as it is stored.
    pub receipt: Digest,
    /// Digest over the five elements as they were sent.
    pub elements: Digest,
    /// When the receiver read, by its own clock.
    pub observed_at: Option<Timestamp>,
}

/// Judges a receipt. This is the one place where control moves to another agent.
///
/// # Errors
/// The caller is not the receiver or has no live claim; the task is frozen; the offer has ended or
/// is stale; an element differs; the receiver's reading is implausible in time.
pub fn acknowledge(view: &View<'_>, command: &AcknowledgeHandoff, context: &Context<'_>) -> Judged {
    if let Some(done) = received_before(view, command) {
        return repeat(done, command, context);
    }
    let task = view.task;
    let open = claim::open(task, view, &command.handoff)?;
    claim::receiver(open, context)?;
    claim::not_frozen(task)?;
    claim::not_expired(open, context.now)?;
    claim::same_packet(open, &command.packet)?;
    let claim = claim::live_claim(open, &command.instance, context)?;
    plausible_time(command, claim.claimed_at, context)?;
    match &command.comparison {
        Comparison::Differs(found) => Err(mismatch(open, found, context)),
        Comparison::Matched(echo) => {
            claim::same_packet(open, &echo.packet)?;
            Ok(received(task, open, command, echo, context))
        }
    }
}

/// The handoff, if it was received before: the task's latest, or an earlier one.
fn received_before<'v>(view: &View<'v>, command: &AcknowledgeHandoff) -> Option<&'v Handoff> {
    let latest = view.task.handoff.as_ref();
    latest
        .into_iter()
        .chain(view.ended)
        .find(|h| h.id == command.handoff && h.status == HandoffStatus::Received)
}

fn repeat(done: &Handoff, command: &AcknowledgeHandoff, context: &Context<'_>) -> Judged {
    let Some(stored) = &done.received else {
        return Err(Refusal::new(Reason::HandoffEnded, "the handoff has ended").into());
    };
    if stored.receiver != context.caller.party.principal {
        claim::receiver(done, context)?;
        return Err(Refusal::new(
            Reason::ReceiverNotOwner,
            format!("handoff {} was received by another principal", done.id),
        )
        .with("handoffId", &done.id)
        .into());
    }
    if stored.elements != command.elements {
        return Err(Refusal::new(
            Reason::ReceiptConflict,
            format!("handoff {} was received with another receipt; it stays as it is", done.id),
        )
        .with("handoffId", &done.id)
        .into());
    }
    Ok(Decision::repeat(done.id.clone(), stored.clone()))
}

fn plausible_time(
    command: &AcknowledgeHandoff,
    claimed_at: Timestamp,
    context: &Context<'_>,
) -> Result<(), Refusal> {
    let skew = context.limits.observed_skew;
    let Some(observed) = command.observed_at else {
        return Ok(());
    };
    let earliest = claimed_at.saturating_sub(skew);
    let latest = context.now.saturating_add(skew);
    if earliest <= observed && observed <= latest {
        return Ok(());
    }
    Err(Refusal::new(
        Reason::ObservedTimeImplausible,
        format!(
            "observed_at {observed} lies outside {earliest} to {latest} (claim to now, with the \
             allowed skew); read again after the claim, or correct the clock"
        ),
    )
    .with("handoffId", &command.handoff))
}

fn mismatch(open: &Handoff, found: &[Mismatch], context: &Context<'_>) -> Refused {
    let mut elements: Vec<Element> = found.iter().map(|m| m.element).collect();
    elements.sort_unstable();
    elements.dedup();
    let names: Vec<&str> = elements.iter().map(|e| e.field()).collect();
    let attempts = open.attempts.saturating_add(1);
    let left = context.limits.attempts_max.saturating_sub(attempts);
    let violations = found.iter().map(|m| {
        let field = if m.key.is_empty() {
            format!("receipt.{}", m.element.field())
        } else {
            format!("receipt.{}[{}]", m.element.field(), m.key)
        };
        Violation { field, description: m.description.clone() }
    });
    let refusal = Refusal::new(
        Reason::ReceiptMismatch,
        format!(
            "the receipt of handoff {} differs in {}; fetch again or reject it ({left} attempts \
             left)",
            open.id,
            names.join(", ")
        ),
    )
    .with("handoffId", &open.id)
    .with("elements", names.join(","))
    .with("attemptsLeft", left)
    .with_violations(violations.collect());
    let mut events = vec![Event::ReceiptRefused {
        handoff: open.id.clone(),
        receiver: context.caller.party.principal.clone(),
        elements,
    }];
    if left == 0 {
        events.push(claim::ended(
            open,
            HandoffStatus::Rejected,
            Some(EndReason::AttemptsExhausted),
        ));
    }
    Refused { refusal, events }
}

fn received(
    task: &Task,
    open: &Handoff,
    command: &AcknowledgeHandoff,
    echo: &MatchedEcho,
    context: &Context<'_>,
) -> Decision {
    let receiver = context.caller.party.clone();
    let mut axes = task.axes;
    // A dead owner may have begun an effect that nobody has confirmed: the new owner reconciles
    // first.
    if open.on_behalf.is_some() && (axes.effect_uncertain || task.policy.side_effecting) {
        axes.runtime = Runtime::Reconciling;
    } else if axes.runtime == Runtime::Submitted {
        axes.runtime = Runtime::Working;
    }
    let assurances = assurances(task, open, echo, &receiver.principal, context);
    let event = Event::HandoffReceived(Box::new(HandoffReceived {
        handoff: open.id.clone(),
        receiver,
        instance: command.instance.clone(),
        receipt: command.receipt,
        elements: command.elements,
        scope: echo.scope.clone(),
        axes,
        assurances,
    }));
    Decision::about(&open.id, vec![event])
}

/// A value counts as fetched only if it was withheld and the receiver had no other way of knowing
/// it: as an earlier owner, the producer, a claimant of an earlier open offer, or a party that may
/// read the task.
fn assurances(
    task: &Task,
    open: &Handoff,
    echo: &MatchedEcho,
    receiver: &PrincipalId,
    context: &Context<'_>,
) -> Vec<ElementAssurance> {
    let knew_all = !open.blind
        || context.caller.operator
        || task.past_owner(receiver).is_some()
        || task.was_shown_digests(receiver)
        || task.originator.principal == *receiver
        || task.policy.verifiers.contains(receiver)
        || task.policy.approvers.contains(receiver);
    let one = |element: Element, key: &str, fetched: bool| ElementAssurance {
        element,
        key: key.to_owned(),
        fetched,
    };
    let mut all = vec![
        one(Element::TaskId, "", false),
        one(Element::Contract, "", false),
        one(Element::Scope, "", false),
    ];
    all.extend(echo.sources.iter().map(|(id, has_digest)| {
        one(Element::SourceSnapshot, id.as_str(), *has_digest && !knew_all)
    }));
    all.extend(echo.artifacts.iter().map(|id| {
        let made = task.artifacts.get(id).is_some_and(|a| a.put_by.principal == *receiver);
        one(Element::Artifacts, id.as_str(), !knew_all && !made)
    }));
    all
}
