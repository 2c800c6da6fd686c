//! What is not MCP: the page for people, and what monitors and browsers ask.

use super::Incoming;
use crate::server::driver::{ShardDriver, Stage};
use crate::server::http::{CONTENT_SECURITY_POLICY, PAGE, Population};
use crate::transport::http::fields::{Fields, Preflight};
use crate::transport::http::head::Field;
use crate::transport::http::ladder::Kind;
use crate::transport::http::response::Body;
use crate::transport::http::status::Status;

impl ShardDriver {
    /// Answers a request that brings no message.
    pub(super) fn answer_plain(&mut self, incoming: &Incoming<'_>, kind: Kind<'_>) {
        let fields = incoming.fields();
        match kind {
            Kind::Preflight { allow } => {
                let headers =
                    incoming.head.field(incoming.bytes, Field::AccessControlRequestHeaders);
                let preflight = Preflight { verbs: allow, headers, age_seconds_max: 86_400 };
                let fields = Fields { preflight: Some(preflight), ..fields };
                self.answer(incoming, (Status::NO_CONTENT, Body::Nothing, fields), &[]);
            }
            Kind::Options { allow } => {
                let fields = Fields { allow: Some(allow), ..fields };
                self.answer(incoming, (Status::NO_CONTENT, Body::Nothing, fields), &[]);
            }
            Kind::Ready if self.stage != Stage::Serving => {
                let answer = (Status::UNAVAILABLE, Body::Text("text/plain"), fields);
                self.answer(incoming, answer, b"draining\n");
            }
            Kind::Health | Kind::Ready => {
                let answer = (Status::OK, Body::Text("text/plain"), fields);
                self.answer(incoming, answer, b"ok\n");
            }
            Kind::Status => {
                let text = self.status_text();
                self.answer(incoming, (Status::OK, Body::Json, fields), text.as_bytes());
            }
            Kind::Page => {
                let fields = Fields { policy: Some(CONTENT_SECURITY_POLICY), ..fields };
                let answer = (Status::OK, Body::Text("text/html; charset=utf-8"), fields);
                self.answer(incoming, answer, PAGE);
            }
            _ => {
                let answer = (Status::NOT_FOUND, Body::Text("text/plain"), fields);
                self.answer(incoming, answer, b"nothing is here\n");
            }
        }
    }

    /// Tells the other shards how this one stands.
    #[inline]
    pub(in crate::server::driver) fn be_counted(&mut self) {
        let sessions = self.http.sessions.len();
        let streams = self.road.subscriptions.len() + self.http.sessions.attached();
        self.census.tell(Population { sessions, streams });
    }

    /// What the page shows of this server as it is: what all shards have together.
    fn status_text(&mut self) -> String {
        self.be_counted();
        let Population { sessions, streams } = self.census.all();
        let (connections, shards) = (self.served_http.taken(), self.road.shards);
        let info = self.road.catalog.info();
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
