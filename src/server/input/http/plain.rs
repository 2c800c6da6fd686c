//! Requests that are not MCP: the HTML page, health checks, status, CORS preflight, and upgrades to
//! WebSocket.
//!
//! Invariants of upgrades: the connection keeps its key and its slot; it is a peer of its own with
//! a unique session id; an invalid handshake, and one beyond the limit of WebSocket connections,
//! gets an error response, and the connection stays HTTP.
//!
//! Source: RFC 6455, section 4.2.

use std::str;

use corelane_engine::mesh::ShardId;
use corelane_transport::http::checks::{self, RequestKind};
use corelane_transport::http::fields::{Challenge, Preflight, ResponseFields};
use corelane_transport::http::head::Field;
use corelane_transport::http::response::BodyKind;
use corelane_transport::http::status::Status;
use corelane_transport::websocket::handshake;
use corelane_transport::websocket::reader::FrameReader;

use super::IncomingRequest;
use crate::guard::auth::bearer;
use crate::guard::auth::token_table::digest_of;
use crate::server::card::{CARD_TYPE, CATALOG_TYPE};
use crate::server::connection_state::{ResponseFormat, ResponseOwner};
use crate::server::diagnostics::{ListPosition, PageBuilder, Rows};
use crate::server::http::{CONTENT_SECURITY_POLICY, GaugeTotals, write_page};
use crate::server::owner_id::SessionId;
use crate::server::shard::{Shard, Transports};
use crate::server::shard_message::{ExchangeAddress, ReportMessage, ShardMessage};
use crate::server::upstreams::UpstreamChange;
use crate::telemetry::label::Transport;

/// Seconds for which the metadata of the resource may be cached.
const METADATA_SECONDS: u32 = 3600;

/// Responds to a request that carries no message.
pub(super) fn handle(shard: &mut Shard, incoming: &IncomingRequest<'_>, kind: RequestKind<'_>) {
    let fields = incoming.response_fields();
    match kind {
        RequestKind::Preflight { allow } => {
            let IncomingRequest { head, bytes, .. } = *incoming;
            let headers = head.other_fields(bytes, b"access-control-request-headers").next();
            let preflight = Preflight { methods: allow, headers, max_age_seconds: 86_400 };
            let fields = ResponseFields { preflight: Some(preflight), ..fields };
            shard.respond_http(incoming, Status::NO_CONTENT, BodyKind::Empty, fields, &[]);
        }
        RequestKind::Options { allow } => {
            let fields = ResponseFields { allow: Some(allow), ..fields };
            shard.respond_http(incoming, Status::NO_CONTENT, BodyKind::Empty, fields, &[]);
        }
        RequestKind::Ready if shard.transports.http.is_unready => {
            let (status, body) = (Status::UNAVAILABLE, BodyKind::Text("text/plain"));
            shard.respond_http(incoming, status, body, fields, b"draining\n");
        }
        RequestKind::Health | RequestKind::Ready => {
            shard.respond_http(incoming, Status::OK, BodyKind::Text("text/plain"), fields, b"ok\n");
        }
        RequestKind::Metrics
        | RequestKind::Connections { .. }
        | RequestKind::Upstreams
        | RequestKind::ChangeUpstream { .. }
            if !is_from_operator(shard, incoming) =>
        {
            refuse_operator(shard, incoming);
        }
        RequestKind::ResourceMetadata => {
            let metadata = shard.dispatcher.auth.metadata();
            let document = metadata.map(|it| it.json.clone()).unwrap_or_default();
            let fields = ResponseFields {
                allow_origin: Some(b"*"),
                max_age_seconds: Some(METADATA_SECONDS),
                ..fields
            };
            shard.respond_http(incoming, Status::OK, BodyKind::Json, fields, document.as_bytes());
        }
        RequestKind::ServerCard | RequestKind::CardCatalog => {
            respond_with_card(shard, incoming, kind);
        }
        RequestKind::Status => {
            let text = status_json(shard);
            shard.respond_http(incoming, Status::OK, BodyKind::Json, fields, text.as_bytes());
        }
        RequestKind::Metrics => {
            let remaining = shard.dispatcher.shard_count;
            let exchange = open_exchange(shard, incoming);
            let counters = Box::default();
            let queues = Vec::with_capacity(remaining.into());
            let rate_keys = 0;
            let report =
                ReportMessage::Metrics { exchange, counters, rate_keys, queues, remaining };
            shard.outbox.forward(exchange.shard, ShardMessage::Report(Box::new(report)));
        }
        RequestKind::Connections { query } => list_connections(shard, incoming, query),
        RequestKind::Upstreams => {
            let upstreams = shard.transports.http.upstreams.as_ref();
            let text = upstreams.map(|it| it.write_json()).unwrap_or_default();
            shard.respond_http(incoming, Status::OK, BodyKind::Json, fields, text.as_bytes());
        }
        RequestKind::ChangeUpstream { path } => change_upstream(shard, incoming, path),
        RequestKind::Page => respond_with_page(shard, incoming),
        _ => {
            let (status, body) = (Status::NOT_FOUND, BodyKind::Text("text/plain"));
            shard.respond_http(incoming, status, body, fields, b"not found\n");
        }
    }
}

fn respond_with_page(shard: &mut Shard, incoming: &IncomingRequest<'_>) {
    let policy = Some(CONTENT_SECURITY_POLICY);
    let fields = ResponseFields { content_security_policy: policy, ..incoming.response_fields() };
    let body = BodyKind::Text("text/html; charset=utf-8");
    let page = write_page(shard.transports.http.checks.profile.paths.mcp());
    shard.respond_http(incoming, Status::OK, body, fields, page.as_bytes());
}

/// Responds with the server card or the catalog that names it, or with 304 if the client has it.
fn respond_with_card(shard: &mut Shard, incoming: &IncomingRequest<'_>, kind: RequestKind<'_>) {
    let card = shard.transports.http.checks.card.clone();
    let (status, body) = (Status::NOT_FOUND, BodyKind::Text("text/plain"));
    let Some(card) = card else {
        let fields = incoming.response_fields();
        return shard.respond_http(incoming, status, body, fields, b"not found\n");
    };
    let (document, media_type) = match kind {
        RequestKind::ServerCard => (&card.card, CARD_TYPE),
        _ => (&card.catalog, CATALOG_TYPE),
    };
    let IncomingRequest { head, bytes, .. } = *incoming;
    let is_known = |etags: &[u8]| {
        etags.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).any(|etag| {
            let etag = etag.strip_prefix(b"W/").unwrap_or(etag);
            etag == b"*" || etag == document.etag.as_bytes()
        })
    };
    let fields = ResponseFields {
        allow_origin: Some(b"*"),
        max_age_seconds: Some(METADATA_SECONDS),
        etag: Some(&document.etag),
        ..incoming.response_fields()
    };
    if head.other_fields(bytes, b"if-none-match").any(is_known) {
        return shard.respond_http(incoming, Status::NOT_MODIFIED, BodyKind::Empty, fields, &[]);
    }
    let (body, text) = (BodyKind::Text(media_type), document.json.as_bytes());
    shard.respond_http(incoming, Status::OK, body, fields, text);
}

/// Returns whether a request has the token of operators, if they need one.
fn is_from_operator(
    shard: &Shard,
    IncomingRequest { head, bytes, .. }: &IncomingRequest<'_>,
) -> bool {
    let Some(digest) = &shard.transports.http.checks.operator_token else { return true };
    let token = head.field(bytes, Field::Authorization).map(bearer::read_authorization);
    token.is_some_and(|token| token.is_ok_and(|token| digest_of(token) == *digest))
}

#[cold]
fn refuse_operator(shard: &mut Shard, incoming: &IncomingRequest<'_>) {
    let challenge = Some(Challenge::new("Bearer"));
    let fields = ResponseFields { www_authenticate: challenge, ..incoming.response_fields() };
    let (status, body) = (Status::from(401), BodyKind::Text("text/plain"));
    shard.respond_http(incoming, status, body, fields, b"the token of operators is needed\n");
}

/// Begins a change of a server behind this one, if operators have a token. `path` is
/// `NAME/CHANGE`.
fn change_upstream(shard: &mut Shard, incoming: &IncomingRequest<'_>, path: &[u8]) {
    let http = &shard.transports.http;
    let mut parts = path.splitn(2, |byte| *byte == b'/').map(str::from_utf8);
    let (name, change) = (parts.next(), parts.next());
    let (status, text) = match (name, change, &http.upstreams) {
        _ if http.checks.operator_token.is_none() => (
            Status::FORBIDDEN,
            "upstreams are changed only with the token of admin.token: set it\n",
        ),
        (Some(Ok(name)), Some(Ok(change)), Some(upstreams)) => {
            let mut known = UpstreamChange::ALL.into_iter();
            match known.find(|known| known.as_str() == change) {
                None => (
                    Status::NOT_FOUND,
                    "not found: a change is restart, enable, disable or approve\n",
                ),
                Some(change) if upstreams.begin_change(name, change) => {
                    (Status::ACCEPTED, "accepted: see GET /upstreams\n")
                }
                Some(_) => (Status::NOT_FOUND, "not found: no upstream has this name\n"),
            }
        }
        _ => (
            Status::NOT_FOUND,
            "not found: POST /upstreams/NAME/restart, enable, disable or approve\n",
        ),
    };
    let body = BodyKind::Text("text/plain");
    shard.respond_http(incoming, status, body, incoming.response_fields(), text.as_bytes());
}

/// Responds with a page of the open connections of all shards.
fn list_connections(shard: &mut Shard, incoming: &IncomingRequest<'_>, query: &[u8]) {
    let position = match checks::query_parameter(query, "after") {
        Some(after) => str::from_utf8(after).ok().and_then(|after| after.parse().ok()),
        None => Some(ListPosition::default()),
    };
    let shards = shard.dispatcher.shard_count;
    let Some(position) = position.filter(|position| position.shard < shards) else {
        let (status, body) = (Status::BAD_REQUEST, BodyKind::Text("text/plain"));
        let text = b"after must be the value of next of a page\n";
        return shard.respond_http(incoming, status, body, incoming.response_fields(), text);
    };
    let page = PageBuilder::new(position, Rows::Json(Vec::new()));
    let exchange = Some(open_exchange(shard, incoming));
    let report = ReportMessage::Connections { exchange, page };
    shard.outbox.forward(ShardId(position.shard), ShardMessage::Report(Box::new(report)));
}

/// Opens the exchange of a response that comes later, from any shard.
fn open_exchange(shard: &mut Shard, incoming: &IncomingRequest<'_>) -> ExchangeAddress {
    let format = ResponseFormat { accepts_event_stream: false, ..incoming.format };
    shard.exchanges().open(incoming.key, incoming.echoed(), format, ResponseOwner::Connection)
}

/// Returns the status JSON of the page: totals over all shards.
fn status_json(shard: &mut Shard) -> String {
    let Shard { transports: Transports { http, .. }, dispatcher, .. } = shard;
    http.report_gauges(dispatcher.subscriptions.len());
    let GaugeTotals { connections, sessions, streams } = http.gauges();
    let shards = dispatcher.shard_count;
    let info = dispatcher.catalog.server_info();
    let name = serde_json::to_string(&info.name).unwrap_or_default();
    let version = serde_json::to_string(&info.version).unwrap_or_default();
    let websocket = match &http.checks.profile.websocket {
        Some(path) => format!("\"websocket\":\"{path}\","),
        None => String::new(),
    };
    let needs_token = http.checks.operator_token.is_some();
    let upstreams = if http.checks.profile.lists_upstreams() {
        format!("\"upstreams\":{{\"token\":{needs_token}}},")
    } else {
        String::new()
    };
    format!(
        "{{\"name\":{name},\"version\":{version},{websocket}{upstreams}\
         \"connections\":{connections},\
         \"sessions\":{sessions},\"streams\":{streams},\"shards\":{shards}}}"
    )
}

/// Handles an upgrade request. After the response head the connection carries frames.
pub(super) fn upgrade(shard: &mut Shard, incoming: &IncomingRequest<'_>) {
    let IncomingRequest { key, head, bytes, .. } = *incoming;
    let upgrade =
        match handshake::check_upgrade(head, bytes, shard.transports.websockets.accepted_handshake)
        {
            Ok(upgrade) => upgrade,
            Err(rejection) => {
                shard.transports.websockets.counters.handshakes_refused += 1;
                shard.record_invalid(key);
                return shard.reject_request(incoming, &rejection);
            }
        };
    let Some(connection) = shard.transports.connections.table.get_mut(key) else { return };
    let client = connection.state.client;
    let upgraded = shard.transports.acceptor.upgrade(&mut connection.state).or_else(|reached| {
        shard.evict_idle(Transport::WebSocket, client, reached);
        let connection = shard.transports.connections.table.get_mut(key).ok_or(reached)?;
        shard.transports.acceptor.upgrade(&mut connection.state)
    });
    if let Err(reason) = upgraded {
        return shard.refuse_upgrade(incoming, reason);
    }
    let Some(connection) = shard.transports.connections.table.get_mut(key) else { return };
    shard.dispatcher.facts.keep_proxy(&mut connection.state, None);
    // For the client's logs; it grants no access.
    let session = shard.transports.http.sessions.generate_id().map(SessionId::to_text);
    let heads = shard.transports.http.heads(shard.now);
    let Some(out) = shard.transports.connections.outgoing(key) else { return };
    let session = session.as_ref().map(|name| &name[..]);
    let request_id = incoming.echoed().request_id_or(heads);
    handshake::write_response(out, &upgrade, session, request_id, heads.date());
    let (reader, window_bits) = match upgrade.deflate {
        Some(deflate) => (FrameReader::with_compression(), deflate.window_bits()),
        None => (FrameReader::new(), 0),
    };
    if shard.transports.connections.upgrade_to_websocket(key, reader, shard.now)
        && let Some(connection) = shard.transports.connections.table.get_mut(key)
    {
        connection.set_window_bits(window_bits);
        let fields = handshake::other_fields(head, bytes);
        shard.dispatcher.facts.keep_upgrade_fields(&mut connection.state, fields);
        shard.dispatcher.require_handshake(&mut connection.state);
        shard.parity_path().begin(key);
    }
}
