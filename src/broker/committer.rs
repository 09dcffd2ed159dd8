//! The only writer: it drains the queue, lets the core decide, commits once, then answers.
//!
//! What lives here: the loop, the tasks that it keeps in memory, and the deadlines. Invariants: one
//! commit for all that wait; nobody but a lease is answered before it is on disk; after a failed
//! commit nothing more is written and the process ends.

use std::collections::{BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use crate::core::Outcome;
use crate::core::id::{Namespace, TaskId};
use crate::core::owner;
use crate::core::time::Timestamp;
use crate::store::cache::Cache;
use crate::store::{AnyStore, Direction, Position, Store as _, StoreError, key};
use crate::wire::record::decode_offer;

use super::group::{Ground, Group};
use super::hub::Hub;
use super::loaded::Loaded;
use super::read::Reader;
use super::{Answer, Change, Error, Message, Proposal, Setup};

/// Proposals that one group takes at most: more would only lengthen everybody's wait for the sync.
const GROUP_MAX: usize = 512;

/// Bytes of documents that one group takes before it closes.
const GROUP_BYTES_MAX: usize = 8 << 20;

/// Bytes of values and task records that close a group. The store takes 64 MiB in one batch, and
/// what one proposal adds stays far below the difference.
const GROUP_WEIGHT_MAX: usize = 24 << 20;

/// Half of the number of tasks that the committer keeps in memory.
const TASKS_HALF: usize = 1024;

/// How long the committer sleeps when nothing is due. Deadlines are judged whenever they matter;
/// this only bounds how late they are written down when a manual clock is moved.
const IDLE: Duration = Duration::from_millis(50);

/// Open offers and leased tasks that are read at once during the start.
const LOAD_PAGE: usize = 1024;

/// What a committer works with.
pub(super) struct Parts {
    pub(super) store: Arc<AnyStore>,
    pub(super) hub: Arc<Hub>,
    pub(super) reader: Reader,
    pub(super) setup: Setup,
    pub(super) started: Timestamp,
}

/// Where the committer's answers go.
pub(super) struct Outlet {
    /// Answers, a group's at once.
    pub(super) answers: mpsc::Sender<Vec<Answer>>,
    /// Why the committer has stopped.
    pub(super) fault: watch::Sender<Option<String>>,
}

impl Outlet {
    fn answer(&self, answers: Vec<Answer>) {
        if answers.is_empty() {
            return;
        }
        // Without a runtime there is nobody who waits.
        let _ = self.answers.blocking_send(answers);
    }
}

pub(super) struct Committer {
    parts: Parts,
    queue: Receiver<Message>,
    outlet: Outlet,
    tasks: Cache<TaskId, Loaded>,
    due: Due,
    last: Timestamp,
    stopping: bool,
}

impl Committer {
    /// A committer that knows every deadline that is stored.
    pub(super) fn load(
        parts: Parts,
        queue: Receiver<Message>,
        outlet: Outlet,
    ) -> Result<Self, Error> {
        let last = parts.started;
        let mut committer = Self {
            parts,
            queue,
            outlet,
            tasks: Cache::new(TASKS_HALF),
            due: Due::default(),
            last,
            stopping: false,
        };
        committer.load_deadlines()?;
        Ok(committer)
    }

    fn load_deadlines(&mut self) -> Result<(), Error> {
        let mut found: BTreeSet<(Namespace, TaskId)> = BTreeSet::new();
        let named = |key: &[u8], value: &[u8]| -> Option<(Namespace, TaskId)> {
            let names = key::names(key);
            let namespace = Namespace::parse(names.first()?).ok()?;
            if value.is_empty() {
                return Some((namespace, TaskId::parse(names.get(1)?).ok()?));
            }
            Some((namespace, decode_offer(value).ok()?.1))
        };
        for prefix in [key::all_offers(), key::all_leased()] {
            let end = key::end(&prefix);
            let mut from = prefix;
            loop {
                let page = self.parts.store.scan(&from, &end, Direction::Forward, LOAD_PAGE)?;
                let Some((last, _)) = page.last() else { break };
                from = last.iter().copied().chain([0]).collect();
                for (at, stored) in &page {
                    let entry = named(at, &stored.value).ok_or_else(|| {
                        Error::Damaged(format!("index entry {:?} cannot be read", key::names(at)))
                    })?;
                    found.insert(entry);
                }
            }
        }
        for (namespace, task) in found {
            if let Some(loaded) = Loaded::read(&self.parts.store, &namespace, &task)? {
                self.due.set(&loaded, &self.parts);
                self.last = self.last.max(loaded.task.updated_at);
            }
        }
        Ok(())
    }

    /// Works until the queue closes or the store fails. A panic is a fault like any other: it is
    /// told, and nothing is written after it.
    pub(super) fn run(mut self) {
        let result = catch_unwind(AssertUnwindSafe(|| self.work()));
        let cause = match result {
            Ok(Ok(())) => return,
            Ok(Err(cause)) => cause,
            Err(panic) => panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                .unwrap_or_else(|| "the committer panicked".to_owned()),
        };
        self.outlet.fault.send_replace(Some(cause));
    }

    fn work(&mut self) -> Result<(), String> {
        while !self.stopping {
            let proposals = self.take();
            let now = self.parts.setup.clock.now().max(self.last);
            self.last = now;
            let swept = self.due.passed(now);
            if !proposals.is_empty() || !swept.is_empty() {
                self.group(proposals, &swept, now)?;
            }
        }
        Ok(())
    }

    /// What waits now: at least one proposal, unless a deadline comes first.
    fn take(&mut self) -> Vec<Proposal> {
        let mut proposals = Vec::new();
        let mut bytes = 0_usize;
        let first = match self.queue.recv_timeout(IDLE) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Message::Stop),
        };
        let mut next = first;
        // Whoever is about to propose gets to do it: a sync for more of them costs no more.
        std::thread::yield_now();
        while let Some(message) = next.take() {
            match message {
                Message::Stop => {
                    self.stopping = true;
                    break;
                }
                Message::Propose(proposal) => {
                    bytes += proposal.documents.iter().map(|d| d.bytes.len()).sum::<usize>();
                    proposals.push(*proposal);
                }
            }
            if proposals.len() < GROUP_MAX && bytes < GROUP_BYTES_MAX {
                next = self.queue.try_recv().ok();
            }
        }
        proposals
    }

    fn group(
        &mut self,
        proposals: Vec<Proposal>,
        swept: &[(Namespace, TaskId)],
        now: Timestamp,
    ) -> Result<(), String> {
        let store = Arc::clone(&self.parts.store);
        let setup = self.parts.setup.clone();
        let started = self.parts.started;
        let mut swept = swept.iter();
        let mut proposals = proposals.into_iter();
        // Large records close a group early, so that one batch stays within the store's limit.
        while swept.len() > 0 || proposals.len() > 0 {
            let position = Position(store.position().0.saturating_add(1));
            let ground = Ground { store: &store, setup: &setup, started, now, position };
            let mut group = Group::new(ground);
            let mut leases: Vec<Answer> = Vec::new();
            let mut answers: Vec<Answer> = Vec::new();
            while group.weight() < GROUP_WEIGHT_MAX {
                let Some((namespace, task)) = swept.next() else { break };
                self.lend(&mut group, task);
                group.sweep(namespace, task).map_err(|e| told(&e))?;
            }
            while group.weight() < GROUP_WEIGHT_MAX {
                let Some(proposal) = proposals.next() else { break };
                let lease = proposal.is_lease();
                let (answer, result) = self.judge(&mut group, proposal);
                // A refused lease rests on what others changed, and that may not be on disk.
                let lease = lease && result.is_ok();
                if let Err(Error::Internal(cause)) = &result {
                    // A broken invariant: nothing of this group may be stored.
                    return Err(cause.clone());
                }
                if lease { leases.push((answer, result)) } else { answers.push((answer, result)) }
            }
            self.commit(group, leases, answers)?;
        }
        Ok(())
    }

    /// Lends the group the task from memory, so that it need not be read. It comes back after the
    /// commit; after a fault nothing is read from memory any more.
    fn lend(&mut self, group: &mut Group<'_>, task: &TaskId) {
        if group.tasks.contains_key(task) {
            return;
        }
        if let Some(loaded) = self.tasks.take(task) {
            group.tasks.insert(task.clone(), loaded);
        }
    }

    fn judge(
        &mut self,
        group: &mut Group<'_>,
        proposal: Proposal,
    ) -> (oneshot::Sender<Result<Outcome, Error>>, Result<Outcome, Error>) {
        let Proposal { request, change, documents, answer } = proposal;
        let result = match change {
            Change::Create { task, created } => group.create(&request, task, &created, documents),
            Change::Task { task, command } => {
                self.lend(group, &task);
                group.change(&request, &task, &command, documents)
            }
            Change::Agent(change) => group.agent(&request, &change),
        };
        (answer, result)
    }

    fn commit(
        &mut self,
        mut group: Group<'_>,
        mut leases: Vec<Answer>,
        mut answers: Vec<Answer>,
    ) -> Result<(), String> {
        let (batch, touched) = group.batch();
        if batch.is_empty() {
            for (id, loaded) in group.tasks {
                self.tasks.insert(id, loaded);
            }
            leases.extend(answers);
            self.outlet.answer(leases);
            return Ok(());
        }
        // A lease that is lost in a crash makes the offer claimable again, nothing else, so its
        // answer need not wait for the sync.
        let committed = self.parts.store.commit(batch, &mut |_| {
            self.outlet.answer(std::mem::take(&mut leases));
        });
        let position = match committed {
            Ok(position) => position,
            Err(error @ StoreError::TooLarge { .. }) => {
                // Nothing was written, and nothing of the group stays in memory.
                tracing::error!(%error, "a group is larger than the store takes");
                let told = Error::Internal(error.to_string());
                leases.extend(answers);
                for (_, result) in &mut leases {
                    *result = Err(told.clone());
                }
                self.outlet.answer(leases);
                return Ok(());
            }
            Err(error) => {
                for (_, result) in &mut answers {
                    *result = Err(Error::OutcomeUnknown);
                }
                for (_, result) in &mut leases {
                    *result = Err(Error::OutcomeUnknown);
                }
                let cause = error.to_string();
                self.outlet.fault.send_replace(Some(cause.clone()));
                leases.extend(answers);
                self.outlet.answer(leases);
                return Err(cause);
            }
        };
        let Group { tasks, topics, handoffs, documents, .. } = group;
        let mut tasks: HashMap<TaskId, Loaded> = tasks;
        for id in touched {
            let Some(loaded) = tasks.remove(&id) else { continue };
            self.due.set(&loaded, &self.parts);
            self.parts.reader.committed(&loaded.namespace, &loaded.task);
            self.tasks.insert(id, loaded);
        }
        // What was only read stays useful.
        for (id, loaded) in tasks {
            self.tasks.insert(id, loaded);
        }
        self.parts.reader.found(handoffs, documents);
        self.parts.hub.publish(position, topics);
        self.outlet.answer(answers);
        Ok(())
    }
}

fn told(error: &Error) -> String {
    match error {
        Error::Damaged(what) | Error::Internal(what) => format!("{error}: {what}"),
        other => other.to_string(),
    }
}

impl Proposal {
    fn is_lease(&self) -> bool {
        use crate::core::Command;
        matches!(&self.change, Change::Task { command: Command::Claim(_) | Command::Renew(_), .. })
    }
}

/// The next deadline of each task that has one.
#[derive(Default)]
struct Due {
    order: BTreeSet<(Timestamp, Namespace, TaskId)>,
    of: HashMap<TaskId, (Timestamp, Namespace)>,
}

impl Due {
    fn set(&mut self, loaded: &Loaded, parts: &Parts) {
        let task = &loaded.task;
        if let Some((at, namespace)) = self.of.remove(&task.id) {
            self.order.remove(&(at, namespace, task.id.clone()));
        }
        let Some(at) = next_due(loaded, parts) else { return };
        self.of.insert(task.id.clone(), (at, loaded.namespace.clone()));
        self.order.insert((at, loaded.namespace.clone(), task.id.clone()));
    }

    /// Takes out what is due, a group's worth at most.
    fn passed(&mut self, now: Timestamp) -> Vec<(Namespace, TaskId)> {
        let mut passed = Vec::new();
        while passed.len() < GROUP_MAX {
            match self.order.first() {
                Some((at, _, _)) if *at <= now => {}
                _ => break,
            }
            if let Some((_, namespace, task)) = self.order.pop_first() {
                self.of.remove(&task);
                passed.push((namespace, task));
            }
        }
        passed
    }
}

fn next_due(loaded: &Loaded, parts: &Parts) -> Option<Timestamp> {
    let task = &loaded.task;
    if task.freeze.is_some() || !task.axes.is_open() {
        return None;
    }
    let offer = task.open_handoff().map(|h| {
        let lease = h.lease_until(&parts.setup.limits, parts.started);
        lease.map_or(h.deadline, |lease| lease.min(h.deadline))
    });
    let owner = if task.owner_absent { None } else { owner::lease_until(task, parts.started) };
    offer.into_iter().chain(owner).min()
}
