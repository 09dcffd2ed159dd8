//! Streams: the events of a task, and the offers to a receiver.
//!
//! Invariants: a stream first gives what is stored, then each thing as it is committed, without a
//! gap and in order; it reads from the store at its reader's pace, so a slow reader costs no
//! memory; the number of streams is bounded; a stream ends when the broker stops or the reader goes
//! away.

use std::collections::BTreeMap;

use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Status};

use crate::broker::{Error, OfferCursor, Topic};
use crate::core::Caller;
use crate::core::handoff::Receiver;
use crate::core::id::TaskId;
use crate::core::party::Sight;
use crate::core::refusal::{Reason, Refusal};
use crate::proto::baton::v1 as pb;

use super::{Desk, Seen, status};

/// Messages that wait for a reader; the rest waits in the store.
const STREAM_BUFFER: usize = 16;

/// Events or offers that are read at once.
const READ_AT_ONCE: usize = 64;

type Stream<T> = ReceiverStream<Result<T, Status>>;

impl Desk {
    fn permit(&self) -> Result<OwnedSemaphorePermit, Error> {
        std::sync::Arc::clone(&self.streams).try_acquire_owned().map_err(|_| Error::Overloaded)
    }

    /// The events of a task after a number.
    pub(super) async fn watch_events(
        &self,
        request: Request<pb::WatchTaskRequest>,
    ) -> Result<Stream<pb::WatchTaskResponse>, Error> {
        let seen = self.named_task(&request, &request.get_ref().task_id).await?;
        if seen.sight == Sight::Receiver {
            return Err(Refusal::new(
                Reason::NotOwner,
                "the receiver of an offer sees the offer only; watch the handoffs",
            )
            .with("taskId", &seen.task.id)
            .into());
        }
        let permit = self.permit()?;
        let after = request.get_ref().after_sequence;
        let (sender, receiver) = mpsc::channel(STREAM_BUFFER);
        let desk = self.clone();
        tokio::spawn(async move {
            let _permit = permit;
            let sent = tokio::select! {
                sent = desk.send_events(&seen, after, &sender) => sent,
                () = desk.stop.cancelled() => Err(Error::Stopping),
            };
            if let Err(error) = sent {
                let _ = sender.send(Err(status::status(&error, ""))).await;
            }
        });
        Ok(ReceiverStream::new(receiver))
    }

    async fn send_events(
        &self,
        seen: &Seen,
        mut after: u64,
        sender: &mpsc::Sender<Result<pb::WatchTaskResponse, Status>>,
    ) -> Result<(), Error> {
        let id = &seen.task.id;
        let mut hint = self.broker.subscribe(Topic::Task(id.clone()));
        loop {
            hint.mark_unchanged();
            let Some(end) = self.events_end(&seen.caller, id).await? else { return Ok(()) };
            let page = self.broker.reader().events(id, after, READ_AT_ONCE).await?;
            let more = page.events.len() == READ_AT_ONCE;
            for (sequence, bytes) in page.events {
                if sequence > end.last {
                    return Ok(());
                }
                let event = crate::wire::record::decode_event(&bytes)
                    .map_err(|e| Error::Damaged(e.to_string()))?;
                after = sequence;
                let response = pb::WatchTaskResponse { event: Some(event) };
                if sender.send(Ok(response)).await.is_err() {
                    return Ok(());
                }
            }
            let done = end.closed_at.is_some_and(|at| after >= at) || after >= end.last;
            if done && !more {
                return Ok(());
            }
            if !more && !moved(&mut hint, sender).await {
                return Ok(());
            }
        }
    }

    /// How far the caller may see the events of a task now.
    async fn events_end(&self, caller: &Caller, id: &TaskId) -> Result<Option<End>, Error> {
        let seen = match self.seen(caller, id).await {
            Ok(seen) => seen,
            Err(Error::Refused(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let closed = !seen.task.axes.is_open();
        let closed_at = closed.then_some(seen.task.sequence);
        match seen.sight {
            Sight::Full => Ok(Some(End { last: u64::MAX, closed_at })),
            Sight::PastOwner { until_sequence } => {
                Ok(Some(End { last: until_sequence, closed_at }))
            }
            Sight::Receiver | Sight::None => Ok(None),
        }
    }

    /// The offers that the caller can receive: open ones, then each as it opens.
    pub(super) async fn watch_offers(
        &self,
        request: Request<pb::WatchHandoffsRequest>,
    ) -> Result<Stream<pb::WatchHandoffsResponse>, Error> {
        let caller = self.caller(&request).await?;
        let permit = self.permit()?;
        let (sender, receiver) = mpsc::channel(STREAM_BUFFER);
        let desk = self.clone();
        tokio::spawn(async move {
            let _permit = permit;
            let sent = tokio::select! {
                sent = desk.send_offers(&caller, &sender) => sent,
                () = desk.stop.cancelled() => Err(Error::Stopping),
            };
            if let Err(error) = sent {
                let _ = sender.send(Err(status::status(&error, ""))).await;
            }
        });
        Ok(ReceiverStream::new(receiver))
    }

    async fn send_offers(
        &self,
        caller: &Caller,
        sender: &mpsc::Sender<Result<pb::WatchHandoffsResponse, Status>>,
    ) -> Result<(), Error> {
        let mut feeds: BTreeMap<Receiver, (OfferCursor, watch::Receiver<u64>)> = BTreeMap::new();
        for receiver in receivers(caller) {
            let topic = Topic::Receiver(caller.namespace.clone(), receiver.to_string());
            feeds.insert(receiver, (OfferCursor::default(), self.broker.subscribe(topic)));
        }
        loop {
            for (receiver, (cursor, hint)) in &mut feeds {
                hint.mark_unchanged();
                loop {
                    let (offers, next) = self
                        .broker
                        .reader()
                        .offers(&caller.namespace, receiver, cursor.clone(), READ_AT_ONCE)
                        .await?;
                    *cursor = next;
                    let full = offers.len() == READ_AT_ONCE;
                    for (handoff, task) in offers {
                        let Some(summary) = self.offer_to(caller, &task, &handoff).await? else {
                            continue;
                        };
                        let response = pb::WatchHandoffsResponse { handoff: Some(summary) };
                        if sender.send(Ok(response)).await.is_err() {
                            return Ok(());
                        }
                    }
                    if !full {
                        break;
                    }
                }
            }
            let hints = feeds.values_mut().map(|(_, hint)| Box::pin(hint.changed()));
            tokio::select! {
                // Both are cancel-safe: a hint that is not taken is seen at the next look.
                () = sender.closed() => return Ok(()),
                (changed, _, _) = futures_util::future::select_all(hints) => {
                    if changed.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// An offer as the caller may see it, if it is open and the caller can receive it.
    pub(super) async fn offer_to(
        &self,
        caller: &Caller,
        task: &TaskId,
        handoff: &crate::core::id::HandoffId,
    ) -> Result<Option<pb::HandoffSummary>, Error> {
        let Some(task) = self.broker.reader().task(&caller.namespace, task).await? else {
            return Ok(None);
        };
        let open = task.open_handoff().filter(|h| h.id == *handoff && h.may_receive(caller));
        match open {
            Some(handoff) => Ok(Some(self.show_offer(&task, handoff).await?)),
            None => Ok(None),
        }
    }
}

/// The names under which offers can reach a caller.
pub(super) fn receivers(caller: &Caller) -> Vec<Receiver> {
    let own = Receiver::Principal(caller.party.principal.clone());
    let capabilities = caller.capabilities.iter().cloned().map(Receiver::Capability);
    std::iter::once(own).chain(capabilities).collect()
}

struct End {
    last: u64,
    closed_at: Option<u64>,
}

/// Waits for a hint; false when the reader has gone or the broker ends.
async fn moved<T>(hint: &mut watch::Receiver<u64>, sender: &mpsc::Sender<T>) -> bool {
    tokio::select! {
        // Both are cancel-safe: a hint that is not taken is seen at the next look.
        () = sender.closed() => false,
        changed = hint.changed() => changed.is_ok(),
    }
}
