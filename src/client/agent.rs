//! The loop of an agent: taking up its tasks after a start, then receiving handoffs.
//!
//! What lives here: watching, the bound on work at the same time, starting and ending. What does
//! not: receiving one handoff (`receive.rs`), and what the agent does. Invariants: a restarted
//! agent goes on with every open task that it owns before it takes new ones; at most `concurrency`
//! handoffs and tasks are in hand; a broken stream is opened again; the end drops what is under
//! way, since all of it is at the broker.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};

use crate::proto::baton::v1 as pb;

use super::receive::{self, Offered, Verdict};
use super::retry::Backoff;
use super::{Client, Failure, Owned};

/// Handoffs and tasks in hand at once, if nothing else is said.
const CONCURRENCY: usize = 8;
/// How long a broker may stay away before the agent gives up.
const PATIENCE: Duration = Duration::from_secs(600);
/// Tasks that are read at once at the start.
const PAGE: i32 = 100;

/// What happened, told as it happens.
#[derive(Debug)]
pub enum Step<'a> {
    /// This process holds the lease and has the packet.
    Claimed {
        /// The offer.
        offered: &'a Offered,
    },
    /// The receipt matched: control has moved here.
    Acknowledged {
        /// The broker's answer.
        received: &'a pb::AcknowledgeHandoffResponse,
    },
    /// The receipt did not match: control stays where it was.
    Mismatched {
        /// The offer.
        offered: &'a Offered,
        /// Which elements differ.
        failure: &'a Failure,
    },
    /// The handoff came to nothing here: it ended, went stale, or went to another.
    Dropped {
        /// The handoff.
        handoff_id: &'a str,
        /// Why.
        failure: &'a Failure,
    },
    /// A task that this principal already owned is taken up under this instance.
    Resumed {
        /// The task.
        owned: &'a Owned,
    },
    /// Work on a task ended with a failure. The task stays this agent's.
    Stopped {
        /// The task.
        task_id: &'a str,
        /// Why.
        failure: &'a Failure,
    },
}

/// What an agent does.
pub trait Duties: Send + Sync + 'static {
    /// Reads the packet's sources and artifacts and says what it saw. The lease is renewed
    /// meanwhile. May be asked again for the same handoff.
    fn verify(&self, offered: &Offered) -> impl Future<Output = Verdict> + Send;

    /// Does the work, from NEXT_ACTION on. Called again with the present resume set after a restart
    /// of the agent, so it must go on from there and not from the beginning.
    ///
    /// # Errors
    /// What the broker refused. The task stays this agent's, until it resumes or hands over.
    fn work(
        &self,
        owned: Owned,
        resume: pb::GetResumeSetResponse,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Is told each step.
    fn observe(&self, step: &Step<'_>) {
        let _ = step;
    }
}

/// An agent: a client, under one instance of its principal. Two processes of one principal that
/// should both work need two principals, since the later one fences the earlier one.
#[derive(Clone, Debug)]
pub struct Agent {
    client: Client,
    instance_id: String,
    concurrency: usize,
}

impl Agent {
    /// An agent. `instance_id` names this process and must be new with each start.
    #[must_use]
    pub fn new(client: Client, instance_id: impl Into<String>) -> Self {
        Self { client, instance_id: instance_id.into(), concurrency: CONCURRENCY }
    }

    /// The same agent with at most so many handoffs and tasks in hand; at least one, 8 by default.
    #[must_use]
    pub fn with_concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency.max(1);
        self
    }

    /// Runs until `shutdown` resolves: takes up the open tasks of this principal, then watches,
    /// claims, verifies, acknowledges and works. What is under way at the end is dropped; the next
    /// start goes on with it.
    ///
    /// # Errors
    /// The broker refuses this identity, or stays away for ten minutes.
    pub async fn run<H: Duties>(
        &self,
        handler: Arc<H>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), Failure> {
        let mut hands = Hands { tasks: JoinSet::new(), held: BTreeSet::new() };
        let running = async {
            self.take_up(&handler, &mut hands).await?;
            self.watch(&handler, &mut hands).await
        };
        tokio::select! {
            ended = running => ended,
            () = shutdown => Ok(()),
        }
    }

    /// Goes on with every open task of this principal.
    async fn take_up<H: Duties>(&self, handler: &Arc<H>, hands: &mut Hands) -> Result<(), Failure> {
        let mut page_token = String::new();
        loop {
            let request = pb::ListTasksRequest {
                page_size: PAGE,
                page_token,
                filter: pb::TaskFilter::OwnedOpen.into(),
            };
            let page = self.client.list_tasks(request).await?;
            for task in page.tasks {
                hands.room(self.concurrency).await;
                let (agent, handler) = (self.clone(), Arc::clone(handler));
                hands.tasks.spawn(async move {
                    agent.resume(&task, &*handler).await;
                    task.task_id
                });
            }
            if page.next_page_token.is_empty() {
                return Ok(());
            }
            page_token = page.next_page_token;
        }
    }

    async fn resume<H: Duties>(&self, task: &pb::Task, handler: &H) {
        let client = self.client.clone();
        match Owned::resume(client, &task.task_id, task.epoch, &self.instance_id).await {
            Ok(owned) => {
                handler.observe(&Step::Resumed { owned: &owned });
                work(handler, owned).await;
            }
            Err(failure) => {
                handler.observe(&Step::Stopped { task_id: &task.task_id, failure: &failure });
            }
        }
    }

    /// Receives offers, from a stream that is opened again whenever it ends.
    async fn watch<H: Duties>(&self, handler: &Arc<H>, hands: &mut Hands) -> Result<(), Failure> {
        let mut backoff = Backoff::until(PATIENCE);
        loop {
            let failure = match self.client.watch_handoffs().await {
                Ok(mut offers) => loop {
                    hands.room(self.concurrency).await;
                    let next = tokio::select! {
                        next = offers.message() => next,
                        () = hands.one_done() => continue,
                    };
                    match next {
                        Ok(Some(offer)) => {
                            backoff = Backoff::until(PATIENCE);
                            self.begin(offer.handoff.unwrap_or_default(), handler, hands);
                        }
                        Ok(None) => break None,
                        Err(status) => break Some(Failure::from(status)),
                    }
                },
                Err(failure) => Some(failure),
            };
            let denied = failure.filter(|f| {
                matches!(f.code, tonic::Code::Unauthenticated | tonic::Code::PermissionDenied)
            });
            if let Some(failure) = denied {
                return Err(failure);
            }
            if !backoff.pause().await {
                return Err(tonic::Status::unavailable("the broker stays away").into());
            }
        }
    }

    fn begin<H: Duties>(&self, offer: pb::HandoffSummary, handler: &Arc<H>, hands: &mut Hands) {
        while let Some(done) = hands.tasks.try_join_next() {
            hands.done(done);
        }
        // The stream is a hint and may name an offer again.
        if !hands.held.insert(offer.handoff_id.clone()) {
            return;
        }
        let (agent, handler) = (self.clone(), Arc::clone(handler));
        hands.tasks.spawn(async move {
            let id = offer.handoff_id;
            let owned = receive::receive(&agent.client, &agent.instance_id, &id, &*handler).await;
            if let Some(owned) = owned {
                work(&*handler, owned).await;
            }
            id
        });
    }
}

/// What is in hand now.
struct Hands {
    tasks: JoinSet<String>,
    held: BTreeSet<String>,
}

impl Hands {
    /// Waits until fewer than `concurrency` are in hand.
    async fn room(&mut self, concurrency: usize) {
        while self.tasks.len() >= concurrency {
            self.one_done().await;
        }
    }

    /// Waits until one is done. Safe to drop: what is done stays in the set until it is taken.
    async fn one_done(&mut self) {
        match self.tasks.join_next().await {
            Some(done) => self.done(done),
            None => std::future::pending().await,
        }
    }

    fn done(&mut self, done: Result<String, JoinError>) {
        // A handler that panicked keeps its handoff held, so that it is not met again at once.
        if let Ok(id) = done {
            self.held.remove(&id);
        }
    }
}

async fn work<H: Duties>(handler: &H, mut owned: Owned) {
    let task_id = owned.task_id().to_owned();
    let done = match owned.resume_set().await {
        Ok(set) => handler.work(owned, set).await,
        Err(failure) => Err(failure),
    };
    if let Err(failure) = done {
        handler.observe(&Step::Stopped { task_id: &task_id, failure: &failure });
    }
}
