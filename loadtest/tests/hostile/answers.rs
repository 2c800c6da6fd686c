//! Answers that come, and are none.

use std::sync::atomic::{AtomicU64, Ordering};

use corelane_load::measure::outcome::Failure;
use corelane_load::target::Transport;
use serde_json::Value;

use crate::stranger::{Asked, Deed, Stranger, right, said};
use crate::{DUE, SOON, TRANSPORTS, assert_all, run};

/// A message of this text for every request.
fn always(transport: Transport, text: &str) -> impl Fn(&Value) -> Deed + Send + Sync + 'static {
    let bytes = said(transport, text);
    move |_| Deed::Say(bytes.clone())
}

#[test]
fn what_is_no_message_is_garbage_on_every_road() {
    let deep = "[".repeat(50_000);
    for transport in TRANSPORTS {
        for text in ["nonsense", "{}", "{\"id\":1000000000}", "<html></html>", deep.as_str()] {
            let start = &text[..text.len().min(20)];
            assert_all(transport, Failure::Garbage, start, always(transport, text));
        }
    }
}

#[test]
fn an_error_inside_a_well_formed_answer_is_no_answer() {
    for transport in TRANSPORTS {
        assert_all(transport, Failure::Rpc, "error", move |call| {
            let error = r#"{"code":-32603,"message":"no"}"#;
            let id = &call["id"];
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
            Deed::Say(said(transport, &text))
        });
        assert_all(transport, Failure::Tool, "isError", move |call| {
            let text = right(call).replace("\"result\":{", "\"result\":{\"isError\":true,");
            Deed::Say(said(transport, &text))
        });
    }
}

#[test]
fn the_words_of_somebody_else_are_wrong() {
    for transport in TRANSPORTS {
        assert_all(transport, Failure::Wrong, "content", move |call| {
            Deed::Say(said(transport, &right(call).replace("abc", "abd")))
        });
        assert_all(transport, Failure::Wrong, "no content", move |call| {
            let id = &call["id"];
            Deed::Say(said(transport, &format!(r#"{{"id":{id},"result":{{}}}}"#)))
        });
    }
}

#[test]
fn an_answer_under_the_id_of_nobody_answers_nobody() {
    // A response of HTTP stands for its request, whatever id its body has.
    assert_all(Transport::Http, Failure::Wrong, "id", |call| {
        Deed::Say(said(Transport::Http, &right(call).replace("\"id\":1", "\"id\":7")))
    });
    for transport in [Transport::Tcp, Transport::WebSocket] {
        let server = Stranger::new(transport, move |asked: &Asked<'_>| {
            Deed::Say(said(transport, &right(asked.call).replace("\"id\":1", "\"id\":7")))
        });
        let totals = run(&server, Some(SOON)).totals;
        assert_eq!((totals.answered, totals.unasked), (0, totals.sent), "{totals:?}");
        assert_eq!(totals.failures.get(Failure::Timeout.name()), Some(&totals.sent));
    }
}

#[test]
fn a_second_answer_is_counted_and_does_not_pass() {
    for transport in [Transport::Http, Transport::WebSocket] {
        let server = Stranger::new(transport, move |asked: &Asked<'_>| {
            Deed::Say(said(transport, &right(asked.call)).repeat(2))
        });
        let result = run(&server, None);
        assert_eq!((result.totals.answered, result.totals.unasked), (DUE, DUE), "{transport:?}");
        let missed = &result.verdict.missed;
        assert!(missed.iter().any(|why| why.contains("nobody had asked for")), "{missed:?}");
    }
}

#[test]
fn what_was_answered_before_a_server_failed_is_answered() {
    for transport in TRANSPORTS {
        let asked_before = AtomicU64::new(0);
        let server = Stranger::new(transport, move |asked: &Asked<'_>| {
            let is_well = asked_before.fetch_add(1, Ordering::Relaxed) < 10;
            let text = right(asked.call);
            let text = if is_well { text } else { text.replace("abc", "abd") };
            Deed::Say(said(transport, &text))
        });
        let totals = run(&server, None).totals;
        assert_eq!(totals.answered, 10, "{transport:?}");
        assert_eq!(totals.failures.get(Failure::Wrong.name()), Some(&(DUE - 10)));
    }
}
