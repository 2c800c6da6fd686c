//! Lanes that come and go.

use std::io;

use corelane::base::time::Moment;
use corelane::engine::ring::{Operation, Ring, Socket};

use super::crew::ADVICE;
use super::job::Route;
use super::lane::State;
use super::worker::{Stage, Worker};
use crate::dialogue::{Books, Event, Opening, Progress, Refused};
use crate::measure::outcome::Failure;
use crate::schedule::Share;

/// In how many sweeps every lane is looked at once.
const SWEEPS: usize = 200;
/// Lanes that every sweep looks at, however few there are.
const SWEPT_MIN: usize = 16;

impl<R: Ring> Worker<R> {
    /// Connects lanes whose time has come, some at a time.
    pub(super) fn connect_more(&mut self) {
        // However many they are: that they come at once is what they are for.
        while let Some(index) = self.next_returning() {
            self.begin_connect(index);
        }
        while self.connecting < self.job.limits.connecting_max
            && let Some(&index) = self.away.front()
        {
            let lane = &self.lanes[index as usize];
            if matches!(lane.state, State::Away { until } if until > self.now)
                || !self.pacing.take(self.now)
            {
                return;
            }
            self.away.pop_front();
            self.begin_connect(index);
        }
    }

    fn begin_connect(&mut self, index: u32) {
        let lane = &mut self.lanes[index as usize];
        lane.state = State::Connecting;
        lane.began = self.now;
        self.connecting += 1;
        if let Some(spawning) = &self.spawning {
            return spawning.start(index);
        }
        let Route { address, from } = self.route(index);
        self.ring.submit(Operation::Connect { address, from, token: u64::from(index) });
    }

    /// The route of a lane: those of all workers together take the routes in turn.
    fn route(&self, index: u32) -> Route {
        let Share { worker, workers } = self.share;
        let number = index as usize * workers.max(1) as usize + worker as usize;
        self.routes[number % self.routes.len()]
    }

    /// When the next lane may be connected, where that waits for its time and for nothing else.
    #[inline]
    pub(super) fn connect_at(&self) -> Option<Moment> {
        let &index = self.away.front()?;
        if self.connecting >= self.job.limits.connecting_max {
            return None;
        }
        let State::Away { until } = self.lanes[index as usize].state else { return None };
        Some(self.pacing.next().map_or(until, |next| next.max(until)))
    }

    /// The kernel has connected a lane, or has not.
    pub(super) fn connected(&mut self, token: u64, result: io::Result<Socket>) {
        let Ok(index) = usize::try_from(token) else { return };
        match result {
            Ok(socket) => self.begin(index, (socket, socket)),
            Err(error) => {
                self.connecting -= 1;
                let said = format!("{error}; {ADVICE}");
                self.refuse(index, Refused { failure: Failure::Connect, said });
            }
        }
    }

    /// A lane has got what it hears and what it says: its opening begins.
    pub(super) fn begin(&mut self, index: usize, (hears, says): (Socket, Socket)) {
        for socket in [hears, says] {
            if self.places.len() <= socket.index() {
                self.places.resize(socket.index() + 1, u32::MAX);
            }
            self.places[socket.index()] = u32::try_from(index).unwrap_or(u32::MAX);
        }
        self.ring.submit(Operation::Receive(hears));
        let lane = &mut self.lanes[index];
        (lane.hears, lane.says) = (Some(hears), Some(says));
        (lane.is_leaving, lane.is_lost) = (false, false);
        lane.state = State::Opening(Box::new(Opening::new(&self.job.speech)));
        if self.job.tls.is_some() {
            return self.begin_handshake(index);
        }
        self.begin_dialogue(index);
    }

    /// Nothing is between a lane and its server any more: the first words are said.
    pub(super) fn begin_dialogue(&mut self, index: usize) {
        if let State::Opening(opening) = &self.lanes[index].state {
            let progress = opening.begin(&self.job.speech);
            self.proceed(index, progress);
        }
    }

    /// Bytes have come for a lane that is being opened.
    #[cold]
    pub(super) fn hear_opening(&mut self, index: usize, bytes: &[u8]) {
        let mut arrived = bytes;
        while let State::Opening(opening) = &mut self.lanes[index].state {
            match opening.hear(&self.job.speech, std::mem::take(&mut arrived)) {
                Ok(Progress::Wait) => return,
                Ok(progress) => self.proceed(index, progress),
                Err(refused) => return self.break_off(index, refused),
            }
        }
    }

    fn proceed(&mut self, index: usize, progress: Progress) {
        match progress {
            Progress::Wait => return,
            Progress::Say(words) => self.say(index, &words),
            Progress::Open(words) => {
                self.say(index, &words);
                let listens = self.listens(index);
                let lane = &mut self.lanes[index];
                let away = State::Away { until: self.now };
                if let State::Opening(opening) = std::mem::replace(&mut lane.state, away) {
                    let (reader, begun, session) = opening.finish();
                    if listens {
                        return self.begin_listening(index, (reader, begun, session));
                    }
                    let books = Books::new(reader, begun, session);
                    self.connecting -= 1;
                    self.open += 1;
                    if index < self.slow_lanes {
                        self.begin_reading(index, books);
                    } else {
                        lane.state = State::Open(books);
                        self.list(index);
                    }
                    self.note_opened(index);
                }
            }
        }
        self.cork(index);
    }

    /// A lane is over: what it owes has failed, and its socket is closed.
    #[cold]
    pub(super) fn end(&mut self, index: usize, failure: Failure) {
        let lane = &mut self.lanes[index];
        if !matches!(lane.state, State::Closing) {
            lane.is_lost = failure == Failure::Closed && !lane.is_leaving;
        }
        match std::mem::replace(&mut lane.state, State::Closing) {
            State::Open(mut books) => {
                self.open -= 1;
                self.tally.period.lost += u64::from(!lane.is_leaving);
                let (tally, now) = (&mut self.tally, self.now);
                books.abandon(failure, |event| {
                    if let Event::Concluded(concluded) = event {
                        tally.conclude(concluded, now);
                    }
                });
            }
            State::Listening(listening) => {
                let is_lost = !lane.is_leaving;
                if !self.stop_listening(&listening, is_lost) {
                    let said = "the server closed the connection".into();
                    return self.break_off(index, Refused { failure: Failure::Closed, said });
                }
            }
            State::Slow(_) => {
                self.open -= 1;
                self.tally.period.slow.closed += 1;
            }
            State::Parting(_) => self.open -= 1,
            opening @ State::Opening(_) => {
                lane.state = opening;
                let refused = lane.cut_off();
                return self.break_off(index, refused);
            }
            // Without a socket there is nothing to close.
            other @ (State::Away { .. } | State::Connecting) => {
                lane.state = other;
                return;
            }
            State::Closing => return,
        }
        self.close(index);
    }

    /// An opening has come to nothing.
    #[cold]
    pub(super) fn break_off(&mut self, index: usize, refused: Refused) {
        if self.spawning.is_some() && self.lanes[index].is_lost {
            // Its status and last words, which come with its end, say more than that it closed.
            self.tally.period.openings.refuse(refused.failure);
        } else {
            self.note_refusal(refused);
        }
        self.connecting -= 1;
        self.lanes[index].state = State::Closing;
        self.close(index);
    }

    pub(super) fn close(&mut self, index: usize) {
        let lane = &mut self.lanes[index];
        lane.outgoing = Vec::new();
        if let Some(hears) = lane.hears {
            self.take_leave(index, hears);
            self.ring.submit(Operation::Close(hears));
        }
        let lane = &self.lanes[index];
        if let Some(says) = lane.says.filter(|says| lane.hears != Some(*says)) {
            self.ring.submit(Operation::Close(says));
        }
    }

    /// The kernel has closed a socket: its lane comes back after a while.
    pub(super) fn closed(&mut self, socket: Socket) {
        let Some(index) = self.lane_of(socket) else { return };
        self.places[socket.index()] = u32::MAX;
        let lane = &mut self.lanes[index];
        lane.hears = lane.hears.filter(|hears| *hears != socket);
        lane.says = lane.says.filter(|says| *says != socket);
        if lane.hears.is_some() || lane.says.is_some() {
            return;
        }
        lane.is_sending = false;
        // Its process has to end before it comes back.
        match &self.spawning {
            Some(spawning) => spawning.stop(index),
            None => self.come_back(index),
        }
    }

    /// A lane is closed with all that it had: it comes back at once or after a while.
    pub(super) fn come_back(&mut self, index: usize) {
        if !self.comes_back(index) {
            self.stay_away(index);
        }
    }

    pub(super) fn stay_away(&mut self, index: usize) {
        let until = self.now.after(self.job.limits.retry_after);
        self.lanes[index].state = State::Away { until };
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        match &mut self.spawning {
            Some(spawning) if self.stage == Stage::Connecting => spawning.give_up(index),
            _ => self.away.push_back(index),
        }
    }

    fn refuse(&mut self, index: usize, refused: Refused) {
        self.note_refusal(refused);
        self.stay_away(index);
    }

    pub(super) fn note_refusal(&mut self, refused: Refused) {
        self.tally.period.openings.refuse(refused.failure);
        self.tell(refused);
    }

    /// Keeps why a connection did not open, or what broke one.
    pub(super) fn tell(&mut self, refused: Refused) {
        let Refused { failure, said } = refused;
        let fields = &self.job.speech.fields;
        let said = fields.iter().fold(said, |said, field| field.conceal(said));
        self.tally.period.refused = Some(format!("{failure}: {said}"));
    }

    /// Looks at some lanes: what waits too long is given up, and those that were to leave go. Few
    /// at a time, because what is due waits for it and most lanes are in no cache.
    pub(super) fn sweep(&mut self) {
        let answer_max = self.job.limits.answer_max;
        // Before the clock has run that long nothing can be late.
        let past = self.now.since(Moment::ORIGIN).saturating_sub(answer_max);
        let before = Moment::ORIGIN.after(past);
        let count = (self.lanes.len() / SWEEPS).max(SWEPT_MIN).min(self.lanes.len());
        for _ in 0..count {
            let index = self.sweep_at;
            self.sweep_at = (index + 1) % self.lanes.len();
            let (tally, now) = (&mut self.tally, self.now);
            let lane = &mut self.lanes[index];
            // What has been given up may be owed for ever.
            let is_late = lane.departure.as_ref().is_some_and(|leaving| leaving.asked < before);
            match &mut lane.state {
                State::Open(books) => {
                    books.give_up(before, |event| {
                        if let Event::Concluded(concluded) = event {
                            tally.conclude(concluded, now);
                        }
                    });
                    let is_idle = books.in_flight() == 0;
                    if is_idle {
                        books.rest();
                    }
                    if lane.is_leaving && (is_late || is_idle) {
                        self.end(index, Failure::Closed);
                    }
                }
                State::Listening(_) => self.sweep_listening(index),
                State::Opening(_) if now.since(lane.began) > self.job.limits.connect_max => {
                    let refused = lane.given_up();
                    self.break_off(index, refused);
                }
                State::Parting(_) if is_late => self.part(index, false),
                _ => {}
            }
        }
    }
}
