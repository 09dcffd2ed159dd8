//! Authority never grows in transit.

use baton::proto::baton::v1 as pb;

use crate::packets::{offer_request, packet_scope};
use crate::steps::{REVIEWER, WRITER};
use crate::world::{Held, World, by, fields, refused};

async fn offer_scope(
    world: &World,
    held: &Held,
    change: impl FnOnce(&mut pb::AuthorizationScope),
) -> Result<pb::OfferHandoffResponse, tonic::Status> {
    let mut request = offer_request(held, REVIEWER);
    change(request.packet.as_mut().and_then(|p| p.scope.as_mut()).expect("a scope"));
    world.handoffs().offer_handoff(by(WRITER, request)).await.map(tonic::Response::into_inner)
}

// A packet with more authority than its sender lets an agent do by handing over what it may not do
// itself; one excess at a time costs a round trip each. REQ-072
#[tokio::test]
async fn a_wider_scope_is_refused_with_every_excess() {
    let world = World::new().await;
    world.register(&[(REVIEWER, &["review"])]).await;
    let mut held = world
        .task_with(|r| {
            let scope = r.scope.as_mut().expect("a scope");
            scope.prohibitions = vec!["delete".to_owned()];
            scope.approval_conditions = vec!["two eyes".to_owned()];
        })
        .await;
    world.put_artifact(&mut held).await;
    world.put_checkpoint(&mut held).await;
    let wide = offer_scope(&world, &held, |s| {
        s.resources = vec!["store://reports/**".to_owned(), "store://other/x".to_owned()];
        s.operations.push("send".to_owned());
        s.expires_at.as_mut().expect("an end").seconds += 1;
    });
    let status = refused(wide.await, "SCOPE_EXCEEDED");
    let mut named = fields(&status);
    named.sort();
    let wanted = [
        "packet.scope.approval_conditions",
        "packet.scope.expires_at",
        "packet.scope.operations",
        "packet.scope.prohibitions",
        "packet.scope.resources",
        "packet.scope.resources",
    ];
    assert_eq!(named, wanted, "{status:?}");
    let unbounded = offer_scope(&world, &held, |s| {
        s.expires_at = None;
        s.prohibitions = vec!["delete".to_owned()];
        s.approval_conditions = vec!["two eyes".to_owned()];
    });
    refused(unbounded.await, "SCOPE_EXCEEDED");
    offer_scope(&world, &held, |s| {
        s.resources = vec!["store://reports/a".to_owned()];
        s.operations = vec!["read".to_owned()];
        s.prohibitions = vec!["delete".to_owned(), "write".to_owned()];
        s.approval_conditions = vec!["two eyes".to_owned(), "on a weekday".to_owned()];
        s.expires_at.as_mut().expect("an end").seconds -= 1;
    })
    .await
    .expect("a narrower scope is offered");
}

// A wildcard that matches more than its owner meant is authority out of nothing. REQ-072
#[tokio::test]
async fn a_resource_that_climbs_or_has_other_wildcards_is_refused() {
    let (world, held) = World::with_ready().await;
    for resource in
        ["store://reports/../secret", "store://rep*/a", "*", "store://reports/%2e%2e/secret", ""]
    {
        let bad = offer_scope(&world, &held, |s| s.resources = vec![resource.to_owned()]).await;
        let status = bad.expect_err(resource);
        assert!(
            ["INVALID_REQUEST", "SCOPE_EXCEEDED"].contains(&&*crate::world::reason(&status)),
            "{resource}: {status:?}"
        );
    }
}

// An expired authority that could still be handed on would never end. REQ-072
#[tokio::test]
async fn an_expired_scope_covers_nothing() {
    let (world, held) = World::with_ready().await;
    world.pass(3 * 24 * 3600);
    refused(offer_scope(&world, &held, |_| {}).await, "SCOPE_EXCEEDED");
}

// A scope for somebody else than the receiver would give authority past the receipt. REQ-065
#[tokio::test]
async fn a_packets_scope_is_for_its_receiver() {
    let (world, held) = World::with_ready().await;
    let other = offer_scope(&world, &held, |s| s.principal = "agent:other".to_owned()).await;
    refused(other, "IDENTITY_MISMATCH");
}

/// A to B with a narrower scope; what B then holds, and the handoff.
async fn narrowed(world: &World) -> (Held, String) {
    world.register(&[(WRITER, &[]), (REVIEWER, &["review"]), ("agent:third", &[])]).await;
    let mut held = world.ready().await;
    let first = world.hand_over(&mut held, REVIEWER).await;
    // B gives it back narrower, so that A holds less than at first.
    let first_id = world.see_all(&held.task_id).await.handoff.expect("one").handoff_id;
    (first, first_id)
}

// B asks A back: A may regain what it held itself under an earlier receipt, never more, or a round
// trip would widen authority. REQ-072
#[tokio::test]
async fn a_returned_task_restores_at_most_what_the_receiver_held() {
    let world = World::new().await;
    let (mut at_b, first_id) = narrowed(&world).await;
    let read_only = |r: &mut pb::OfferHandoffRequest| {
        let scope = r.packet.as_mut().and_then(|p| p.scope.as_mut()).expect("a scope");
        scope.operations = vec!["read".to_owned()];
    };
    let offered = world.offer_with(&mut at_b, WRITER, read_only).await.expect("offers");
    let id = offered.outcome.expect("an outcome").handoff_id;
    let claimed = world.claim(WRITER, &id).await.expect("claims");
    let mut at_a = world.receive(&at_b, WRITER, &claimed).await;

    // A holds only `read` now and cannot give `draft`, unless B held it itself before.
    let wider = world.offer_with(&mut at_a, REVIEWER, |_| {}).await;
    refused(wider, "SCOPE_EXCEEDED");
    let restores = |r: &mut pb::OfferHandoffRequest| {
        r.packet.as_mut().expect("a packet").restores_handoff_id = first_id.clone();
    };
    let elsewhere = world.offer_with(&mut at_a, "agent:third", restores).await;
    refused(elsewhere, "SCOPE_EXCEEDED");
    let too_much = |r: &mut pb::OfferHandoffRequest| {
        restores(r);
        let scope = r.packet.as_mut().and_then(|p| p.scope.as_mut()).expect("a scope");
        scope.operations.push("send".to_owned());
    };
    refused(world.offer_with(&mut at_a, REVIEWER, too_much).await, "SCOPE_EXCEEDED");
    let back = world.offer_with(&mut at_a, REVIEWER, restores).await.expect("restores");
    let id = back.outcome.expect("an outcome").handoff_id;
    let claimed = world.claim(REVIEWER, &id).await.expect("claims");
    world.receive(&at_a, REVIEWER, &claimed).await;
    let task = world.see_all(&at_a.task_id).await;
    assert_eq!(task.scope.expect("a scope").operations.len(), packet_scope("").operations.len());
    assert_eq!((task.owner.as_str(), task.epoch), (REVIEWER, 4));
}
