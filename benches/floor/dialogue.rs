//! The books of a closed loop: what was asked on one stream, what was answered, and the sums.
//!
//! What it keeps true: a stream has at most `depth` calls in flight; answers are expected in the
//! order of the calls; in the end every call has one answer. Lines are counted, all of them must
//! have one length, and a sample is read; of every HTTP response the status, the length, the id
//! and the text are compared, of every frame each byte, and a sample is read too.

use std::io;

use corelane::base::time::Moment;
use hdrhistogram::Histogram;
use memchr::{memchr, memchr_iter};

use crate::frames::Frame;
use crate::requests::{FIRST_ID, Template};
use crate::responses::{self, Response};
use crate::wording::Wording;

/// How answers are told from each other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Framing {
    Lines,
    /// HTTP responses, each with the id of its call.
    Responses,
    /// HTTP responses of a floor, which has one for all calls.
    FixedResponses,
    /// Frames of text, each with the id of its call.
    Frames,
}

/// One arrival of lines, or one other answer, in so many is read in full: a prime, so that every
/// connection has its turn.
const SAMPLE_EVERY: u64 = 509;
const LATENCY_NANOSECONDS_MAX: u64 = 60_000_000_000;

/// One stream's books.
#[derive(Debug)]
pub(crate) struct Dialogue {
    framing: Framing,
    /// The id of its first call.
    first_id: u64,
    asked: u64,
    answered: u64,
    /// Calls that may be asked now.
    owed: usize,
    /// When a call was sent, and how many answers there are when its own has come.
    timed: Option<(Moment, u64)>,
    /// The last arrival ended within a line.
    inside_line: bool,
    /// The beginning of an answer that is not all there: of lines only of the first, until any
    /// answer has been read in full.
    begun: Vec<u8>,
}

/// What all streams of one load came to.
#[derive(Debug)]
pub(crate) struct Sums {
    pub(crate) answered: u64,
    /// Nanoseconds from a send to the last of its answers, one send of a stream at a time.
    pub(crate) latency: Histogram<u64>,
    bytes: u64,
    /// Bytes of one line, once the first was seen.
    answer_bytes: u64,
    /// Arrivals of lines, or other answers.
    looked_at: u64,
    model: Option<Model>,
}

impl Dialogue {
    /// The books of a stream that may have `depth` calls in flight.
    pub(crate) const fn new(depth: usize, framing: Framing) -> Self {
        Self {
            framing,
            first_id: FIRST_ID,
            asked: 0,
            answered: 0,
            owed: depth,
            timed: None,
            inside_line: false,
            begun: Vec::new(),
        }
    }

    /// Numbers the calls from `first_id` on, before the first of them.
    pub(crate) const fn begin_at(&mut self, first_id: u64) {
        self.first_id = first_id;
    }

    /// Calls so far.
    pub(crate) const fn asked(&self) -> u64 {
        self.asked
    }

    /// Whether there is something to ask.
    #[inline]
    pub(crate) const fn may_ask(&self) -> bool {
        self.owed > 0
    }

    /// Numbers as many calls as may be asked now at the end of `calls`, the lines of `depth` calls;
    /// returns where they begin.
    #[inline]
    pub(crate) fn ask(&mut self, template: &Template, calls: &mut [u8], now: Moment) -> usize {
        let depth = calls.len() / template.bytes();
        let first = depth - self.owed;
        for place in first..depth {
            template.number(calls, place, self.first_id + self.asked);
            self.asked += 1;
        }
        self.owed = 0;
        if self.timed.is_none() {
            self.timed = Some((now, self.asked));
        }
        first * template.bytes()
    }

    /// Counts the answers in what arrived, and looks at them.
    #[inline]
    pub(crate) fn hear(
        &mut self,
        template: &Template,
        arrived: &[u8],
        now: Moment,
        sums: &mut Sums,
    ) -> io::Result<()> {
        let answers = match self.framing {
            Framing::Lines => self.hear_lines(template, arrived, sums)?,
            _ => self.hear_answers(template, arrived, sums)?,
        };
        self.owed += answers;
        if let Some((sent, last)) = self.timed
            && self.answered >= last
        {
            self.timed = None;
            let span = u64::try_from(now.since(sent).as_nanos());
            sums.latency.saturating_record(span.unwrap_or(u64::MAX));
        }
        Ok(())
    }

    /// Counts newlines, and reads a line where its turn has come.
    #[inline]
    fn hear_lines(
        &mut self,
        template: &Template,
        arrived: &[u8],
        sums: &mut Sums,
    ) -> io::Result<usize> {
        let answers = memchr_iter(b'\n', arrived).count();
        sums.looked_at += 1;
        if sums.answer_bytes == 0 {
            self.begun.extend_from_slice(arrived);
            if let Some(end) = memchr(b'\n', &self.begun) {
                template.check(&self.begun[..=end], FIRST_ID)?;
                sums.answer_bytes = end as u64 + 1;
                self.begun = Vec::new();
            }
        } else if sums.looked_at.is_multiple_of(SAMPLE_EVERY)
            && !self.inside_line
            && let Some(end) = memchr(b'\n', arrived)
        {
            template.check(&arrived[..=end], FIRST_ID + self.answered)?;
        }
        self.inside_line = arrived.last() != Some(&b'\n');
        self.answered += answers as u64;
        sums.answered += answers as u64;
        sums.bytes += arrived.len() as u64;
        Ok(answers)
    }

    /// Goes from answer to answer, across the borders of arrivals.
    #[inline]
    fn hear_answers(
        &mut self,
        template: &Template,
        arrived: &[u8],
        sums: &mut Sums,
    ) -> io::Result<usize> {
        let mut begun = std::mem::take(&mut self.begun);
        let is_split = !begun.is_empty();
        if is_split {
            begun.extend_from_slice(arrived);
        }
        let bytes = if is_split { &begun } else { arrived };
        let (mut from, mut answers) = (0, 0);
        while from < bytes.len() {
            let id = match self.framing {
                Framing::FixedResponses => FIRST_ID,
                _ => self.first_id + self.answered,
            };
            let answer = sums.look_at(self.framing, template, &bytes[from..], id)?;
            let Some(length) = answer else { break };
            from += length;
            answers += 1;
            self.answered += 1;
            sums.answered += 1;
        }
        if self.answered > self.asked {
            return Err(io::Error::other("an answer that nothing was asked for"));
        }
        if is_split {
            begun.drain(..from);
        } else {
            begun.extend_from_slice(&arrived[from..]);
        }
        self.begun = begun;
        Ok(answers)
    }
}

/// What further right answers look like.
#[derive(Debug)]
enum Model {
    Frame(Wording),
    Response(responses::Model),
}

impl Model {
    /// The length of the right answer to the call `id` at the beginning of `arrived`.
    #[inline]
    fn accept(&self, arrived: &[u8], id: u64) -> Option<usize> {
        match self {
            Self::Frame(frame) => frame.accepts(arrived, id).then(|| frame.bytes()),
            Self::Response(model) => model.accept(arrived, id),
        }
    }
}

impl Sums {
    /// Nothing yet.
    pub(crate) fn new() -> io::Result<Self> {
        let latency = Histogram::new_with_bounds(1, LATENCY_NANOSECONDS_MAX, 3);
        let latency = latency.map_err(io::Error::other)?;
        Ok(Self { answered: 0, latency, bytes: 0, answer_bytes: 0, looked_at: 0, model: None })
    }

    /// The length of the right answer to the call `id` at the beginning of `bytes`; `None` until it
    /// is all there.
    #[inline]
    fn look_at(
        &mut self,
        framing: Framing,
        template: &Template,
        bytes: &[u8],
        id: u64,
    ) -> io::Result<Option<usize>> {
        if let Some(model) = &self.model
            && !self.looked_at.is_multiple_of(SAMPLE_EVERY)
            && let Some(length) = model.accept(bytes, id)
        {
            self.looked_at += 1;
            return Ok(Some(length));
        }
        let length = if framing == Framing::Frames {
            let Some(frame) = Frame::read(bytes)? else { return Ok(None) };
            template.check(frame.text, id)?;
            self.model = Some(Model::Frame(Wording::new(frame.bytes, id)?));
            frame.bytes.len()
        } else {
            let Some(response) = Response::read(bytes)? else { return Ok(None) };
            response.expect(200)?;
            template.check(response.body, id)?;
            self.model = Some(Model::Response(responses::Model::new(&response, id)?));
            response.bytes()
        };
        self.looked_at += 1;
        Ok(Some(length))
    }

    /// Compares the sums with the number of calls that were asked.
    pub(crate) fn balance(&self, asked: u64) -> io::Result<()> {
        let Self { answered, bytes, answer_bytes, .. } = *self;
        if answered == asked && bytes == answered * answer_bytes {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "{asked} calls got {answered} answers of {bytes} bytes, {answer_bytes} bytes expected \
             for each"
        )))
    }
}
