//! Servers that reject some or all connections.

use std::time::Duration;

use corelane_load::generator::{self, RunError};
use corelane_load::plan::HumanDuration;
use corelane_load::result::{Manifest, RunResult};
use corelane_load::target::{Era, Transport};

use crate::hostile::scripted_server::{
    Reaction, ReceivedRequest, ScriptedServer, echo_response, framed, handshake_response, response,
};
use crate::hostile::{DUE, RESPONSE_TIMEOUT, TRANSPORTS, plan};

/// Returns the error of a run whose handshakes are rejected.
fn handshake_error(server: &ScriptedServer) -> String {
    let mut plan = plan(server, Era::Legacy);
    plan.connect_timeout = HumanDuration::from(RESPONSE_TIMEOUT);
    let job = plan.run_config().unwrap();
    match generator::run(&job, 1, &[], None, |_, _| {}) {
        Err(RunError::Unreachable(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn rejected_handshake_reports_server_error() {
    let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"too old"}}"#;
    for transport in TRANSPORTS {
        let server =
            ScriptedServer::without_handshake(transport, move |request: &ReceivedRequest<'_>| {
                if request.call.is_null() {
                    return Reaction::Upgrade;
                }
                Reaction::Send(framed(transport, error))
            });
        let why = handshake_error(&server);
        assert!(why.contains("rpc_error") && why.contains("too old"), "{transport:?}: {why}");
        let server = ScriptedServer::without_handshake(transport, |_: &ReceivedRequest<'_>| {
            Reaction::SendAndClose(Vec::new())
        });
        assert!(handshake_error(&server).contains("closed"), "{transport:?}");
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
        let server =
            ScriptedServer::without_handshake(transport, move |_: &ReceivedRequest<'_>| {
                Reaction::Send(answer.clone())
            });
        let why = handshake_error(&server);
        for part in parts {
            assert!(why.contains(part), "{transport:?}: '{part}' is not in {why}");
        }
    }
}

#[test]
fn rejected_connections_fail_the_run() {
    for transport in TRANSPORTS {
        // Accepts every second connection.
        let server =
            ScriptedServer::without_handshake(transport, move |request: &ReceivedRequest<'_>| {
                let call = request.call;
                match (request.connection % 2, call.get("id")) {
                    (1, _) => Reaction::SendAndClose(Vec::new()),
                    _ if call.is_null() => Reaction::Upgrade,
                    _ if call["method"] == "initialize" => {
                        Reaction::Send(handshake_response(transport, call))
                    }
                    (_, None) if transport == Transport::Http => {
                        Reaction::Send(response("202 Accepted", ""))
                    }
                    (_, None) => Reaction::Send(Vec::new()),
                    _ => Reaction::Send(framed(transport, &echo_response(call))),
                }
            });
        let mut plan = plan(&server, Era::Legacy);
        // No retry before the connect timeout.
        plan.connect_timeout = HumanDuration::from(RESPONSE_TIMEOUT);
        let mut job = plan.run_config().unwrap();
        job.limits.retry_after = Duration::from_hours(1);
        let finding = generator::run(&job, 1, &[], None, |_, _| {}).unwrap();
        let result = RunResult::new(plan, Manifest::default(), &finding);
        assert_eq!((result.totals.opened, result.totals.answered), (1, DUE), "{transport:?}");
        let failed = &result.verdict.failed;
        assert!(failed.iter().any(|why| why.contains("only 1 of 2 connections")), "{failed:?}");
    }
}
