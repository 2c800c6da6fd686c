//! Requests in flight on one connection, matched with what is said to them.

use corelane::base::time::Moment;

use super::call::{ID_COUNT, ID_FIRST};
use super::calls::Calls;
use super::flights::{Flight, Flights, State};
use super::judge::{Judgement, judge};
use crate::measure::outcome::Failure;

/// A request that is over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Concluded {
    /// Which kind it was.
    pub call: u16,
    /// When it was meant to be sent.
    pub intended: Moment,
    /// When it was sent.
    pub sent: Moment,
    /// How it failed; none where it was answered well.
    pub failure: Option<Failure>,
}

/// What hearing bytes has brought.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Event {
    /// A request is over.
    Concluded(Concluded),
    /// An answer came that nobody had asked for, or a second one.
    Unasked,
    /// The server told something that wants no answer: progress, a message, a change.
    Notice,
    /// The answer that is concluded next came as a stream of events.
    Streamed,
    /// The server asks something itself and waits.
    Asked {
        /// The id of its request, as it was written.
        id: String,
        /// Whether it only asks whether we live.
        is_ping: bool,
    },
    /// The server wants these bytes in return.
    Say(Vec<u8>),
    /// The server closes the connection, or has said that it will.
    Closing,
}

/// The requests of one connection.
#[derive(Debug)]
pub(super) struct Ledger {
    /// In the order in which they were sent, with ids one behind the other.
    flights: Flights,
    next_id: u64,
    /// Answers come as responses of HTTP: what a body says counts when its response is over.
    has_responses: bool,
    /// What the body of the response under way says of its request, where it has said anything.
    said: Option<Result<(), Failure>>,
}

impl Ledger {
    pub(super) const fn new(has_responses: bool) -> Self {
        Self { flights: Flights::new(), next_id: ID_FIRST, has_responses, said: None }
    }

    /// Gives back the room of a time when many requests were in flight.
    #[inline]
    pub(super) fn rest(&mut self) {
        self.flights.rest();
    }

    /// Requests whose answers may still come.
    pub(super) fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// Notes a request; its id.
    #[inline]
    pub(super) fn enter(&mut self, call: u16, (intended, sent): (Moment, Moment)) -> u64 {
        let id = self.next_id;
        self.next_id = if id + 1 < ID_FIRST + ID_COUNT { id + 1 } else { ID_FIRST };
        self.flights.push_back(Flight { id, intended, sent, call, state: State::Waiting });
        id
    }

    /// Takes the answer to the oldest request, where it is to the byte what it should be; its
    /// length.
    #[inline]
    pub(super) fn accept(
        &mut self,
        calls: &Calls,
        bytes: &[u8],
        tell: &mut impl FnMut(Event),
    ) -> Option<usize> {
        let flight = self.flights.front()?;
        let model = calls.model(flight.call)?;
        let length = model.accept(bytes, flight.id)?;
        if model.is_stream() {
            tell(Event::Streamed);
        }
        self.conclude(0, None, tell);
        Some(length)
    }

    /// Judges a message; `whole` is what it came in, where that came at once.
    pub(super) fn weigh(
        &mut self,
        calls: &mut Calls,
        text: &[u8],
        whole: Option<&[u8]>,
        tell: &mut impl FnMut(Event),
    ) {
        let expected = |id| {
            let flight = self.flights.get(self.place(id)?)?;
            calls.call(flight.call)?.expected_text()
        };
        match judge(text, expected) {
            Judgement::Answer { id, failure } => match self.place(id) {
                Some(0) if self.has_responses => self.said = Some(failure.map_or(Ok(()), Err)),
                _ if self.has_responses => self.said = Some(Err(Failure::Wrong)),
                Some(place) => {
                    self.learn(calls, (place, failure), whole);
                    self.conclude(place, failure, tell);
                }
                None => tell(Event::Unasked),
            },
            Judgement::Question { id, is_ping } => {
                tell(Event::Asked { id: id.into(), is_ping });
            }
            Judgement::Notice => tell(Event::Notice),
            Judgement::Nameless | Judgement::Garbage if self.has_responses => {
                self.said = Some(Err(Failure::Garbage));
            }
            // It stands where an answer should: the oldest request is the one that it fails.
            Judgement::Nameless => self.fail_oldest(Failure::Rpc, tell),
            Judgement::Garbage => self.fail_oldest(Failure::Garbage, tell),
        }
    }

    /// A response of HTTP is over.
    pub(super) fn end_response(
        &mut self,
        calls: &mut Calls,
        status: u16,
        whole: Option<&[u8]>,
        tell: &mut impl FnMut(Event),
    ) {
        let said = self.said.take();
        if self.flights.is_empty() {
            return tell(Event::Unasked);
        }
        let failure = match (status, said) {
            (200..300, Some(said)) => said.err(),
            (400..500, _) => Some(Failure::HttpRefused),
            (500..600, _) => Some(Failure::HttpFailed),
            _ => Some(Failure::Garbage),
        };
        self.learn(calls, (0, failure), whole);
        self.conclude(0, failure, tell);
    }

    /// Where the request of an id stands, if its answer is waited for.
    fn place(&self, id: u64) -> Option<usize> {
        let first = self.flights.front()?.id;
        // Ids go round: the distance is what counts.
        let distance = if id >= first { id - first } else { (id + ID_COUNT).checked_sub(first)? };
        let place = usize::try_from(distance).ok()?;
        let flight = self.flights.get(place)?;
        (flight.id == id && flight.state != State::Answered).then_some(place)
    }

    fn learn(
        &self,
        calls: &mut Calls,
        (place, failure): (usize, Option<Failure>),
        whole: Option<&[u8]>,
    ) {
        if failure.is_none()
            && let Some(whole) = whole
            && let Some(flight) = self.flights.get(place)
        {
            calls.learn(flight.call, whole, flight.id);
        }
    }

    /// What came has no id of ours and stands where an answer should: the oldest request has it.
    fn fail_oldest(&mut self, failure: Failure, tell: &mut impl FnMut(Event)) {
        let waiting = self.flights.iter().position(|flight| flight.state != State::Answered);
        match waiting {
            Some(place) => self.conclude(place, Some(failure), tell),
            None => tell(Event::Unasked),
        }
    }

    /// A request has its answer. One that was given up has failed before, and stays so.
    fn conclude(&mut self, place: usize, failure: Option<Failure>, tell: &mut impl FnMut(Event)) {
        let Some(flight) = self.flights.get_mut(place) else { return };
        if flight.state == State::Waiting {
            let Flight { call, intended, sent, .. } = *flight;
            tell(Event::Concluded(Concluded { call, intended, sent, failure }));
        }
        flight.state = State::Answered;
        while self.flights.front().is_some_and(|flight| flight.state == State::Answered) {
            self.flights.pop_front();
        }
    }

    /// Gives up what was sent before `before`.
    pub(super) fn give_up(&mut self, before: Moment, tell: &mut impl FnMut(Event)) {
        let late = self.flights.iter_mut().take_while(|flight| flight.sent < before);
        for flight in late.filter(|flight| flight.state == State::Waiting) {
            flight.state = State::GivenUp;
            let Flight { call, intended, sent, .. } = *flight;
            let failure = Some(Failure::Timeout);
            tell(Event::Concluded(Concluded { call, intended, sent, failure }));
        }
    }

    /// The connection has ended: what waits has failed.
    pub(super) fn abandon(&mut self, failure: Failure, tell: &mut impl FnMut(Event)) {
        self.said = None;
        for flight in self.flights.take().filter(|flight| flight.state == State::Waiting) {
            let Flight { call, intended, sent, .. } = flight;
            tell(Event::Concluded(Concluded { call, intended, sent, failure: Some(failure) }));
        }
    }
}
