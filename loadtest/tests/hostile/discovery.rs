//! Servers of several protocol versions, and servers that are none: what is found out before a run.

use std::time::Duration;

use corelane_load::discovery::{Discovery, DiscoveryError, discover};
use corelane_load::plan::HumanDuration;
use corelane_load::target::{Era, Transport};
use serde_json::{Value, json};

use crate::scripted_server::{
    Reaction, ReceivedRequest, ScriptedServer, framed, response, upgraded,
};
use crate::{RESPONSE_TIMEOUT, TRANSPORTS, plan};

/// Answers a method of a legacy server of this version, or `None` for others.
fn legacy_answer(transport: Transport, call: &Value, version: &str) -> Option<Reaction> {
    let id = &call["id"];
    let result = |result: Value| {
        let text = json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
        Some(Reaction::Send(framed(transport, &text)))
    };
    match call["method"].as_str() {
        None => Some(Reaction::Send(upgraded())),
        Some("initialize") => result(json!({
            "protocolVersion": version, "capabilities": { "tools": {} },
            "serverInfo": { "name": "old", "version": "1" },
        })),
        Some("notifications/initialized") if transport == Transport::Http => {
            Some(Reaction::Send(response("202 Accepted", "")))
        }
        Some("notifications/initialized") => Some(Reaction::Send(Vec::new())),
        _ => None,
    }
}

/// Returns what is found out about this server.
fn discover_server(
    server: &ScriptedServer,
    timeout: Duration,
) -> Result<Discovery, DiscoveryError> {
    let mut plan = plan(server, Era::Modern);
    plan.era = None;
    plan.response_timeout = HumanDuration::from(timeout);
    discover(&plan, &plan.run_config().unwrap())
}

/// Long enough for every answer of this machine.
const PATIENT: Duration = Duration::from_secs(20);

fn rpc_error(id: &Value, code: i64, data: &Value) -> String {
    let error = json!({ "code": code, "message": "refused", "data": data });
    json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string()
}

#[test]
fn discover_result_selects_modern_era() {
    for transport in TRANSPORTS {
        let server =
            ScriptedServer::without_handshake(transport, move |asked: &ReceivedRequest<'_>| {
                if asked.call.is_null() {
                    return Reaction::Send(upgraded());
                }
                assert_eq!(asked.call["method"], "server/discover");
                let result = json!({ "supportedVersions": ["2026-07-28", "2025-11-25"] });
                let answer = json!({ "id": asked.call["id"], "result": result });
                Reaction::Send(framed(transport, &answer.to_string()))
            });
        let found = discover_server(&server, PATIENT).unwrap();
        assert_eq!(found.plan.era, Some(Era::Modern), "{transport:?}");
        assert_eq!(found.notes, ["MCP 2026-07-28"]);
    }
}

#[test]
fn other_error_falls_back_to_initialize() {
    for transport in TRANSPORTS {
        for code in [-32_601, -32_602, -32_000, -32_600] {
            let server =
                ScriptedServer::without_handshake(transport, move |asked: &ReceivedRequest<'_>| {
                    let call = asked.call;
                    legacy_answer(transport, call, "2025-03-26").unwrap_or_else(|| {
                        let error = rpc_error(&call["id"], code, &Value::Null);
                        Reaction::Send(framed(transport, &error))
                    })
                });
            let found = discover_server(&server, PATIENT).unwrap();
            assert_eq!(found.plan.era, Some(Era::LegacyMarch2025), "{transport:?}");
            assert!(found.notes[0].starts_with("MCP 2025-03-26, since"), "{:?}", found.notes);
        }
    }
}

#[test]
fn http_error_status_falls_back_to_initialize() {
    for (status, body) in [("400 Bad Request", ""), ("404 Not Found", "<html>"), ("500 No", "x")] {
        let server = ScriptedServer::without_handshake(
            Transport::Http,
            move |asked: &ReceivedRequest<'_>| {
                legacy_answer(Transport::Http, asked.call, "2025-06-18")
                    .unwrap_or_else(|| Reaction::SendAndClose(response(status, body)))
            },
        );
        let found = discover_server(&server, PATIENT).unwrap();
        assert_eq!(found.plan.era, Some(Era::LegacyJune2025), "{status}");
    }
}

#[test]
fn unsupported_version_error_selects_supported_version() {
    for (supported, era) in [
        (json!(["2025-06-18", "2025-11-25"]), Some(Era::Legacy)),
        (json!(["2025-06-18"]), Some(Era::LegacyJune2025)),
        (json!(["2031-01-01"]), None),
    ] {
        let server = ScriptedServer::without_handshake(
            Transport::Http,
            move |asked: &ReceivedRequest<'_>| {
                let call = asked.call;
                let wanted = call["params"]["protocolVersion"].as_str().unwrap_or_default();
                legacy_answer(Transport::Http, call, wanted).unwrap_or_else(|| {
                    let data = json!({ "supported": supported.clone() });
                    let error = rpc_error(&call["id"], -32_022, &data);
                    Reaction::Send(response("400 Bad Request", &error))
                })
            },
        );
        match (discover_server(&server, PATIENT), era) {
            (Ok(found), era) => assert_eq!(found.plan.era, era),
            (Err(DiscoveryError::UnknownVersion(versions)), None) => {
                assert_eq!(versions, "2031-01-01");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn closed_connection_falls_back_to_initialize() {
    for transport in TRANSPORTS {
        let server =
            ScriptedServer::without_handshake(transport, move |asked: &ReceivedRequest<'_>| {
                legacy_answer(transport, asked.call, "2025-11-25")
                    .unwrap_or_else(|| Reaction::SendAndClose(Vec::new()))
            });
        let found = discover_server(&server, PATIENT).unwrap();
        assert_eq!(found.plan.era, Some(Era::Legacy), "{transport:?}");
    }
}

#[test]
fn silence_falls_back_to_initialize() {
    for transport in TRANSPORTS {
        let server =
            ScriptedServer::without_handshake(transport, move |asked: &ReceivedRequest<'_>| {
                legacy_answer(transport, asked.call, "2025-11-25")
                    .unwrap_or_else(|| Reaction::Send(Vec::new()))
            });
        // The machine may be too slow even for `initialize`.
        let found = [RESPONSE_TIMEOUT, PATIENT / 4]
            .into_iter()
            .find_map(|timeout| discover_server(&server, timeout).ok());
        assert_eq!(found.unwrap().plan.era, Some(Era::Legacy), "{transport:?}");
    }
}

#[test]
fn server_without_mcp_is_refused_with_its_answers() {
    let server = ScriptedServer::without_handshake(Transport::Http, |_: &ReceivedRequest<'_>| {
        Reaction::SendAndClose(response("501 Unsupported", "<p>no POST</p>"))
    });
    let error = discover_server(&server, PATIENT).unwrap_err().to_string();
    for part in ["no MCP server", "status 501 '<p>no POST</p>'", "initialize", "--era"] {
        assert!(error.contains(part), "'{part}' is not in {error}");
    }
    let server = ScriptedServer::without_handshake(Transport::Http, |_: &ReceivedRequest<'_>| {
        Reaction::Send(response("401 Unauthorized", "who?"))
    });
    let error = discover_server(&server, PATIENT).unwrap_err();
    assert!(matches!(error, DiscoveryError::Unauthorized(_)), "{error}");
    assert!(error.to_string().contains("--bearer-file"), "{error}");
}
