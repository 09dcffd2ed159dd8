//! Many at once: exactly one wins, nobody blocks the others, and nothing is lost.

use std::time::Duration;

use baton::proto::baton::v1 as pb;

use crate::packets::receipt_request;
use crate::steps::{REVIEWER, WRITER, next, receipts};
use crate::world::{Held, World, by, fresh, reason, refused};

/// Nothing in a test takes as long; a broker that hangs is found by it.
const BOUND: Duration = Duration::from_secs(60);

// Two claimants that both hold the lease both verify and both work. REQ-070
#[tokio::test(flavor = "multi_thread")]
async fn of_two_claims_at_once_exactly_one_holds_in_a_thousand_rounds() {
    let world = World::new().await;
    let agents = ["agent:one", "agent:two"];
    world.register(&[(agents[0], &["review"]), (agents[1], &["review"])]).await;
    let mut held = world.ready().await;
    let mut wins = [0, 0];
    for round in 0..1000 {
        let offered = world.offer(&mut held, "capability:review").await;
        let id = offered.outcome.clone().expect("an outcome").handoff_id;
        let claims = tokio::join!(world.claim(agents[0], &id), world.claim(agents[1], &id));
        match claims {
            (Ok(_), Err(lost)) => {
                wins[0] += 1;
                assert_eq!(reason(&lost), "CLAIM_HELD", "round {round}");
            }
            (Err(lost), Ok(_)) => {
                wins[1] += 1;
                assert_eq!(reason(&lost), "CLAIM_HELD", "round {round}");
            }
            (one, two) => panic!("round {round}: {:?} {:?}", one.is_ok(), two.is_ok()),
        }
        world.withdraw(&mut held, &offered).await.expect("withdraws");
    }
    assert_eq!(wins[0] + wins[1], 1000);
}

// Two answers of one receiver, sent at once by a retry, are one transition. REQ-069
#[tokio::test(flavor = "multi_thread")]
async fn of_two_acknowledgements_at_once_one_moves_control() {
    let world = World::new().await;
    world.register(&[(REVIEWER, &["review"])]).await;
    for _ in 0..50 {
        let mut held = world.ready().await;
        let claimed = world.offer_and_claim(&mut held, REVIEWER).await;
        let one = receipt_request(REVIEWER, &claimed);
        let two = pb::AcknowledgeHandoffRequest { request_id: fresh(), ..one.clone() };
        let (one, two) =
            tokio::join!(world.acknowledge(REVIEWER, one), world.acknowledge(REVIEWER, two));
        let (one, two) = (one.expect("received"), two.expect("received"));
        assert_eq!(one.receipt, two.receipt);
        let (one, two) = (one.outcome.expect("one"), two.outcome.expect("one"));
        assert_eq!((one.epoch, one.revision), (two.epoch, two.revision));
        assert_eq!(u8::from(one.replayed) + u8::from(two.replayed), 1);
        assert_eq!(receipts(&world.events(&held.task_id).await), 1);
        assert_eq!(world.see_all(&held.task_id).await.epoch, 2);
    }
}

// Two offers at once would put two packets out for one task. REQ-070
#[tokio::test(flavor = "multi_thread")]
async fn of_two_offers_at_once_one_stands() {
    let world = World::new().await;
    world.register(&[("agent:one", &[]), ("agent:two", &[])]).await;
    for _ in 0..50 {
        let held = world.ready().await;
        let (mut first, mut second) = (held.clone(), held.clone());
        let (one, two) = tokio::join!(
            world.offer_with(&mut first, "agent:one", |_| {}),
            world.offer_with(&mut second, "agent:two", |_| {}),
        );
        let lost = match (one, two) {
            (Ok(_), Err(lost)) | (Err(lost), Ok(_)) => lost,
            (one, two) => panic!("{:?} {:?}", one.is_ok(), two.is_ok()),
        };
        let why = reason(&lost);
        assert!(["STATE_CONFLICT", "HANDOFF_ALREADY_OPEN"].contains(&why.as_str()), "{why}");
        assert_eq!(world.see_all(&held.task_id).await.epoch, 1);
    }
}

// Two processes of one owner write on the same revision: one of them did not see the other. REQ-067
#[tokio::test(flavor = "multi_thread")]
async fn of_two_writes_on_one_revision_one_is_refused() {
    let world = World::new().await;
    let held = world.ready().await;
    let mut now = held.clone();
    for _ in 0..50 {
        let (mut first, mut second) = (now.clone(), now.clone());
        let (one, two) = tokio::join!(world.work(&mut first), world.work(&mut second));
        now = match (one, two) {
            (Ok(()), lost) => {
                refused(lost, "STATE_CONFLICT");
                first
            }
            (lost, Ok(())) => {
                refused(lost, "STATE_CONFLICT");
                second
            }
            (one, two) => panic!("{one:?} {two:?}"),
        };
    }
    assert_eq!(world.see_all(&held.task_id).await.revision, held.revision + 50);
}

/// The memory that the process holds, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or("VmRSS: 0 kB");
    let kib = line.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

// A watcher that stops reading must cost neither memory nor anybody's commits. REQ-070
#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_that_never_reads_holds_nobody_up() {
    let world = World::new().await;
    let mut held = world.ready().await;
    let mut idle = Vec::new();
    // On a connection of their own: what one connection does not read, HTTP/2 itself holds back.
    let apart = tonic::transport::Channel::from_shared(world.address.clone()).expect("an address");
    let apart = apart.connect().await.expect("connects");
    let mut watching = pb::task_service_client::TaskServiceClient::new(apart);
    for _ in 0..64 {
        let request = pb::WatchTaskRequest { task_id: held.task_id.clone(), after_sequence: 0 };
        idle.push(watching.watch_task(by(WRITER, request)).await.expect("watches"));
    }
    let before = resident();
    let writes = async {
        for _ in 0..2000 {
            world.work(&mut held).await.expect("works");
        }
    };
    tokio::time::timeout(BOUND, writes).await.expect("commits go on");
    let grown = resident().saturating_sub(before);
    // 64 watchers times 2,000 events of some 500 bytes would be 64 MiB and more.
    assert!(grown < 48 << 20, "memory grew by {grown} bytes");
    let last = world.see_all(&held.task_id).await.last_sequence;
    let mut late = idle.pop().expect("a stream").into_inner();
    drop(idle);
    for wanted in 1..=last {
        let next = next(&mut late).await.expect("reads").expect("goes on");
        assert_eq!(next.event.expect("an event").sequence, wanted, "what it had missed is there");
    }
}

// A client that goes away in the middle must not take its change with it. REQ-069
#[tokio::test(flavor = "multi_thread")]
async fn a_change_stands_although_its_client_has_gone() {
    let world = World::new().await;
    let held = world.ready().await;
    let request = pb::ReportStatusRequest {
        request_id: fresh(),
        task_id: held.task_id.clone(),
        guard: held.guard(),
        report: Some(crate::steps::report(pb::RuntimeStatus::Working)),
    };
    let mut tasks = world.tasks();
    let sent = request.clone();
    let call = tokio::spawn(async move { tasks.report_status(by(WRITER, sent)).await.map(|_| ()) });
    tokio::task::yield_now().await;
    call.abort();
    let _ = call.await;
    // Whether it had arrived or not: the same request settles it, once.
    let mut tasks = world.tasks();
    let again = tasks.report_status(by(WRITER, request));
    let again = tokio::time::timeout(BOUND, again).await.expect("is settled");
    let outcome = again.expect("works").into_inner().outcome.expect("an outcome");
    let task = world.see_all(&held.task_id).await;
    assert_eq!((outcome.revision, task.revision), (held.revision + 1, held.revision + 1));
    let mut now = Held { revision: outcome.revision, ..held };
    world.work(&mut now).await.expect("works on");
}
