//! One worker: a ring, its lanes, its share of the schedule.
//!
//! A turn parks until something completes or something is due, hears what came, sends what is due,
//! and leaves: one enter of the kernel, however many connections had something to say. Shortly
//! before something is due it does not park but looks again and again: a timer costs more than a
//! request, and comes late.

use std::collections::VecDeque;
use std::time::Duration;

use corelane::base::random::Random;
use corelane::base::time::Moment;
use corelane::engine::ring::{Completion, Lease, Patience, Ring, Socket};

use super::churning::Churning;
use super::job::{Drive, Job, Route};
use super::lane::{Lane, State};
use super::listening::Audience;
use super::pacing::Pacing;
use super::period::{Period, Tally};
use super::spawning::Spawning;
use crate::dialogue::{Books, Calls, Event, judge};
use crate::measure::outcome::Failure;
use crate::schedule::{Arrivals, Share};
use crate::wire::tls::Scratch;

/// How often some of the lanes are looked at that wait for something that may never come.
const SWEEP_EVERY: Duration = Duration::from_millis(5);
/// A look at the ring that takes longer than this was no look: somebody else had the core.
const LOOK_MAX: Duration = Duration::from_micros(50);

/// One worker of a run.
#[derive(Debug)]
pub(super) struct Worker<R> {
    pub(super) ring: R,
    pub(super) job: Job,
    pub(super) share: Share,
    pub(super) calls: Calls,
    /// The weights of the calls, each with those before it.
    pub(super) weights: Vec<u64>,
    pub(super) random: Random,
    pub(super) lanes: Vec<Lane>,
    /// From socket to lane.
    pub(super) places: Vec<u32>,
    /// Lanes that may have room, those that waited longest first.
    pub(super) free: VecDeque<u32>,
    /// Lanes with something to send.
    pub(super) corked: Vec<u32>,
    /// Buffers that no send has at present.
    pub(super) spare: Vec<Vec<u8>>,
    /// Lanes that wait to be connected.
    pub(super) away: VecDeque<u32>,
    pub(super) connecting: usize,
    /// Where lanes are connected to, and from where.
    pub(super) routes: Vec<Route>,
    pub(super) pacing: Pacing,
    pub(super) open: u64,
    /// Requests that are due and wait for a lane, by their intended moments.
    pub(super) due: VecDeque<Moment>,
    /// More of them, or more room, than one turn has sent.
    has_more: bool,
    /// Who comes and goes, where somebody does.
    pub(super) churning: Option<Box<Churning>>,
    /// How many lanes read slowly: the first ones.
    pub(super) slow_lanes: usize,
    /// From when on they do.
    pub(super) slow_from: Moment,
    pub(super) arrivals: Option<std::iter::Peekable<Arrivals>>,
    pub(super) now: Moment,
    pub(super) stage: Stage,
    swept: Moment,
    /// The lane at which the next sweep goes on.
    pub(super) sweep_at: usize,
    pub(super) tally: Tally,
    /// Those that listen, where anybody does.
    pub(super) audience: Option<Audience>,
    /// Where connections are processes.
    pub(super) spawning: Option<Spawning>,
    completions: Vec<Completion>,
    /// Handshakes of TLS that have failed.
    pub(super) unsealed: usize,
    /// What filters work with.
    scratch: Scratch,
}

/// What a worker does at present.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Stage {
    /// Connections are opened; no request leaves.
    Connecting,
    /// Requests leave.
    Driving,
    /// No request leaves any more; answers are waited for.
    Draining,
}

impl<R: Ring> Worker<R> {
    /// A worker with its share of the connections of `job`, none of them open.
    pub(super) fn new(mut ring: R, mut job: Job, share: Share) -> Self {
        job.tls = job.tls.map(|tls| tls.apart());
        let connections = share.part(job.connections);
        let audience = Audience::new(&job, share, connections);
        let lanes = connections + audience.as_ref().map_or(0, Audience::lanes_all);
        let calls = job.calls.iter().map(|(call, _)| call);
        let publish = job.listen.as_ref().map(|listen| &listen.publish);
        let calls = Calls::new(calls.chain(publish).cloned().collect());
        let publishing = publish.and_then(|_| u16::try_from(job.calls.len()).ok());
        let weights = job.calls.iter().scan(0, |sum, (_, weight)| {
            *sum += u64::from(*weight);
            Some(*sum)
        });
        let now = ring.park(Patience::None);
        Self {
            ring,
            share,
            calls,
            weights: weights.collect(),
            random: Random::seeded(job.seed ^ u64::from(share.worker).wrapping_mul(0x9E37_79B9)),
            lanes: lanes_of(lanes, audience.as_ref().and_then(|audience| audience.publisher)),
            places: Vec::new(),
            free: VecDeque::with_capacity(connections),
            corked: Vec::new(),
            spare: Vec::new(),
            away: (0..).take(lanes).collect(),
            connecting: 0,
            routes: job.routes(),
            pacing: Pacing::new(job.connect.rate, share, now),
            open: 0,
            due: VecDeque::new(),
            has_more: false,
            churning: job.churn.map(|_| Box::new(Churning::new())),
            slow_lanes: job.readers.map_or(0, |readers| share.part(readers.slow)),
            slow_from: Moment::ORIGIN,
            arrivals: None,
            now,
            stage: Stage::Connecting,
            swept: now,
            sweep_at: 0,
            tally: Tally { period: Box::default(), measured_from: Moment::ORIGIN, publishing },
            audience,
            spawning: None,
            completions: Vec::with_capacity(1_024),
            unsealed: 0,
            scratch: Scratch::default(),
            job,
        }
    }

    /// Opens the connections; returns when all of them are open, or the time for it is over: how
    /// many are, and why the last that is not is not.
    pub(super) fn connect(&mut self) -> (u64, Option<String>) {
        let deadline = self.now.after(self.job.limits.connect_max);
        let lanes = self.lanes.len() as u64;
        while self.open + self.given_up() < lanes && self.now < deadline && !self.is_hopeless() {
            self.turn(deadline);
        }
        if self.open == 0 {
            self.note_silence();
        }
        let refused = self.tally.period.refused.take();
        (self.open, refused.filter(|_| self.open < lanes))
    }

    /// Streams that are open.
    pub(super) fn listening(&self) -> u64 {
        self.audience.as_ref().map_or(0, |audience| audience.open as u64)
    }

    /// Drives the server from `begin` on. `tell` is called about once a second with what happened
    /// in it, and gives an empty period back. Returns when every answer has come or was given up.
    pub(super) fn drive(
        &mut self,
        begin: Moment,
        mut tell: impl FnMut(Box<Period>) -> Box<Period>,
    ) {
        const SECOND: Duration = Duration::from_secs(1);
        let end = begin.after(self.job.drive.span());
        self.tally.measured_from = begin.after(self.job.warm_up);
        // Another worker may publish while this one is not awake yet.
        self.begin_publishing(begin, end);
        while self.now < begin {
            self.turn(begin);
        }
        // How the connections came about belongs to the run, and what was heard on waking.
        let openings = std::mem::take(&mut self.tally.period.openings);
        let listened = std::mem::take(&mut self.tally.period.listened);
        self.tally.period.clear();
        (self.tally.period.openings, self.tally.period.listened) = (openings, listened);
        self.stage = Stage::Driving;
        self.try_again();
        if let Some(churning) = &mut self.churning {
            churning.begin(&self.job, self.share, begin);
        }
        if let Some(readers) = &self.job.readers {
            self.slow_from = begin.after(readers.at);
        }
        if let Drive::Open { profile, pace } = &self.job.drive {
            let arrivals = Arrivals::new(profile.clone(), *pace, self.share, self.job.seed, begin);
            self.arrivals = Some(arrivals.peekable());
        }
        let mut next = begin.after(SECOND);
        let last = end.after(self.job.limits.drain());
        loop {
            if self.now >= end && self.stage == Stage::Driving {
                self.stage = Stage::Draining;
            }
            let is_over = self.stage == Stage::Draining
                && (self.is_answered() && self.has_heard() || self.now >= last);
            if is_over {
                self.conclude_rest();
            }
            if self.now >= next || is_over {
                next = next.after(SECOND);
                self.tally.period.open = self.open;
                self.tally.period.until = self.now.since(begin);
                self.tally.period = tell(std::mem::take(&mut self.tally.period));
            }
            if is_over {
                return;
            }
            let until = if self.stage == Stage::Driving { end } else { last };
            self.turn(until.min(next));
        }
    }

    /// The run is over: what still waits for a lane was not sent, and what waits for its answer did
    /// not get it.
    fn conclude_rest(&mut self) {
        self.conclude_churn();
        self.conclude_listening();
        let (from, period) = (self.tally.measured_from, &mut self.tally.period);
        for _ in self.due.drain(..).filter(|intended| *intended >= from) {
            period.outcomes.fail(Failure::Unsent);
        }
        let unseen = self.arrivals.iter_mut().flatten();
        for intended in unseen.filter(|intended| *intended >= from) {
            // Nobody looked at it in time, which is nobody's fault but the generator's.
            let lag = self.now.since(intended).as_nanos();
            period.lag.saturating_record(u64::try_from(lag).unwrap_or(u64::MAX));
            period.due += 1;
            period.outcomes.fail(Failure::Unsent);
        }
        let (tally, now) = (&mut self.tally, self.now);
        for lane in &mut self.lanes {
            if let State::Open(books) = &mut lane.state {
                books.abandon(Failure::Timeout, |event| {
                    if let Event::Concluded(concluded) = event {
                        tally.conclude(concluded, now);
                    }
                });
            }
        }
    }

    /// Whether nothing that was due waits: to be looked at, for a lane or for its answer; and
    /// nobody is to come back.
    fn is_answered(&mut self) -> bool {
        let owes = |lane: &Lane| match &lane.state {
            State::Open(books) => books.in_flight() > 0,
            State::Slow(reading) => reading.books.in_flight() > 0,
            _ => false,
        };
        let has_next = self.arrivals.as_mut().is_some_and(|next| next.peek().is_some());
        let is_settled = self.churning.as_mut().is_none_or(|churning| churning.is_settled());
        is_settled && !has_next && self.due.is_empty() && !self.lanes.iter().any(owes)
    }

    /// One turn, which waits no longer than until `until`.
    fn turn(&mut self, until: Moment) {
        let begun = self.now;
        let patience = self.patience(until);
        self.now = self.ring.park(patience);
        let mut completions = std::mem::take(&mut self.completions);
        self.ring.reap(&mut completions);
        let is_quiet = completions.is_empty();
        for completion in completions.drain(..) {
            self.complete(completion);
        }
        self.completions = completions;
        if self.churning.is_some() {
            self.churn();
        }
        if self.spawning.is_some() {
            self.hear_keeper();
        }
        self.has_more = self.send_due();
        self.publish_due();
        if is_quiet && self.corked.is_empty() && patience == Patience::None {
            let looked = self.now.since(begun);
            if looked <= LOOK_MAX {
                self.tally.period.spun += looked;
            }
        }
        if self.now >= self.swept.after(SWEEP_EVERY) {
            self.swept = self.now;
            self.sweep();
            self.tend_readers();
        }
        self.connect_more();
        self.flush();
    }

    /// How long nothing can become due, less the stretch before it that is spent awake.
    fn patience(&mut self, until: Moment) -> Patience {
        if self.has_more {
            return Patience::None;
        }
        let mut wake = until.min(self.swept.after(SWEEP_EVERY));
        let replaced = self.churning.as_mut().and_then(|churning| churning.next_at());
        for at in self.connect_at().into_iter().chain(replaced) {
            wake = wake.min(at);
        }
        let rest = wake.since(self.now);
        let arrival = self.arrivals.as_mut().and_then(|arrivals| arrivals.peek()).copied();
        let due = [arrival, self.next_publication()].into_iter().flatten().min();
        let free = due.map_or(rest, |due| {
            due.since(self.now).saturating_sub(self.job.limits.spin_max).min(rest)
        });
        match free {
            Duration::ZERO => Patience::None,
            span => Patience::For(span),
        }
    }

    fn complete(&mut self, completion: Completion) {
        match completion {
            Completion::Received { socket, lease } => self.receive(socket, lease),
            Completion::Sent { socket, buffer, result } => {
                self.sent(socket, buffer, result);
            }
            Completion::Connected { token, result } => self.connected(token, result),
            Completion::Ended { socket, .. } => {
                if let Some(index) = self.lane_of(socket) {
                    self.end(index, Failure::Closed);
                }
            }
            Completion::Closed { socket } => self.closed(socket),
            Completion::Accepted { .. } | Completion::AcceptFailed { .. } => {}
        }
    }

    #[inline]
    pub(super) fn lane_of(&self, socket: Socket) -> Option<usize> {
        let place = *self.places.get(socket.index())?;
        (place != u32::MAX).then_some(place as usize)
    }

    #[inline]
    fn receive(&mut self, socket: Socket, lease: Lease) {
        if let Some(index) = self.lane_of(socket) {
            let bytes = &self.ring.bytes(&lease)[..lease.length as usize];
            let lane = &mut self.lanes[index];
            if let Some(filter) = &mut lane.filter {
                let was_opening = filter.is_opening();
                let mut scratch = std::mem::take(&mut self.scratch);
                let heard = filter.hear(bytes, &mut scratch);
                self.hear_plain(index, (was_opening, heard), &scratch.plain);
                scratch.plain.clear();
                self.scratch = scratch;
            } else if let State::Open(books) = &mut lane.state {
                let follows = listen(books, (&mut self.calls, &mut self.tally), self.now, bytes);
                self.follow(index, follows);
            } else if let State::Listening(listening) = &mut lane.state {
                if let Some(audience) = &mut self.audience {
                    let told = (&mut self.tally, self.now);
                    let heed = audience.hear((index, listening), bytes, told);
                    self.heed(index, heed);
                }
            } else {
                let bytes = bytes.to_vec();
                self.hear(index, &bytes);
            }
        }
        self.ring.release(lease);
    }

    /// Hears what a lane was told, where it is not in the hands of the ring.
    pub(super) fn hear(&mut self, index: usize, bytes: &[u8]) {
        match &mut self.lanes[index].state {
            State::Open(books) => {
                let follows = listen(books, (&mut self.calls, &mut self.tally), self.now, bytes);
                self.follow(index, follows);
            }
            State::Listening(listening) => {
                if let Some(audience) = &mut self.audience {
                    let told = (&mut self.tally, self.now);
                    let heed = audience.hear((index, listening), bytes, told);
                    self.heed(index, heed);
                }
            }
            State::Opening(_) => self.hear_opening(index, bytes),
            State::Slow(_) => self.hear_slowly(index, bytes),
            State::Parting(parting) => {
                if let Some(is_agreed) = parting.hear(bytes) {
                    self.part(index, is_agreed);
                }
            }
            _ => {}
        }
    }

    /// Does what hearing something asks for.
    #[inline]
    fn follow(&mut self, index: usize, follows: Follows) {
        let Follows { answers, words, is_closing, is_broken } = follows;
        if is_broken {
            return self.end(index, Failure::Garbage);
        }
        if !words.is_empty() || !answers.is_empty() {
            self.say(index, &words);
            for (id, is_ping) in answers {
                let text = judge::answer(&id, is_ping);
                let framed = self.job.speech.frame(&text);
                self.say(index, &framed);
            }
            self.cork(index);
        }
        if is_closing {
            self.lanes[index].is_leaving = true;
        }
        if self.lanes[index].is_leaving {
            return self.leave(index);
        }
        self.list(index);
    }
}

/// Hears what arrived on a lane that is open, and counts what came of it.
#[inline]
fn listen(
    books: &mut Books,
    (calls, tally): (&mut Calls, &mut Tally),
    now: Moment,
    bytes: &[u8],
) -> Follows {
    let mut follows = Follows::default();
    let heard = books.hear(calls, bytes, |event| match event {
        Event::Concluded(concluded) => tally.conclude(concluded, now),
        Event::Unasked => tally.period.outcomes.unasked += 1,
        Event::Notice => tally.period.outcomes.notices += 1,
        Event::Streamed => tally.period.outcomes.streamed += 1,
        Event::Asked { id, is_ping } => follows.answers.push((id, is_ping)),
        Event::Say(bytes) => follows.words.extend_from_slice(&bytes),
        Event::Closing => follows.is_closing = true,
    });
    follows.is_broken = heard.is_err();
    follows
}

/// So many lanes that have not been connected. The one that publishes is listed from the start, so
/// that it never comes among those with room.
fn lanes_of(count: usize, publisher: Option<usize>) -> Vec<Lane> {
    let mut lanes: Vec<Lane> = std::iter::repeat_with(Lane::new).take(count).collect();
    if let Some(lane) = publisher.and_then(|publisher| lanes.get_mut(publisher)) {
        lane.is_listed = true;
    }
    lanes
}

/// What hearing something asks for beyond counting.
#[derive(Debug, Default)]
struct Follows {
    answers: Vec<(String, bool)>,
    words: Vec<u8>,
    is_closing: bool,
    is_broken: bool,
}
