//! What a client says over WebSocket: lines in frames cut in every way that they may be, and the
//! end, for which there are as many.

use std::collections::VecDeque;
use std::time::Duration;

use corelane::base::time::Moment;

use super::bytes::{CLOSE, CONTINUATION, FINAL, PING, PONG, TEXT, masked};
use super::faults;
use super::framed::{Framed, Goodbye};

impl Framed {
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
            for line in together {
                self.hearing.say(line);
            }
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

    pub(super) fn queue(&mut self, first: u8, payload: &[u8]) {
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
            let length = if self.random.chance(1, 2) { most } else { 1 + self.random.below(most) };
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

    /// Writes whatever may be written.
    pub(super) fn flush(&mut self) {
        let length = self.unsent.len() - self.withheld;
        let rest: Vec<u8> = self.unsent.drain(..length).collect();
        if !rest.is_empty() {
            self.wire.write(&rest);
        }
    }
}
