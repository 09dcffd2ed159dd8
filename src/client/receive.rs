//! Receiving one handoff: claim, verify under a renewed lease, acknowledge.
//!
//! What lives here: the steps from an offer to control, once. What does not: watching for offers,
//! and the verification itself. Invariants: the lease is renewed as long as the verification runs;
//! a receipt that meets a broken connection is sent again unchanged; what ended is dropped.

use std::time::Duration;

use prost_types::Timestamp;

use crate::proto::baton::v1 as pb;

use super::agent::{Duties, Step};
use super::retry::Backoff;
use super::{Client, Failure, Owned, packet};

/// How often a handoff is claimed anew after its lease lapsed.
const CLAIMS_MAX: u32 = 3;
/// How long to wait for another claimant's lease, if the broker does not say.
const CLAIM_WAIT: Duration = Duration::from_secs(1);
/// How long a claim may take to be seen by reads.
const CLAIM_VISIBLE: Duration = Duration::from_secs(2);
/// How often a lease is renewed if the broker gives no end for it.
const RENEWAL: Duration = Duration::from_secs(5);
/// The shortest time between renewals.
const RENEWAL_MIN: Duration = Duration::from_millis(50);

/// An offer that this process holds the lease of.
#[derive(Clone, Debug)]
pub struct Offered {
    /// The packet; in a blind offer without the expected digests.
    pub packet: pb::HandoffPacket,
    /// Digest of the whole packet.
    pub packet_digest: String,
    /// True if expected digests are withheld.
    pub blind: bool,
    /// When the offer ends by itself.
    pub deadline: Option<Timestamp>,
    client: Client,
    instance_id: String,
    renewal: Duration,
}

impl Offered {
    /// Fetches the content of an artifact that the broker keeps; empty if it is kept elsewhere.
    ///
    /// A claim may be answered before it is on disk, and reads show only what is: what a claimant
    /// may see can be unknown for a moment, or for good if the broker crashed in it. So this asks
    /// again for a short while, and claims again if the claim is gone.
    ///
    /// # Errors
    /// The broker refused, or cannot be reached.
    pub async fn content(&self, artifact_id: &str) -> Result<Vec<pb::ArtifactPart>, Failure> {
        let request = pb::GetArtifactRequest {
            task_id: self.packet.task_id.clone(),
            artifact_id: artifact_id.to_owned(),
        };
        let mut backoff = Backoff::until(CLAIM_VISIBLE);
        loop {
            match self.client.get_artifact(request.clone()).await {
                Err(failure) if failure.is(pb::Reason::NotFound) && backoff.pause().await => {
                    self.hold().await?;
                }
                other => return Ok(other?.parts),
            }
        }
    }

    /// Renews the claim, or makes it again if it is gone.
    async fn hold(&self) -> Result<(), Failure> {
        match renewed(&self.client, &self.instance_id, &self.packet.handoff_id).await {
            Err(failure) if claim_is_gone(&failure) => {
                let request = pb::ClaimHandoffRequest {
                    request_id: String::new(),
                    handoff_id: self.packet.handoff_id.clone(),
                    instance_id: self.instance_id.clone(),
                };
                self.client.claim_handoff(request).await.map(|_| ())
            }
            other => other,
        }
    }
}

/// What a receiver read by itself: never copied from the packet.
#[derive(Clone, Debug, Default)]
pub struct Readings {
    /// Every source of the packet, with the digest of what was fetched.
    pub sources: Vec<pb::SourceEcho>,
    /// Every artifact of the packet, with the digest of what was fetched.
    pub artifacts: Vec<pb::ArtifactEcho>,
    /// When it was read, after the claim, by this machine's clock.
    pub observed_at: Option<Timestamp>,
}

/// What a verification came to.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// Everything could be read: this is what it showed. The broker compares.
    Receipt(Readings),
    /// The task is not taken.
    Reject {
        /// The element that is wrong; unspecified if it is none of the five.
        element: pb::ReceiptElement,
        /// Why.
        reason: String,
    },
}

/// One handoff from its offer on. Gives the task if control has moved.
pub(super) async fn receive<H: Duties>(
    client: &Client,
    instance_id: &str,
    handoff_id: &str,
    handler: &H,
) -> Option<Owned> {
    for _ in 0..CLAIMS_MAX {
        let claimed = claim(client, instance_id, handoff_id).await;
        let offered = match claimed {
            Ok(offered) => offered,
            Err(failure) => return dropped(handler, handoff_id, failure),
        };
        handler.observe(&Step::Claimed { offered: &offered });
        let settled = async {
            match handler.verify(&offered).await {
                Verdict::Reject { element, reason } => {
                    reject(&offered, element, reason).await?;
                    Ok(None)
                }
                Verdict::Receipt(readings) => {
                    let request = acknowledgement(instance_id, &offered, readings)?;
                    acknowledge(&offered, request, handler).await
                }
            }
        };
        // Either future may be dropped at any point: a claim lapses, a receipt can be repeated.
        let settled = tokio::select! {
            settled = settled => settled,
            lost = renew(client, instance_id, &offered) => Err(lost),
        };
        match settled {
            Ok(Some(outcome)) => {
                return Owned::new(client.clone(), instance_id, Some(&outcome)).ok();
            }
            Ok(None) => return None,
            // A claim is the one thing that a crash of the broker may lose.
            Err(failure) if claim_is_gone(&failure) => {}
            Err(failure) => return dropped(handler, handoff_id, failure),
        }
    }
    None
}

fn claim_is_gone(failure: &Failure) -> bool {
    matches!(failure.reason, Some(pb::Reason::LeaseLapsed | pb::Reason::ClaimRequired))
}

fn dropped<H: Duties>(handler: &H, handoff_id: &str, failure: Failure) -> Option<Owned> {
    handler.observe(&Step::Dropped { handoff_id, failure: &failure });
    None
}

/// Claims; while another claimant holds the lease, waits for its end.
async fn claim(client: &Client, instance_id: &str, handoff_id: &str) -> Result<Offered, Failure> {
    let claimed = loop {
        let request = pb::ClaimHandoffRequest {
            request_id: String::new(),
            handoff_id: handoff_id.to_owned(),
            instance_id: instance_id.to_owned(),
        };
        match client.claim_handoff(request).await {
            // The offer's own end ends this wait: the claim is then refused otherwise.
            Err(failure) if failure.is(pb::Reason::ClaimHeld) => {
                tokio::time::sleep(failure.retry_after.unwrap_or(CLAIM_WAIT)).await;
            }
            other => break other?,
        }
    };
    let missing = || tonic::Status::internal("the answer to a claim has no packet");
    Ok(Offered {
        renewal: renewal(claimed.outcome.as_ref()),
        packet: claimed.packet.ok_or_else(missing)?,
        packet_digest: claimed.packet_digest,
        blind: claimed.blind,
        deadline: claimed.deadline,
        client: client.clone(),
        instance_id: instance_id.to_owned(),
    })
}

/// A third of the lease, so that two renewals may fail. Both times are the broker's.
fn renewal(outcome: Option<&pb::Outcome>) -> Duration {
    let micros = |t: Timestamp| t.seconds.saturating_mul(1_000_000) + i64::from(t.nanos / 1000);
    let lease = outcome.and_then(|o| Some(micros(o.lease_expires_at?) - micros(o.decided_at?)));
    let lease = lease.and_then(|micros| u64::try_from(micros).ok());
    lease.map_or(RENEWAL, |micros| Duration::from_micros(micros / 3)).max(RENEWAL_MIN)
}

async fn renewed(client: &Client, instance_id: &str, handoff_id: &str) -> Result<(), Failure> {
    let request = pb::RenewClaimRequest {
        request_id: String::new(),
        handoff_id: handoff_id.to_owned(),
        instance_id: instance_id.to_owned(),
    };
    client.renew_claim(request).await.map(|_| ())
}

/// Renews the lease until the broker says that it is lost.
async fn renew(client: &Client, instance_id: &str, offered: &Offered) -> Failure {
    loop {
        tokio::time::sleep(offered.renewal).await;
        match renewed(client, instance_id, &offered.packet.handoff_id).await {
            Ok(()) => {}
            // A frozen task keeps its offer and its claim; an unreachable broker may come back. And
            // once received there is nothing to renew: the receipt under way settles it.
            Err(failure) => match failure.reason {
                None | Some(pb::Reason::Frozen | pb::Reason::Stopping) => {}
                Some(pb::Reason::HandoffEnded) => std::future::pending().await,
                Some(_) => return failure,
            },
        }
    }
}

/// The receipt, with the elements that need no reading of the outside computed of the packet.
fn acknowledgement(
    instance_id: &str,
    offered: &Offered,
    readings: Readings,
) -> Result<pb::AcknowledgeHandoffRequest, Failure> {
    let packet = &offered.packet;
    let contract = packet::contract_echo(packet)
        .map_err(|e| tonic::Status::internal(format!("the packet cannot be echoed: {e}")))?;
    let receipt = pb::HandoffReceipt {
        task_id: packet.task_id.clone(),
        contract: Some(contract),
        source_snapshot: Some(pb::SourceSnapshotEcho { entities: readings.sources }),
        artifacts: Some(pb::ArtifactSetEcho { items: readings.artifacts }),
        scope: packet.scope.clone(),
        observed_at: readings.observed_at,
        ..Default::default()
    };
    Ok(pb::AcknowledgeHandoffRequest {
        request_id: String::new(),
        handoff_id: packet.handoff_id.clone(),
        packet_digest: offered.packet_digest.clone(),
        instance_id: instance_id.to_owned(),
        receipt: Some(receipt),
    })
}

/// Presents the receipt. One that does not match is told and then refused in the receiver's name,
/// with the element that differs: what was read will not become right by being sent again.
async fn acknowledge<H: Duties>(
    offered: &Offered,
    request: pb::AcknowledgeHandoffRequest,
    handler: &H,
) -> Result<Option<pb::Outcome>, Failure> {
    match offered.client.acknowledge_handoff(request).await {
        Ok(received) => {
            handler.observe(&Step::Acknowledged { received: &received });
            Ok(received.outcome)
        }
        Err(failure) if failure.is(pb::Reason::ReceiptMismatch) => {
            handler.observe(&Step::Mismatched { offered, failure: &failure });
            reject(offered, element_of(&failure), failure.message.clone()).await?;
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}

/// The first element that a mismatch names.
fn element_of(failure: &Failure) -> pb::ReceiptElement {
    use pb::ReceiptElement as Element;
    let field = failure.violations.first().map_or("", |v| v.field.as_str());
    let named = [
        ("task_id", Element::TaskId),
        ("contract", Element::Contract),
        ("source_snapshot", Element::SourceSnapshot),
        ("artifacts", Element::Artifacts),
        ("scope", Element::Scope),
    ];
    let found = named.into_iter().find(|(name, _)| field.split(['.', '[']).any(|p| p == *name));
    found.map_or(Element::Unspecified, |(_, element)| element)
}

async fn reject(
    offered: &Offered,
    element: pb::ReceiptElement,
    reason: String,
) -> Result<(), Failure> {
    let request = pb::RejectHandoffRequest {
        request_id: String::new(),
        handoff_id: offered.packet.handoff_id.clone(),
        packet_digest: offered.packet_digest.clone(),
        failing_element: element.into(),
        reason,
    };
    offered.client.reject_handoff(request).await.map(|_| ())
}
