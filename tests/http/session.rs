//! A legacy session as its client keeps it: a name, and any number of connections.

use std::net::SocketAddr;

use serde_json::Value;

use crate::client::Client;
use crate::messages::{echo, initialize, notification};
use crate::request::Request;

/// A session.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    address: SocketAddr,
    id: String,
    revision: &'static str,
}

impl Session {
    /// Begins a session of `revision`.
    pub(crate) fn begin(address: SocketAddr, revision: &'static str) -> Self {
        let mut client = Client::connect(address).speaking(revision);
        let answer = client.ask(&Request::post(initialize(0, revision)));
        assert_eq!(answer.status(), 200, "{answer:?}");
        assert_eq!(answer.message()["result"]["protocolVersion"], revision, "{answer:?}");
        let id = answer.head.field("Mcp-Session-Id").expect("a name").to_owned();
        assert!(id.bytes().all(|byte| (0x21..=0x7e).contains(&byte)), "{id}");
        let session = Self::named(address, &id, revision);
        let initialized = session.post(&notification("notifications/initialized"));
        client.ask(&initialized).expect_bare(202);
        session
    }

    /// A session that somebody says there is.
    pub(crate) fn named(address: SocketAddr, id: &str, revision: &'static str) -> Self {
        Self { address, id: id.to_owned(), revision }
    }

    /// Its name.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// A new connection that speaks its revision.
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address).speaking(self.revision)
    }

    /// A POST of a message in the session.
    pub(crate) fn post(&self, message: &Value) -> Request {
        self.say(Request::post(message))
    }

    /// A GET of its stream.
    pub(crate) fn listen(&self) -> Request {
        self.say(Request::new("GET", "/mcp").field("Accept", "text/event-stream"))
    }

    /// A GET of what followed an event.
    pub(crate) fn resume(&self, event: &str) -> Request {
        self.listen().field("Last-Event-ID", event)
    }

    /// Its DELETE.
    pub(crate) fn end(&self) -> Request {
        self.say(Request::new("DELETE", "/mcp"))
    }

    /// Waits until a request has its answer, which may be on its way: its id is free again.
    pub(crate) fn until_answered(&self, id: &str) {
        let asking = self.post(&echo(id, "free"));
        while self.connect().ask(&asking).message().get("result").is_none() {}
    }

    /// A connection whose stream has begun.
    pub(crate) fn attend(&self) -> Client {
        let mut client = self.connect();
        client.ask_stream(&self.listen());
        client
    }

    fn say(&self, request: Request) -> Request {
        let request = request.field("Mcp-Session-Id", &self.id);
        // The first revision with sessions knows no such field.
        if self.revision == "2025-03-26" {
            return request;
        }
        request.field("MCP-Protocol-Version", self.revision)
    }
}
