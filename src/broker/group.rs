//! One group of proposals: judged one after the other on an overlay, written as one batch.
//!
//! What lives here: what a group has changed so far, and how events become keys. What does not:
//! taking proposals and committing (`committer.rs`). Invariants: a proposal sees what earlier ones
//! of its group changed; a refused one leaves nothing but what the refusal records; state, events
//! and indexes go into the same batch.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::core::event::{Event, TaskCreated};
use crate::core::handoff::{Handoff, Receiver};
use crate::core::id::{HandoffId, Namespace, PrincipalId, RequestId, TaskId};
use crate::core::party::{Sight, no_such_task, sight};
use crate::core::refusal::{Reason, Refusal};
use crate::core::task::{Task, apply};
use crate::core::time::Timestamp;
use crate::core::{
    Caller, Command, Context, Decision, Outcome, Refused, View, claim, decide, owner, work,
};
use crate::store::{AnyStore, Batch, Expect, Key, Position, Store as _, key};
use crate::wire::record::{
    Remembered, decode_creation, decode_handoff, encode_creation, encode_handoff, encode_offer,
    seal_event,
};

use super::loaded::{Loaded, dedup_key};
use super::{Document, Error, Request, Setup, Topic};

/// Bytes from which on a task's record is measured before it grows. One call adds less than the
/// difference between this and what the store takes.
const TASK_BYTES_LARGE: usize = 1 << 20;

/// Bytes that a task's record may grow to by what callers send.
const TASK_BYTES_MAX: usize = 4 << 20;

/// What a group needs from the committer.
pub(super) struct Ground<'a> {
    pub(super) store: &'a AnyStore,
    pub(super) setup: &'a Setup,
    pub(super) started: Timestamp,
    pub(super) now: Timestamp,
    /// The position that this group will have.
    pub(super) position: Position,
}

/// A group in the making.
pub(super) struct Group<'a> {
    ground: Ground<'a>,
    /// Tasks that this group read or changed.
    pub(super) tasks: HashMap<TaskId, Loaded>,
    touched: BTreeSet<TaskId>,
    pub(super) puts: BTreeMap<Key, Vec<u8>>,
    /// Events, which nobody reads before the group is written.
    events: Vec<(Key, Vec<u8>)>,
    /// Keys in `puts` that are new by how they are made.
    fresh: BTreeSet<Key>,
    pub(super) deletes: BTreeSet<Key>,
    pub(super) expect: Vec<(Key, Expect)>,
    pub(super) topics: Vec<Topic>,
    pub(super) handoffs: Vec<(HandoffId, TaskId)>,
    pub(super) documents: Vec<(TaskId, Document)>,
    offers: u32,
    weight: usize,
}

impl<'a> Group<'a> {
    pub(super) fn new(ground: Ground<'a>) -> Self {
        Self {
            ground,
            tasks: HashMap::new(),
            touched: BTreeSet::new(),
            puts: BTreeMap::new(),
            events: Vec::new(),
            fresh: BTreeSet::new(),
            deletes: BTreeSet::new(),
            expect: Vec::new(),
            topics: Vec::new(),
            handoffs: Vec::new(),
            documents: Vec::new(),
            offers: 0,
            weight: 0,
        }
    }

    /// About how many bytes the group's batch will have.
    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    pub(super) fn ground(&self) -> &Ground<'a> {
        &self.ground
    }

    /// A value as this group sees it: its own change, or what is stored.
    pub(super) fn value(&self, key: &Key) -> Result<Option<Vec<u8>>, Error> {
        if let Some(value) = self.puts.get(key) {
            return Ok(Some(value.clone()));
        }
        if self.deletes.contains(key) {
            return Ok(None);
        }
        Ok(self.ground.store.get(key)?.map(|stored| stored.value))
    }

    pub(super) fn put(&mut self, key: Key, value: Vec<u8>) {
        self.deletes.remove(&key);
        self.weight = self.weight.saturating_add(value.len());
        self.puts.insert(key, value);
    }

    /// Puts a value under a key that has a new id or number in it, so that nothing is there.
    fn put_new(&mut self, key: Key, value: Vec<u8>) {
        self.fresh.insert(key.clone());
        self.put(key, value);
    }

    /// An event's key has a number that only grows, so nothing is there.
    fn add_event(&mut self, task: &TaskId, sequence: u64, value: Vec<u8>) {
        self.weight = self.weight.saturating_add(value.len());
        self.events.push((key::event(task, sequence), value));
    }

    fn delete(&mut self, key: Key) {
        self.puts.remove(&key);
        if !self.fresh.remove(&key) {
            self.deletes.insert(key);
        }
    }

    /// Creates a task. The answer is kept as long as the task.
    pub(super) fn create(
        &mut self,
        request: &Request,
        id: TaskId,
        created: &TaskCreated,
        documents: Vec<Document>,
    ) -> Result<Outcome, Error> {
        let caller = &request.caller;
        let (namespace, principal) = (caller.namespace.clone(), caller.party.principal.clone());
        let creation = key::creation(&namespace, &principal, &request.id);
        if let Some(bytes) = self.value(&creation)? {
            let entry = decode_creation(&bytes).map_err(|e| Error::Damaged(e.to_string()))?;
            return replay(&entry, request);
        }
        self.bind_context(caller, created)?;
        let record = work::create(created.clone(), request.id.clone(), &self.context(caller));
        let mut task = Task::create(id.clone(), &record, created);
        let (head, event) = seal_event(&id, &record).map_err(|e| Error::Internal(e.to_string()))?;
        task.chain_head = Some(head);
        task.check().map_err(|broken| Error::Internal(broken.to_owned()))?;
        self.add_event(&id, 1, event);
        self.put(key::owned(&namespace, &principal, &id), Vec::new());
        self.put(key::created(&namespace, &principal, &id), Vec::new());
        if created.policy.owner_lease.is_some() {
            self.put(key::leased(&namespace, &id), Vec::new());
        }
        let outcome = outcome(&task, None, self.ground.now);
        let entry = Remembered {
            key: dedup_key(request, "CreateTask"),
            request: request.digest,
            outcome: outcome.clone(),
        };
        self.put(creation, encode_creation(&id, &entry));
        self.keep(&id, documents);
        self.tasks.insert(id.clone(), Loaded::new(namespace, task));
        self.touched.insert(id);
        Ok(outcome)
    }

    fn bind_context(&mut self, caller: &Caller, created: &TaskCreated) -> Result<(), Error> {
        let Some(context) = &created.context else { return Ok(()) };
        let at = key::context(&caller.namespace, context);
        let principal = caller.party.principal.as_str();
        match self.value(&at)? {
            None => self.put(at, principal.as_bytes().to_vec()),
            Some(owner) if owner == principal.as_bytes() => {}
            Some(_) => {
                return Err(Refusal::new(
                    Reason::ContextOwnershipConflict,
                    format!("context {context} belongs to another principal; use one of your own"),
                )
                .with("contextId", context)
                .into());
            }
        }
        Ok(())
    }

    /// Carries a command out on a task.
    pub(super) fn change(
        &mut self,
        request: &Request,
        id: &TaskId,
        command: &Command,
        documents: Vec<Document>,
    ) -> Result<Outcome, Error> {
        let Some(mut loaded) = self.take(&request.caller.namespace, id)? else {
            return Err(no_such_task(id).into());
        };
        let result = self.change_loaded(request, &mut loaded, command, documents);
        self.tasks.insert(id.clone(), loaded);
        result
    }

    fn change_loaded(
        &mut self,
        request: &Request,
        loaded: &mut Loaded,
        command: &Command,
        documents: Vec<Document>,
    ) -> Result<Outcome, Error> {
        let caller = &request.caller;
        let ended = self.other_handoff(&loaded.task, command)?;
        let latest = loaded.task.handoff.as_ref().filter(|h| command.handoff() == Some(&h.id));
        // Who was asked learns how the offer ended, also when somebody else has received it.
        let asked = ended.as_ref().or(latest).is_some_and(|h| h.was_offered_to(caller));
        if sight(&loaded.task, caller) == Sight::None && !asked {
            return Err(no_such_task(&loaded.task.id).into());
        }
        let remembered_as = dedup_key(request, command.rpc());
        if let Some(entry) = loaded.remembered(&remembered_as) {
            return replay(entry, request);
        }
        let view = View { task: &loaded.task, ended: ended.as_ref() };
        let judged = decide(&view, command, &self.context(caller));
        let by = &caller.party.principal;
        match judged {
            Ok(decision) => {
                if command.brings_content() {
                    self.has_room(loaded, &decision.events, by, &request.id)?;
                }
                self.fold(loaded, &decision.events, by, Some(&request.id))?;
                let outcome = self.settle(loaded, &decision);
                // A renewal is safe to repeat and comes often: remembering it would push out the
                // rest.
                if !decision.events.is_empty() {
                    loaded.remember(remembered_as, request.digest, outcome.clone());
                    self.keep(&loaded.task.id, documents);
                }
                Ok(outcome)
            }
            Err(Refused { refusal, events }) => {
                self.fold(loaded, &events, by, Some(&request.id))?;
                Err(refusal.into())
            }
        }
    }

    /// Refuses what would make a large record larger than a task may have.
    fn has_room(
        &self,
        loaded: &Loaded,
        events: &[Event],
        by: &PrincipalId,
        request: &RequestId,
    ) -> Result<(), Error> {
        if loaded.stored_bytes < TASK_BYTES_LARGE {
            return Ok(());
        }
        let mut task = loaded.task.clone();
        for event in events {
            let now = self.ground.now;
            let record = task.record(event.clone(), by.clone(), Some(request.clone()), now);
            apply(&mut task, &record);
        }
        let bytes = loaded.bytes_with(&task);
        if bytes <= TASK_BYTES_MAX {
            return Ok(());
        }
        Err(Refusal::new(
            Reason::LimitExceeded,
            format!(
                "the record of task {} would take {bytes} bytes, at most {TASK_BYTES_MAX}; send \
                 less, or open a new task",
                task.id
            ),
        )
        .with("taskId", &task.id)
        .into())
    }

    /// Writes down deadlines that have passed.
    pub(super) fn sweep(&mut self, namespace: &Namespace, id: &TaskId) -> Result<(), Error> {
        let Some(mut loaded) = self.take(namespace, id)? else { return Ok(()) };
        let clock = super::clock_principal();
        let caller = Caller {
            party: crate::core::task::Party { principal: clock.clone(), account: String::new() },
            namespace: namespace.clone(),
            operator: false,
            capabilities: BTreeSet::new(),
        };
        let view = View { task: &loaded.task, ended: None };
        let mut events = claim::sweep(&view, &self.context(&caller));
        events.extend(owner::sweep(&loaded.task, self.ground.started, self.ground.now));
        let result = self.fold(&mut loaded, &events, &clock, None);
        self.tasks.insert(id.clone(), loaded);
        result
    }

    /// The task out of this group's overlay or the store; it is put back by the caller.
    fn take(&mut self, namespace: &Namespace, id: &TaskId) -> Result<Option<Loaded>, Error> {
        match self.tasks.remove(id) {
            Some(loaded) if loaded.namespace == *namespace => Ok(Some(loaded)),
            Some(loaded) => {
                self.tasks.insert(id.clone(), loaded);
                Ok(None)
            }
            None => Loaded::read(self.ground.store, namespace, id),
        }
    }

    fn other_handoff(&self, task: &Task, command: &Command) -> Result<Option<Handoff>, Error> {
        let Some(id) = command.handoff() else { return Ok(None) };
        if task.handoff.as_ref().is_some_and(|h| h.id == *id) {
            return Ok(None);
        }
        let Some(bytes) = self.value(&key::handoff(id))? else { return Ok(None) };
        let (of, handoff, _) = decode_handoff(&bytes).map_err(|e| Error::Damaged(e.to_string()))?;
        Ok((of == task.id).then_some(handoff))
    }

    fn context<'c>(&'c self, caller: &'c Caller) -> Context<'c> {
        Context {
            now: self.ground.now,
            started: self.ground.started,
            caller,
            limits: &self.ground.setup.limits,
        }
    }

    fn fold(
        &mut self,
        loaded: &mut Loaded,
        events: &[Event],
        by: &PrincipalId,
        request: Option<&RequestId>,
    ) -> Result<(), Error> {
        for event in events {
            let record =
                loaded.task.record(event.clone(), by.clone(), request.cloned(), self.ground.now);
            let before = (loaded.task.owner.principal.clone(), loaded.task.axes.is_open());
            apply(&mut loaded.task, &record);
            let (head, bytes) =
                seal_event(&loaded.task.id, &record).map_err(|e| Error::Internal(e.to_string()))?;
            loaded.task.chain_head = Some(head);
            loaded.task.check().map_err(|broken| Error::Internal(broken.to_owned()))?;
            self.add_event(&loaded.task.id, record.sequence, bytes);
            self.index(loaded, event, &before);
            if self.touched.insert(loaded.task.id.clone()) {
                self.weight = self.weight.saturating_add(loaded.stored_bytes);
            }
        }
        Ok(())
    }

    fn index(&mut self, loaded: &mut Loaded, event: &Event, before: &(PrincipalId, bool)) {
        match event {
            Event::HandoffOffered { .. }
            | Event::HandoffReturned { .. }
            | Event::ClaimLapsed { .. } => {
                self.list_offer(loaded, matches!(event, Event::HandoffOffered { .. }));
            }
            Event::HandoffEnded { .. } | Event::HandoffReceived(_) => self.unlist_offer(loaded),
            _ => {}
        }
        let task = &loaded.task;
        let (old_owner, was_open) = before;
        let moved = *old_owner != task.owner.principal;
        if moved || (*was_open && !task.axes.is_open()) {
            self.delete(key::owned(&loaded.namespace, old_owner, &task.id));
        }
        if moved && task.axes.is_open() {
            let at = key::owned(&loaded.namespace, &task.owner.principal, &task.id);
            self.put(at, Vec::new());
        }
        self.topics.push(Topic::Task(task.id.clone()));
    }

    /// Lists the open offer, behind all that are listed: who watches sees it as new.
    fn list_offer(&mut self, loaded: &mut Loaded, is_new: bool) {
        let Some(handoff) = loaded.task.open_handoff().cloned() else { return };
        if !loaded.offer_key.is_empty() {
            self.delete(std::mem::take(&mut loaded.offer_key));
        }
        let at =
            key::offer(&loaded.namespace, &handoff.receiver, self.ground.position.0, self.offers);
        self.offers = self.offers.saturating_add(1);
        self.put_new(at.clone(), encode_offer(&handoff.id, &loaded.task.id));
        loaded.offer_key = at;
        self.topics.push(receiver_topic(&loaded.namespace, &handoff.receiver));
        self.store_handoff(loaded, &handoff, is_new);
    }

    fn unlist_offer(&mut self, loaded: &mut Loaded) {
        if !loaded.offer_key.is_empty() {
            self.delete(std::mem::take(&mut loaded.offer_key));
        }
        if let Some(handoff) = loaded.task.handoff.clone() {
            self.topics.push(receiver_topic(&loaded.namespace, &handoff.receiver));
            self.store_handoff(loaded, &handoff, false);
        }
    }

    fn store_handoff(&mut self, loaded: &Loaded, handoff: &Handoff, is_new: bool) {
        let bytes = encode_handoff(handoff, &loaded.task.id, &loaded.task.class);
        let at = key::handoff(&handoff.id);
        if is_new {
            self.put_new(at, bytes)
        } else {
            self.put(at, bytes)
        }
        self.handoffs.push((handoff.id.clone(), loaded.task.id.clone()));
    }

    fn settle(&mut self, loaded: &mut Loaded, decision: &Decision) -> Outcome {
        if let Some(received) = &decision.repeats {
            return Outcome {
                task: Some(loaded.task.id.clone()),
                revision: received.revision,
                epoch: received.epoch,
                sequence: received.sequence,
                handoff: decision.handoff.clone(),
                decided_at: self.ground.now,
                lease_until: None,
                replayed: true,
            };
        }
        if let (Some(until), true) = (decision.lease_until, decision.events.is_empty()) {
            let claim = loaded.task.handoff.as_mut().and_then(|h| h.claim.as_mut());
            if let Some(claim) = claim {
                claim.lease_until = until;
                self.touched.insert(loaded.task.id.clone());
            }
        }
        let mut outcome = outcome(&loaded.task, decision.handoff.clone(), self.ground.now);
        outcome.lease_until = decision.lease_until;
        outcome
    }

    fn keep(&mut self, task: &TaskId, documents: Vec<Document>) {
        for document in documents {
            self.put(key::document(task, &document.digest), document.bytes.clone());
            self.documents.push((task.clone(), document));
        }
    }

    /// The batch of all that the group changed, and the tasks that it touched.
    pub(super) fn batch(&mut self) -> (Batch, Vec<TaskId>) {
        let touched: Vec<TaskId> = std::mem::take(&mut self.touched).into_iter().collect();
        for id in &touched {
            if let Some(loaded) = self.tasks.get_mut(id) {
                self.expect.push(loaded.expectation());
                loaded.stage(&mut self.puts);
                loaded.position = Some(self.ground.position);
            }
        }
        let fresh = &self.fresh;
        let puts = std::mem::take(&mut self.puts).into_iter();
        let (add, put) = puts.partition(|(key, _)| fresh.contains(key));
        let batch = Batch {
            expect: std::mem::take(&mut self.expect),
            put,
            add,
            append: std::mem::take(&mut self.events),
            delete: std::mem::take(&mut self.deletes).into_iter().collect(),
        };
        (batch, touched)
    }
}

/// The topic that offers to a receiver are published under.
pub(super) fn receiver_topic(namespace: &Namespace, receiver: &Receiver) -> Topic {
    Topic::Receiver(namespace.clone(), receiver.to_string())
}

/// The answer of an earlier call, if this one has the same content.
pub(super) fn replay(entry: &Remembered, request: &Request) -> Result<Outcome, Error> {
    if entry.request == request.digest {
        return Ok(Outcome { replayed: true, ..entry.outcome.clone() });
    }
    Err(Refusal::new(
        Reason::IdempotencyMismatch,
        format!("request_id {} was used for another content; use a new one", request.id),
    )
    .with("requestId", &request.id)
    .into())
}

fn outcome(task: &Task, handoff: Option<HandoffId>, now: Timestamp) -> Outcome {
    Outcome {
        task: Some(task.id.clone()),
        revision: task.revision,
        epoch: task.epoch,
        sequence: task.sequence,
        handoff,
        decided_at: now,
        lease_until: None,
        replayed: false,
    }
}
