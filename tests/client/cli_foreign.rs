//! The client commands against servers of others, which do not answer as this library does.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use corelane_test_support::{ExitResult, TestServer, http_options, run_program};
use serde_json::{Value, json};

use super::http_peer::{HttpRequest, http_response};
use super::http_responder::{HttpResponder, Reply};
use super::response;

use crate::CORELANE;

const JSON: &str = "Content-Type: application/json\r\n";

#[expect(clippy::disallowed_types, reason = "the threads of a server share what they record")]
type Mutex<T> = std::sync::Mutex<T>;

/// A server of 2025-11-25 over HTTP. `answer` has the first say.
struct ForeignServer {
    server: HttpResponder,
    /// The methods of MCP that were received, and those of HTTP of other requests.
    log: Arc<Mutex<Vec<String>>>,
}

impl ForeignServer {
    fn start(answer: impl Fn(&HttpRequest) -> Option<String> + Send + Sync + 'static) -> Self {
        let log = Arc::<Mutex<Vec<String>>>::default();
        let requests = Arc::clone(&log);
        let server = HttpResponder::start(move |request| {
            let method = request.body["method"].as_str().unwrap_or_else(|| request.line());
            requests.lock().expect("no thread panics").push(method.to_owned());
            Reply::Send(answer(request).unwrap_or_else(|| answer_default(request)))
        });
        Self { server, log }
    }

    /// Runs a command; the target follows its name.
    fn run(&self, arguments: &[&str]) -> ExitResult {
        let url = self.server.url();
        let (command, rest) = arguments.split_first().expect("a command");
        run_program(CORELANE, [&[*command, &url], rest].concat())
    }

    /// Returns how often `method` was received.
    fn count(&self, method: &str) -> usize {
        self.log.lock().expect("no thread panics").iter().filter(|other| *other == method).count()
    }
}

fn answer_default(request: &HttpRequest) -> String {
    let result = match request.body["method"].as_str() {
        None => return http_response("405 Method Not Allowed", "", ""),
        Some(_) if request.body["id"].is_null() => return http_response("202 Accepted", "", ""),
        Some("initialize") => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "tools": { "listChanged": true }, "resources": {} },
            "serverInfo": { "name": "foreign", "version": "1" },
        }),
        Some("tools/list") => json!({ "tools": [{ "name": "t", "inputSchema": {} }] }),
        Some("tools/call") => json!({ "content": [{ "type": "text", "text": "fine" }] }),
        Some(_) => {
            let error = json!({ "code": -32601, "message": "no such method" });
            let answer = json!({ "jsonrpc": "2.0", "id": request.body["id"], "error": error });
            return http_response("200 OK", JSON, &answer.to_string());
        }
    };
    http_response("200 OK", JSON, &response(&request.body, &result).to_string())
}

/// Answers requests of `method` with `result`.
fn answering(
    method: &'static str,
    result: Value,
) -> impl Fn(&HttpRequest) -> Option<String> + Send + Sync {
    move |request| {
        let answer = || response(&request.body, &result).to_string();
        (request.body["method"] == method).then(|| http_response("200 OK", JSON, &answer()))
    }
}

/// Answers requests of `method` with an error.
fn refusing(
    method: &'static str,
    code: i64,
) -> impl Fn(&HttpRequest) -> Option<String> + Send + Sync {
    move |request| {
        let error = json!({ "code": code, "message": "no" });
        let answer = json!({ "jsonrpc": "2.0", "id": request.body["id"], "error": error });
        let is_refused = request.body["method"] == method;
        is_refused.then(|| http_response("200 OK", JSON, &answer.to_string()))
    }
}

#[test]
fn unknown_list_method_is_an_empty_list() {
    let memo = json!({ "resources": [{ "uri": "memo:1", "name": "memo" }] });
    let server = ForeignServer::start(answering("resources/list", memo));
    let result = server.run(&["resources"]);
    assert_eq!((result.status, result.stdout.as_str()), (0, "memo:1      memo\n"));
    let result = server.run(&["inspect"]);
    assert_eq!(result.status, 0, "{}", result.stderr);
    assert!(result.stdout.contains("Resource templates (0)"), "{}", result.stdout);

    let templates = json!({ "resourceTemplates": [{ "uriTemplate": "memo:{n}", "name": "memo" }] });
    let server = ForeignServer::start(answering("resources/templates/list", templates));
    let result = server.run(&["resources"]);
    assert_eq!((result.status, result.stdout.as_str()), (0, "memo:{n}    template  memo\n"));

    let server = ForeignServer::start(|_| None);
    let result = server.run(&["resources"]);
    assert_eq!(result.status, 1);
    assert!(result.stderr.contains("error -32601: no such method"), "{}", result.stderr);
}

#[test]
fn failed_list_leaves_others_of_inspect() {
    let server = ForeignServer::start(refusing("tools/list", -32603));
    let result = server.run(&["inspect"]);
    assert_eq!(result.status, 1);
    assert!(result.stdout.contains("Resources (0)"), "{}", result.stdout);
    assert_eq!(result.stderr, "error: the server answered with error -32603: no\n");
}

#[test]
fn hint_about_arguments_needs_invalid_params() {
    for (code, lists) in [(-32602, 1), (-32601, 0), (-32000, 0), (-32603, 0)] {
        let server = ForeignServer::start(refusing("tools/call", code));
        let result = server.run(&["call", "t"]);
        let hint = if lists > 0 { "; t takes no arguments" } else { "" };
        let expected = format!("error: the server answered with error {code}: no{hint}\n");
        assert_eq!((result.status, result.stderr), (1, expected));
        assert_eq!(server.count("tools/list"), lists, "{code}");
    }
}

#[test]
fn repeated_cursor_ends_list_with_its_items() {
    let page = json!({ "tools": [{ "name": "t", "inputSchema": {} }], "nextCursor": "same" });
    let server = ForeignServer::start(answering("tools/list", page));
    let result = server.run(&["tools"]);
    assert_eq!((result.status, result.stdout.as_str()), (1, "t\nt\n"));
    let text = "tools/list does not end: the server has named the cursor \"same\" twice";
    assert!(result.stderr.contains(text), "{}", result.stderr);
    assert_eq!(server.count("tools/list"), 2);
}

/// Answers GET with this response.
fn answering_get(
    status: &'static str,
    fields: &'static str,
    body: &'static str,
) -> impl Fn(&HttpRequest) -> Option<String> + Send + Sync {
    move |request| request.body.is_null().then(|| http_response(status, fields, body))
}

#[test]
fn listen_fails_if_nothing_can_arrive() {
    for (status, fields, body, expected) in [
        (
            "405 A",
            "",
            "",
            "the server has no event stream for notifications (GET: HTTP status 405)",
        ),
        ("401 A", "", "", "log in with --login"),
        ("404 A", "", "nothing here", "HTTP status 404: nothing here"),
        ("200 OK", "Content-Type: text/html\r\n", "<html>", "neither JSON nor an event stream"),
        ("500 A", "", "", "HTTP status 500"),
    ] {
        let server = ForeignServer::start(answering_get(status, fields, body));
        let result = server.run(&["listen"]);
        assert_eq!((result.status, result.stdout.as_str()), (1, ""), "{status}");
        assert!(result.stderr.contains(expected), "{}", result.stderr);
    }
    let result = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "foreign", "version": "1" },
    });
    let stream = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    let initialize = answering("initialize", result);
    let server = ForeignServer::start(move |request| match request.body {
        Value::Null if request.line() == "GET /mcp" => Some(stream.to_owned()),
        _ => initialize(request),
    });
    let result = server.run(&["listen"]);
    assert_eq!(result.status, 1);
    assert!(result.stderr.contains("declares neither listChanged"), "{}", result.stderr);
}

#[test]
fn listen_begins_new_session_for_lost_one() {
    let sessions = AtomicUsize::new(0);
    let server = ForeignServer::start(move |request| {
        if request.body["method"] == "initialize" {
            let number = sessions.fetch_add(1, Ordering::SeqCst);
            let answer = answer_default(request);
            let field = format!("Mcp-Session-Id: s{number}\r\nContent-Type");
            return Some(answer.replacen("Content-Type", &field, 1));
        }
        let change = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
        match (request.line(), request.header("Mcp-Session-Id")) {
            ("GET /mcp", Some("s0")) => Some(http_response("404 Not Found", "", "unknown")),
            ("GET /mcp", _) => {
                let fields = "Content-Type: text/event-stream\r\n";
                Some(format!("HTTP/1.1 200 OK\r\n{fields}\r\ndata: {change}\n\n"))
            }
            _ => None,
        }
    });
    let mut listen = Command::new(CORELANE);
    listen.args(["listen", &server.server.url()]).stdout(Stdio::piped());
    let mut listen = listen.spawn().expect("a program");
    let mut line = String::new();
    BufReader::new(listen.stdout.take().unwrap()).read_line(&mut line).expect("a line");
    assert_eq!(line, "the list of tools has changed\n");
    listen.kill().expect("it runs");
    listen.wait().expect("it ends");
    assert_eq!(server.count("initialize"), 2);
}

#[test]
fn stream_that_is_never_known_ends_listen() {
    let server = ForeignServer::start(|request| match request.body["method"].as_str() {
        Some("initialize") => {
            let answer = answer_default(request);
            Some(answer.replacen("Content-Type", "Mcp-Session-Id: s\r\nContent-Type", 1))
        }
        None => Some(http_response("404 Not Found", "", "unknown")),
        Some(_) => None,
    });
    let result = server.run(&["listen"]);
    assert_eq!(result.status, 1);
    assert!(result.stderr.contains("HTTP status 404: unknown"), "{}", result.stderr);
    assert_eq!(server.count("initialize"), 2);
}

/// Refuses calls for now with `status`: the first `count`.
fn overloaded(
    status: &'static str,
    count: usize,
    fields: impl Fn() -> String + Send + Sync,
    body: &'static str,
) -> impl Fn(&HttpRequest) -> Option<String> + Send + Sync {
    let refused = AtomicUsize::new(0);
    move |request| {
        let is_call = request.body["method"] == "tools/call";
        let is_refused = is_call && refused.fetch_add(1, Ordering::SeqCst) < count;
        is_refused.then(|| http_response(status, &fields(), body))
    }
}

#[test]
fn refused_request_is_named_while_it_waits() {
    // The clock of the server counts.
    let fields = || {
        let (date, later) = ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:38 GMT");
        format!("Date: {date}\r\nRetry-After: {later}\r\n")
    };
    let body = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"breaker open",
        "data":{"retryable":true,"retryAfterMs":1000}}}"#;
    let server = ForeignServer::start(overloaded("503 A", 1, fields, body));
    let result = server.run(&["call", "t"]);
    assert_eq!((result.status, result.stdout.as_str()), (0, "fine\n"));
    let expected = "the server answered with HTTP status 503: breaker open; tools/call t is sent \
                    again in 1.0 s\n";
    assert_eq!(result.stderr, expected);
}

#[test]
fn refused_request_without_time_names_the_refusal() {
    let later = |seconds: u32| move || format!("Retry-After: {seconds}\r\n");
    let server = ForeignServer::start(overloaded("429 A", 9, later(1), "busy"));
    let result = server.run(&["call", "t", "--timeout", "1.5"]);
    assert_eq!(result.status, 1);
    let line = result.stderr.lines().last().unwrap_or_default();
    assert!(line.contains("HTTP status 429: busy"), "{line}");
    assert!(line.contains("within 1.5s") && !line.contains("no response"), "{line}");

    let server = ForeignServer::start(overloaded("429 A", 9, later(60), "busy"));
    let result = server.run(&["call", "t", "--timeout", "5"]);
    let expected = "error: the server answered with HTTP status 429: busy; retry in 60s\n";
    assert_eq!((result.status, result.stderr.as_str()), (1, expected));
    assert_eq!(server.count("tools/call"), 1);
}

#[test]
fn slash_after_host_finds_usual_path() {
    for page in [("404 A", ""), ("405 A", ""), ("200 OK", "Content-Type: text/html\r\n")] {
        let server = ForeignServer::start(move |request| {
            (request.line() == "POST /").then(|| http_response(page.0, page.1, "<html>"))
        });
        let target = format!("HTTP://{}/", server.server.address());
        let result = run_program(CORELANE, ["call", &target, "t"]);
        assert_eq!((result.status, result.stdout.as_str()), (0, "fine\n"), "{}", result.stderr);
    }
    // An endpoint at the slash stays the endpoint.
    let server = ForeignServer::start(|request| {
        (request.line() == "POST /mcp").then(|| http_response("404 A", "", ""))
    });
    let target = format!("http://{}/", server.server.address());
    let result = run_program(CORELANE, ["call", &target, "t"]);
    assert_eq!((result.status, result.stdout.as_str()), (0, "fine\n"), "{}", result.stderr);
}

#[test]
fn slash_after_host_finds_own_server() {
    let server = TestServer::start(http_options());
    for scheme in ["http", "ws"] {
        let target = format!("{scheme}://{}/", server.http());
        let result = run_program(CORELANE, ["call", &target, "echo", "message=hi"]);
        assert_eq!((result.status, result.stdout.as_str()), (0, "hi\n"), "{}", result.stderr);
    }
}

/// Runs `ping` with `flags`, and with a token in the environment; returns what the server has
/// received as `Authorization`.
fn received_authorization(flags: &[&str], token: &str) -> Option<String> {
    let received = Arc::<Mutex<Option<String>>>::default();
    let seen = Arc::clone(&received);
    let server = ForeignServer::start(move |request| {
        *seen.lock().expect("no thread panics") =
            request.header("Authorization").map(str::to_owned);
        let ping = request.body["method"] == "ping";
        let answer = || response(&request.body, &json!({})).to_string();
        ping.then(|| http_response("200 OK", JSON, &answer()))
    });
    let mut ping = Command::new(CORELANE);
    ping.args(["ping", &server.server.url()]).args(flags).env("CORELANE_TOKEN", token);
    let output = ping.output().expect("a program");
    assert!(output.status.success(), "{output:?}");
    received.lock().expect("no thread panics").take()
}

#[test]
fn token_comes_from_header_file_or_environment() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let token = write("token", "of-file\n");
    let headers = format!("@{}", write("headers", "X-A: b\nAuthorization: Bearer of-header\n"));
    for (flags, environment, expected) in [
        (&[][..], "", None),
        (&[], "of-environment", Some("Bearer of-environment")),
        (&["--token-file", &token], "of-environment", Some("Bearer of-file")),
        (&["-H", &headers], "of-environment", Some("Bearer of-header")),
    ] {
        assert_eq!(received_authorization(flags, environment).as_deref(), expected, "{flags:?}");
    }
    let result = run_program(CORELANE, ["ping", "tcp://a:1", "--token-file", "/no/such/file"]);
    assert_eq!(result.status, 2);
    assert!(result.stderr.contains("--token-file: /no/such/file"), "{}", result.stderr);
}

#[test]
fn connection_leads_to_given_address() {
    let server = ForeignServer::start(|request| {
        assert_eq!(request.header("Host"), Some("mcp.invalid"));
        None
    });
    let address = server.server.address().to_string();
    for flag in [address.clone(), format!("mcp.invalid:80:{address}")] {
        let command = ["call", "http://mcp.invalid", "t", "--connect-to", &flag];
        let result = run_program(CORELANE, command);
        assert_eq!((result.status, result.stdout.as_str()), (0, "fine\n"), "{}", result.stderr);
    }
}

#[test]
fn json_output_escapes_harmful_characters() {
    let text = "a\u{1b}[2J\u{9b}\u{202e}\u{e0041}é";
    let content = json!({ "content": [{ "type": "text", "text": text }] });
    let server = ForeignServer::start(answering("tools/call", content.clone()));
    let result = server.run(&["call", "t", "--json"]);
    assert!(result.stdout.contains(r"a\u001b[2J\u009b\u202e\udb40\udc41é"), "{}", result.stdout);
    assert_eq!(serde_json::from_str::<Value>(&result.stdout).unwrap(), content);
}
