//! The record of a task: nothing missing, nothing changed afterwards, and the state follows from
//! it.

use baton::core::event::Event;
use baton::core::task::{Task, apply};
use baton::proto::baton::v1 as pb;
use baton::wire::canon;
use baton::wire::event::load_event;
use baton::wire::task::render_task;

use crate::packets::receipt_request;
use crate::steps::{REVIEWER, VERIFIER, WRITER, count, next, report};
use crate::world::{Held, World, by, refused};

/// A task with a full life: refusals, a return, a rejection, a freeze, an acceptance.
pub(crate) async fn lived(world: &World) -> Held {
    world.register(&[(REVIEWER, &["review"]), ("agent:third", &["review"])]).await;
    let mut held = world.ready().await;
    let mut late = Held { revision: 1, ..held.clone() };
    refused(world.work(&mut late).await, "STATE_CONFLICT");
    let offered = world.offer(&mut held, "capability:review").await;
    let id = offered.outcome.expect("an outcome").handoff_id;
    world.claim("agent:third", &id).await.expect("claims");
    world.reject("agent:third", &id).await.expect("returns");
    world.claim(REVIEWER, &id).await.expect("claims");
    world.pass(31);
    let claimed = world.claim(REVIEWER, &id).await.expect("claims again");
    let mut wrong = receipt_request(REVIEWER, &claimed);
    wrong.receipt.as_mut().expect("a receipt").artifacts = None;
    refused(world.acknowledge(REVIEWER, wrong).await, "RECEIPT_MISMATCH");
    world.freeze(&held.task_id).await;
    world.pass(5);
    world.lift(&held.task_id).await;
    let mut taken = world.receive(&held, REVIEWER, &claimed).await;
    taken = world.resume(&taken, taken.epoch, "reviewer-2").await.expect("resumes");
    world.work(&mut taken).await.expect("works");
    let offered = world.offer(&mut taken, "agent:third").await;
    world.withdraw(&mut taken, &offered).await.expect("withdraws");
    world.report(&mut taken, report(pb::RuntimeStatus::RuntimeCompleted)).await.expect("ends");
    world.readback(VERIFIER, &held, pb::ReadbackResult::Pass).await.expect("records");
    let verdict = pb::BusinessAcceptanceStatus::Rejected;
    world.decide(VERIFIER, &held.task_id, verdict).await.expect("rejects");
    taken
}

// A record with a hole, or one that can be changed, explains nothing afterwards. REQ-069
#[tokio::test]
async fn the_events_are_numbered_without_a_gap_and_chained_by_digest() {
    let world = World::new().await;
    let held = lived(&world).await;
    let events = world.events(&held.task_id).await;
    let mut previous = String::new();
    let mut revision = 0;
    for (n, event) in events.iter().enumerate() {
        assert_eq!(event.sequence, n as u64 + 1);
        assert_eq!(event.previous_digest, previous);
        let digest = canon::digest_without(event, &["digest"]).expect("digests").to_string();
        assert_eq!(event.digest, digest, "event {}", event.sequence);
        assert!(event.revision == revision || event.revision == revision + 1);
        (previous, revision) = (digest, event.revision);
    }
    let task = world.see_all(&held.task_id).await;
    assert_eq!((task.chain_head, task.revision), (previous, revision));
}

// State that the record does not explain was changed behind it. REQ-033
#[tokio::test]
async fn folding_the_events_gives_the_state() {
    let world = World::new().await;
    let held = lived(&world).await;
    let mut folded: Option<Task> = None;
    for event in world.events(&held.task_id).await {
        let (record, digest) = load_event(&event).expect("reads");
        match &mut folded {
            Some(task) => apply(task, &record),
            None => {
                let Event::TaskCreated(created) = &record.event else { panic!("not a creation") };
                let id = event.task_id.parse_id();
                folded = Some(Task::create(id, &record, created));
            }
        }
        folded.as_mut().expect("a task").chain_head = digest;
    }
    let mut folded = render_task(&folded.expect("a task"));
    let mut shown = world.see_all(&held.task_id).await;
    folded.view = shown.view;
    // What is said in words is not in the events.
    if let (Some(shown), Some(folded)) = (&mut shown.freeze, &mut folded.freeze) {
        shown.reason.clone_from(&folded.reason);
    }
    assert_eq!(shown, folded);
}

trait ParseId {
    fn parse_id(&self) -> baton::core::id::TaskId;
}

impl ParseId for String {
    fn parse_id(&self) -> baton::core::id::TaskId {
        baton::core::id::TaskId::parse(self).expect("a task id")
    }
}

// A refused receipt that left no trace would let a receiver guess unseen; one that moved the
// revision would break every write under way. REQ-058
#[tokio::test]
async fn refusals_that_matter_are_events_and_change_no_state() {
    let (world, mut held, claimed) = World::with_claimed().await;
    let before = world.see_all(&held.task_id).await;
    let mut wrong = receipt_request(REVIEWER, &claimed);
    wrong.receipt.as_mut().expect("a receipt").scope = None;
    refused(world.acknowledge(REVIEWER, wrong).await, "RECEIPT_MISMATCH");
    let mut late = Held { revision: held.revision - 1, ..held.clone() };
    refused(world.work(&mut late).await, "STATE_CONFLICT");
    refused(world.work(&mut held).await, "HANDOFF_PENDING");
    let after = world.see_all(&held.task_id).await;
    assert_eq!((after.revision, after.epoch), (before.revision, before.epoch));
    assert_eq!(after.last_sequence, before.last_sequence + 2);
    let events = world.events(&held.task_id).await;
    use pb::event::Detail as D;
    let conflict = |d: &D| {
        matches!(d, D::WriteRefused(w) if w.reason() == pb::Reason::StateConflict
            && w.rpc == "ReportStatus")
    };
    assert_eq!(count(&events, conflict), 1);
    let refusal = |d: &D| {
        matches!(d, D::ReceiptRefused(r) if r.receiver == REVIEWER
            && r.elements == [i32::from(pb::ReceiptElement::Scope)])
    };
    assert_eq!(count(&events, refusal), 1);
}

// A watcher that comes back misses what happened meanwhile, or sees it twice. REQ-069
#[tokio::test]
async fn a_watch_goes_on_from_its_cursor_without_gap_or_repeat() {
    let world = World::new().await;
    let mut held = world.ready().await;
    for _ in 0..150 {
        world.work(&mut held).await.expect("works");
    }
    let last = world.see_all(&held.task_id).await.last_sequence;
    for after in [0, 1, 63, 64, 65, last - 1] {
        let events = world.events_after(&held.task_id, after, last).await;
        let numbers: Vec<u64> = events.iter().map(|e| e.sequence).collect();
        assert_eq!(numbers, (after + 1..=last).collect::<Vec<_>>());
    }
    // The stream stays open and gives each event as it is committed, and ends with the task.
    let request = pb::WatchTaskRequest { task_id: held.task_id.clone(), after_sequence: last };
    let stream = world.tasks().watch_task(by(WRITER, request)).await.expect("watches");
    let mut stream = stream.into_inner();
    for n in 1..=3 {
        world.work(&mut held).await.expect("works");
        let next = next(&mut stream).await.expect("reads").expect("goes on");
        assert_eq!(next.event.expect("an event").sequence, last + n);
    }
    world.cancel(WRITER, &held).await.expect("cancels");
    let mut end = 0;
    while let Some(next) = next(&mut stream).await.expect("reads") {
        end = next.event.expect("an event").sequence;
    }
    assert_eq!(end, last + 4);
}
