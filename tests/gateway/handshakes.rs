//! Clients that send `initialize` after a good `server/discover`, as Claude Code 2.1 does.

use std::cell::RefCell;

use corelane_test_support::messages::{LEGACY, MODERN, echo, initialize, modern, notification};
use corelane_test_support::messages::{request, request_without_params, result_text};
use corelane_test_support::{HttpClient, LineClient, Process, Request, Response};
use serde_json::{Value, json};

use crate::CORELANE;
use crate::gateway::{ERAS, Gateway};

/// Sends requests of both eras in turn by `exchange`; `initialized` sends what follows
/// `initialize`.
fn mix_eras(exchange: &mut dyn FnMut(Value) -> Value, initialized: &mut dyn FnMut()) {
    let discovered = exchange(modern(request(1, "server/discover", json!({}))));
    let versions = discovered["result"]["supportedVersions"].as_array().expect("versions");
    assert!(versions.contains(&json!(MODERN)), "{discovered}");
    let listed = exchange(modern(request(2, "tools/list", json!({}))));
    assert_eq!(listed["result"]["resultType"], "complete", "{listed}");
    let initialized_as = exchange(initialize(3, LEGACY));
    assert_eq!(initialized_as["result"]["protocolVersion"], LEGACY, "{initialized_as}");
    initialized();
    let listed = exchange(request_without_params(4, "tools/list"));
    assert!(listed["result"]["tools"].is_array(), "{listed}");
    assert_eq!(result_text(&exchange(echo(5, "legacy"))), "legacy");
    assert_eq!(result_text(&exchange(modern(echo(6, "modern")))), "modern");
    assert_eq!(result_text(&exchange(echo(7, "again"))), "again");
}

/// The same over a stream of lines.
fn mix_eras_in_lines(peer: &mut LineClient) {
    let lines = RefCell::new(peer);
    mix_eras(&mut |message| lines.borrow_mut().exchange(message), &mut || {
        lines.borrow_mut().send(notification("notifications/initialized"));
    });
}

#[test]
fn initialize_after_discover_is_served_over_tcp() {
    for era in ERAS {
        let gateway = Gateway::new(&["--era", era]);
        mix_eras_in_lines(&mut LineClient::connect(gateway.tcp));
        gateway.end();
    }
}

#[test]
fn initialize_after_discover_is_served_over_stdio() {
    for era in ERAS {
        let gateway = Gateway::new(&["--era", era]);
        let url = format!("http://{}/mcp", gateway.http);
        let mut bridge = Process::start(CORELANE, &["bridge", &url]);
        mix_eras_in_lines(&mut bridge.take_pipes());
        assert_eq!(bridge.wait().status, 0);
        gateway.end();
    }
}

#[test]
fn initialize_after_discover_is_served_over_http() {
    for era in ERAS {
        let gateway = Gateway::new(&["--era", era]);
        let peer = RefCell::new(HttpPeer {
            connection: Some(HttpClient::connect(gateway.http)),
            session: None,
        });
        mix_eras(&mut |message| peer.borrow_mut().exchange(&message), &mut || {
            let initialized = notification("notifications/initialized");
            peer.borrow_mut().post(&initialized).expect_empty_body(202);
        });
        gateway.end();
    }
}

/// One connection, with a session since `initialize`.
struct HttpPeer {
    connection: Option<HttpClient>,
    session: Option<String>,
}

impl HttpPeer {
    fn exchange(&mut self, message: &Value) -> Value {
        let response = self.post(message);
        if let Some(id) = response.head.field("Mcp-Session-Id") {
            self.session = Some(id.to_owned());
        }
        response.message()
    }

    fn post(&mut self, message: &Value) -> Response {
        let is_modern = message["params"].get("_meta").is_some();
        let request = match &self.session {
            _ if is_modern => Request::modern(message),
            None => Request::post(message),
            Some(id) => Request::post(message)
                .field("Mcp-Session-Id", id)
                .field("MCP-Protocol-Version", LEGACY),
        };
        let connection = self.connection.take().expect("a connection");
        let mut connection = connection.with_revision(if is_modern { MODERN } else { LEGACY });
        let response = connection.exchange(&request);
        self.connection = Some(connection);
        response
    }
}
