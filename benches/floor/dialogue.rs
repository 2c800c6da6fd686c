//! The books of a closed loop: what was asked on one stream, what was answered, and the sums.
//!
//! What it keeps true: a stream has at most `depth` calls in flight; answers are expected in the
//! order of the calls; in the end every call has one answer and all answers have one length.

use std::io;

use corelane::base::time::Moment;
use hdrhistogram::Histogram;
use memchr::{memchr, memchr_iter};

use crate::requests::{FIRST_ID, Template};

/// One arrival in so many is read in full: a prime, so that every connection has its turn.
const SAMPLE_EVERY: u64 = 509;
const LATENCY_NANOSECONDS_MAX: u64 = 60_000_000_000;

/// One stream's books.
#[derive(Debug)]
pub(crate) struct Dialogue {
    asked: u64,
    answered: u64,
    /// Calls that may be asked now.
    owed: usize,
    /// When a call was sent, and how many answers there are when its own has come.
    timed: Option<(Moment, u64)>,
    /// The last arrival ended within a line.
    inside_line: bool,
    /// The beginning of the first answer, until any answer has been read in full.
    first: Vec<u8>,
}

/// What all streams of one load came to.
#[derive(Debug)]
pub(crate) struct Sums {
    pub(crate) answered: u64,
    /// Nanoseconds from a send to the last of its answers, one send of a stream at a time.
    pub(crate) latency: Histogram<u64>,
    bytes: u64,
    /// Bytes of one answer, once the first was seen.
    answer_bytes: u64,
    arrivals: u64,
}

impl Dialogue {
    /// The books of a stream that may have `depth` calls in flight.
    pub(crate) const fn new(depth: usize) -> Self {
        Self {
            asked: 0,
            answered: 0,
            owed: depth,
            timed: None,
            inside_line: false,
            first: Vec::new(),
        }
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
            template.number(calls, place, FIRST_ID + self.asked);
            self.asked += 1;
        }
        self.owed = 0;
        if self.timed.is_none() {
            self.timed = Some((now, self.asked));
        }
        first * template.bytes()
    }

    /// Counts the answers in what arrived, and reads one where its turn has come.
    #[inline]
    pub(crate) fn hear(
        &mut self,
        template: &Template,
        arrived: &[u8],
        now: Moment,
        sums: &mut Sums,
    ) -> io::Result<()> {
        let answers = memchr_iter(b'\n', arrived).count();
        sums.arrivals += 1;
        if sums.answer_bytes == 0 {
            self.first.extend_from_slice(arrived);
            if let Some(end) = memchr(b'\n', &self.first) {
                template.check(&self.first[..=end], FIRST_ID)?;
                sums.answer_bytes = end as u64 + 1;
                self.first = Vec::new();
            }
        } else if sums.arrivals.is_multiple_of(SAMPLE_EVERY)
            && !self.inside_line
            && let Some(end) = memchr(b'\n', arrived)
        {
            template.check(&arrived[..=end], FIRST_ID + self.answered)?;
        }
        self.inside_line = arrived.last() != Some(&b'\n');
        self.answered += answers as u64;
        self.owed += answers;
        sums.answered += answers as u64;
        sums.bytes += arrived.len() as u64;
        if let Some((sent, last)) = self.timed
            && self.answered >= last
        {
            self.timed = None;
            let span = u64::try_from(now.since(sent).as_nanos());
            sums.latency.saturating_record(span.unwrap_or(u64::MAX));
        }
        Ok(())
    }
}

impl Sums {
    /// Nothing yet.
    pub(crate) fn new() -> io::Result<Self> {
        let latency = Histogram::new_with_bounds(1, LATENCY_NANOSECONDS_MAX, 3);
        let latency = latency.map_err(io::Error::other)?;
        Ok(Self { answered: 0, latency, bytes: 0, answer_bytes: 0, arrivals: 0 })
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
