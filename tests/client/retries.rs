//! Requests that are sent again after a failure, and those that are not.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use corelane::client::{ClientBuilder, ClientErrorKind, RetryPolicy, block_on};
use corelane_test_support::run_program;
use serde_json::{Value, json};

use super::http_peer::{HttpRequest, http_response, text_result};
use super::http_responder::{HttpResponder, Reply};
use super::{discover_result, response};

use crate::CORELANE;

/// A server whose tool `pay` has this declaration, and whose first calls get `refusal`.
struct PayServer {
    responder: HttpResponder,
    calls: Arc<AtomicUsize>,
}

impl PayServer {
    fn start(annotations: Value, refusals: usize, refusal: impl Into<Refusal>) -> Self {
        let (calls, refusal) = (Arc::new(AtomicUsize::new(0)), refusal.into());
        let counted = Arc::clone(&calls);
        let responder = HttpResponder::start(move |request| {
            let body = match request.body["method"].as_str() {
                Some("server/discover") => discover_result(&request.body),
                Some("tools/list") => {
                    let schema = json!({ "type": "object" });
                    let tool = json!({
                        "name": "pay", "inputSchema": schema, "annotations": annotations,
                    });
                    let tools = json!({ "resultType": "complete", "tools": [tool] });
                    response(&request.body, &tools)
                }
                _ => {
                    if counted.fetch_add(1, Ordering::Relaxed) < refusals {
                        return Reply::Send(refusal.write(request));
                    }
                    text_result(request, "paid")
                }
            };
            let fields = "Content-Type: application/json\r\n";
            Reply::Send(http_response("200 OK", fields, &body.to_string()))
        });
        Self { responder, calls }
    }

    fn client(&self, policy: RetryPolicy) -> ClientBuilder {
        self.responder.client().retry(policy.delay(Duration::ZERO, Duration::ZERO))
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

/// A refusal of a call.
struct Refusal {
    status: &'static str,
    /// `error.data` of a JSON-RPC error; `None` for a text.
    data: Option<Value>,
}

impl From<&'static str> for Refusal {
    fn from(status: &'static str) -> Self {
        Self { status, data: None }
    }
}

impl From<(&'static str, Value)> for Refusal {
    fn from(refusal: (&'static str, Value)) -> Self {
        Self { status: refusal.0, data: Some(refusal.1) }
    }
}

impl Refusal {
    fn write(&self, request: &HttpRequest) -> String {
        let Some(data) = &self.data else {
            return http_response(self.status, "Retry-After: 0\r\n", "later");
        };
        let error = json!({ "code": 1001, "message": "the server is shutting down", "data": data });
        let body = json!({ "jsonrpc": "2.0", "id": request.body["id"], "error": error });
        let fields = "Content-Type: application/json\r\nRetry-After: 0\r\n";
        http_response(self.status, fields, &body.to_string())
    }
}

const UNAVAILABLE: &str = "503 Service Unavailable";

#[test]
fn refused_call_is_sent_again_if_not_started() {
    let refusals: [(fn() -> Refusal, usize); 8] = [
        (|| UNAVAILABLE.into(), 1),
        (|| (UNAVAILABLE, json!({ "retryable": true })).into(), 1),
        (|| (UNAVAILABLE, json!({ "retryable": false, "started": true })).into(), 1),
        (|| (UNAVAILABLE, json!({ "retryable": true, "started": false })).into(), 2),
        (|| (UNAVAILABLE, json!({ "retryable": true, "retryAfterMs": 0 })).into(), 2),
        (
            || {
                let data = json!({ "retryable": true, "retryAfterMs": 0, "started": true });
                (UNAVAILABLE, data).into()
            },
            1,
        ),
        (|| "429 Too Many Requests".into(), 2),
        (|| "500 Internal Server Error".into(), 1),
    ];
    for (refusal, calls) in refusals {
        let server = PayServer::start(json!({}), 1, refusal());
        let client = server.client(RetryPolicy::safe()).connect_blocking().unwrap();
        let outcome = client.call_tool("pay", &json!({})).wait();
        assert_eq!((outcome.is_ok(), server.calls()), (calls > 1, calls), "{outcome:?}");
        block_on(client.close());
    }
}

#[test]
fn declared_tool_is_called_again() {
    for (annotations, calls) in [
        (json!({ "readOnlyHint": true }), 2),
        (json!({ "idempotentHint": true, "readOnlyHint": false }), 2),
        (json!({ "idempotentHint": false, "destructiveHint": true }), 1),
    ] {
        let server = PayServer::start(annotations, 1, UNAVAILABLE);
        let client = server.client(RetryPolicy::safe()).connect_blocking().unwrap();
        block_on(client.list_tools()).unwrap();
        let outcome = client.call_tool("pay", &json!({})).wait();
        assert_eq!((outcome.is_ok(), server.calls()), (calls > 1, calls), "{outcome:?}");
        block_on(client.close());
    }
}

#[test]
fn fullest_policy_repeats_three_times() {
    for status in ["500 A", "502 A", UNAVAILABLE, "504 A", "429 A"] {
        let server = PayServer::start(json!({}), usize::MAX, status);
        let (events_tx, events_rx) = mpsc::channel();
        let client = server.client(RetryPolicy::all()).on_retry(move |event| {
            events_tx.send((event.method, event.name, event.error.kind())).expect("a receiver");
        });
        let client = client.connect_blocking().unwrap();
        let error = client.call_tool("pay", &json!({})).wait().unwrap_err();
        assert!(matches!(error.kind(), ClientErrorKind::Http { .. }), "{error}");
        block_on(client.close());
        let events: Vec<_> = events_rx.iter().collect();
        assert_eq!((server.calls(), events.len()), (4, 3), "{status}");
        let expected = ("tools/call", Some("pay".into()), error.kind());
        assert!(events.iter().all(|event| *event == expected), "{events:?}");
    }
}

#[test]
fn no_retry_sends_nothing_again() {
    let server = PayServer::start(json!({}), 1, "429 Too Many Requests");
    let client = server.client(RetryPolicy::never()).connect_blocking().unwrap();
    let error = client.call_tool("pay", &json!({})).wait().unwrap_err();
    assert_eq!((error.kind(), server.calls()), (ClientErrorKind::Http { status: 429 }, 1));
    block_on(client.close());
}

#[test]
fn command_names_each_repetition() {
    let not_started = || (UNAVAILABLE, json!({ "started": false }));
    let run = |server: &PayServer, flag: &[&str]| {
        let url = server.responder.url();
        run_program(CORELANE, ["call", &url, "pay"].into_iter().chain(flag.iter().copied()))
    };
    let server = PayServer::start(json!({}), 1, not_started());
    let result = run(&server, &[]);
    assert_eq!((result.status, &*result.stdout, server.calls()), (0, "paid\n", 2));
    assert!(result.stderr.contains("503"), "{}", result.stderr);
    assert!(result.stderr.contains("; tools/call pay is sent again in 0.0 s"), "{}", result.stderr);

    let server = PayServer::start(json!({}), 1, not_started());
    let result = run(&server, &["--no-retry"]);
    assert_eq!((result.status, server.calls()), (1, 1), "{}", result.stderr);

    // Whether the tool may run twice is looked up.
    for (annotations, flag, calls) in [
        (json!({}), &[][..], 1),
        (json!({ "readOnlyHint": true }), &[], 2),
        (json!({ "readOnlyHint": true }), &["--no-retry"], 1),
        (json!({}), &["--retry"], 2),
    ] {
        let server = PayServer::start(annotations, 1, UNAVAILABLE);
        let result = run(&server, flag);
        let status = i32::from(calls == 1);
        assert_eq!((result.status, server.calls()), (status, calls), "{}", result.stderr);
        assert_eq!(result.stderr.contains("is sent again"), calls > 1, "{}", result.stderr);
    }
}
