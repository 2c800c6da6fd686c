//! `HttpSession`: a legacy session and the requests that a client sends in it.

use std::net::SocketAddr;

use corelane_test_support::messages::{
    LEGACY, call, initialize_with_elicitation, notification, request_without_params,
};
use corelane_test_support::{HttpClient, Request};
use serde_json::{Value, json};

#[derive(Clone, Debug)]
pub(crate) struct HttpSession {
    address: SocketAddr,
    id: String,
    revision: &'static str,
}

impl HttpSession {
    /// Creates a session by a handshake in `revision`.
    pub(crate) fn initialize(address: SocketAddr, revision: &'static str) -> Self {
        let session = Self::without_notification(address, revision);
        let initialized = session.post(&notification("notifications/initialized"));
        session.connect().exchange(&initialized).expect_empty_body(202);
        session
    }

    /// Creates a session whose `notifications/initialized` is outstanding.
    pub(crate) fn without_notification(address: SocketAddr, revision: &'static str) -> Self {
        let mut client = HttpClient::connect(address).with_revision(revision);
        let response = client.exchange(&Request::post(initialize_with_elicitation(0, revision)));
        assert_eq!(response.status(), 200, "{response:?}");
        assert_eq!(response.message()["result"]["protocolVersion"], revision, "{response:?}");
        let id = response.head.field("Mcp-Session-Id").expect("no Mcp-Session-Id").to_owned();
        assert!(id.bytes().all(|byte| (0x21..=0x7e).contains(&byte)), "{id}");
        Self::with_id(address, &id, revision)
    }

    /// Returns a session with this id, without a handshake.
    pub(crate) fn with_id(address: SocketAddr, id: &str, revision: &'static str) -> Self {
        Self { address, id: id.to_owned(), revision }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Returns whether its streams begin with an event without data.
    pub(crate) fn has_priming_events(&self) -> bool {
        self.revision == LEGACY
    }

    /// Opens a connection whose messages are checked against the session's revision.
    pub(crate) fn connect(&self) -> HttpClient {
        HttpClient::connect(self.address).with_revision(self.revision)
    }

    /// Builds a POST request with `message`.
    pub(crate) fn post(&self, message: &Value) -> Request {
        self.add_header_fields(Request::post(message))
    }

    /// Builds the GET request for the event stream of the session.
    pub(crate) fn get(&self) -> Request {
        self.add_header_fields(Request::new("GET", "/mcp").field("Accept", "text/event-stream"))
    }
    /// Builds the GET request that resumes the stream after `event`.
    pub(crate) fn resume(&self, event: &str) -> Request {
        self.get().field("Last-Event-ID", event)
    }

    /// Builds the DELETE request that ends the session.
    pub(crate) fn delete(&self) -> Request {
        self.add_header_fields(Request::new("DELETE", "/mcp"))
    }

    /// Has the shard of the session apply reloaded limits: it does at the start of a turn.
    pub(crate) fn apply_limits(&self, client: &mut HttpClient) {
        for id in ["first", "second"] {
            let ping = self.post(&request_without_params(id, "ping"));
            assert_eq!(client.exchange(&ping).status(), 200);
        }
    }

    /// Waits until no request of the session is in flight. The server must have a
    /// `requests_in_flight_max` of 1.
    pub(crate) fn wait_until_idle(&self) {
        let request = self.post(&call("idle?", "slow", json!({"steps": 1, "step_ms": 0})));
        while self.connect().exchange(&request).message().get("result").is_none() {}
    }

    /// Opens a connection and the GET event stream on it.
    pub(crate) fn open_stream(&self) -> HttpClient {
        let mut client = self.connect();
        client.request_stream(&self.get());
        client
    }

    fn add_header_fields(&self, request: Request) -> Request {
        let request = request.field("Mcp-Session-Id", &self.id);
        // MCP 2025-03-26 does not define `MCP-Protocol-Version`.
        if self.revision == "2025-03-26" {
            return request;
        }
        request.field("MCP-Protocol-Version", self.revision)
    }
}
