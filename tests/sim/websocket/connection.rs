//! A client's WebSocket connection: lines become frames, and frames become lines again.
//!
//! It performs the handshake, answers pings, and closes in a random way ([`super::frame_writer`]):
//! with a close frame, a protocol fault, an end of stream, or in the middle of a message.
//! [`super::frame_checker`] checks what arrives; this module checks how the connection ends.

use std::collections::VecDeque;
use std::time::Duration;

use corelane_base::random::Random;
use corelane_base::time::Instant;

use super::bytes::{CLOSE, FINAL, PONG};
use super::fault_proxy::{FrameFault, FrameFaultProxy};
use super::faults::WebSocketRules;
use super::frame_checker::{FrameChecker, ReceivedFrame};
use super::handshake::UpgradeHandshake;
use super::transport::Conditions;
use crate::harness::socket::ClientSocket;
use crate::totals::Totals;

#[derive(Debug)]
pub(crate) struct WebSocketConnection {
    pub(super) socket: ClientSocket,
    pub(super) random: Random,
    pub(super) rules: WebSocketRules,
    pub(super) handshake: UpgradeHandshake,
    /// Damages what arrives, if set.
    proxy: Option<FrameFaultProxy>,
    pub(super) frame_checker: FrameChecker,
    /// Received bytes of the handshake.
    handshake_bytes: Vec<u8>,
    /// Lines that are not sent yet; the last may be incomplete.
    pub(super) partial: Vec<u8>,
    /// Until when they are held back, so that several share a message.
    pub(super) hold_until: Option<Instant>,
    /// Bytes to write; the last `withheld` of them wait for the handshake.
    pub(super) unsent: VecDeque<u8>,
    pub(super) withheld: usize,
    pub(super) next_due: Instant,
    pub(super) closing: Option<(CloseKind, Instant)>,
    /// It does not close in response, and stays until then.
    lingers_until: Option<Instant>,
    /// It has not read for a while, or reads slowly.
    pub(super) is_slow: bool,
    pub(super) totals: Totals,
}

/// How a client ends its connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum CloseKind {
    /// With a close frame with this code.
    CloseFrame(Option<u16>),
    /// With a protocol fault that must be closed with this code.
    ProtocolFault(u16),
    /// By shutting down its side; the server must send a close frame with 1000.
    EndOfStream,
    /// By stopping in the middle of a message; the server must close with 1002.
    IncompleteMessage,
}

impl WebSocketConnection {
    /// Starts the handshake on a new connection.
    pub(crate) fn open(
        socket: ClientSocket,
        rules: WebSocketRules,
        breaks: Option<FrameFault>,
        mut random: Random,
        now: Instant,
    ) -> Self {
        let handshake = UpgradeHandshake::draw(&mut random);
        let unsent = handshake.request_bytes.iter().copied().collect();
        Self {
            socket,
            proxy: breaks.map(|breaks| FrameFaultProxy::new(breaks, random.next_u64())),
            random,
            rules,
            handshake,
            frame_checker: FrameChecker::new(),
            handshake_bytes: Vec::new(),
            partial: Vec::new(),
            hold_until: None,
            unsent,
            withheld: 0,
            next_due: now,
            closing: None,
            lingers_until: None,
            is_slow: false,
            totals: Totals::default(),
        }
    }

    pub(super) fn totals(&self) -> Totals {
        Totals {
            upgrades: u64::from(self.handshake.is_done),
            upgrades_refused: self.handshake.refusals,
            pongs_received: self.frame_checker.pongs,
            ..self.totals
        }
    }

    /// Returns when it sends by itself, or a response must have arrived.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let sends = (self.unsent.len() > self.withheld).then_some(self.next_due);
        let late = self.closing.map(|(_, since)| since.after(CLOSE_RESPONSE_MAX));
        let late = late.filter(|_| !self.frame_checker.is_closed);
        let lingers = self.lingers_until.filter(|_| self.socket.has_ended());
        [sends, late, lingers, self.hold_until].into_iter().flatten().min()
    }

    /// Takes what has arrived, as lines.
    pub(super) fn take_received(
        &mut self,
        now: Instant,
        conditions: Conditions,
    ) -> Result<Vec<u8>, String> {
        let mut received = self.socket.take_received();
        if !self.handshake.is_done {
            self.handshake_bytes.append(&mut received);
            self.handshake.receive(&mut self.handshake_bytes, conditions.drain_end.is_some())?;
            if !self.handshake.is_done {
                return Ok(Vec::new());
            }
            self.withheld = 0;
            self.next_due = now;
            received = std::mem::take(&mut self.handshake_bytes);
        }
        let received = match &mut self.proxy {
            Some(relay) => relay.forward(&received),
            None => received,
        };
        self.frame_checker.feed(&received);
        let mut lines = Vec::new();
        while let Some(received) = self.frame_checker.next_frame()? {
            match received {
                ReceivedFrame::Text(text) => {
                    lines.extend(text);
                    lines.push(b'\n');
                }
                ReceivedFrame::Ping(payload) => {
                    self.totals.pings_received += 1;
                    if self.closing.is_none() {
                        self.queue_frame(FINAL | PONG, &payload);
                    }
                }
                ReceivedFrame::Close(code) => self.handle_close(code, now, conditions)?,
            }
        }
        Ok(lines)
    }

    /// Handles a close frame of the server: checks that its code is allowed now.
    fn handle_close(
        &mut self,
        code: Option<u16>,
        now: Instant,
        conditions: Conditions,
    ) -> Result<(), String> {
        let is_drain = conditions.drain_end.is_some() && code == Some(1001);
        // Also in place of an answer to the client's close frame.
        let is_given_up = self.is_slow
            && matches!(code, Some(1000 | 1011))
            && self.frame_checker.has_close_reason();
        let close = self.closing.map(|close| close.0);
        // An incomplete message does not count as activity.
        let is_silent = close == Some(CloseKind::IncompleteMessage) && code == Some(1000);
        match close {
            Some(CloseKind::CloseFrame(sent)) if sent == code && !is_given_up => {
                // While it drains, a server reads only the close frame.
                if conditions.drain_end.is_none() {
                    self.frame_checker.check_all_read()?;
                }
                self.totals.closes_answered += 1;
            }
            Some(CloseKind::ProtocolFault(expected)) if code == Some(expected) => {
                self.frame_checker.check_all_read()?;
                self.totals.faults_closed += 1;
            }
            Some(CloseKind::IncompleteMessage) if code == Some(1002) => {
                self.frame_checker.check_all_read()?;
                self.totals.incomplete_messages_closed += 1;
            }
            Some(CloseKind::EndOfStream) if code == Some(1000) => {}
            _ if is_drain => {
                if conditions.drain_end.is_some_and(|cut| now < cut) {
                    self.frame_checker.check_read_requests_answered()?;
                }
                self.totals.going_away_closes += 1;
            }
            _ if is_given_up || is_silent => self.totals.slow_readers_closed += 1,
            close => {
                return Err(format!("closed with {code:?} after the client's {close:?}"));
            }
        }
        if self.closing.is_none_or(|close| matches!(close.0, CloseKind::ProtocolFault(_))) {
            if self.random.chance(3, 4) {
                let code = code.map_or([0x3, 0xe8], u16::to_be_bytes);
                self.queue_frame(FINAL | CLOSE, &code);
                self.next_due = now;
            } else {
                let span = Duration::from_millis(self.random.below(1_500) as u64);
                self.lingers_until = Some(now.after(span));
            }
        }
        Ok(())
    }

    /// Returns whether the connection has ended, and checks that it may.
    pub(super) fn has_ended(
        &mut self,
        now: Instant,
        conditions: Conditions,
    ) -> Result<bool, String> {
        let is_reset = self.socket.is_reset();
        if !is_reset && !self.socket.has_ended() {
            return match self.closing {
                Some((close, since)) if now >= since.after(CLOSE_RESPONSE_MAX) => {
                    Err(format!("no response to the client's {close:?}"))
                }
                _ => Ok(false),
            };
        }
        if !is_reset && self.lingers_until.is_some_and(|until| now < until) {
            return Ok(false);
        }
        // A draining server cuts clients that do not read, and sends nothing to late ones.
        let is_cut = conditions.drain_end.is_some_and(|cut| self.is_slow || now >= cut);
        let is_late = conditions.drain_end.is_some() && !self.handshake.is_done;
        let may_break = is_reset && (conditions.may_break || self.is_slow);
        if !(self.frame_checker.is_closed || is_cut || is_late || may_break) {
            return Err(format!("it ended without a close frame (by a reset: {is_reset})"));
        }
        self.flush();
        self.socket.close();
        Ok(true)
    }

    /// Describes its state for a failure report.
    pub(super) fn describe(&self) -> String {
        let Self {
            handshake: opening,
            frame_checker: hearing,
            unsent,
            withheld,
            closing: close,
            lingers_until: lingers,
            is_slow: is_lazy,
            ..
        } = self;
        format!(
            "upgraded {}, {} bytes to write ({withheld} after the handshake), closing {close:?}, \
             lingers {lingers:?}, slow {is_lazy}, {hearing:?}",
            opening.is_done,
            unsent.len(),
        )
    }
}

/// How long the response to a close may take: an incomplete message has to time out first.
const CLOSE_RESPONSE_MAX: Duration = Duration::from_secs(8);
