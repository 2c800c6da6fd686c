//! The places of tasks that have expired, which are kept for their holders for a while.
//!
//! Invariant: a holder takes its oldest place first.

use std::collections::{HashMap, VecDeque};

use corelane_base::heap_bytes;
use corelane_base::heap_bytes::map_bytes;
use corelane_base::holders::Holder;
use corelane_base::time::Instant;

/// The places that are kept. Nothing is stored of a holder without one.
#[derive(Debug, Default)]
pub struct KeptPlaces {
    /// Until when they are kept, in the order in which the tasks expired. Some are taken.
    places: VecDeque<(Instant, Holder)>,
    by_holder: HashMap<Holder, HolderPlaces>,
    count: usize,
}

heap_bytes!(
    KeptPlaces {}
    counted { places: Self::places_bytes, by_holder: Self::index_bytes }
    inline { count }
);

#[derive(Clone, Copy, Debug, Default)]
struct HolderPlaces {
    /// Those in the list.
    listed: usize,
    /// How many of them, the oldest ones, are taken.
    taken: usize,
}

impl KeptPlaces {
    fn places_bytes(&self) -> usize {
        self.places.capacity() * size_of::<(Instant, Holder)>()
    }

    fn index_bytes(&self) -> usize {
        map_bytes(&self.by_holder)
    }

    /// Returns how many are not taken.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Keeps a place for a holder.
    pub fn push(&mut self, holder: Holder, until: Instant) {
        self.places.push_back((until, holder));
        self.by_holder.entry(holder).or_default().listed += 1;
        self.count += 1;
    }

    /// Takes a place of a holder. Returns whether there is one.
    pub fn take(&mut self, holder: Holder) -> bool {
        let own = self.by_holder.get_mut(&holder).filter(|own| own.taken < own.listed);
        let Some(own) = own else { return false };
        own.taken += 1;
        self.count -= 1;
        true
    }

    /// Removes a place that was not taken and is kept no longer at `now`. Returns its holder.
    pub fn pop_ended(&mut self, now: Instant) -> Option<Holder> {
        while let Some((_, holder)) = self.places.pop_front_if(|(until, _)| *until <= now) {
            let Some(own) = self.by_holder.get_mut(&holder) else { continue };
            own.listed -= 1;
            let was_taken = own.taken > 0;
            own.taken -= usize::from(was_taken);
            if own.listed == 0 {
                self.by_holder.remove(&holder);
            }
            if !was_taken {
                self.count -= 1;
                return Some(holder);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Instant {
        Instant::from_milliseconds(ms)
    }

    #[test]
    fn places_are_taken_or_end_in_order() {
        let [one, two] = [Holder::Exempt, Holder::Principal(1)];
        let mut kept = KeptPlaces::default();
        assert!(!kept.take(one));
        for (holder, until) in [(one, 1), (two, 2), (one, 3)] {
            kept.push(holder, at(until));
        }
        assert!(kept.take(one));
        assert_eq!((kept.count(), kept.pop_ended(at(1))), (2, None));
        assert_eq!(kept.pop_ended(at(3)), Some(two));
        assert_eq!((kept.pop_ended(at(3)), kept.pop_ended(at(3))), (Some(one), None));
        assert!(!kept.take(one) && kept.count() == 0 && kept.by_holder.is_empty());
    }
}
