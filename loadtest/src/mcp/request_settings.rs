//! What all messages to a server have in common, and their framing.
//!
//! Messages and HTTP heads are encoded by the client of the library.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use corelane_client::session::{EraPreference, SessionConfig, SessionOptions};
use corelane_client::{Client, ClientBuilder, ProxyOptions};
use corelane_parity::envelope::Target;
use corelane_parity::write;
use corelane_protocol::eras::ClientCapabilities;
use corelane_protocol::jsonrpc::Id;
use corelane_protocol::model::{Implementation, write_cancelled};
use corelane_transport::http::client::request_writer::{ExtraFields, RequestFields, RequestWriter};
use corelane_transport::ndjson::end_line;

use super::answers::Answers;
use super::http_field::{HttpField, Secret};
use crate::target::{Era, Target as ServerTarget, Transport};
use crate::wire::frames;
use crate::wire::tls::RunTls;

/// Transport, era and HTTP fields used for all messages to a server.
#[derive(Clone, Debug)]
pub struct RequestSettings {
    /// Transport of messages.
    pub transport: Transport,
    /// Protocol era.
    pub era: Era,
    /// Additional HTTP fields, for example `Authorization`.
    pub fields: Vec<HttpField>,
    /// Whether the handshake of the parity dialect offers `resume`, so that the server keeps
    /// chunks. No stream is resumed. Default false.
    pub offers_resume: bool,
    /// Value of `Authorization` of a user, instead of one in `fields`.
    authorization: Option<Arc<Secret>>,
    /// Answers to requests of the server.
    answers: Arc<Answers>,
    writer: RequestWriter,
    session: Arc<SessionConfig>,
    /// Name and version of the server, from the first handshake that has them.
    server: Arc<OnceLock<Implementation>>,
}

impl RequestSettings {
    /// Creates the settings. `authority` is the value of `Host`, for HTTP and the upgrade to
    /// WebSocket, and `path` that of the requests.
    ///
    /// # Errors
    ///
    /// Which of `fields` the client sends itself.
    pub fn new(
        transport: Transport,
        era: Era,
        authority: &str,
        path: &str,
        fields: Vec<HttpField>,
    ) -> Result<Self, String> {
        let mut extra = ExtraFields::default();
        for field in &fields {
            extra.push(field.name(), field.value())?;
        }
        // The scheme is of use for proxies only.
        let writer = RequestWriter::new("http", authority, path, &extra);
        let mut options = SessionOptions::default();
        options.client_info = Implementation::new("corelane-load", env!("CARGO_PKG_VERSION"));
        options.tasks = false;
        options.era = match era {
            Era::Modern => EraPreference::Modern,
            era => EraPreference::Legacy(era.revision()),
        };
        let session = Arc::new(SessionConfig::new(options, ClientCapabilities::NONE));
        let server = Arc::default();
        Ok(Self {
            transport,
            era,
            fields,
            offers_resume: false,
            authorization: None,
            answers: Arc::default(),
            writer,
            session,
            server,
        })
    }

    /// Returns the settings of clients that answer requests of the server, and declare so, and that
    /// may get tasks.
    #[must_use]
    pub fn of_client(mut self, answers: Answers, has_tasks: bool) -> Self {
        let mut options = self.session.options().clone();
        options.tasks = has_tasks;
        self.session = Arc::new(SessionConfig::new(options, answers.capabilities()));
        self.answers = Arc::new(answers);
        self
    }

    /// Returns the answers to requests of the server.
    pub const fn answers(&self) -> &Arc<Answers> {
        &self.answers
    }

    /// Returns a client of the library that connects to `target` as the connections of a run do.
    pub fn client_builder(
        &self,
        target: &ServerTarget,
        tls: Option<&RunTls>,
        connect_timeout: Duration,
    ) -> ClientBuilder {
        let builder = Client::builder(target)
            .client_info(Implementation::new("corelane-load", env!("CARGO_PKG_VERSION")))
            .connect_timeout(connect_timeout)
            .proxy(ProxyOptions::none());
        let builder = match tls {
            Some(tls) => builder.tls(tls.options().clone()),
            None => builder,
        };
        let fields = self.fields.iter();
        fields.fold(builder, |builder, field| builder.header(field.name(), field.value()))
    }

    /// Returns the settings of a user with this value of `Authorization`, if it has one.
    pub fn of_user(&self, authorization: Option<&Arc<Secret>>) -> Cow<'_, Self> {
        match authorization {
            None => Cow::Borrowed(self),
            Some(value) => {
                let authorization = Some(Arc::clone(value));
                Cow::Owned(Self { authorization, ..self.clone() })
            }
        }
    }

    /// Returns what the sessions of all connections have in common.
    pub(super) const fn session(&self) -> &Arc<SessionConfig> {
        &self.session
    }

    /// Returns name and version of the server, if a handshake has had them.
    pub fn server(&self) -> Option<&Implementation> {
        self.server.get()
    }

    /// Records name and version of the server, unless they are known.
    pub(super) fn record_server(&self, read: impl FnOnce() -> Option<Implementation>) {
        if self.server.get().is_none()
            && let Some(server) = read()
        {
            // Another load thread may have been first.
            self.server.set(server).unwrap_or(());
        }
    }

    /// Returns the writer of HTTP requests.
    pub(crate) const fn writer(&self) -> &RequestWriter {
        &self.writer
    }

    /// Returns the token of `Authorization: Bearer …`, if `fields` has one. Over lines the parity
    /// dialect sends it in the handshake.
    pub(super) fn auth_token(&self) -> Option<&str> {
        if let Some(value) = &self.authorization {
            return value.reveal().strip_prefix("Bearer ");
        }
        let is_authorization =
            |field: &&HttpField| field.name().eq_ignore_ascii_case("authorization");
        self.fields.iter().find(is_authorization)?.value().strip_prefix("Bearer ")
    }

    /// Returns a keep-alive of the parity dialect, framed. Empty over HTTP, which needs none.
    pub fn keepalive(&self, timeout_hint: u64) -> Vec<u8> {
        if self.transport == Transport::Http {
            return Vec::new();
        }
        let mut text = Vec::new();
        write::keepalive(&mut text, timeout_hint);
        self.frame(&text)
    }

    /// Appends the cancellation of a request, framed: by its id, or in the parity dialect by that
    /// of its stream, if it is open.
    pub(super) fn write_cancellation(&self, out: &mut Vec<u8>, id: u64, stream_id: Option<&str>) {
        let (mut text, reason) = (Vec::new(), Some("timeout"));
        if self.era.is_parity() {
            let target = stream_id.map_or_else(|| Target::Request(Id::from(id)), Target::Stream);
            write::cancel(&mut text, target, reason);
        } else {
            write_cancelled(&mut text, Id::from(id), reason);
        }
        self.write_message(out, &text, &self.http_fields(None));
    }

    /// Frames a message that is not a request of the run, for example a response to the server.
    pub fn frame(&self, text: &[u8]) -> Vec<u8> {
        self.frame_in_session(text, None)
    }

    /// Frames such a message of a session over HTTP.
    pub fn frame_in_session(&self, text: &[u8], session: Option<&str>) -> Vec<u8> {
        let mut out = Vec::new();
        self.write_message(&mut out, text, &self.http_fields(session));
        out
    }

    /// Appends a message, over HTTP with `fields`. Returns the position of the text in a message
    /// that is not encoded, or of the payload in a frame.
    pub(super) fn write_message(
        &self,
        out: &mut Vec<u8>,
        text: &[u8],
        fields: &RequestFields<'_>,
    ) -> usize {
        match self.transport {
            Transport::Tcp | Transport::Stdio => {
                out.extend_from_slice(text);
                end_line(out);
                out.len() - text.len() - 1
            }
            Transport::Http => {
                self.writer.write_post(out, fields, text);
                out.len() - text.len()
            }
            Transport::WebSocket => frames::write_text(out, text),
        }
    }

    /// Returns the fields of a request before there is a session.
    pub(super) fn handshake_fields(&self) -> RequestFields<'_> {
        let authorization = self.authorization.as_deref().map(Secret::reveal);
        RequestFields { authorization, ..RequestFields::default() }
    }

    /// Returns the fields of a message in `session`.
    pub(super) fn http_fields<'a>(&'a self, session: Option<&'a str>) -> RequestFields<'a> {
        RequestFields {
            protocol_version: (!self.era.is_parity()).then(|| self.era.mcp_version()),
            session_id: session,
            ..self.handshake_fields()
        }
    }
}
