//! Sending half of a WebSocket client: lines in frames, fragmented and joined in every valid way,
//! and the ways to end the connection.

use std::collections::VecDeque;
use std::time::Duration;

use corelane_base::time::Instant;

use super::bytes::{CLOSE, CONTINUATION, FINAL, PING, PONG, TEXT, masked};
use super::connection::{CloseKind, WebSocketConnection};
use super::faults;

impl WebSocketConnection {
    /// Sends lines, or a part of one, at once or together with those that follow soon.
    pub(super) fn write(&mut self, lines: &[u8], now: Instant) {
        self.partial.extend(lines);
        if self.hold_until.is_none() && self.random.chance(1, 3) {
            let span = Duration::from_micros(self.random.below(1_500) as u64);
            self.hold_until = Some(now.after(span));
        }
        if self.hold_until.is_none() {
            self.send_complete_lines();
        }
    }

    /// Sends the complete lines; several may share a message.
    fn send_complete_lines(&mut self) {
        self.hold_until = None;
        let Some(end) = self.partial.iter().rposition(|&byte| byte == b'\n') else { return };
        let lines: Vec<u8> = self.partial.drain(..=end).collect();
        let mut lines: VecDeque<&[u8]> =
            lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).collect();
        while !lines.is_empty() {
            let count = 1 + self.random.below(lines.len());
            let together: Vec<&[u8]> = lines.drain(..count).collect();
            let mut text = together.join(&b'\n');
            if self.rules.requires_newline || self.random.chance(1, 2) {
                text.push(b'\n');
            }
            self.send_message(&text);
            for line in together {
                self.frame_checker.record_message(line);
            }
            self.totals.messages_joined += u64::from(count > 1);
        }
    }

    /// Sends a message in fragments, with pings and pongs between them.
    fn send_message(&mut self, text: &[u8]) {
        let mut rest = text;
        let mut opcode = TEXT;
        while self.random.chance(1, 3) {
            let (piece, behind) = rest.split_at(self.random.below(rest.len() + 1));
            self.queue_frame(opcode, piece);
            (rest, opcode) = (behind, CONTINUATION);
            self.send_control_frame();
        }
        self.totals.messages_fragmented += u64::from(opcode == CONTINUATION);
        self.queue_frame(FINAL | opcode, rest);
        if self.random.chance(1, 2) {
            self.send_control_frame();
        }
    }

    fn send_control_frame(&mut self) {
        match self.random.below(6) {
            0..=2 => {
                let length = [0, 1, 8, 125][self.random.below(4)];
                let payload = vec![self.frame_checker.next_ping_byte(); length];
                self.queue_frame(FINAL | PING, &payload);
                self.frame_checker.record_ping(payload);
            }
            3 => self.queue_frame(FINAL | PONG, b"unsolicited "),
            _ => {}
        }
    }

    pub(super) fn queue_frame(&mut self, first: u8, payload: &[u8]) {
        let frame = masked(first, payload, &mut self.random);
        self.queue_bytes(&frame);
    }

    fn queue_bytes(&mut self, bytes: &[u8]) {
        self.unsent.extend(bytes);
        if !self.handshake.is_done && !self.handshake.sends_early {
            self.withheld += bytes.len();
        }
    }

    /// Writes what may be written, at once or in pieces.
    pub(super) fn send_due(&mut self, now: Instant) {
        if self.hold_until.is_some_and(|until| until <= now) {
            self.send_complete_lines();
        }
        while self.next_due <= now && self.unsent.len() > self.withheld {
            let most = self.unsent.len() - self.withheld;
            let length = if self.random.chance(1, 2) { most } else { 1 + self.random.below(most) };
            let piece: Vec<u8> = self.unsent.drain(..length).collect();
            self.socket.write(&piece);
            if self.random.chance(1, 2) {
                self.next_due = now.after(Duration::from_micros(self.random.below(300) as u64));
            }
        }
        let is_all_sent = self.unsent.is_empty() && !self.frame_checker.is_closed;
        if is_all_sent && self.closing.is_some_and(|close| close.0 == CloseKind::EndOfStream) {
            self.socket.shut_down_write();
        }
    }

    /// Ends the connection in a random way; returns `false` if that takes a while.
    pub(super) fn close(&mut self, now: Instant) -> bool {
        if self.frame_checker.is_closed || self.closing.is_some() {
            return false;
        }
        self.send_complete_lines();
        let kind = self.random.below(14);
        if kind < 2 || (!self.handshake.is_done && self.random.chance(1, 2)) {
            self.flush();
            self.socket.close();
            return true;
        }
        let close = match kind {
            2 | 3 => {
                // Possibly in the middle of a message.
                if self.random.chance(1, 2) {
                    self.queue_frame(TEXT, b"{");
                }
                CloseKind::EndOfStream
            }
            4 => {
                let bytes = masked(TEXT, b"{\"jsonrpc\"", &mut self.random);
                let length = 1 + self.random.below(bytes.len());
                self.queue_bytes(&bytes[..length]);
                CloseKind::IncompleteMessage
            }
            5..=8 => {
                let (bytes, code) = faults::draw(&mut self.random, self.rules);
                self.queue_bytes(&bytes);
                CloseKind::ProtocolFault(code)
            }
            9 => {
                self.queue_frame(FINAL | CLOSE, b"");
                CloseKind::CloseFrame(None)
            }
            _ => {
                if self.random.chance(1, 4) {
                    self.queue_frame(TEXT, b"{");
                }
                let code = [1000, 1001, 1008, 3000, 4999][self.random.below(5)];
                let reason: &[u8] = if self.random.chance(1, 2) { b"" } else { b"enough" };
                self.queue_frame(FINAL | CLOSE, &[&u16::to_be_bytes(code)[..], reason].concat());
                CloseKind::CloseFrame(Some(code))
            }
        };
        let is_over = matches!(close, CloseKind::ProtocolFault(_) | CloseKind::CloseFrame(_));
        if is_over && self.random.chance(1, 3) {
            // Must be ignored.
            self.queue_frame(
                FINAL | TEXT,
                b"{\"jsonrpc\":\"2.0\",\"id\":1000000,\"method\":\"ping\"}\n",
            );
        }
        self.closing = Some((close, now));
        false
    }

    /// Writes everything that may be written.
    pub(super) fn flush(&mut self) {
        let length = self.unsent.len() - self.withheld;
        let rest: Vec<u8> = self.unsent.drain(..length).collect();
        if !rest.is_empty() {
            self.socket.write(&rest);
        }
    }
}
