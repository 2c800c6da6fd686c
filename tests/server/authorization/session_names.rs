//! In the strict profile responses name the session of a request to its caller only.

use corelane_protocol::revision::Revision;
use corelane_test_support::http::Response;
use corelane_test_support::messages::{echo, initialize, notification};
use corelane_test_support::{HttpClient, Request, TestServer};
use serde_json::Value;

use crate::authorization::{Authority, catalog, options};

const STRICT: &str = "2025-06-18";

/// Connections; enough to reach each of two shards.
const CONNECTIONS: usize = 12;

struct Fixture {
    server: TestServer,
    session: String,
}

impl Fixture {
    /// Starts two shards, and begins a session of `key-ada`.
    fn start(authority: &Authority) -> Self {
        let mut options = options(authority.key_options());
        options.engine.shards = Some(2);
        options.http.strict = Some(Revision::V2025_06_18);
        let server = TestServer::with_catalog(options, catalog());
        let request = Request::post(initialize(0, STRICT));
        let request = request.field("Authorization", "Bearer key-ada");
        let response = server.connect_http().with_revision(STRICT).exchange(&request);
        let session = response.head.field("Mcp-Session-Id").expect("a session").to_owned();
        let fixture = Self { server, session };
        let initialized = fixture.post(&notification("notifications/initialized"), Some("key-ada"));
        fixture.connect().exchange(&initialized).expect_empty_body(202);
        fixture
    }

    fn connect(&self) -> HttpClient {
        self.server.connect_http().with_revision(STRICT)
    }

    fn post(&self, message: &Value, key: Option<&str>) -> Request {
        let request = Request::post(message).field("Mcp-Session-Id", &self.session);
        let request = request.field("MCP-Protocol-Version", STRICT);
        match key {
            Some(key) => request.field("Authorization", format!("Bearer {key}")),
            None => request,
        }
    }

    /// Requests that are refused by their heads.
    fn refused(&self, key: Option<&str>) -> [Request; 3] {
        let good = || self.post(&echo(1, "hi"), key);
        [
            good().field("Content-Type", "text/plain"),
            good().without_field("MCP-Protocol-Version"),
            good().method("PUT"),
        ]
    }

    fn name_in(response: &Response) -> Option<&str> {
        response.head.field("Mcp-Session-Id")
    }
}

#[test]
fn refusals_name_session_to_its_caller() {
    let authority = Authority::new();
    let fixture = Fixture::start(&authority);
    for _ in 0..CONNECTIONS {
        for request in fixture.refused(Some("key-ada")) {
            let response = fixture.connect().exchange(&request);
            assert_eq!(Fixture::name_in(&response), Some(&*fixture.session), "{response:?}");
        }
    }
    fixture.server.close();
}

#[test]
fn session_of_another_caller_is_not_named() {
    let authority = Authority::new();
    let fixture = Fixture::start(&authority);
    for _ in 0..CONNECTIONS {
        for key in [Some("key-bob"), Some("key-eve"), None] {
            let message = echo(1, "hi");
            let requests = fixture.refused(key).into_iter().chain([fixture.post(&message, key)]);
            for request in requests {
                // Also on a connection whose request before is one of the caller.
                let mut shared = fixture.connect();
                let before = fixture.post(&notification("notifications/none"), Some("key-ada"));
                shared.exchange(&before).expect_empty_body(202);
                for client in [&mut shared, &mut fixture.connect()] {
                    client.send(&request);
                    let head = client.read_head();
                    assert!(head.status >= 400, "{head:?}");
                    assert_eq!(head.field("Mcp-Session-Id"), None, "{key:?}: {head:?}");
                }
            }
        }
        let mut framing = fixture.connect();
        let request = fixture.post(&echo(1, "hi"), Some("key-ada")).add_field("Expect", "else");
        assert_eq!(Fixture::name_in(&framing.exchange(&request)), None);
    }
    fixture.server.close();
}
