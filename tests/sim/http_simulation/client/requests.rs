//! Requests of a client: sessions, calls, streams, and HTTP requests without a message.

use std::time::Duration;

use corelane_base::time::Instant;
use corelane_engine::ring::sim::World;
use corelane_protocol::revision::Revision;
use serde_json::{Value, json};

use super::connection::{HttpRequest, RequestKind};
use super::http_client::HttpClient;
use super::http_requests::{self, RequestStyle, WorkArguments};
use crate::feature_simulation::messages::{self, ReplyKind};
use crate::http_simulation::checks::session_checker::GENERAL_STREAM;
use crate::http_simulation::plan::HttpAction;

impl HttpClient {
    pub(super) fn initialize(&mut self, world: &World, now: Instant) {
        let id = self.new_id();
        let revision = [Revision::LATEST_LEGACY, Revision::ALL[1], Revision::ALL[2]];
        let revision = revision[self.random.below(revision.len())];
        let revision = self.strict_revision.unwrap_or(revision);
        let style = RequestStyle::draw(&mut self.random);
        let text = http_requests::post_message(&messages::initialize(id, revision), None, style);
        let asked = HttpRequest::new(RequestKind::Initialize, Some(id), None, now);
        self.send(
            HttpRequest { closes_connection: style.closes_connection(), ..asked },
            &text,
            world,
            now,
        );
    }

    pub(super) fn call_work(&mut self, session: usize, world: &World, now: Instant) {
        let mut order = self.draw_work();
        // A strict server neither sends client requests nor closes streams for a resumption.
        order.closes_stream_after =
            order.closes_stream_after.filter(|_| self.strict_revision.is_none());
        let least = order.duration_min();
        let mut params = http_requests::work_params(self.number, order);
        if self.random.chance(4, 5) {
            params["_meta"] = json!({"progressToken": self.last_id + 1});
        }
        self.send_request(session, "tools/call", params, least, world, now);
    }

    pub(super) fn draw_work(&mut self) -> WorkArguments {
        let words = self.random.below(6) as u32;
        let pause_us = [0, 300, 2_000, 20_000][self.random.below(4)];
        let leaves = (words > 0 && self.random.chance(1, 4))
            .then(|| 1 + self.random.below(words as usize) as u32);
        WorkArguments {
            steps: words,
            pause_us,
            elicits: self.random.chance(1, 6),
            closes_stream_after: leaves,
        }
    }

    pub(super) fn send_request(
        &mut self,
        session: usize,
        method: &str,
        params: Value,
        least: Duration,
        world: &World,
        now: Instant,
    ) {
        let id = self.new_id();
        let checker = &self.sessions[session];
        let name = checker.name();
        let style = RequestStyle::draw(&mut self.random);
        let message = messages::request(id, method, params, name.revision);
        let text = http_requests::post_message(&message, Some(name), style);
        let mut asked = HttpRequest::new(RequestKind::Request, Some(id), Some(session), now);
        if checker.is_legacy_sse() {
            // The response comes on the stream.
            asked = HttpRequest::new(RequestKind::Notification, None, Some(session), now);
        }
        self.send(
            HttpRequest { closes_connection: style.closes_connection(), ..asked },
            &text,
            world,
            now,
        );
        self.sessions[session].record_request(id, least, now);
    }

    pub(super) fn send_message(
        &mut self,
        action: HttpAction,
        session: usize,
        world: &World,
        now: Instant,
    ) {
        let message = match action {
            HttpAction::Cancel => {
                let open = self.sessions[session].requests.iter_mut();
                let mut open: Vec<_> = open.filter(|(_, request)| !request.is_answered).collect();
                if open.is_empty() {
                    return;
                }
                let (id, request) = open.swap_remove(self.random.below(open.len()));
                request.is_cancelled = true;
                messages::cancelled(*id)
            }
            HttpAction::Respond => {
                let place = self.client_requests.iter().position(|question| question.0 == session);
                let Some(place) = place else { return };
                let (_, question) = self.client_requests.remove(place);
                self.totals.client_responses += 1;
                messages::client_response(&question, ReplyKind::Accept, "word")
            }
            HttpAction::Initialize => {
                json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
            }
            _ => json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}),
        };
        let text = http_requests::post_message(
            &message,
            Some(self.sessions[session].name()),
            RequestStyle::default(),
        );
        let kind = if action == HttpAction::Initialize {
            RequestKind::Initialized
        } else {
            RequestKind::Notification
        };
        self.send(HttpRequest::new(kind, None, Some(session), now), &text, world, now);
    }

    pub(super) fn open_general_stream(&mut self, session: usize, world: &World, now: Instant) {
        let text = http_requests::session_request(
            "GET",
            self.sessions[session].name(),
            None,
            RequestStyle::default(),
        );
        self.sessions[session].general_streams += 1;
        self.send(
            HttpRequest::new(RequestKind::GeneralStream, None, Some(session), now),
            &text,
            world,
            now,
        );
    }

    pub(super) fn resume_stream(
        &mut self,
        session: usize,
        last: (u32, u32),
        world: &World,
        now: Instant,
    ) {
        let (stream, number) = last;
        let checker = &mut self.sessions[session];
        let text = http_requests::session_request(
            "GET",
            checker.name(),
            Some(last),
            RequestStyle::default(),
        );
        let known = checker.streams.entry(stream).or_default();
        known.resumes += 1;
        let request = known.request;
        // Every event of another stream names its request.
        let is_general = stream == GENERAL_STREAM || request.is_none();
        let kind =
            if is_general { RequestKind::GeneralStream } else { RequestKind::Resume(stream) };
        checker.general_streams += u32::from(is_general);
        let mut asked = HttpRequest::new(kind, request, Some(session), now);
        asked.position.stream = Some(stream);
        asked.position.last = Some(number);
        self.totals.streams_resumed += 1;
        self.send(asked, &text, world, now);
    }

    pub(super) fn call_work_modern(&mut self, world: &World, now: Instant) {
        let id = self.new_id();
        let order = self.draw_work();
        let mut params = http_requests::work_params(self.number, order);
        let mut message = messages::request(id, "tools/call", json!({}), Revision::LATEST);
        let meta = &mut message["params"]["_meta"];
        if self.random.chance(4, 5) {
            meta["progressToken"] = json!(id);
        }
        if self.random.chance(1, 3) {
            meta["io.modelcontextprotocol/logLevel"] = json!("info");
        }
        params["_meta"] = meta.take();
        message["params"] = params;
        let style = RequestStyle::draw(&mut self.random);
        let asked = HttpRequest::new(RequestKind::Modern, Some(id), None, now);
        let text = http_requests::post_message(&message, None, style);
        self.send(
            HttpRequest { closes_connection: style.closes_connection(), ..asked },
            &text,
            world,
            now,
        );
    }

    pub(super) fn send_plain_request(&mut self, world: &World, now: Instant) {
        let (asked, text) = self.draw_plain_request(now);
        self.send(asked, &text, world, now);
    }

    pub(super) fn draw_plain_request(&mut self, now: Instant) -> (HttpRequest, Vec<u8>) {
        let get =
            |path| http_requests::http_request("GET", path, &[], None, RequestStyle::default());
        let put = |path, body| {
            http_requests::http_request("POST", path, &[], Some(body), RequestStyle::default())
        };
        let (kind, text) = match self.random.below(9) {
            0 => (RequestKind::Status(200), get("/healthz")),
            1 => (RequestKind::Status(200), get("/status")),
            2 => (RequestKind::Status(404), get("/nowhere")),
            3 => (RequestKind::Status(405), get("/mcp")),
            4 => (RequestKind::Status(400), put("/mcp", "{nonsense")),
            5 => (RequestKind::Status(405), put("/healthz", "{}")),
            6 => (
                RequestKind::Bodiless(200),
                http_requests::http_request("HEAD", "/healthz", &[], None, RequestStyle::default()),
            ),
            7 => (
                RequestKind::Bodiless(204),
                http_requests::http_request("OPTIONS", "/mcp", &[], None, RequestStyle::default()),
            ),
            _ => {
                let fields = [("Mcp-Session-Id", "12345678-1234-4123-8123-123456789abc")];
                let text = http_requests::http_request(
                    "DELETE",
                    "/mcp",
                    &fields,
                    None,
                    RequestStyle::default(),
                );
                (RequestKind::Status(404), text)
            }
        };
        (HttpRequest::new(kind, None, None, now), text)
    }

    /// Pipelines several requests.
    pub(super) fn send_pipelined(&mut self, world: &World, now: Instant) {
        let place = self.pick_connection(world, now);
        for _ in 0..2 + self.random.below(5) {
            let session = self.current_session.filter(|_| self.random.chance(1, 2));
            let Some(session) = session else {
                let (asked, text) = self.draw_plain_request(now);
                self.connections[place].send_request(asked, &text, now);
                continue;
            };
            let id = self.new_id();
            let message = messages::request(id, "ping", json!({}), Revision::LATEST_LEGACY);
            let text = http_requests::post_message(
                &message,
                Some(self.sessions[session].name()),
                RequestStyle::default(),
            );
            let mut asked = HttpRequest::new(RequestKind::Request, Some(id), Some(session), now);
            if self.sessions[session].is_legacy_sse() {
                asked = HttpRequest::new(RequestKind::Notification, None, Some(session), now);
            }
            self.connections[place].send_request(asked, &text, now);
            self.sessions[session].record_request(id, Duration::ZERO, now);
        }
    }
}
