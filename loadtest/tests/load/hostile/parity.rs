//! Servers of the parity dialect that reject requests, or break the order of a stream.

use std::sync::atomic::{AtomicUsize, Ordering};

use corelane_load::discovery::discover;
use corelane_load::generator::{self, RunError};
use corelane_load::metrics::outcome::Failure;
use corelane_load::plan::{CallPlan, HumanDuration, Plan};
use corelane_load::result::RunResult;
use corelane_load::target::{Era, Transport};
use corelane_parity::error::ErrorCode;
use serde_json::{Map, Value, json};

use crate::hostile::scripted_server::{
    Reaction, ReceivedRequest, ScriptedServer, framed, response,
};
use crate::hostile::{DUE, RESPONSE_TIMEOUT, TRANSPORTS, plan, run_plan};

/// Media type of an event stream.
const EVENTS: &str = "text/event-stream";

/// Returns a plan of calls whose results are streamed.
fn stream_plan(server: &ScriptedServer) -> Plan {
    let call = CallPlan { arguments: Some(Map::new()), stream: true, ..CallPlan::tool("x") };
    Plan { calls: vec![call], ..plan(server, Era::Parity) }
}

/// Returns the failures of a run.
fn failures(result: &RunResult) -> Vec<(&str, u64)> {
    result.totals.failures.iter().map(|(kind, count)| (&**kind, *count)).collect()
}

/// Returns a chunk of the stream of a request.
fn chunk(call: &Value, seq: u64, chunk_type: &str) -> Value {
    let stream = format!("s{}", call["id"]);
    let data = match chunk_type {
        "result" => json!({ "content": [] }),
        "error" => json!({ "code": "error.internal", "message": "m", "retryable": true }),
        "eos" => Value::Null,
        _ => json!({ "progress": seq }),
    };
    json!({ "type": "stream.chunk", "streamId": stream, "seq": seq, "chunkType": chunk_type,
        "data": data })
}

/// Starts a server that answers each request with a stream of these chunks.
fn stream_server(transport: Transport, chunks: &'static [(u64, &'static str)]) -> ScriptedServer {
    ScriptedServer::new(transport, move |request: &ReceivedRequest<'_>| {
        let id = &request.call["id"];
        let result = json!({ "streamId": format!("s{id}") });
        let opened = json!({ "type": "response", "id": id, "result": result });
        let chunks = chunks.iter().map(|(seq, kind)| chunk(request.call, *seq, kind));
        let messages = std::iter::once(opened).chain(chunks);
        if transport == Transport::Http {
            let event = |message: Value| ["data: ".to_owned(), message.to_string(), "\n\n".into()];
            let events: String = messages.flat_map(event).collect();
            let answer = String::from_utf8(response("200 OK", &events)).unwrap();
            return Reaction::Send(answer.replace("application/json", EVENTS).into_bytes());
        }
        let framed = |message: Value| framed(transport, &message.to_string());
        Reaction::Send(messages.flat_map(framed).collect())
    })
}

#[test]
fn error_answers_are_counted_by_code() {
    for transport in TRANSPORTS {
        let number = AtomicUsize::new(0);
        let server = ScriptedServer::new(transport, move |request: &ReceivedRequest<'_>| {
            let number = number.fetch_add(1, Ordering::Relaxed);
            let code = ErrorCode::ALL[number % ErrorCode::ALL.len()];
            let error = json!({ "code": code.as_str(), "message": "no", "retryable": true,
                "retryAfter": 0.5 });
            let answer = json!({ "type": "response", "id": request.call["id"], "error": error });
            Reaction::Send(match transport {
                Transport::Http => {
                    let status = format!("{} No", code.properties().http_status);
                    response(&status, &answer.to_string())
                }
                _ => framed(transport, &answer.to_string()),
            })
        });
        let result = run_plan(plan(&server, Era::Parity), None);
        let counts = ErrorCode::ALL.map(|code| (code.as_str().to_owned(), DUE / 8));
        assert_eq!(result.totals.failures, counts.into_iter().collect(), "{transport:?}");
        for example in result.failure_examples.values() {
            assert!(example.contains("\"retryAfter\":0.5"), "{transport:?}: {example}");
        }
    }
}

#[test]
fn tools_of_parity_server_are_listed() {
    for transport in TRANSPORTS {
        let server = ScriptedServer::new(transport, move |request: &ReceivedRequest<'_>| {
            assert_eq!(request.call["method"], "tools/list");
            let (name, next) = match &request.call["params"]["cursor"] {
                Value::Null => ("other", json!("2")),
                _ => ("an_echo", Value::Null),
            };
            let schema = json!({ "type": "object",
                "properties": { "text": { "type": "string" } } });
            let result = json!({ "tools": [{ "name": name, "inputSchema": schema }],
                "nextCursor": next });
            let answer = json!({ "type": "response", "id": request.call["id"], "result": result });
            Reaction::Send(framed(transport, &answer.to_string()))
        });
        let plan = plan(&server, Era::Parity);
        let found = discover(&plan, &plan.run_config().unwrap()).unwrap().plan;
        assert_eq!(found.calls[0].tool.as_deref(), Some("an_echo"), "{transport:?}");
        assert!(found.calls[0].arguments.as_ref().unwrap().contains_key("text"));
    }
}

#[test]
fn refused_list_of_tools_is_reported() {
    let server = ScriptedServer::new(Transport::Tcp, |request: &ReceivedRequest<'_>| {
        let error = json!({ "code": "error.auth.forbidden", "message": "no", "retryable": false });
        let answer = json!({ "type": "response", "id": request.call["id"], "error": error });
        Reaction::Send(framed(Transport::Tcp, &answer.to_string()))
    });
    let plan = plan(&server, Era::Parity);
    let why = discover(&plan, &plan.run_config().unwrap()).unwrap_err().to_string();
    assert!(why.contains("tools/list: error.auth.forbidden"), "{why}");
}

#[test]
fn rejected_handshake_is_reported_by_code() {
    let error = concat!(
        r#"{"type":"error","error":{"code":"error.rate_limited","message":"too many","#,
        r#""retryable":true,"retryAfter":2}}"#
    );
    for transport in TRANSPORTS {
        let server =
            ScriptedServer::without_handshake(transport, move |request: &ReceivedRequest<'_>| {
                if request.call.is_null() {
                    return Reaction::Upgrade;
                }
                Reaction::Send(match transport {
                    Transport::Http => response("429 No", error),
                    _ => framed(transport, error),
                })
            });
        let mut plan = plan(&server, Era::Parity);
        plan.connect_timeout = HumanDuration::from(RESPONSE_TIMEOUT);
        let run = generator::run(&plan.run_config().unwrap(), 1, &[], None, |_, _| {});
        let Err(RunError::Unreachable(why)) = run else { panic!("{run:?}") };
        for part in ["error.rate_limited: ", "too many; retry after 2 s"] {
            assert!(why.contains(part), "{transport:?}: {why}");
        }
    }
}

#[test]
fn stream_with_wrong_chunks_is_failure() {
    for transport in TRANSPORTS {
        for chunks in [
            // A gap, a double, data behind the result, no result.
            &[(1, "log"), (3, "result"), (4, "eos")][..],
            &[(1, "log"), (1, "log"), (2, "result"), (3, "eos")],
            &[(1, "result"), (2, "log"), (3, "eos")],
            &[(1, "log"), (2, "eos")],
        ] {
            let server = stream_server(transport, chunks);
            let result = run_plan(stream_plan(&server), None);
            assert_eq!(failures(&result), [("stream", DUE)], "{transport:?} {chunks:?}");
        }
        let server = stream_server(transport, &[(1, "error"), (2, "eos")]);
        let result = run_plan(stream_plan(&server), None);
        assert_eq!(failures(&result), [("error.internal", DUE)], "{transport:?}");
    }
}

#[test]
fn first_chunk_and_progress_have_latencies() {
    for transport in TRANSPORTS {
        // Behind them the streams fail.
        let chunks = &[(1, "log"), (2, "progress"), (4, "result"), (5, "eos")];
        let result = run_plan(stream_plan(&stream_server(transport, chunks)), None);
        assert_eq!(result.first_event.map(|it| it.count), Some(DUE), "{transport:?}");
        assert_eq!(result.first_progress.map(|it| it.count), Some(DUE), "{transport:?}");
        let server = stream_server(transport, &[(1, "result"), (3, "eos")]);
        let result = run_plan(stream_plan(&server), None);
        assert!(result.first_event.is_none() && result.first_progress.is_none());
    }
}

#[test]
fn stream_without_eos_is_no_answer() {
    let server = stream_server(Transport::Tcp, &[(1, "log"), (2, "result")]);
    let result = run_plan(stream_plan(&server), Some(RESPONSE_TIMEOUT));
    assert_eq!(result.totals.answered, 0);
    assert_eq!(result.totals.failures[Failure::Timeout.name()], result.totals.sent);
    // Over HTTP the response ends.
    let server = stream_server(Transport::Http, &[(1, "log"), (2, "result")]);
    assert_eq!(failures(&run_plan(stream_plan(&server), None)), [("stream", DUE)]);
}

#[test]
fn chunk_after_eos_is_unsolicited() {
    let server = stream_server(Transport::Tcp, &[(1, "result"), (2, "eos"), (2, "eos")]);
    let result = run_plan(stream_plan(&server), None);
    assert_eq!((result.totals.answered, result.totals.unsolicited), (DUE, DUE));
}
