//! One simulated client: performs its actions in virtual time and checks what it receives.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use corelane_base::random::Random;
use corelane_base::time::Instant;

use crate::harness::shard::STALL_MAX;
use crate::harness::socket::ClientSocket;
use crate::line_simulation::action::LineAction;
use crate::line_simulation::input_end::{HalfCloseRule, InputEnd};
use crate::line_simulation::response_checker::{ConnectionStatus, ResponseChecker};
use crate::totals::Totals;

/// Time that the errors of cut calls have to be sent at the end of a drain.
pub(crate) const CUT_RESPONSE_MAX: Duration = Duration::from_secs(1);

/// What decides whether the server may close a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CloseConditions {
    /// Connections may be reset or lost.
    pub(crate) may_reset: bool,
    /// The one client writes to one pipe and reads from another.
    pub(crate) is_piped: bool,
    pub(crate) first_message_timeout: Duration,
    pub(crate) idle_timeout: Duration,
    /// When the drain began, and its timeout.
    pub(crate) drain: Option<(Instant, Duration)>,
    /// Time of the last clock jump.
    pub(crate) last_clock_jump: Option<Instant>,
}

/// Properties of a client.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(crate) struct ClientTraits {
    /// It reads slowly.
    pub(crate) is_slow: bool,
    /// Its outgoing buffer may fill up, so that progress is skipped.
    pub(crate) may_miss_progress: bool,
    /// Limit of requests in flight.
    pub(crate) calls_in_flight_max: usize,
    /// There may be more clients than the connection limit, or more of its address than its share.
    pub(crate) may_be_refused: bool,
    /// The memory limit may be reached, and it may hold more than its share.
    pub(crate) may_exhaust_memory: bool,
    /// What the server does with its calls when it ends its input; `None` over pipes.
    pub(crate) half_close: Option<HalfCloseRule>,
}

/// One client on one connection.
#[derive(Debug)]
pub(crate) struct LineClient {
    number: usize,
    socket: ClientSocket,
    actions: VecDeque<LineAction>,
    random: Random,
    pub(crate) checker: ResponseChecker,
    /// Bytes of the present action that are still to be written.
    unsent: VecDeque<u8>,
    /// Received bytes of an incomplete line.
    partial: Vec<u8>,
    next_action: Instant,
    connected_at: Instant,
    /// When it last sent a complete message.
    last_sent: Option<Instant>,
    /// Longest time without a complete message so far.
    silence_max: Duration,
    has_shut_down_write: bool,
    traits: ClientTraits,
    /// Leaves its side open when the server has ended the connection.
    lingers: bool,
    ended_at: Option<Instant>,
    /// Hash of what it received and when (FNV-1a).
    digest: u64,
}

impl LineClient {
    /// A client that has just connected.
    pub(crate) fn new(
        number: usize,
        wire: ClientSocket,
        acts: Vec<LineAction>,
        random: Random,
        now: Instant,
        habits: ClientTraits,
    ) -> Self {
        let mut client = Self {
            number,
            socket: wire,
            actions: acts.into(),
            random,
            checker: ResponseChecker::new(
                habits.may_miss_progress,
                habits.calls_in_flight_max,
                habits.may_exhaust_memory,
            ),
            unsent: VecDeque::new(),
            partial: Vec::new(),
            next_action: now,
            connected_at: now,
            last_sent: None,
            silence_max: Duration::ZERO,
            has_shut_down_write: false,
            traits: habits,
            lingers: false,
            ended_at: None,
            digest: 0xCBF2_9CE4_8422_2325,
        };
        client.start_reading();
        client
    }

    pub(crate) const fn is_over(&self) -> bool {
        self.ended_at.is_some()
    }

    /// Returns whether the server may refuse it for what it holds.
    pub(crate) const fn may_exhaust_memory(&self) -> bool {
        self.traits.may_exhaust_memory
    }

    pub(crate) const fn ended_at(&self) -> Option<Instant> {
        self.ended_at
    }

    /// Returns when it acts next without receiving anything; `None` while it only waits.
    pub(crate) fn next_action(&self) -> Option<Instant> {
        let listens = match self.actions.front() {
            Some(LineAction::AwaitResponses) => !self.checker.is_complete(),
            Some(LineAction::AwaitClose) => true,
            _ => false,
        };
        let has_words = !listens || !self.unsent.is_empty();
        (has_words && !self.is_over()).then_some(self.next_action)
    }

    /// Receives what has arrived and performs what is due.
    ///
    /// # Errors
    ///
    /// Something arrived that must not, or is missing.
    pub(crate) fn turn(
        &mut self,
        now: Instant,
        conditions: &CloseConditions,
    ) -> Result<(), String> {
        if self.is_over() {
            return Ok(());
        }
        self.checker.set_now(now, self.drain_has_taken(Duration::ZERO, now, conditions));
        let outcome = self.receive(now).and_then(|()| self.check_end(now, conditions));
        outcome.map_err(|reason| format!("client {}: {reason}", self.number))?;
        while !self.is_over() && self.next_action <= now && self.perform_next(now) {}
        Ok(())
    }

    fn receive(&mut self, now: Instant) -> Result<(), String> {
        let received = self.socket.take_received();
        if received.is_empty() {
            return Ok(());
        }
        for byte in now.nanoseconds().to_le_bytes().iter().chain(&received) {
            self.digest = (self.digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        }
        self.partial.extend_from_slice(&received);
        while let Some(end) = self.partial.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.partial.drain(..=end).collect();
            self.checker.check_line(&line[..end])?;
        }
        Ok(())
    }

    /// Detects the end of the connection, and checks that the server may end it.
    fn check_end(&mut self, now: Instant, conditions: &CloseConditions) -> Result<(), String> {
        let (is_reset, has_ended) = (self.socket.is_reset(), self.socket.has_ended());
        if !is_reset && !has_ended {
            return Ok(());
        }
        self.record_silence(now);
        let standing = self.checker.status();
        if is_reset {
            self.checker.totals.connection_resets += 1;
            let is_explained = conditions.may_reset
                || standing != ConnectionStatus::Open
                || conditions.drain.is_some()
                || self.traits.may_exhaust_memory
                || self.may_miss_final_error()
                || self.may_have_timed_out(conditions);
            self.close(now);
            return if is_explained { Ok(()) } else { Err(self.describe_failure("was reset")) };
        }
        if !self.lingers {
            self.close(now);
        }
        self.ended_at = Some(now);
        match standing {
            ConnectionStatus::Refused if !self.traits.may_be_refused => {
                Err(self.describe_failure("was refused below the connection limit"))
            }
            ConnectionStatus::RefusedDraining if conditions.drain.is_none() => {
                Err(self.describe_failure("was refused before the drain"))
            }
            ConnectionStatus::Closing if !self.may_be_out_of_memory() => {
                Err(self.describe_failure("was closed below the memory limit"))
            }
            ConnectionStatus::Refused
            | ConnectionStatus::RefusedDraining
            | ConnectionStatus::Closing => Ok(()),
            ConnectionStatus::Open => self.check_close(now, conditions),
        }
    }

    /// Checks a connection that the server ended without a final error.
    fn check_close(&mut self, now: Instant, conditions: &CloseConditions) -> Result<(), String> {
        let is_complete = self.checker.is_complete() && self.partial.is_empty();
        if self.has_shut_down_write && is_complete {
            self.checker.count_half_close_cancellations();
            return Ok(());
        }
        if self.may_have_timed_out(conditions) {
            self.checker.totals.idle_closes += 1;
            // A client that waits for a response is not idle, so everything sent before must be
            // answered; not if the client reads slowly or sent while it was being closed.
            let is_plain = !self.traits.is_slow
                && conditions.drain.is_none()
                && self
                    .last_sent
                    .is_none_or(|sent_at| now.since(sent_at) >= conditions.idle_timeout);
            // When the clock jumped, messages may have been on their way in either direction.
            let is_sudden =
                conditions.last_clock_jump.is_some_and(|jumped| self.last_sent <= Some(jumped));
            let is_served = is_complete || is_sudden;
            let is_unfair = is_plain && self.unsent.is_empty() && !is_served;
            return if is_unfair {
                Err(self.describe_failure("was closed as idle"))
            } else {
                Ok(())
            };
        }
        if conditions.drain.is_some() {
            self.checker.totals.drain_closes += 1;
            let is_aborted = self.drain_has_taken(CUT_RESPONSE_MAX, now, conditions);
            let is_fair = self.checker.is_complete_as_far_as_read() && self.partial.is_empty();
            return if is_aborted || is_fair {
                Ok(())
            } else {
                Err(self.describe_failure("was drained early"))
            };
        }
        if self.traits.may_exhaust_memory {
            // It held most, or the server did not know yet that its output had arrived.
            self.checker.totals.memory_limit_closes += 1;
            return Ok(());
        }
        if conditions.may_reset && conditions.is_piped {
            // The other pipe broke, and the server closed both.
            return Ok(());
        }
        Err(self.describe_failure(if self.has_shut_down_write {
            "misses responses"
        } else {
            "was closed"
        }))
    }

    /// Returns whether the server may have drained for `more` than the drain timeout. On pipes, a
    /// drain after the end of the input ends at once.
    fn drain_has_taken(&self, more: Duration, now: Instant, conditions: &CloseConditions) -> bool {
        let Some((since, span)) = conditions.drain else { return false };
        let is_input_over = conditions.is_piped && self.has_shut_down_write;
        let span = if is_input_over { Duration::ZERO } else { span };
        // A shard that was stalled may have begun its drain earlier.
        now.after(STALL_MAX) >= since.after(span + more)
    }

    /// Returns whether the server may have sent a final error that was not read in time.
    fn may_miss_final_error(&self) -> bool {
        let may_be_notified = self.traits.may_exhaust_memory || self.traits.may_be_refused;
        self.traits.is_slow && (may_be_notified || self.checker.expects_close())
    }

    const fn may_be_out_of_memory(&self) -> bool {
        self.traits.may_exhaust_memory || self.checker.totals.memory_limit_closes == 0
    }

    /// Returns whether it may have timed out: no first message in time, or none within the idle
    /// timeout.
    fn may_have_timed_out(&self, conditions: &CloseConditions) -> bool {
        !conditions.is_piped
            && self.silence_max
                >= conditions.idle_timeout.min(conditions.first_message_timeout).mul_f64(0.9)
    }

    fn describe_failure(&self, what: &str) -> String {
        let partial = String::from_utf8_lossy(&self.partial);
        let acts: Vec<String> = self.actions.iter().map(LineAction::describe).collect();
        format!(
            "{what}; has finished: {}, incomplete line: {partial:?}, to do: {}; {}",
            self.has_shut_down_write,
            acts.join(", "),
            self.checker.expectations(),
        )
    }

    /// Performs one action; returns `false` if it has to wait.
    fn perform_next(&mut self, now: Instant) -> bool {
        if !self.unsent.is_empty() {
            self.write(now);
            return true;
        }
        match self.actions.pop_front() {
            Some(LineAction::Send { bytes, expectations: notes }) => {
                self.checker.record_sent(notes);
                self.unsent = bytes.into();
            }
            Some(LineAction::Wait(span)) => self.next_action = now.after(span),
            Some(LineAction::AwaitResponses) => {
                if !self.checker.is_complete() {
                    self.actions.push_front(LineAction::AwaitResponses);
                    return false;
                }
            }
            Some(LineAction::StopReading) => self.socket.stop_reading(),
            Some(LineAction::ResumeReading) => self.start_reading(),
            Some(LineAction::Linger) => self.lingers = true,
            Some(LineAction::ShutdownWrite) => {
                self.has_shut_down_write = true;
                if let Some(rule) = self.traits.half_close {
                    self.checker.end_input(InputEnd { at: now, rule });
                }
                self.socket.shut_down_write();
            }
            Some(LineAction::AwaitClose) => {
                self.actions.push_front(LineAction::AwaitClose);
                return false;
            }
            Some(LineAction::Close) | None => self.close(now),
            Some(LineAction::Reset) => {
                self.socket.reset();
                self.ended_at = Some(now);
            }
        }
        true
    }

    /// Writes a part of its unsent bytes.
    fn write(&mut self, now: Instant) {
        let length = match self.random.below(4) {
            0 => 1 + self.random.below(self.unsent.len().min(16)),
            1 => 1 + self.random.below(self.unsent.len()),
            _ => self.unsent.len(),
        };
        let piece: Vec<u8> = self.unsent.drain(..length).collect();
        self.socket.write(&piece);
        if piece.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
            self.record_silence(now);
            self.last_sent = Some(now);
        }
        self.next_action = now.after(Duration::from_micros(self.random.below(200) as u64));
    }

    fn record_silence(&mut self, now: Instant) {
        let since = self.last_sent.unwrap_or(self.connected_at);
        self.silence_max = self.silence_max.max(now.since(since));
    }

    fn start_reading(&mut self) {
        if self.traits.is_slow {
            let bytes = 16 + self.random.below(2_000);
            let every = Duration::from_micros(1 + self.random.below(2_000) as u64);
            self.socket.read_slowly(bytes, every);
        } else {
            self.socket.read_eagerly();
        }
    }

    fn close(&mut self, now: Instant) {
        self.socket.close();
        self.ended_at = Some(now);
    }

    /// Prepares for a clock jump; returns the number of its calls in flight.
    pub(crate) fn prepare_clock_jump(&mut self) -> usize {
        if self.is_over() { 0 } else { self.checker.prepare_clock_jump() }
    }

    /// Describes what it still waits for.
    pub(crate) fn describe(&self) -> String {
        format!("client {}: {}", self.number, self.describe_failure("waits"))
    }

    /// Client address that the server sees.
    pub(crate) fn address(&self) -> SocketAddr {
        self.socket.address()
    }

    /// Hash of what it received and when.
    pub(crate) const fn digest(&self) -> u64 {
        self.digest
    }

    pub(crate) const fn totals(&self) -> Totals {
        self.checker.totals
    }
}
