//! Hints that something has moved: the durable position, a task, the offers to a receiver.
//!
//! Invariant: a hint carries nothing but a count; whoever gets one reads again. Losing a hint loses
//! nothing, since the next one, or the next look, shows the same state.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use crate::core::id::{Namespace, TaskId};
use crate::store::Position;

/// What a hint is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// The events of a task.
    Task(TaskId),
    /// The open offers to a receiver, as the offer names it.
    Receiver(Namespace, String),
}

pub(super) struct Hub {
    durable: watch::Sender<Position>,
    topics: Mutex<HashMap<Topic, watch::Sender<u64>>>,
}

impl Hub {
    pub(super) fn new(position: Position) -> Self {
        Self { durable: watch::Sender::new(position), topics: Mutex::new(HashMap::new()) }
    }

    pub(super) fn subscribe(&self, topic: Topic) -> watch::Receiver<u64> {
        let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        topics.entry(topic).or_insert_with(|| watch::Sender::new(0)).subscribe()
    }

    /// Says that everything up to `position` is on disk, and that these topics moved.
    pub(super) fn publish(&self, position: Position, moved: impl IntoIterator<Item = Topic>) {
        self.durable.send_replace(position);
        let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        if topics.is_empty() {
            return;
        }
        for topic in moved {
            let Some(sender) = topics.get(&topic) else { continue };
            if sender.receiver_count() == 0 {
                topics.remove(&topic);
            } else {
                sender.send_modify(|count| *count = count.wrapping_add(1));
            }
        }
    }

    pub(super) fn durable(&self) -> Position {
        *self.durable.borrow()
    }

    /// Waits until `position` is on disk.
    pub(super) async fn reached(&self, position: Position) {
        let mut durable = self.durable.subscribe();
        // The sender lives in `self`, so the wait cannot fail.
        let _ = durable.wait_for(|reached| *reached >= position).await;
    }
}
