//! Random values of the core, for the tests that hold both directions of the conversion together.
//!
//! What lives here: one strategy per noun. What does not: tests. Invariant: every variant and every
//! optional part comes up, and each value keeps the core's own invariants, so that what is made
//! here is what events can make. Parts are boxed, since their trees would not fit a test's stack.

use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::event::RPCS;
use crate::core::axis::{
    Acceptance, Approval, Axes, Disposition, HandoffStatus, ReleasedBy, Runtime,
};
use crate::core::digest::{Digest, Epoch, Revision};
use crate::core::event::{Event, HandoffReceived, ReadbackResult, Recorded, TaskCreated};
use crate::core::handoff::{Claim, EndReason, Handoff, Received, Receiver};
use crate::core::id::{
    ArtifactId, Capability, CheckpointId, ContextId, HandoffId, InstanceId, PrincipalId, RequestId,
    RunId, TaskId, VersionLabel,
};
use crate::core::receipt::{Element, ElementAssurance};
use crate::core::refusal::Reason;
use crate::core::scope::{Operation, Resource, Scope};
use crate::core::task::{
    AcceptancePolicy, Artifact, ArtifactState, CheckpointFacts, Freeze, Party, PastOwner, Policy,
    Task,
};
use crate::core::time::{Span, Timestamp};

/// Identifiers: parsed from texts of the given form, so each is legal by construction.
macro_rules! parsed {
    ($($name:ident: $type:ident = $form:expr;)+) => {$(
        pub(super) fn $name() -> BoxedStrategy<$type> {
            $form.prop_map(|text| $type::parse(&text).expect("a legal text")).boxed()
        }
    )+};
}

const UUID: &str = "[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}";
const TOKEN: &str = "[A-Za-z0-9:._/-]{1,16}";

parsed! {
    task_id: TaskId = UUID;
    handoff_id: HandoffId = UUID;
    request_id: RequestId = UUID;
    principal: PrincipalId = "agent:[a-z0-9]{1,12}";
    instance: InstanceId = TOKEN;
    artifact_id: ArtifactId = TOKEN;
    checkpoint_id: CheckpointId = TOKEN;
    context_id: ContextId = TOKEN;
    run_id: RunId = TOKEN;
    capability: Capability = "[A-Za-z0-9._-]{1,12}";
    version: VersionLabel = "[ -~]{1,12}";
    operation: Operation = "[a-z][a-z0-9._:-]{0,10}";
    resource: Resource = "(file|https)://[a-z]{1,8}/[a-z]{1,8}(/\\*|/\\*\\*)?";
}

fn digest() -> BoxedStrategy<Digest> {
    any::<[u8; 32]>().prop_map(Digest::from_bytes).boxed()
}

pub(super) fn timestamp() -> BoxedStrategy<Timestamp> {
    let whole = Timestamp::MIN.as_micros()..=Timestamp::MAX.as_micros();
    let micros = prop_oneof![whole, Just(0), Just(-1), -3_000_000_i64..3_000_000];
    micros.prop_map(|micros| Timestamp::from_micros(micros).expect("in range")).boxed()
}

/// Up to what the canonical form of a duration can print.
pub(super) fn span() -> impl Strategy<Value = Span> {
    (0_i64..=315_576_000_000_000_000).prop_map(Span::from_micros)
}

fn text() -> impl Strategy<Value = String> {
    "[ -~]{0,12}"
}

fn counter() -> impl Strategy<Value = u64> {
    prop_oneof![1..1000_u64, Just(u64::MAX)]
}

fn epoch() -> impl Strategy<Value = Epoch> {
    counter().prop_map(Epoch::new)
}

fn revision() -> impl Strategy<Value = Revision> {
    counter().prop_map(Revision::new)
}

pub(super) fn party() -> BoxedStrategy<Party> {
    (principal(), "[ -~]{1,12}")
        .prop_map(|(principal, account)| Party { principal, account })
        .boxed()
}

/// Axes that the core would store; the others are tried and left out.
pub(super) fn axes() -> BoxedStrategy<Axes> {
    let all = every_axes();
    (0..all.len()).prop_map(move |n| all[n]).boxed()
}

/// Every combination of axes that the core would store.
pub(super) fn every_axes() -> Vec<Axes> {
    let mut all = Vec::new();
    for runtime in RUNTIMES {
        for acceptance in ACCEPTANCES {
            for approval in APPROVALS {
                for disposition in [Disposition::Open, Disposition::Closed] {
                    for released_by in RELEASES {
                        for effect_uncertain in [false, true] {
                            all.push(Axes {
                                runtime,
                                acceptance,
                                approval,
                                disposition,
                                released_by,
                                effect_uncertain,
                            });
                        }
                    }
                }
            }
        }
    }
    all.retain(|axes| axes.check().is_ok());
    all
}

pub(super) const RUNTIMES: [Runtime; 10] = [
    Runtime::Submitted,
    Runtime::Working,
    Runtime::Paused,
    Runtime::Blocked,
    Runtime::Failed,
    Runtime::UnknownCause,
    Runtime::Reconciling,
    Runtime::Canceled,
    Runtime::RuntimeCompleted,
    Runtime::Rejected,
];

const ACCEPTANCES: [Acceptance; 5] = [
    Acceptance::Unset,
    Acceptance::NotApplicable,
    Acceptance::Verifying,
    Acceptance::Accepted,
    Acceptance::Rejected,
];

const APPROVALS: [Approval; 9] = [
    Approval::Unset,
    Approval::NotApplicable,
    Approval::Pending,
    Approval::Granted,
    Approval::Denied,
    Approval::Invalidated,
    Approval::Expired,
    Approval::Revoked,
    Approval::Consumed,
];

const RELEASES: [ReleasedBy; 6] = [
    ReleasedBy::Nobody,
    ReleasedBy::Client,
    ReleasedBy::Human,
    ReleasedBy::Credential,
    ReleasedBy::Permission,
    ReleasedBy::Other,
];

fn ended_status() -> impl Strategy<Value = HandoffStatus> {
    select(vec![
        HandoffStatus::Rejected,
        HandoffStatus::Withdrawn,
        HandoffStatus::Expired,
        HandoffStatus::Superseded,
        HandoffStatus::Stale,
    ])
}

fn end_reason() -> impl Strategy<Value = EndReason> {
    select(vec![
        EndReason::RefusedByReceiver,
        EndReason::AttemptsExhausted,
        EndReason::ClaimsExhausted,
        EndReason::NoReceiverLeft,
        EndReason::WithdrawnBySender,
        EndReason::TaskCanceled,
        EndReason::ArtifactChanged,
        EndReason::OperatorTakeover,
        EndReason::OwnershipResumed,
    ])
}

fn element() -> impl Strategy<Value = Element> {
    select(vec![
        Element::TaskId,
        Element::Contract,
        Element::SourceSnapshot,
        Element::Artifacts,
        Element::Scope,
    ])
}

fn artifact_state() -> impl Strategy<Value = ArtifactState> {
    select(vec![ArtifactState::Put, ArtifactState::Verified, ArtifactState::Rejected])
}

fn assurances() -> BoxedStrategy<Vec<ElementAssurance>> {
    let one = (element(), text(), any::<bool>())
        .prop_map(|(element, key, fetched)| ElementAssurance { element, key, fetched });
    vec(one, 0..4).boxed()
}

pub(super) fn scope() -> BoxedStrategy<Scope> {
    (
        prop_oneof![TOKEN.boxed(), Just("capability:review".to_owned()).boxed()],
        btree_set(resource(), 1..4),
        btree_set(operation(), 1..4),
        option::of(timestamp()),
        btree_set("[ -~]{1,8}", 0..3),
        btree_set("[ -~]{1,8}", 0..3),
    )
        .prop_map(|(principal, resources, operations, expires_at, conditions, prohibitions)| {
            let approval_conditions = conditions;
            Scope {
                principal,
                resources,
                operations,
                expires_at,
                approval_conditions,
                prohibitions,
            }
        })
        .boxed()
}

fn policy() -> BoxedStrategy<Policy> {
    (
        select(vec![AcceptancePolicy::NotApplicable, AcceptancePolicy::Verifier]),
        (btree_set(principal(), 0..3), btree_set(principal(), 0..3)),
        option::of(span()),
        any::<[bool; 3]>(),
        btree_map("[a-z]{0,8}", 0..9_u32, 0..3),
    )
        .prop_map(|(acceptance, (verifiers, approvers), owner_lease, flags, expected)| {
            let [trust_boundary, originator_may_offer, side_effecting] = flags;
            Policy {
                acceptance,
                verifiers,
                approvers,
                trust_boundary,
                owner_lease,
                originator_may_offer,
                expected,
                side_effecting,
            }
        })
        .boxed()
}

fn artifact() -> BoxedStrategy<Artifact> {
    (
        (artifact_id(), version(), digest(), [text(), text(), text(), text(), text()]),
        (option::of(any::<u64>()), party(), timestamp(), counter(), artifact_state()),
        (option::of(run_id()), option::of(digest())),
    )
        .prop_map(|((id, version, digest, texts), (size_bytes, put_by, put_at, n, state), rest)| {
            let [role, kind, media_type, location, digested] = texts;
            Artifact {
                id,
                version,
                digest,
                role,
                kind,
                media_type,
                location,
                size_bytes,
                digested,
                put_by,
                put_at,
                put_sequence: n,
                state,
                run: rest.0,
                content: rest.1,
            }
        })
        .boxed()
}

fn claim() -> BoxedStrategy<Claim> {
    (party(), instance(), timestamp(), timestamp())
        .prop_map(|(claimant, instance, claimed_at, lease_until)| Claim {
            claimant,
            instance,
            claimed_at,
            lease_until,
        })
        .boxed()
}

fn receiver() -> BoxedStrategy<Receiver> {
    prop_oneof![
        principal().prop_map(Receiver::Principal),
        capability().prop_map(Receiver::Capability)
    ]
    .boxed()
}

fn received() -> BoxedStrategy<Received> {
    (principal(), epoch(), revision(), counter(), digest(), digest(), assurances())
        .prop_map(|(receiver, epoch, revision, sequence, receipt, elements, assurances)| Received {
            receiver,
            epoch,
            revision,
            sequence,
            receipt,
            elements,
            assurances,
        })
        .boxed()
}

fn pending() -> BoxedStrategy<Handoff> {
    (
        (handoff_id(), party(), principal(), receiver(), digest(), option::of(digest())),
        (any::<[bool; 2]>(), timestamp(), timestamp(), option::of(claim())),
        (any::<u32>(), any::<u32>(), btree_set(principal(), 0..3)),
        (option::of(handoff_id()), option::of(digest())),
    )
        .prop_map(|(who, when, (claims, attempts, refused_by), (supersedes, on_behalf))| {
            let (id, from, offered_by, receiver, packet, checkpoint) = who;
            let ([blind, echo_allowed], offered_at, deadline, claim) = when;
            Handoff {
                id,
                status: HandoffStatus::Pending,
                end_reason: None,
                from,
                offered_by,
                receiver,
                packet,
                checkpoint,
                blind,
                echo_allowed,
                offered_at,
                deadline,
                claim,
                claims,
                attempts,
                refused_by,
                supersedes,
                on_behalf,
                ended_at: None,
                failing: None,
                end_note: None,
                received: None,
            }
        })
        .boxed()
}

pub(super) fn handoff() -> BoxedStrategy<Handoff> {
    let end = (
        ended_status(),
        option::of(end_reason()),
        option::of(element()),
        option::of(digest()),
        timestamp(),
    );
    let ended = (pending(), end).prop_map(|(open, (status, end_reason, failing, note, at))| {
        let (ended_at, end_note) = (Some(at), note);
        Handoff { status, end_reason, failing, end_note, ended_at, claim: None, ..open }
    });
    let moved = (pending(), received(), timestamp()).prop_map(|(open, received, at)| Handoff {
        status: HandoffStatus::Received,
        ended_at: Some(at),
        claim: None,
        received: Some(received),
        ..open
    });
    prop_oneof![pending(), ended, moved].boxed()
}

fn checkpoint() -> BoxedStrategy<CheckpointFacts> {
    (checkpoint_id(), counter(), timestamp(), digest(), any::<u32>())
        .prop_map(|(id, version, fixed_at, digest, not_done_units)| CheckpointFacts {
            id,
            version,
            fixed_at,
            digest,
            not_done_units,
        })
        .boxed()
}

fn freeze() -> BoxedStrategy<Freeze> {
    (principal(), timestamp(), digest())
        .prop_map(|(by, since, note)| Freeze { by, since, note })
        .boxed()
}

fn past_owner() -> BoxedStrategy<PastOwner> {
    (party(), epoch(), revision(), counter(), option::of(handoff_id()))
        .prop_map(|(party, until_epoch, until_revision, until_sequence, handoff)| PastOwner {
            party,
            until_epoch,
            until_revision,
            until_sequence,
            handoff,
        })
        .boxed()
}

fn created() -> BoxedStrategy<TaskCreated> {
    (
        (party(), instance(), option::of(context_id()), text()),
        (version(), digest(), digest(), option::of(scope()), policy()),
    )
        .prop_map(
            |((originator, instance, context, class), (version, terms, whole, scope, policy))| {
                TaskCreated {
                    originator,
                    instance,
                    context,
                    class,
                    contract_version: version,
                    contract_digest: terms,
                    contract_document: whole,
                    scope,
                    policy,
                }
            },
        )
        .boxed()
}

/// A task as it is stored: with a chain head, and a lease exactly if its policy asks for one.
pub(super) fn task() -> BoxedStrategy<Task> {
    (
        (task_id(), created(), party(), instance(), epoch(), revision(), axes()),
        (option::of(checkpoint()), vec(artifact(), 0..3), option::of(handoff())),
        (option::of(freeze()), vec(past_owner(), 0..3), any::<[bool; 3]>(), vec(principal(), 0..3)),
        (timestamp(), timestamp(), timestamp(), principal(), option::of(request_id())),
        (option::of(digest()), counter(), digest()),
    )
        .prop_map(|(who, parts, rest, when, (status_report, sequence, head))| {
            let (id, created, owner, instance, epoch, revision, axes) = who;
            let (checkpoint, artifacts, handoff) = parts;
            let (freeze, past_owners, flags, shown_to) = rest;
            let (created_at, updated_at, lease, updated_by, updated_request) = when;
            let [artifacts_moved, owner_absent, cancel_requested] = flags;
            Task {
                id,
                context: created.context,
                class: created.class,
                originator: created.originator,
                owner,
                instance,
                epoch,
                revision,
                axes,
                contract_version: created.contract_version,
                contract_digest: created.contract_digest,
                contract_document: created.contract_document,
                scope: created.scope,
                checkpoint,
                artifacts_moved,
                artifacts: artifacts.into_iter().map(|a| (a.id.clone(), a)).collect(),
                handoff,
                freeze,
                owner_lease_until: created.policy.owner_lease.map(|_| lease),
                policy: created.policy,
                created_at,
                updated_at,
                updated_by,
                updated_request,
                status_report,
                owner_absent,
                cancel_requested,
                past_owners,
                shown_to: shown_to.into_iter().collect(),
                sequence,
                chain_head: Some(head),
            }
        })
        .boxed()
}

fn note() -> impl Strategy<Value = Option<Digest>> {
    option::of(digest())
}

fn task_event() -> BoxedStrategy<Event> {
    let result =
        select(vec![ReadbackResult::Pass, ReadbackResult::Fail, ReadbackResult::Inconclusive]);
    prop_oneof![
        created().prop_map(|created| Event::TaskCreated(Box::new(created))),
        checkpoint().prop_map(|c| Event::CheckpointPut {
            id: c.id,
            version: c.version,
            digest: c.digest,
            not_done_units: c.not_done_units,
        }),
        (axes(), digest()).prop_map(|(axes, report)| Event::StatusReported { axes, report }),
        (artifact(), axes())
            .prop_map(|(artifact, axes)| Event::ArtifactPut { artifact: Box::new(artifact), axes }),
        (artifact_id(), version(), principal(), result, digest(), artifact_state()).prop_map(
            |(artifact, version, verifier, result, evidence, state)| Event::ReadbackRecorded {
                artifact,
                version,
                verifier,
                result,
                evidence,
                state,
            }
        ),
        (axes(), principal(), digest()).prop_map(|(axes, verifier, decision)| {
            Event::AcceptanceDecided { axes, verifier, decision }
        }),
        (axes(), note()).prop_map(|(axes, note)| Event::TaskCanceled { axes, note }),
        digest().prop_map(|note| Event::TaskFrozen { note }),
        digest().prop_map(|note| Event::FreezeLifted { note }),
        instance().prop_map(|instance| Event::OwnershipResumed { instance }),
        Just(Event::OwnerAbsent),
        (select(Reason::ALL), select(RPCS))
            .prop_map(|(reason, rpc)| Event::WriteRefused { reason, rpc }),
    ]
    .boxed()
}

fn handoff_event() -> BoxedStrategy<Event> {
    let facts =
        ((handoff_id(), party(), instance(), digest(), digest()), (scope(), axes(), assurances()));
    prop_oneof![
        pending().prop_map(|handoff| Event::HandoffOffered { handoff: Box::new(handoff) }),
        (handoff_id(), claim())
            .prop_map(|(handoff, claim)| Event::HandoffClaimed { handoff, claim }),
        (handoff_id(), principal())
            .prop_map(|(handoff, claimant)| Event::ClaimLapsed { handoff, claimant }),
        (handoff_id(), principal(), vec(element(), 1..4)).prop_map(
            |(handoff, receiver, elements)| Event::ReceiptRefused { handoff, receiver, elements }
        ),
        facts.prop_map(
            |((handoff, receiver, instance, receipt, elements), (scope, axes, assurances))| {
                Event::HandoffReceived(Box::new(HandoffReceived {
                    handoff,
                    receiver,
                    instance,
                    receipt,
                    elements,
                    scope,
                    axes,
                    assurances,
                }))
            }
        ),
        (handoff_id(), ended_status(), option::of(end_reason()), option::of(element()), note())
            .prop_map(|(handoff, status, reason, failing, note)| Event::HandoffEnded {
                handoff,
                status,
                reason,
                failing,
                note,
            }),
        (handoff_id(), principal(), option::of(element()), note()).prop_map(
            |(handoff, refused_by, failing, note)| Event::HandoffReturned {
                handoff,
                refused_by,
                failing,
                note,
            }
        ),
    ]
    .boxed()
}

pub(super) fn recorded() -> BoxedStrategy<Recorded> {
    (
        prop_oneof![task_event(), handoff_event()],
        (prop_oneof![Just(1), 2..1000_u64], timestamp(), principal(), option::of(request_id())),
        (revision(), epoch(), digest()),
    )
        .prop_map(|(event, (sequence, time, by, request), (revision, epoch, before))| Recorded {
            sequence,
            time,
            by,
            request,
            revision,
            epoch,
            previous: (sequence != 1).then_some(before),
            event,
        })
        .boxed()
}
