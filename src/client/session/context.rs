//! What sessions share, and what each of their methods is passed.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Weak};

use super::event::{MessageSink, OutgoingKind, OutgoingMessage, SessionEvent};
use super::handshake::{ServerInfo, SessionOptions};
use super::request::{CallRequest, EncodedParams, ModernMeta, write_initialize};
use crate::results::MetaReader;
use crate::sync::SharedValue;
use corelane_base::time::Instant;
use corelane_protocol::eras::{ClientCapabilities, LoggingLevel, Method};
use corelane_protocol::error::Error;
use corelane_protocol::json::{PaddedText, SourcePlace, Value, write};
use corelane_protocol::jsonrpc::Id;
use corelane_protocol::model::{write_cancelled, write_error_response, write_response};
use corelane_protocol::revision::Revision;

/// What the sessions of a client have in common.
#[derive(Debug)]
pub struct SessionConfig {
    declaration: Arc<Declaration>,
    /// The index of the log level plus one; 0 for none.
    log_level: AtomicU8,
}

/// What does not change, and is shared by clients with equal options.
#[derive(PartialEq)]
struct Declaration {
    options: SessionOptions,
    capabilities: ClientCapabilities,
    /// Members of `_meta` of a modern request, encoded.
    modern_meta: Box<[u8]>,
    /// `auth_token` as a member of an object, encoded; empty for none.
    auth_token: Box<[u8]>,
}

/// The debug format omits what may be secret.
impl fmt::Debug for Declaration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { options, capabilities, .. } = self;
        let mut text = formatter.debug_struct("Declaration");
        text.field("options", options).field("capabilities", capabilities).finish_non_exhaustive()
    }
}

/// Member of the params of `initialize`, and of `_meta` since 2026-07-28, that identifies the
/// caller on a connection without headers.
const AUTH_TOKEN: &str = "auth_token";

static DECLARATION: SharedValue<Declaration> = SharedValue::new();

impl SessionConfig {
    /// Creates the configuration of clients that declare `capabilities`.
    pub fn new(options: SessionOptions, capabilities: ClientCapabilities) -> Self {
        let capabilities = if options.tasks {
            capabilities.union(ClientCapabilities::EXTENSION_TASKS)
        } else {
            capabilities.difference(ClientCapabilities::EXTENSION_TASKS)
        };
        let modern_meta = options.modern_meta(capabilities);
        let auth_token = Box::default();
        let declaration = Declaration { options, capabilities, modern_meta, auth_token };
        Self { declaration: DECLARATION.share(declaration), log_level: AtomicU8::new(0) }
    }

    /// Identifies the caller by this token in the messages themselves, for connections without
    /// headers.
    #[must_use]
    pub fn with_auth_token(self, token: &str) -> Self {
        let Declaration { options, capabilities, modern_meta, .. } = &*self.declaration;
        let mut auth_token = Vec::new();
        write::string(&mut auth_token, AUTH_TOKEN);
        auth_token.push(b':');
        write::string(&mut auth_token, token);
        let modern_meta = [&**modern_meta, b",", &auth_token].concat().into();
        let (options, capabilities) = (options.clone(), *capabilities);
        let auth_token = auth_token.into();
        let declaration = Declaration { options, capabilities, modern_meta, auth_token };
        Self { declaration: DECLARATION.share(declaration), ..self }
    }

    /// Returns the options.
    pub fn options(&self) -> &SessionOptions {
        &self.declaration.options
    }

    /// Returns the capabilities that the client declares.
    pub fn capabilities(&self) -> ClientCapabilities {
        self.declaration.capabilities
    }

    /// Sets the lowest level of the log messages that the client asks for. Sessions of legacy
    /// revisions ask for it after their handshake, modern ones with each request.
    pub fn set_log_level(&self, level: LoggingLevel) {
        self.log_level.store(level as u8 + 1, Ordering::Relaxed);
    }

    /// Returns the lowest level of the log messages that the client asks for, if any.
    pub(super) fn log_level(&self) -> Option<LoggingLevel> {
        let index = usize::from(self.log_level.load(Ordering::Relaxed)).checked_sub(1)?;
        LoggingLevel::ALL.get(index).map(|(level, _)| *level)
    }

    /// Returns the members of `_meta` that a modern request of `method` carries.
    pub(super) fn modern_meta(&self, method: Method) -> ModernMeta<'_> {
        let is_logged = !matches!(method, Method::Discover | Method::SubscriptionsListen);
        let log_level = self.log_level().filter(|_| is_logged);
        ModernMeta { members: &self.declaration.modern_meta, log_level }
    }

    /// Appends a request of any method, as a session of `revision` sends it without a log level.
    pub fn write_request(
        &self,
        out: &mut Vec<u8>,
        id: u64,
        method: &str,
        params: &EncodedParams<'_>,
        revision: Revision,
    ) {
        let meta = ModernMeta { members: &self.declaration.modern_meta, log_level: None };
        params.write_request(out, id, method, revision.is_modern().then_some(meta));
    }

    /// Appends the request `initialize` for `revision`.
    pub(super) fn write_initialize(&self, out: &mut Vec<u8>, id: u64, revision: Revision) {
        let (mut capabilities, mut client_info) = (Vec::new(), Vec::new());
        let declared = self.capabilities().difference(ClientCapabilities::EXTENSION_TASKS);
        declared.write_required(&mut capabilities);
        self.options().client_info.write(&mut client_info, revision);
        let auth_token = &self.declaration.auth_token;
        write_initialize(out, id, revision, [&capabilities, &client_info, auth_token]);
    }
}

/// Where the output of a session goes, and the time.
#[derive(Debug)]
pub struct SessionContext<'a, T, S> {
    /// The time of the turn.
    pub now: Instant,
    /// Receives the messages to send.
    pub sink: &'a mut S,
    /// Receives the events, in order.
    pub events: &'a mut Vec<SessionEvent<T>>,
    /// Memory that is reused for each message.
    pub buffers: &'a mut SessionBuffers,
}

/// Memory for the message being written and a copy of the one being read, shared by sessions.
#[derive(Debug, Default)]
pub struct SessionBuffers {
    pub(super) encoded: Vec<u8>,
    pub(super) received: Vec<u8>,
    /// Where the message being read was parsed, if it is short and not of a batch.
    pub(super) place: Option<SourcePlace>,
    pub(super) meta: MetaReader,
    /// Requests that were answered, for the memory that they have.
    #[expect(clippy::vec_box, reason = "a call owns its request in a box")]
    spare_requests: Vec<Box<CallRequest>>,
    /// What the server of the last handshake declared: that of the next one is often the same.
    server: Weak<ServerInfo>,
}

/// Answered requests that are kept.
const SPARE_REQUESTS_MAX: usize = 64;
/// Bytes of the memory of a request that is used again.
const SPARE_BYTES_MAX: usize = 16 << 10;

impl SessionBuffers {
    /// Copies a message that will be parsed.
    #[inline]
    pub(super) fn copy_received(&mut self, text: &PaddedText<'_>) {
        self.place = SourcePlace::of_text(text);
        self.received.clear();
        self.received.extend_from_slice(text.as_bytes());
    }

    /// Copies a message of a batch.
    pub(super) fn write_received(&mut self, message: Value<'_>) {
        self.place = None;
        self.received.clear();
        message.write(&mut self.received);
    }

    /// Takes the message being read, the response to `request`, whose memory the next message gets.
    pub(super) fn take_received(&mut self, mut request: Box<CallRequest>) -> Vec<u8> {
        let mut memory = std::mem::take(&mut request.params);
        if memory.capacity() > SPARE_BYTES_MAX {
            memory = Vec::new();
        }
        self.put_request(request);
        std::mem::replace(&mut self.received, memory)
    }

    /// Keeps the memory of a request that was answered.
    pub(super) fn put_request(&mut self, request: Box<CallRequest>) {
        let is_small = request.params.capacity() <= SPARE_BYTES_MAX;
        if is_small && self.spare_requests.len() < SPARE_REQUESTS_MAX {
            self.spare_requests.push(request);
        }
    }

    /// Takes a request that was answered, to be overwritten.
    pub(crate) fn take_spare(&mut self) -> Option<Box<CallRequest>> {
        self.spare_requests.pop()
    }

    /// Returns what a server declared, stored once for servers that declare the same.
    pub(super) fn share_server(&mut self, server: ServerInfo) -> Arc<ServerInfo> {
        if let Some(last) = self.server.upgrade()
            && *last == server
        {
            return last;
        }
        let server = Arc::new(server);
        self.server = Arc::downgrade(&server);
        server
    }
}

/// Messages of the client.
impl<T, S: MessageSink> SessionContext<'_, T, S> {
    /// Encodes a request with the members of `_meta` that `revision` wants, and sends it.
    pub(super) fn send_request(
        &mut self,
        config: &SessionConfig,
        id: u64,
        request: &CallRequest,
        revision: Revision,
    ) {
        let own_meta = ModernMeta { members: &[], log_level: None };
        let meta = revision.is_modern().then(|| {
            if request.has_own_meta { own_meta } else { config.modern_meta(request.method) }
        });
        let encoded = &mut self.buffers.encoded;
        encoded.clear();
        request.write(encoded, id, meta);
        let name = request.name.as_deref();
        let CallRequest { method, parameters, fields, is_idempotent, .. } = request;
        let kind = OutgoingKind::Request {
            id,
            method: *method,
            name,
            parameters,
            fields: Some(fields).filter(|fields| !fields.is_empty()),
            is_idempotent: *is_idempotent,
        };
        self.sink.send(OutgoingMessage { kind, revision, text: encoded });
    }

    /// Sends `notifications/cancelled` for a request.
    pub(super) fn send_cancellation(&mut self, revision: Revision, id: u64, reason: Option<&str>) {
        let encoded = &mut self.buffers.encoded;
        encoded.clear();
        write_cancelled(encoded, Id::from(id), reason);
        let kind = OutgoingKind::Cancellation { id };
        self.sink.send(OutgoingMessage { kind, revision, text: encoded });
    }

    /// Sends the response to a request of the server: its result, or an error.
    pub(super) fn send_response(
        &mut self,
        revision: Revision,
        id: Id<'_>,
        result: Result<&[u8], &Error>,
    ) {
        match result {
            Ok(result) => {
                let encoded = &mut self.buffers.encoded;
                encoded.clear();
                write_response(encoded, id, result);
                let kind = OutgoingKind::Response;
                self.sink.send(OutgoingMessage { kind, revision, text: encoded });
            }
            Err(error) => self.send_error(revision, Some(id), error),
        }
    }

    /// Sends an error response to a message of the server, with its id if that could be read.
    pub(super) fn send_error(&mut self, revision: Revision, id: Option<Id<'_>>, error: &Error) {
        let encoded = &mut self.buffers.encoded;
        encoded.clear();
        write_error_response(encoded, id, error, Some(revision));
        let kind = OutgoingKind::Response;
        self.sink.send(OutgoingMessage { kind, revision, text: encoded });
    }
}
