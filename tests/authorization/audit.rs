//! The audit log: who has called marked tools, and how that ended.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use corelane::model::{Error, Implementation};
use corelane::{CallToolResult, Catalog, HandlerError, NoArguments, Tool};
use corelane_test_support::TestServer;
use corelane_test_support::messages::modern;
use serde_json::json;

use crate::http::post;
use crate::{Authority, call, options};

/// Passes on the lines of the audit log.
struct AuditLines(Sender<String>);

impl Write for AuditLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let line = String::from_utf8_lossy(bytes).into_owned();
        if line.contains("corelane::audit") {
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
        post(server.http(), &call(tool), Some("key-ada"));
        let line = next(&lines);
        let fields = [
            "caller=\"ada\"".to_owned(),
            format!("tool=\"{tool}\""),
            format!("outcome=\"{outcome}\""),
            "peer=127.0.0.1:".to_owned(),
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
    drop(client);
    server.close();
    assert!(lines.try_recv().is_err());
}
