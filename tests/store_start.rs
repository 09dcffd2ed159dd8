//! What a start of the store does with what a crash, a kill or a bad disk has left.

// A test stops at the first surprise.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use baton::store::{
    Batch, CACHE_BYTES_DEFAULT, Direction, Expect, Fault, FaultStore, MemoryStore, Position,
    SledStore, Store, StoreError,
};
use proptest::prelude::*;

/// The directory on which a child of this test works; without it the child's test does nothing.
const CHILD_DIR: &str = "BATON_TEST_STORE_DIR";

/// Kills; each at another number of acknowledgements.
const ROUNDS: u64 = 20;

fn open(dir: &Path) -> Result<SledStore, StoreError> {
    SledStore::open(dir, CACHE_BYTES_DEFAULT)
}

/// The values of group `n`: two small ones that change together, one new, one of several parts.
fn group(n: u64) -> Batch {
    let text = n.to_string().into_bytes();
    let large = text.iter().copied().cycle().take(9000).collect();
    Batch {
        put: vec![
            (b"left".to_vec(), text.clone()),
            (b"right".to_vec(), text.clone()),
            (format!("group/{n:08}").into_bytes(), text),
            (b"large".to_vec(), large),
        ],
        ..Batch::default()
    }
}

fn commit(store: &impl Store) -> Position {
    let n = store.position().0 + 1;
    store.commit(group(n), &mut |_| {}).expect("commits")
}

/// Every group up to the store's position is there, and none in part.
fn check(store: &SledStore) {
    let n = store.position().0;
    let groups = store.scan(b"group/", b"group0", Direction::Forward, usize::MAX).unwrap();
    assert_eq!(groups.len() as u64, n);
    for (at, (_, stored)) in (1..).zip(groups) {
        assert_eq!((stored.position, stored.value), (Position(at), at.to_string().into_bytes()));
    }
    if n > 0 {
        for (key, value) in group(n).put {
            assert_eq!(store.get(&key).unwrap().expect("is there").value, value);
        }
    }
}

/// A store with `groups` groups, as a killed process leaves it: a half of them is in sled, the rest
/// in the journal alone.
fn killed(dir: &Path, groups: u64) {
    let alive = tempfile::tempdir().unwrap();
    let store = open(alive.path()).expect("opens");
    for _ in 0..groups / 2 {
        commit(&store);
    }
    store.close().expect("closes");
    drop(store);
    // sled writes a snapshot only on opening.
    let store = open(alive.path()).expect("opens");
    for _ in groups / 2..groups {
        commit(&store);
    }
    copy(alive.path(), dir);
}

// A kill leaves sled behind what was acknowledged; the journal must bring it back, at every start
// until one has ended.
#[test]
fn what_only_the_journal_has_is_there_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    killed(dir.path(), 60);
    let again = tempfile::tempdir().unwrap();
    copy(dir.path(), again.path());
    std::fs::remove_dir_all(dir.path().join("db")).unwrap();
    std::fs::create_dir(dir.path().join("db")).unwrap();
    let store = open(again.path()).expect("opens");
    assert_eq!(store.position(), Position(60));
    check(&store);
    commit(&store);
    check(&store);
    drop(store);
    check(&open(again.path()).expect("opens"));
    // The first half was only in sled.
    let told = refusal(dir.path());
    assert!(told.contains("not linked") || told.contains("lost"), "{told}");
}

/// Flips a bit in the n-th group of the journal's younger file. A group of [`group`] takes three
/// blocks, behind the file's own.
fn damage_journal(dir: &Path, n: usize) {
    let number = |bytes: &[u8]| {
        let number = bytes.get(4096 + 16..4096 + 24).map(|b| b.try_into().unwrap());
        number.map_or(0, u64::from_be_bytes)
    };
    let files = ["journal-0", "journal-1"].map(|name| dir.join(name));
    let path = files.iter().max_by_key(|path| number(&std::fs::read(path).unwrap())).unwrap();
    let mut bytes = std::fs::read(path).unwrap();
    bytes[4096 + n * 3 * 4096 + 5000] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

// A group behind which another one stands was acknowledged, and so was one that the witness saw.
// Neither may pass for one that was cut off while it was written.
#[test]
fn a_damaged_group_in_the_journal_is_told() {
    for (n, told_as) in [(10, "cannot be read"), (29, "are lost")] {
        let dir = tempfile::tempdir().unwrap();
        killed(dir.path(), 60);
        damage_journal(dir.path(), n);
        for _ in 0..2 {
            let told = refusal(dir.path());
            assert!(told.contains(told_as), "{told}");
        }
    }
}

// A power loss in the middle of a write leaves half of a group that nobody was told of.
#[test]
fn a_torn_group_that_was_not_acknowledged_is_none() {
    let alive = tempfile::tempdir().unwrap();
    let store = open(alive.path()).unwrap();
    for _ in 0..9 {
        commit(&store);
    }
    let witness = std::fs::read(alive.path().join("witness")).unwrap();
    commit(&store);
    let dir = tempfile::tempdir().unwrap();
    copy(alive.path(), dir.path());
    std::fs::write(dir.path().join("witness"), witness).unwrap();
    damage_journal(dir.path(), 9);
    let store = open(dir.path()).expect("opens");
    assert_eq!(store.position(), Position(9));
    check(&store);
    commit(&store);
    drop(store);
    check(&open(dir.path()).expect("opens"));
}

fn refusal(dir: &Path) -> String {
    match open(dir) {
        Ok(store) => panic!("opened at group {}", store.position()),
        Err(error) => error.to_string(),
    }
}

fn names(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn asides(dir: &Path) -> Vec<PathBuf> {
    let is_aside = |p: &PathBuf| p.file_name().unwrap().to_str().unwrap().starts_with("aside-");
    names(dir).into_iter().filter(is_aside).collect()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for path in names(from) {
        let to = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &to);
        } else {
            std::fs::copy(&path, &to).unwrap();
        }
    }
}

/// Cuts sled's log, and the snapshot that points behind the cut.
fn lose_tail(dir: &Path, bytes: usize) -> Vec<u8> {
    for path in names(&dir.join("db")) {
        if path.file_name().unwrap().to_str().unwrap().starts_with("snap.") {
            std::fs::remove_file(path).unwrap();
        }
    }
    let log = dir.join("db/db");
    let mut content = std::fs::read(&log).unwrap();
    let end = content.iter().rposition(|byte| *byte != 0).unwrap();
    let start = end.saturating_sub(bytes);
    content[start..=end].fill(0xa5);
    std::fs::write(&log, &content).unwrap();
    content
}

// A supervisor starts a refused broker again and again. sled zeroes what it cannot read, so a copy
// made by a later start holds less; if it replaced the first one, the evidence would be gone.
#[test]
fn refused_starts_keep_the_first_copy() {
    let dir = tempfile::tempdir().unwrap();
    killed(dir.path(), 200);
    let before = lose_tail(dir.path(), 30_000);
    for _ in 0..3 {
        let told = refusal(dir.path());
        assert!(told.contains("damaged") && told.contains("aside-"), "{told}");
        let kept = asides(dir.path());
        assert_eq!(kept.len(), 1, "{kept:?}");
        assert!(std::fs::read(kept[0].join("db")).unwrap() == before, "the copy has changed");
    }
}

// A copy that a crash has interrupted is no copy.
#[test]
fn an_unfinished_copy_is_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    killed(dir.path(), 3);
    let partial = dir.path().join("aside-1.partial");
    std::fs::create_dir(&partial).unwrap();
    std::fs::write(partial.join("db"), b"half").unwrap();
    let store = open(dir.path()).expect("opens");
    check(&store);
    assert_eq!(asides(dir.path()), Vec::<PathBuf>::new());
}

// Data and witness put back together from an older time look whole; only the mark of the last stop
// shows it. A second start must not take it for good because the first has eaten the mark.
#[test]
fn a_refusal_after_an_orderly_stop_stays_one() {
    let dir = tempfile::tempdir().unwrap();
    let old = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    commit(&store);
    store.close().unwrap();
    drop(store);
    copy(dir.path(), old.path());
    let store = open(dir.path()).unwrap();
    commit(&store);
    store.close().unwrap();
    drop(store);
    std::fs::remove_dir_all(dir.path().join("db")).unwrap();
    copy(&old.path().join("db"), &dir.path().join("db"));
    std::fs::copy(old.path().join("witness"), dir.path().join("witness")).unwrap();
    for _ in 0..3 {
        let told = refusal(dir.path());
        assert!(told.contains("the last orderly stop"), "{told}");
    }
}

// A panic above the store must not leave a store that refuses its own data.
#[test]
fn a_panic_between_write_and_sync_is_an_unclean_stop() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    commit(&store);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        store.commit(group(2), &mut |_| panic!("planted")).map(|_| ())
    }));
    assert!(panicked.is_err());
    assert!(matches!(store.commit(group(3), &mut |_| {}), Err(StoreError::Stopped { .. })));
    assert_eq!(store.position(), Position(1));
    drop(store);
    assert!(!dir.path().join("clean").exists());
    check(&open(dir.path()).expect("opens"));
}

// Two deciders that saw different states cannot both be right.
#[test]
fn contradicting_expectations_are_a_conflict() {
    let dir = tempfile::tempdir().unwrap();
    let disk = open(dir.path()).unwrap();
    let model = MemoryStore::new();
    let both = |batch: Batch| {
        let on_disk = disk.commit(batch.clone(), &mut |_| {});
        assert_eq!(model.commit(batch, &mut |_| {}), on_disk);
        on_disk
    };
    both(group(1)).expect("commits");
    for touched in [vec![], vec![(b"left".to_vec(), b"x".to_vec())]] {
        for order in
            [[Expect::Absent, Expect::At(Position(1))], [Expect::At(Position(1)), Expect::Absent]]
        {
            let expect = order.map(|expect| (b"left".to_vec(), expect)).to_vec();
            let refused = both(Batch { expect, put: touched.clone(), ..Batch::default() });
            assert_eq!(refused, Err(StoreError::Conflict { key: b"left".to_vec() }));
        }
    }
}

// What stands above is tested with planted faults; they have to fail as a real store does.
#[test]
fn a_planted_fault_fails_once_and_stops_the_store() {
    for (fault, found) in [(Fault::BeforeApply, 1), (Fault::AfterApply, 2)] {
        let store = FaultStore::new(MemoryStore::new(), 2, fault);
        commit(&store);
        let mut applied = 0;
        let failed = store.commit(group(2), &mut |_| applied += 1);
        assert!(matches!(failed, Err(StoreError::Io { .. })), "{failed:?}");
        assert_eq!((applied, store.position()), (found - 1, Position(1)));
        let after = store.commit(group(3), &mut |_| {});
        assert!(matches!(after, Err(StoreError::Stopped { .. })), "{after:?}");
        assert_eq!(store.into_inner().position(), Position(found));
    }
}

/// The other process of the tests below: commits and tells each acknowledgement, until killed.
#[test]
fn child() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else { return };
    let store = match open(Path::new(&dir)) {
        Ok(store) => store,
        Err(error) => return println!("\nrefused {error}"),
    };
    loop {
        let position = commit(&store);
        // A closed pipe is the end of the test that listened.
        let told = writeln!(std::io::stdout(), "\nack {position}");
        if told.and_then(|()| std::io::stdout().flush()).is_err() {
            return;
        }
    }
}

fn spawn(dir: &Path) -> (Child, impl Iterator<Item = String>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(CHILD_DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, lines.map_while(Result::ok))
}

// Two processes on the same files destroy both.
#[test]
fn a_second_process_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    commit(&store);
    let (mut child, mut lines) = spawn(dir.path());
    let told = lines.find(|line| line.starts_with("refused ") || line.starts_with("ack "));
    let _ = child.kill();
    child.wait().unwrap();
    assert!(told.as_deref().is_some_and(|line| line.contains("in use")), "{told:?}");
    commit(&store);
    check(&store);
}

// An acknowledged group that a kill takes back is a lost handoff; half of one is a torn task.
#[test] // REQ-042
fn a_killed_process_loses_no_acknowledged_group() {
    let dir = tempfile::tempdir().unwrap();
    let mut last = 0;
    for round in 0..ROUNDS {
        let (mut child, mut lines) = spawn(dir.path());
        let mut acks = lines.by_ref().filter_map(|l| l.strip_prefix("ack ")?.parse::<u64>().ok());
        for _ in 0..=round * 3 {
            last = acks.next().expect("acknowledges");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // Acknowledged, too, was what had reached the pipe and was not read before the kill.
        let last = acks.last().unwrap_or(last);
        let store = open(dir.path()).expect("opens");
        assert!((last..=last + 1).contains(&store.position().0), "{last} {}", store.position());
        check(&store);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    // sled takes most damage for the end of its log, or panics. Either all that was acknowledged
    // is there, or the start is refused: nothing in between, and no panic.
    #[test]
    fn damage_is_refused_or_does_no_harm(
        file in prop::sample::select(vec![
            "db/db",
            "witness",
            "db/conf",
            "snap",
            "journal-0",
            "journal-1",
            "format",
        ]),
        places in prop::collection::vec((any::<prop::sample::Index>(), 1..=255_u8), 1..4),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let dir = tempfile::tempdir().unwrap();
        killed(dir.path(), 40);
        let is_snapshot = |path: &PathBuf| path.to_str().unwrap().contains("/snap.");
        let path = match file {
            "snap" => names(&dir.path().join("db")).into_iter().find(is_snapshot).unwrap(),
            name => dir.path().join(name),
        };
        let mut bytes = std::fs::read(&path).unwrap();
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(1, |last| last + 1);
        for (place, flip) in places {
            bytes[place.index(used)] ^= flip;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(used));
        }
        std::fs::write(&path, bytes).unwrap();
        match open(dir.path()) {
            Ok(store) => {
                prop_assert_eq!(store.position(), Position(40));
                check(&store);
            }
            Err(error) => prop_assert!(matches!(
                error,
                StoreError::Corrupt { .. } | StoreError::Io { .. }
                    | StoreError::UnknownFormat { .. }
            ), "{:?}", error),
        }
    }
}
