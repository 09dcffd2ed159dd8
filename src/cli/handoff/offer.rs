//! `baton handoff offer`, and how offers are made.

use std::path::PathBuf;

use clap::Args;

use crate::cli::connection::{Session, answered, request_id};
use crate::cli::field::{ScopeFlags, text, texts};
use crate::cli::handoff::packet::{Sender, packet};
use crate::cli::output::{read_message, show, span, when};
use crate::cli::task::{OwnerFlags, left_behind};
use crate::cli::{Done, Failed};
use crate::proto::baton::v1 as pb;

/// Offers a task.
#[derive(Debug, Args)]
#[command(after_help = "The packet is made of the task's latest checkpoint and contract; put a \
checkpoint first. Where the checkpoint says nothing, the offer says: no action is pending, no \
effect exists outside (unless the last report called one uncertain), and the last accepted step is \
the last completed unit. --packet FILE says otherwise.

Example:
  baton handoff offer TASK --to capability:review --reason 'draft ready' \\
      --resource 'file:///srv/project/**' --operation read --ttl 8h")]
pub(super) struct Offer {
    /// The task.
    task: String,
    /// The receiver: a principal, or capability:NAME.
    #[arg(long, value_name = "RECEIVER")]
    to: String,
    /// Why control moves.
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// The caller's own open offer that this one replaces.
    #[arg(long, value_name = "HANDOFF", default_value = "")]
    supersedes: String,
    /// Earlier handoff of this task whose scope the receiver, who held it then, regains at most.
    #[arg(long, value_name = "HANDOFF")]
    restores: Option<String>,
    #[command(flatten)]
    manner: Manner,
    #[command(flatten)]
    owner: OwnerFlags,
}

/// How an offer is made, by the owner or on its behalf.
#[derive(Debug, Args)]
pub(in crate::cli) struct Manner {
    #[command(flatten)]
    pub(in crate::cli) scope: ScopeFlags,
    /// When the receiver must stop, ask or escalate; the contract's conditions if left out. May be
    /// repeated.
    #[arg(long = "stop", value_name = "TEXT")]
    stop: Vec<String>,
    /// Show the expected digests to the receiver.
    #[arg(long, conflicts_with = "blind")]
    open: bool,
    /// Withhold the expected digests until the receiver has named them.
    #[arg(long)]
    blind: bool,
    /// Allow a blind offer that has nothing to hash: the receiver then only echoes.
    #[arg(long)]
    echo_allowed: bool,
    /// How long the offer stands: 90s, 15m, 8h, 2d; the broker's default if left out.
    #[arg(long, value_name = "TIME", value_parser = span)]
    ttl: Option<u64>,
    /// Fields of the packet, as ProtoJSON of baton.v1.HandoffPacket; the others are filled in.
    #[arg(long = "packet", value_name = "FILE")]
    packet: Option<PathBuf>,
}

impl Manner {
    /// The fields of the packet that a file gives.
    pub(in crate::cli) fn packet(&self) -> Result<pb::HandoffPacket, Failed> {
        self.packet.as_deref().map_or_else(|| Ok(pb::HandoffPacket::default()), read_message)
    }

    /// The offer's options.
    pub(in crate::cli) fn options(&self) -> pb::OfferOptions {
        let blind = match (self.blind, self.open) {
            (true, _) => pb::BlindMode::Blind,
            (_, true) => pb::BlindMode::Open,
            _ => pb::BlindMode::Unspecified,
        };
        pb::OfferOptions {
            ttl: self.ttl.map(|seconds| prost_types::Duration {
                seconds: i64::try_from(seconds).unwrap_or(i64::MAX),
                nanos: 0,
            }),
            blind: blind.into(),
            echo_allowed: self.echo_allowed,
        }
    }

    /// Says to whom the packet goes, why, and with which authority.
    pub(in crate::cli) fn address(
        &self,
        packet: &mut pb::HandoffPacket,
        to: &str,
        reason: &str,
        scope: pb::AuthorizationScope,
    ) {
        let next_owner = packet.next_owner.get_or_insert_default();
        to.clone_into(&mut next_owner.id);
        packet.handoff_reason = text(reason);
        packet.scope = Some(scope);
        if !self.stop.is_empty() {
            packet.stop_condition = texts(&self.stop);
        }
    }
}

impl Offer {
    pub(super) async fn run(&self, session: &Session) -> Done {
        let request = pb::GetResumeSetRequest { task_id: self.task.clone() };
        let resume = answered(session.tasks().get_resume_set(session.ask(request)).await)?;
        let task = resume.task.clone().unwrap_or_default();
        let given = self.manner.packet()?;
        let scope = match (&given.scope, self.manner.scope.is_empty()) {
            (Some(scope), true) => scope.clone(),
            (_, false) => self.manner.scope.scope(&self.to, task.scope.as_ref()),
            (None, true) => {
                return Err(Failed::Usage(
                    "say what the receiver may do: --resource and --operation".to_owned(),
                ));
            }
        };
        let mut packet = packet(given, &resume, Sender::Owner);
        self.manner.address(&mut packet, &self.to, &self.reason, scope);
        if let Some(restores) = &self.restores {
            packet.restores_handoff_id.clone_from(restores);
        }
        let request = pb::OfferHandoffRequest {
            request_id: request_id(),
            guard: Some(self.owner.guard(&task)),
            packet: Some(packet),
            options: Some(self.manner.options()),
            supersedes: self.supersedes.clone(),
        };
        let done = answered(session.handoffs().offer_handoff(session.ask(request)).await)?;
        show(session, &done, |done| {
            offered(done.outcome.as_ref(), &done.packet_digest, done.deadline.as_ref(), done.blind)
        })
    }
}

/// Prints an offer that stands.
pub(in crate::cli) fn offered(
    outcome: Option<&pb::Outcome>,
    packet_digest: &str,
    deadline: Option<&prost_types::Timestamp>,
    blind: bool,
) -> Done {
    let more = [
        ("packet", packet_digest.to_owned()),
        ("deadline", when(deadline)),
        ("digests", if blind { "withheld" } else { "shown" }.to_owned()),
    ];
    left_behind(outcome, &more)
}
