//! Spans as messages of OTLP.
//!
//! Source: OTLP 1.9; opentelemetry-proto, `trace/v1/trace.proto`.

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{
    ResourceSpans, ScopeSpans, Span, Status, span, status,
};
use prost::Message;

use crate::telemetry::trace::{self, AttributeValue, SpanIds, SpanKind, TraceParent};

/// What all spans have in common.
#[derive(Clone, Debug)]
pub struct SpanSource {
    resource: Resource,
    scope: InstrumentationScope,
}

impl SpanSource {
    /// Creates it from the attributes of the service.
    pub fn new(attributes: Vec<(String, String)>) -> Self {
        let attributes = attributes.into_iter().map(|(key, value)| attribute(key, value.into()));
        let resource = Resource { attributes: attributes.collect(), ..Resource::default() };
        let scope = InstrumentationScope {
            name: env!("CARGO_PKG_NAME").to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        Self { resource, scope }
    }

    /// Encodes a request that exports `spans`.
    pub fn encode(&self, spans: Vec<trace::Span>) -> Vec<u8> {
        let spans = spans.into_iter().map(span_message).collect();
        let scope = Some(self.scope.clone());
        let scope_spans = vec![ScopeSpans { scope, spans, ..ScopeSpans::default() }];
        let resource = Some(self.resource.clone());
        let resource_spans = ResourceSpans { resource, scope_spans, ..ResourceSpans::default() };
        ExportTraceServiceRequest { resource_spans: vec![resource_spans] }.encode_to_vec()
    }
}

/// Returns how many spans the collector has rejected, and why.
pub fn read_rejected(response: &[u8]) -> Option<(u64, String)> {
    let response = ExportTraceServiceResponse::decode(response).ok()?;
    let partial = response.partial_success?;
    let spans = u64::try_from(partial.rejected_spans).ok().filter(|spans| *spans > 0)?;
    Some((spans, partial.error_message))
}

fn span_message(span: trace::Span) -> Span {
    let SpanIds { trace_id, span_id } = span.ids;
    let kind = match span.kind {
        SpanKind::Server => span::SpanKind::Server,
        SpanKind::Internal => span::SpanKind::Internal,
    };
    let status = span
        .is_failed
        .then(|| Status { code: status::StatusCode::Error.into(), ..Status::default() });
    let attributes = span.attributes.into_iter();
    Span {
        trace_id: trace_id.to_vec(),
        span_id: span_id.to_vec(),
        trace_state: span.state.into(),
        parent_span_id: span.parent_id.map(Vec::from).unwrap_or_default(),
        flags: flags(true, span.is_parent_remote),
        name: span.name.into_owned(),
        kind: kind.into(),
        start_time_unix_nano: span.begun,
        end_time_unix_nano: span.ended,
        attributes: attributes.map(|(key, value)| attribute(key.to_owned(), value)).collect(),
        links: span.link.iter().map(link).collect(),
        status,
        ..Span::default()
    }
}

fn link(context: &TraceParent) -> span::Link {
    span::Link {
        trace_id: context.trace_id.to_vec(),
        span_id: context.span_id.to_vec(),
        flags: flags(context.is_sampled, true),
        ..span::Link::default()
    }
}

/// Returns the flags of a trace, and whether its context came from another program.
const fn flags(is_sampled: bool, is_remote: bool) -> u32 {
    is_sampled as u32 | 0x100 | if is_remote { 0x200 } else { 0 }
}

fn attribute(key: String, value: AttributeValue) -> KeyValue {
    let value = match value {
        AttributeValue::Text(text) => any_value::Value::StringValue(text.into_owned()),
        AttributeValue::Number(number) => any_value::Value::IntValue(number),
        AttributeValue::Fraction(number) => any_value::Value::DoubleValue(number),
        AttributeValue::Flag(flag) => any_value::Value::BoolValue(flag),
    };
    KeyValue { key, value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}
