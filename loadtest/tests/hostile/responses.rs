//! Malformed, wrong and duplicate responses.

use std::sync::atomic::{AtomicU64, Ordering};

use corelane_load::metrics::outcome::Failure;
use corelane_load::target::Transport;
use serde_json::Value;

use crate::scripted_server::{Reaction, ReceivedRequest, ScriptedServer, echo_response, framed};
use crate::{DUE, RESPONSE_TIMEOUT, TRANSPORTS, assert_all, run};

/// Responds to every request with a message of this text.
fn always_respond(
    transport: Transport,
    text: &str,
) -> impl Fn(&Value) -> Reaction + Send + Sync + 'static {
    let bytes = framed(transport, text);
    move |_| Reaction::Send(bytes.clone())
}

#[test]
fn malformed_message_counts_as_garbage() {
    let deep = "[".repeat(50_000);
    for transport in TRANSPORTS {
        for text in ["nonsense", "{}", "{\"id\":1000000000}", "<html></html>", deep.as_str()] {
            let start = &text[..text.len().min(20)];
            assert_all(transport, Failure::Garbage, start, always_respond(transport, text));
        }
    }
}

#[test]
fn rpc_and_tool_errors_are_failures() {
    for transport in TRANSPORTS {
        assert_all(transport, Failure::Rpc, "error", move |call| {
            let error = r#"{"code":-32603,"message":"no"}"#;
            let id = &call["id"];
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
            Reaction::Send(framed(transport, &text))
        });
        assert_all(transport, Failure::Tool, "isError", move |call| {
            let text = echo_response(call).replace("\"result\":{", "\"result\":{\"isError\":true,");
            Reaction::Send(framed(transport, &text))
        });
    }
}

#[test]
fn unexpected_content_counts_as_wrong() {
    for transport in TRANSPORTS {
        assert_all(transport, Failure::Wrong, "content", move |call| {
            Reaction::Send(framed(transport, &echo_response(call).replace("abc", "abd")))
        });
        assert_all(transport, Failure::Wrong, "no content", move |call| {
            let id = &call["id"];
            Reaction::Send(framed(transport, &format!(r#"{{"id":{id},"result":{{}}}}"#)))
        });
    }
}

#[test]
fn response_with_unknown_id_is_unsolicited() {
    // An HTTP response belongs to its request, whatever id its body has.
    assert_all(Transport::Http, Failure::Wrong, "id", |call| {
        Reaction::Send(framed(
            Transport::Http,
            &echo_response(call).replace("\"id\":1", "\"id\":7"),
        ))
    });
    for transport in [Transport::Tcp, Transport::WebSocket] {
        let server = ScriptedServer::new(transport, move |asked: &ReceivedRequest<'_>| {
            Reaction::Send(framed(
                transport,
                &echo_response(asked.call).replace("\"id\":1", "\"id\":7"),
            ))
        });
        let totals = run(&server, Some(RESPONSE_TIMEOUT)).totals;
        assert_eq!((totals.answered, totals.unsolicited), (0, totals.sent), "{totals:?}");
        assert_eq!(totals.failures.get(Failure::Timeout.name()), Some(&totals.sent));
    }
}

#[test]
fn duplicate_response_fails_the_run() {
    for transport in [Transport::Http, Transport::WebSocket] {
        let server = ScriptedServer::new(transport, move |asked: &ReceivedRequest<'_>| {
            Reaction::Send(framed(transport, &echo_response(asked.call)).repeat(2))
        });
        let result = run(&server, None);
        assert_eq!(
            (result.totals.answered, result.totals.unsolicited),
            (DUE, DUE),
            "{transport:?}"
        );
        let missed = &result.verdict.missed_thresholds;
        assert!(missed.iter().any(|why| why.contains("without a matching request")), "{missed:?}");
    }
}

#[test]
fn responses_before_failure_still_count() {
    for transport in TRANSPORTS {
        let asked_before = AtomicU64::new(0);
        let server = ScriptedServer::new(transport, move |asked: &ReceivedRequest<'_>| {
            let is_well = asked_before.fetch_add(1, Ordering::Relaxed) < 10;
            let text = echo_response(asked.call);
            let text = if is_well { text } else { text.replace("abc", "abd") };
            Reaction::Send(framed(transport, &text))
        });
        let totals = run(&server, None).totals;
        assert_eq!(totals.answered, 10, "{transport:?}");
        assert_eq!(totals.failures.get(Failure::Wrong.name()), Some(&(DUE - 10)));
    }
}
