//! Requests under way on one connection, in the order in which they were sent.
//!
//! What it keeps true: the first one stands in the connection itself, because most connections have
//! one at a time, and every place further is one more that has left the caches when its answer
//! comes. Those behind it stand in a queue of their own.

use std::collections::VecDeque;

use corelane::base::time::Moment;

/// Requests behind the first for which an idle connection keeps room, 32 bytes each.
const KEPT_FLIGHTS_MAX: usize = 4;

/// A request that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) id: u64,
    pub(super) intended: Moment,
    pub(super) sent: Moment,
    pub(super) call: u16,
    pub(super) state: State,
}

/// What a request waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum State {
    /// Its answer.
    Waiting,
    /// It has failed for want of an answer, which may still come.
    GivenUp,
    /// Nothing: its answer came before that of an earlier one.
    Answered,
}

/// Those of one connection.
#[derive(Debug, Default)]
pub(super) struct Flights {
    front: Option<Flight>,
    /// There are some only where there is a front.
    #[expect(clippy::box_collection, reason = "most connections have none: a word will do")]
    behind: Option<Box<VecDeque<Flight>>>,
}

impl Flights {
    /// None at all.
    pub(super) const fn new() -> Self {
        Self { front: None, behind: None }
    }

    /// How many there are.
    #[inline]
    pub(super) fn len(&self) -> usize {
        usize::from(self.front.is_some()) + self.behind.as_ref().map_or(0, |behind| behind.len())
    }

    /// Whether there is none.
    pub(super) const fn is_empty(&self) -> bool {
        self.front.is_none()
    }

    /// The first.
    #[inline]
    pub(super) const fn front(&self) -> Option<&Flight> {
        self.front.as_ref()
    }

    /// The one at this place.
    pub(super) fn get(&self, place: usize) -> Option<&Flight> {
        match place.checked_sub(1) {
            None => self.front.as_ref(),
            Some(place) => self.behind.as_ref()?.get(place),
        }
    }

    /// The one at this place, to be changed.
    #[inline]
    pub(super) fn get_mut(&mut self, place: usize) -> Option<&mut Flight> {
        match place.checked_sub(1) {
            None => self.front.as_mut(),
            Some(place) => self.behind.as_mut()?.get_mut(place),
        }
    }

    /// All of them, the first one first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Flight> {
        self.front.iter().chain(self.behind.iter().flat_map(|behind| behind.iter()))
    }

    /// All of them, the first one first, to be changed.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Flight> {
        self.front.iter_mut().chain(self.behind.iter_mut().flat_map(|behind| behind.iter_mut()))
    }

    /// One more, behind all others.
    #[inline]
    pub(super) fn push_back(&mut self, flight: Flight) {
        if self.front.is_none() {
            self.front = Some(flight);
        } else {
            self.behind.get_or_insert_default().push_back(flight);
        }
    }

    /// Forgets the first.
    #[inline]
    pub(super) fn pop_front(&mut self) {
        self.front = self.behind.as_mut().and_then(|behind| behind.pop_front());
    }

    /// All of them; none are left.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Flight> {
        let Self { front, behind } = std::mem::take(self);
        front.into_iter().chain(behind.into_iter().flat_map(|behind| *behind))
    }

    /// Gives back the room of a time when there were many.
    #[inline]
    pub(super) fn rest(&mut self) {
        if self.front.is_none() {
            self.behind.take_if(|behind| behind.capacity() > KEPT_FLIGHTS_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flights(ids: std::ops::Range<u64>) -> Flights {
        let mut flights = Flights::new();
        let (intended, sent) = (Moment::ORIGIN, Moment::ORIGIN);
        ids.for_each(|id| {
            flights.push_back(Flight { id, intended, sent, call: 0, state: State::Waiting });
        });
        flights
    }

    #[test]
    fn they_stay_in_the_order_in_which_they_came() {
        let mut flights = flights(0..3);
        assert_eq!(flights.iter().map(|flight| flight.id).collect::<Vec<_>>(), [0, 1, 2]);
        flights.pop_front();
        flights.push_back(Flight { id: 3, ..*flights.front().unwrap() });
        let at = |place| flights.get(place).map(|flight| flight.id);
        assert_eq!([at(0), at(1), at(2), at(3)], [Some(1), Some(2), Some(3), None]);
        assert_eq!(flights.len(), 3);
        assert_eq!(flights.take().map(|flight| flight.id).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(flights.is_empty());
    }

    #[test]
    fn room_for_many_is_given_back_when_there_are_none() {
        let mut flights = flights(0..100);
        flights.rest();
        assert_eq!(flights.len(), 100);
        (0..100).for_each(|_| flights.pop_front());
        assert!(flights.behind.is_some());
        flights.rest();
        assert!(flights.is_empty() && flights.behind.is_none());
    }

    #[test]
    fn one_alone_takes_no_memory_beside_its_connection() {
        let mut flights = flights(0..1);
        flights.pop_front();
        assert!(flights.behind.is_none() && size_of::<Flights>() <= 40);
    }
}
