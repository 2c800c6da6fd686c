//! Tools of HTTP requests against servers that answer wrongly.

use serde_json::json;

use super::api::{Api, Reply};
use super::folder::DeclaredServer;

fn reply(target: &str) -> Reply {
    let text = "Content-Type: text/plain";
    let moved =
        |location: &str| Reply::new("301 Moved Permanently", &format!("Location: {location}"), "");
    match target {
        "/moved-host" => moved("http://other.example.com/secret"),
        "/moved-private" => moved("http://10.0.0.1/secret"),
        "/moved-loopback" => moved("http://127.0.0.1:1/secret"),
        "/moved-same" => moved("/good"),
        "/moved-again" => moved("/moved-again"),
        "/429" => {
            let headers = "Retry-After: 3600\r\nContent-Type: text/plain";
            Reply::new("429 Too Many Requests", headers, "slow down")
        }
        "/500" => Reply::new("500 Internal Server Error", text, &"broken ".repeat(10_000)),
        "/html" => {
            let page = "<html><head><title>Sign in</title></head><body>…</body></html>";
            Reply::new("200 OK", "Content-Type: text/html", page)
        }
        "/endless" => Reply::Endless(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\
             Transfer-Encoding: chunked\r\n\r\n",
            "10\r\n0,1,2,3,4,5,6,7,\r\n",
        ),
        "/wrong-type" => Reply::new("200 OK", "Content-Type: application/json", "a,b\n1,2\n"),
        "/binary" => Reply::new("200 OK", text, "\u{0}\u{1}"),
        "/no-value" => Reply::json("{\"other\": 1}"),
        "/hang" => Reply::Hang,
        "/close" => Reply::Close,
        "/garbage" => Reply::Bytes(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec()),
        _ => Reply::json("{\"data\": {\"name\": \"lamp\"}}"),
    }
}

fn server(api: &Api) -> DeclaredServer {
    let url = api.origin();
    DeclaredServer::new(&format!(
        "[[tool]]\nname = \"get\"\n\
         http = {{ url = \"{url}/{{case}}\", result = \"/data/name\", \
         private_addresses = [\"127.0.0.1\"] }}\n\
         arguments.case = {{ type = \"string\" }}\n\
         limits.output_bytes = \"16KiB\"\n\
         [[tool]]\nname = \"hang\"\n\
         http = {{ url = \"{url}/hang\", private_addresses = [\"127.0.0.1\"] }}\n\
         limits.timeout = \"300ms\"\n"
    ))
}

#[test]
fn wrong_responses_become_helpful_sentences() {
    let api = Api::start(reply);
    let server = server(&api);
    let mut client = server.connect();
    for (case, expected) in [
        ("moved-host", "a redirect to http://other.example.com"),
        ("moved-private", "a redirect to http://10.0.0.1"),
        ("moved-loopback", "a redirect to http://127.0.0.1:1"),
        ("moved-again", "too often"),
        ("429", "the server answered 429 Too Many Requests (it asks to wait 3600 s): slow down"),
        ("500", "the server answered 500 Internal Server Error: broken broken"),
        ("html", "with text/html where JSON is expected: Sign in"),
        ("endless", "the response has more than the 16384 bytes that are allowed"),
        ("wrong-type", "with application/json that is not JSON"),
        ("binary", "that is not JSON"),
        ("no-value", "the response has no value at /data/name: it is an object with other"),
        ("close", "the connection failed"),
        ("garbage", "the connection failed"),
    ] {
        let text = client.failure("get", json!({ "case": case }));
        assert!(text.contains(expected), "{case}: {text}");
        assert!(text.len() < 2048, "{case}: {} bytes", text.len());
        assert_eq!(client.text("get", json!({ "case": "good" })), "\"lamp\"");
    }
    assert_eq!(client.text("get", json!({ "case": "moved-same" })), "\"lamp\"");
    assert!(api.received().iter().all(|request| !request.contains("secret")));
}

#[test]
fn endless_body_is_closed_at_limit() {
    let api = Api::start(reply);
    let server = server(&api);
    server.connect().failure("get", json!({ "case": "endless" }));
    assert_eq!(api.wait_for_close(), "/endless");
}

#[test]
fn hanging_server_fails_at_timeout() {
    let api = Api::start(reply);
    let server = server(&api);
    let text = server.connect().failure("hang", json!({}));
    assert!(text.contains("within"), "{text}");
}

#[test]
fn argument_stays_in_its_path_segment() {
    let api = Api::start(reply);
    let server = server(&api);
    let mut client = server.connect();
    for case in ["a/b", "a?b=c", "a#b", "a b", "%2e%2e", "ü", "\r\nX-Evil: 1", "//host"] {
        client.response("get", json!({ "case": case }));
    }
    for case in ["..", "."] {
        client.failure("get", json!({ "case": case }));
    }
    for request in api.received() {
        let target = request.split(' ').nth(1).expect("a target");
        let is_segment = |it: &str| !it.contains(['/', '?', '#']) && it != ".." && it != ".";
        assert!(target.strip_prefix('/').is_some_and(is_segment), "{request}");
        assert!(!request.contains("\nX-Evil"), "{request}");
    }
}

#[test]
fn private_address_is_refused_unless_listed() {
    let api = Api::start(reply);
    let port = api.address.port();
    let server = DeclaredServer::new(&format!(
        "[[tool]]\nname = \"get\"\nhttp = {{ url = \"http://localhost:{port}/good\" }}\n"
    ));
    let text = server.connect().failure("get", json!({}));
    assert!(text.contains("private_addresses does not list"), "{text}");
    assert!(api.received().is_empty());
    let folder = super::folder::Folder::new(&format!(
        "[[tool]]\nname = \"get\"\nhttp = {{ url = \"http://127.0.0.1:{port}/good\" }}\n"
    ));
    let faults = folder.faults();
    assert!(faults.contains("corelane.toml:3:10: tool get: http.url: 127.0.0.1 is"), "{faults}");
}

#[test]
fn server_that_is_gone_is_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let server = DeclaredServer::new(&format!(
        "[[tool]]\nname = \"get\"\n\
         http = {{ url = \"http://{address}/\", private_addresses = [\"127.0.0.1\"], \
         retry = {{ attempts = 1 }} }}\n"
    ));
    let text = server.connect().failure("get", json!({}));
    assert!(text.contains(&format!("GET {address}: no connection")), "{text}");
}

#[test]
fn cancelled_call_closes_its_request() {
    let api = Api::start(reply);
    let server = server(&api);
    let mut client = server.connect();
    client.send_request("tools/call", json!({"name": "get", "arguments": {"case": "hang"}}));
    api.wait_for_request();
    client.peer.reset();
    assert_eq!(api.wait_for_close(), "/hang");
}
