//! The client over sockets and pipes: calls to real servers, and to peers that misbehave.

mod bad_peers;
mod cache;
mod calls;
mod cli;
mod cli_foreign;
mod cli_parity;
mod cli_ranges;
mod cli_skills;
mod cli_tasks;
mod cli_time_limit;
mod connects;
mod fuzzed;
mod gateway;
mod http;
mod http_bad_peers;
mod http_peer;
mod http_responder;
mod http_sessions;
mod inputs;
mod io_tasks;
mod local;
mod logging;
mod oauth;
mod oauth_server;
mod oidc_provider;
mod on_shards;
mod other_servers;
mod pages;
mod parity;
mod parity_relay;
mod pool;
mod programs;
mod proxies;
mod reconnects;
mod redirects;
mod retries;
mod sdk_servers;
mod subscriptions;
mod tasks;
mod tls;
mod tool_headers;
mod unauthorized;
mod websocket;
mod websocket_oauth;
mod websocket_peer;

use corelane::Client;
use corelane::client::{ClientBuilder, EraPreference};
use corelane::model::Revision;
use corelane::testing::block_on;
use corelane_test_support::{TestServer, http_options, tcp_options};
use serde_json::{Value, json};

/// The program under test.
const CORELANE: &str = env!("CARGO_BIN_EXE_corelane");

/// Every way to agree on a revision.
const ERAS: [EraPreference; 6] = [
    EraPreference::Auto,
    EraPreference::Modern,
    EraPreference::Legacy(Revision::V2025_11_25),
    EraPreference::Legacy(Revision::V2025_06_18),
    EraPreference::Legacy(Revision::V2025_03_26),
    EraPreference::Legacy(Revision::V2024_11_05),
];

/// A client of the TCP listener of `server`.
fn client_of(server: &TestServer) -> ClientBuilder {
    Client::builder(format!("tcp://{}", server.tcp()).as_str())
}

/// Checks that a client speaks the revision of its era, and that its server answers.
fn expect_revision(client: &Client, era: EraPreference) {
    let revision = block_on(client.server()).expect("a server").revision;
    match era {
        EraPreference::Legacy(expected) => assert_eq!(revision, expected),
        _ => assert_eq!(revision, Revision::LATEST),
    }
    block_on(client.ping()).expect("an answer");
}

/// Runs `test` for a server over TCP, HTTP and WebSocket, with clients of it.
fn over_each_transport(test: impl Fn(&TestServer, &dyn Fn() -> ClientBuilder)) {
    let server = TestServer::with_test_tools(tcp_options());
    test(&server, &|| client_of(&server));
    let server = TestServer::with_test_tools(http_options());
    test(&server, &|| http::client_of(&server));
    let server = TestServer::with_test_tools(http_options());
    test(&server, &|| websocket::client_of(&server));
}

/// The response of a server that this library is not.
fn response(request: &Value, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })
}

/// The response to `server/discover` of a server with tools.
fn discover_result(request: &Value) -> Value {
    let result = json!({
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": { "tools": {} },
    });
    response(request, &result)
}
