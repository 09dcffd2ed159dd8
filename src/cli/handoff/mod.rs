//! `baton handoff`: move control of a task.
//!
//! What lives here: the subcommands and the short calls. What does not: offers (`offer`), packets
//! (`packet`), receipts (`receipt`), what is read (`list`).

mod list;
pub(super) mod offer;
pub(super) mod packet;
mod receipt;

use clap::{Args, Subcommand, ValueEnum};

use crate::cli::connection::{Connection, Session, answered, request_id};
use crate::cli::output::{show, word};
use crate::cli::task::left_behind;
use crate::cli::{Done, Failed};
use crate::proto::baton::v1 as pb;

/// Moves control of a task: offer, claim, acknowledge, reject, withdraw.
#[derive(Debug, Args)]
#[command(after_help = "Control moves by one thing alone: a receipt that matches the packet.

Examples:
  baton handoff offer TASK --as agent:writer --to agent:reviewer --reason 'draft ready' \\
      --resource 'file:///srv/project/**' --operation read
  baton handoff list --as agent:reviewer
  baton handoff claim HANDOFF --as agent:reviewer --instance reviewer-1
  baton handoff ack HANDOFF --as agent:reviewer --source 'file:README.md=README.md'")]
pub(super) struct Handoff {
    #[command(flatten)]
    pub(super) connection: Connection,
    #[command(subcommand)]
    command: HandoffCommand,
}

#[derive(Debug, Subcommand)]
enum HandoffCommand {
    /// Offer a task to an agent or to whoever has a capability. By the owner, who stays owner.
    Offer(Box<offer::Offer>),
    /// List open offers that the caller can receive.
    List,
    /// Show one handoff.
    Show(list::Show),
    /// Print offers to the caller, one a line, and go on as they come.
    Watch,
    /// Take the lease of an offer and print the packet. Moves no control.
    Claim(list::Claim),
    /// Prolong the lease of a claim.
    Renew(Renew),
    /// Present the receipt: if it matches the packet, control moves.
    Ack(receipt::Ack),
    /// Refuse an offer. By a receiver.
    Reject(Reject),
    /// Take an offer back. By the sender, or an operator.
    Withdraw(Withdraw),
}

impl Handoff {
    /// Carries out the command.
    pub(super) fn run(&self) -> Done {
        self.connection.run(|session| async move {
            let s = &session;
            match &self.command {
                HandoffCommand::Offer(offer) => offer.run(s).await,
                HandoffCommand::List => list::list(s).await,
                HandoffCommand::Show(show) => show.run(s).await,
                HandoffCommand::Watch => list::watch(s).await,
                HandoffCommand::Claim(claim) => claim.run(s).await,
                HandoffCommand::Renew(renew) => renew.run(s).await,
                HandoffCommand::Ack(ack) => ack.run(s).await,
                HandoffCommand::Reject(reject) => reject.run(s).await,
                HandoffCommand::Withdraw(withdraw) => withdraw.run(s).await,
            }
        })
    }
}

/// The record of a handoff, and its packet as far as the caller may see it.
pub(super) async fn read(session: &Session, id: &str) -> Result<pb::GetHandoffResponse, Failed> {
    let request = pb::GetHandoffRequest { handoff_id: id.to_owned() };
    answered(session.handoffs().get_handoff(session.ask(request)).await)
}

/// Prolongs the lease of a claim.
#[derive(Debug, Args)]
struct Renew {
    /// The handoff.
    id: String,
    /// The claiming process; the one of the claim if left out.
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,
}

impl Renew {
    async fn run(&self, session: &Session) -> Done {
        let instance_id = match &self.instance {
            Some(instance) => instance.clone(),
            None => claiming_instance(read(session, &self.id).await?.handoff.as_ref()),
        };
        let request = pb::RenewClaimRequest {
            request_id: request_id(),
            handoff_id: self.id.clone(),
            instance_id,
        };
        let done = answered(session.handoffs().renew_claim(session.ask(request)).await)?;
        show(session, &done, |done| left_behind(done.outcome.as_ref(), &[]))
    }
}

/// The process that holds the claim; empty if none does, which the broker then says.
fn claiming_instance(handoff: Option<&pb::Handoff>) -> String {
    let claim = handoff.and_then(|h| h.claim.as_ref());
    claim.map(|c| c.instance_id.clone()).unwrap_or_default()
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Element {
    TaskId,
    Contract,
    SourceSnapshot,
    Artifacts,
    Scope,
}

/// Refuses an offer.
#[derive(Debug, Args)]
struct Reject {
    /// The handoff.
    id: String,
    /// Why.
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// The element that is wrong, if it is one of the five.
    #[arg(long)]
    element: Option<Element>,
}

impl Reject {
    async fn run(&self, session: &Session) -> Done {
        let failing = match self.element {
            None => pb::ReceiptElement::Unspecified,
            Some(Element::TaskId) => pb::ReceiptElement::TaskId,
            Some(Element::Contract) => pb::ReceiptElement::Contract,
            Some(Element::SourceSnapshot) => pb::ReceiptElement::SourceSnapshot,
            Some(Element::Artifacts) => pb::ReceiptElement::Artifacts,
            Some(Element::Scope) => pb::ReceiptElement::Scope,
        };
        let request = pb::RejectHandoffRequest {
            request_id: request_id(),
            handoff_id: self.id.clone(),
            packet_digest: String::new(),
            failing_element: failing.into(),
            reason: self.reason.clone(),
        };
        let done = answered(session.handoffs().reject_handoff(session.ask(request)).await)?;
        show(session, &done, |done| {
            let status = word(done.status().as_str_name(), "HANDOFF_STATUS_");
            left_behind(done.outcome.as_ref(), &[("status", status)])
        })
    }
}

/// Takes an offer back.
#[derive(Debug, Args)]
struct Withdraw {
    /// The handoff.
    id: String,
    /// Why, for a person.
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

impl Withdraw {
    async fn run(&self, session: &Session) -> Done {
        let handoff = read(session, &self.id).await?.handoff.unwrap_or_default();
        let request = pb::WithdrawHandoffRequest {
            request_id: request_id(),
            handoff_id: self.id.clone(),
            packet_digest: handoff.packet_digest,
            reason: self.reason.clone(),
        };
        let done = answered(session.handoffs().withdraw_handoff(session.ask(request)).await)?;
        show(session, &done, |done| left_behind(done.outcome.as_ref(), &[]))
    }
}
