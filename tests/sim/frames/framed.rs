//! A client's connection over WebSocket: lines become frames, and frames become lines again.
//!
//! It goes through the handshake, answers pings, and leaves in a way that chance decides
//! ([`super::voice`]): with a close frame, with a fault, without a word, or in the middle of one.
//! What comes is looked at by [`super::hearing`]; here it is checked how the connection ends.

use std::collections::VecDeque;
use std::time::Duration;

use corelane::base::random::Random;
use corelane::base::time::Moment;

use super::bytes::{CLOSE, FINAL, PONG};
use super::carrier::Weather;
use super::faults::Terms;
use super::hearing::{Heard, Hearing};
use super::opening::Opening;
use super::relay::{Break, Relay};
use crate::tally::Tally;
use crate::world::wire::Wire;

/// One connection.
#[derive(Debug)]
pub(crate) struct Framed {
    pub(super) wire: Wire,
    pub(super) random: Random,
    pub(super) terms: Terms,
    pub(super) opening: Opening,
    /// What breaks what comes, if anything does.
    relay: Option<Relay>,
    pub(super) hearing: Hearing,
    /// What was heard of the handshake.
    heads: Vec<u8>,
    /// Lines that are not said yet, the last of which may not be whole.
    pub(super) partial: Vec<u8>,
    /// Until when they are kept back, so that more come into one message.
    pub(super) gathers: Option<Moment>,
    /// Bytes that are still to be written; so many of them may not be yet.
    pub(super) unsent: VecDeque<u8>,
    pub(super) withheld: usize,
    pub(super) next: Moment,
    pub(super) goodbye: Option<(Goodbye, Moment)>,
    /// It does not close in return, and stays until then.
    lingers: Option<Moment>,
    /// It did not read, or slowly.
    pub(super) is_lazy: bool,
    pub(super) tally: Tally,
}

/// How a client leaves.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Goodbye {
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
        let lingers = self.lingers.filter(|_| self.wire.has_ended());
        [sends, late, lingers, self.gathers].into_iter().flatten().min()
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
}

/// How long it may take until a goodbye is answered: a message that does not become whole, and what
/// stands in the way.
const PARTED_MAX: Duration = Duration::from_secs(8);
