//! One simulated client: does its acts in virtual time and checks what it hears.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use corelane::base::random::Random;
use corelane::base::time::Moment;

use crate::talk::conversation::{Conversation, Standing};
use crate::talk::dialogue::Act;
use crate::tally::Tally;
use crate::world::lane::NAP_MAX;
use crate::world::wire::Wire;

/// What decides whether a connection may end without its client.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(crate) struct Climate {
    /// Connections may be reset or lost.
    pub(crate) has_resets: bool,
    /// There is one client, and it speaks through a pipe and hears through another.
    pub(crate) is_piped: bool,
    /// There may be more clients than there is room for.
    pub(crate) has_refusals: bool,
    /// The memory of all connections together may run out.
    pub(crate) has_shortage: bool,
    pub(crate) lease_max: Duration,
    pub(crate) idle_max: Duration,
    /// When the server was told to drain, and for how long it may.
    pub(crate) drain: Option<(Moment, Duration)>,
    /// When time has jumped the last time.
    pub(crate) jumped: Option<Moment>,
}

/// What a client has to bear.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habits {
    /// It reads slowly.
    pub(crate) is_slow: bool,
    /// So much may wait for it that progress is left out.
    pub(crate) may_miss_progress: bool,
    /// As many of its calls may be in flight.
    pub(crate) calls_in_flight_max: usize,
}

/// One client on one connection.
#[derive(Debug)]
pub(crate) struct Client {
    number: usize,
    wire: Wire,
    acts: VecDeque<Act>,
    random: Random,
    pub(crate) conversation: Conversation,
    /// Bytes of the present act that are still to be written.
    unsaid: VecDeque<u8>,
    /// Heard of a line whose end has not come.
    partial: Vec<u8>,
    next: Moment,
    connected: Moment,
    /// When it last said a whole message.
    said: Option<Moment>,
    /// The longest time without one, so far.
    silence_max: Duration,
    has_finished: bool,
    is_slow: bool,
    /// Leaves its side open when the server has ended.
    lingers: bool,
    /// When it was over.
    ended: Option<Moment>,
    /// What it heard and when, folded (FNV-1a).
    digest: u64,
}

impl Client {
    /// A client that has just connected.
    pub(crate) fn new(
        number: usize,
        wire: Wire,
        acts: Vec<Act>,
        random: Random,
        now: Moment,
        habits: Habits,
    ) -> Self {
        let mut client = Self {
            number,
            wire,
            acts: acts.into(),
            random,
            conversation: Conversation::new(habits.may_miss_progress, habits.calls_in_flight_max),
            unsaid: VecDeque::new(),
            partial: Vec::new(),
            next: now,
            connected: now,
            said: None,
            silence_max: Duration::ZERO,
            has_finished: false,
            is_slow: habits.is_slow,
            lingers: false,
            ended: None,
            digest: 0xCBF2_9CE4_8422_2325,
        };
        client.read_as_it_does();
        client
    }

    /// Whether it has nothing more to do and nothing more to hear.
    pub(crate) const fn is_over(&self) -> bool {
        self.ended.is_some()
    }

    /// When it was over.
    pub(crate) const fn ended(&self) -> Option<Moment> {
        self.ended
    }

    /// When it acts next, unless it hears something before; none while it only listens.
    pub(crate) fn next(&self) -> Option<Moment> {
        let listens = match self.acts.front() {
            Some(Act::AwaitAnswers) => !self.conversation.is_settled(),
            Some(Act::Stay) => true,
            _ => false,
        };
        let has_words = !listens || !self.unsaid.is_empty();
        (has_words && !self.is_over()).then_some(self.next)
    }

    /// Hears what has come and does what is due.
    ///
    /// # Errors
    ///
    /// What was heard that must not be, or not heard that must be.
    pub(crate) fn turn(&mut self, now: Moment, climate: &Climate) -> Result<(), String> {
        if self.is_over() {
            return Ok(());
        }
        self.conversation.at(now);
        let outcome = self.hear(now).and_then(|()| self.look_at_the_end(now, climate));
        outcome.map_err(|reason| format!("client {}: {reason}", self.number))?;
        while !self.is_over() && self.next <= now && self.act(now) {}
        Ok(())
    }

    fn hear(&mut self, now: Moment) -> Result<(), String> {
        let heard = self.wire.heard();
        if heard.is_empty() {
            return Ok(());
        }
        for byte in now.nanoseconds().to_le_bytes().iter().chain(&heard) {
            self.digest = (self.digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        }
        self.partial.extend_from_slice(&heard);
        while let Some(end) = self.partial.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.partial.drain(..=end).collect();
            self.conversation.hear(&line[..end])?;
        }
        Ok(())
    }

    /// Notices that the connection is over, and whether it may be.
    fn look_at_the_end(&mut self, now: Moment, climate: &Climate) -> Result<(), String> {
        let (is_reset, has_ended) = (self.wire.is_reset(), self.wire.has_ended());
        if !is_reset && !has_ended {
            return Ok(());
        }
        self.note_silence(now);
        let standing = self.conversation.standing();
        if is_reset {
            self.conversation.tally.resets += 1;
            let is_explained = climate.has_resets
                || standing != Standing::Open
                || climate.drain.is_some()
                || self.may_miss_the_last_word(climate)
                || self.may_have_been_silent(climate);
            self.leave(now);
            return if is_explained { Ok(()) } else { Err(self.complain("was reset")) };
        }
        if !self.lingers {
            self.leave(now);
        }
        self.ended = Some(now);
        match standing {
            Standing::Refused if !climate.has_refusals && climate.drain.is_none() => {
                Err(self.complain("was refused though there is room"))
            }
            Standing::Broken if !self.may_be_broken(climate) => {
                Err(self.complain("was cut though there is memory"))
            }
            Standing::Refused | Standing::Broken => Ok(()),
            Standing::Open => self.judge_the_end(now, climate),
        }
    }

    /// The server has ended a connection on which it had no last word.
    fn judge_the_end(&mut self, now: Moment, climate: &Climate) -> Result<(), String> {
        let is_complete = self.conversation.is_settled() && self.partial.is_empty();
        if self.has_finished && is_complete {
            return Ok(());
        }
        if self.may_have_been_silent(climate) {
            self.conversation.tally.silences += 1;
            // Who waits for an answer is not silent, so everything said before was answered;
            // unless nobody could tell, because the client reads late or spoke while it was cut.
            let is_plain = !self.is_slow
                && climate.drain.is_none()
                && self.said.is_none_or(|said| now.since(said) >= climate.idle_max);
            // When time jumped, something may have been on its way to either side.
            let is_sudden = climate.jumped.is_some_and(|jumped| self.said <= Some(jumped));
            let is_served = is_complete || is_sudden;
            let is_unfair = is_plain && self.unsaid.is_empty() && !is_served;
            return if is_unfair { Err(self.complain("was cut for silence")) } else { Ok(()) };
        }
        if let Some((since, span)) = climate.drain {
            self.conversation.tally.drained += 1;
            // A shard that gets its turn late may think that it was told earlier.
            let is_cut = now.after(NAP_MAX) >= since.after(span);
            let is_fair = self.conversation.is_settled_as_far_as_read() && self.partial.is_empty();
            return if is_cut || is_fair { Ok(()) } else { Err(self.complain("was drained")) };
        }
        if climate.has_resets && climate.is_piped {
            // The other pipe broke, and the server ended both.
            return Ok(());
        }
        Err(self.complain(if self.has_finished { "misses answers" } else { "was ended" }))
    }

    /// Whether the server may have said its last word and waited in vain for it to be read.
    fn may_miss_the_last_word(&self, climate: &Climate) -> bool {
        let may_be_told = climate.has_shortage || climate.has_refusals;
        self.is_slow && (may_be_told || self.conversation.awaits_last_word())
    }

    fn may_be_broken(&self, climate: &Climate) -> bool {
        climate.has_shortage || self.conversation.tally.short_of_memory == 0
    }

    /// Whether the server may take it for silent: its lease has passed without a message, or the
    /// idle time between two of them.
    fn may_have_been_silent(&self, climate: &Climate) -> bool {
        !climate.is_piped
            && self.silence_max >= climate.idle_max.min(climate.lease_max).mul_f64(0.9)
    }

    fn complain(&self, what: &str) -> String {
        let partial = String::from_utf8_lossy(&self.partial);
        let acts: Vec<String> = self.acts.iter().map(Act::name).collect();
        format!(
            "{what}; has finished: {}, heard of a line: {partial:?}, to do: {}; {}",
            self.has_finished,
            acts.join(", "),
            self.conversation.expectations(),
        )
    }

    /// Does one act; `false` where it has to wait.
    fn act(&mut self, now: Moment) -> bool {
        if !self.unsaid.is_empty() {
            self.write(now);
            return true;
        }
        match self.acts.pop_front() {
            Some(Act::Say { bytes, notes }) => {
                self.conversation.say(notes);
                self.unsaid = bytes.into();
            }
            Some(Act::Wait(span)) => self.next = now.after(span),
            Some(Act::AwaitAnswers) => {
                if !self.conversation.is_settled() {
                    self.acts.push_front(Act::AwaitAnswers);
                    return false;
                }
            }
            Some(Act::StopReading) => self.wire.stop_reading(),
            Some(Act::ReadAgain) => self.read_as_it_does(),
            Some(Act::Linger) => self.lingers = true,
            Some(Act::Finish) => {
                self.has_finished = true;
                self.wire.finish();
            }
            Some(Act::Stay) => {
                self.acts.push_front(Act::Stay);
                return false;
            }
            Some(Act::Close) | None => self.leave(now),
            Some(Act::Reset) => {
                self.wire.reset();
                self.ended = Some(now);
            }
        }
        true
    }

    /// Writes a piece of what it says.
    fn write(&mut self, now: Moment) {
        let length = match self.random.below(4) {
            0 => 1 + self.random.below(self.unsaid.len().min(16)),
            1 => 1 + self.random.below(self.unsaid.len()),
            _ => self.unsaid.len(),
        };
        let piece: Vec<u8> = self.unsaid.drain(..length).collect();
        self.wire.write(&piece);
        if piece.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
            self.note_silence(now);
            self.said = Some(now);
        }
        self.next = now.after(Duration::from_micros(self.random.below(200) as u64));
    }

    fn note_silence(&mut self, now: Moment) {
        let since = self.said.unwrap_or(self.connected);
        self.silence_max = self.silence_max.max(now.since(since));
    }

    fn read_as_it_does(&mut self) {
        if self.is_slow {
            let bytes = 16 + self.random.below(2_000);
            let every = Duration::from_micros(1 + self.random.below(2_000) as u64);
            self.wire.read_slowly(bytes, every);
        } else {
            self.wire.read_eagerly();
        }
    }

    /// Goes away.
    fn leave(&mut self, now: Moment) {
        self.wire.close();
        self.ended = Some(now);
    }

    /// Time is about to jump. Returns how many of its calls are in flight.
    pub(crate) fn jump(&mut self) -> usize {
        if self.is_over() { 0 } else { self.conversation.jump() }
    }

    /// What it still waits for, for whoever reads a failure.
    pub(crate) fn describe(&self) -> String {
        format!("client {}: {}", self.number, self.complain("waits"))
    }

    /// Its address, as the server sees it.
    pub(crate) fn address(&self) -> SocketAddr {
        self.wire.address()
    }

    /// What it heard and when, folded.
    pub(crate) const fn digest(&self) -> u64 {
        self.digest
    }

    /// What happened to it.
    pub(crate) const fn tally(&self) -> Tally {
        self.conversation.tally
    }
}
