//! `baton doctor`: is the store of a stopped broker whole, and does it say the same everywhere?
//!
//! What lives here: the walk over everything stored, and what it finds. What does not: whether the
//! files are whole, which opening a store finds out (`store`); mending, which nobody does.
//! Invariants: the store itself is not opened, only a copy of it, since opening writes; memory is
//! bounded by one task and its events; whatever cannot be read is a finding and not the end.

mod task;

use std::path::{Path, PathBuf};

use crate::core::id::{Namespace, TaskId};
use crate::store::{
    CACHE_BYTES_DEFAULT, Direction, Key, Position, SledStore, Store, StoreError, Stored, key,
};
use crate::wire::record::{StoredTask, decode_handoff, decode_offer, decode_task};

/// Findings that are told; more are counted.
const FINDINGS_MAX: usize = 100;

/// Values that are read at once.
const PAGE: usize = 256;

/// What a store holds, and what is wrong with it.
#[derive(Debug, Default)]
pub struct Report {
    /// The newest group.
    pub position: Position,
    /// Tasks.
    pub tasks: u64,
    /// Events of all tasks.
    pub events: u64,
    /// Handoffs, open and ended.
    pub handoffs: u64,
    /// Offers that are open.
    pub open_offers: u64,
    /// What does not fit together; the first [`FINDINGS_MAX`].
    pub findings: Vec<String>,
    /// Findings that are not told.
    pub left_out: u64,
}

impl Report {
    fn find(&mut self, what: String) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(what);
        } else {
            self.left_out = self.left_out.saturating_add(1);
        }
    }

    /// True if nothing is wrong.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.findings.is_empty()
    }
}

/// Copies the store in `dir` beside it, opens the copy and looks at everything in it. The copy is
/// removed.
///
/// # Errors
/// The store is in use, cannot be read, or is damaged: as a start of the broker would say.
pub fn examine(dir: &Path) -> Result<Report, StoreError> {
    let copy = Copy::of(dir)?;
    let store = SledStore::open(&copy.0, CACHE_BYTES_DEFAULT)?;
    let report = look(&store)?;
    store.close()?;
    Ok(report)
}

/// The copy of a store, which goes with its owner.
struct Copy(PathBuf);

impl Copy {
    fn of(dir: &Path) -> Result<Self, StoreError> {
        let mut name = dir.as_os_str().to_owned();
        name.push(format!(".doctor-{}", std::process::id()));
        let copy = Self(PathBuf::from(name));
        crate::store::copy_stopped(dir, &copy.0)?;
        Ok(copy)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // What is left behind is named in `docs/store.md`.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Looks at everything in an open store.
///
/// # Errors
/// The store cannot be read.
pub fn look(store: &impl Store) -> Result<Report, StoreError> {
    let mut report = Report { position: store.position(), ..Report::default() };
    each(store, b"t", |at, stored| {
        report.tasks = report.tasks.saturating_add(1);
        match decode_task(&stored.value) {
            Ok(task) => {
                let named = key::task(&task.namespace, &task.task.id) == *at;
                if !named {
                    report.find(format!("task {} stands under another key", task.task.id));
                }
                task::check(store, &task, &mut report)
            }
            Err(error) => {
                report.find(format!("{}: {error}", shown(at)));
                Ok(())
            }
        }
    })?;
    each(store, b"o", |at, stored| open_offer(store, at, stored, &mut report))?;
    each(store, b"w", |at, _| owned(store, at, &mut report))?;
    each(store, b"h", |at, stored| {
        report.handoffs = report.handoffs.saturating_add(1);
        match decode_handoff(&stored.value) {
            Ok((_, handoff, _)) if key::handoff(&handoff.id) == *at => {}
            Ok((_, handoff, _)) => {
                report.find(format!("handoff {} stands under another key", handoff.id));
            }
            Err(error) => report.find(format!("{}: {error}", shown(at))),
        }
        Ok(())
    })?;
    Ok(report)
}

/// Hands every value under a kind of key to `work`.
fn each(
    store: &impl Store,
    kind: &[u8],
    mut work: impl FnMut(&Key, &Stored) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let (mut from, end) = (kind.to_vec(), key::end(kind));
    loop {
        let page = store.scan(&from, &end, Direction::Forward, PAGE)?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        from = last.iter().copied().chain([0]).collect();
        for (at, stored) in &page {
            work(at, stored)?;
        }
    }
}

/// An open offer is listed where its task says, and nowhere else.
fn open_offer(
    store: &impl Store,
    at: &Key,
    stored: &Stored,
    report: &mut Report,
) -> Result<(), StoreError> {
    report.open_offers = report.open_offers.saturating_add(1);
    let (handoff, task) = match decode_offer(&stored.value) {
        Ok(found) => found,
        Err(error) => {
            report.find(format!("{}: {error}", shown(at)));
            return Ok(());
        }
    };
    let namespace = key::names(at).first().and_then(|text| Namespace::parse(text).ok());
    let listed = match namespace {
        Some(namespace) => read_task(store, &namespace, &task)?.is_some_and(|found| {
            let open = found.task.open_handoff();
            open.is_some_and(|open| open.id == handoff) && found.offer_key == *at
        }),
        None => false,
    };
    if !listed {
        report.find(format!("handoff {handoff} is listed as open, and task {task} says otherwise"));
    }
    Ok(())
}

/// A task is listed under its owner while it is open, and under nobody else.
fn owned(store: &impl Store, at: &Key, report: &mut Report) -> Result<(), StoreError> {
    let names = key::names(at);
    let parsed = match names.as_slice() {
        [namespace, owner, task, ..] => {
            Namespace::parse(namespace).ok().zip(TaskId::parse(task).ok()).zip(Some(*owner))
        }
        _ => None,
    };
    let Some(((namespace, id), owner)) = parsed else {
        report.find(format!("{} names no task", shown(at)));
        return Ok(());
    };
    let fits = read_task(store, &namespace, &id)?.is_some_and(|found| {
        found.task.axes.is_open() && found.task.owner.principal.as_str() == owner
    });
    if !fits {
        report.find(format!("task {id} is listed as owned by {owner}, and says otherwise"));
    }
    Ok(())
}

fn read_task(
    store: &impl Store,
    namespace: &Namespace,
    id: &TaskId,
) -> Result<Option<StoredTask>, StoreError> {
    let found = store.get(&key::task(namespace, id))?;
    Ok(found.and_then(|stored| decode_task(&stored.value).ok()))
}

fn shown(key: &[u8]) -> String {
    format!("key {}", key.escape_ascii())
}
