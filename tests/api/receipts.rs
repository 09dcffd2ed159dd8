//! The receipt matrix: what moves control, and what does not.

use baton::proto::baton::v1 as pb;

use crate::world::{World, receipt_request};

// If a matching receipt did not move control, or anything moved without it, work would be lost or
// doubled. REQ-058, HR-1
#[tokio::test]
async fn a_matching_receipt_moves_control_in_one_event() {
    let world = World::new().await;
    world.register(&[("agent:reviewer", &["review"])]).await;
    let mut held = world.ready().await;
    let offered = world.offer(&mut held, "agent:reviewer").await;
    let handoff_id = offered.outcome.expect("an outcome").handoff_id;
    let claimed = world.claim("agent:reviewer", &handoff_id).await.expect("claims");
    let task = world.see("agent:writer", &held.task_id).await.expect("sees");
    assert_eq!((task.owner.as_str(), task.epoch), ("agent:writer", 1));

    let request = receipt_request("agent:reviewer", &claimed);
    let done = world.acknowledge("agent:reviewer", request).await.expect("receives");

    assert_eq!(done.outcome.expect("an outcome").epoch, 2);
    let task = world.see("agent:reviewer", &held.task_id).await.expect("sees");
    assert_eq!((task.owner.as_str(), task.epoch), ("agent:reviewer", 2));
    let handoff = task.handoff.expect("a handoff");
    assert_eq!(handoff.status(), pb::HandoffStatus::Received);
    world.end().await.expect("ends in order");
}
