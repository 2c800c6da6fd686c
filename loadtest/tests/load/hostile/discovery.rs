//! Servers of several protocol versions, and servers that are none: what is found out before a run.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;

use corelane_load::discovery::{Discovery, DiscoveryError, discover};
use corelane_load::generator;
use corelane_load::metrics::outcome::Failure;
use corelane_load::plan::{CallPlan, HumanDuration, PhasePlan, Plan};
use corelane_load::target::{Era, Transport};
use serde_json::{Value, json};

use crate::hostile::scripted_server::{
    Reaction, ReceivedRequest, ScriptedServer, framed, response,
};
use crate::hostile::{DUE, RESPONSE_TIMEOUT, TRANSPORTS, plan};

/// Answers a method of a legacy server of this version, or `None` for others.
fn legacy_answer(transport: Transport, call: &Value, version: &str) -> Option<Reaction> {
    let id = &call["id"];
    let result = |result: Value| {
        let text = json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
        Some(Reaction::Send(framed(transport, &text)))
    };
    match call["method"].as_str() {
        None => Some(Reaction::Upgrade),
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

/// The result of `server/discover`.
fn discovered() -> Value {
    json!({ "supportedVersions": ["2026-07-28", "2025-11-25"], "capabilities": { "tools": {} } })
}

/// Returns what is found out about this server for a plan with these calls.
fn discover_with(
    server: &ScriptedServer,
    timeout: Duration,
    calls: Vec<CallPlan>,
) -> Result<Discovery, DiscoveryError> {
    let mut plan = plan(server, Era::Modern);
    (plan.era, plan.calls) = (None, calls);
    plan.response_timeout = HumanDuration::from(timeout);
    discover(&plan, &plan.run_config().unwrap())
}

/// Returns the protocol version and the tool that are chosen for this server.
fn discover_server(server: &ScriptedServer) -> Result<Discovery, DiscoveryError> {
    discover_with(server, PATIENT, Vec::new())
}

/// Returns the protocol version that is chosen for this server.
fn discover_era(server: &ScriptedServer, timeout: Duration) -> Result<Discovery, DiscoveryError> {
    let call = CallPlan { method: Some("ping".into()), ..CallPlan::default() };
    discover_with(server, timeout, vec![call])
}

/// Starts a modern server over HTTP with these tools, in pages of one.
fn start_server_with(tools: &[Value]) -> ScriptedServer {
    let tools = tools.to_vec();
    ScriptedServer::without_handshake(Transport::Http, move |request: &ReceivedRequest<'_>| {
        let call = request.call;
        let result = match call["method"].as_str() {
            Some("server/discover") => discovered(),
            Some("tools/list") => {
                let cursor = call["params"]["cursor"].as_str().unwrap_or("0");
                let page: usize = cursor.parse().unwrap();
                let listed: Vec<&Value> = tools.iter().skip(page).take(1).collect();
                let next = (page + 1 < tools.len()).then(|| (page + 1).to_string());
                match next {
                    Some(next) => json!({ "tools": listed, "nextCursor": next }),
                    None => json!({ "tools": listed }),
                }
            }
            method => panic!("{method:?}"),
        };
        let answer = json!({ "jsonrpc": "2.0", "id": call["id"], "result": result });
        Reaction::Send(framed(Transport::Http, &answer.to_string()))
    })
}

/// Returns a tool with a required member of its arguments.
fn tool(name: &str, member: &str, schema: &Value, annotations: &Value) -> Value {
    json!({ "name": name, "annotations": annotations, "inputSchema": { "type": "object",
        "properties": { member: schema }, "required": [member] } })
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
            ScriptedServer::without_handshake(transport, move |request: &ReceivedRequest<'_>| {
                if request.call.is_null() {
                    return Reaction::Upgrade;
                }
                assert_eq!(request.call["method"], "server/discover");
                let id = &request.call["id"];
                let answer = json!({ "jsonrpc": "2.0", "id": id, "result": discovered() });
                Reaction::Send(framed(transport, &answer.to_string()))
            });
        let found = discover_era(&server, PATIENT).unwrap();
        assert_eq!(found.plan.era, Some(Era::Modern), "{transport:?}");
        assert_eq!(found.notes, ["MCP 2026-07-28"]);
    }
}

#[test]
fn other_error_falls_back_to_initialize() {
    for transport in TRANSPORTS {
        for code in [-32_601, -32_602, -32_000, -32_600] {
            let server = ScriptedServer::without_handshake(
                transport,
                move |request: &ReceivedRequest<'_>| {
                    let call = request.call;
                    legacy_answer(transport, call, "2025-03-26").unwrap_or_else(|| {
                        let error = rpc_error(&call["id"], code, &Value::Null);
                        Reaction::Send(framed(transport, &error))
                    })
                },
            );
            let found = discover_era(&server, PATIENT).unwrap();
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
            move |request: &ReceivedRequest<'_>| {
                legacy_answer(Transport::Http, request.call, "2025-06-18")
                    .unwrap_or_else(|| Reaction::SendAndClose(response(status, body)))
            },
        );
        let found = discover_era(&server, PATIENT).unwrap();
        assert_eq!(found.plan.era, Some(Era::LegacyJune2025), "{status}");
    }
}

#[test]
fn answer_without_length_ends_with_connection() {
    let server =
        ScriptedServer::without_handshake(Transport::Http, |request: &ReceivedRequest<'_>| {
            let answer = match request.call["method"].as_str().unwrap() {
                "server/discover" => discovered(),
                _ => json!({ "tools": [tool("echo", "text", &json!({ "type": "string" }),
                    &json!({}))] }),
            };
            let answer = json!({ "jsonrpc": "2.0", "id": request.call["id"], "result": answer });
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close";
            Reaction::SendAndClose(format!("{head}\r\n\r\n{answer}").into_bytes())
        });
    let found = discover_server(&server).unwrap();
    assert_eq!(found.plan.calls[0].tool.as_deref(), Some("echo"), "{:?}", found.notes);
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
            move |request: &ReceivedRequest<'_>| {
                let call = request.call;
                let wanted = call["params"]["protocolVersion"].as_str().unwrap_or_default();
                legacy_answer(Transport::Http, call, wanted).unwrap_or_else(|| {
                    let data = json!({ "supported": supported.clone() });
                    let error = rpc_error(&call["id"], -32_022, &data);
                    Reaction::Send(response("400 Bad Request", &error))
                })
            },
        );
        match (discover_era(&server, PATIENT), era) {
            (Ok(found), era) => assert_eq!(found.plan.era, era),
            (Err(error @ DiscoveryError::Handshake(_)), None) => {
                let error = error.to_string();
                let parts = ["no revision of MCP", "the server 2031-01-01", "--era"];
                assert!(parts.iter().all(|part| error.contains(part)), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn closed_connection_falls_back_to_initialize() {
    for transport in TRANSPORTS {
        let server =
            ScriptedServer::without_handshake(transport, move |request: &ReceivedRequest<'_>| {
                legacy_answer(transport, request.call, "2025-11-25")
                    .unwrap_or_else(|| Reaction::SendAndClose(Vec::new()))
            });
        let found = discover_era(&server, PATIENT).unwrap();
        assert_eq!(found.plan.era, Some(Era::Legacy), "{transport:?}");
    }
}

#[test]
fn silence_falls_back_to_initialize() {
    for transport in TRANSPORTS {
        let server =
            ScriptedServer::without_handshake(transport, move |request: &ReceivedRequest<'_>| {
                legacy_answer(transport, request.call, "2025-11-25")
                    .unwrap_or_else(|| Reaction::Send(Vec::new()))
            });
        // The machine may be too slow even for `initialize`.
        let found = [RESPONSE_TIMEOUT, PATIENT / 4]
            .into_iter()
            .find_map(|timeout| discover_era(&server, timeout).ok());
        assert_eq!(found.unwrap().plan.era, Some(Era::Legacy), "{transport:?}");
    }
}

#[test]
fn server_without_mcp_is_refused_with_its_answers() {
    let server = ScriptedServer::without_handshake(Transport::Http, |_: &ReceivedRequest<'_>| {
        Reaction::SendAndClose(response("501 Unsupported", "<p>no POST</p>"))
    });
    let error = discover_era(&server, PATIENT).unwrap_err().to_string();
    for part in ["no MCP server", "status 501: <p>no POST</p>", "initialize", "--era"] {
        assert!(error.contains(part), "'{part}' is not in {error}");
    }
    let server = ScriptedServer::without_handshake(Transport::Http, |_: &ReceivedRequest<'_>| {
        Reaction::Send(response("401 Unauthorized", "who?"))
    });
    let error = discover_era(&server, PATIENT).unwrap_err();
    assert!(matches!(error, DiscoveryError::Unauthorized(_)), "{error}");
    assert!(error.to_string().contains("--bearer-file"), "{error}");
}

#[test]
fn echo_tool_on_later_page_is_chosen() {
    let read_only = json!({ "readOnlyHint": true });
    let server = start_server_with(&[
        tool("list", "page", &json!({ "type": "integer", "minimum": 1 }), &read_only),
        tool("my_echo", "text", &json!({ "type": "string" }), &json!({})),
    ]);
    let found = discover_server(&server).unwrap();
    let call = &found.plan.calls[0];
    assert_eq!(call.tool.as_deref(), Some("my_echo"));
    let text = call.arguments.as_ref().unwrap()["text"].as_str().unwrap();
    assert_eq!(text.len(), 32);
    assert!(found.notes[1].contains(&format!("my_echo {{\"text\":\"{text}\"}}")));
}

#[test]
fn first_satisfiable_read_only_tool_is_chosen() {
    let read_only = json!({ "readOnlyHint": true });
    let server = start_server_with(&[
        tool("write", "page", &json!({ "const": 1 }), &json!({})),
        tool("weather", "city", &json!({ "type": "string" }), &read_only),
        tool("list", "page", &json!({ "type": "integer", "minimum": 1 }), &read_only),
    ]);
    let call = discover_server(&server).unwrap().plan.calls.remove(0);
    assert_eq!(
        (call.tool.as_deref(), call.describe()),
        (Some("list"), "tools/call list {\"page\":1}".to_owned())
    );
}

#[test]
fn server_without_suitable_tool_lists_its_tools() {
    let server = start_server_with(&[
        tool("weather", "city", &json!({ "type": "string" }), &json!({ "readOnlyHint": true })),
        tool("write", "page", &json!({ "const": 1 }), &json!({})),
    ]);
    let sample = r#"--tool weather --arguments '{"city":"TEXT"}'"#;
    let refusals = ["write (not marked", "weather ('city': a text without"];
    let found = discover_server(&server).unwrap();
    assert_eq!(found.plan.calls[0].describe(), "tools/list");
    for part in refusals.into_iter().chain([sample]) {
        assert!(found.notes[1].contains(part), "'{part}' is not in {}", found.notes[1]);
    }
    // What else is said of the call is of a tool.
    let expected = CallPlan { expect: vec!["contains:x".parse().unwrap()], ..CallPlan::default() };
    let error = discover_with(&server, PATIENT, vec![expected]).unwrap_err().to_string();
    for part in refusals.into_iter().chain([sample]) {
        assert!(error.contains(part), "'{part}' is not in {error}");
    }
    let error = discover_with(&server, PATIENT, vec![CallPlan::tool("weather")]).unwrap_err();
    assert!(error.to_string().contains(r#"pass --arguments '{"city":"TEXT"}'"#), "{error}");
}

#[test]
fn server_without_tools_gets_another_request() {
    for (capabilities, method) in
        [(json!({ "resources": {} }), "resources/list"), (json!({}), "server/discover")]
    {
        let server = ScriptedServer::without_handshake(
            Transport::Http,
            move |request: &ReceivedRequest<'_>| {
                assert_eq!(request.call["method"], "server/discover");
                let mut result = discovered();
                result["capabilities"] = capabilities.clone();
                let answer =
                    json!({ "jsonrpc": "2.0", "id": request.call["id"], "result": result });
                Reaction::Send(framed(Transport::Http, &answer.to_string()))
            },
        );
        let found = discover_server(&server).unwrap();
        assert_eq!(found.plan.calls[0].describe(), method);
        assert!(found.notes[1].contains("the server has no tools"), "{:?}", found.notes);
    }
}

#[test]
fn misspelled_tool_or_argument_stops() {
    let text = json!({ "type": "string" });
    let mut search = tool("search", "query", &text, &json!({}));
    search["inputSchema"]["properties"]["limit"] = json!({ "type": "integer" });
    let mut closed = tool("fetch", "url", &text, &json!({}));
    closed["inputSchema"]["additionalProperties"] = json!(false);
    let server = start_server_with(&[search, closed]);
    for (name, arguments, expected) in [
        ("serach", json!({ "query": "x" }), Err("did you mean 'search'?")),
        ("delete", json!({}), Err("it has search, fetch")),
        ("search", json!({ "querry": "x" }), Err("no argument 'querry'; did you mean 'query'?")),
        ("search", json!({ "limit": 3 }), Err("the tool search needs the argument 'query'")),
        ("search", json!({ "query": "x", "other": 1 }), Ok(())),
        ("fetch", json!({ "url": "x", "depth": 1 }), Err("no argument 'depth'; it has none")),
        // Values are for the server to judge.
        ("search", json!({ "query": "x", "limit": "{{int 1 9}}" }), Ok(())),
    ] {
        let arguments = arguments.as_object().cloned();
        let call = CallPlan { arguments, ..CallPlan::tool(name) };
        match (discover_with(&server, PATIENT, vec![call]), expected) {
            (Ok(_), Ok(())) => {}
            (Err(error), Err(part)) => {
                assert!(error.to_string().contains(part), "'{part}' is not in {error}");
            }
            (found, _) => panic!("{name}: {found:?}"),
        }
    }
}

#[test]
fn transport_of_2024_is_named() {
    for (path, target_path) in [("/sse", "/sse"), ("/sse", "/mcp"), ("/events", "/events")] {
        let server = LegacyEventServer::start(path);
        for era in [None, Some(Era::LegacyNovember2024)] {
            let mut plan = Plan::new(format!("http://{}{target_path}", server.address));
            plan.era = era;
            plan.phases = vec![PhasePlan::constant(1.0, HumanDuration::from_secs(1))];
            let error = discover(&plan, &plan.run_config().unwrap()).unwrap_err();
            let expected = DiscoveryError::EventStream { path: path.to_owned() };
            assert_eq!(error, expected, "{target_path}");
        }
    }
}

/// A server of HTTP+SSE: it opens an event stream at a path, and answers 405 otherwise.
struct LegacyEventServer {
    address: SocketAddr,
}

impl LegacyEventServer {
    fn start(path: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // Ends with the test program.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut head = String::new();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap() > 0 {}
                let answer = if head.starts_with(&format!("GET {path} ")) {
                    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n\
                     event: endpoint\ndata: /messages?session=1\n\n"
                } else {
                    "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\
                     Connection: close\r\n\r\n"
                };
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        Self { address }
    }
}

#[test]
fn named_tool_gets_arguments_of_its_schema() {
    let mut add = tool("add", "a", &json!({ "type": "number" }), &json!({}));
    add["outputSchema"] = json!({ "type": "object" });
    let server =
        start_server_with(&[tool("pick", "colour", &json!({ "enum": ["red"] }), &json!({})), add]);
    let mut plan = plan(&server, Era::Modern);
    let discover = |plan: &Plan| discover(plan, &plan.run_config().unwrap());
    plan.calls = vec![CallPlan::tool("pick")];
    assert_eq!(
        discover(&plan).unwrap().plan.calls[0].describe(),
        "tools/call pick {\"colour\":\"red\"}"
    );
    plan.calls = vec![CallPlan::tool("add")];
    let error = discover(&plan).unwrap_err().to_string();
    assert!(error.contains("'a': a number") && error.contains("--arguments"), "{error}");
    plan.calls[0].arguments = json!({ "a": 1 }).as_object().cloned();
    let found = discover(&plan).unwrap();
    assert_eq!(found.plan.calls[0].output_schema, Some(json!({ "type": "object" })));
    assert!(found.notes.is_empty(), "{:?}", found.notes);
    plan.calls = vec![CallPlan::tool("sub")];
    let error = discover(&plan).unwrap_err().to_string();
    assert!(error.contains("no tool 'sub'; it has pick, add"), "{error}");
}

#[test]
fn result_that_breaks_output_schema_is_wrong() {
    let result = |structured: Value| json!({ "content": [], "structuredContent": structured });
    for (structured, failure) in [(json!({ "n": 1 }), 0), (json!({ "n": "1" }), DUE)] {
        let server = ScriptedServer::without_handshake(
            Transport::Http,
            move |request: &ReceivedRequest<'_>| {
                let id = &request.call["id"];
                let answer = json!({ "jsonrpc": "2.0", "id": id,
                    "result": result(structured.clone()) });
                Reaction::Send(framed(Transport::Http, &answer.to_string()))
            },
        );
        let mut plan = plan(&server, Era::Modern);
        let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
        let call = CallPlan { output_schema: Some(schema), ..CallPlan::tool("count") };
        plan.calls = vec![call];
        let finding = generator::run(&plan.run_config().unwrap(), 1, &[], None, |_, _| {}).unwrap();
        assert_eq!(finding.total.outcomes.failed(Failure::Wrong), failure);
    }
}
