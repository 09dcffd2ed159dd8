//! A store with a fault planted in it.
//!
//! Lives here: the two ways in which a commit can fail without an answer that could be trusted.
//! It is for tests of what stands above the store; nothing plants a fault outside of tests.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{Batch, Direction, Durability, Key, Position, Store, StoreError, Stored};

/// Where in the commit the disk fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is written, and `applied` is not called.
    BeforeApply,
    /// The batch is written and `applied` was called, but the caller is told of an error.
    AfterApply,
}

/// Passes everything on to `S` until the n-th commit, which fails with `Io`; every commit after
/// it is `Stopped`, as with a real store.
pub struct FaultStore<S> {
    inner: S,
    fault: Fault,
    state: Mutex<State>,
    position: AtomicU64,
}

struct State {
    /// Commits until the fault, that one included; 0 once it has happened.
    left: u64,
}

impl<S: Store> FaultStore<S> {
    /// Fails at commit number `nth` from now (1 is the next; 0 counts as 1). Commits that are
    /// refused by `inner`, such as conflicts, are not counted.
    pub fn new(inner: S, nth: u64, fault: Fault) -> Self {
        let position = AtomicU64::new(inner.position().0);
        Self { inner, fault, state: Mutex::new(State { left: nth.max(1) }), position }
    }

    /// The store beneath, as a restart would find it.
    pub fn into_inner(self) -> S {
        self.inner
    }

    fn failure() -> StoreError {
        StoreError::Io { path: PathBuf::from("fault"), text: "planted fault".to_owned() }
    }
}

impl<S: Store> Store for FaultStore<S> {
    fn durability(&self) -> Durability {
        self.inner.durability()
    }

    fn position(&self) -> Position {
        Position(self.position.load(Ordering::Acquire))
    }

    fn get(&self, key: &[u8]) -> Result<Option<Stored>, StoreError> {
        self.inner.get(key)
    }

    fn scan(
        &self,
        from: &[u8],
        to: &[u8],
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<(Key, Stored)>, StoreError> {
        self.inner.scan(from, to, direction, limit)
    }

    fn commit(
        &self,
        batch: Batch,
        applied: &mut dyn FnMut(Position),
    ) -> Result<Position, StoreError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match (state.left, self.fault) {
            (0, _) => Err(StoreError::Stopped { cause: Self::failure().to_string() }),
            (1, Fault::BeforeApply) => {
                state.left = 0;
                Err(Self::failure())
            }
            (1, Fault::AfterApply) => {
                self.inner.commit(batch, applied)?;
                state.left = 0;
                Err(Self::failure())
            }
            _ => {
                let position = self.inner.commit(batch, applied)?;
                state.left -= 1;
                self.position.store(position.0, Ordering::Release);
                Ok(position)
            }
        }
    }
}
