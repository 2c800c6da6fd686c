//! The calls that were sent, by the ids of their requests.

use corelane_base::id_map::IdMap;

/// Entries of the list before it becomes a map. Most connections have fewer calls in flight, and an
/// entry of the list costs its own size only.
const LIST_MAX: usize = 8;

/// Calls by the ids of their requests: few in a list, more in a map.
#[derive(Debug)]
pub(super) enum InFlightCalls<C> {
    List(Vec<(u64, C)>),
    Map(IdMap<u64, C>),
}

impl<C> InFlightCalls<C> {
    pub(super) const fn new() -> Self {
        Self::List(Vec::new())
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::List(list) => list.len(),
            Self::Map(map) => map.len(),
        }
    }

    /// Adds a call. No other has its id.
    pub(super) fn insert(&mut self, id: u64, call: C) {
        match self {
            Self::List(list) if list.len() < LIST_MAX => {
                if list.capacity() == 0 {
                    list.reserve_exact(1);
                }
                list.push((id, call));
            }
            Self::List(list) => {
                let mut map: IdMap<u64, C> = list.drain(..).collect();
                map.insert(id, call);
                *self = Self::Map(map);
            }
            Self::Map(map) => drop(map.insert(id, call)),
        }
    }

    pub(super) fn get(&self, id: u64) -> Option<&C> {
        match self {
            Self::List(list) => list.iter().find(|entry| entry.0 == id).map(|entry| &entry.1),
            Self::Map(map) => map.get(&id),
        }
    }

    pub(super) fn get_mut(&mut self, id: u64) -> Option<&mut C> {
        match self {
            Self::List(list) => {
                list.iter_mut().find(|entry| entry.0 == id).map(|entry| &mut entry.1)
            }
            Self::Map(map) => map.get_mut(&id),
        }
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<C> {
        match self {
            Self::List(list) => {
                let index = list.iter().position(|entry| entry.0 == id)?;
                Some(list.swap_remove(index).1)
            }
            Self::Map(map) => map.remove(&id),
        }
    }

    /// Returns the calls with their ids, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &C)> {
        let (list, map) = match self {
            Self::List(list) => (Some(list), None),
            Self::Map(map) => (None, Some(map)),
        };
        let list = list.into_iter().flatten().map(|(id, call)| (*id, call));
        list.chain(map.into_iter().flatten().map(|(id, call)| (*id, call)))
    }

    /// Returns the calls, in no order.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut C> {
        let (list, map) = match self {
            Self::List(list) => (Some(list), None),
            Self::Map(map) => (None, Some(map)),
        };
        let list = list.into_iter().flatten().map(|(_, call)| call);
        list.chain(map.into_iter().flat_map(IdMap::values_mut))
    }

    /// Takes the calls for which `is_wanted` holds, in the order of their ids.
    pub(super) fn take_if(&mut self, is_wanted: impl Fn(&C) -> bool) -> Vec<(u64, C)> {
        let mut taken: Vec<_> = match self {
            Self::List(list) => list.extract_if(.., |(_, call)| is_wanted(call)).collect(),
            Self::Map(map) => map.extract_if(|_, call| is_wanted(call)).collect(),
        };
        taken.sort_unstable_by_key(|(id, _)| *id);
        taken
    }

    /// Takes all calls, in the order of their ids.
    pub(super) fn take_all(&mut self) -> Vec<(u64, C)> {
        self.take_if(|_| true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_and_map_hold_the_same_calls() {
        for count in [1, LIST_MAX as u64, 3 * LIST_MAX as u64] {
            let mut calls = InFlightCalls::new();
            for id in (1..=count).rev() {
                calls.insert(id, id * 10);
            }
            assert_eq!(calls.len() as u64, count);
            assert_eq!(calls.get(count), Some(&(count * 10)));
            assert_eq!(calls.get(0), None);
            assert_eq!(calls.remove(count + 1), None);
            calls.iter_mut().for_each(|call| *call += 1);
            assert_eq!(calls.iter().map(|(id, call)| call - id * 10).sum::<u64>(), count);
            assert_eq!(calls.remove(1), Some(11));
            let even = calls.take_if(|call| (call / 10) % 2 == 0);
            let expected: Vec<_> = (2..=count).step_by(2).map(|id| (id, id * 10 + 1)).collect();
            assert_eq!(even, expected);
            let odd: Vec<_> = (3..=count).step_by(2).map(|id| (id, id * 10 + 1)).collect();
            assert_eq!(calls.take_all(), odd);
            assert_eq!(calls.len(), 0);
        }
    }
}
