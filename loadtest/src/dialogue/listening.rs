//! One connection that listens: what is asked on it, and what it is told.
//!
//! It begins behind the opening of its connection. Over HTTP one request or stream is under way at
//! a time: legacy subscriptions are posted first, then the stream of the session is got. What a
//! server asks there cannot be answered on the same connection and stays without an answer.
//!
//! What it keeps true: a stream is open when the server has said so, whole; whatever else it says
//! has a name, and nothing that it says is a panic.
//!
//! Source: 2026-07-28, basic/patterns/subscriptions; 2025-11-25, basic/transports, "Listening for
//! Messages from the Server".

use super::call::push_field;
use super::judge::{Judgement, answer, judge};
use super::opening::{Refused, status_failure};
use super::subscription::{Notice, Subscription};
use crate::measure::outcome::Failure;
use crate::target::Transport;
use crate::wire::lines::LineReader;
use crate::wire::{Heard, Reader, frames, piece_together};

/// What a connection that listens was told.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Hearing {
    /// One of its streams is open.
    Opened,
    /// The stream of this place was told of a change.
    Told(usize),
    /// It was told of a change that no open stream of it had asked for.
    Stray,
    /// One of its streams has ended.
    Ended,
    /// These bytes are to be sent.
    Say(Vec<u8>),
    /// The connection is over.
    Closing,
}

/// How far a stream has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Place {
    Asked,
    Open,
    Ended,
}

/// A connection that listens. Holds some 150 bytes, and over HTTP two buffers as long as the
/// longest event.
#[derive(Debug)]
pub struct Listening {
    reader: Reader,
    /// Bytes that the reader is not done with.
    begun: Vec<u8>,
    session: Option<Box<[u8]>>,
    streams: Box<[Place]>,
    /// Requests that have been answered or acknowledged.
    answered: usize,
    /// Requests that were posted, over HTTP.
    asked: usize,
    /// The stream of the session has been asked for.
    is_attaching: bool,
    /// All its streams were open at one time.
    has_opened: bool,
}

impl Listening {
    /// A connection behind its opening: its reader, what that is not done with, and the session
    /// that was opened. What is to be said first is written to `out`.
    pub fn new(
        subscription: &Subscription,
        (reader, mut begun, session): (Reader, Vec<u8>, Option<Box<[u8]>>),
        out: &mut Vec<u8>,
    ) -> Self {
        begun.shrink_to_fit();
        let streams = vec![Place::Asked; subscription.streams()].into();
        let mut listening = Self {
            reader,
            begun,
            session,
            streams,
            answered: 0,
            asked: 0,
            is_attaching: false,
            has_opened: false,
        };
        if subscription.is_over(Transport::Http) {
            listening.ask_next(subscription, out);
        } else {
            for place in 0..subscription.requests() {
                subscription.ask(out, place, None);
            }
        }
        listening
    }

    /// Streams of it that are open.
    pub fn open(&self) -> usize {
        self.streams.iter().filter(|place| **place == Place::Open).count()
    }

    /// Whether all its streams are open for the first time; told once.
    #[inline]
    pub fn is_newly_whole(&mut self) -> bool {
        if self.has_opened {
            return false;
        }
        self.has_opened = self.streams.iter().all(|place| *place == Place::Open);
        self.has_opened
    }

    /// Whether all its streams were open at one time.
    pub const fn has_opened(&self) -> bool {
        self.has_opened
    }

    /// Asks again for streams that have ended; whether there was one.
    pub fn ask_again(&mut self, subscription: &Subscription, out: &mut Vec<u8>) -> bool {
        let before = out.len();
        for (place, stream) in self.streams.iter_mut().enumerate() {
            if *stream == Place::Ended {
                *stream = Place::Asked;
                subscription.ask(out, place, None);
            }
        }
        out.len() > before
    }

    /// Takes in what arrived, and tells what came of it. Call it once with nothing behind
    /// [`Listening::new`]: more may have come with the opening.
    ///
    /// # Errors
    ///
    /// Where the server refuses to be listened to, or says what no server may.
    #[inline]
    pub fn hear(
        &mut self,
        subscription: &mut Subscription,
        arrived: &[u8],
        mut tell: impl FnMut(Hearing),
    ) -> Result<(), Refused> {
        let mut begun = std::mem::take(&mut self.begun);
        piece_together(&mut begun, arrived, |bytes| self.read(subscription, bytes, &mut tell))?;
        self.begun = begun;
        Ok(())
    }

    /// Goes through `bytes`; returns how far it came.
    fn read(
        &mut self,
        subscription: &mut Subscription,
        bytes: &[u8],
        tell: &mut impl FnMut(Hearing),
    ) -> Result<usize, Refused> {
        let mut from = 0;
        // Apart from the rest of what is known here, which its events borrow from it.
        let mut reader = std::mem::replace(&mut self.reader, Reader::Lines(LineReader::default()));
        let read = loop {
            let look = match reader.look(&bytes[from..]) {
                Ok(Some(look)) => look,
                Ok(None) => break Ok(from),
                Err(broken) => break Err(Refused::new(Failure::Garbage, broken.0.as_bytes())),
            };
            let (taken, heard) = look;
            from += taken;
            let weighed = match heard {
                Some(heard) => self.weigh(subscription, heard, tell),
                None => Ok(()),
            };
            if let Err(refused) = weighed {
                break Err(refused);
            }
            if self.is_attaching && reader.is_in_stream() {
                self.is_attaching = false;
                self.open_session(tell);
            }
        };
        self.reader = reader;
        read
    }

    fn weigh(
        &mut self,
        subscription: &mut Subscription,
        heard: Heard<'_>,
        tell: &mut impl FnMut(Hearing),
    ) -> Result<(), Refused> {
        match heard {
            Heard::Text(text) => return self.weigh_text(subscription, text, tell),
            Heard::Over { status: status @ 300.., .. } => {
                let said = format!("status {status}");
                return Err(Refused::new(status_failure(status), said.as_bytes()));
            }
            Heard::Over { .. } => return self.go_on(subscription, tell),
            Heard::Reply(reply) => tell(Hearing::Say(reply.to_vec())),
            Heard::Close => {
                let mut goodbye = Vec::new();
                frames::write_close(&mut goodbye);
                tell(Hearing::Say(goodbye));
                tell(Hearing::Closing);
            }
        }
        Ok(())
    }

    #[inline]
    fn weigh_text(
        &mut self,
        subscription: &mut Subscription,
        text: &[u8],
        tell: &mut impl FnMut(Hearing),
    ) -> Result<(), Refused> {
        if let Some(place) = subscription.recognize(text) {
            self.told(place, tell);
            return Ok(());
        }
        match judge(text, |_| None) {
            Judgement::Notice => match subscription.read(text) {
                Notice::Change { id } => {
                    let place = id.map_or(Some(0), |id| subscription.place(id));
                    self.told(place.unwrap_or(usize::MAX), tell);
                }
                Notice::Acknowledged { id, is_whole } => {
                    let place = id.and_then(|id| subscription.place(id));
                    let stream = place.and_then(|place| self.streams.get_mut(place));
                    let is_due = stream.as_deref() == Some(&Place::Asked);
                    let Some(stream) = stream.filter(|_| is_due && is_whole) else {
                        return Err(Refused::new(Failure::Wrong, text));
                    };
                    *stream = Place::Open;
                    tell(Hearing::Opened);
                }
                Notice::Unasked => tell(Hearing::Stray),
                Notice::Nothing => {}
            },
            Judgement::Question { id, is_ping } if !subscription.is_over(Transport::Http) => {
                let words = subscription.speech().frame(&answer(id, is_ping));
                tell(Hearing::Say(words));
            }
            Judgement::Question { .. } => {}
            Judgement::Answer { id, failure } => {
                return self.take_answer(subscription, (id, failure), text, tell);
            }
            Judgement::Nameless => return Err(Refused::new(Failure::Rpc, text)),
            Judgement::Garbage => return Err(Refused::new(Failure::Garbage, text)),
        }
        Ok(())
    }

    #[inline]
    fn told(&mut self, place: usize, tell: &mut impl FnMut(Hearing)) {
        match self.streams.get(place) {
            Some(Place::Open) => tell(Hearing::Told(place)),
            _ => tell(Hearing::Stray),
        }
    }

    /// An answer: of a modern server it is the end of a stream, of a legacy one what was waited
    /// for.
    #[cold]
    fn take_answer(
        &mut self,
        subscription: &Subscription,
        (id, failure): (u64, Option<Failure>),
        text: &[u8],
        tell: &mut impl FnMut(Hearing),
    ) -> Result<(), Refused> {
        let Some(place) = subscription.place(id) else {
            return Err(Refused::new(Failure::Wrong, text));
        };
        if subscription.is_modern() {
            if self.streams[place] != Place::Open {
                return Err(Refused::new(failure.unwrap_or(Failure::Wrong), text));
            }
            self.streams[place] = Place::Ended;
            tell(Hearing::Ended);
            return Ok(());
        }
        if let Some(failure) = failure {
            return Err(Refused::new(failure, text));
        }
        self.answered += 1;
        self.open_unasked(subscription, tell);
        Ok(())
    }

    /// A response of HTTP is over: the next request is due, or the stream has ended.
    #[cold]
    fn go_on(
        &mut self,
        subscription: &Subscription,
        tell: &mut impl FnMut(Hearing),
    ) -> Result<(), Refused> {
        let has_begun = self.streams.iter().any(|place| *place != Place::Asked);
        if has_begun {
            if let Some(stream) = self.streams.iter_mut().find(|place| **place == Place::Open) {
                *stream = Place::Ended;
                tell(Hearing::Ended);
            }
            tell(Hearing::Closing);
            return Ok(());
        }
        let is_answered = self.answered == self.asked;
        if subscription.is_modern() || self.is_attaching || !is_answered {
            return Err(Refused::new(Failure::Wrong, b"a response without an answer"));
        }
        let mut words = Vec::new();
        self.ask_next(subscription, &mut words);
        tell(Hearing::Say(words));
        Ok(())
    }

    /// Posts the next request of HTTP, or asks for the stream of the session behind the last.
    fn ask_next(&mut self, subscription: &Subscription, out: &mut Vec<u8>) {
        let session = self.session.as_deref();
        if self.asked < subscription.requests() {
            subscription.ask(out, self.asked, session);
            self.asked += 1;
            return;
        }
        self.is_attaching = true;
        let speech = subscription.speech();
        let mut head = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream\r\n",
            speech.path, speech.authority
        );
        for field in &speech.fields {
            push_field(&mut head, field.name(), field.value());
        }
        push_field(&mut head, "MCP-Protocol-Version", speech.era.revision());
        out.extend_from_slice(head.as_bytes());
        if let Some(session) = session {
            out.extend_from_slice(b"Mcp-Session-Id: ");
            out.extend_from_slice(session);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
    }

    /// A legacy session is a stream by itself once all that it asked for is granted.
    fn open_unasked(&mut self, subscription: &Subscription, tell: &mut impl FnMut(Hearing)) {
        if !subscription.is_modern()
            && !subscription.is_over(Transport::Http)
            && self.answered >= subscription.requests()
        {
            self.open_session(tell);
        }
    }

    fn open_session(&mut self, tell: &mut impl FnMut(Hearing)) {
        if let Some(stream @ Place::Asked) = self.streams.first_mut() {
            *stream = Place::Open;
            tell(Hearing::Opened);
        }
    }
}

#[cfg(test)]
mod tests;
