//! Requests that are not MCP: the HTML page, health checks, status, CORS preflight.

use super::IncomingRequest;
use crate::server::http::{CONTENT_SECURITY_POLICY, GaugeValues, PAGE};
use crate::server::shard::{Shard, ShardPhase};
use crate::transport::http::checks::RequestKind;
use crate::transport::http::fields::{Preflight, ResponseFields};
use crate::transport::http::head::Field;
use crate::transport::http::response::BodyKind;
use crate::transport::http::status::Status;

impl Shard {
    /// Responds to a request that carries no message.
    pub(super) fn respond_plain(&mut self, incoming: &IncomingRequest<'_>, kind: RequestKind<'_>) {
        let fields = incoming.response_fields();
        match kind {
            RequestKind::Preflight { allow } => {
                let headers =
                    incoming.head.field(incoming.bytes, Field::AccessControlRequestHeaders);
                let preflight = Preflight { methods: allow, headers, max_age_seconds: 86_400 };
                let fields = ResponseFields { preflight: Some(preflight), ..fields };
                self.respond(incoming, (Status::NO_CONTENT, BodyKind::Empty, fields), &[]);
            }
            RequestKind::Options { allow } => {
                let fields = ResponseFields { allow: Some(allow), ..fields };
                self.respond(incoming, (Status::NO_CONTENT, BodyKind::Empty, fields), &[]);
            }
            RequestKind::Ready if self.phase != ShardPhase::Serving => {
                let answer = (Status::UNAVAILABLE, BodyKind::Text("text/plain"), fields);
                self.respond(incoming, answer, b"draining\n");
            }
            RequestKind::Health | RequestKind::Ready => {
                let answer = (Status::OK, BodyKind::Text("text/plain"), fields);
                self.respond(incoming, answer, b"ok\n");
            }
            RequestKind::Status => {
                let text = self.status_json();
                self.respond(incoming, (Status::OK, BodyKind::Json, fields), text.as_bytes());
            }
            RequestKind::Page => {
                let fields = ResponseFields {
                    content_security_policy: Some(CONTENT_SECURITY_POLICY),
                    ..fields
                };
                let answer = (Status::OK, BodyKind::Text("text/html; charset=utf-8"), fields);
                self.respond(incoming, answer, PAGE);
            }
            _ => {
                let answer = (Status::NOT_FOUND, BodyKind::Text("text/plain"), fields);
                self.respond(incoming, answer, b"not found\n");
            }
        }
    }

    /// Publishes the gauges of this shard to the others.
    #[inline]
    pub(in crate::server::shard) fn publish_gauges(&mut self) {
        let sessions = self.http.sessions.len();
        let streams = self.dispatcher.subscriptions.len() + self.http.sessions.attached_streams();
        self.gauges.report(GaugeValues { sessions, streams });
    }

    /// Returns the status JSON of the page: totals over all shards.
    fn status_json(&mut self) -> String {
        self.publish_gauges();
        let GaugeValues { sessions, streams } = self.gauges.totals();
        let (connections, shards) = (self.acceptor.http_connections(), self.dispatcher.shard_count);
        let info = self.dispatcher.catalog.server_info();
        let name = serde_json::to_string(&info.name).unwrap_or_default();
        let version = serde_json::to_string(&info.version).unwrap_or_default();
        let websocket = match &self.http.profile.websocket {
            Some(path) => format!("\"websocket\":\"{path}\","),
            None => String::new(),
        };
        format!(
            "{{\"name\":{name},\"version\":{version},{websocket}\"connections\":{connections},\
             \"sessions\":{sessions},\"streams\":{streams},\"shards\":{shards}}}"
        )
    }
}
