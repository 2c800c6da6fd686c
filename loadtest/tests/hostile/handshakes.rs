//! Servers that let nobody in, or not everybody.

use std::time::Duration;

use corelane_load::generator::{self, Fruitless};
use corelane_load::plan::Span;
use corelane_load::result::{Manifest, RunResult};
use corelane_load::target::{Era, Transport};

use crate::stranger::{Asked, Deed, Stranger, response, right, said, upgraded};
use crate::{DUE, SOON, TRANSPORTS, plan};

/// What a run of sessions says of a server that does not let them begin.
fn refusal(server: &Stranger) -> String {
    let mut plan = plan(server, Era::Legacy);
    plan.connect_max = Span::from(SOON);
    let job = plan.job().unwrap();
    match generator::run(&job, (1, &[]), None, |_, _| {}) {
        Err(Fruitless::Unreachable(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_handshake_that_is_refused_is_told_in_the_words_of_the_server() {
    let error = r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"too old"}}"#;
    for transport in TRANSPORTS {
        let server = Stranger::rude(transport, move |asked: &Asked<'_>| {
            let upgrade = asked.call.is_null().then(upgraded);
            Deed::Say(upgrade.unwrap_or_else(|| said(transport, error)))
        });
        let why = refusal(&server);
        assert!(why.contains("rpc_error") && why.contains("too old"), "{transport:?}: {why}");
        let server = Stranger::rude(transport, |_: &Asked<'_>| Deed::Leave(Vec::new()));
        assert!(refusal(&server).contains("closed"), "{transport:?}");
    }
    for (transport, answer, parts) in [
        (Transport::Http, response("503 Busy", "full"), ["http_5xx", "503"]),
        (Transport::Http, response("401 Unauthorized", "who?"), ["http_4xx", "401"]),
        (Transport::Http, b"gopher\r\n".to_vec(), ["garbage", "HTTP"]),
        (Transport::WebSocket, response("403 Forbidden", "no"), ["http_4xx", "403"]),
        (Transport::WebSocket, response("200 OK", "hello"), ["http_4xx", "200"]),
        (Transport::WebSocket, b"what?\n".to_vec(), ["garbage", "what?"]),
        (Transport::Tcp, b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), ["garbage", "400"]),
    ] {
        let server = Stranger::rude(transport, move |_: &Asked<'_>| Deed::Say(answer.clone()));
        let why = refusal(&server);
        for part in parts {
            assert!(why.contains(part), "{transport:?}: '{part}' is not in {why}");
        }
    }
}

#[test]
fn connections_that_were_refused_spoil_the_run_of_the_others() {
    for transport in TRANSPORTS {
        // Every second one may come in.
        let server = Stranger::rude(transport, move |asked: &Asked<'_>| {
            let call = asked.call;
            match (asked.connection % 2, call.get("id")) {
                (1, _) => Deed::Leave(Vec::new()),
                _ if call.is_null() => Deed::Say(upgraded()),
                _ if call["method"] == "initialize" => {
                    Deed::Say(said(transport, r#"{"jsonrpc":"2.0","id":0,"result":{}}"#))
                }
                (_, None) if transport == Transport::Http => {
                    Deed::Say(response("202 Accepted", ""))
                }
                (_, None) => Deed::Say(Vec::new()),
                _ => Deed::Say(said(transport, &right(call))),
            }
        });
        let mut plan = plan(&server, Era::Legacy);
        // Nobody comes back before the time for connecting is over.
        plan.connect_max = Span::from(SOON);
        let mut job = plan.job().unwrap();
        job.limits.retry_after = Duration::from_hours(1);
        let finding = generator::run(&job, (1, &[]), None, |_, _| {}).unwrap();
        let result = RunResult::new(plan, Manifest::default(), &finding);
        assert_eq!((result.totals.opened, result.totals.answered), (1, DUE), "{transport:?}");
        let invalid = &result.verdict.invalid;
        assert!(invalid.iter().any(|why| why.contains("only 1 of 2 connections")), "{invalid:?}");
    }
}
