//! `baton handoff list`, `show`, `watch` and `claim`: what a receiver sees.

use clap::Args;
use tokio_stream::StreamExt as _;

use crate::cli::connection::{Session, answered, request_id};
use crate::cli::field::said;
use crate::cli::handoff::read;
use crate::cli::output::{pairs, proto_json, show, table, when, word};
use crate::cli::task::left_behind;
use crate::cli::{Done, print};
use crate::proto::baton::v1 as pb;
use pb::artifact_descriptor_list_field::State as ArtifactsState;
use pb::source_snapshot_field::State as SourcesState;

/// Lists open offers that the caller can receive.
pub(super) async fn list(session: &Session) -> Done {
    let mut rows = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = pb::ListHandoffsRequest { page_size: 100, page_token };
        let page = answered(session.handoffs().list_handoffs(session.ask(request)).await)?;
        for handoff in page.handoffs {
            if session.json {
                print(&proto_json(&handoff)?)?;
            } else {
                rows.push(row(handoff));
            }
        }
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    if session.json {
        return Ok(());
    }
    table(["HANDOFF", "TASK", "TO", "FROM", "CLASS", "CLAIMED", "DEADLINE"], &rows)
}

fn row(handoff: pb::HandoffSummary) -> [String; 7] {
    [
        handoff.handoff_id,
        handoff.task_id,
        handoff.next_owner,
        handoff.handoff_from,
        handoff.task_class,
        if handoff.claimed { "yes" } else { "no" }.to_owned(),
        when(handoff.deadline.as_ref()),
    ]
}

/// Prints offers as they come.
pub(super) async fn watch(session: &Session) -> Done {
    let request = session.follow(pb::WatchHandoffsRequest {});
    let mut offers = answered(session.handoffs().watch_handoffs(request).await)?;
    while let Some(offer) = offers.next().await {
        let handoff = answered(offer.map(tonic::Response::new))?.handoff.unwrap_or_default();
        if session.json {
            print(&proto_json(&handoff)?)?;
        } else {
            print(row(handoff).join("  ").trim_end())?;
        }
    }
    Ok(())
}

/// Shows one handoff.
#[derive(Debug, Args)]
pub(super) struct Show {
    /// The handoff.
    id: String,
}

impl Show {
    pub(super) async fn run(&self, session: &Session) -> Done {
        let found = read(session, &self.id).await?;
        show(session, &found, |found| {
            record(&found.handoff.clone().unwrap_or_default())?;
            match &found.packet {
                Some(packet) => content(packet),
                None => Ok(print("\nThe packet is shown to whoever claims the offer.")?),
            }
        })
    }
}

fn record(handoff: &pb::Handoff) -> Done {
    let claim = handoff.claim.clone().unwrap_or_default();
    pairs(&[
        ("handoff", handoff.handoff_id.clone()),
        ("task", handoff.task_id.clone()),
        ("class", handoff.task_class.clone()),
        ("status", word(handoff.status().as_str_name(), "HANDOFF_STATUS_")),
        ("ended because", word(handoff.end_reason().as_str_name(), "HANDOFF_END_REASON_")),
        ("from", handoff.handoff_from.clone()),
        ("offered by", handoff.offered_by.clone()),
        ("to", handoff.next_owner.clone()),
        ("packet", handoff.packet_digest.clone()),
        ("digests", if handoff.blind { "withheld until received" } else { "shown" }.to_owned()),
        ("offered", when(handoff.offered_at.as_ref())),
        ("deadline", when(handoff.deadline.as_ref())),
        ("claimed by", claim.claimant),
        ("claiming process", claim.instance_id),
        ("lease ends", when(claim.lease_expires_at.as_ref())),
        ("receipts that differed", handoff.attempts.to_string()),
        ("refused by", handoff.refused_by.join(", ")),
        ("received by", handoff.received_by.clone()),
        ("ended", when(handoff.ended_at.as_ref())),
        ("comment", handoff.end_comment.clone()),
        ("wrong element", word(handoff.failing_element().as_str_name(), "RECEIPT_ELEMENT_")),
    ])
}

/// What a receiver must know and verify.
fn content(packet: &pb::HandoffPacket) -> Done {
    let scope = packet.scope.clone().unwrap_or_default();
    let goal = packet.active_goal.clone().unwrap_or_default();
    let field = |field: &Option<pb::TextField>| said(field.as_ref()).unwrap_or("-").to_owned();
    print("")?;
    pairs(&[
        ("objective", goal.objective),
        ("criteria", goal.completion_criteria.join("; ")),
        ("reason", field(&packet.handoff_reason)),
        ("current state", field(&packet.current_state)),
        ("next action", field(&packet.next_action)),
        ("pending action", field(&packet.pending_action)),
        ("resources", scope.resources.join(" ")),
        ("operations", scope.operations.join(" ")),
        ("prohibited", scope.prohibitions.join(" ")),
        ("scope ends", when(scope.expires_at.as_ref())),
    ])?;
    let withheld = |digest: &Option<String>| digest.clone().unwrap_or_else(|| "-".to_owned());
    if let Some(SourcesState::Value(snapshot)) =
        packet.source_snapshot.as_ref().and_then(|f| f.state.as_ref())
    {
        let rows = snapshot.entities.iter().map(|e| {
            [e.entity_id.clone(), e.version.clone(), e.location.clone(), withheld(&e.digest)]
        });
        print("")?;
        table(["SOURCE", "VERSION", "LOCATION", "DIGEST"], &rows.collect::<Vec<_>>())?;
    }
    if let Some(ArtifactsState::Value(list)) =
        packet.artifact_descriptors.as_ref().and_then(|f| f.state.as_ref())
    {
        let rows = list
            .items
            .iter()
            .map(|a| [a.id.clone(), a.version.clone(), a.location.clone(), withheld(&a.digest)]);
        print("")?;
        table(["ARTIFACT", "VERSION", "LOCATION", "DIGEST"], &rows.collect::<Vec<_>>())?;
    }
    Ok(())
}

/// Takes the lease of an offer.
#[derive(Debug, Args)]
pub(super) struct Claim {
    /// The handoff.
    id: String,
    /// The caller's process; it becomes the owner's instance by the receipt.
    #[arg(long, value_name = "NAME", default_value = "shell")]
    instance: String,
}

impl Claim {
    pub(super) async fn run(&self, session: &Session) -> Done {
        let request = pb::ClaimHandoffRequest {
            request_id: request_id(),
            handoff_id: self.id.clone(),
            instance_id: self.instance.clone(),
        };
        let done = answered(session.handoffs().claim_handoff(session.ask(request)).await)?;
        show(session, &done, |done| {
            let digests = if done.blind { "withheld until received" } else { "shown" };
            let more = [
                ("packet", done.packet_digest.clone()),
                ("deadline", when(done.deadline.as_ref())),
                ("digests", digests.to_owned()),
            ];
            left_behind(done.outcome.as_ref(), &more)?;
            content(&done.packet.clone().unwrap_or_default())
        })
    }
}
