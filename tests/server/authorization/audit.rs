//! The audit log: who has called marked tools, and how that ended.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use corelane::model::{Error, Implementation};
use corelane::{CallToolResult, Catalog, HandlerError, NoArguments, Tool};
use corelane_test_support::messages::{
    LEGACY, call as tool_call, cancelled, initialize, modern, notification, with_progress,
};
use corelane_test_support::{Request, TestServer};
use serde_json::{Value, json};

use crate::authorization::http::post;
use crate::authorization::{Authority, call, options};

/// Passes on the lines of the audit log about tools of [`catalog`].
struct AuditLines(Sender<String>);

impl Write for AuditLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let line = String::from_utf8_lossy(bytes).into_owned();
        // Other servers of the process log to the same subscriber.
        let is_own = ["tool=\"log_", "tool=\"plain\""].iter().any(|tool| line.contains(tool));
        if line.contains("corelane::audit") && is_own {
            // The test may have ended.
            self.0.send(line).ok();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn catalog() -> Catalog {
    let fail = Tool::new("log_fail")
        .local(|_: NoArguments, _| async { Ok::<_, HandlerError>(CallToolResult::error("no")) });
    let refuse = Tool::new("log_refuse").inline(|_: NoArguments, _| {
        Err::<CallToolResult, _>(HandlerError::Rpc(Error::application(7, "not today")))
    });
    let wait = Tool::new("log_wait").local(|_: NoArguments, ctx| async move {
        ctx.progress(1.0, None, None);
        ctx.sleep(Duration::from_mins(10)).await?;
        Ok::<_, HandlerError>("late")
    });
    let tools = [
        Tool::new("log_inline").inline(|_: NoArguments, _| "done"),
        Tool::new("log_local").local(|_: NoArguments, _| async { Ok::<_, HandlerError>("done") }),
        Tool::new("log_scoped").require_scope("deploy").inline(|_: NoArguments, _| "done"),
        Tool::new("plain").inline(|_: NoArguments, _| "done"),
        fail,
        refuse,
        wait,
    ];
    let builder = Catalog::builder(Implementation::new("test", "1")).tools(tools);
    builder.build().expect("a valid catalog")
}

fn next(lines: &Receiver<String>) -> String {
    lines.recv_timeout(Duration::from_secs(10)).expect("a line of the audit log")
}

/// Asserts that each of the calls of a session that share an id is logged once.
fn expect_shared_id_logged(server: &TestServer, lines: &Receiver<String>) {
    let connect = || server.connect_http().with_revision(LEGACY);
    let post = |message: &Value| Request::post(message).field("Authorization", "Bearer key-ada");
    let response = connect().exchange(&post(&initialize(0, LEGACY)));
    let id = response.head.field("Mcp-Session-Id").expect("a session").to_owned();
    let in_session = |message: &Value| {
        post(message).field("Mcp-Session-Id", &id).field("MCP-Protocol-Version", LEGACY)
    };
    connect().exchange(&in_session(&notification("notifications/initialized")));
    let mut calls = [(); 3].map(|()| connect());
    for client in &mut calls {
        client.request_stream(&in_session(&with_progress(tool_call(1, "log_wait", json!({})))));
        client.read_priming_event();
        client.read_message();
    }
    connect().exchange(&in_session(&cancelled(1))).expect_empty_body(202);
    for _ in 0..3 {
        let line = next(lines);
        assert!(line.contains("tool=\"log_wait\"") && line.contains("cancelled"), "{line}");
    }
}

#[test]
fn call_of_marked_tool_is_logged_with_outcome() {
    let (lines_tx, lines) = channel();
    let subscriber = tracing_subscriber::fmt().with_ansi(false);
    let subscriber = subscriber.with_writer(move || AuditLines(lines_tx.clone())).finish();
    tracing::subscriber::set_global_default(subscriber).expect("the only one");
    let authority = Authority::new();
    let mut auth = authority.key_options();
    auth.audit = vec!["log_*".to_owned()];
    let server = TestServer::with_catalog(options(auth), catalog());
    for (tool, outcome) in [
        ("log_inline", "succeeded"),
        ("log_local", "succeeded"),
        ("log_fail", "failed"),
        ("log_refuse", "error"),
        ("log_scoped", "denied"),
    ] {
        post(server.http(), &call("plain"), Some("key-ada"));
        let response = post(server.http(), &call(tool), Some("key-ada"));
        let line = next(&lines);
        let request_id = response.field("X-Request-ID").expect("a request id").trim();
        let fields = [
            "caller=\"ada\"".to_owned(),
            format!("tool=\"{tool}\""),
            format!("outcome=\"{outcome}\""),
            "peer=127.0.0.1:".to_owned(),
            format!("request_id=\"{request_id}\""),
        ];
        assert!(fields.iter().all(|field| line.contains(field)), "{tool}: {line}");
        assert!(!line.contains("key-ada"), "{line}");
    }
    let mut client = server.connect_tcp();
    let mut message = modern(call("log_wait"));
    message["params"]["_meta"]["auth_token"] = json!("key-bob");
    client.send(&message);
    let params = json!({"requestId": message["id"]});
    client.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
    let line = next(&lines);
    assert!(line.contains("caller=\"bob\"") && line.contains("outcome=\"cancelled\""), "{line}");
    assert!(!line.contains("request_id"), "over TCP: {line}");
    // Another token names the caller of its message.
    for (token, caller) in [(Some("key-ada"), "ada"), (None, "bob")] {
        let mut message = modern(call("log_local"));
        if let Some(token) = token {
            message["params"]["_meta"]["auth_token"] = json!(token);
        }
        client.exchange(&message);
        let line = next(&lines);
        assert!(line.contains(&format!("caller=\"{caller}\"")), "{line}");
    }
    drop(client);
    expect_shared_id_logged(&server, &lines);
    server.close();
    assert!(lines.try_recv().is_err());
}
