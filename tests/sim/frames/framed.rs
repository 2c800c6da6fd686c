//! A client's connection over WebSocket: lines become frames in every way that they may, and frames
//! become lines again.
//!
//! It goes through the handshake, answers pings, and leaves in a way that chance decides: with a
//! close frame, with a fault, without a word, or in the middle of one. What comes is looked at by
//! [`super::hearing`]; here it is checked how the connection ends.

use std::collections::VecDeque;
use std::time::Duration;

use corelane::base::random::Random;
use corelane::base::time::Moment;

use super::bytes::{CLOSE, CONTINUATION, FINAL, PING, PONG, TEXT, masked};
use super::carrier::Weather;
use super::faults::{self, Terms};
use super::hearing::{Hearing, Heard};
use super::opening::Opening;
use super::relay::{Break, Relay};
use crate::tally::Tally;
use crate::world::wire::Wire;

/// One connection.
#[derive(Debug)]
pub(crate) struct Framed {
    pub(super) wire: Wire,
    random: Random,
    terms: Terms,
    opening: Opening,
    /// What breaks what comes, if anything does.
    relay: Option<Relay>,
    hearing: Hearing,
    /// What was heard of the handshake.
    heads: Vec<u8>,
    /// Lines that are not said yet, the last of which may not be whole.
    partial: Vec<u8>,
    /// Until when they are kept back, so that more come into one message.
    gathers: Option<Moment>,
    /// Bytes that are still to be written; so many of them may not be yet.
    unsent: VecDeque<u8>,
    withheld: usize,
    next: Moment,
    goodbye: Option<(Goodbye, Moment)>,
    /// It does not close in return, and stays until then.
    lingers: Option<Moment>,
    /// It did not read, or slowly.
    pub(super) is_lazy: bool,
    tally: Tally,
}

/// How a client leaves.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Goodbye {
    /// With a close frame of this code.
    Closed(Option<u16>),
    /// With what has to be closed with this code.
    Broken(u16),
    /// Without a close frame, which is answered with one (1000).
    Finished,
    /// In the middle of a message, of which nothing more comes (1002).
    Stopped,
}

impl Framed {
    /// A client that has just connected.
    pub(crate) fn open(
        wire: Wire,
        terms: Terms,
        breaks: Option<Break>,
        mut random: Random,
        now: Moment,
    ) -> Self {
        let opening = Opening::draw(&mut random);
        let unsent = opening.text.iter().copied().collect();
        Self {
            wire,
            relay: breaks.map(|breaks| Relay::new(breaks, random.next_u64())),
            random,
            terms,
            opening,
            hearing: Hearing::new(),
            heads: Vec::new(),
            partial: Vec::new(),
            gathers: None,
            unsent,
            withheld: 0,
            next: now,
            goodbye: None,
            lingers: None,
            is_lazy: false,
            tally: Tally::default(),
        }
    }

    pub(super) fn tally(&self) -> Tally {
        Tally {
            upgrades: u64::from(self.opening.is_done),
            upgrades_refused: self.opening.refusals,
            pongs: self.hearing.pongs,
            ..self.tally
        }
    }

    /// When it does something by itself, or something has to have come.
    pub(super) fn next(&self) -> Option<Moment> {
        let sends = (self.unsent.len() > self.withheld).then_some(self.next);
        let late = self.goodbye.map(|(_, since)| since.after(PARTED_MAX));
        let late = late.filter(|_| !self.hearing.is_closed);
        [sends, late, self.lingers, self.gathers].into_iter().flatten().min()
    }

    /// Says lines, or a part of one, at once or with those that come soon.
    pub(super) fn write(&mut self, lines: &[u8], now: Moment) {
        self.partial.extend(lines);
        if self.gathers.is_none() && self.random.chance(1, 3) {
            let span = Duration::from_micros(self.random.below(1_500) as u64);
            self.gathers = Some(now.after(span));
        }
        if self.gathers.is_none() {
            self.utter();
        }
    }

    /// Says the lines that are whole; several may come in one message.
    fn utter(&mut self) {
        self.gathers = None;
        let Some(end) = self.partial.iter().rposition(|&byte| byte == b'\n') else { return };
        let lines: Vec<u8> = self.partial.drain(..=end).collect();
        let mut lines: VecDeque<&[u8]> =
            lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).collect();
        while !lines.is_empty() {
            let count = 1 + self.random.below(lines.len());
            let together: Vec<&[u8]> = lines.drain(..count).collect();
            let mut text = together.join(&b'\n');
            if self.terms.is_strict || self.random.chance(1, 2) {
                text.push(b'\n');
            }
            self.say(&text);
            together.iter().for_each(|line| self.hearing.say(line));
            self.tally.joined += u64::from(count > 1);
        }
    }

    /// A message in fragments, with pings and pongs between them.
    fn say(&mut self, text: &[u8]) {
        let mut rest = text;
        let mut opcode = TEXT;
        while self.random.chance(1, 3) {
            let (piece, behind) = rest.split_at(self.random.below(rest.len() + 1));
            self.queue(opcode, piece);
            (rest, opcode) = (behind, CONTINUATION);
            self.intersperse();
        }
        self.tally.fragmented += u64::from(opcode == CONTINUATION);
        self.queue(FINAL | opcode, rest);
        if self.random.chance(1, 2) {
            self.intersperse();
        }
    }

    fn intersperse(&mut self) {
        match self.random.below(6) {
            0..=2 => {
                let length = [0, 1, 8, 125][self.random.below(4)];
                let payload = vec![self.hearing.ping_number(); length];
                self.queue(FINAL | PING, &payload);
                self.hearing.ping(payload);
            }
            3 => self.queue(FINAL | PONG, b"nobody asked"),
            _ => {}
        }
    }

    fn queue(&mut self, first: u8, payload: &[u8]) {
        let frame = masked(first, payload, &mut self.random);
        self.queue_bytes(&frame);
    }

    fn queue_bytes(&mut self, bytes: &[u8]) {
        self.unsent.extend(bytes);
        if !self.opening.is_done && !self.opening.is_eager {
            self.withheld += bytes.len();
        }
    }

    /// Writes what may be written, all of it or a piece after the other.
    pub(super) fn send(&mut self, now: Moment) {
        if self.gathers.is_some_and(|until| until <= now) {
            self.utter();
        }
        while self.next <= now && self.unsent.len() > self.withheld {
            let most = self.unsent.len() - self.withheld;
            let length =
                if self.random.chance(1, 2) { most } else { 1 + self.random.below(most) };
            let piece: Vec<u8> = self.unsent.drain(..length).collect();
            self.wire.write(&piece);
            if self.random.chance(1, 2) {
                self.next = now.after(Duration::from_micros(self.random.below(300) as u64));
            }
        }
        let is_said = self.unsent.is_empty() && !self.hearing.is_closed;
        if is_said && self.goodbye.is_some_and(|goodbye| goodbye.0 == Goodbye::Finished) {
            self.wire.finish();
        }
    }

    /// What has come, as lines.
    pub(super) fn heard(&mut self, now: Moment, weather: Weather) -> Result<Vec<u8>, String> {
        let mut heard = self.wire.heard();
        if !self.opening.is_done {
            self.heads.append(&mut heard);
            self.opening.hear(&mut self.heads, weather.cut.is_some())?;
            if !self.opening.is_done {
                return Ok(Vec::new());
            }
            self.withheld = 0;
            self.next = now;
            heard = std::mem::take(&mut self.heads);
        }
        let heard = match &mut self.relay {
            Some(relay) => relay.pass(&heard),
            None => heard,
        };
        self.hearing.take(&heard);
        let mut lines = Vec::new();
        while let Some(heard) = self.hearing.next()? {
            match heard {
                Heard::Text(text) => {
                    lines.extend(text);
                    lines.push(b'\n');
                }
                Heard::Ping(payload) => {
                    self.tally.pings += 1;
                    if self.goodbye.is_none() {
                        self.queue(FINAL | PONG, &payload);
                    }
                }
                Heard::Close(code) => self.part(code, now, weather)?,
            }
        }
        Ok(lines)
    }

    /// The server closes: whether it may, for this reason, and owes nothing.
    fn part(&mut self, code: Option<u16>, now: Moment, weather: Weather) -> Result<(), String> {
        let is_drain = weather.cut.is_some() && code == Some(1001);
        let is_given_up = self.is_lazy && matches!(code, Some(1000 | 1011));
        let goodbye = self.goodbye.map(|goodbye| goodbye.0);
        // Who says half a message cannot say that it lives.
        let is_silent = goodbye == Some(Goodbye::Stopped) && code == Some(1000);
        match goodbye {
            Some(Goodbye::Closed(said)) if said == code => {
                self.hearing.expect_all_read()?;
                self.tally.closes_answered += 1;
            }
            Some(Goodbye::Broken(expected)) if code == Some(expected) => {
                self.hearing.expect_all_read()?;
                self.tally.faults_closed += 1;
            }
            Some(Goodbye::Stopped) if code == Some(1002) => {
                self.hearing.expect_all_read()?;
                self.tally.unfinished += 1;
            }
            Some(Goodbye::Finished) if code == Some(1000) => {}
            _ if is_drain => {
                if weather.cut.is_some_and(|cut| now < cut) {
                    self.hearing.expect_no_debt()?;
                }
                self.tally.drains_told += 1;
            }
            _ if is_given_up || is_silent => self.tally.given_up += 1,
            goodbye => return Err(format!("{code:?} closes what says goodbye by {goodbye:?}")),
        }
        if self.goodbye.is_none_or(|goodbye| matches!(goodbye.0, Goodbye::Broken(_))) {
            if self.random.chance(3, 4) {
                let code = code.map_or([0x3, 0xe8], u16::to_be_bytes);
                self.queue(FINAL | CLOSE, &code);
                self.next = now;
            } else {
                let span = Duration::from_millis(self.random.below(1_500) as u64);
                self.lingers = Some(now.after(span));
            }
        }
        Ok(())
    }

    /// Whether the connection has ended, in a way that it may.
    pub(super) fn has_ended(&mut self, now: Moment, weather: Weather) -> Result<bool, String> {
        let is_reset = self.wire.is_reset();
        if !is_reset && !self.wire.has_ended() {
            return match self.goodbye {
                Some((goodbye, since)) if now >= since.after(PARTED_MAX) => {
                    Err(format!("nobody answers its goodbye: {goodbye:?}"))
                }
                _ => Ok(false),
            };
        }
        if !is_reset && self.lingers.is_some_and(|until| now < until) {
            return Ok(false);
        }
        // A server that drains cuts off who does not read, and has said nothing to who comes late.
        let is_cut = weather.cut.is_some_and(|cut| self.is_lazy || now >= cut);
        let is_late = weather.cut.is_some() && !self.opening.is_done;
        let may_break = is_reset && (weather.breaks || self.is_lazy);
        if !(self.hearing.is_closed || is_cut || is_late || may_break) {
            return Err(format!("it ends without a close frame (by a reset: {is_reset})"));
        }
        self.flush();
        self.wire.close();
        Ok(true)
    }

    /// Leaves in one way or another; `false` where that takes a while.
    pub(super) fn leave(&mut self, now: Moment) -> bool {
        if self.hearing.is_closed || self.goodbye.is_some() {
            return false;
        }
        self.utter();
        let kind = self.random.below(14);
        if kind < 2 || (!self.opening.is_done && self.random.chance(1, 2)) {
            self.flush();
            self.wire.close();
            return true;
        }
        let goodbye = match kind {
            2 | 3 => {
                // In the middle of a message, even.
                if self.random.chance(1, 2) {
                    self.queue(TEXT, b"{");
                }
                Goodbye::Finished
            }
            4 => {
                let bytes = masked(TEXT, b"{\"jsonrpc\"", &mut self.random);
                let length = 1 + self.random.below(bytes.len());
                self.queue_bytes(&bytes[..length]);
                Goodbye::Stopped
            }
            5..=8 => {
                let (bytes, code) = faults::draw(&mut self.random, self.terms);
                self.queue_bytes(&bytes);
                Goodbye::Broken(code)
            }
            9 => {
                self.queue(FINAL | CLOSE, b"");
                Goodbye::Closed(None)
            }
            _ => {
                if self.random.chance(1, 4) {
                    self.queue(TEXT, b"{");
                }
                let code = [1000, 1001, 1008, 3000, 4999][self.random.below(5)];
                let reason: &[u8] = if self.random.chance(1, 2) { b"" } else { b"enough" };
                self.queue(FINAL | CLOSE, &[&u16::to_be_bytes(code)[..], reason].concat());
                Goodbye::Closed(Some(code))
            }
        };
        let is_over = matches!(goodbye, Goodbye::Broken(_) | Goodbye::Closed(_));
        if is_over && self.random.chance(1, 3) {
            // Nobody answers this.
            self.queue(FINAL | TEXT, b"{\"jsonrpc\":\"2.0\",\"id\":1000000,\"method\":\"ping\"}\n");
        }
        self.goodbye = Some((goodbye, now));
        false
    }

    /// Itself, for whoever reads a failure.
    pub(super) fn describe(&self) -> String {
        let Self { opening, hearing, unsent, withheld, goodbye, lingers, is_lazy, .. } = self;
        format!(
            "upgraded {}, {} bytes to write ({withheld} later), goodbye {goodbye:?}, \
             lingers {lingers:?}, lazy {is_lazy}, {hearing:?}",
            opening.is_done,
            unsent.len(),
        )
    }

    /// Writes whatever may be written.
    fn flush(&mut self) {
        let length = self.unsent.len() - self.withheld;
        let rest: Vec<u8> = self.unsent.drain(..length).collect();
        if !rest.is_empty() {
            self.wire.write(&rest);
        }
    }
}

/// How long it may take until a goodbye is answered: a message that does not become whole, and what
/// stands in the way.
const PARTED_MAX: Duration = Duration::from_secs(8);
