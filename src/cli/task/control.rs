//! `baton task cancel`, `freeze`, `lift`, `resume` and `takeover`: stopping, and going on.

use clap::Args;

use crate::cli::connection::{Session, answered, request_id};
use crate::cli::handoff::offer::{Manner, offered};
use crate::cli::handoff::packet::{Sender, packet};
use crate::cli::output::show;
use crate::cli::task::{left_behind, present};
use crate::cli::{Done, Failed};
use crate::proto::baton::v1 as pb;

/// Cancels a task.
#[derive(Debug, Args)]
pub(super) struct Cancel {
    /// The task.
    task: String,
    /// Why, for a person.
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

impl Cancel {
    pub(super) async fn run(&self, session: &Session) -> Done {
        let request = pb::CancelTaskRequest {
            request_id: request_id(),
            task_id: self.task.clone(),
            reason: self.reason.clone(),
        };
        let done = answered(session.tasks().cancel_task(session.ask(request)).await)?;
        show(session, &done, |done| left_behind(done.outcome.as_ref(), &[]))
    }
}

/// A task and why.
#[derive(Debug, Args)]
pub(super) struct Reasoned {
    /// The task.
    task: String,
    /// Why.
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

impl Reasoned {
    pub(super) async fn freeze(&self, session: &Session) -> Done {
        let request = pb::FreezeTaskRequest {
            request_id: request_id(),
            task_id: self.task.clone(),
            reason: self.reason.clone(),
        };
        let done = answered(session.tasks().freeze_task(session.ask(request)).await)?;
        show(session, &done, |done| left_behind(done.outcome.as_ref(), &[]))
    }

    pub(super) async fn lift(&self, session: &Session) -> Done {
        let request = pb::LiftFreezeRequest {
            request_id: request_id(),
            task_id: self.task.clone(),
            reason: self.reason.clone(),
        };
        let done = answered(session.tasks().lift_freeze(session.ask(request)).await)?;
        show(session, &done, |done| left_behind(done.outcome.as_ref(), &[]))
    }
}

/// Goes on as owner under a new instance.
#[derive(Debug, Args)]
pub(super) struct Resume {
    /// The task.
    task: String,
    /// The new process.
    #[arg(long, value_name = "NAME")]
    instance: String,
    /// Epoch that the caller last held; the present one if left out.
    #[arg(long)]
    epoch: Option<u64>,
}

impl Resume {
    pub(super) async fn run(&self, session: &Session) -> Done {
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => present(session, &self.task).await?.epoch,
        };
        let request = pb::ResumeOwnershipRequest {
            request_id: request_id(),
            task_id: self.task.clone(),
            epoch,
            instance_id: self.instance.clone(),
        };
        let done = answered(session.handoffs().resume_ownership(session.ask(request)).await)?;
        show(session, &done, |done| left_behind(done.outcome.as_ref(), &[]))
    }
}

/// Offers the task of an absent owner.
#[derive(Debug, Args)]
#[command(after_help = "The packet is the last durable checkpoint, word by word. What only the \
owner could say is UNKNOWN with the reason, also where there is no checkpoint at all. Control \
moves by the receiver's receipt, as always.

Example:
  baton task takeover TASK --operator --as human:lead --to agent:second \\
      --reason 'writer is gone since Monday' --scope-from-owner")]
pub(super) struct Takeover {
    /// The task.
    task: String,
    /// The receiver: a principal, or capability:NAME.
    #[arg(long, value_name = "RECEIVER")]
    to: String,
    /// Why.
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Give the receiver the whole scope that the owner holds.
    #[arg(long, conflicts_with_all = ["resources", "operations"])]
    scope_from_owner: bool,
    #[command(flatten)]
    manner: Manner,
    /// Revision that it was decided on; the present one if left out.
    #[arg(long)]
    revision: Option<u64>,
}

impl Takeover {
    pub(super) async fn run(&self, session: &Session) -> Done {
        let request = pb::GetResumeSetRequest { task_id: self.task.clone() };
        let resume = answered(session.tasks().get_resume_set(session.ask(request)).await)?;
        let task = resume.task.clone().unwrap_or_default();
        let scope = if self.scope_from_owner {
            let own = task.scope.clone().unwrap_or_default();
            pb::AuthorizationScope { principal: self.to.clone(), ..own }
        } else if self.manner.scope.is_empty() {
            return Err(Failed::Usage(
                "say what the receiver may do: --scope-from-owner, or --resource and --operation"
                    .to_owned(),
            ));
        } else {
            self.manner.scope.scope(&self.to, task.scope.as_ref())
        };
        let packet = self.manner.packet()?;
        let packet = packet_for(packet, &resume, &self.manner, &self.to, &self.reason, scope);
        let request = pb::OfferOnBehalfRequest {
            request_id: request_id(),
            expected_revision: self.revision.unwrap_or(task.revision),
            packet: Some(packet),
            options: Some(self.manner.options()),
            reason: self.reason.clone(),
        };
        let done = answered(session.handoffs().offer_on_behalf(session.ask(request)).await)?;
        show(session, &done, |done| {
            offered(done.outcome.as_ref(), &done.packet_digest, done.deadline.as_ref(), done.blind)
        })
    }
}

fn packet_for(
    given: pb::HandoffPacket,
    resume: &pb::GetResumeSetResponse,
    manner: &Manner,
    to: &str,
    reason: &str,
    scope: pb::AuthorizationScope,
) -> pb::HandoffPacket {
    let mut whole = packet(given, resume, Sender::OnBehalf);
    manner.address(&mut whole, to, reason, scope);
    whole
}
