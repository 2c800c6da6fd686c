//! Sessions and the state of calls belong to the caller that began them.

use corelane_test_support::{TestServer, on_one_shard_and_two};
use serde_json::json;

use crate::http::{Response, open_session, post_legacy, send};
use crate::{Authority, call, catalog};

/// Connections; enough to reach each of two shards.
const CONNECTIONS: usize = 16;

fn fields(token: &str, session: &str) -> String {
    format!("Authorization: Bearer {token}\r\nMcp-Session-Id: {session}\r\n")
}

fn expect_unknown(response: &Response) {
    assert_eq!(response.status, 404, "{response:?}");
    assert_eq!(response.json()["error"]["code"], -32600);
}

#[test]
fn session_of_another_caller_gets_404() {
    on_one_shard_and_two(|mut options| {
        let authority = Authority::new();
        options.auth = authority.key_options();
        let server = TestServer::with_catalog(options, catalog());
        let address = server.address();
        let session = open_session(address, "key-ada");
        for _ in 0..CONNECTIONS {
            let own = post_legacy(address, &call("whoami"), &fields("key-ada", &session));
            assert_eq!(own.text(), "ada (admin)");
            expect_unknown(&post_legacy(address, &call("whoami"), &fields("key-bob", &session)));
            let accept = "Accept: text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n";
            let stream = format!("{}{accept}", fields("key-bob", &session));
            expect_unknown(&send(address, "GET", "/mcp", &stream));
            expect_unknown(&send(address, "DELETE", "/mcp", &fields("key-bob", &session)));
            // An unknown session gets the same response.
            let unknown = fields("key-bob", "0123456789abcdef0123456789abcdef");
            expect_unknown(&post_legacy(address, &call("whoami"), &unknown));
        }
        let without =
            post_legacy(address, &call("whoami"), &format!("Mcp-Session-Id: {session}\r\n"));
        assert_eq!(without.status, 401);
        assert_eq!(send(address, "DELETE", "/mcp", &fields("key-ada", &session)).status, 204);
        server.close();
    });
}

#[test]
fn refreshed_token_continues_a_session() {
    let authority = Authority::new();
    let mut options = corelane_test_support::http_options();
    options.auth = authority.jwt_options();
    let server = TestServer::with_catalog(options, catalog());
    let address = server.address();
    let session = open_session(address, &authority.issuer.token("ada", ""));
    let later = authority.issuer.token("ada", "tools:deploy");
    let deployed = post_legacy(address, &call("deploy_app"), &fields(&later, &session));
    assert_eq!(deployed.text(), "deployed");
    let mut claims = authority.issuer.claims("ada", "");
    claims["client_id"] = json!("other");
    let other = authority.issuer.sign(&claims);
    expect_unknown(&post_legacy(address, &call("whoami"), &fields(&other, &session)));
    server.close();
}
