//! Messages that tests send: scopes, artifacts, offers and honest receipts of the example.

use baton::core::contract::example;
use baton::core::digest::Digest;
use baton::proto::baton::v1 as pb;

use crate::world::{Held, fresh};

/// The creation of a task of the example.
pub(crate) fn create_request(
    change: impl FnOnce(&mut pb::CreateTaskRequest),
) -> pb::CreateTaskRequest {
    let mut contract = example::contract();
    contract.task_id = None;
    let mut request = pb::CreateTaskRequest {
        request_id: fresh(),
        contract: Some(contract),
        shape: Some(example::shape()),
        policy: Some(pb::TaskPolicy {
            verifiers: vec!["verifier:readback-1".to_owned()],
            ..Default::default()
        }),
        scope: Some(pb::AuthorizationScope { principal: String::new(), ..packet_scope("") }),
        instance_id: "writer-1".to_owned(),
        task_class: "review".to_owned(),
        context_id: String::new(),
    };
    change(&mut request);
    request
}

/// The scope of the example's packet, for `principal`.
pub(crate) fn packet_scope(principal: &str) -> pb::AuthorizationScope {
    let packet = example::packet("00000000-0000-7000-8000-000000000000");
    pb::AuthorizationScope {
        principal: principal.to_owned(),
        ..packet.scope.expect("the example has a scope")
    }
}

/// The example's artifact.
pub(crate) fn example_artifact() -> pb::ArtifactDescriptor {
    use pb::artifact_descriptor_list_field::State;
    let field = example::checkpoint().artifact_descriptors.expect("artifacts");
    match field.state {
        Some(State::Value(list)) => list.items.into_iter().next().expect("an artifact"),
        _ => panic!("the example has artifacts"),
    }
}

/// An offer of the example's packet.
pub(crate) fn offer_request(held: &Held, receiver: &str) -> pb::OfferHandoffRequest {
    let mut packet = example::offered(&held.task_id);
    packet.last_safe_checkpoint.clone_from(&held.checkpoint);
    packet.next_owner.get_or_insert_default().id = receiver.to_owned();
    packet.scope = Some(packet_scope(receiver));
    pb::OfferHandoffRequest {
        request_id: fresh(),
        guard: held.guard(),
        packet: Some(packet),
        options: None,
        supersedes: String::new(),
    }
}

/// An honest receipt: what a receiver sends that has fetched and hashed everything itself.
pub(crate) fn receipt_request(
    agent: &str,
    claimed: &pb::ClaimHandoffResponse,
) -> pb::AcknowledgeHandoffRequest {
    let packet = claimed.packet.clone().expect("a packet");
    let outcome = claimed.outcome.clone().expect("an outcome");
    let contract = packet.contract.as_ref().and_then(|c| c.contract_version.clone());
    let Some(pb::text_field::State::Value(version)) = contract.and_then(|f| f.state) else {
        panic!("a packet has a contract version");
    };
    let receipt = pb::HandoffReceipt {
        task_id: packet.task_id.clone(),
        contract: Some(pb::ContractEcho {
            version,
            digest: Digest::of(&packet.contract_canonical).to_string(),
        }),
        source_snapshot: Some(sources_read(&packet)),
        artifacts: Some(artifacts_read(&packet)),
        scope: packet.scope.clone(),
        observed_at: outcome.decided_at,
        ..Default::default()
    };
    pb::AcknowledgeHandoffRequest {
        request_id: fresh(),
        handoff_id: packet.handoff_id,
        packet_digest: claimed.packet_digest.clone(),
        instance_id: format!("{agent}-1"),
        receipt: Some(receipt),
    }
}

/// Hashes the example's source.
fn sources_read(packet: &pb::HandoffPacket) -> pb::SourceSnapshotEcho {
    use pb::source_snapshot_field::State;
    let Some(State::Value(snapshot)) = packet.source_snapshot.clone().and_then(|f| f.state) else {
        return pb::SourceSnapshotEcho::default();
    };
    let entities = snapshot.entities.into_iter().map(|entity| pb::SourceEcho {
        entity_id: entity.entity_id,
        version: entity.version,
        digest: Some(Digest::of(example::SOURCE).to_string()),
    });
    pb::SourceSnapshotEcho { entities: entities.collect() }
}

/// Hashes the example's artifact.
fn artifacts_read(packet: &pb::HandoffPacket) -> pb::ArtifactSetEcho {
    use pb::artifact_descriptor_list_field::State;
    let field = packet.artifact_descriptors.clone().and_then(|f| f.state);
    let Some(State::Value(list)) = field else { return pb::ArtifactSetEcho::default() };
    let items = list.items.into_iter().map(|artifact| pb::ArtifactEcho {
        id: artifact.id,
        version: artifact.version,
        digest: Digest::of(example::ARTIFACT).to_string(),
    });
    pb::ArtifactSetEcho { items: items.collect() }
}
