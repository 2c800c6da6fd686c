//! Malformed, wrong and duplicate responses.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use corelane_load::generator;
use corelane_load::metrics::outcome::Failure;
use corelane_load::plan::{HumanDuration, Thresholds};
use corelane_load::report::html::run_page;
use corelane_load::report::table::table;
use corelane_load::result::{Manifest, RunResult, RunStatus};
use corelane_load::target::{Era, Transport};
use serde_json::Value;

use crate::hostile::scripted_server::{
    Reaction, ReceivedRequest, ScriptedServer, echo_response, framed, response,
};
use crate::hostile::{DUE, RESPONSE_TIMEOUT, TRANSPORTS, assert_all, plan, run};

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
        let server = ScriptedServer::new(transport, move |request: &ReceivedRequest<'_>| {
            Reaction::Send(framed(
                transport,
                &echo_response(request.call).replace("\"id\":1", "\"id\":7"),
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
        let server = ScriptedServer::new(transport, move |request: &ReceivedRequest<'_>| {
            Reaction::Send(framed(transport, &echo_response(request.call)).repeat(2))
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
        let answered = AtomicU64::new(0);
        let server = ScriptedServer::new(transport, move |request: &ReceivedRequest<'_>| {
            let is_well = answered.fetch_add(1, Ordering::Relaxed) < 10;
            let text = echo_response(request.call);
            let text = if is_well { text } else { text.replace("abc", "abd") };
            Reaction::Send(framed(transport, &text))
        });
        let totals = run(&server, None).totals;
        assert_eq!(totals.answered, 10, "{transport:?}");
        assert_eq!(totals.failures.get(Failure::Wrong.name()), Some(&(DUE - 10)));
    }
}

#[test]
fn first_answer_of_each_failure_is_kept() {
    let of = |transport, text: &'static str| {
        let bytes = if transport == Transport::Http {
            let bytes = String::from_utf8(response("500 Broken", text)).unwrap();
            bytes.replace("\r\n\r\n", "\r\nX-Cause: disk\r\n\r\n")
        } else {
            format!("{text}\n")
        };
        let server = ScriptedServer::new(transport, move |_: &ReceivedRequest<'_>| {
            Reaction::Send(bytes.clone().into_bytes())
        });
        run(&server, None)
    };
    let result = of(Transport::Http, "no space left");
    let example = &result.failure_examples["http_5xx"];
    assert!(example.starts_with("HTTP/1.1 500 Broken\n"), "{example}");
    assert!(example.contains("X-Cause: disk") && example.ends_with("\n\nno space left"));
    let text = table(&result);
    assert!(text.contains("http_5xx    HTTP status 5xx: the server failed; the first:"), "{text}");
    assert!(text.contains("    | no space left"), "{text}");
    assert!(run_page(&result).contains("no space left"));
    let result = of(Transport::Tcp, "what?");
    assert_eq!(result.failure_examples["garbage"], "what?");
}

/// Performs a closed loop of 200 requests, which follow each other, on a server that closes
/// connections without an answer to requests with this place on them.
fn run_closing(is_closing: impl Fn(usize, usize) -> bool + Send + Sync + 'static) -> RunResult {
    let server = ScriptedServer::new(Transport::Http, move |request: &ReceivedRequest<'_>| {
        if is_closing(request.connection, request.number) {
            return Reaction::SendAndClose(Vec::new());
        }
        Reaction::Send(framed(Transport::Http, &echo_response(request.call)))
    });
    let mut plan = plan(&server, Era::Modern);
    (plan.closed, plan.requests, plan.connections) = (true, Some(200), 1);
    plan.phases[0].duration = HumanDuration::from(Duration::from_hours(1));
    plan.thresholds = Thresholds::default();
    let finding = generator::run(&plan.run_config().unwrap(), 1, &[], None, |_, _| {});
    RunResult::new(plan, Manifest::default(), &finding.unwrap())
}

#[test]
fn request_that_meets_idle_close_is_repeated() {
    let result = run_closing(|connection, number| connection == 0 && number == 100);
    let totals = &result.totals;
    assert_eq!((totals.due, totals.sent, totals.answered), (200, 200, 200), "{totals:?}");
    assert_eq!((totals.lost, totals.failures.len(), result.connections.repeated), (0, 0, 1));
    assert_eq!(result.status(), RunStatus::Completed, "{:?}", result.verdict);
    let text = table(&result);
    assert!(text.contains("\nrepeated 1 requests, whose connections the server closed"), "{text}");
}

#[test]
fn repeated_closes_fail_the_run() {
    // Each connection answers nine requests.
    let result = run_closing(|_, number| number == 9);
    assert_eq!((result.totals.answered, result.connections.repeated), (200, 22));
    let why = &result.verdict.failed[..];
    assert!(why[0].starts_with("22 of 200 due requests were sent again"), "{why:?}");
    // The request is closed again on its new connection.
    let result = run_closing(|connection, number| connection > 0 || number == 9);
    let closed = result.totals.failures["closed"];
    assert_eq!((result.totals.answered, closed, result.connections.repeated), (9, 191, 1));
}

#[test]
fn close_between_requests_loses_no_connection() {
    // With `false` the server waits for the client to close.
    for closes in [true, false] {
        let server = ScriptedServer::new(Transport::Http, move |request: &ReceivedRequest<'_>| {
            let bytes =
                String::from_utf8(response("200 OK", &echo_response(request.call))).unwrap();
            let is_last = request.number % 2 == 1;
            let close = if is_last { "\r\nConnection: close\r\n" } else { "\r\n" };
            let bytes = bytes.replacen("\r\n", close, 1).into_bytes();
            if is_last && closes { Reaction::SendAndClose(bytes) } else { Reaction::Send(bytes) }
        });
        let mut plan = plan(&server, Era::Modern);
        plan.closed = true;
        let finding = generator::run(&plan.run_config().unwrap(), 1, &[], None, |_, _| {});
        let result = RunResult::new(plan, Manifest::default(), &finding.unwrap());
        assert_eq!((result.totals.lost, result.totals.failures.len()), (0, 0), "{closes}");
        assert!(result.totals.answered > 10, "{closes}: {:?}", result.totals);
    }
}
