//! The client commands against servers of others, which do not answer as this library does.

use std::sync::{Arc, Mutex};

use corelane_test_support::{ExitResult, run_program};
use serde_json::{Value, json};

use super::http_peer::{HttpRequest, http_response};
use super::http_responder::{HttpResponder, Reply};
use super::response;

/// The program under test.
const CORELANE: &str = env!("CARGO_BIN_EXE_corelane");
const JSON: &str = "Content-Type: application/json\r\n";

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
            requests.lock().unwrap().push(method.to_owned());
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
        self.log.lock().unwrap().iter().filter(|other| *other == method).count()
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

#[test]
fn json_output_escapes_harmful_characters() {
    let text = "a\u{1b}[2J\u{9b}\u{202e}\u{e0041}é";
    let content = json!({ "content": [{ "type": "text", "text": text }] });
    let server = ForeignServer::start(answering("tools/call", content.clone()));
    let result = server.run(&["call", "t", "--json"]);
    assert!(result.stdout.contains(r"a\u001b[2J\u009b\u202e\udb40\udc41é"), "{}", result.stdout);
    assert_eq!(serde_json::from_str::<Value>(&result.stdout).unwrap(), content);
}
