//! Reads that never show what a crash could take back.
//!
//! What lives here: reading tasks, handoffs, events, documents and lists. What does not: who may
//! see what (`core::party`, asked by the services). Invariants: what is answered is on disk; a page
//! is bounded; nothing here grows with the number of stored tasks; a miss goes to the store off the
//! caller's thread.

use std::sync::{Arc, Mutex, PoisonError};

use crate::core::digest::Digest;
use crate::core::handoff::{Handoff, Receiver};
use crate::core::id::{HandoffId, Namespace, PrincipalId, TaskId};
use crate::core::refusal::{Reason, Refusal};
use crate::core::task::Task;
use crate::store::cache::Cache;
use crate::store::{AnyStore, Direction, Key, Store as _, Stored, key};
use crate::wire::StoredError;
use crate::wire::agent::{StoredAgent, decode_agent};
use crate::wire::record::{decode_handoff, decode_offer, decode_task};

use super::hub::Hub;
use super::{Document, Error};

/// Half of the tasks, handoffs and documents that are kept for reading.
const HALF: usize = 1024;

/// Documents that are larger are always read from the store.
const DOCUMENT_KEPT_MAX: usize = 64 << 10;

/// Reads. Cloning shares it.
#[derive(Clone)]
pub struct Reader {
    store: Arc<AnyStore>,
    hub: Arc<Hub>,
    kept: Arc<Mutex<Kept>>,
}

struct Kept {
    tasks: Cache<TaskId, (Namespace, Arc<Task>)>,
    handoffs: Cache<HandoffId, TaskId>,
    documents: Cache<(TaskId, Digest), Arc<Vec<u8>>>,
}

/// A page of a list.
#[derive(Clone, Debug)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// Where to go on; none on the last page.
    pub next: Option<Key>,
}

/// A page of a task's events, encoded.
#[derive(Clone, Debug)]
pub struct EventPage {
    /// Number and stored form of each.
    pub events: Vec<(u64, Vec<u8>)>,
}

/// Where a watcher of offers stands: the last key that it has seen.
#[derive(Clone, Debug, Default)]
pub struct OfferCursor(Option<Key>);

impl OfferCursor {
    /// The place as bytes, for a page token.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }

    /// The place that a page token names.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self((!bytes.is_empty()).then(|| bytes.to_vec()))
    }
}

impl Reader {
    pub(super) fn new(store: Arc<AnyStore>, hub: Arc<Hub>) -> Self {
        let kept = Kept {
            tasks: Cache::new(HALF),
            handoffs: Cache::new(HALF),
            documents: Cache::new(HALF),
        };
        Self { store, hub, kept: Arc::new(Mutex::new(kept)) }
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over a task that is on disk now. Only the committer calls it, in commit order, so that
    /// no older state can replace a newer one.
    pub(super) fn committed(&self, namespace: &Namespace, task: &Task) {
        let entry = (namespace.clone(), Arc::new(task.clone()));
        self.kept().tasks.insert(task.id.clone(), entry);
    }

    /// Takes over what never changes.
    pub(super) fn found(
        &self,
        handoffs: Vec<(HandoffId, TaskId)>,
        documents: Vec<(TaskId, Document)>,
    ) {
        let mut kept = self.kept();
        for (handoff, task) in handoffs {
            kept.handoffs.insert(handoff, task);
        }
        for (task, document) in documents {
            if document.bytes.len() <= DOCUMENT_KEPT_MAX {
                kept.documents.insert((task, document.digest), Arc::new(document.bytes));
            }
        }
    }

    /// A task of a namespace.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn task(
        &self,
        namespace: &Namespace,
        id: &TaskId,
    ) -> Result<Option<Arc<Task>>, Error> {
        let kept = self.kept().tasks.get(id).cloned();
        if let Some((at, task)) = kept {
            return Ok((at == *namespace).then_some(task));
        }
        self.settled_task(namespace, id).await
    }

    /// A task with what is applied and not yet synced: waits until that is on disk. For who was
    /// answered before the sync (a claimant) and now reads what its claim gives it.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn settled_task(
        &self,
        namespace: &Namespace,
        id: &TaskId,
    ) -> Result<Option<Arc<Task>>, Error> {
        let Some(stored) = self.value(key::task(namespace, id)).await? else { return Ok(None) };
        let stored = decode_task(&stored).map_err(damaged)?;
        Ok(Some(Arc::new(stored.task)))
    }

    /// The task that a handoff belongs to.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn task_of(&self, id: &HandoffId) -> Result<Option<TaskId>, Error> {
        let kept = self.kept().handoffs.get(id).cloned();
        if kept.is_some() {
            return Ok(kept);
        }
        Ok(self.handoff(id).await?.map(|(task, _)| task))
    }

    /// A handoff as it stood at its last change of status.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn handoff(&self, id: &HandoffId) -> Result<Option<(TaskId, Handoff)>, Error> {
        let Some(bytes) = self.value(key::handoff(id)).await? else { return Ok(None) };
        let (task, handoff, _) = decode_handoff(&bytes).map_err(damaged)?;
        Ok(Some((task, handoff)))
    }

    /// A document of a task.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn document(
        &self,
        task: &TaskId,
        digest: &Digest,
    ) -> Result<Option<Arc<Vec<u8>>>, Error> {
        let kept = self.kept().documents.get(&(task.clone(), *digest)).cloned();
        if kept.is_some() {
            return Ok(kept);
        }
        let found = self.value(key::document(task, digest)).await?;
        Ok(found.map(Arc::new))
    }

    /// Events of a task after a number, at most `limit`.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn events(
        &self,
        task: &TaskId,
        after: u64,
        limit: usize,
    ) -> Result<EventPage, Error> {
        let from = key::event(task, after.saturating_add(1));
        let mut end = key::event(task, u64::MAX);
        end.push(0);
        let found = self.scan(from, end, Direction::Forward, limit).await?;
        let number = |key: &Key| {
            let tail: [u8; 8] = key.last_chunk().copied().unwrap_or_default();
            u64::from_be_bytes(tail)
        };
        Ok(EventPage {
            events: found.into_iter().map(|(key, value)| (number(&key), value)).collect(),
        })
    }

    /// Tasks that a principal owns and that are open, the latest first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn owned(
        &self,
        namespace: &Namespace,
        owner: &PrincipalId,
        before: Option<Key>,
        limit: usize,
    ) -> Result<Page<Arc<Task>>, Error> {
        self.tasks_at(namespace, key::all_owned(namespace, owner), 2, before, limit).await
    }

    /// Tasks that a principal created, the latest first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn created(
        &self,
        namespace: &Namespace,
        originator: &PrincipalId,
        before: Option<Key>,
        limit: usize,
    ) -> Result<Page<Arc<Task>>, Error> {
        self.tasks_at(namespace, key::all_created(namespace, originator), 2, before, limit).await
    }

    /// All tasks of a namespace, the latest first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn all_tasks(
        &self,
        namespace: &Namespace,
        before: Option<Key>,
        limit: usize,
    ) -> Result<Page<Arc<Task>>, Error> {
        self.tasks_at(namespace, key::tasks(namespace), 1, before, limit).await
    }

    async fn tasks_at(
        &self,
        namespace: &Namespace,
        prefix: Key,
        name: usize,
        before: Option<Key>,
        limit: usize,
    ) -> Result<Page<Arc<Task>>, Error> {
        let end = within(before, &prefix)?.unwrap_or_else(|| key::end(&prefix));
        let found = self.scan(prefix, end, Direction::Reverse, limit.saturating_add(1)).await?;
        let next = if found.len() > limit {
            found.get(limit.saturating_sub(1)).map(|(key, _)| key.clone())
        } else {
            None
        };
        let mut items = Vec::new();
        for (key, _) in found.into_iter().take(limit) {
            let id = key::names(&key).get(name).and_then(|text| TaskId::parse(text).ok());
            let id = id.ok_or_else(|| Error::Damaged("a task's index entry".to_owned()))?;
            items.extend(self.task(namespace, &id).await?);
        }
        Ok(Page { items, next })
    }

    /// Open offers to a receiver that come after a cursor, and the cursor behind them.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn offers(
        &self,
        namespace: &Namespace,
        receiver: &Receiver,
        cursor: OfferCursor,
        limit: usize,
    ) -> Result<(Vec<(HandoffId, TaskId)>, OfferCursor), Error> {
        let prefix = key::offers(namespace, receiver);
        let end = key::end(&prefix);
        let from = match within(cursor.0.clone(), &prefix)? {
            Some(seen) => seen.iter().copied().chain([0]).collect(),
            None => prefix,
        };
        let found = self.scan(from, end, Direction::Forward, limit).await?;
        let next = found.last().map_or(cursor, |(key, _)| OfferCursor(Some(key.clone())));
        let offers = found.iter().map(|(_, value)| decode_offer(value).map_err(damaged));
        Ok((offers.collect::<Result<_, _>>()?, next))
    }

    /// One agent's record.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn agent(
        &self,
        namespace: &Namespace,
        agent: &PrincipalId,
    ) -> Result<Option<StoredAgent>, Error> {
        let Some(bytes) = self.value(key::agent(namespace, agent)).await? else { return Ok(None) };
        let stored = decode_agent(&bytes).map_err(damaged)?;
        Ok(stored.is_registered().then_some(stored))
    }

    /// Registered agents of a namespace, by id.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn agents(
        &self,
        namespace: &Namespace,
        after: Option<Key>,
        limit: usize,
    ) -> Result<Page<StoredAgent>, Error> {
        let prefix = key::agents(namespace);
        let end = key::end(&prefix);
        let from = match within(after, &prefix)? {
            Some(seen) => seen.iter().copied().chain([0]).collect(),
            None => prefix,
        };
        let found = self.scan(from, end, Direction::Forward, limit).await?;
        let next = (found.len() == limit).then(|| found.last().map(|(key, _)| key.clone()));
        let mut items = Vec::new();
        for (_, value) in &found {
            let stored = decode_agent(value).map_err(damaged)?;
            if stored.is_registered() {
                items.push(stored);
            }
        }
        Ok(Page { items, next: next.flatten() })
    }

    async fn value(&self, key: Key) -> Result<Option<Vec<u8>>, Error> {
        let store = Arc::clone(&self.store);
        let found = off_thread(move || store.get(&key)).await?;
        match found {
            Some(Stored { position, value }) => {
                self.hub.reached(position).await;
                Ok(Some(value))
            }
            None => Ok(None),
        }
    }

    async fn scan(
        &self,
        from: Key,
        to: Key,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<(Key, Vec<u8>)>, Error> {
        let store = Arc::clone(&self.store);
        let found = off_thread(move || store.scan(&from, &to, direction, limit)).await?;
        let newest = found.iter().map(|(_, stored)| stored.position).max();
        if let Some(newest) = newest.filter(|newest| *newest > self.hub.durable()) {
            self.hub.reached(newest).await;
        }
        Ok(found.into_iter().map(|(key, stored)| (key, stored.value)).collect())
    }
}

/// A page token is only good inside the list that it was given for.
fn within(token: Option<Key>, prefix: &[u8]) -> Result<Option<Key>, Error> {
    match token {
        Some(key) if !key.starts_with(prefix) => Err(Refusal::new(
            Reason::InvalidPageToken,
            "page_token is not one of this list; start again without it",
        )
        .into()),
        token => Ok(token),
    }
}

async fn off_thread<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, crate::store::StoreError> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(read)
        .await
        .map_err(|e| Error::Internal(format!("a read panicked: {e}")))?
        .map_err(Error::from)
}

fn damaged(error: StoredError) -> Error {
    Error::Damaged(error.to_string())
}
