//! One task: its record, its events, its documents and its place in the indexes.

use crate::core::digest::Digest;
use crate::core::event::Event;
use crate::core::task::{Task, apply};
use crate::store::{Direction, Store, StoreError, key};
use crate::wire::canon;
use crate::wire::event::load_event;
use crate::wire::record::{StoredTask, decode_event};

use super::{PAGE, Report};

/// Adds what is wrong with a task to the report.
pub(super) fn check(
    store: &impl Store,
    stored: &StoredTask,
    report: &mut Report,
) -> Result<(), StoreError> {
    let task = &stored.task;
    if let Err(broken) = task.check() {
        report.find(format!("task {}: {broken}", task.id));
    }
    match folded(store, task, report)? {
        Some(folded) if same(&folded, task) => {}
        Some(_) => report.find(format!("task {}: its events give another state", task.id)),
        None => {}
    }
    for (what, digest) in documents(task) {
        if store.get(&key::document(&task.id, &digest))?.is_none() {
            report.find(format!(
                "task {}: the document of its {what}, {digest}, is missing",
                task.id
            ));
        }
    }
    listed(store, stored, report)
}

/// The state that the events of a task give; none if they cannot be followed.
fn folded(
    store: &impl Store,
    task: &Task,
    report: &mut Report,
) -> Result<Option<Task>, StoreError> {
    let mut state: Option<Task> = None;
    let mut last = 0_u64;
    let mut head: Option<Digest> = None;
    let mut end = key::event(&task.id, u64::MAX);
    end.push(0);
    loop {
        let from = key::event(&task.id, last.saturating_add(1));
        let page = store.scan(&from, &end, Direction::Forward, PAGE)?;
        if page.is_empty() {
            break;
        }
        for (_, stored) in page {
            report.events = report.events.saturating_add(1);
            last = last.saturating_add(1);
            match follow(&stored.value, last, head, &mut state, task) {
                Ok(digest) => head = Some(digest),
                Err(what) => {
                    report.find(format!("task {}: event {last} {what}", task.id));
                    return Ok(None);
                }
            }
        }
    }
    if last != task.sequence || head != task.chain_head {
        report.find(format!(
            "task {}: its events end at {last}, and its record at {}",
            task.id, task.sequence
        ));
        return Ok(None);
    }
    Ok(state)
}

/// Checks an event's number, link and digest, and folds it.
fn follow(
    bytes: &[u8],
    number: u64,
    head: Option<Digest>,
    state: &mut Option<Task>,
    task: &Task,
) -> Result<Digest, String> {
    let event = decode_event(bytes).map_err(|e| format!("cannot be read: {e}"))?;
    let (record, digest) = load_event(&event).map_err(|e| format!("cannot be read: {e}"))?;
    let computed = canon::digest_without(&event, &["digest"]).map_err(|e| e.to_string())?;
    if digest != Some(computed) {
        return Err("is not the one that was digested".to_owned());
    }
    if record.sequence != number || record.previous != head || event.task_id != task.id.as_str() {
        return Err("does not follow the one before it".to_owned());
    }
    match (state.as_mut(), &record.event) {
        (Some(state), _) => apply(state, &record),
        (None, Event::TaskCreated(created)) => {
            *state = Some(Task::create(task.id.clone(), &record, created));
        }
        (None, _) => return Err("is no creation".to_owned()),
    }
    if let Some(state) = state {
        state.chain_head = Some(computed);
    }
    Ok(computed)
}

/// True if the states are equal, but for how long a claim holds: renewals leave no event.
fn same(folded: &Task, task: &Task) -> bool {
    let mut folded = folded.clone();
    let lease = |task: &Task| {
        task.handoff.as_ref().and_then(|h| h.claim.as_ref()).map(|claim| claim.lease_until)
    };
    let claim = folded.handoff.as_mut().and_then(|h| h.claim.as_mut());
    if let (Some(claim), Some(until)) = (claim, lease(task)) {
        claim.lease_until = until;
    }
    folded == *task
}

fn documents(task: &Task) -> impl Iterator<Item = (&'static str, Digest)> {
    let handoff = task.handoff.as_ref();
    let received = handoff.and_then(|h| h.received.as_ref());
    [
        ("contract", Some(task.contract_document)),
        ("checkpoint", task.checkpoint.as_ref().map(|c| c.digest)),
        ("freeze", task.freeze.as_ref().map(|f| f.note)),
        ("packet", handoff.map(|h| h.packet)),
        ("receipt", received.map(|r| r.receipt)),
    ]
    .into_iter()
    .filter_map(|(what, digest)| Some((what, digest?)))
}

fn listed(store: &impl Store, stored: &StoredTask, report: &mut Report) -> Result<(), StoreError> {
    let (namespace, task) = (&stored.namespace, &stored.task);
    let mut places =
        vec![("its originator", key::created(namespace, &task.originator.principal, &task.id))];
    if task.axes.is_open() {
        places.push(("its owner", key::owned(namespace, &task.owner.principal, &task.id)));
    }
    if task.open_handoff().is_some() {
        places.push(("the open offers", stored.offer_key.clone()));
    }
    for (of, at) in places {
        let there = !at.is_empty() && store.get(&at)?.is_some();
        if !there {
            report.find(format!("task {} is missing in the list of {of}", task.id));
        }
    }
    Ok(())
}
