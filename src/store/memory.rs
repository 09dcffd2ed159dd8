//! The store in memory: the model that every other store is compared with.
//!
//! Lives here: the semantics of [`Store`] in their plainest form. Nothing survives the process,
//! and the store says so.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

use super::{
    Batch, Direction, Durability, Key, Operation, Position, Store, StoreError, Stored, holds,
};

/// A volatile store. See [`Store`] for what its methods promise.
#[derive(Default)]
pub struct MemoryStore {
    /// Held for a whole commit, so that `applied` runs in order and may still read the values.
    committing: Mutex<()>,
    values: RwLock<BTreeMap<Key, Stored>>,
    position: AtomicU64,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Store for MemoryStore {
    fn durability(&self) -> Durability {
        Durability::Volatile
    }

    fn position(&self) -> Position {
        Position(self.position.load(Ordering::Acquire))
    }

    fn get(&self, key: &[u8]) -> Result<Option<Stored>, StoreError> {
        let values = self.values.read().unwrap_or_else(PoisonError::into_inner);
        Ok(values.get(key).cloned())
    }

    fn scan(
        &self,
        from: &[u8],
        to: &[u8],
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<(Key, Stored)>, StoreError> {
        if from >= to {
            return Ok(Vec::new());
        }
        let values = self.values.read().unwrap_or_else(PoisonError::into_inner);
        let range = values
            .range::<[u8], _>((std::ops::Bound::Included(from), std::ops::Bound::Excluded(to)));
        let copy = |(key, stored): (&Key, &Stored)| (key.clone(), stored.clone());
        Ok(match direction {
            Direction::Forward => range.take(limit).map(copy).collect(),
            Direction::Reverse => range.rev().take(limit).map(copy).collect(),
        })
    }

    fn commit(
        &self,
        batch: Batch,
        applied: &mut dyn FnMut(Position),
    ) -> Result<Position, StoreError> {
        let (expect, operations) = batch.into_operations()?;
        let Ok(_committing) = self.committing.lock() else {
            return Err(StoreError::Stopped { cause: "a commit panicked".to_owned() });
        };
        let position = Position(self.position.load(Ordering::Acquire).saturating_add(1));
        {
            let mut values = self.values.write().unwrap_or_else(PoisonError::into_inner);
            for (key, expect) in expect {
                if !holds(expect, values.get(&key).map(|stored| stored.position)) {
                    return Err(StoreError::Conflict { key });
                }
            }
            for (key, operation) in operations {
                match operation {
                    Operation::Put(value) | Operation::Add(value) | Operation::Append(value) => {
                        values.insert(key, Stored { position, value })
                    }
                    Operation::Delete => values.remove(&key),
                };
            }
        }
        applied(position);
        self.position.store(position.0, Ordering::Release);
        Ok(position)
    }
}
