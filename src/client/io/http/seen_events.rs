//! The ids of recent events, so that a replayed event is not handled twice.

use std::collections::{HashSet, VecDeque};
use std::rc::Rc;

/// Number of ids that are remembered.
const EVENTS_MAX: usize = 256;

#[derive(Debug, Default)]
pub(super) struct SeenEvents {
    ids: HashSet<Rc<[u8]>>,
    order: VecDeque<Rc<[u8]>>,
}

impl SeenEvents {
    /// Remembers an id. Returns whether it is new.
    pub(super) fn insert(&mut self, id: &[u8]) -> bool {
        if self.ids.contains(id) {
            return false;
        }
        if self.order.len() == EVENTS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
        let id: Rc<[u8]> = id.into();
        self.order.push_back(Rc::clone(&id));
        self.ids.insert(id)
    }

    /// Forgets all: ids are unique only within a session.
    pub(super) fn clear(&mut self) {
        self.ids.clear();
        self.order.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_event_ids_are_seen_once() {
        let mut seen = SeenEvents::default();
        let id = |index: usize| index.to_string().into_bytes();
        for index in 0..=EVENTS_MAX {
            assert!(seen.insert(&id(index)));
        }
        assert!(!seen.insert(&id(EVENTS_MAX)));
        assert!(!seen.insert(&id(1)));
        assert!(seen.insert(&id(0)));
        seen.clear();
        assert!(seen.insert(&id(EVENTS_MAX)));
    }
}
