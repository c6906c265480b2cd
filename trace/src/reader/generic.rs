//! Dictionaries and lists of unknown shape, as chains in two flat tables.
//!
//! A hostile file is full of them (`{"a":1},{"a":1},…`). A vector for each would take memory that
//! is not counted, and that the system gets back late.

use super::values::Value;
use crate::footprint::of_vec;
use crate::stacks::StrIdx;

/// Chains of values, each with a key (lists have none).
#[derive(Default)]
pub struct Arena {
    chains: Vec<Chain>,
    links: Vec<Link>,
}

#[derive(Clone, Copy)]
struct Chain {
    first: u32,
    last: u32,
    len: u32,
}

#[derive(Clone, Copy)]
struct Link {
    value: Value,
    key: StrIdx,
    next: u32,
}

/// The end of a chain.
const NONE: u32 = u32::MAX;

impl Arena {
    /// Begins a new, empty chain. The memory limit allows far fewer than 2^32 chains.
    pub fn begin(&mut self) -> u32 {
        self.chains.push(Chain {
            first: NONE,
            last: NONE,
            len: 0,
        });
        (self.chains.len() - 1) as u32
    }

    /// Appends to a chain.
    pub fn push(&mut self, chain: u32, key: StrIdx, value: Value) {
        let at = self.links.len() as u32;
        let chain = &mut self.chains[chain as usize];
        match chain.last {
            NONE => chain.first = at,
            last => self.links[last as usize].next = at,
        }
        chain.last = at;
        chain.len += 1;
        self.links.push(Link {
            value,
            key,
            next: NONE,
        });
    }

    /// Removes the values of a chain if they are the last ones in the table. The chain is then
    /// empty.
    pub fn forget_last(&mut self, chain: u32) {
        let Chain { first, len, .. } = self.chains[chain as usize];
        if first != NONE && first as usize + len as usize == self.links.len() {
            self.links.truncate(first as usize);
            self.chains[chain as usize] = Chain {
                first: NONE,
                last: NONE,
                len: 0,
            };
        }
    }

    /// Number of values in a chain.
    pub fn len(&self, chain: u32) -> usize {
        self.chains[chain as usize].len as usize
    }

    /// Keys and values of a chain, in order.
    pub fn iter(&self, chain: u32) -> impl Iterator<Item = (StrIdx, Value)> + '_ {
        let mut at = self.chains[chain as usize].first;
        std::iter::from_fn(move || {
            let link = *self.links.get(at as usize)?;
            at = link.next;
            Some((link.key, link.value))
        })
    }

    /// Heap bytes that it uses.
    pub fn heap_bytes(&self) -> usize {
        of_vec(&self.chains) + of_vec(&self.links)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_grow_side_by_side() {
        let mut arena = Arena::default();
        let (a, b) = (arena.begin(), arena.begin());
        for n in 0..6_u32 {
            let chain = if n % 2 == 0 { a } else { b };
            arena.push(chain, StrIdx(n), Value::Int(i64::from(n)));
        }
        let keys = |arena: &Arena, chain| arena.iter(chain).map(|(k, _)| k.0).collect::<Vec<_>>();
        assert_eq!(keys(&arena, a), [0, 2, 4]);
        assert_eq!(keys(&arena, b), [1, 3, 5]);
        // Values of the other chain lie between, so nothing is removed.
        arena.forget_last(a);
        assert_eq!((arena.len(a), arena.links.len()), (3, 6));
        let c = arena.begin();
        arena.push(c, StrIdx(9), Value::None);
        arena.forget_last(c);
        assert_eq!((arena.len(c), arena.links.len()), (0, 6));
        assert_eq!(keys(&arena, c), [0_u32; 0]);
    }
}
