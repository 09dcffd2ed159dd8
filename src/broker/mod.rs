//! The shell around the core: one committer, reads that never run ahead of the disk, watching.
//!
//! What lives here: the broker's handle and what travels to the committer and back. What does not:
//! judging (`core`), bytes on the wire (`wire`), the disk (`store`). Invariants: every change is a
//! proposal to the one committer; nobody is answered before the commit is on disk, except a lease;
//! an answer never shows what a crash could take back; every queue is bounded. Start reading at
//! [`Broker`].

mod agents;
pub mod clock;
mod committer;
mod directory;
mod group;
mod hub;
mod loaded;
mod read;
mod setup;

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError};

use tokio::sync::{oneshot, watch};

use crate::core::digest::Digest;
use crate::core::event::TaskCreated;
use crate::core::id::{PrincipalId, RequestId, TaskId};
use crate::core::refusal::Refusal;
use crate::core::time::{Span, Timestamp};
use crate::core::{Caller, Command, Limits, Outcome};
use crate::store::{AnyStore, Durability, Position, Store as _, StoreError};

pub(crate) use crate::store::cache;
pub use clock::{Clock, ManualClock};
pub use directory::{Directory, Principal};
pub use hub::Topic;
pub use read::{EventPage, OfferCursor, Page};

/// Proposals that may wait for the committer. More are refused at once, so that memory stays
/// bounded and a caller learns of overload while it can still act on it.
pub const QUEUE_MAX: usize = 4096;

/// A document that a proposal brings: kept under its digest if the proposal is accepted.
#[derive(Clone, Debug)]
pub struct Document {
    /// Its canonical digest.
    pub digest: Digest,
    /// Its stored form.
    pub bytes: Vec<u8>,
}

/// Who proposes, under which request.
#[derive(Clone, Debug)]
pub struct Request {
    /// The caller.
    pub caller: Caller,
    /// The caller's id of the request.
    pub id: RequestId,
    /// Digest of the request's content.
    pub digest: Digest,
}

/// What is proposed.
#[derive(Debug)]
pub enum Change {
    /// A new task.
    Create {
        /// Its id, minted by the caller of the broker.
        task: TaskId,
        /// Its facts.
        created: Box<TaskCreated>,
    },
    /// A command on a task.
    Task {
        /// The task.
        task: TaskId,
        /// The command.
        command: Command,
    },
    /// A change of the agent registry.
    Agent(AgentChange),
}

pub use agents::AgentChange;

/// Why a proposal or a read has no good answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The answer is no.
    #[error("{}", .0.message)]
    Refused(Box<Refusal>),
    /// The queue is full; nothing has happened.
    #[error("the broker has more work than it takes; nothing has happened, try again later")]
    Overloaded,
    /// The broker is going down; nothing has happened.
    #[error("the broker is stopping; nothing has happened, try again later")]
    Stopping,
    /// The store failed while the change was written.
    #[error(
        "the store failed; the change may or may not be kept. Repeat it with the same request_id \
         once \
         the broker is back"
    )]
    OutcomeUnknown,
    /// Stored data cannot be read.
    #[error("stored data is damaged; the operator must act")]
    Damaged(String),
    /// A fault of the broker.
    #[error("a fault of the broker; report it with the request_id")]
    Internal(String),
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Corrupt { .. } | StoreError::UnknownFormat { .. } => {
                Self::Damaged(error.to_string())
            }
            StoreError::Stopped { .. } | StoreError::Io { .. } => Self::OutcomeUnknown,
            other => Self::Internal(other.to_string()),
        }
    }
}

/// What the queue carries.
enum Message {
    Propose(Box<Proposal>),
    Stop,
}

struct Proposal {
    request: Request,
    change: Change,
    documents: Vec<Document>,
    answer: oneshot::Sender<Result<Outcome, Error>>,
}

/// Who is to be answered, and what.
type Answer = (oneshot::Sender<Result<Outcome, Error>>, Result<Outcome, Error>);

/// Groups whose answers may wait to be handed out.
const ANSWERED_MAX: usize = 64;

/// Hands out the answers of a group at once, inside the runtime. If the committer's thread woke
/// each caller by itself, every wake would be a call of the system, and the transport would write
/// each answer before it sees the next.
async fn hand_out(mut groups: tokio::sync::mpsc::Receiver<Vec<Answer>>) {
    while let Some(answers) = groups.recv().await {
        for (caller, answer) in answers {
            // Whoever has gone away needs no answer; the change stands all the same.
            let _ = caller.send(answer);
        }
    }
}

/// How a broker is set up.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Where the time comes from.
    pub clock: Clock,
    /// The limits of decisions.
    pub limits: Limits,
    /// A volatile store may keep work that needs a durable one.
    pub test_mode: bool,
}

impl Setup {
    /// The documented defaults: a lease of 30 s, 16 claims and 5 receipts an offer, a skew of 5
    /// min, offers of 15 min by default and 7 days at most.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        let limits = Limits {
            lease: Span::from_secs(30),
            claims_max: 16,
            attempts_max: 5,
            observed_skew: Span::from_secs(300),
            offer_ttl: Span::from_secs(15 * 60),
            offer_ttl_max: Span::from_secs(7 * 24 * 3600),
        };
        Self { clock, limits, test_mode: false }
    }
}

/// The broker. Cloning shares it. [`Broker::stop`] ends it.
#[derive(Clone)]
pub struct Broker {
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<AnyStore>,
    queue: SyncSender<Message>,
    reader: read::Reader,
    hub: Arc<hub::Hub>,
    directory: Arc<Directory>,
    setup: Setup,
    started: Timestamp,
    fault: watch::Receiver<Option<String>>,
    committer: std::sync::Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl Broker {
    /// Starts the committer on its own thread, over `store`. Answers are handed out in the runtime
    /// that this is called in.
    ///
    /// # Errors
    /// Stored data that cannot be read; there is no runtime.
    pub fn start(store: AnyStore, setup: Setup, directory: Directory) -> Result<Self, Error> {
        let store = Arc::new(store);
        let directory = Arc::new(directory);
        let hub = Arc::new(hub::Hub::new(store.position()));
        let reader = read::Reader::new(Arc::clone(&store), Arc::clone(&hub));
        let started = setup.clock.now();
        let (queue, proposals) = std::sync::mpsc::sync_channel(QUEUE_MAX);
        let (fault_tx, fault) = watch::channel(None);
        let (answers, answered) = tokio::sync::mpsc::channel(ANSWERED_MAX);
        let runtime = tokio::runtime::Handle::try_current();
        // It ends with the committer, which has the other end.
        runtime.map_err(|e| Error::Internal(e.to_string()))?.spawn(hand_out(answered));
        let committer = committer::Committer::load(
            committer::Parts {
                store: Arc::clone(&store),
                hub: Arc::clone(&hub),
                reader: reader.clone(),
                setup: setup.clone(),
                started,
            },
            proposals,
            committer::Outlet { answers, fault: fault_tx },
        )?;
        let thread = std::thread::Builder::new()
            .name("committer".to_owned())
            .spawn(move || committer.run())
            .map_err(|e| Error::Internal(e.to_string()))?;
        let committer = std::sync::Mutex::new(Some(thread));
        let shared =
            Shared { store, queue, reader, hub, directory, setup, started, fault, committer };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Proposes a change and waits until it is decided and on disk. Dropping the future cancels
    /// nothing: the proposal belongs to the committer.
    ///
    /// # Errors
    /// The refusal, or why there is no answer.
    pub async fn propose(
        &self,
        request: Request,
        change: Change,
        documents: Vec<Document>,
    ) -> Result<Outcome, Error> {
        let (answer, wait) = oneshot::channel();
        let proposal = Proposal { request, change, documents, answer };
        self.shared.queue.try_send(Message::Propose(Box::new(proposal))).map_err(|e| match e {
            TrySendError::Full(_) => Error::Overloaded,
            TrySendError::Disconnected(_) => Error::Stopping,
        })?;
        wait.await.map_err(|_| Error::OutcomeUnknown)?
    }

    /// Reads that never show what a crash could take back.
    #[must_use]
    pub fn reader(&self) -> &read::Reader {
        &self.shared.reader
    }

    /// Who is known in which namespace.
    #[must_use]
    pub fn directory(&self) -> &Directory {
        &self.shared.directory
    }

    /// The present time by the broker's clock, and when it started.
    #[must_use]
    pub fn times(&self) -> (Timestamp, Timestamp) {
        (self.shared.setup.clock.now(), self.shared.started)
    }

    /// The limits in force.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.shared.setup.limits
    }

    /// True if what is acknowledged survives the process, or if the broker is told that it need
    /// not.
    #[must_use]
    pub fn keeps_promises(&self) -> bool {
        self.shared.store.durability() == Durability::Durable || self.shared.setup.test_mode
    }

    /// A hint whenever `topic` may have moved.
    #[must_use]
    pub fn subscribe(&self, topic: Topic) -> watch::Receiver<u64> {
        self.shared.hub.subscribe(topic)
    }

    /// The last durable position.
    #[must_use]
    pub fn position(&self) -> Position {
        self.shared.store.position()
    }

    /// Resolves with the cause when the committer has stopped because of a fault.
    pub async fn failed(&self) -> String {
        let mut fault = self.shared.fault.clone();
        loop {
            if let Some(cause) = fault.borrow_and_update().clone() {
                return cause;
            }
            if fault.changed().await.is_err() {
                // The committer has ended in order; there will be no fault.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Ends the committer after what it has, and waits for it. Blocks; for the end of a process.
    pub fn stop(&self) {
        let thread = match self.shared.committer.lock() {
            Ok(mut guard) => guard.take(),
            Err(_) => None,
        };
        // An error says that the committer has ended already.
        let _ = self.shared.queue.send(Message::Stop);
        if let Some(thread) = thread {
            // A panic of the committer has already been told by `failed`.
            let _ = thread.join();
        }
    }
}

/// The principal that deadlines are recorded under.
#[must_use]
pub fn clock_principal() -> PrincipalId {
    #[expect(clippy::expect_used, reason = "the literal is a legal principal id")]
    PrincipalId::parse("baton:clock").expect("legal")
}
