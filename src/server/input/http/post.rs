//! POST: one message, answered at once, later, or by a legacy session.
//!
//! Invariants: an immediate response is written behind its head in place, without a copy.

use corelane_base::time::Instant;
use corelane_protocol::eras::{InitializeRequestParams, Method, RequestMetaObject};
use corelane_protocol::error::Error;
use corelane_protocol::json::{PaddedText, ParseError, Value};
use corelane_protocol::jsonrpc::{Id, Message};
use corelane_protocol::message_head::MessageHead;
use corelane_protocol::model;
use corelane_protocol::params::RequestParams;
use corelane_protocol::revision::Revision;
use corelane_transport::http::checks::{self, CheckId, Era, Rejection};
use corelane_transport::http::head_template::HeadTemplate;
use corelane_transport::http::header_consistency::{self, BodyValues};
use corelane_transport::http::response::{self, BodyKind, ResponseMark};
use corelane_transport::http::status::Status;

use super::{IncomingRequest, session};
use crate::connection::Connection;
use crate::server::auth::Credential;
use crate::server::connection_state::{
    ConnectionState, EchoedFields, HttpSession, MessageOrigin, OriginDetails, PeerState,
    ResponseFormat, ResponseHead, ResponseOwner,
};
use crate::server::dispatch::{Dispatcher, MessageContext, RawRequest};
use crate::server::http::HttpTransport;
use crate::server::outbox::Outbox;
use crate::server::parse_threads::BegunResponse;
use crate::server::reply_to::{Outcome, PeerId, RefusalFields, ReplyTo};
use crate::server::shard::{Shard, Transports};

/// The outcome of a posted message.
enum PostOutcome {
    /// The response is written.
    Responded,
    /// No response is due: 202.
    Accepted,
    /// The response comes later; with the output so far.
    Pending(Option<Vec<u8>>),
    /// A thread completes the response.
    Partial,
    Rejected(Rejection),
}

/// Handles a POST to the MCP endpoint.
#[inline]
pub(super) fn handle(
    shard: &mut Shard,
    incoming: &mut IncomingRequest<'_>,
    session: Option<&[u8]>,
    version: Option<&[u8]>,
    mut text: PaddedText<'_>,
) {
    if let Some(session) = session {
        return match checks::era(version, false, &shard.transports.http.checks.profile) {
            Ok(_) => {
                incoming.use_session_errors();
                session::handle_post(shard, incoming, session, text);
            }
            Err(rejection) => shard.reject_request(incoming, &rejection),
        };
    }
    let outcome = match post_without_session(shard, incoming, version, &mut text) {
        Ok(outcome) => outcome,
        Err(error) => return reject_unreadable(shard, incoming, &text, error),
    };
    match outcome {
        PostOutcome::Responded => shard.close_if_requested(incoming),
        PostOutcome::Accepted => {
            let fields = incoming.response_fields();
            shard.respond_http(incoming, Status::ACCEPTED, BodyKind::Empty, fields, &[]);
        }
        PostOutcome::Pending(output) => {
            let mut exchanges = shard.exchanges();
            exchanges.open(
                incoming.key,
                incoming.echoed(),
                incoming.format,
                ResponseOwner::Connection,
            );
            if let Some(text) = output {
                let outcome = Outcome::Notification;
                exchanges.write_message(incoming.key, outcome, None, |out| {
                    out.extend_from_slice(&text);
                });
            }
        }
        PostOutcome::Partial => {}
        PostOutcome::Rejected(rejection) => shard.reject_request(incoming, &rejection),
    }
}

/// Rejects a text that does not parse, with the id of its request if that can be read.
#[cold]
fn reject_unreadable(
    shard: &mut Shard,
    incoming: &IncomingRequest<'_>,
    text: &PaddedText<'_>,
    error: ParseError,
) {
    if let Some(connection) = shard.transports.connections.table.get_mut(incoming.key) {
        connection.record_invalid_message();
    }
    let head = MessageHead::read(text.as_bytes());
    let id = head.id().filter(|_| !head.is_response());
    shard.reject_message(incoming, id, &CheckId::Parse.reject_with(error.into()));
}

/// Handles a message without session.
fn post_without_session(
    shard: &mut Shard,
    incoming: &IncomingRequest<'_>,
    version: Option<&[u8]>,
    text: &mut PaddedText<'_>,
) -> Result<PostOutcome, ParseError> {
    let Shard { transports, parser, dispatcher, outbox, now, .. } = shard;
    let Transports { connections, http, large_messages, .. } = transports;
    let Some(connection) = connections.table.get_mut(incoming.key) else {
        return Ok(PostOutcome::Responded);
    };
    let now = *now;
    parser.read(text, |document| {
        let begun = large_messages.begun.as_deref_mut();
        let request =
            StatelessRequest { incoming, connection, dispatcher, outbox, http, begun, now };
        request.receive(version, document.root())
    })
}

/// One request without session, with everything it needs.
struct StatelessRequest<'a> {
    incoming: &'a IncomingRequest<'a>,
    connection: &'a mut Connection<ConnectionState>,
    dispatcher: &'a mut Dispatcher,
    outbox: &'a mut Outbox,
    http: &'a mut HttpTransport,
    /// Takes the response to a large message, which a thread completes.
    begun: Option<&'a mut BegunResponse>,
    now: Instant,
}

impl StatelessRequest<'_> {
    /// Handles the message `root`.
    #[inline]
    fn receive(self, version: Option<&[u8]>, root: Value<'_>) -> PostOutcome {
        if let Err(rejection) = checks::check_pinned_version(version, &self.http.checks.profile)
            && !is_initialize(root)
        {
            self.connection.record_invalid_message();
            return PostOutcome::Rejected(rejection);
        }
        if root.as_array().is_some() {
            self.connection.record_invalid_message();
            let message = "a JSON-RPC batch requires a session of revision 2025-03-26";
            return PostOutcome::Rejected(CheckId::MessageShape.reject(message));
        }
        self.outbox.counters.traffic.messages_in += 1;
        match Message::read(root) {
            Ok(Message::Request { id, method, params }) => {
                let call_params = &RequestParams::read(params);
                let meta = &call_params.meta();
                let raw = RawRequest { id, method, params, call_params, meta };
                self.route(version, &raw)
            }
            Ok(Message::Notification { .. }) => {
                self.outbox.counters.requests.notifications += 1;
                match checks::era(version, false, &self.http.checks.profile) {
                    Ok(Era::Modern) => PostOutcome::Accepted,
                    Ok(Era::Legacy) => PostOutcome::Rejected(missing_session_error()),
                    Err(rejection) => PostOutcome::Rejected(rejection),
                }
            }
            Ok(Message::Response { .. }) => {
                match checks::era(version, false, &self.http.checks.profile) {
                    Ok(Era::Legacy) => PostOutcome::Rejected(missing_session_error()),
                    Ok(Era::Modern) | Err(_) => {
                        let message = "unexpected response: the server sent no request";
                        PostOutcome::Rejected(CheckId::MessageShape.reject(message))
                    }
                }
            }
            Err(invalid) => {
                self.connection.record_invalid_message();
                let id = invalid.id.filter(|_| !invalid.is_response);
                self.respond_error(id, Status::BAD_REQUEST, &invalid.error)
            }
        }
    }

    #[inline]
    fn route(self, version: Option<&[u8]>, raw: &RawRequest<'_>) -> PostOutcome {
        if raw.meta.as_ref().is_ok_and(RequestMetaObject::is_modern) {
            return self.dispatch_modern(raw);
        }
        self.route_by_header(version, raw)
    }

    /// Dispatches a request whose `_meta` names no revision. `initialize` is negotiated by its
    /// params, whatever its header: clients may send the newest revision that they know.
    #[inline(never)]
    fn route_by_header(self, version: Option<&[u8]>, raw: &RawRequest<'_>) -> PostOutcome {
        let profile = &self.http.checks.profile;
        if raw.method == Method::Initialize.as_str() {
            if profile.has_sessions() {
                return self.initialize(raw);
            }
            if let Ok(params) = InitializeRequestParams::read(raw.params) {
                let revisions = profile.revisions();
                let error =
                    Error::unsupported_protocol_version_with(params.protocol_version, revisions);
                return self.reject(raw.id, &CheckId::VersionSupported.reject_with(error));
            }
        }
        match checks::era(version, false, profile) {
            Ok(Era::Modern) => self.dispatch_modern(raw),
            Ok(Era::Legacy) => self.reject(raw.id, &missing_session_error()),
            Err(refusal) => self.reject(raw.id, &refusal),
        }
    }

    /// Checks the headers of a modern request against its body, then dispatches it.
    #[inline]
    fn dispatch_modern(mut self, raw: &RawRequest<'_>) -> PostOutcome {
        if let Err(error) = self.check_headers(raw) {
            return self.respond_error(Some(raw.id), Status::BAD_REQUEST, &error);
        }
        if raw.method == Method::SubscriptionsListen.as_str()
            && !self.incoming.format.accepts_event_stream
        {
            let refusal = CheckId::AcceptStream
                .reject("subscriptions/listen requires Accept: text/event-stream");
            return self.reject(raw.id, &refusal);
        }
        let IncomingRequest { key, format, .. } = *self.incoming;
        let now = self.now;
        let (reply_to, heads) =
            (ReplyTo::standalone(PeerId::Connection(key)), self.http.heads(self.now));
        let ctx = MessageContext { reply_to, now, in_batch: false, is_modern: true };
        let Connection { state, pending_work, outgoing, record, .. } = self.connection;
        let peer_addr = record.peer_address();
        let http_head = self.incoming.bytes;
        let echoed = self.incoming.echoed();
        let request_id = echoed.request_id_or(heads);
        let details = &OriginDetails { http_head, request_id, ..OriginDetails::default() };
        let mark = format.begin_response(outgoing, Status::OK, BodyKind::Json, echoed, heads);
        let mut peer = PeerState {
            origin: MessageOrigin { peer_addr, details },
            state,
            pending_work,
            outgoing,
            outbox: self.outbox,
            refusal: None,
            failure: None,
            left_out: self.begun.as_mut().map(|begun| &mut begun.partial.left_out),
        };
        let outcome = self.dispatcher.dispatch_request(ctx, &mut peer, raw);
        let refusal = peer.refusal;
        if let Some(begun) = self.begun
            && begun.partial.is_used()
        {
            begun.partial.take(outgoing, mark.body());
            begun.head = Some(ResponseHead::new(format, echoed, heads));
            outgoing.truncate(mark.head());
            return PostOutcome::Partial;
        }
        self.outbox.count_outcome(outcome);
        record.traffic.messages_out += u64::from(outcome.is_response());
        finish_response(outgoing, mark, outcome, format, echoed, refusal.as_ref(), heads)
    }

    /// Checks that headers and body agree. Missing members are left to the dispatcher.
    #[inline]
    fn check_headers(&self, raw: &RawRequest<'_>) -> Result<(), Error> {
        let IncomingRequest { head, bytes, .. } = *self.incoming;
        let Some(Ok(version)) = raw.meta.as_ref().ok().map(RequestMetaObject::protocol_version)
        else {
            return Ok(());
        };
        let method = Method::parse(raw.method);
        let named = match method {
            Some(Method::ToolsCall) => raw.call_params.tool_call().ok().and_then(|[name, _]| name),
            Some(method) => header_consistency::name_key(method).and_then(|key| {
                raw.params.and_then(Value::as_object).and_then(|params| params.find(key))
            }),
            None => None,
        };
        let name = named.and_then(Value::as_str);
        header_consistency::check_headers(
            head,
            bytes,
            &BodyValues { method: raw.method, name, version },
        )?;
        if method != Some(Method::ToolsCall) || Revision::parse(version).is_none() {
            return Ok(());
        }
        let Some(tool) = name.and_then(|name| self.dispatcher.catalog.tool(name)) else {
            return Ok(());
        };
        let declared = tool.parameter_headers();
        if declared.is_empty() {
            return Ok(());
        }
        let declared = declared.iter().map(|header| (&*header.name, &*header.path));
        let arguments = raw.call_params.tool_call().ok().and_then(|[_, arguments]| arguments);
        header_consistency::check_param_headers(head, bytes, declared, arguments)
    }

    /// `initialize`: begins a legacy session.
    fn initialize(self, raw: &RawRequest<'_>) -> PostOutcome {
        let (format, now) = (self.incoming.format, self.now);
        let session = HttpSession::new(self.connection.state.client, now);
        let Some(created) = self.http.create_session(session, self.outbox, now) else {
            let error = Error::connection_limit();
            return self.respond_error(Some(raw.id), Status::UNAVAILABLE, &error);
        };
        let heads = self.http.exchanges.heads(self.now);
        let Some(http_session) = self.http.sessions.get_mut(created.key) else {
            return PostOutcome::Responded;
        };
        let HttpSession { state, pending_work, .. } = http_session;
        let credential = self.connection.state.principal().map(Credential::of_session);
        self.dispatcher.facts.keep_credential(state, credential);
        self.connection.record.traffic.messages_out += 1;
        let outgoing = &mut self.connection.outgoing;
        let format = ResponseFormat { is_modern: false, session_id: Some(created.id), ..format };
        let echoed = self.incoming.echoed();
        let mark = format.begin_response(outgoing, Status::OK, BodyKind::Json, echoed, heads);
        let reply_to = ReplyTo::standalone(PeerId::HttpSession(created.key));
        let ctx = MessageContext { reply_to, now, in_batch: false, is_modern: false };
        let request_id = echoed.request_id_or(heads);
        let (http_head, session_id) = (self.incoming.bytes, Some(created.id));
        let details =
            &OriginDetails { http_head, request_id, session_id, ..OriginDetails::default() };
        let origin = MessageOrigin { peer_addr: self.connection.record.peer_address(), details };
        let mut peer = PeerState::new(origin, state, pending_work, outgoing, self.outbox);
        let outcome = self.dispatcher.dispatch_request(ctx, &mut peer, raw);
        let refusal = peer.refusal;
        self.outbox.count_outcome(outcome);
        if outcome == Outcome::Response {
            response::end_response(outgoing, mark, heads);
            // Only now, so that a failed handshake evicts no session.
            let Self { http, dispatcher, outbox, .. } = self;
            http.confirm_session(&created, dispatcher, outbox, now);
            return PostOutcome::Responded;
        }
        // The handshake failed: there is no session.
        if let Some(mut removed) = self.http.sessions.remove(created.key) {
            self.dispatcher.facts.release(&mut removed.session.state);
            self.dispatcher.rate.end_session(PeerId::HttpSession(created.key));
        }
        let format = ResponseFormat { session_id: None, ..format };
        finish_response(outgoing, mark, outcome, format, echoed, refusal.as_ref(), heads)
    }

    fn reject(self, id: Id<'_>, refusal: &Rejection) -> PostOutcome {
        self.respond_error(Some(id), refusal.status, &refusal.error)
    }

    /// Responds with an error that carries the request id.
    #[cold]
    fn respond_error(self, id: Option<Id<'_>>, status: Status, error: &Error) -> PostOutcome {
        let format = self.incoming.format;
        self.connection.record.traffic.messages_out += 1;
        let out = &mut self.connection.outgoing;
        self.outbox.count_error(error);
        let heads = self.http.heads(self.now);
        let mark =
            format.begin_response(out, status, BodyKind::Json, self.incoming.echoed(), heads);
        model::write_error_response(out, id, error, Some(Revision::LATEST));
        response::end_response(out, mark, heads);
        self.outbox.count_outcome(Outcome::Error(error.kind));
        PostOutcome::Responded
    }
}

/// Completes the response that begins at `mark`, or removes it if it comes later.
#[inline]
fn finish_response(
    out: &mut Vec<u8>,
    mark: ResponseMark,
    outcome: Outcome,
    format: ResponseFormat,
    echoed: EchoedFields<'_>,
    refusal: Option<&RefusalFields>,
    heads: &mut HeadTemplate,
) -> PostOutcome {
    match outcome {
        Outcome::Response => response::end_response(out, mark, heads),
        Outcome::Error(kind) => {
            let mark = format.replace_head_with_error(out, mark, kind, echoed, refusal, heads);
            response::end_response(out, mark, heads);
        }
        Outcome::None => {
            out.truncate(mark.head());
            return PostOutcome::Pending(None);
        }
        Outcome::Notification => {
            let text = out.split_off(mark.body());
            out.truncate(mark.head());
            return PostOutcome::Pending(Some(text));
        }
    }
    PostOutcome::Responded
}

/// Returns whether a message is the request `initialize`.
#[cold]
fn is_initialize(message: Value<'_>) -> bool {
    let method = message.as_object().and_then(|message| message.find("method"));
    method.and_then(Value::as_str) == Some(Method::Initialize.as_str())
}

#[cold]
fn missing_session_error() -> Rejection {
    CheckId::SessionIdPresent.reject("Mcp-Session-Id is missing: begin a session with initialize")
}
