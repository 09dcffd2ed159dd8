//! One conformance suite over every store: the in-memory one is the model.

// A test stops at the first surprise.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

use std::path::Path;

use baton::store::{
    AnyStore, Batch, CACHE_BYTES_DEFAULT, Direction, Expect, MemoryStore, Position, SledStore,
    Store, StoreError,
};
use proptest::prelude::*;

fn stores(dir: &Path) -> Vec<AnyStore> {
    let sled = SledStore::open(dir, CACHE_BYTES_DEFAULT).expect("opens");
    vec![AnyStore::Memory(MemoryStore::new()), AnyStore::Sled(Box::new(sled))]
}

fn put(pairs: &[(&[u8], &[u8])]) -> Batch {
    Batch { put: pairs.iter().map(|(k, v)| (k.to_vec(), v.to_vec())).collect(), ..Batch::default() }
}

fn commit(store: &impl Store, batch: Batch) -> Position {
    store.commit(batch, &mut |_| {}).expect("commits")
}

fn value(store: &impl Store, key: &[u8]) -> Option<Vec<u8>> {
    store.get(key).expect("reads").map(|stored| stored.value)
}

// A batch that is applied in part leaves a task without its event, or the other way round.
#[test]
fn a_batch_changes_all_of_it_or_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for store in stores(dir.path()) {
        let first = commit(&store, put(&[(b"a", b"1"), (b"b", b"2")]));
        assert_eq!(first, Position(1));
        let mut calls = 0;
        let batch = Batch {
            expect: vec![(b"a".to_vec(), Expect::At(first)), (b"c".to_vec(), Expect::At(first))],
            put: vec![(b"a".to_vec(), b"9".to_vec())],
            delete: vec![b"b".to_vec()],
            ..Batch::default()
        };
        let refused = store.commit(batch, &mut |_| calls += 1);
        assert_eq!(refused, Err(StoreError::Conflict { key: b"c".to_vec() }));
        assert_eq!(calls, 0);
        assert_eq!(value(&store, b"a").as_deref(), Some(b"1".as_slice()));
        assert_eq!(value(&store, b"b").as_deref(), Some(b"2".as_slice()));
        assert_eq!(store.position(), Position(1));
        let batch = Batch {
            expect: vec![(b"a".to_vec(), Expect::At(first)), (b"c".to_vec(), Expect::Absent)],
            put: vec![(b"c".to_vec(), b"3".to_vec())],
            delete: vec![b"b".to_vec()],
            ..Batch::default()
        };
        store.commit(batch, &mut |_| calls += 1).expect("commits");
        assert_eq!((calls, value(&store, b"b")), (1, None));
        assert_eq!(store.get(b"c").unwrap().unwrap().position, Position(2));
        assert_eq!(store.get(b"a").unwrap().unwrap().position, Position(1));
    }
}

// Lists, watchers and indexes are ranges: a missing or misplaced key is lost work.
#[test]
fn a_scan_gives_the_range_in_order_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    for store in stores(dir.path()) {
        commit(&store, put(&[(b"a", b"1"), (b"b\x00", b"2"), (b"b\xff", b"3"), (b"c", b"4")]));
        let keys = |from: &[u8], to: &[u8], direction, limit| -> Vec<Vec<u8>> {
            let found = store.scan(from, to, direction, limit).unwrap();
            found.into_iter().map(|(key, _)| key).collect()
        };
        assert_eq!(keys(b"b", b"c", Direction::Forward, 9), [b"b\x00".to_vec(), b"b\xff".to_vec()]);
        assert_eq!(keys(b"a", b"d", Direction::Reverse, 2), [b"c".to_vec(), b"b\xff".to_vec()]);
        assert_eq!(keys(b"a", b"d", Direction::Forward, 0), Vec::<Vec<u8>>::new());
        assert_eq!(keys(b"c", b"a", Direction::Forward, 9), Vec::<Vec<u8>>::new());
    }
}

// sled moves values above 4 KiB or so into files that it never syncs; a packet there would be lost.
#[test]
fn large_values_come_back_whole_and_leave_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    for store in stores(dir.path()) {
        for size in [0, 1, 4081, 4082, 4083, 10_000, 131_072, 1 << 20] {
            let large: Vec<u8> = (0..size).map(|n| u8::try_from(n % 251).unwrap()).collect();
            commit(&store, put(&[(b"k", &large), (b"other", b"x")]));
            assert_eq!(value(&store, b"k").as_deref(), Some(large.as_slice()), "{size} bytes");
        }
        commit(&store, put(&[(b"k", b"small")]));
        assert_eq!(value(&store, b"k").as_deref(), Some(b"small".as_slice()));
        let batch = Batch { delete: vec![b"k".to_vec()], ..Batch::default() };
        commit(&store, batch);
        assert_eq!(store.scan(b"a", b"z", Direction::Forward, 9).unwrap().len(), 1);
    }
    let blobs = dir.path().join("db/blobs");
    assert!(!blobs.exists() || std::fs::read_dir(blobs).unwrap().next().is_none());
    // The tally of all records is checked at the next open: a chunk that stayed would show.
    SledStore::open(dir.path(), CACHE_BYTES_DEFAULT).expect("opens again");
}

// Limits are told before anything is written.
#[test]
fn what_passes_a_limit_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for store in stores(dir.path()) {
        let long = vec![b'k'; 513];
        for batch in [put(&[(b"", b"1")]), put(&[(&long, b"1")])] {
            let refused = store.commit(batch, &mut |_| panic!("nothing is applied"));
            assert!(matches!(refused, Err(StoreError::EmptyKey | StoreError::TooLarge { .. })));
        }
        assert_eq!(store.position(), Position(0));
    }
}

// Two processes on the same files destroy both.
#[test]
fn a_second_opener_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(dir.path(), CACHE_BYTES_DEFAULT).expect("opens");
    let second = SledStore::open(dir.path(), CACHE_BYTES_DEFAULT).err();
    assert!(matches!(second, Some(StoreError::InUse { .. })), "{second:?}");
    commit(&store, put(&[(b"a", b"1")]));
    drop(store);
    let store = SledStore::open(dir.path(), CACHE_BYTES_DEFAULT).expect("opens after the first");
    assert_eq!(value(&store, b"a").as_deref(), Some(b"1".as_slice()));
}

/// A store with `groups` acknowledged groups, closed in order or left as after a crash.
fn filled(dir: &Path, groups: u32, orderly: bool) {
    let store = SledStore::open(dir, CACHE_BYTES_DEFAULT).expect("opens");
    for n in 0..groups {
        commit(&store, put(&[(format!("k{n}").as_bytes(), &[7; 600])]));
    }
    store.close().expect("closes");
    if !orderly {
        std::fs::remove_file(dir.join("clean")).unwrap();
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), &to).unwrap();
        }
    }
}

fn refusal(dir: &Path) -> String {
    match SledStore::open(dir, CACHE_BYTES_DEFAULT) {
        Ok(_) => panic!("should be refused"),
        Err(error) => error.to_string(),
    }
}

// sled opens a log whose end is gone without a word; acknowledged work would be lost in silence.
#[test]
fn a_lost_tail_is_told_with_the_lost_groups() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path(), 200, false);
    let log = dir.path().join("db/db");
    for name in std::fs::read_dir(dir.path().join("db")).unwrap() {
        let path = name.unwrap().path();
        if path.file_name().unwrap().to_str().unwrap().starts_with("snap.") {
            std::fs::remove_file(path).unwrap();
        }
    }
    let bytes = std::fs::read(&log).unwrap();
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    let cut = last - 30_000;
    let garbled: Vec<u8> =
        bytes.iter().enumerate().map(|(n, b)| if n > cut { 0xa5 } else { *b }).collect();
    std::fs::write(&log, garbled).unwrap();
    // The journal has the groups, and brings them back. Without it they are told.
    let healed = tempfile::tempdir().unwrap();
    copy(dir.path(), healed.path());
    let store = SledStore::open(healed.path(), CACHE_BYTES_DEFAULT).expect("opens");
    for n in 0..200 {
        assert_eq!(value(&store, format!("k{n}").as_bytes()), Some(vec![7; 600]), "k{n}");
    }
    for name in ["journal-0", "journal-1"] {
        std::fs::remove_file(dir.path().join(name)).unwrap();
    }
    let told = refusal(dir.path());
    assert!(told.contains("damaged"), "{told}");
    // What was there before the start is kept aside, since sled zeroes what it cannot read.
    let kept = std::fs::read_dir(dir.path()).unwrap().flatten();
    assert!(kept.into_iter().any(|e| e.file_name().to_str().unwrap().starts_with("aside-")));
}

// A witness that is gone or changed must not pass as "nothing was acknowledged".
#[test]
fn a_missing_or_changed_witness_is_told() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path(), 3, true);
    let witness = dir.path().join("witness");
    let bytes = std::fs::read(&witness).unwrap();
    std::fs::remove_file(&witness).unwrap();
    assert!(refusal(dir.path()).contains("witness is missing"));
    let mut flipped = bytes.clone();
    for at in [20, 4096 + 20] {
        flipped[at] ^= 1;
    }
    std::fs::write(&witness, flipped).unwrap();
    assert!(refusal(dir.path()).contains("neither slot"));
    std::fs::write(&witness, bytes).unwrap();
    SledStore::open(dir.path(), CACHE_BYTES_DEFAULT).expect("opens with its witness");
}

// A directory that was in use and has nothing left is not a new one: whoever starts on it would
// serve an empty store in place of everything.
#[test]
fn a_store_whose_files_are_gone_is_not_begun_anew() {
    for keep in [&["format", "clean"][..], &["format"], &["clean"]] {
        let dir = tempfile::tempdir().unwrap();
        filled(dir.path(), 3, true);
        for entry in std::fs::read_dir(dir.path()).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            if entry.path().is_dir() {
                std::fs::remove_dir_all(entry.path()).unwrap();
            } else if !keep.contains(&name.as_str()) {
                std::fs::remove_file(entry.path()).unwrap();
            }
        }
        for _ in 0..2 {
            let told = refusal(dir.path());
            assert!(told.contains("witness is missing") || told.contains("no format"), "{told}");
        }
    }
}

// A first start that was killed has acknowledged nothing; the next one must not refuse it for ever.
#[test]
fn a_first_start_that_did_not_end_is_begun_again() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path(), 0, false);
    std::fs::remove_file(dir.path().join("format")).unwrap();
    let store = SledStore::open(dir.path(), CACHE_BYTES_DEFAULT).expect("opens");
    drop(store);
    for name in ["format", "clean", "witness"] {
        std::fs::remove_file(dir.path().join(name)).unwrap();
    }
    let store = SledStore::open(dir.path(), CACHE_BYTES_DEFAULT).expect("opens again");
    commit(&store, put(&[(b"a", b"1")]));
}

// Data of another version must not be read by guess.
#[test]
fn an_unknown_format_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path(), 1, true);
    std::fs::write(dir.path().join("format"), "baton-store 2\n").unwrap();
    assert!(refusal(dir.path()).contains("baton-store 2"));
    std::fs::remove_file(dir.path().join("format")).unwrap();
    assert!(refusal(dir.path()).contains("no format file"));
}

// sled takes a snapshot that it had not finished for the newest and never opens again.
#[test]
fn an_unfinished_snapshot_does_not_lock_the_store() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path(), 5, false);
    let leftover = dir.path().join("db/snap.0000000000ffffff.generating");
    std::fs::write(&leftover, b"half").unwrap();
    let store = SledStore::open(dir.path(), CACHE_BYTES_DEFAULT).expect("opens");
    assert_eq!(store.position(), Position(5));
    assert!(!leftover.exists());
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u16),
    /// Entries of one of three series.
    Append(u8, u16),
    Delete(u8),
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..12_u8, 0..9000_u16).prop_map(|(k, n)| Step::Put(k, n)),
        6 => (20..23_u8, 0..3000_u16).prop_map(|(s, n)| Step::Append(s, n)),
        2 => (0..12_u8).prop_map(Step::Delete),
        1 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    // The store on disk must not differ from the model in anything that a reader can see.
    #[test]
    fn the_store_on_disk_is_the_model(steps in proptest::collection::vec(step(), 1..40)) {
        let dir = tempfile::tempdir().unwrap();
        let model = MemoryStore::new();
        let mut disk = SledStore::open(dir.path(), CACHE_BYTES_DEFAULT).unwrap();
        let (mut number, mut appended) = (0_u64, vec![]);
        for step in steps {
            let batch = match step {
                Step::Reopen => {
                    drop(disk);
                    disk = SledStore::open(dir.path(), CACHE_BYTES_DEFAULT).unwrap();
                    continue;
                }
                Step::Put(key, size) => {
                    let entry = (vec![key], vec![key; usize::from(size)]);
                    match model.get(&[key]).unwrap() {
                        Some(_) => Batch { put: vec![entry], ..Batch::default() },
                        None => Batch { add: vec![entry], ..Batch::default() },
                    }
                }
                Step::Append(series, size) => {
                    number += 1 + u64::from(size % 3);
                    let key = [&[series][..], &number.to_be_bytes()].concat();
                    appended.push(key.clone());
                    let entry = (key, vec![series; usize::from(size)]);
                    Batch { append: vec![entry], ..Batch::default() }
                }
                Step::Delete(key) => Batch { delete: vec![vec![key]], ..Batch::default() },
            };
            prop_assert_eq!(commit(&model, batch.clone()), commit(&disk, batch));
            let all = |store: &dyn Fn() -> Vec<(Vec<u8>, baton::store::Stored)>| store();
            let of_model = all(&|| model.scan(&[0], &[255], Direction::Forward, 99).unwrap());
            let of_disk = all(&|| disk.scan(&[0], &[255], Direction::Forward, 99).unwrap());
            prop_assert_eq!(of_model, of_disk);
            for key in &appended {
                prop_assert_eq!(model.get(key), disk.get(key));
                let after = [key, &b"\0"[..]].concat();
                for missing in [&after, &[&key[..8], &[key[8] ^ 1]].concat()] {
                    prop_assert_eq!(model.get(missing), disk.get(missing));
                }
                for direction in [Direction::Forward, Direction::Reverse] {
                    for (from, to) in [(key, &vec![255]), (&vec![0], key), (key, &after)] {
                        let of_model = model.scan(from, to, direction, 3);
                        let of_disk = disk.scan(from, to, direction, 3);
                        prop_assert_eq!(of_model, of_disk);
                    }
                }
            }
        }
    }
}
