//! `HandoffService`: moving control.

use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::broker::{Error, OfferCursor};
use crate::core::claim::{ClaimHandoff, RejectHandoff, WithdrawHandoff};
use crate::core::digest::{Epoch, Revision};
use crate::core::handoff::{Handoff, Receiver};
use crate::core::id::{HandoffId, InstanceId, RequestId};
use crate::core::offer::{OfferHandoff, OfferOnBehalf};
use crate::core::owner::ResumeOwnership;
use crate::core::party::Sight;
use crate::core::receipt::{AcknowledgeHandoff, compare};
use crate::core::refusal::{Reason, Refusal};
use crate::core::{Command, Outcome};
use crate::proto::baton::v1 as pb;
use crate::proto::baton::v1::handoff_service_server::HandoffService;
use crate::wire::axis::{element_from_pb, handoff_status_to_pb};
use crate::wire::document::{note, seal};
use crate::wire::packet;
use crate::wire::receipt;
use crate::wire::violations::Violations;
use crate::wire::{guard, time};

use super::control::said;
use super::offer::{DecidedOn, Options, Prepared};
use super::show::whole_receipt;
use super::watch::receivers;
use super::{Desk, Seen, answer, content, next_token, outcome, page_size, page_token};

#[tonic::async_trait]
impl HandoffService for Desk {
    async fn offer_handoff(
        &self,
        request: Request<pb::OfferHandoffRequest>,
    ) -> Result<Response<pb::OfferHandoffResponse>, Status> {
        let id = request.get_ref().request_id.clone();
        answer(self.offer(request).await, &id)
    }

    async fn offer_on_behalf(
        &self,
        request: Request<pb::OfferOnBehalfRequest>,
    ) -> Result<Response<pb::OfferOnBehalfResponse>, Status> {
        let id = request.get_ref().request_id.clone();
        answer(self.on_behalf(request).await, &id)
    }

    type WatchHandoffsStream = ReceiverStream<Result<pb::WatchHandoffsResponse, Status>>;

    async fn watch_handoffs(
        &self,
        request: Request<pb::WatchHandoffsRequest>,
    ) -> Result<Response<Self::WatchHandoffsStream>, Status> {
        answer(self.watch_offers(request).await, "")
    }

    async fn claim_handoff(
        &self,
        request: Request<pb::ClaimHandoffRequest>,
    ) -> Result<Response<pb::ClaimHandoffResponse>, Status> {
        let id = request.get_ref().request_id.clone();
        answer(self.claim(request).await, &id)
    }

    async fn renew_claim(
        &self,
        request: Request<pb::RenewClaimRequest>,
    ) -> Result<Response<pb::RenewClaimResponse>, Status> {
        let id = request.get_ref().request_id.clone();
        answer(self.renew(request).await, &id)
    }

    async fn acknowledge_handoff(
        &self,
        request: Request<pb::AcknowledgeHandoffRequest>,
    ) -> Result<Response<pb::AcknowledgeHandoffResponse>, Status> {
        let id = request.get_ref().request_id.clone();
        answer(self.acknowledge(request).await, &id)
    }

    async fn reject_handoff(
        &self,
        request: Request<pb::RejectHandoffRequest>,
    ) -> Result<Response<pb::RejectHandoffResponse>, Status> {
        let id = request.get_ref().request_id.clone();
        answer(self.reject(request).await, &id)
    }

    async fn withdraw_handoff(
        &self,
        request: Request<pb::WithdrawHandoffRequest>,
    ) -> Result<Response<pb::WithdrawHandoffResponse>, Status> {
        let id = request.get_ref().request_id.clone();
        answer(self.withdraw(request).await, &id)
    }

    async fn resume_ownership(
        &self,
        request: Request<pb::ResumeOwnershipRequest>,
    ) -> Result<Response<pb::ResumeOwnershipResponse>, Status> {
        let id = request.get_ref().request_id.clone();
        answer(self.resume(request).await, &id)
    }

    async fn get_handoff(
        &self,
        request: Request<pb::GetHandoffRequest>,
    ) -> Result<Response<pb::GetHandoffResponse>, Status> {
        answer(self.read_handoff(request).await, "")
    }

    async fn list_handoffs(
        &self,
        request: Request<pb::ListHandoffsRequest>,
    ) -> Result<Response<pb::ListHandoffsResponse>, Status> {
        answer(self.handoffs(request).await, "")
    }
}

impl Desk {
    async fn offer(
        &self,
        request: Request<pb::OfferHandoffRequest>,
    ) -> Result<pb::OfferHandoffResponse, Error> {
        let task_id = request.get_ref().packet.as_ref().map(|p| p.task_id.clone());
        let seen = self.named_task(&request, &task_id.unwrap_or_default()).await?;
        let mut message = request.into_inner();
        let content = content(&message);
        let mut violations = Violations::default();
        let id = guard::request_id(&message.request_id, &mut violations);
        let guarded = guard::guard(message.guard.as_ref(), &mut violations);
        let options = Options::parse(message.options.as_ref(), &mut violations);
        let supersedes = if message.supersedes.is_empty() {
            Some(None)
        } else {
            guard::handoff_id(&message.supersedes, "supersedes", &mut violations).map(Some)
        };
        let given = message.packet.take().unwrap_or_default();
        packet::check_filled(&given, &seen.caller.party.principal, &mut violations);
        let facts = packet::parse(&given, &mut violations);
        let parsed = id.zip(guarded).zip(facts).zip(supersedes);
        let (((id, guarded), facts), supersedes) = violations.finish(parsed)?;
        let on =
            DecidedOn { epoch: guarded.epoch, revision: guarded.revision, unknown_allowed: false };
        let Prepared { terms, document } = self.prepare(&seen, given, facts, options, &on).await?;
        let command = Command::Offer(Box::new(OfferHandoff { guard: guarded, terms, supersedes }));
        let at = (seen.caller.clone(), id, seen.task.id.clone());
        let done = self.command(content, at, command, vec![document]).await?;
        let handoff = self.offered(&seen, &done).await?;
        Ok(pb::OfferHandoffResponse {
            outcome: outcome(&done),
            packet_digest: handoff.packet.to_string(),
            deadline: Some(time::render_timestamp(handoff.deadline)),
            blind: handoff.blind,
        })
    }

    async fn on_behalf(
        &self,
        request: Request<pb::OfferOnBehalfRequest>,
    ) -> Result<pb::OfferOnBehalfResponse, Error> {
        let task_id = request.get_ref().packet.as_ref().map(|p| p.task_id.clone());
        let seen = self.named_task(&request, &task_id.unwrap_or_default()).await?;
        let mut message = request.into_inner();
        let content = content(&message);
        let mut violations = Violations::default();
        let id = guard::request_id(&message.request_id, &mut violations);
        let revision =
            guard::counter(message.expected_revision, "expected_revision", &mut violations);
        let reason = guard::text(&message.reason, "reason", &mut violations);
        let said = reason.and_then(|text| violations.take("reason", note(&text)));
        let options = Options::parse(message.options.as_ref(), &mut violations);
        let given = message.packet.take().unwrap_or_default();
        packet::check_filled(&given, &seen.task.owner.principal, &mut violations);
        let facts = packet::parse(&given, &mut violations);
        let parsed = id.zip(revision).zip(said).zip(facts);
        let (((id, revision), said), facts) = violations.finish(parsed)?;
        let revision = Revision::new(revision);
        let on = DecidedOn { epoch: seen.task.epoch, revision, unknown_allowed: true };
        let Prepared { terms, document } = self.prepare(&seen, given, facts, options, &on).await?;
        let offer = OfferOnBehalf { revision, terms, note: said.digest };
        let at = (seen.caller.clone(), id, seen.task.id.clone());
        let command = Command::OfferOnBehalf(Box::new(offer));
        let done = self.command(content, at, command, vec![document, said]).await?;
        let handoff = self.offered(&seen, &done).await?;
        Ok(pb::OfferOnBehalfResponse {
            outcome: outcome(&done),
            packet_digest: handoff.packet.to_string(),
            deadline: Some(time::render_timestamp(handoff.deadline)),
            blind: handoff.blind,
        })
    }

    /// The handoff that an outcome is about, as it stands now.
    async fn offered(&self, seen: &Seen, done: &Outcome) -> Result<Handoff, Error> {
        let missing = || Error::Internal("an outcome names no handoff".to_owned());
        let id = done.handoff.as_ref().ok_or_else(missing)?;
        let reader = self.broker.reader();
        let task = reader.task(&seen.caller.namespace, &seen.task.id).await?;
        let latest = task.and_then(|t| t.handoff.clone()).filter(|h| h.id == *id);
        match latest {
            Some(handoff) => Ok(handoff),
            None => Ok(reader.handoff(id).await?.ok_or_else(missing)?.1),
        }
    }

    async fn claim(
        &self,
        request: Request<pb::ClaimHandoffRequest>,
    ) -> Result<pb::ClaimHandoffResponse, Error> {
        let (seen, handoff) = self.named_handoff(&request, &request.get_ref().handoff_id).await?;
        let message = request.into_inner();
        let (id, instance) = claimed(&message.request_id, &message.instance_id)?;
        let command = Command::Claim(ClaimHandoff { handoff: handoff.id.clone(), instance });
        let at = (seen.caller.clone(), id, seen.task.id.clone());
        let done = self.command(content(&message), at, command, Vec::new()).await?;
        Ok(pb::ClaimHandoffResponse {
            outcome: outcome(&done),
            packet: Some(self.claimed_packet(&seen, &handoff).await?),
            packet_digest: handoff.packet.to_string(),
            blind: handoff.blind,
            deadline: Some(time::render_timestamp(handoff.deadline)),
        })
    }

    async fn renew(
        &self,
        request: Request<pb::RenewClaimRequest>,
    ) -> Result<pb::RenewClaimResponse, Error> {
        let (seen, handoff) = self.named_handoff(&request, &request.get_ref().handoff_id).await?;
        let message = request.into_inner();
        let (id, instance) = claimed(&message.request_id, &message.instance_id)?;
        let command = Command::Renew(ClaimHandoff { handoff: handoff.id, instance });
        let at = (seen.caller, id, seen.task.id.clone());
        let done = self.command(content(&message), at, command, Vec::new()).await?;
        Ok(pb::RenewClaimResponse { outcome: outcome(&done) })
    }

    async fn acknowledge(
        &self,
        request: Request<pb::AcknowledgeHandoffRequest>,
    ) -> Result<pb::AcknowledgeHandoffResponse, Error> {
        let (seen, handoff) = self.named_handoff(&request, &request.get_ref().handoff_id).await?;
        let mut message = request.into_inner();
        let content = content(&message);
        let mut violations = Violations::default();
        let id = guard::request_id(&message.request_id, &mut violations);
        let named = guard::digest(&message.packet_digest, "packet_digest", &mut violations);
        let instance = guard::instance_id(&message.instance_id, "instance_id", &mut violations);
        let mut given = violations.require("receipt", message.receipt.take());
        let me = &seen.caller.party.principal;
        identity(given.as_ref(), me.as_str())?;
        let facts = given
            .as_ref()
            .and_then(|given| receipt::parse(given, me, &handoff.id, &mut violations));
        if let Some(given) = &mut given {
            given.handoff_id = handoff.id.to_string();
            given.receiver = me.to_string();
        }
        let sealed = given.as_ref().and_then(|given| violations.take("receipt", seal(given)));
        let parsed = id.zip(named).zip(instance).zip(facts).zip(given.zip(sealed));
        let ((((id, named), instance), facts), (given, sealed)) = violations.finish(parsed)?;
        let presented = sealed.digest;
        let elements =
            receipt::elements_digest(&facts.echo).map_err(|e| Error::Internal(e.to_string()))?;
        let packet = self.packet(&seen.task.id, &handoff.packet).await?;
        let expected = packet::elements(&seen.task, &packet.facts);
        let command = Command::Acknowledge(Box::new(AcknowledgeHandoff {
            handoff: handoff.id.clone(),
            packet: named,
            instance,
            comparison: compare(handoff.packet, &expected, &facts.echo),
            receipt: sealed.digest,
            elements,
            observed_at: facts.observed_at,
        }));
        let at = (seen.caller.clone(), id, seen.task.id.clone());
        let done = self.command(content, at, command, vec![sealed]).await?;
        let handoff = self.offered(&seen, &done).await?;
        // A repeat may come with other observations; the answer is the receipt that counted.
        let counted = handoff.received.as_ref().is_some_and(|r| r.receipt == presented);
        let receipt = if counted {
            whole_receipt(given, &handoff)
        } else {
            self.received_receipt(&seen, &handoff).await?
        };
        Ok(pb::AcknowledgeHandoffResponse { outcome: outcome(&done), receipt: Some(receipt) })
    }

    async fn received_receipt(
        &self,
        seen: &Seen,
        handoff: &Handoff,
    ) -> Result<pb::HandoffReceipt, Error> {
        let received = handoff.received.as_ref();
        let received =
            received.ok_or_else(|| Error::Internal("a receipt left nothing behind".to_owned()))?;
        let receipt = self
            .document::<pb::HandoffReceipt>(&seen.task.id, &received.receipt, "HandoffReceipt")
            .await?;
        Ok(whole_receipt(receipt, handoff))
    }

    async fn reject(
        &self,
        request: Request<pb::RejectHandoffRequest>,
    ) -> Result<pb::RejectHandoffResponse, Error> {
        let (seen, handoff) = self.named_handoff(&request, &request.get_ref().handoff_id).await?;
        let message = request.into_inner();
        let mut violations = Violations::default();
        let named = if message.packet_digest.is_empty() {
            Some(None)
        } else {
            guard::digest(&message.packet_digest, "packet_digest", &mut violations).map(Some)
        };
        let failing = match message.failing_element {
            0 => Some(None),
            n => violations.take("failing_element", element_from_pb(n)).map(Some),
        };
        let said = said(&message.request_id, &message.reason, &mut violations);
        let ((named, failing), (id, said)) = violations.finish(named.zip(failing).zip(said))?;
        let eligible = self.eligible(&seen.caller, &seen.task, &handoff.receiver).await?;
        let command = Command::Reject(RejectHandoff {
            handoff: handoff.id.clone(),
            packet: named,
            failing,
            note: said.digest,
            eligible: eligible.into_iter().map(|p| p.principal).collect(),
        });
        let at = (seen.caller.clone(), id, seen.task.id.clone());
        let done = self.command(content(&message), at, command, vec![said]).await?;
        let now = self.offered(&seen, &done).await?;
        let status = handoff_status_to_pb(now.status).into();
        Ok(pb::RejectHandoffResponse { outcome: outcome(&done), status })
    }

    async fn withdraw(
        &self,
        request: Request<pb::WithdrawHandoffRequest>,
    ) -> Result<pb::WithdrawHandoffResponse, Error> {
        let (seen, handoff) = self.named_handoff(&request, &request.get_ref().handoff_id).await?;
        let message = request.into_inner();
        let mut violations = Violations::default();
        let id = guard::request_id(&message.request_id, &mut violations);
        let named = guard::digest(&message.packet_digest, "packet_digest", &mut violations);
        guard::optional_text(&message.reason, "reason", &mut violations);
        let (id, named) = violations.finish(id.zip(named))?;
        let said = match message.reason.as_str() {
            "" => None,
            text => Some(note(text).map_err(|e| Error::Internal(e.to_string()))?),
        };
        let command = Command::Withdraw(WithdrawHandoff {
            handoff: handoff.id,
            packet: named,
            note: said.as_ref().map(|s| s.digest),
        });
        let at = (seen.caller, id, seen.task.id.clone());
        let done = self.command(content(&message), at, command, said.into_iter().collect()).await?;
        Ok(pb::WithdrawHandoffResponse { outcome: outcome(&done) })
    }

    async fn resume(
        &self,
        request: Request<pb::ResumeOwnershipRequest>,
    ) -> Result<pb::ResumeOwnershipResponse, Error> {
        let seen = self.named_task(&request, &request.get_ref().task_id).await?;
        let message = request.into_inner();
        let mut violations = Violations::default();
        let id = guard::request_id(&message.request_id, &mut violations);
        let epoch = guard::counter(message.epoch, "epoch", &mut violations);
        let instance = guard::instance_id(&message.instance_id, "instance_id", &mut violations);
        let ((id, epoch), instance) = violations.finish(id.zip(epoch).zip(instance))?;
        let command = Command::Resume(ResumeOwnership { epoch: Epoch::new(epoch), instance });
        let at = (seen.caller, id, seen.task.id.clone());
        let done = self.command(content(&message), at, command, Vec::new()).await?;
        Ok(pb::ResumeOwnershipResponse { outcome: outcome(&done) })
    }

    async fn read_handoff(
        &self,
        request: Request<pb::GetHandoffRequest>,
    ) -> Result<pb::GetHandoffResponse, Error> {
        let (mut seen, mut handoff) =
            self.named_handoff(&request, &request.get_ref().handoff_id).await?;
        if seen.sight == Sight::Receiver {
            seen = self.settled(seen, Some(&handoff)).await?;
            if let Some(latest) = seen.task.handoff.as_ref().filter(|h| h.id == handoff.id) {
                handoff = latest.clone();
            }
        }
        let me = &seen.caller.party.principal;
        let claimed = handoff.claim.as_ref().is_some_and(|c| c.claimant.principal == *me);
        let received = handoff.received.as_ref().is_some_and(|r| r.receiver == *me);
        let sent = handoff.from.principal == *me;
        let packet = if seen.sight == Sight::Full || claimed || received || sent {
            Some(self.show_packet(&seen, &handoff).await?)
        } else {
            None
        };
        let handoff = Some(self.show_handoff(&seen, &handoff).await?);
        Ok(pb::GetHandoffResponse { handoff, packet })
    }

    async fn handoffs(
        &self,
        request: Request<pb::ListHandoffsRequest>,
    ) -> Result<pb::ListHandoffsResponse, Error> {
        let caller = self.caller(&request).await?;
        let message = request.into_inner();
        let mut violations = Violations::default();
        let size = page_size(message.page_size, &mut violations);
        violations.finish(Some(()))?;
        let names = receivers(&caller);
        // The token names the list that is being read and the place in it.
        let (mut at, mut cursor) = place(&names, page_token(&message.page_token)?)?;
        let mut handoffs = Vec::new();
        while let Some(receiver) = names.get(at) {
            let left = size.saturating_sub(handoffs.len());
            let (offers, next) = self
                .broker
                .reader()
                .offers(&caller.namespace, receiver, cursor.clone(), left)
                .await?;
            let full = offers.len() == left;
            for (handoff, task) in offers {
                handoffs.extend(self.offer_to(&caller, &task, &handoff).await?);
            }
            cursor = next;
            if full {
                break;
            }
            at = at.saturating_add(1);
            cursor = OfferCursor::default();
            if handoffs.len() >= size {
                break;
            }
        }
        let next = (at < names.len()).then(|| token(at, &cursor));
        Ok(pb::ListHandoffsResponse { handoffs, next_page_token: next_token(next) })
    }

    async fn named_handoff<T>(
        &self,
        request: &Request<T>,
        text: &str,
    ) -> Result<(Seen, Handoff), Error> {
        let caller = self.caller(request).await?;
        let mut violations = Violations::default();
        let id: Option<HandoffId> = guard::handoff_id(text, "handoff_id", &mut violations);
        let id = violations.finish(id)?;
        self.seen_handoff(&caller, &id).await
    }
}

fn token(at: usize, cursor: &OfferCursor) -> Vec<u8> {
    let at = u16::try_from(at).unwrap_or(u16::MAX);
    at.to_be_bytes().into_iter().chain(cursor.bytes().iter().copied()).collect()
}

fn place(names: &[Receiver], token: Option<Vec<u8>>) -> Result<(usize, OfferCursor), Error> {
    let Some(token) = token else { return Ok((0, OfferCursor::default())) };
    match token.split_first_chunk::<2>() {
        Some((at, rest)) if usize::from(u16::from_be_bytes(*at)) < names.len() => {
            Ok((usize::from(u16::from_be_bytes(*at)), OfferCursor::from_bytes(rest)))
        }
        _ => Err(Refusal::new(
            Reason::InvalidPageToken,
            "page_token is not one of this list; start again without it",
        )
        .into()),
    }
}

fn claimed(request_id: &str, instance_id: &str) -> Result<(RequestId, InstanceId), Error> {
    let mut violations = Violations::default();
    let id = guard::request_id(request_id, &mut violations);
    let instance = guard::instance_id(instance_id, "instance_id", &mut violations);
    Ok(violations.finish(id.zip(instance))?)
}

/// REQ-065: a body that names another party than the caller is refused for what it is.
fn identity(given: Option<&pb::HandoffReceipt>, me: &str) -> Result<(), Error> {
    let named = given.map(|r| r.receiver.as_str()).unwrap_or_default();
    if named.is_empty() || named == me {
        return Ok(());
    }
    Err(Refusal::new(
        Reason::IdentityMismatch,
        format!("receipt.receiver names {named:?}, the caller is {me}; leave it out"),
    )
    .into())
}
