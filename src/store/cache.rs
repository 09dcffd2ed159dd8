//! A bounded cache that forgets the least recently used half at a time.
//!
//! Invariant: at most `2 * half` entries are held; there is no unbounded growth and no per-entry
//! list.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

/// The cache. Entries that are used move to the young half; when that is full, the old half goes.
#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    half: usize,
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K: Eq + Hash + Clone, V> Cache<K, V> {
    pub(crate) fn new(half: usize) -> Self {
        Self { half, young: HashMap::new(), old: HashMap::new() }
    }

    pub(crate) fn get(&mut self, key: &K) -> Option<&mut V> {
        if !self.young.contains_key(key) {
            let value = self.old.remove(key)?;
            self.insert(key.clone(), value);
        }
        self.young.get_mut(key)
    }

    /// As [`Cache::get`] by a borrowed form of the key, and without moving it to the young half.
    pub(crate) fn get_by<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    /// Takes the value out; whoever takes it puts it back.
    pub(crate) fn take(&mut self, key: &K) -> Option<V> {
        self.young.remove(key).or_else(|| self.old.remove(key))
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.half {
            // Both keep the room that they have, since they will need it again.
            std::mem::swap(&mut self.old, &mut self.young);
            self.young.clear();
        }
        self.old.remove(&key);
        self.young.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::Cache;

    // A cache that grows with the number of tasks would end the broker's memory.
    #[test]
    fn it_stays_bounded_and_keeps_what_is_used() {
        let mut cache = Cache::new(8);
        cache.insert(0, 0);
        for key in 1..1000 {
            cache.insert(key, key);
            assert!(cache.get(&0).is_some(), "used at every step, forgotten at {key}");
            assert!(cache.young.len() + cache.old.len() <= 16);
        }
        assert!(cache.get(&1).is_none());
    }
}
