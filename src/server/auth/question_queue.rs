//! The tokens that wait until the authorization server is asked about them, of all shards.
//!
//! Invariants: a token is asked about once at a time; tokens that were valid before come first;
//! client addresses have turns, those without a token that is asked about before the others, and a
//! further token of an address is asked about only while more places are free than the address has
//! taken. A token that is not answered for [`SLOW_AFTER`] takes one of [`SLOW_FACTOR`] times as
//! many other places, so that tokens which the server does not answer keep it from no others. When
//! the queue is full, a token replaces the newest one of the address that has most, so that an
//! address delays and loses its own tokens only. 127.0.0.1 and `::1` count as one address, as do
//! clients without one.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Condvar, MutexGuard, PoisonError};
use std::time::Duration;

use corelane_base::client_address::ClientAddress;
use corelane_base::time::Instant;
use corelane_engine::clock::Clock;

use crate::guard::auth::token_table::TokenDigest;

#[expect(clippy::disallowed_types, reason = "locked for a few steps, for unknown tokens only")]
type Mutex<T> = std::sync::Mutex<T>;

/// Time without an answer after which a token leaves its place.
const SLOW_AFTER: Duration = Duration::from_millis(500);

/// So many times as many tokens as have a place may be without an answer for longer.
const SLOW_FACTOR: usize = 8;

/// A token to ask about.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Question {
    pub token: Box<str>,
    pub digest: TokenDigest,
    /// Whose token it is.
    pub client: Option<ClientAddress>,
    /// The authorization server has called it valid before.
    pub is_known: bool,
}

/// What a thread that asks does next.
#[derive(Debug, Eq, PartialEq)]
pub enum NextQuestion {
    /// Ask about this token, and report its end.
    Ask(Question),
    /// Refuse the token with this digest: it has waited too long.
    Expired(TokenDigest),
}

/// The queue. Shards push, threads take.
#[derive(Debug)]
pub struct QuestionQueue {
    waiting_max: usize,
    at_once_max: usize,
    wait_max: Duration,
    clock: Clock,
    state: Mutex<QueueState>,
    /// Wakes the threads that ask.
    has_waiting: Condvar,
    /// Wakes the thread that refuses.
    has_dropped: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    known: Turns,
    unknown: Turns,
    /// The tokens that wait or are asked about.
    tokens: HashSet<TokenDigest>,
    /// Number of tokens of each address that are asked about.
    in_flight: HashMap<Option<ClientAddress>, usize>,
    /// Since when each of these is asked about.
    asked_at: HashMap<TokenDigest, Instant>,
    /// Threads that take tokens, and how many of them wait for one.
    threads: usize,
    idle_threads: usize,
    /// Tokens that were replaced.
    dropped: Vec<TokenDigest>,
    is_closed: bool,
}

/// Tokens by address, in turns.
#[derive(Debug, Default)]
struct Turns {
    waiting: HashMap<Option<ClientAddress>, VecDeque<(Question, Instant)>>,
    order: VecDeque<Option<ClientAddress>>,
    len: usize,
}

impl QuestionQueue {
    /// Creates a queue of at most `waiting_max` tokens, each of which waits at most `wait_max`;
    /// `at_once_max` are asked about at once.
    pub fn new(waiting_max: usize, at_once_max: usize, wait_max: Duration) -> Self {
        Self {
            waiting_max,
            at_once_max,
            wait_max,
            clock: Clock::start(),
            state: Mutex::default(),
            has_waiting: Condvar::new(),
            has_dropped: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a token, unless it waits or is asked about. Returns `false` if the queue is full.
    pub fn push(&self, question: Question) -> bool {
        let mut state = self.state();
        if state.tokens.contains(&question.digest) {
            return true;
        }
        if state.known.len + state.unknown.len >= self.waiting_max {
            let Some(dropped) = state.make_room(&question) else { return false };
            state.tokens.remove(&dropped);
            state.dropped.push(dropped);
            self.has_dropped.notify_one();
        }
        state.tokens.insert(question.digest);
        let turns = if question.is_known { &mut state.known } else { &mut state.unknown };
        turns.push(question, self.clock.now());
        drop(state);
        self.has_waiting.notify_one();
        true
    }

    /// Counts a further thread that takes tokens, which calls [`QuestionQueue::next`] until that is
    /// `None`. Returns `false` if none is needed.
    pub fn begin_thread(&self) -> bool {
        let mut state = self.state();
        let threads_max = self.at_once_max * (1 + SLOW_FACTOR);
        let begins = state.idle_threads == 0 && state.threads < threads_max && !state.is_closed;
        state.threads += usize::from(begins);
        begins
    }

    /// Records that a thread that was counted has not begun or has ended.
    pub fn end_thread(&self) {
        self.state().threads -= 1;
    }

    /// Waits for the next token. `None` once the queue is closed, or if enough other threads wait.
    pub fn next(&self) -> Option<NextQuestion> {
        let mut state = self.state();
        if state.idle_threads >= self.at_once_max {
            return None;
        }
        state.idle_threads += 1;
        let next = loop {
            if state.is_closed {
                break None;
            }
            let now = self.clock.now();
            if let Some(next) = state.take(now, self) {
                break Some(next);
            }
            state = match state.next_slow(now) {
                Some(time) => {
                    let waited = self.has_waiting.wait_timeout(state, time);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.has_waiting.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        };
        state.idle_threads -= 1;
        // Another thread looks when a token leaves its place.
        if state.has_waiting() {
            self.has_waiting.notify_one();
        }
        next
    }

    /// Records that a token that [`QuestionQueue::next`] has returned is no longer asked about.
    /// Another push asks again.
    pub fn end(&self, question: &Question) {
        let mut state = self.state();
        state.tokens.remove(&question.digest);
        state.asked_at.remove(&question.digest);
        if let Some(count) = state.in_flight.get_mut(&question.client) {
            *count -= 1;
            if *count == 0 {
                state.in_flight.remove(&question.client);
            }
        }
        drop(state);
        self.has_waiting.notify_one();
    }

    /// Waits for tokens that were replaced. `None` once the queue is closed.
    pub fn next_dropped(&self) -> Option<Vec<TokenDigest>> {
        let mut state = self.state();
        loop {
            if state.is_closed {
                return None;
            }
            if !state.dropped.is_empty() {
                return Some(std::mem::take(&mut state.dropped));
            }
            state = self.has_dropped.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the threads that wait.
    pub fn close(&self) {
        self.state().is_closed = true;
        self.has_waiting.notify_all();
        self.has_dropped.notify_all();
    }
}

impl QueueState {
    /// Takes the next token, if a place is free for it.
    fn take(&mut self, now: Instant, limits: &QuestionQueue) -> Option<NextQuestion> {
        let QuestionQueue { at_once_max, wait_max, .. } = *limits;
        let slow = self.asked_at.values().filter(|since| since.after(SLOW_AFTER) <= now).count();
        let places = at_once_max + slow.min(at_once_max * SLOW_FACTOR);
        let free = places.saturating_sub(self.asked_at.len());
        let Self { known, unknown, in_flight, .. } = self;
        let asked = |client: &_| in_flight.get(client).copied().unwrap_or(0);
        let known = known.take(|_| free > 0);
        let first = known.or_else(|| unknown.take(|client| free > 0 && asked(client) == 0));
        let (question, since) = first.or_else(|| unknown.take(|client| asked(client) < free))?;
        if now.since(since) >= wait_max {
            self.tokens.remove(&question.digest);
            return Some(NextQuestion::Expired(question.digest));
        }
        self.asked_at.insert(question.digest, now);
        *in_flight.entry(question.client).or_default() += 1;
        Some(NextQuestion::Ask(question))
    }

    fn has_waiting(&self) -> bool {
        self.known.len + self.unknown.len > 0
    }

    /// Returns the time until a token leaves its place, if another one waits.
    fn next_slow(&self, now: Instant) -> Option<Duration> {
        let times = self.asked_at.values().map(|since| since.after(SLOW_AFTER));
        let next = times.filter(|due| self.has_waiting() && *due > now).min()?;
        Some(next.since(now))
    }

    /// Removes a token in favour of another one: the newest of the address that has most, if that
    /// has more than the address of the other one will have.
    fn make_room(&mut self, question: &Question) -> Option<TokenDigest> {
        let (client, count) = self.unknown.heaviest()?;
        let own = self.unknown.count(question.client);
        (question.is_known || count > own + 1).then(|| self.unknown.drop_newest(client)).flatten()
    }
}

impl Turns {
    fn push(&mut self, question: Question, now: Instant) {
        let client = question.client;
        let waiting = self.waiting.entry(client).or_default();
        if waiting.is_empty() {
            self.order.push_back(client);
        }
        waiting.push_back((question, now));
        self.len += 1;
    }

    /// Takes the oldest token of the first address that `may_ask`, whose next turn comes last.
    fn take(
        &mut self,
        may_ask: impl Fn(&Option<ClientAddress>) -> bool,
    ) -> Option<(Question, Instant)> {
        let place = self.order.iter().position(may_ask)?;
        let client = self.order.remove(place)?;
        let waiting = self.waiting.get_mut(&client)?;
        let taken = waiting.pop_front()?;
        if waiting.is_empty() {
            self.waiting.remove(&client);
        } else {
            self.order.push_back(client);
        }
        self.len -= 1;
        Some(taken)
    }

    fn count(&self, client: Option<ClientAddress>) -> usize {
        self.waiting.get(&client).map_or(0, VecDeque::len)
    }

    /// Returns the address with most tokens.
    fn heaviest(&self) -> Option<(Option<ClientAddress>, usize)> {
        let counts = self.waiting.iter().map(|(client, waiting)| (*client, waiting.len()));
        counts.max_by_key(|(_, count)| *count)
    }

    fn drop_newest(&mut self, client: Option<ClientAddress>) -> Option<TokenDigest> {
        let waiting = self.waiting.get_mut(&client)?;
        let (dropped, _) = waiting.pop_back()?;
        if waiting.is_empty() {
            self.waiting.remove(&client);
            self.order.retain(|other| *other != client);
        }
        self.len -= 1;
        Some(dropped.digest)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    const WAIT_MAX: Duration = Duration::from_hours(1);

    fn question(from: u8, number: u8) -> Question {
        let client = ClientAddress::new(IpAddr::from([127, 0, 0, from]));
        let token = format!("{from}-{number}").into();
        let mut digest = [from; 32];
        digest[0] = number;
        Question { token, digest, client, is_known: false }
    }

    fn known(from: u8, number: u8) -> Question {
        Question { is_known: true, ..question(from, number) }
    }

    fn next(queue: &QuestionQueue) -> Question {
        match queue.next() {
            Some(NextQuestion::Ask(question)) => question,
            other => panic!("{other:?}"),
        }
    }

    /// Takes what can be asked about at once.
    fn take_all(queue: &QuestionQueue) -> Vec<Box<str>> {
        take_all_after(queue, Duration::ZERO)
    }

    /// Takes what can be asked about after a time.
    fn take_all_after(queue: &QuestionQueue, time: Duration) -> Vec<Box<str>> {
        let (mut taken, now) = (Vec::new(), queue.clock.now().after(time));
        while let Some(NextQuestion::Ask(next)) = queue.state().take(now, queue) {
            taken.push(next.token);
        }
        taken
    }

    fn tokens(texts: &[&str]) -> Vec<Box<str>> {
        texts.iter().map(|text| Box::from(*text)).collect()
    }

    #[test]
    fn addresses_have_turns_after_known_tokens() {
        let queue = QuestionQueue::new(64, 1, WAIT_MAX);
        for number in 0..3 {
            assert!(queue.push(question(2, number)));
        }
        assert!(queue.push(question(3, 7)) && queue.push(known(3, 8)) && queue.push(known(2, 9)));
        let mut order = Vec::new();
        for _ in 0..6 {
            let next = next(&queue);
            queue.end(&next);
            order.push(next.token);
        }
        assert_eq!(order, tokens(&["3-8", "2-9", "2-0", "3-7", "2-1", "2-2"]));
    }

    #[test]
    fn one_address_leaves_places_to_others() {
        let queue = QuestionQueue::new(64, 8, WAIT_MAX);
        for number in 0..20 {
            assert!(queue.push(question(2, number)) && queue.push(question(3, number)));
        }
        // Neither takes the last place.
        assert_eq!(take_all(&queue).len(), 6);
        assert!(queue.push(question(4, 0)));
        assert_eq!(take_all(&queue), tokens(&["4-0"]));
        assert!(queue.push(known(2, 99)));
        assert_eq!(take_all(&queue), tokens(&["2-99"]));
    }

    #[test]
    fn unanswered_tokens_leave_their_places() {
        let queue = QuestionQueue::new(512, 4, WAIT_MAX);
        let mut seconds = 0..;
        let mut take = || take_all_after(&queue, Duration::from_secs(seconds.next().unwrap()));
        for number in 0..40 {
            assert!(queue.push(question(2, number)) && queue.push(question(3, number)));
        }
        // Two addresses leave a place, though the server answers nothing.
        while !take().is_empty() {}
        assert!(queue.push(question(4, 0)));
        assert_eq!(take(), tokens(&["4-0"]));
        for from in 5..80 {
            assert!(queue.push(question(from, 0)));
        }
        let mut others = Vec::new();
        loop {
            match take() {
                taken if taken.is_empty() => break,
                taken => others.extend(taken),
            }
        }
        assert!(!others.iter().any(|it| it.starts_with("2-") || it.starts_with("3-")));
        assert_eq!(queue.state().asked_at.len(), 4 * (1 + SLOW_FACTOR));
        queue.end(&question(4, 0));
        let [freed] = &take()[..] else { panic!("one place is free") };
        assert!(!freed.starts_with("2-") && !freed.starts_with("3-"), "{freed}");
    }

    #[test]
    fn waiting_threads_take_tokens_without_answers() {
        let queue = QuestionQueue::new(64, 3, WAIT_MAX);
        std::thread::scope(|scope| {
            for from in 2..5 {
                assert!(queue.push(question(from, 0)));
            }
            assert_eq!(take_all(&queue).len(), 3);
            let (sender, taken) = std::sync::mpsc::channel();
            for _ in 0..3 {
                let (queue, sender) = (&queue, sender.clone());
                scope.spawn(move || sender.send(queue.next()));
            }
            for from in 5..8 {
                assert!(queue.push(question(from, 0)));
            }
            // No token ends, so each place is one that a token has left.
            for _ in 0..3 {
                let next = taken.recv_timeout(Duration::from_mins(1));
                assert!(matches!(next, Ok(Some(NextQuestion::Ask(_)))), "{next:?}");
            }
            queue.close();
        });
    }

    #[test]
    fn threads_are_as_many_as_are_needed() {
        let queue = QuestionQueue::new(64, 1, WAIT_MAX);
        let begun: Vec<bool> = (0..20).map(|_| queue.begin_thread()).collect();
        assert_eq!(begun.iter().filter(|it| **it).count(), 1 + SLOW_FACTOR);
        queue.end_thread();
        assert!(queue.begin_thread());
        queue.state().idle_threads = 1;
        queue.end_thread();
        assert!(!queue.begin_thread() && queue.next().is_none());
    }

    #[test]
    fn token_is_asked_about_once_at_a_time() {
        let queue = QuestionQueue::new(64, 4, WAIT_MAX);
        assert!(queue.push(question(2, 1)) && queue.push(question(2, 1)));
        let first = next(&queue);
        assert!(queue.push(question(2, 1)));
        assert!(take_all(&queue).is_empty());
        queue.end(&first);
        assert!(queue.push(question(2, 1)));
        assert_eq!(take_all(&queue), tokens(&["2-1"]));
    }

    #[test]
    fn full_queue_drops_tokens_of_heaviest_address() {
        let queue = QuestionQueue::new(4, 1, WAIT_MAX);
        for number in 0..4 {
            assert!(queue.push(question(2, number)));
        }
        assert!(!queue.push(question(2, 9)));
        assert!(queue.push(question(3, 0)) && queue.push(question(4, 0)));
        assert_eq!(queue.next_dropped(), Some(vec![question(2, 3).digest, question(2, 2).digest]));
        assert!(!queue.push(question(3, 1)) && queue.push(question(5, 0)));
        // All have their share.
        assert!(!queue.push(question(6, 0)) && !queue.push(question(5, 1)));
        // Known tokens have a place as long as there are others.
        for number in 0..4 {
            assert!(queue.push(known(7, number)));
        }
        assert!(!queue.push(known(7, 9)) && !queue.push(question(6, 0)));
        assert_eq!(queue.next_dropped().map(|dropped| dropped.len()), Some(5));
        // A token that was dropped can be pushed again.
        let next = next(&queue);
        queue.end(&next);
        assert!(queue.push(question(2, 3)));
    }

    #[test]
    fn token_that_has_waited_too_long_expires() {
        let queue = QuestionQueue::new(4, 1, Duration::ZERO);
        assert!(queue.push(question(2, 1)) && queue.push(question(3, 1)));
        assert_eq!(queue.next(), Some(NextQuestion::Expired(question(2, 1).digest)));
        assert_eq!(queue.next(), Some(NextQuestion::Expired(question(3, 1).digest)));
        assert!(queue.push(question(2, 1)));
    }

    #[test]
    fn closed_queue_ends_its_threads() {
        let queue = QuestionQueue::new(4, 1, WAIT_MAX);
        std::thread::scope(|scope| {
            let threads = [scope.spawn(|| queue.next().is_none())];
            let refusing = scope.spawn(|| queue.next_dropped().is_none());
            queue.close();
            assert!(threads.into_iter().all(|it| it.join().unwrap()) && refusing.join().unwrap());
        });
    }
}
