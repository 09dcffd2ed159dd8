//! What is committed and not yet in sled.
//!
//! Lives here: the changes since the last checkpoint, one a key, and reading through them. What
//! does not: writing them to sled (`checkpoint`). Invariant: of a key that changed often only the
//! last value is kept, so that sled writes it once.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::iter::Peekable;
use std::ops::Bound;
use std::sync::Arc;

use super::{Direction, Key, Operation, Operations, Position};

/// The last change of a key.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) position: Position,
    /// As sled has to carry it out: `Add` if sled has nothing under the key.
    pub(super) operation: Operation,
}

/// Changes that go to sled together.
#[derive(Debug, Default)]
pub(super) struct Layer {
    changes: BTreeMap<Key, Change>,
    bytes: usize,
}

impl Layer {
    /// Takes over the operations of a group that is younger than all before it.
    pub(super) fn absorb(&mut self, position: Position, operations: Operations) {
        for (key, operation) in operations {
            self.bytes = self.bytes.saturating_add(weight(&key, &operation));
            match self.changes.entry(key) {
                Entry::Vacant(vacant) => {
                    vacant.insert(Change { position, operation });
                }
                Entry::Occupied(mut present) => {
                    let before = weight(present.key(), &present.get().operation);
                    self.bytes = self.bytes.saturating_sub(before);
                    match follow(&present.get().operation, operation) {
                        Some(operation) => {
                            present.insert(Change { position, operation });
                        }
                        None => {
                            let (key, _) = present.remove_entry();
                            self.bytes =
                                self.bytes.saturating_sub(weight(&key, &Operation::Delete));
                        }
                    }
                }
            }
        }
    }

    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The changes in the order of their keys.
    pub(super) fn changes(&self) -> impl ExactSizeIterator<Item = (&Key, &Change)> {
        self.changes.iter()
    }
}

fn weight(key: &[u8], operation: &Operation) -> usize {
    key.len().saturating_add(operation.value().map_or(0, <[u8]>::len))
}

/// What sled has to do for two changes of one key; nothing if the second takes back what sled never
/// saw.
fn follow(first: &Operation, second: Operation) -> Option<Operation> {
    match (first, second) {
        (Operation::Add(_), Operation::Delete) => None,
        (Operation::Add(_), Operation::Put(value)) => Some(Operation::Add(value)),
        // Sled still has what the first one removed.
        (Operation::Delete | Operation::Put(_), Operation::Add(value)) => {
            Some(Operation::Put(value))
        }
        (_, second) => Some(second),
    }
}

/// The layer that commits write to, and the one that is on its way into sled.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    pub(super) active: Layer,
    pub(super) frozen: Option<Arc<Layer>>,
}

impl Overlay {
    /// The last change of a key that sled may not have yet.
    pub(super) fn get(&self, key: &[u8]) -> Option<&Change> {
        let frozen = || self.frozen.as_ref().and_then(|layer| layer.changes.get(key));
        self.active.changes.get(key).or_else(frozen)
    }

    /// The last changes in `[from, to)`, in order.
    pub(super) fn range<'a>(
        &'a self,
        from: &'a [u8],
        to: &'a [u8],
        direction: Direction,
    ) -> Merged<'a> {
        let in_range = |layer: &'a Layer| -> Boxed<'a> {
            let range =
                layer.changes.range::<[u8], _>((Bound::Included(from), Bound::Excluded(to)));
            match direction {
                Direction::Forward => Box::new(range),
                Direction::Reverse => Box::new(range.rev()),
            }
        };
        let frozen: Boxed<'a> = match &self.frozen {
            Some(layer) => in_range(layer),
            None => Box::new(std::iter::empty()),
        };
        Merged { young: in_range(&self.active).peekable(), old: frozen.peekable(), direction }
    }
}

type Boxed<'a> = Box<dyn Iterator<Item = (&'a Key, &'a Change)> + 'a>;

/// Two layers as one; of a key that is in both, the younger change.
pub(super) struct Merged<'a> {
    young: Peekable<Boxed<'a>>,
    old: Peekable<Boxed<'a>>,
    direction: Direction,
}

impl<'a> Iterator for Merged<'a> {
    type Item = (&'a Key, &'a Change);

    fn next(&mut self) -> Option<Self::Item> {
        match (self.young.peek(), self.old.peek()) {
            (Some((young, _)), Some((old, _))) if young == old => {
                self.old.next();
                self.young.next()
            }
            (Some((young, _)), Some((old, _))) if self.direction.is_before(old, young) => {
                self.old.next()
            }
            (Some(_), _) => self.young.next(),
            (None, _) => self.old.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::{Layer, Overlay};
    use crate::store::{Direction, Operation, Position};

    fn value(overlay: &Overlay, key: &[u8]) -> Option<Option<Vec<u8>>> {
        overlay.get(key).map(|change| change.operation.value().map(<[u8]>::to_vec))
    }

    proptest! {
        // A change that is lost between two layers is an acknowledged group in part.
        #[test]
        fn it_is_the_last_change_of_every_key(
            steps in prop::collection::vec((0..6_u8, 0..4_u8), 1..60),
            freeze in 0..60_usize,
        ) {
            let mut overlay = Overlay::default();
            let mut below: BTreeMap<u8, u8> = BTreeMap::from([(0, 9), (1, 9)]);
            let mut model = below.clone();
            for (n, (key, what)) in steps.iter().enumerate() {
                if n == freeze {
                    let frozen = std::mem::take(&mut overlay.active);
                    overlay.frozen = Some(Arc::new(frozen));
                }
                let operation = match (what, model.contains_key(key)) {
                    (0, _) => Operation::Delete,
                    (_, true) => Operation::Put(vec![*what]),
                    (_, false) => Operation::Add(vec![*what]),
                };
                match operation.value() {
                    Some(_) => model.insert(*key, *what),
                    None => model.remove(key),
                };
                let position = Position(n as u64 + 1);
                overlay.active.absorb(position, BTreeMap::from([(vec![*key], operation)]));
            }
            for direction in [Direction::Forward, Direction::Reverse] {
                let keys: Vec<_> = overlay.range(&[0], &[9], direction).map(|(k, _)| k).collect();
                let mut sorted = keys.clone();
                sorted.sort();
                sorted.dedup();
                if direction == Direction::Reverse {
                    sorted.reverse();
                }
                prop_assert_eq!(keys, sorted);
            }
            for key in 0..6 {
                let seen = value(&overlay, &[key]);
                let seen = seen.unwrap_or_else(|| below.get(&key).map(|v| vec![*v]));
                prop_assert_eq!(seen, model.get(&key).map(|v| vec![*v]));
            }
            // What the layers tell sled to do leads there as well, and adds only what is new.
            let layers = overlay.frozen.take().into_iter().chain([Arc::new(overlay.active)]);
            for layer in layers {
                for (key, change) in layer.changes() {
                    match &change.operation {
                        Operation::Add(v) | Operation::Append(v) => {
                            prop_assert_eq!(below.insert(key[0], v[0]), None);
                        }
                        Operation::Put(v) => { below.insert(key[0], v[0]); }
                        Operation::Delete => { below.remove(&key[0]); }
                    }
                }
            }
            prop_assert_eq!(below, model);
        }
    }

    // Counted bytes that drift would end checkpoints, or make one of every group.
    #[test]
    fn what_is_taken_back_weighs_nothing() {
        let mut layer = Layer::default();
        let group = |operation| BTreeMap::from([(b"key".to_vec(), operation)]);
        layer.absorb(Position(1), group(Operation::Add(vec![0; 10])));
        assert_eq!(layer.bytes(), 13);
        layer.absorb(Position(2), group(Operation::Put(vec![0; 20])));
        assert_eq!(layer.bytes(), 23);
        layer.absorb(Position(3), group(Operation::Delete));
        assert_eq!((layer.bytes(), layer.changes().len()), (0, 0));
    }
}
