//! How much of a task an answer shows.
//!
//! Invariant: whoever sees a task only as the receiver of an offer gets ids and the offer, and
//! whoever owned it gets nothing that is younger than the end of its ownership.

use prost::{Message, Name};

use crate::broker::Error;
use crate::core::axis::HandoffStatus;
use crate::core::handoff::{Handoff, Receiver};
use crate::core::party::Sight;
use crate::core::task::Task;
use crate::proto::baton::v1 as pb;
use crate::wire::blind::{self, Withheld};
use crate::wire::document::read_note;
use crate::wire::handoff::{render_handoff, summary};
use crate::wire::task::render_task;

use super::{Desk, Seen};

impl Desk {
    /// The task as the caller may see it.
    pub(super) async fn show_task(&self, seen: &Seen) -> Result<pb::Task, Error> {
        let task = &seen.task;
        match seen.sight {
            Sight::Full => {
                let mut shown = render_task(task);
                shown.view = pb::TaskView::Full.into();
                if let (Some(freeze), Some(shown)) = (&task.freeze, &mut shown.freeze) {
                    shown.reason = self.note(task, &freeze.note).await?;
                }
                Ok(shown)
            }
            Sight::PastOwner { .. } => Ok(past_owner_view(task, seen)),
            Sight::Receiver | Sight::None => match &task.handoff {
                Some(handoff) => self.masked(task, handoff, receiver_view(task)).await,
                None => Ok(receiver_view(task)),
            },
        }
    }

    /// A free text of a task; empty if it was erased.
    pub(super) async fn note(
        &self,
        task: &Task,
        digest: &crate::core::digest::Digest,
    ) -> Result<String, Error> {
        let Some(bytes) = self.broker.reader().document(&task.id, digest).await? else {
            return Ok(String::new());
        };
        read_note(&bytes).map_err(|e| Error::Damaged(e.to_string()))
    }

    /// A handoff as the caller may see it.
    pub(super) async fn show_handoff(
        &self,
        seen: &Seen,
        handoff: &Handoff,
    ) -> Result<pb::Handoff, Error> {
        let mut shown = render_handoff(handoff, &seen.task.id, &seen.task.class);
        if let Some(note) = &handoff.end_note {
            shown.end_comment = self.note(&seen.task, note).await?;
        }
        if let Some(received) = &handoff.received {
            let receipt = self
                .document::<pb::HandoffReceipt>(&seen.task.id, &received.receipt, "HandoffReceipt")
                .await?;
            shown.receipt = Some(whole_receipt(receipt, handoff));
        }
        if seen.sight == Sight::Receiver {
            shown.refused_by.clear();
            shown.checkpoint_digest.clear();
            shown.on_behalf_note.clear();
            if !answers(seen, handoff) {
                shown = unclaimed_view(&shown);
            }
            shown = self.masked(&seen.task, handoff, shown).await?;
        }
        match self.withheld_now(seen, handoff).await? {
            Some(withheld) => {
                blind::mask_message(shown, &withheld).map_err(|e| Error::Internal(e.to_string()))
            }
            None => Ok(shown),
        }
    }

    /// The packet as it may be handed out: in a blind offer that is open, without the expected
    /// digests, unless the caller sees the whole task anyway.
    pub(super) async fn show_packet(
        &self,
        seen: &Seen,
        handoff: &Handoff,
    ) -> Result<pb::HandoffPacket, Error> {
        let open = handoff.status == HandoffStatus::Pending;
        let whole = seen.sight == Sight::Full && !handoff.may_receive(&seen.caller);
        let received = handoff.status == HandoffStatus::Received;
        let whole = !handoff.blind || whole || received || !open && seen.sight == Sight::Full;
        self.packet_view(seen, handoff, whole).await
    }

    /// The packet as a claim gives it, also when the claim is repeated after the offer has ended
    /// and somebody else has received it.
    pub(super) async fn claimed_packet(
        &self,
        seen: &Seen,
        handoff: &Handoff,
    ) -> Result<pb::HandoffPacket, Error> {
        self.packet_view(seen, handoff, !handoff.blind).await
    }

    async fn packet_view(
        &self,
        seen: &Seen,
        handoff: &Handoff,
        whole: bool,
    ) -> Result<pb::HandoffPacket, Error> {
        let view = |packet: &pb::HandoffPacket, withheld: &Withheld| {
            blind::view(packet, withheld).map_err(|e| Error::Internal(e.to_string()))
        };
        let packet = self.packet(&seen.task.id, &handoff.packet).await?;
        let shown = if whole {
            packet.message.clone()
        } else {
            view(&packet.message, &Withheld::new(packet.facts.withheld()))?
        };
        match self.withheld_now(seen, handoff).await? {
            Some(withheld) => view(&shown, &withheld),
            None => Ok(shown),
        }
    }

    /// What an open blind offer to the caller withholds, where `handoff` is an earlier one of the
    /// task: its packet and receipt may spell the same digests.
    async fn withheld_now(
        &self,
        seen: &Seen,
        handoff: &Handoff,
    ) -> Result<Option<Withheld>, Error> {
        let other = seen.task.open_handoff().filter(|open| open.blind && open.id != handoff.id);
        let Some(open) = other.filter(|_| seen.sight == Sight::Receiver) else { return Ok(None) };
        let packet = self.packet(&seen.task.id, &open.packet).await?;
        Ok(Some(Withheld::new(packet.facts.withheld())))
    }

    /// What a possible receiver sees of an offer.
    pub(super) async fn show_offer(
        &self,
        task: &Task,
        handoff: &Handoff,
    ) -> Result<pb::HandoffSummary, Error> {
        let (now, started) = self.broker.times();
        let until = handoff.lease_until(self.broker.limits(), started);
        self.masked(task, handoff, summary(handoff, &task.id, &task.class, until, now)).await
    }

    /// A message to the receiver of a blind offer, with every occurrence of a withheld digest
    /// masked, whatever text it was put into.
    pub(super) async fn masked<M: Message + Name + Default>(
        &self,
        task: &Task,
        handoff: &Handoff,
        message: M,
    ) -> Result<M, Error> {
        if !handoff.blind || handoff.status == HandoffStatus::Received {
            return Ok(message);
        }
        let packet = self.packet(&task.id, &handoff.packet).await?;
        let withheld = Withheld::new(packet.facts.withheld());
        blind::mask_message(message, &withheld).map_err(|e| Error::Internal(e.to_string()))
    }
}

/// The receipt as it was presented, with what the broker recorded of it.
pub(super) fn whole_receipt(
    mut receipt: pb::HandoffReceipt,
    handoff: &Handoff,
) -> pb::HandoffReceipt {
    receipt.handoff_id = handoff.id.to_string();
    receipt.verified_at = handoff.ended_at.map(crate::wire::time::render_timestamp);
    if let Some(received) = &handoff.received {
        receipt.receiver = received.receiver.to_string();
        receipt.receipt_id = received.receipt.to_string();
        receipt.assurances = crate::wire::handoff::render_assurances(&received.assurances);
    }
    receipt
}

/// True if the caller is the receiver by name, or holds the claim of an offer to a capability.
fn answers(seen: &Seen, handoff: &Handoff) -> bool {
    let me = &seen.caller.party.principal;
    matches!(handoff.receiver, Receiver::Principal(_))
        || handoff.claim.as_ref().is_some_and(|claim| claim.claimant.principal == *me)
}

/// What everybody sees who has the capability: nothing of sender, claimant or how it went.
fn unclaimed_view(handoff: &pb::Handoff) -> pb::Handoff {
    pb::Handoff {
        handoff_id: handoff.handoff_id.clone(),
        task_id: handoff.task_id.clone(),
        task_class: handoff.task_class.clone(),
        status: handoff.status,
        next_owner: handoff.next_owner.clone(),
        packet_digest: handoff.packet_digest.clone(),
        blind: handoff.blind,
        offered_at: handoff.offered_at,
        deadline: handoff.deadline,
        ended_at: handoff.ended_at,
        ..pb::Handoff::default()
    }
}

fn receiver_view(task: &Task) -> pb::Task {
    pb::Task {
        task_id: task.id.to_string(),
        task_class: task.class.clone(),
        view: pb::TaskView::Receiver.into(),
        ..pb::Task::default()
    }
}

fn past_owner_view(task: &Task, seen: &Seen) -> pb::Task {
    let past = task.past_owner(&seen.caller.party.principal);
    pb::Task {
        task_id: task.id.to_string(),
        context_id: task.context.as_ref().map(ToString::to_string).unwrap_or_default(),
        task_class: task.class.clone(),
        originator: task.originator.principal.to_string(),
        epoch: past.map_or(0, |p| p.until_epoch.get()),
        revision: past.map_or(0, |p| p.until_revision.get()),
        last_sequence: past.map_or(0, |p| p.until_sequence),
        contract_version: task.contract_version.to_string(),
        contract_digest: task.contract_digest.to_string(),
        created_at: Some(crate::wire::time::render_timestamp(task.created_at)),
        view: pb::TaskView::PastOwner.into(),
        ..pb::Task::default()
    }
}
