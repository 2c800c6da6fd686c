//! Servers that refuse requests with 401.

use corelane::client::ClientErrorKind;
use corelane::testing::block_on;
use serde_json::json;

use super::http_peer::http_response;
use super::http_responder::{HttpResponder, Reply};
use super::{discover_result, response};

const CHALLENGES: &str = "WWW-Authenticate: Bearer realm=\"a\"\r\nWWW-Authenticate: DPoP\r\n";
const JSON: &str = "Content-Type: application/json\r\n";

fn unauthorized() -> ClientErrorKind {
    ClientErrorKind::Unauthorized { challenge: Some("Bearer realm=\"a\", DPoP".into()) }
}

#[test]
fn refused_handshake_has_the_challenges() {
    // The second one is a server of HTTP+SSE only.
    for post in ["401 Unauthorized", "405 Method Not Allowed"] {
        let server = HttpResponder::start(move |request| {
            let status = if request.line().starts_with("POST") { post } else { "401 Unauthorized" };
            Reply::Send(http_response(status, CHALLENGES, "no entry"))
        });
        let error = server.client().connect_blocking().unwrap_err();
        assert_eq!(error.kind(), unauthorized(), "{post}: {error}");
        assert!(error.to_string().contains("HTTP status 401: no entry"), "{post}: {error}");
        server.stop();
    }
}

#[test]
fn call_refused_with_json_has_the_challenges() {
    let server = HttpResponder::start(|request| {
        if request.body["method"] == "server/discover" {
            let body = discover_result(&request.body).to_string();
            return Reply::Send(http_response("200 OK", JSON, &body));
        }
        let mut body = response(&request.body, &json!({}));
        body["result"].take();
        body["error"] = json!({ "code": -32000, "message": "the token has expired" });
        let fields = format!("{JSON}{CHALLENGES}");
        Reply::Send(http_response("401 Unauthorized", &fields, &body.to_string()))
    });
    let client = server.client().connect_blocking().unwrap();
    let error = client.call_tool("t", &json!({})).wait().unwrap_err();
    assert_eq!(error.kind(), unauthorized(), "{error}");
    assert!(error.to_string().ends_with("401: the token has expired"), "{error}");
    block_on(client.close());
    server.stop();
}
