//! What is logged of callers that the host attaches: the audit log, and requests over a limit.

use std::io::{self, Write};
use std::sync::mpsc::{Sender, channel};

use corelane::auth::Principal;
use corelane::testing::{TestServer, block_on};
use corelane::{Options, Server};
use serde_json::json;

use crate::in_process::tools::{catalog, greet};

/// Passes on what is logged.
struct LogLines(Sender<String>);

impl Write for LogLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(String::from_utf8_lossy(bytes).into_owned()).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Calls `greet` several times; returns the logged lines that contain `part`.
fn logged(options: Options, principal: Option<Principal>, calls: usize, part: &str) -> Vec<String> {
    let (sender, lines) = channel();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || LogLines(sender.clone()))
        .finish();
    tracing::subscriber::with_default(subscriber, || {
        let server = Server::builder(catalog(greet())).options(options);
        let server = TestServer::with(server).expect("it starts");
        let server = match principal {
            Some(principal) => server.principal(principal),
            None => server,
        };
        for _ in 0..calls {
            // Fails over the limit.
            drop(block_on(server.call_tool("greet", json!({ "name": "Ada" }))));
        }
    });
    lines.try_iter().filter(|line| line.contains(part)).collect()
}

#[test]
fn audit_log_names_attached_principal() {
    let mut options = Options::default();
    options.auth.audit = vec!["greet".to_owned()];
    let ada = Principal::new("ada");
    let lines = logged(options.clone(), Some(ada), 1, "corelane::audit");
    let [line] = &lines[..] else { panic!("{lines:?}") };
    for field in ["caller=\"ada\"", "tool=\"greet\"", "outcome=\"succeeded\""] {
        assert!(line.contains(field), "`{field}` is missing in: {line}");
    }
    let lines = logged(options, None, 1, "corelane::audit");
    assert!(lines.len() == 1 && !lines[0].contains("caller="), "{lines:?}");
}

#[test]
fn rate_limited_request_is_logged_with_rule() {
    let mut options = Options::default();
    options.rate.rules = vec!["tools/call greet rate=1/h".to_owned()];
    options.auth.audit = vec!["greet".to_owned()];
    let ada = Principal::new("ada");
    let lines = logged(options.clone(), Some(ada.clone()), 2, "request rate limited");
    let [line] = &lines[..] else { panic!("{lines:?}") };
    let rule = "rule=\"tools/call greet rate=1/h\"";
    for field in ["caller=\"ada\"", "method=\"tools/call\"", "name=\"greet\"", rule] {
        assert!(line.contains(field), "`{field}` is missing in: {line}");
    }
    let lines = logged(options, Some(ada), 2, "corelane::audit");
    let [_, line] = &lines[..] else { panic!("{lines:?}") };
    assert!(line.contains("outcome=\"rate limited\"") && line.contains("caller=\"ada\""), "{line}");
}
