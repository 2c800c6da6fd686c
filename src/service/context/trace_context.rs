//! The trace that a request belongs to.

/// The trace context of a request, from its `_meta`: text as the client sent it, not validated.
///
/// Source: MCP 2026-07-28, basic/index, "_meta" (SEP-414); W3C Trace Context; W3C Baggage.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct TraceContext<'a> {
    /// Trace id, id of the calling span, and flags, as in the HTTP header of this name.
    pub traceparent: Option<&'a str>,
    /// State of the tracing systems that take part.
    pub tracestate: Option<&'a str>,
    /// Properties that the trace carries.
    pub baggage: Option<&'a str>,
}

impl<'a> TraceContext<'a> {
    /// Reads the members that `find` returns.
    pub(super) fn read(find: impl Fn(&str) -> Option<&'a str>) -> Self {
        Self {
            traceparent: find("traceparent"),
            tracestate: find("tracestate"),
            baggage: find("baggage"),
        }
    }
}
