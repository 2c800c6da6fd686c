//! The spans of requests of MCP.
//!
//! Source: OpenTelemetry, "Semantic conventions for Model Context Protocol (MCP)"; MCP 2026-07-28,
//! basic/index, "_meta" (SEP-414).

use std::net::SocketAddr;

use corelane_protocol::eras::Method;
use corelane_protocol::json::Value;
use corelane_protocol::jsonrpc::Id;

use super::{Dispatcher, MessageContext, RawRequest};
use crate::server::connection_state::PeerState;
use crate::server::owner_id::log_id;
use crate::server::reply_to::Outcome;
use crate::service::context::request::find_header;
use crate::telemetry::label::Transport;
use crate::telemetry::trace::{OpenSpan, RemoteContext, SpanKind, TraceParent};

/// The name of the span of an unknown method.
const OTHER_METHOD: &str = "_OTHER";

impl Dispatcher {
    /// Dispatches a request in its span, unless that is not sampled. The span ends with the
    /// response; that of a subscription when the stream begins.
    #[cold]
    #[inline(never)]
    pub(super) fn dispatch_traced(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        raw: &RawRequest<'_>,
    ) -> Outcome {
        let method = Method::parse(raw.method);
        let name = method.map_or(OTHER_METHOD, Method::as_str);
        let context = remote_context(raw, peer.origin.details.http_head);
        let Some(mut span) = peer.outbox.tracer.begin(name, SpanKind::Server, &context) else {
            return self.dispatch_valid(ctx, peer, raw);
        };
        self.describe(&mut span, method, raw);
        let tool_errors = peer.outbox.counters.requests.tool_errors;
        let outcome = self.dispatch_valid(ctx, peer, raw);
        describe_peer(&mut span, peer, raw);
        match outcome {
            Outcome::Response => {
                let is_tool_error = peer.outbox.counters.requests.tool_errors > tool_errors;
                span.end_request(None, is_tool_error);
            }
            Outcome::Error(kind) => span.end_request(Some(kind.properties().code), false),
            Outcome::None | Outcome::Notification => {
                match peer.state.in_flight.call_of(raw.id, ctx.reply_to.exchange()) {
                    Some(call_id) => self.deferred.calls.attach_span(call_id, span),
                    None if method == Some(Method::SubscriptionsListen) => span.end(),
                    // It waits, and is dispatched again.
                    None => {}
                }
            }
        }
        outcome
    }

    /// Sets the attributes of the request itself.
    fn describe(&self, span: &mut OpenSpan, method: Option<Method>, raw: &RawRequest<'_>) {
        span.set_text("mcp.method.name", raw.method);
        span.set_text(
            "jsonrpc.request.id",
            &match raw.id {
                Id::Text(text) => text.to_owned(),
                id => written(id),
            },
        );
        let params = raw.params.and_then(Value::as_object);
        let text = |key| params?.find(key)?.as_str();
        match (method, text("name"), text("uri")) {
            (Some(Method::ToolsCall), Some(name), _) => {
                span.set("gen_ai.operation.name", "execute_tool");
                span.set_text("gen_ai.tool.name", name);
                // Names that a client has made up are in no name of a span.
                if self.catalog.tool(name).is_some() {
                    span.name_target(name);
                }
            }
            (Some(Method::PromptsGet), Some(name), _) => {
                span.set_text("gen_ai.prompt.name", name);
                if self.catalog.prompt(name).is_some() {
                    span.name_target(name);
                }
            }
            (Some(method), _, Some(uri)) if method.names_uri() => {
                span.set_text("mcp.resource.uri", uri);
            }
            _ => {}
        }
    }
}

/// Sets what is known of the peer and its session when the request is dispatched.
fn describe_peer(span: &mut OpenSpan, peer: &PeerState<'_>, raw: &RawRequest<'_>) {
    let meta = raw.meta.as_ref().ok().filter(|meta| meta.is_modern());
    let named = meta.and_then(|meta| meta.parse_modern().ok()).map(|meta| meta.revision);
    if let Some(revision) = named.or_else(|| peer.state.lifecycle.revision()) {
        span.set("mcp.protocol.version", revision.as_str());
    }
    if let Some(session) = peer.origin.details.session_id {
        span.set_text("mcp.session.id", &log_id(&String::from_utf8_lossy(&session.to_text())));
    }
    match peer.state.transport {
        Transport::Tcp | Transport::Http | Transport::WebSocket => {
            span.set("network.transport", "tcp");
        }
        Transport::Stdio => span.set("network.transport", "pipe"),
        Transport::InProcess => {}
    }
    match peer.state.transport {
        Transport::Http => span.set("network.protocol.name", "http"),
        Transport::WebSocket => span.set("network.protocol.name", "websocket"),
        Transport::Tcp | Transport::Stdio | Transport::InProcess => {}
    }
    if let Some(address) = peer.origin.peer_addr.copied().map(SocketAddr::from) {
        span.set("client.address", address.ip().to_string());
        span.set("client.port", u64::from(address.port()));
    }
}

/// Returns the trace that a request names: in its `_meta`, else by the fields of its HTTP request.
/// If both do, that of the fields becomes a link.
fn remote_context<'a>(raw: &RawRequest<'a>, http_head: &'a [u8]) -> RemoteContext<'a> {
    let meta = raw.call_params.meta_value().and_then(Value::as_object);
    let of_meta = |key| meta?.find(key)?.as_str();
    let of_head = |name| find_header(http_head, name);
    let from_meta = of_meta("traceparent").and_then(TraceParent::parse);
    let from_head = of_head("traceparent").and_then(TraceParent::parse);
    let state = match from_meta {
        Some(_) => of_meta("tracestate"),
        None => of_head("tracestate"),
    };
    let link = from_head.filter(|other| from_meta.is_some_and(|parent| parent != *other));
    RemoteContext { parent: from_meta.or(from_head), state: state.unwrap_or_default(), link }
}

fn written(id: Id<'_>) -> String {
    let mut text = Vec::new();
    id.write(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}
