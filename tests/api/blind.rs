//! Blind receipts: what a receiver must find out itself is told to it by nobody.

use baton::core::contract::example;
use baton::proto::baton::v1 as pb;

use crate::packets::{example_artifact, offer_request, receipt_request};
use crate::prying::Receiver;
use crate::recorder::Recorder;
use crate::steps::{REVIEWER, VERIFIER, WRITER};
use crate::world::{Held, World, by, fresh, refused};

fn hex(digest: &str) -> String {
    digest.trim_start_matches("sha256:").to_owned()
}

/// A text that gives away what is withheld, in either case of its digits.
fn telling(text: &str) -> String {
    format!(
        "{text} sha256:{} and {}",
        hex(example::ARTIFACT_DIGEST),
        hex(example::SOURCE_DIGEST).to_uppercase()
    )
}

fn telling_checkpoint() -> pb::Checkpoint {
    let mut checkpoint = example::checkpoint();
    checkpoint.current_state = example::text(&telling("ready"));
    checkpoint.next_action = example::text(&telling("run stage-2"));
    checkpoint.artifact_descriptors = Some(telling_artifacts());
    if let Some(pb::source_snapshot_field::State::Value(snapshot)) =
        checkpoint.source_snapshot.as_mut().and_then(|f| f.state.as_mut())
    {
        snapshot.entities[0].location = telling("store://sources/catalog");
        snapshot.entities[0].digested = telling("the bytes");
    }
    checkpoint
}

fn telling_artifact() -> pb::ArtifactDescriptor {
    pb::ArtifactDescriptor {
        location: format!("store://cas/{}", hex(example::ARTIFACT_DIGEST)),
        digested: telling("the bytes"),
        ..example_artifact()
    }
}

fn telling_artifacts() -> pb::ArtifactDescriptorListField {
    let items = vec![telling_artifact()];
    pb::ArtifactDescriptorListField {
        state: Some(pb::artifact_descriptor_list_field::State::Value(pb::ArtifactDescriptorList {
            items,
        })),
    }
}

fn telling_offer(held: &Held) -> pb::OfferHandoffRequest {
    let mut request = offer_request(held, REVIEWER);
    let packet = request.packet.as_mut().expect("a packet");
    let checkpoint = telling_checkpoint();
    packet.current_state = checkpoint.current_state;
    packet.next_action = checkpoint.next_action;
    packet.artifact_descriptors = checkpoint.artifact_descriptors;
    packet.source_snapshot = checkpoint.source_snapshot;
    packet.handoff_reason = example::text(&telling("review"));
    packet.stop_condition = example::texts(&[&telling("stop")]);
    packet.completed_boundary = example::text(&telling("stage-1"));
    request
}

/// Where a withheld value stands in what was sent.
fn leaks(bytes: &[u8]) -> Vec<String> {
    let lower = bytes.to_ascii_lowercase();
    let mut found = Vec::new();
    for digest in [example::SOURCE_DIGEST, example::ARTIFACT_DIGEST] {
        let text = hex(digest);
        let raw: Vec<u8> = (0..32)
            .map(|n| u8::from_str_radix(&text[2 * n..2 * n + 2], 16).expect("hexadecimal"))
            .collect();
        let around =
            |at: usize| String::from_utf8_lossy(&bytes[at.saturating_sub(60)..at]).into_owned();
        let spelled = lower.windows(64).position(|w| w == text.as_bytes());
        let as_bytes = bytes.windows(32).position(|w| w == raw);
        found.extend(spelled.map(|at| format!("{digest} after {:?}", around(at))));
        found.extend(as_bytes.map(|at| format!("raw {digest} after {:?}", around(at))));
    }
    found
}

// A receiver that is told the digests can copy them and never look at the work: the receipt then
// proves nothing. REQ-059
#[tokio::test]
async fn no_byte_to_the_receiver_spells_a_withheld_digest_before_the_receipt() {
    let world = World::new().await;
    world.register(&[(REVIEWER, &["review"])]).await;
    let mut held = world.task_with(|r| r.task_class = telling("review")).await;
    world.put_this_artifact(&mut held, telling_artifact()).await.expect("puts");
    world.put_this_checkpoint(&mut held, telling_checkpoint()).await.expect("puts");
    let request = telling_offer(&held);
    let offered = world.handoffs().offer_handoff(by(WRITER, request)).await.expect("offers");
    let offered = offered.into_inner();
    assert!(offered.blind);
    held.moved(offered.outcome.clone());
    let id = offered.outcome.expect("an outcome").handoff_id;

    let recorder = Recorder::before(&world.address).await;
    let mut receiver = Receiver::over(&recorder.channel);
    receiver.read(&held.task_id, &id).await;
    let claim = pb::ClaimHandoffRequest {
        request_id: fresh(),
        handoff_id: id.clone(),
        instance_id: format!("{REVIEWER}-1"),
    };
    let claimed = receiver.handoffs.claim_handoff(by(REVIEWER, claim.clone())).await;
    let claimed = claimed.expect("claims").into_inner();
    receiver.read(&held.task_id, &id).await;
    receiver.try_writes(&held, &id, &offered.packet_digest).await;
    let renew = pb::RenewClaimRequest {
        request_id: fresh(),
        handoff_id: id.clone(),
        instance_id: claim.instance_id,
    };
    receiver.handoffs.renew_claim(by(REVIEWER, renew)).await.expect("renews");
    let honest = receipt_request(REVIEWER, &claimed);
    let mut wrong = pb::AcknowledgeHandoffRequest { request_id: fresh(), ..honest.clone() };
    let receipt = wrong.receipt.as_mut().expect("a receipt");
    receipt.source_snapshot.as_mut().expect("sources").entities.clear();
    receipt.artifacts.as_mut().expect("artifacts").items[0].digest =
        crate::receipts::OTHER.to_owned();
    let mismatch = receiver.handoffs.acknowledge_handoff(by(REVIEWER, wrong)).await;
    receiver.heard(mismatch);
    let mut heard = recorder.bytes();
    heard.extend_from_slice(&receiver.refusals);
    assert!(!receiver.refusals.is_empty());
    assert_eq!(leaks(&heard), Vec::<String>::new());

    // The honest receipt passes, and then the recorder sees what it would have seen before.
    receiver.handoffs.acknowledge_handoff(by(REVIEWER, honest)).await.expect("receives");
    receiver.read_after(&id).await;
    assert_eq!(leaks(&recorder.bytes()).len(), 2, "the recorder sees nothing at all");
}

// Masking an identifier would make the receipt impossible, and showing it would make it worthless.
// REQ-059
#[tokio::test]
async fn a_packet_whose_identifiers_spell_a_digest_cannot_be_blind() {
    let world = World::new().await;
    world.register(&[(REVIEWER, &["review"])]).await;
    let mut held = world.task().await;
    let named =
        pb::ArtifactDescriptor { version: hex(example::ARTIFACT_DIGEST), ..example_artifact() };
    world.put_this_artifact(&mut held, named.clone()).await.expect("puts");
    let field = pb::ArtifactDescriptorListField {
        state: Some(pb::artifact_descriptor_list_field::State::Value(pb::ArtifactDescriptorList {
            items: vec![named],
        })),
    };
    let mut checkpoint = example::checkpoint();
    checkpoint.artifact_descriptors = Some(field.clone());
    world.put_this_checkpoint(&mut held, checkpoint).await.expect("puts");
    let change = |r: &mut pb::OfferHandoffRequest| {
        r.packet.as_mut().expect("a packet").artifact_descriptors = Some(field.clone());
    };
    refused(world.offer_with(&mut held, REVIEWER, change).await, "BLIND_IMPOSSIBLE");
    let scope = |r: &mut pb::OfferHandoffRequest| {
        change(r);
        r.options =
            Some(pb::OfferOptions { blind: pb::BlindMode::Open.into(), ..Default::default() });
    };
    world.offer_with(&mut held, REVIEWER, scope).await.expect("an open offer shows it");
}

// A scope that spells the digest travels in clear, since the receiver echoes it. REQ-059
#[tokio::test]
async fn a_scope_that_spells_a_digest_cannot_be_blind() {
    let (world, mut held) = World::with_ready().await;
    let change = |r: &mut pb::OfferHandoffRequest| {
        let scope = r.packet.as_mut().and_then(|p| p.scope.as_mut()).expect("a scope");
        scope.resources = vec![format!("store://reports/{}", hex(example::ARTIFACT_DIGEST))];
    };
    refused(world.offer_with(&mut held, REVIEWER, change).await, "BLIND_IMPOSSIBLE");
}

// Terms that spell the digest are what the receiver hashes, so they cannot be masked. REQ-059
#[tokio::test]
async fn terms_that_spell_a_digest_cannot_be_blind() {
    let world = World::new().await;
    world.register(&[(REVIEWER, &["review"])]).await;
    let objective = telling("answer");
    let mut held = world
        .task_with(|r| {
            r.contract.as_mut().expect("a contract").objective = example::text(&objective);
        })
        .await;
    world.put_artifact(&mut held).await;
    world.put_checkpoint(&mut held).await;
    let change = |r: &mut pb::OfferHandoffRequest| {
        let goal = r.packet.as_mut().and_then(|p| p.active_goal.as_mut()).expect("a goal");
        goal.objective.clone_from(&objective);
    };
    refused(world.offer_with(&mut held, REVIEWER, change).await, "BLIND_IMPOSSIBLE");
}

// A blind offer with nothing to hash would pass without any proof. REQ-059
#[tokio::test]
async fn nothing_to_hash_cannot_be_blind_unless_the_sender_allows_it() {
    let world = World::new().await;
    world.register(&[(REVIEWER, &["review"])]).await;
    let mut held = world.task().await;
    let mut checkpoint = example::checkpoint();
    checkpoint.artifact_descriptors = Some(pb::ArtifactDescriptorListField {
        state: Some(pb::artifact_descriptor_list_field::State::Value(Default::default())),
    });
    if let Some(pb::source_snapshot_field::State::Value(snapshot)) =
        checkpoint.source_snapshot.as_mut().and_then(|f| f.state.as_mut())
    {
        snapshot.entities[0].digest = None;
    }
    world.put_this_checkpoint(&mut held, checkpoint.clone()).await.expect("puts");
    let change = |r: &mut pb::OfferHandoffRequest| {
        let packet = r.packet.as_mut().expect("a packet");
        packet.artifact_descriptors.clone_from(&checkpoint.artifact_descriptors);
        packet.source_snapshot.clone_from(&checkpoint.source_snapshot);
    };
    refused(world.offer_with(&mut held, REVIEWER, change).await, "BLIND_IMPOSSIBLE");
    let allowed = |r: &mut pb::OfferHandoffRequest| {
        change(r);
        r.options = Some(pb::OfferOptions { echo_allowed: true, ..Default::default() });
    };
    let offered = world.offer_with(&mut held, REVIEWER, allowed).await.expect("offers");
    let id = offered.outcome.expect("an outcome").handoff_id;
    let claimed = world.claim(REVIEWER, &id).await.expect("claims");
    let mut request = receipt_request(REVIEWER, &claimed);
    let sources = request.receipt.as_mut().and_then(|r| r.source_snapshot.as_mut());
    sources.expect("sources").entities[0].digest = None;
    let done = world.acknowledge(REVIEWER, request).await.expect("receives");
    assert!(assured(&done).iter().all(|(_, _, how)| *how == pb::EchoAssurance::Echoed));
}

fn assured(
    done: &pb::AcknowledgeHandoffResponse,
) -> Vec<(pb::ReceiptElement, String, pb::EchoAssurance)> {
    let receipt = done.receipt.clone().expect("a receipt");
    receipt.assurances.iter().map(|a| (a.element(), a.key.clone(), a.assurance())).collect()
}

// A record that says "fetched" of a value that was shown makes the proof a lie. REQ-059
#[tokio::test]
async fn a_receipt_says_what_was_fetched_and_what_was_only_echoed() {
    let (world, held, claimed) = World::with_claimed().await;
    let done = world.acknowledge(REVIEWER, receipt_request(REVIEWER, &claimed)).await;
    let done = done.expect("receives");
    for (element, key, how) in assured(&done) {
        use pb::ReceiptElement as E;
        let hashed = matches!(element, E::SourceSnapshot | E::Artifacts);
        let wanted =
            if hashed { pb::EchoAssurance::FetchedAndHashed } else { pb::EchoAssurance::Echoed };
        assert_eq!(how, wanted, "{element:?} {key}");
    }
    assert_eq!(assured(&done).len(), 5);

    // Back to the writer, who knew it all.
    let outcome = done.outcome.expect("an outcome");
    let mut at_reviewer = Held {
        owner: REVIEWER.to_owned(),
        instance: format!("{REVIEWER}-1"),
        epoch: outcome.epoch,
        revision: outcome.revision,
        ..held
    };
    world.register(&[(WRITER, &[])]).await;
    let claimed = world.offer_and_claim(&mut at_reviewer, WRITER).await;
    assert!(claimed.blind);
    let back = world.acknowledge(WRITER, receipt_request(WRITER, &claimed)).await;
    let back = back.expect("receives");
    assert!(assured(&back).iter().all(|(_, _, how)| *how == pb::EchoAssurance::Echoed));
}

// An open offer shows the digests: nothing in its receipt proves a reading. REQ-059
#[tokio::test]
async fn a_receipt_of_an_open_offer_is_only_echoed() {
    let (world, mut held) = World::with_ready().await;
    let open = |r: &mut pb::OfferHandoffRequest| {
        r.options =
            Some(pb::OfferOptions { blind: pb::BlindMode::Open.into(), ..Default::default() });
    };
    let offered = world.offer_with(&mut held, REVIEWER, open).await.expect("offers");
    assert!(!offered.blind);
    let id = offered.outcome.expect("an outcome").handoff_id;
    let claimed = world.claim(REVIEWER, &id).await.expect("claims");
    let done = world.acknowledge(REVIEWER, receipt_request(REVIEWER, &claimed)).await;
    let done = done.expect("receives");
    assert!(assured(&done).iter().all(|(_, _, how)| *how == pb::EchoAssurance::Echoed));
}

// A boundary that nobody declared is still one when the accounts differ. REQ-059
#[tokio::test]
async fn an_offer_to_another_account_is_blind_by_default() {
    let known: [(&str, &str, &[&str]); 4] = [
        (WRITER, "svc-a", &[]),
        ("agent:near", "svc-a", &["review"]),
        (REVIEWER, "svc-b", &["review"]),
        (VERIFIER, "svc-v", &[]),
    ];
    let world = World::with_accounts(&known).await;
    for (receiver, blind) in [("agent:near", false), (REVIEWER, true), ("capability:review", true)]
    {
        let mut held = world
            .task_with(|r| {
                let boundary = i32::from(pb::Trait::TrustBoundary);
                r.shape.as_mut().expect("a shape").traits.retain(|t| *t != boundary);
            })
            .await;
        world.put_artifact(&mut held).await;
        world.put_checkpoint(&mut held).await;
        assert_eq!(world.offer(&mut held, receiver).await.blind, blind, "{receiver}");
    }
}

// Who was shown the digests in an open offer has them for every later one; what it names then was
// not fetched. And while a blind offer to it is open, no older answer may be asked for again.
#[tokio::test]
async fn an_earlier_open_offer_gives_no_fetched_receipt_later() {
    let (world, mut held) = World::with_ready().await;
    let open = |r: &mut pb::OfferHandoffRequest| {
        r.options =
            Some(pb::OfferOptions { blind: pb::BlindMode::Open.into(), ..Default::default() });
    };
    let blind = |r: &mut pb::OfferHandoffRequest| {
        r.options =
            Some(pb::OfferOptions { blind: pb::BlindMode::Blind.into(), ..Default::default() });
    };
    let offered = world.offer_with(&mut held, REVIEWER, open).await.expect("offers");
    let first = pb::ClaimHandoffRequest {
        request_id: fresh(),
        handoff_id: offered.outcome.clone().expect("an outcome").handoff_id,
        instance_id: "reviewer-1".to_owned(),
    };
    let claim = |request: pb::ClaimHandoffRequest| {
        let mut handoffs = world.handoffs();
        async move { handoffs.claim_handoff(by(REVIEWER, request)).await.expect("claims") }
    };
    let shown = format!("{:?}", claim(first.clone()).await);
    assert!(shown.contains(&hex(example::SOURCE_DIGEST)), "an open offer shows the digests");
    world.withdraw(&mut held, &offered).await.expect("withdraws");
    let offered = world.offer_with(&mut held, REVIEWER, blind).await.expect("offers");
    let again = format!("{:?}", claim(first).await);
    for digest in [example::SOURCE_DIGEST, example::ARTIFACT_DIGEST] {
        assert!(!again.contains(&hex(digest)), "{digest}");
    }
    let handoff_id = offered.outcome.expect("an outcome").handoff_id;
    let claimed = world.claim(REVIEWER, &handoff_id).await.expect("claims");
    let receipt = receipt_request(REVIEWER, &claimed);
    let done = world.acknowledge(REVIEWER, receipt).await.expect("receives");
    let receipt = done.receipt.expect("a receipt");
    let fetched = pb::EchoAssurance::FetchedAndHashed;
    assert!(receipt.assurances.iter().all(|a| a.assurance() != fetched), "{receipt:?}");
}

// A claimant that was too late is no party any more; its repeated claim must not give it what the
// receipt of another has made readable.
#[tokio::test]
async fn a_late_claimant_that_repeats_its_claim_is_shown_no_digest() {
    let world = World::new().await;
    world.register(&[(REVIEWER, &["review"]), ("agent:third", &["review"])]).await;
    let mut held = world.ready().await;
    let blind = |r: &mut pb::OfferHandoffRequest| {
        r.options =
            Some(pb::OfferOptions { blind: pb::BlindMode::Blind.into(), ..Default::default() });
    };
    let offered = world.offer_with(&mut held, "capability:review", blind).await.expect("offers");
    let handoff_id = offered.outcome.expect("an outcome").handoff_id;
    let request = pb::ClaimHandoffRequest {
        request_id: fresh(),
        handoff_id: handoff_id.clone(),
        instance_id: "third-1".to_owned(),
    };
    let claim = || {
        let (mut handoffs, request) = (world.handoffs(), by("agent:third", request.clone()));
        async move { handoffs.claim_handoff(request).await }
    };
    claim().await.expect("claims");
    world.pass(31);
    let claimed = world.claim(REVIEWER, &handoff_id).await.expect("claims");
    world.receive(&held, REVIEWER, &claimed).await;
    let again = format!("{:?}", claim().await);
    for digest in [example::SOURCE_DIGEST, example::ARTIFACT_DIGEST] {
        assert!(!again.contains(&hex(digest)), "{digest}: {again}");
    }
}
