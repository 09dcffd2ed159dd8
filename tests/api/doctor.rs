//! The doctor: a store that was lived in is whole, and what was changed in it is found.

use std::path::Path;

use baton::core::digest::Digest;
use baton::core::id::{Namespace, PrincipalId, TaskId};
use baton::doctor::{examine, look};
use baton::store::{AnyStore, Batch, Direction, SledStore, Store, StoreError, key};

use crate::events::lived;
use crate::steps::{REVIEWER, WRITER};
use crate::world::World;

fn open(dir: &Path) -> SledStore {
    SledStore::open(dir, 8 << 20).expect("opens")
}

fn entries(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir).expect("a folder").flatten();
    let mut names: Vec<_> = names.map(|e| e.file_name().into_string().expect("text")).collect();
    names.sort();
    names
}

/// A store with a task that has ended, one that is offered, and one that nobody has touched.
async fn filled(dir: &Path) -> TaskId {
    let world = World::over(AnyStore::Sled(Box::new(open(dir))), |_| {}).await;
    let ended = lived(&world).await;
    let mut held = world.ready().await;
    world.offer(&mut held, REVIEWER).await;
    world.ready().await;
    world.end().await.expect("ends");
    TaskId::parse(&ended.task_id).expect("an id")
}

// An operator who is told that a sound store is damaged restores an old backup over it.
#[tokio::test]
async fn a_store_that_was_lived_in_is_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("data");
    filled(&dir).await;
    let before = entries(&dir);
    let report = examine(&dir).expect("opens");
    assert_eq!(report.findings, Vec::<String>::new());
    assert_eq!((report.tasks, report.open_offers), (3, 1));
    assert!(report.events > 20 && report.handoffs > 2, "{report:?}");
    // The store is as it was, and the copy is gone.
    assert_eq!(entries(&dir), before);
    assert_eq!(entries(folder.path()), ["data"]);
    let running = open(&dir);
    assert!(matches!(examine(&dir), Err(StoreError::InUse { .. })));
    assert_eq!(entries(folder.path()), ["data"]);
    drop(running);
}

// What a program has written wrongly has a checksum like everything else; only what it says shows
// it.
#[tokio::test]
async fn what_does_not_fit_together_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("data");
    let ended = filled(&dir).await;
    let store = open(&dir);
    assert!(look(&store).expect("reads").is_healthy());
    let namespace = Namespace::parse("default").expect("a namespace");
    let writer = PrincipalId::parse(WRITER).expect("a principal");
    let value = |key: &[u8]| store.get(key).expect("reads").expect("is there").value;
    let record = value(&key::task(&namespace, &ended));
    let mut older = baton::wire::record::decode_task(&record).expect("a task").task;
    older.revision = baton::core::digest::Revision::new(older.revision.get() - 1);
    let older = baton::wire::record::encode_task(&baton::wire::record::TaskParts {
        namespace: &namespace,
        task: &older,
        recent: &[],
        segments: 0,
        offer_key: &[],
    });
    let offers = store.scan(b"o", b"p", Direction::Forward, 9).expect("reads");
    let stranger = TaskId::parse("00000000-0000-7000-8000-000000000009").expect("an id");
    let faults: [(&str, Batch); 6] = [
        ("other state", put(key::task(&namespace, &ended), older)),
        (
            "not the one that was digested",
            put(key::event(&ended, 3), {
                let mut event = value(&key::event(&ended, 3));
                let at = event.len() / 2;
                event[at] ^= 1;
                event
            }),
        ),
        ("cannot be read", put(key::handoff(&id()), b"\xff".to_vec())),
        ("listed as owned by", put(key::owned(&namespace, &writer, &stranger), Vec::new())),
        ("list of the open offers", delete(offers[0].0.clone())),
        ("document of its contract", delete(contract_of(&record, &ended))),
    ];
    store.close().expect("closes");
    drop(store);
    for (told, batch) in faults {
        let copy = folder.path().join("copy");
        baton::store::copy_stopped(&dir, &copy).expect("copies");
        let store = open(&copy);
        store.commit(batch, &mut |_| {}).expect("commits");
        let report = look(&store).expect("reads");
        let found = report.findings.iter().any(|f| {
            f.contains(told) || told == "not the one that was digested" && f.contains("event 3")
        });
        assert!(found, "{told}: {report:?}");
        drop(store);
        std::fs::remove_dir_all(copy).expect("is removed");
    }
}

fn put(key: Vec<u8>, value: Vec<u8>) -> Batch {
    Batch { put: vec![(key, value)], ..Batch::default() }
}

fn delete(key: Vec<u8>) -> Batch {
    Batch { delete: vec![key], ..Batch::default() }
}

fn id() -> baton::core::id::HandoffId {
    baton::core::id::HandoffId::parse("00000000-0000-7000-8000-00000000000a").expect("an id")
}

fn contract_of(record: &[u8], task: &TaskId) -> Vec<u8> {
    let stored = baton::wire::record::decode_task(record).expect("a task");
    let digest: Digest = stored.task.contract_document;
    key::document(task, &digest)
}
