//! A gateway in front of servers over HTTP that misbehave: a call fails with a known reason, and
//! no other is affected.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use corelane::Client;
use corelane::client::{
    CallToolResult, ClientError, ClientErrorKind, EraPreference, Program, block_on,
};
use corelane::model::Revision;
use corelane_test_support::ListeningProcess;
use corelane_test_support::process::run_program;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::http_peer::{HttpRequest, http_response, initialize_response, text_result};
use super::http_responder::{HttpResponder, Reply};
use super::{discover_result, response};
use crate::CORELANE;

#[expect(clippy::disallowed_types, reason = "shared by the threads of the connections")]
type Mutex<T> = std::sync::Mutex<T>;

/// Writes the configuration of a gateway in front of `crm` at `url`, declared with further `keys`.
/// Returns its path.
fn write_config(folder: &Path, url: &str, keys: &str) -> PathBuf {
    let config = folder.join("corelane.toml");
    let upstream = "[[upstream]]\nname = \"crm\"\nrename = { echo = \"remote\" }";
    fs::write(&config, format!("{upstream}\nurl = \"{url}\"\n{keys}\n")).expect("a file");
    config
}

/// A gateway on standard streams with this configuration.
pub(crate) fn gateway(folder: &Path, url: &str, keys: &str) -> Program {
    let config = write_config(folder, url, keys);
    let arguments = ["stdio", "--log", "off", "--config"];
    let program = arguments.into_iter().fold(Program::new(CORELANE), Program::arg);
    program.arg(config).env("XDG_STATE_HOME", folder)
}

/// A server of 2025-11-25 with sessions, and what it was asked.
#[derive(Default)]
struct Sessions {
    /// Number of the session that is open.
    open: usize,
    /// Number of requests by method of HTTP or MCP.
    counts: HashMap<String, usize>,
}

impl Sessions {
    fn respond(&mut self, request: &HttpRequest) -> String {
        let method = match request.body["method"].as_str() {
            Some(method) => method.to_owned(),
            None => request.line().to_owned(),
        };
        *self.counts.entry(method.clone()).or_default() += 1;
        let session = format!("session-{}", self.open);
        match &*method {
            "server/discover" => http_response("400 Bad Request", "", ""),
            "initialize" => {
                self.open += 1;
                initialize_response(request, &format!("session-{}", self.open))
            }
            _ if request.header("Mcp-Session-Id") != Some(&session) => {
                http_response("404 Not Found", "", "")
            }
            "GET /mcp" => http_response("405 Method Not Allowed", "", ""),
            "tools/list" => json_response(&tools(request, 1)),
            "tools/call" => json_response(&text_result(request, "called")),
            _ => http_response("202 Accepted", "", ""),
        }
    }
}

fn json_response(message: &Value) -> String {
    http_response("200 OK", "Content-Type: application/json\r\n", &message.to_string())
}

/// The response to `tools/list` of `echo` and others, `count` in all.
fn tools(request: &HttpRequest, count: usize) -> Value {
    let name = |number| match number {
        0 => "echo".to_owned(),
        _ => format!("tool_{number}"),
    };
    let tools: Vec<Value> = (0..count)
        .map(|it| json!({ "name": name(it), "inputSchema": { "type": "object" } }))
        .collect();
    response(&request.body, &json!({ "resultType": "complete", "tools": tools }))
}

/// Answers a request to a server of 2026-07-28 with `count` tools; `None` for a call.
fn respond(request: &HttpRequest, count: usize) -> Option<Reply> {
    let message = match request.body["method"].as_str() {
        Some("server/discover") => discover_result(&request.body),
        Some("tools/list") => tools(request, count),
        _ => return None,
    };
    Some(Reply::Send(json_response(&message)))
}

/// A client of a gateway in front of a server.
struct Case {
    server: HttpResponder,
    client: Client,
    _folder: TempDir,
}

impl Case {
    fn start(server: HttpResponder, keys: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let program = gateway(folder.path(), &server.url(), keys);
        let client = Client::builder(program).connect_blocking().expect("a gateway");
        Self { server, client, _folder: folder }
    }

    /// A server of one tool, whose calls `answer` answers by their argument `case`.
    fn answering(
        keys: &str,
        answer: impl Fn(&HttpRequest, &str) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let server = HttpResponder::start(move |request| {
            let case = &request.body["params"]["arguments"]["case"];
            respond(request, 1).unwrap_or_else(|| match case.as_str() {
                Some(case) => answer(request, case),
                None => Reply::Send(json_response(&text_result(request, "called"))),
            })
        });
        Self::start(server, keys)
    }

    fn call(&self, arguments: &Value) -> Result<CallToolResult, ClientError> {
        self.client.call_tool("remote", arguments).wait()
    }

    /// Checks that a call succeeds.
    fn expect_served(&self) {
        assert_eq!(self.call(&json!({})).expect("a result").text(), "called");
    }

    fn end(self) {
        block_on(self.client.close());
        self.server.stop();
    }
}

#[test]
fn lost_session_is_opened_again_once() {
    let state = Arc::new(Mutex::new(Sessions::default()));
    let shared = Arc::clone(&state);
    let server = HttpResponder::start(move |request| {
        Reply::Send(shared.lock().expect("no panic").respond(request))
    });
    let case = Case::start(server, "share = \"all\"");
    case.expect_served();
    let count = |method: &str| {
        state.lock().expect("no panic").counts.get(method).copied().unwrap_or_default()
    };
    assert_eq!((count("initialize"), count("tools/call")), (1, 1));
    // The server has forgotten its sessions.
    state.lock().expect("no panic").open = 7;
    case.expect_served();
    // The call is sent again in the new session.
    assert_eq!((count("initialize"), count("tools/call")), (2, 3));
    case.end();
    assert_eq!(count("DELETE /mcp"), 1);
}

#[test]
fn error_status_fails_its_call_only() {
    let calls = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&calls);
    let case = Case::answering("", move |_, status| {
        *counted.lock().expect("no panic") += 1;
        Reply::Send(http_response(status, "Content-Type: text/html\r\n", "<html>no</html>"))
    });
    let statuses = ["500 Internal Server Error", "502 Bad Gateway", "403 Forbidden"];
    for status in statuses {
        let error = case.call(&json!({ "case": status })).expect_err("an error");
        assert_eq!(error.kind(), ClientErrorKind::Rpc { code: -32603 }, "{error}");
        let expected =
            format!("upstream `crm`: the server answered with HTTP status {}", &status[..3]);
        assert!(error.message().starts_with(&expected), "{error}");
        case.expect_served();
    }
    // None is sent again: it may have run.
    assert_eq!(*calls.lock().expect("no panic"), statuses.len());
    case.end();
}

#[test]
fn upstream_without_room_is_busy() {
    let case = Case::answering("", |_, status| {
        Reply::Send(http_response(status, "Retry-After: 0\r\n", ""))
    });
    for status in ["429 Too Many Requests", "503 Service Unavailable"] {
        let error = case.call(&json!({ "case": status })).expect_err("an error");
        assert_eq!(error.kind(), ClientErrorKind::Rpc { code: -32603 }, "{error}");
        assert!(error.message().starts_with("upstream `crm` is busy: "), "{error}");
        case.expect_served();
    }
    case.end();
}

#[test]
fn hang_in_event_stream_ends_in_time() {
    let case = Case::answering("call_timeout = \"300ms\"", |_, _| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: hello\n\ndata: {";
        Reply::Send(head.to_owned())
    });
    let waiting = case.client.call_tool("remote", &json!({ "case": "hang" })).into_future();
    // Others are served meanwhile.
    case.expect_served();
    let error = block_on(waiting).expect_err("no answer");
    assert!(error.message().contains("upstream `crm` has not answered in time"), "{error}");
    case.expect_served();
    case.end();
}

#[test]
fn redirect_to_another_origin_is_not_followed() {
    let case = Case::answering("headers = { Authorization = \"Bearer a\" }", |_, location| {
        Reply::Send(http_response(
            "307 Temporary Redirect",
            &format!("Location: {location}\r\n"),
            "",
        ))
    });
    for location in ["http://192.0.2.1/mcp", "http://169.254.169.254/", "http://localhost:1/mcp"] {
        let error = case.call(&json!({ "case": location })).expect_err("an error");
        assert!(error.message().contains("redirects to"), "{error}");
        case.expect_served();
    }
    case.end();
}

#[test]
fn ten_thousand_tools_are_listed_and_called() {
    let server = HttpResponder::start(|request| {
        respond(request, 10_000)
            .unwrap_or_else(|| Reply::Send(json_response(&text_result(request, "called"))))
    });
    let case = Case::start(server, "");
    case.expect_served();
    let tools = block_on(case.client.list_tools()).expect("tools");
    assert_eq!(tools.iter().filter(|it| it.name.starts_with("tool_")).count(), 9_999);
    let result = case.client.call_tool("tool_9999", &json!({})).wait().expect("a result");
    assert_eq!(result.text(), "called");
    case.end();
}

#[test]
fn named_headers_of_callers_are_passed_on() {
    let server = HttpResponder::start(|request| {
        respond(request, 1).unwrap_or_else(|| {
            let names = ["X-Team", "X-Other", "Authorization"];
            let values = names.map(|name| request.header(name).unwrap_or("none"));
            Reply::Send(json_response(&text_result(request, &values.join(", "))))
        })
    });
    let folder = tempfile::tempdir().expect("a folder");
    let keys = "headers_pass = [\"x-team\"]\nheaders = { Authorization = \"Bearer own\" }";
    let config = write_config(folder.path(), &server.url(), keys);
    let gateway = ListeningProcess::start(|port| {
        let mut command = Command::new(CORELANE);
        command.args(["gateway", "--log", "off", "--http", &format!("127.0.0.1:{port}")]);
        command.arg("--config").arg(&config);
        command
    });
    for era in [EraPreference::Modern, EraPreference::Legacy(Revision::V2025_11_25)] {
        for (team, expected) in [(Some("a"), "a"), (None, "none"), (Some("b c"), "b c")] {
            let mut builder = Client::builder(gateway.url().as_str()).era(era).bearer("of-caller");
            builder = builder.header("X-Other", "other");
            if let Some(team) = team {
                builder = builder.header("X-Team", team);
            }
            let client = builder.connect_blocking().expect("a gateway");
            let result = client.call_tool("remote", &json!({})).wait().expect("a result");
            assert_eq!(result.text(), format!("{expected}, none, Bearer own"));
            block_on(client.close());
        }
    }
    drop(gateway);
    server.stop();
}

#[test]
fn credentials_of_callers_are_never_passed_on() {
    for (name, text) in [
        ("Authorization", "Authorization of callers is never passed on"),
        ("cookie", "cookie of callers is never passed on"),
        ("Mcp-Session-Id", "the client sends the header Mcp-Session-Id itself"),
        ("a b", "'a b' is not a header name"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let keys = format!("headers_pass = [\"{name}\"]");
        let config = write_config(folder.path(), "https://example.com/mcp", &keys);
        let path = config.to_str().expect("UTF-8");
        let checked = run_program(CORELANE, ["check", "--config", path]);
        assert_eq!(checked.status, 1, "{checked:?}");
        assert!(checked.stderr.contains(text), "{}", checked.stderr);
    }
}
