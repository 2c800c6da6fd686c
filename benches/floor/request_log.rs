//! Accounting of a closed loop: requests and responses of one stream, and totals.
//!
//! Invariants: a stream has at most `depth` calls in flight; responses arrive in the order of the
//! calls; at the end every call has one response. Lines are counted and must have the same length,
//! and a sample is parsed. Of every HTTP response the status, length, id and body are compared, of
//! every frame each byte, and a sample is parsed.

use std::io;

use corelane_base::time::Instant;
use corelane_bench_support::frames::Frame;
use corelane_bench_support::requests::{FIRST_ID, RequestTemplate};
use corelane_bench_support::responses::{self, Response};
use corelane_bench_support::text_template::TextTemplate;
use hdrhistogram::Histogram;
use memchr::{memchr, memchr_iter};

/// Format of responses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ResponseFormat {
    Lines,
    /// HTTP responses, each with the id of its call.
    Responses,
    /// HTTP responses of a floor, the same for all calls.
    FixedResponses,
    /// Text frames, each with the id of its call.
    Frames,
}

/// Interval at which responses (of lines: arrivals) are parsed: a prime, so that every connection
/// is sampled.
const SAMPLE_EVERY: u64 = 509;
const LATENCY_NANOSECONDS_MAX: u64 = 60_000_000_000;

/// Accounting of one stream.
#[derive(Debug)]
pub(crate) struct RequestLog {
    format: ResponseFormat,
    /// Id of its first call.
    first_id: u64,
    sent: u64,
    answered: u64,
    /// Calls that may be sent now.
    sendable: usize,
    /// Send time of a call, and the number of responses when its own has arrived.
    timed: Option<(Instant, u64)>,
    /// Whether the last arrival ended within a line.
    inside_line: bool,
    /// Incomplete response; of lines only the first response, until one has been parsed.
    partial: Vec<u8>,
}

/// Totals of all streams of a load.
#[derive(Debug)]
pub(crate) struct Totals {
    pub(crate) answered: u64,
    /// Nanoseconds from a send to the last of its responses, for one send of a stream at a time.
    pub(crate) latency: Histogram<u64>,
    bytes: u64,
    /// Length of one response line, once known.
    response_bytes: u64,
    /// Arrivals of lines, or other responses.
    checked: u64,
    response_template: Option<Template>,
}

impl RequestLog {
    /// Creates the log of a stream with at most `depth` calls in flight.
    pub(crate) const fn new(depth: usize, format: ResponseFormat) -> Self {
        Self {
            format,
            first_id: FIRST_ID,
            sent: 0,
            answered: 0,
            sendable: depth,
            timed: None,
            inside_line: false,
            partial: Vec::new(),
        }
    }

    /// Sets the id of the first call, before any is sent.
    pub(crate) const fn set_first_id(&mut self, first_id: u64) {
        self.first_id = first_id;
    }

    /// Returns the number of calls sent.
    pub(crate) const fn sent(&self) -> u64 {
        self.sent
    }

    #[inline]
    pub(crate) const fn may_send(&self) -> bool {
        self.sendable > 0
    }

    /// Sets the ids of all sendable calls at the end of `calls`, a buffer of `depth` calls; returns
    /// their offset.
    #[inline]
    pub(crate) fn prepare_calls(
        &mut self,
        template: &RequestTemplate,
        calls: &mut [u8],
        now: Instant,
    ) -> usize {
        let depth = calls.len() / template.bytes();
        let first = depth - self.sendable;
        for index in first..depth {
            template.set_id(calls, index, self.first_id + self.sent);
            self.sent += 1;
        }
        self.sendable = 0;
        if self.timed.is_none() {
            self.timed = Some((now, self.sent));
        }
        first * template.bytes()
    }

    /// Counts and checks the responses in `arrived`.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        template: &RequestTemplate,
        arrived: &[u8],
        now: Instant,
        totals: &mut Totals,
    ) -> io::Result<()> {
        let count = match self.format {
            ResponseFormat::Lines => self.receive_lines(template, arrived, totals)?,
            _ => self.receive_responses(template, arrived, totals)?,
        };
        self.sendable += count;
        if let Some((sent_at, last)) = self.timed
            && self.answered >= last
        {
            self.timed = None;
            let span = u64::try_from(now.since(sent_at).as_nanos());
            totals.latency.saturating_record(span.unwrap_or(u64::MAX));
        }
        Ok(())
    }

    /// Counts newlines, and parses a line if it is sampled.
    #[inline]
    fn receive_lines(
        &mut self,
        template: &RequestTemplate,
        arrived: &[u8],
        totals: &mut Totals,
    ) -> io::Result<usize> {
        let count = memchr_iter(b'\n', arrived).count();
        totals.checked += 1;
        if totals.response_bytes == 0 {
            self.partial.extend_from_slice(arrived);
            if let Some(end) = memchr(b'\n', &self.partial) {
                template.check(&self.partial[..=end], FIRST_ID)?;
                totals.response_bytes = end as u64 + 1;
                self.partial = Vec::new();
            }
        } else if totals.checked.is_multiple_of(SAMPLE_EVERY)
            && !self.inside_line
            && let Some(end) = memchr(b'\n', arrived)
        {
            template.check(&arrived[..=end], FIRST_ID + self.answered)?;
        }
        self.inside_line = arrived.last() != Some(&b'\n');
        self.answered += count as u64;
        totals.answered += count as u64;
        totals.bytes += arrived.len() as u64;
        Ok(count)
    }

    /// Checks each response; one may span several arrivals.
    #[inline]
    fn receive_responses(
        &mut self,
        template: &RequestTemplate,
        arrived: &[u8],
        totals: &mut Totals,
    ) -> io::Result<usize> {
        let mut partial = std::mem::take(&mut self.partial);
        let is_split = !partial.is_empty();
        if is_split {
            partial.extend_from_slice(arrived);
        }
        let bytes = if is_split { &partial } else { arrived };
        let (mut from, mut count) = (0, 0);
        while from < bytes.len() {
            let id = match self.format {
                ResponseFormat::FixedResponses => FIRST_ID,
                _ => self.first_id + self.answered,
            };
            let length = totals.check_response(self.format, template, &bytes[from..], id)?;
            let Some(length) = length else { break };
            from += length;
            count += 1;
            self.answered += 1;
            totals.answered += 1;
        }
        if self.answered > self.sent {
            return Err(io::Error::other("a response without a request"));
        }
        if is_split {
            partial.drain(..from);
        } else {
            partial.extend_from_slice(&arrived[from..]);
        }
        self.partial = partial;
        Ok(count)
    }
}

/// Template of further correct responses.
#[derive(Debug)]
enum Template {
    Frame(TextTemplate),
    Response(responses::ResponseTemplate),
}

impl Template {
    /// Returns the length of the correct response to call `id` at the start of `arrived`.
    #[inline]
    fn matches(&self, arrived: &[u8], id: u64) -> Option<usize> {
        match self {
            Self::Frame(frame) => frame.matches(arrived, id).then(|| frame.bytes()),
            Self::Response(response) => response.matches(arrived, id),
        }
    }
}

impl Totals {
    pub(crate) fn new() -> io::Result<Self> {
        let latency = Histogram::new_with_bounds(1, LATENCY_NANOSECONDS_MAX, 3);
        let latency = latency.map_err(io::Error::other)?;
        Ok(Self {
            answered: 0,
            latency,
            bytes: 0,
            response_bytes: 0,
            checked: 0,
            response_template: None,
        })
    }

    /// Checks the response to call `id` at the start of `bytes` and returns its length, or `None`
    /// if it is incomplete.
    #[inline]
    fn check_response(
        &mut self,
        format: ResponseFormat,
        template: &RequestTemplate,
        bytes: &[u8],
        id: u64,
    ) -> io::Result<Option<usize>> {
        if let Some(known) = &self.response_template
            && !self.checked.is_multiple_of(SAMPLE_EVERY)
            && let Some(length) = known.matches(bytes, id)
        {
            self.checked += 1;
            return Ok(Some(length));
        }
        let length = if format == ResponseFormat::Frames {
            let Some(frame) = Frame::read(bytes)? else { return Ok(None) };
            template.check(frame.text, id)?;
            self.response_template = Some(Template::Frame(TextTemplate::new(frame.bytes, id)?));
            frame.bytes.len()
        } else {
            let Some(response) = Response::read(bytes)? else { return Ok(None) };
            response.expect(200)?;
            template.check(response.body, id)?;
            self.response_template =
                Some(Template::Response(responses::ResponseTemplate::new(&response, id)?));
            response.bytes()
        };
        self.checked += 1;
        Ok(Some(length))
    }

    /// Compares the totals with the number of calls sent.
    pub(crate) fn check(&self, sent: u64) -> io::Result<()> {
        let Self { answered, bytes, response_bytes, .. } = *self;
        if answered == sent && bytes == answered * response_bytes {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "{sent} calls got {answered} responses of {bytes} bytes, {response_bytes} bytes \
             expected for each"
        )))
    }
}
