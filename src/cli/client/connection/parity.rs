//! A server of the parity dialect as a command talks to it.

use std::sync::Arc;
use std::time::Duration;

use clap::ArgMatches;
use corelane_client::{
    ClientError, ClientErrorKind, ParityChunk, ParityClient, ParityEvent, ParityFeature,
    ParityRetryOptions, ParityServerInfo, ReconnectOptions, Target,
};
use corelane_parity::PROTOCOL_VERSION;
use corelane_protocol::eras::Method;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{CONNECT_TIMEOUT, CONNECTING, List, read, to_document};
use crate::cli::client::failure::{Failure, print_note};
use crate::cli::client::flags::credentials::{Credentials, LOGIN};
use crate::cli::client::flags::{NO_RETRY, RETRY, TIMEOUT, VERBOSE, given_address, given_tls};
use crate::cli::client::text::ProgressLine;
use crate::cli::client::time_limit::TimeLimit;

/// Attempts to connect again, of a command whose connection was lost.
const RECONNECTS_MAX: u32 = 5;

/// Pages of one list, so that a server whose list does not end is not read forever.
const PAGES_MAX: usize = 1_000;

pub(super) struct ParityServer {
    client: ParityClient,
    info: Arc<ParityServerInfo>,
    is_verbose: bool,
}

impl ParityServer {
    pub(super) fn open(
        matches: &ArgMatches,
        target: Target,
        credentials: &Credentials,
        limit: &TimeLimit,
    ) -> Result<Self, Failure> {
        if matches.get_flag(LOGIN) {
            let text = "the parity dialect has no login: send a token with --token-file or \
                        CORELANE_TOKEN";
            return Err(Failure::Usage(text.to_owned()));
        }
        if matches.get_flag(RETRY) {
            let text = "the parity dialect has no --retry: a call is sent again only if the server \
                        says that it has not run";
            return Err(Failure::Usage(text.to_owned()));
        }
        let is_verbose = matches.get_flag(VERBOSE);
        let attempts_max = if matches.get_flag(NO_RETRY) { 0 } else { RECONNECTS_MAX };
        let mut reconnect = ReconnectOptions::default();
        reconnect.attempts_max = Some(attempts_max);
        let address = given_address(matches, target.address())?;
        let mut builder = ParityClient::builder(target).reconnect(reconnect);
        if let Some(timeout) = matches.get_one::<Duration>(TIMEOUT) {
            builder = builder.request_timeout(*timeout);
            builder = builder.connect_timeout(CONNECT_TIMEOUT.min(*timeout));
            builder = builder.handshake_timeout(CONNECT_TIMEOUT.min(*timeout));
        }
        if let Some(address) = address {
            builder = builder.connect_to(&address);
        }
        for (name, value) in &credentials.headers {
            builder = builder.header(name, value);
        }
        if let Some(token) = &credentials.token {
            builder = builder.auth_token(token);
        }
        if let Some(tls) = given_tls(matches) {
            builder = builder.tls(tls);
        }
        builder = builder.on_event(move |event| {
            if is_verbose || matches!(event, ParityEvent::Retried { .. }) {
                print_note(&describe(&event));
            }
        });
        if matches.get_flag(NO_RETRY) {
            let mut retry = ParityRetryOptions::default();
            retry.attempts_max = 0;
            builder = builder.retry(retry);
        }
        let client = builder.connect_lazy()?;
        match limit.run(CONNECTING, client.server()) {
            Ok(info) => Ok(Self { client, info, is_verbose }),
            Err(error) => {
                limit.close(client.close());
                let is_other = error.kind() == ClientErrorKind::Handshake;
                let hint = "check that the target serves the parity dialect (parity.mode)";
                let failure = Failure::from(error);
                Err(failure.with_hint(is_other.then(|| hint.to_owned())))
            }
        }
    }

    /// Makes a request and returns its result as the server sent it.
    pub(super) fn request(
        &self,
        method: Method,
        params: &Value,
        limit: &TimeLimit,
        progress: &Arc<ProgressLine>,
    ) -> Result<Box<RawValue>, ClientError> {
        let mut request = self.client.request(method.as_str(), params);
        if let Some(time) = limit.of_request() {
            request = request.timeout(time);
        }
        let is_shown = ProgressLine::is_supported() || self.is_verbose;
        if is_shown && self.info.capabilities.has(ParityFeature::Streaming) {
            let (line, is_verbose) = (Arc::clone(progress), self.is_verbose);
            request = request.on_chunk(move |chunk| show(&chunk, &line, is_verbose));
        }
        limit.run(method.as_str(), request)
    }

    /// Reads all pages of a list. The document of more than one page is the first page with the
    /// items of all.
    pub(super) fn list(
        &self,
        method: Method,
        key: &str,
        limit: &TimeLimit,
    ) -> Result<List, ClientError> {
        let (mut items, mut first) = (Vec::new(), None);
        let (mut params, mut cursors, mut failure) = (json!({}), Vec::new(), None);
        for _ in 0..PAGES_MAX {
            let request = self.client.request(method.as_str(), &params);
            let document: Box<RawValue> = limit.run(method.as_str(), request)?;
            let mut page: Map<String, Value> = read(&document)?;
            let Value::Array(found) = page.remove(key).unwrap_or_default() else {
                let text = format!("the list has no array {key:?}");
                return Err(ClientError::new(ClientErrorKind::Protocol, text));
            };
            items.extend(found);
            let mut cursor = page.remove("nextCursor").filter(|cursor| !cursor.is_null());
            if let Some(repeated) = cursor.take_if(|cursor| cursors.contains(cursor)) {
                let text = format!("the list does not end: the server repeats cursor {repeated}");
                failure = Some(ClientError::new(ClientErrorKind::Protocol, text));
            }
            match (cursor, &mut first) {
                (None, None) => return Ok(List { document, items, failure }),
                (None, Some(first)) => {
                    let mut first: Map<String, Value> = std::mem::take(first);
                    first.insert(key.to_owned(), Value::Array(items.clone()));
                    let document = to_document(&Value::Object(first))?;
                    return Ok(List { document, items, failure });
                }
                (Some(cursor), first) => {
                    params = json!({ "cursor": cursor });
                    cursors.push(cursor);
                    first.get_or_insert(page);
                }
            }
        }
        let text = format!("the list has more than {PAGES_MAX} pages");
        Err(ClientError::new(ClientErrorKind::Protocol, text))
    }

    /// Waits for the response to a ping.
    pub(super) fn ping(&self, limit: &TimeLimit) -> Result<(), ClientError> {
        limit.run(Method::Ping.as_str(), self.client.ping())
    }

    pub(super) fn close(self, limit: &TimeLimit) {
        limit.close(self.client.close());
    }

    /// Returns name and version of the server, and the version of the dialect.
    pub(super) fn describe(&self) -> String {
        let name = self.info.name.as_deref().unwrap_or("a server without a name");
        let version = self.info.version.as_deref().unwrap_or_default();
        format!("{name} {version}, parity {PROTOCOL_VERSION}")
    }

    /// Returns what the server declared in the handshake.
    pub(super) fn declared(&self) -> Value {
        let ParityServerInfo { name, version, capabilities, .. } = &*self.info;
        let mut declared = Map::new();
        for feature in ParityFeature::ALL.into_iter().filter(|it| capabilities.has(*it)) {
            declared.insert(feature.as_str().to_owned(), Value::Bool(true));
        }
        let limits = [
            ("maxConcurrent", capabilities.max_concurrent.map(u64::from)),
            ("maxPayloadBytes", capabilities.max_payload_bytes),
        ];
        for (name, limit) in limits {
            declared.extend(limit.map(|limit| (name.to_owned(), limit.into())));
        }
        if let Some(window) = capabilities.resume_window {
            let window = json!({ "chunks": window.chunks, "seconds": window.seconds });
            declared.insert("resumeWindow".to_owned(), window);
        }
        json!({
            "protocolVersion": format!("parity {PROTOCOL_VERSION}"),
            "serverInfo": { "name": name, "version": version },
            "capabilities": declared,
        })
    }
}

/// Shows a chunk of a stream.
fn show(chunk: &ParityChunk, line: &ProgressLine, is_verbose: bool) {
    match chunk {
        ParityChunk::Progress(progress) if ProgressLine::is_supported() => line.show(progress),
        ParityChunk::Progress(progress) => {
            let total = progress.total.map(|total| format!("/{total}")).unwrap_or_default();
            let message = progress.message.as_deref().unwrap_or_default();
            print_note(format!("progress {}{total} {message}", progress.progress).trim_end());
        }
        ParityChunk::Log(log) if is_verbose => {
            line.clear();
            let text = log.data.as_str().map_or_else(|| log.data.to_string(), str::to_owned);
            print_note(&format!("{}: {text}", log.level.as_str()));
        }
        ParityChunk::Partial(part) if is_verbose => {
            line.clear();
            print_note(&format!("part {part}"));
        }
        _ => {}
    }
}

fn describe(event: &ParityEvent) -> String {
    match event {
        ParityEvent::Ready(server) if server.resumed == Some(true) => {
            "the session continues on another connection".to_owned()
        }
        ParityEvent::Ready(_) => "the session is ready".to_owned(),
        ParityEvent::Restarted { reason } => {
            format!("the server has begun another session: {reason}")
        }
        ParityEvent::Retried { error } => format!("{error}; the request is repeated"),
        ParityEvent::Disconnected { reason } => format!("the connection was lost: {reason}"),
        other => format!("{other:?}"),
    }
}
