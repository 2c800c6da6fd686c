//! The table against a model that is too simple to be wrong: any steps, the same answers.
//!
//! The model searches where the table has lines, sums and keys; it keeps dead sessions as holes, so
//! that every key that was ever given is tried again.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// One step. Sessions are counted back from the newest one, the dead included; streams and events
/// are too, from the one that is still to come. Stream 0 is itself.
#[derive(Clone, Debug)]
enum Step {
    Advance { seconds: u64 },
    Begin,
    BeginRequest { session: usize },
    Detach { session: usize, stream: u32, exchange: Option<u32>, is_sent: bool },
    EndRequest { session: usize },
    Expire,
    Finish { session: usize, stream: u32 },
    LetGo,
    Listen { session: usize },
    Open { session: usize },
    Push { session: usize, stream: u32, bytes: usize },
    Remove { session: usize },
    Resume { session: usize, stream: u32, after: u32 },
    Touch { session: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // The newest are meant more often than the oldest.
    let session = || prop_oneof![3 => 0..2usize, 1 => 2..6usize];
    let stream = || prop_oneof![4 => 0..4u32, 1 => 4..8u32];
    let step = prop_oneof![
        1 => (0..40u64).prop_map(|seconds| Step::Advance { seconds }),
        2 => Just(Step::Begin),
        2 => session().prop_map(|session| Step::BeginRequest { session }),
        5 => (session(), stream(), prop::option::weighted(0.1, 0..50u32), any::<bool>()).prop_map(
            |(session, stream, exchange, is_sent)| Step::Detach {
                session,
                stream,
                exchange,
                is_sent
            }
        ),
        3 => session().prop_map(|session| Step::EndRequest { session }),
        1 => Just(Step::Expire),
        3 => (session(), stream()).prop_map(|(session, stream)| Step::Finish { session, stream }),
        1 => Just(Step::LetGo),
        2 => session().prop_map(|session| Step::Listen { session }),
        4 => session().prop_map(|session| Step::Open { session }),
        8 => (session(), stream(), prop_oneof![9 => 0..1_200usize, 1 => 1_200..2_600usize])
            .prop_map(|(session, stream, bytes)| Step::Push { session, stream, bytes }),
        1 => session().prop_map(|session| Step::Remove { session }),
        3 => (session(), stream(), 0..6u32)
            .prop_map(|(session, stream, after)| Step::Resume { session, stream, after }),
        1 => session().prop_map(|session| Step::Touch { session }),
    ];
    prop::collection::vec(step, 0..200)
}

#[derive(Clone, Debug, Default)]
struct ModelStream {
    /// Numbers and lengths of what is kept.
    events: Vec<(u32, usize)>,
    last: u32,
    handed: u32,
    exchange: Option<ExchangeAddress>,
    is_finished: bool,
    is_owed: bool,
    /// When it came to linger last.
    since: Moment,
}

#[derive(Debug)]
struct ModelSession {
    in_flight: u32,
    /// When it became idle and how many did before; none while it is active.
    idle: Option<(Moment, u64)>,
    opened: u32,
    streams: BTreeMap<u32, ModelStream>,
}

/// The bytes that one event counts for.
const fn cost(bytes: usize) -> usize {
    bytes + 2 * size_of::<Bytes>()
}

impl ModelStream {
    fn bytes(&self) -> usize {
        self.events.iter().map(|event| cost(event.1)).sum()
    }

    fn is_kept(&self) -> bool {
        self.is_finished && self.exchange.is_none()
    }

    fn lingers(&self) -> bool {
        self.is_kept() && !self.is_owed
    }
}

impl ModelSession {
    fn is_active(&self) -> bool {
        self.in_flight > 0 || self.streams.values().any(|stream| stream.exchange.is_some())
    }

    /// The number of the stream that a step means.
    fn number(&self, stream: u32) -> u32 {
        if stream == LISTENING { stream } else { (self.opened + 2).saturating_sub(stream) }
    }

    /// A stream may have come to its end.
    fn tidy(&mut self, number: u32) {
        self.streams.retain(|at, it| *at != number || !it.lingers() || !it.events.is_empty());
        let kept = self.streams.iter().filter(|(_, stream)| stream.is_kept());
        let mut kept: Vec<(bool, u32)> = kept.map(|(at, stream)| (stream.is_owed, *at)).collect();
        kept.sort_unstable();
        let kept_max = BOUNDS.streams.streams_kept_max;
        for (_, number) in kept.iter().take(kept.len().saturating_sub(kept_max)) {
            self.streams.remove(number);
        }
    }

    fn open(&mut self, exchange: ExchangeAddress) -> Result<u32, Refusal> {
        let open = self.streams.iter().filter(|(number, stream)| **number > 0 && !stream.is_kept());
        let open = open.count();
        if open >= BOUNDS.streams.streams_max {
            return Err(Refusal::Streams(open));
        }
        self.opened += 1;
        let stream = ModelStream { exchange: Some(exchange), ..ModelStream::default() };
        self.streams.insert(self.opened, stream);
        Ok(self.opened)
    }

    fn listen(&mut self, exchange: ExchangeAddress) -> Result<u32, Refusal> {
        let stream = self.streams.entry(LISTENING).or_default();
        if stream.exchange.is_some() {
            return Err(Refusal::Conflict);
        }
        let after = stream.handed;
        stream.exchange = Some(exchange);
        stream.handed = stream.last;
        Ok(after)
    }

    fn resume(
        &mut self,
        number: u32,
        after: u32,
        exchange: ExchangeAddress,
    ) -> Result<Resumed, Refusal> {
        let stream = self.streams.get_mut(&number).ok_or(Refusal::Event)?;
        if after > stream.handed {
            return Err(Refusal::Event);
        }
        let replaced = stream.exchange.replace(exchange);
        stream.handed = stream.last;
        stream.is_owed |= stream.last > after;
        let kept = stream.events.iter().filter(|(number, _)| *number > after).count();
        let missing = stream.last - after - u32::try_from(kept).unwrap();
        Ok(Resumed { replaced, missing, is_finished: stream.is_finished })
    }

    fn push(&mut self, number: u32, bytes: usize, room: usize) -> Option<Pushed> {
        if number == LISTENING {
            self.streams.entry(LISTENING).or_default();
        }
        let stream = self.streams.get_mut(&number).filter(|stream| !stream.is_finished)?;
        let bounds = BOUNDS.streams.log;
        let bytes_max = if cost(bytes) > bounds.bytes_max {
            stream.bytes() + room / 2
        } else {
            bounds.bytes_max.min(stream.bytes() + room)
        };
        stream.last += 1;
        stream.events.push((stream.last, bytes));
        while stream.events.len() > bounds.events_max || stream.bytes() > bytes_max {
            stream.events.remove(0);
        }
        stream.is_owed = true;
        if stream.exchange.is_some() {
            stream.handed = stream.last;
        }
        let is_kept = !stream.events.is_empty();
        Some(Pushed { number: stream.last, is_kept, exchange: stream.exchange })
    }

    fn finish(&mut self, number: u32) -> Option<ExchangeAddress> {
        let stream = self.streams.get_mut(&number).filter(|_| number != LISTENING)?;
        stream.is_finished = true;
        let exchange = stream.exchange;
        self.tidy(number);
        exchange
    }

    fn detach(&mut self, number: u32, exchange: ExchangeAddress, is_sent: bool) -> bool {
        let Some(stream) = self.streams.get_mut(&number) else { return false };
        if stream.exchange != Some(exchange) {
            return false;
        }
        stream.exchange = None;
        stream.is_owed &= !is_sent;
        self.tidy(number);
        true
    }
}

/// Both tables and what they were told.
struct Pair {
    table: Sessions<usize>,
    keys: Vec<Key>,
    model: Vec<Option<ModelSession>>,
    now: Moment,
    /// Sessions that became idle.
    rested: u64,
    /// Streams that came to linger: when, their sessions and numbers.
    line: Vec<(Moment, usize, u32)>,
    /// Exchanges that began.
    serial: u32,
}

impl Pair {
    fn new() -> Self {
        let (keys, model) = (Vec::new(), Vec::new());
        let table = sessions(BOUNDS);
        Self { table, keys, model, now: at(1), rested: 0, line: Vec::new(), serial: 0 }
    }

    /// The key of a session and its model, which is none where it has gone.
    fn pick(&mut self, session: usize) -> Option<(Key, Option<&mut ModelSession>)> {
        let index = (self.keys.len().checked_sub(1)?).checked_sub(session)?;
        Some((self.keys[index], self.model[index].as_mut()))
    }

    fn exchange(&mut self) -> ExchangeAddress {
        self.serial += 1;
        exchange(self.serial)
    }

    /// The longest idle session.
    fn idlest(&self) -> Option<(usize, Moment)> {
        let idle = |session: &Option<ModelSession>| session.as_ref().and_then(|held| held.idle);
        let line = self.model.iter().enumerate();
        let line = line.filter_map(|(index, session)| Some((idle(session)?, index)));
        line.min_by_key(|((_, order), _)| *order).map(|((since, _), index)| (index, since))
    }

    /// The stream of a session may have come to linger.
    fn line_up(&mut self, session: usize, number: u32) {
        let index = self.keys.len() - 1 - session;
        let held = self.model[index].as_mut();
        let stream = held.and_then(|held| held.streams.get_mut(&number));
        if let Some(stream) = stream.filter(|stream| stream.lingers()) {
            stream.since = self.now;
            self.line.push((self.now, index, number));
        }
        while self.line.len() > BOUNDS.lingering_max {
            self.let_go_first();
        }
    }

    /// The first of the line goes, unless it has gone or was resumed since.
    fn let_go_first(&mut self) {
        let (since, index, number) = self.line.remove(0);
        if let Some(held) = &mut self.model[index] {
            held.streams.retain(|at, it| *at != number || !it.lingers() || it.since != since);
        }
    }

    fn let_go(&mut self) {
        self.table.let_go(self.now);
        while self.line.first().is_some_and(|(at, ..)| at.after(BOUNDS.linger) <= self.now) {
            self.let_go_first();
        }
    }

    fn event_bytes(&self) -> usize {
        let streams = self.model.iter().flatten().flat_map(|session| session.streams.values());
        streams.map(ModelStream::bytes).sum()
    }

    /// A session of the model goes; the table says which one it let go.
    fn go(&mut self, index: usize, gone: &Gone<usize>) {
        let session = self.model[index].take().unwrap();
        let exchanges = session.streams.values().filter_map(|stream| stream.exchange);
        assert_eq!((gone.session, gone.key), (index, self.keys[index]));
        assert_eq!(gone.exchanges, exchanges.collect::<Vec<_>>());
        assert!(!self.table.has(gone.key));
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Advance { seconds } => {
                self.now = self.now.after(Duration::from_secs(seconds));
            }
            Step::Begin => self.begin(),
            Step::Expire => self.expire(),
            Step::LetGo => self.let_go(),
            Step::Remove { session } => {
                let Some((key, held)) = self.pick(session) else { return };
                let is_held = held.is_some();
                let gone = self.table.remove(key);
                assert_eq!(gone.is_some(), is_held);
                if let Some(gone) = gone {
                    self.go(gone.session, &gone);
                }
            }
            Step::BeginRequest { session } | Step::EndRequest { session } => {
                let begins = matches!(step, Step::BeginRequest { .. });
                self.count(session, begins);
            }
            Step::Touch { session } => {
                let Some((key, held)) = self.pick(session) else { return };
                // It is idle anew, if it is.
                if let Some(held) = held {
                    held.idle = None;
                }
                self.table.touch(key, self.now);
            }
            _ => self.step_streams(step),
        }
    }

    fn begin(&mut self) {
        let index = self.keys.len();
        let is_full = self.table.len() >= BOUNDS.sessions_max;
        let idlest = self.idlest();
        match self.table.begin(index, self.now) {
            Err(refusal) => {
                assert_eq!((refusal, is_full, idlest), (Refusal::Full, true, None));
            }
            Ok(Begun { key, id }) => {
                let evicted = self.table.make_room(key);
                assert_eq!(evicted.is_some(), is_full);
                if let (Some(gone), Some((idlest, _))) = (evicted, idlest) {
                    self.go(idlest, &gone);
                }
                assert_eq!(self.table.find(id), Some(key));
                let streams = BTreeMap::new();
                let session = ModelSession { in_flight: 0, idle: None, opened: 0, streams };
                self.keys.push(key);
                self.model.push(Some(session));
            }
        }
    }

    fn expire(&mut self) {
        let due = self.idlest().filter(|(_, since)| since.after(BOUNDS.ttl) <= self.now);
        let gone = self.table.expire(self.now);
        assert_eq!(gone.is_some(), due.is_some());
        if let (Some(gone), Some((index, _))) = (gone, due) {
            self.go(index, &gone);
        }
    }

    fn count(&mut self, session: usize, begins: bool) {
        let now = self.now;
        let Some((key, held)) = self.pick(session) else { return };
        match held {
            Some(held) if begins => {
                held.in_flight += 1;
                assert!(self.table.begin_request(key));
            }
            Some(held) => {
                // A request that runs ends once.
                let Some(left) = held.in_flight.checked_sub(1) else { return };
                held.in_flight = left;
                self.table.end_request(key, now);
            }
            None if begins => assert!(!self.table.begin_request(key)),
            // What ran when its session went ends later.
            None => self.table.end_request(key, now),
        }
    }

    fn step_streams(&mut self, step: &Step) {
        let own = self.exchange();
        let now = self.now;
        match *step {
            Step::Open { session } => {
                let Some((key, held)) = self.pick(session) else { return };
                let wanted = held.map_or(Err(Refusal::Session), |held| held.open(own));
                assert_eq!(self.table.open(key, own), wanted);
            }
            Step::Listen { session } => {
                let Some((key, held)) = self.pick(session) else { return };
                let wanted = held.map_or(Err(Refusal::Session), |held| held.listen(own));
                assert_eq!(self.table.listen(key, own), wanted);
            }
            Step::Resume { session, stream, after } => {
                let Some((key, held)) = self.pick(session) else { return };
                let stream = held.as_ref().map_or(stream, |held| held.number(stream));
                let last = held.as_ref().and_then(|held| Some(held.streams.get(&stream)?.last));
                let after = last.map_or(after, |last| (last + 1).saturating_sub(after));
                let resume = |held: &mut ModelSession| held.resume(stream, after, own);
                let wanted = held.map_or(Err(Refusal::Session), resume);
                assert_eq!(self.table.resume(key, stream, after, own), wanted);
            }
            Step::Push { session, stream, bytes } => {
                if self.pick(session).is_none() {
                    return;
                }
                let room = |pair: &Self| BOUNDS.event_bytes_max - pair.event_bytes();
                while room(self) < cost(bytes) && !self.line.is_empty() {
                    self.let_go_first();
                }
                let room = room(self);
                let Some((key, held)) = self.pick(session) else { return };
                let stream = held.as_ref().map_or(stream, |held| held.number(stream));
                let wanted = held.and_then(|held| held.push(stream, bytes, room));
                let text = Bytes::from(vec![b'x'; bytes]);
                assert_eq!(self.table.push(key, stream, text), wanted);
            }
            Step::Finish { session, stream } => {
                let Some((key, held)) = self.pick(session) else { return };
                let stream = held.as_ref().map_or(stream, |held| held.number(stream));
                let wanted = held.and_then(|held| held.finish(stream));
                assert_eq!(self.table.finish(key, stream, now), wanted);
                self.line_up(session, stream);
            }
            Step::Detach { session, stream, exchange: serial, is_sent } => {
                let Some((key, held)) = self.pick(session) else { return };
                let stream = held.as_ref().map_or(stream, |held| held.number(stream));
                let carried = held.as_ref().and_then(|held| held.streams.get(&stream)?.exchange);
                let address = serial.map(exchange).or(carried).unwrap_or(own);
                let wanted = held.is_some_and(|held| held.detach(stream, address, is_sent));
                assert_eq!(self.table.detach(key, stream, address, is_sent, now), wanted);
                if wanted {
                    self.line_up(session, stream);
                }
            }
            _ => unreachable!("every other step is one of sessions"),
        }
    }

    /// Notes who has become idle by the last step, and compares what can be seen.
    fn compare(&mut self) {
        for session in self.model.iter_mut().flatten() {
            if session.is_active() {
                session.idle = None;
            } else if session.idle.is_none() {
                self.rested += 1;
                session.idle = Some((self.now, self.rested));
            }
        }
        self.table.check();
        let live = || self.model.iter().flatten();
        let streams = || live().flat_map(|session| session.streams.values());
        assert_eq!(self.table.len(), live().count());
        let attached = streams().filter(|stream| stream.exchange.is_some()).count();
        assert_eq!(self.table.attached(), attached);
        let expiry = self.idlest().map(|(_, since)| since.after(BOUNDS.ttl));
        let lingering = self.line.first().map(|(since, ..)| since.after(BOUNDS.linger));
        let deadline = [expiry, lingering].into_iter().flatten().min();
        assert_eq!(self.table.deadline(), deadline);
        for (index, session) in self.model.iter().enumerate() {
            let key = self.keys[index];
            assert_eq!(self.table.session(key).copied(), session.as_ref().map(|_| index));
            let streams = session.iter().flat_map(|session| &session.streams);
            for (number, stream) in streams {
                assert_eq!(self.table.exchange(key, *number), stream.exchange);
                let replayed = self.table.replay(key, *number, 0);
                let replayed = replayed.map(|(number, text)| (number, text.len()));
                assert!(replayed.eq(stream.events.iter().copied()));
            }
        }
    }
}

proptest! {
    #[test]
    fn the_table_agrees_with_the_model_after_any_steps(steps in steps()) {
        let mut pair = Pair::new();
        for step in &steps {
            pair.step(step);
            pair.compare();
        }
    }
}
