//! Calls over TLS on each transport and ring.

use std::process::Command;
use std::sync::Arc;

use corelane::client::{ClientPool, EraPreference};
use corelane::model::{Implementation, Revision};
use corelane::testing::block_on;
use corelane::{Catalog, HandlerError, Server, Tool};
use corelane_test_support::{TestServer, over_each_ring};
use serde_json::json;

use super::{Authority, Echo, echo};

const ERAS: [EraPreference; 2] =
    [EraPreference::Modern, EraPreference::Legacy(Revision::V2025_11_25)];

/// Runs `test` for each encrypted transport: its scheme and port.
fn over_each_transport(server: &TestServer, test: impl Fn(&str, u16)) {
    test("tls", server.tcp().port());
    test("https", server.http().port());
    test("wss", server.http().port());
}

#[test]
fn call_tool_over_tls_in_both_eras() {
    let authority = Authority::new();
    over_each_ring(authority.server_options(), |options| {
        let server = TestServer::start(options);
        over_each_transport(&server, |scheme, port| {
            for era in ERAS {
                let client = authority.client(scheme, port).era(era).connect_blocking().unwrap();
                for _ in 0..3 {
                    assert_eq!(echo(&client, "hi").unwrap(), "hi", "{scheme} {era:?}");
                }
                block_on(client.close());
            }
        });
    });
}

#[test]
fn message_of_many_records_is_whole() {
    let authority = Authority::new();
    over_each_ring(authority.server_options(), |options| {
        let server = TestServer::start(options);
        over_each_transport(&server, |scheme, port| {
            let client = authority.client(scheme, port).connect_blocking().unwrap();
            let text = "0123456789".repeat(20_000);
            assert_eq!(echo(&client, &text).unwrap(), text, "{scheme}");
            assert_eq!(echo(&client, "short").unwrap(), "short", "{scheme}");
        });
    });
}

#[test]
fn concurrent_calls_over_tls_are_answered() {
    let authority = Authority::new();
    over_each_ring(authority.server_options(), |options| {
        let server = TestServer::start(options);
        over_each_transport(&server, |scheme, port| {
            let client = authority.client(scheme, port).connect_lazy().unwrap();
            let calls: Vec<_> = (0..200)
                .map(|index: u32| {
                    let message = json!({ "message": index.to_string() });
                    (index, client.call_tool("echo", &message).into_future())
                })
                .collect();
            for (index, call) in calls {
                assert_eq!(block_on(call).unwrap().text(), index.to_string(), "{scheme}");
            }
        });
    });
}

#[test]
fn drain_ends_tls_connections() {
    let authority = Authority::new();
    let server = TestServer::with_test_tools(authority.server_options());
    let client = authority.client("https", server.http().port()).connect_blocking().unwrap();
    let held = client.call_tool("hold", &json!({})).into_future();
    assert_eq!(server.next_signal(), "begun");
    server.handle().drain();
    server.open_gate();
    block_on(held).unwrap();
}

#[test]
fn listener_can_stay_without_tls() {
    let authority = Authority::new();
    let mut options = authority.server_options();
    options.tls.tcp = false;
    let server = TestServer::start(options);
    let plain = format!("tcp://{}", server.tcp());
    let client = corelane::Client::builder(plain.as_str()).connect_blocking().unwrap();
    assert_eq!(echo(&client, "hi").unwrap(), "hi");
    let client = authority.client("https", server.http().port()).connect_blocking().unwrap();
    assert_eq!(echo(&client, "hi").unwrap(), "hi");
}

#[test]
fn curl_calls_tool_over_https() {
    let authority = Authority::new();
    let server = TestServer::start(authority.server_options());
    let ca = authority.write("ca.pem", &authority.issuer.pem());
    let url = format!("https://localhost:{}/mcp", server.http().port());
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "echo", "arguments": { "message": "hi" },
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "curl", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    } });
    let body = call.to_string();
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--cacert"])
        .arg(ca)
        .args(["-H", "Content-Type: application/json"])
        .args(["-H", "Accept: application/json, text/event-stream"])
        .args(["-H", "MCP-Protocol-Version: 2026-07-28"])
        .args(["-H", "Mcp-Method: tools/call", "-H", "Mcp-Name: echo", "--data", &body, &url])
        .output();
    // Plain `cargo test` needs nothing but Rust.
    let Ok(output) = output else { return eprintln!("skipped: no curl") };
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains(r#""text":"hi""#), "{text} {error}");
}

#[test]
fn encrypted_server_calls_another_on_its_shard() {
    let authority = Authority::new();
    over_each_ring(authority.server_options(), |options| {
        let upstream = TestServer::start(authority.server_options());
        let trusting = authority.trusting();
        let pool = ClientPool::on_shards().configure(move |client| client.tls(trusting.clone()));
        let pool = Arc::new(pool);
        over_each_transport(&upstream, |scheme, port| {
            let (of_tool, target) = (Arc::clone(&pool), format!("{scheme}://localhost:{port}"));
            let proxy = Tool::new("echo").local(move |arguments: Echo, _| {
                let call = of_tool.call_tool(target.as_str(), "echo", &arguments);
                async move { Ok::<_, HandlerError>(call.await?.text()) }
            });
            let info = Implementation::new("proxy", "1.0.0");
            let catalog = Catalog::builder(info).tool(proxy).build().unwrap();
            let server = Server::builder(catalog).options(options.clone()).client_pool(&*pool);
            let server = TestServer::with_server(|_| server);
            over_each_transport(&server, |outer, port| {
                let client = authority.client(outer, port).connect_blocking().unwrap();
                // More than a record of TLS.
                for text in ["hi", &"0123456789".repeat(4_000)] {
                    assert_eq!(echo(&client, text).unwrap(), text, "{outer} {scheme}");
                }
            });
        });
    });
}
