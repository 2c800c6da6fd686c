//! A span, and the place of its parent in the trace.

use std::borrow::Cow;

use corelane_base::random::Random;

/// The caller of a span (W3C Trace Context, section 3.2).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TraceParent {
    /// Id of the trace.
    pub trace_id: [u8; 16],
    /// Id of the span of the caller.
    pub span_id: [u8; 8],
    /// Whether the caller records its span.
    pub is_sampled: bool,
}

impl TraceParent {
    /// Reads a `traceparent`. Returns `None` if it is not valid.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let [version] = read_hex(parts.next()?)?;
        let (trace_id, span_id) = (read_hex(parts.next()?)?, read_hex(parts.next()?)?);
        let [flags] = read_hex(parts.next()?)?;
        // Later versions may have more parts.
        let is_version = version != 0xff && (version > 0 || parts.next().is_none());
        let is_valid = is_version && trace_id != [0; 16] && span_id != [0; 8];
        is_valid.then_some(Self { trace_id, span_id, is_sampled: flags & 1 == 1 })
    }
}

/// Reads bytes of two hexadecimal digits each.
fn read_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|it| u8::try_from(it).ok());
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

/// The trace that a request names.
#[derive(Clone, Copy, Debug, Default)]
pub struct RemoteContext<'a> {
    /// The caller, if it has one.
    pub parent: Option<TraceParent>,
    /// `tracestate` of the caller, as it was sent.
    pub state: &'a str,
    /// Another context that came with the request.
    pub link: Option<TraceParent>,
}

/// The role of a span.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SpanKind {
    /// Serves a request of a client.
    Server,
    /// A part of another span of the server.
    Internal,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum AttributeValue {
    /// A text.
    Text(Cow<'static, str>),
    /// A whole number.
    Number(i64),
    /// A number with a fraction.
    Fraction(f64),
    /// True or false.
    Flag(bool),
}

impl From<&'static str> for AttributeValue {
    fn from(text: &'static str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<u64> for AttributeValue {
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<f64> for AttributeValue {
    fn from(number: f64) -> Self {
        Self::Fraction(number)
    }
}

impl From<bool> for AttributeValue {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

/// The ids of a span.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SpanIds {
    /// Id of its trace.
    pub trace_id: [u8; 16],
    /// Its own id.
    pub span_id: [u8; 8],
}

/// A span as it is exported. Times are nanoseconds since 1970.
#[derive(Debug)]
pub struct Span {
    /// Its ids.
    pub ids: SpanIds,
    /// Id of its parent.
    pub parent_id: Option<[u8; 8]>,
    /// Whether its parent is a span of another program.
    pub is_parent_remote: bool,
    /// `tracestate` of the trace.
    pub state: Box<str>,
    /// Another context that came with the request.
    pub link: Option<TraceParent>,
    /// Its name.
    pub name: Cow<'static, str>,
    /// Its role.
    pub kind: SpanKind,
    /// When it began.
    pub begun: u64,
    /// When it ended.
    pub ended: u64,
    /// Its attributes.
    pub attributes: Vec<(&'static str, AttributeValue)>,
    /// Whether it has failed.
    pub is_failed: bool,
}

/// Bytes of a `tracestate` that are kept; a longer one is dropped (W3C Trace Context, section
/// 3.3.1.5).
const STATE_BYTES_MAX: usize = 512;

impl Span {
    pub(super) fn begin(
        name: &'static str,
        kind: SpanKind,
        ids: SpanIds,
        context: &RemoteContext<'_>,
        now: u64,
    ) -> Self {
        let state = Some(context.state).filter(|it| it.len() <= STATE_BYTES_MAX);
        Self {
            ids,
            parent_id: context.parent.map(|parent| parent.span_id),
            is_parent_remote: context.parent.is_some(),
            state: state.filter(|_| context.parent.is_some()).unwrap_or_default().into(),
            link: context.link,
            name: name.into(),
            kind,
            begun: now,
            ended: now,
            attributes: Vec::with_capacity(8),
            is_failed: false,
        }
    }

    /// Returns a span within this one.
    pub(super) fn child(&self, name: &'static str, now: u64) -> Self {
        let SpanIds { trace_id, span_id } = self.ids;
        // As good as another random number: the id of the parent is one.
        let own = Random::seeded(u64::from_be_bytes(span_id)).next_u64().max(1);
        Self {
            ids: SpanIds { trace_id, span_id: own.to_be_bytes() },
            parent_id: Some(span_id),
            is_parent_remote: false,
            state: self.state.clone(),
            link: None,
            name: name.into(),
            kind: SpanKind::Internal,
            begun: now,
            ended: now,
            attributes: Vec::new(),
            is_failed: false,
        }
    }
}
