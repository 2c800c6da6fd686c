//! Failures say why: what was expected and received, how much of an answer arrived, and what a
//! refusal says.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use corelane_load::generator::{self, RunError};
use corelane_load::plan::{CallPlan, HumanDuration, ListenPlan, Plan};
use corelane_load::report::html::run_page;
use corelane_load::report::table::table;
use corelane_load::target::{Era, Transport};
use serde_json::{Value, json};

use crate::hostile::scripted_server::{
    Reaction, ReceivedRequest, ScriptedServer, echo_response, framed, response,
};
use crate::hostile::{DUE, TRANSPORTS, plan, run, run_plan};

/// Starts a server that answers with the message that `answer` returns.
fn server(
    transport: Transport,
    answer: impl Fn(&Value) -> String + Send + Sync + 'static,
) -> ScriptedServer {
    ScriptedServer::new(transport, move |request: &ReceivedRequest<'_>| {
        Reaction::Send(framed(transport, &answer(request.call)))
    })
}

/// Returns the response to a call with this result.
fn result(call: &Value, result: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": call["id"], "result": result }).to_string()
}

#[test]
fn wrong_text_names_expectation_and_excerpt() {
    for transport in TRANSPORTS {
        let server = server(transport, |call| echo_response(call).replace("abc", "abd"));
        let result = run(&server, None);
        let example = &result.failure_examples["wrong"];
        let why = "expected text:abcdefghijklmnopqrstuvwxyzabcdef, received \"abddefgh";
        assert!(example.starts_with(why), "{transport:?}: {example}");
        assert!(table(&result).contains("    | expected text:abc"), "{transport:?}");
        assert!(run_page(&result).contains("expected text:abc"), "{transport:?}");
    }
}

#[test]
fn wrong_id_is_named_with_expected_one() {
    let number_server =
        server(Transport::Http, |call| echo_response(call).replace("\"id\":1", "\"id\":7"));
    let result = run(&number_server, None);
    let example = &result.failure_examples["wrong"];
    let why = "the response has id 7000000000, expected id 1000000000:\nHTTP/1.1 200 OK\n";
    assert!(example.starts_with(why), "{example}");
    for transport in TRANSPORTS {
        let server = server(transport, |call| {
            let mut call = call.clone();
            call["id"] = call["id"].to_string().into();
            echo_response(&call)
        });
        let result = run(&server, None);
        assert_eq!(result.totals.failures, [("wrong".to_owned(), DUE)].into_iter().collect());
        let example = &result.failure_examples["wrong"];
        let why = "the response has id \"1000000000\", expected id 1000000000:\n";
        assert!(example.starts_with(why), "{transport:?}: {example}");
    }
}

#[test]
fn schema_mismatch_names_both_paths() {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    for transport in TRANSPORTS {
        let server = server(transport, |call| {
            result(call, &json!({ "content": [], "structuredContent": { "n": "1" } }))
        });
        let call = CallPlan { output_schema: Some(schema.clone()), ..CallPlan::tool("x") };
        let plan = Plan { calls: vec![call], ..plan(&server, Era::Modern) };
        let result = run_plan(plan, None);
        let example = &result.failure_examples["wrong"];
        let why = "structuredContent/n does not match outputSchema/properties/n/type: ";
        assert!(example.starts_with(why), "{transport:?}: {example}");
    }
}

#[test]
fn close_inside_answer_names_bytes() {
    for (transport, what) in [
        (Transport::Tcp, " bytes of the line, which has not ended"),
        (Transport::Http, " bytes of the body"),
        (Transport::WebSocket, " bytes of the frame"),
    ] {
        let server = ScriptedServer::new(transport, move |request: &ReceivedRequest<'_>| {
            let mut bytes = framed(transport, &echo_response(request.call));
            bytes.truncate(bytes.len() - 20);
            Reaction::SendAndClose(bytes)
        });
        let result = run(&server, None);
        let example = &result.failure_examples["closed"];
        let length = echo_response(&json!({ "id": 1_000_000_000, "params": {
            "arguments": { "message": "abcdefghijklmnopqrstuvwxyzabcdef" } } }))
        .len();
        let (received, length) = match transport {
            Transport::Tcp => (length + 1 - 20, None),
            Transport::Http => (length - 20, Some(length)),
            _ => (length + 2 - 20, Some(length + 2)),
        };
        let of = length.map_or_else(String::new, |length| format!(" of {length}"));
        assert_eq!(*example, format!("closed after {received}{of}{what}"), "{transport:?}");
    }
}

#[test]
fn texts_of_prompts_and_resources_are_checked() {
    let message = |text: &str| json!([{ "role": "user", "content": { "text": text } }]);
    let contents = |text: &str| json!([{ "uri": "a:b", "blob": "" }, { "text": text }]);
    for transport in TRANSPORTS {
        for method in ["prompts/get", "resources/read"] {
            let received = AtomicUsize::new(0);
            let server = server(transport, move |call| {
                // The first responses are learnt.
                let is_right = received.fetch_add(1, Ordering::Relaxed) < 10;
                let text = if is_right { "all is well" } else { "all is wild" };
                let texts = match method {
                    "prompts/get" => json!({ "messages": message(text) }),
                    _ => json!({ "contents": contents(text) }),
                };
                result(call, &texts)
            });
            let call = CallPlan {
                method: Some(method.into()),
                expect: vec!["contains:is well".parse().unwrap()],
                ..CallPlan::default()
            };
            let plan = Plan { calls: vec![call], ..plan(&server, Era::Modern) };
            let result = run_plan(plan, None);
            assert_eq!(result.totals.answered, 10, "{transport:?} {method}");
            assert_eq!(result.totals.failures["wrong"], DUE - 10, "{transport:?} {method}");
            let example = &result.failure_examples["wrong"];
            let why = "expected contains:is well, received \"all is wild\":\n";
            assert!(example.starts_with(why), "{transport:?}: {example}");
        }
    }
}

#[test]
fn requests_to_retry_later_are_counted_apart() {
    for transport in TRANSPORTS {
        let server = ScriptedServer::new(transport, move |request: &ReceivedRequest<'_>| {
            let error = json!({ "code": 1002, "message": "too many requests",
                "data": { "retryAfterMs": 1_500 } });
            let answer = json!({ "jsonrpc": "2.0", "id": request.call["id"], "error": error });
            Reaction::Send(match transport {
                Transport::Http => {
                    let status = "429 Too Many Requests\r\nRetry-After: 2";
                    response(status, &answer.to_string())
                }
                _ => framed(transport, &answer.to_string()),
            })
        });
        let result = run(&server, None);
        let (kind, advice) = match transport {
            Transport::Http => ("http_429", "\nRetry-After: 2\n"),
            _ => ("rpc_retry_after", "\"retryAfterMs\":1500"),
        };
        assert_eq!(result.totals.failures, [(kind.to_owned(), DUE)].into_iter().collect());
        assert!(result.failure_examples[kind].contains(advice), "{transport:?}");
    }
}

#[test]
fn refused_subscription_shows_the_answer() {
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32010,"message":"not for you"}}"#;
    for (transport, body, parts) in [
        (Transport::Http, error, ["http_4xx: 403 ", "not for you"]),
        (Transport::Http, "<p>not for you</p>", ["http_4xx: 403 <p>", "not for you"]),
        (Transport::Tcp, error, ["rpc_error: {", "not for you"]),
        (Transport::WebSocket, error, ["rpc_error: {", "not for you"]),
    ] {
        let server = ScriptedServer::new(transport, move |request: &ReceivedRequest<'_>| {
            Reaction::Send(match transport {
                _ if request.call["method"] != "subscriptions/listen" => {
                    framed(transport, &echo_response(request.call))
                }
                Transport::Http => response("403 Forbidden", body),
                _ => framed(transport, body),
            })
        });
        let mut plan = plan(&server, Era::Modern);
        plan.listen = Some(ListenPlan::new(2));
        plan.connect_timeout = HumanDuration::from(Duration::from_millis(300));
        let error = generator::run(&plan.run_config().unwrap(), 1, &[], None, |_, _| {});
        let Err(RunError::NoSubscription(why)) = error else { panic!("{error:?}") };
        for part in parts {
            assert!(why.contains(part), "{transport:?}: '{part}' is not in {why}");
        }
    }
}
