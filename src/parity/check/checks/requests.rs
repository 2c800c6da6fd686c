//! Requests: ids, results, errors of requests and of malformed messages, lists.

use serde_json::{Value, json};

use crate::peer::{Peer, expect_error};
use crate::steps::{call, ensure, expect_ready, expect_silence};
use crate::suite::Level::{Must, Transition};
use crate::suite::{Check, CheckError, CheckResult, Context, Need};

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "requests.ping",
        level: Transition,
        needs: &[],
        rule: "Ready --(sendRequest/recvResponse)--> Ready: ping has a result",
        run: |context| expect_ready(&mut Peer::ready(context)?),
    },
    Check {
        name: "requests.response_schema",
        level: Must,
        needs: &[],
        rule: "each message of the server matches the schema of its type",
        run: |context| call(&mut Peer::ready(context)?, "ping", &json!({})).map(drop),
    },
    Check {
        name: "requests.id_matched",
        level: Must,
        needs: &[],
        rule: "a response has the id of its request, in the same type",
        run: id_matched,
    },
    Check {
        name: "requests.long_id",
        level: Must,
        needs: &[],
        rule: "an id may be a string of 256 bytes",
        run: long_id,
    },
    Check {
        name: "requests.result_or_error",
        level: Must,
        needs: &[],
        rule: "a response has exactly one of result and error",
        run: pipelined,
    },
    Check {
        name: "requests.one_response",
        level: Must,
        needs: &[],
        rule: "a request has one response",
        run: one_response,
    },
    Check {
        name: "requests.pipelined",
        level: Must,
        needs: &[],
        rule: "requests that are sent at once are all answered",
        run: pipelined,
    },
    Check {
        name: "requests.unknown_method",
        level: Must,
        needs: &[],
        rule: "an unknown method is rejected by error.feature_not_available",
        run: |context| {
            let request = json!({"method": "no/such/method"});
            reject(context, request, "error.feature_not_available", None)
        },
    },
    Check {
        name: "requests.invalid_params",
        level: Must,
        needs: &[Need::Flag("tools")],
        rule: "invalid params are rejected by error.internal, mcpCode -32602",
        run: |context| {
            let request = json!({"method": "tools/call", "params": {"arguments": {}}});
            reject(context, request, "error.internal", Some(-32602))
        },
    },
    Check {
        name: "requests.missing_method",
        level: Must,
        needs: &[],
        rule: "a request without a method is rejected by error.internal, mcpCode -32600",
        run: |context| reject(context, json!({}), "error.internal", Some(-32600)),
    },
    Check {
        name: "requests.invalid_id",
        level: Must,
        needs: &[],
        rule: "an id that is no string and no integer is rejected by error.internal, \
               mcpCode -32600",
        run: |context| {
            let text = r#"{"type":"request","id":1.5,"method":"ping"}"#;
            reject_text(context, text, -32600)
        },
    },
    Check {
        name: "requests.unknown_type",
        level: Must,
        needs: &[],
        rule: "an unknown type is rejected by error.internal, mcpCode -32600",
        run: |context| reject_text(context, r#"{"type":"no.such.type"}"#, -32600),
    },
    Check {
        name: "requests.missing_type",
        level: Must,
        needs: &[],
        rule: "a message without a type is rejected by error.internal, mcpCode -32600",
        run: |context| reject_text(context, r#"{"id":1,"method":"ping"}"#, -32600),
    },
    Check {
        name: "requests.no_object",
        level: Must,
        needs: &[],
        rule: "a message that is no object is rejected by error.internal, mcpCode -32600",
        run: |context| reject_text(context, "[1]", -32600),
    },
    Check {
        name: "requests.server_type",
        level: Must,
        needs: &[],
        rule: "a message that only servers send is rejected by error.internal, mcpCode -32600",
        run: |context| {
            let text = r#"{"type":"response","id":1,"result":{}}"#;
            reject_text(context, text, -32600)
        },
    },
    Check {
        name: "requests.malformed_json",
        level: Must,
        needs: &[],
        rule: "a text that is not JSON is rejected by error.internal, mcpCode -32700",
        run: |context| reject_text(context, r#"{"type":"request","id":1,"#, -32700),
    },
    Check {
        name: "requests.unknown_members",
        level: Must,
        needs: &[],
        rule: "unknown members of a request are ignored",
        run: unknown_members,
    },
    Check {
        name: "requests.served_after_error",
        level: Transition,
        needs: &[],
        rule: "Ready --(rejected request)--> Ready",
        run: served_after_error,
    },
    Check {
        name: "registry.tools",
        level: Must,
        needs: &[Need::Flag("tools")],
        rule: "tools/list has the tools, each with a name and an input schema",
        run: |context| {
            list(context, "tools/list", "tools", |tool| {
                tool["name"].is_string() && tool["inputSchema"].is_object()
            })
        },
    },
    Check {
        name: "registry.resources",
        level: Must,
        needs: &[Need::Flag("resources")],
        rule: "resources/list has the resources, each with a URI and a name",
        run: |context| {
            list(context, "resources/list", "resources", |resource| {
                resource["uri"].is_string() && resource["name"].is_string()
            })
        },
    },
    Check {
        name: "registry.prompts",
        level: Must,
        needs: &[Need::Flag("prompts")],
        rule: "prompts/list has the prompts, each with a name",
        run: |context| list(context, "prompts/list", "prompts", |it| it["name"].is_string()),
    },
    Check {
        name: "registry.identical",
        level: Must,
        needs: &[Need::Flag("tools")],
        rule: "the tools of two connections are identical",
        run: identical,
    },
    Check {
        name: "registry.across_transports",
        level: Must,
        needs: &[Need::OtherTarget, Need::Flag("tools")],
        rule: "the tools are identical over another transport",
        run: registry_across_transports,
    },
    Check {
        name: "errors.across_transports",
        level: Must,
        needs: &[Need::OtherTarget],
        rule: "errors are the same over another transport",
        run: errors_across_transports,
    },
    Check {
        name: "errors.schema",
        level: Must,
        needs: &[],
        rule: "an error has code, message and retryable",
        run: provoke_errors,
    },
    Check {
        name: "errors.codes",
        level: Must,
        needs: &[],
        rule: "the code of an error is in the table of errors",
        run: provoke_errors,
    },
    Check {
        name: "errors.retryable",
        level: Must,
        needs: &[],
        rule: "retryable is that of the table of errors",
        run: provoke_errors,
    },
];

/// Requests that are sent at once.
const PIPELINED: usize = 8;

fn id_matched(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    for id in
        [json!(7), json!("7"), json!("é \"quoted\""), json!(-1), json!(9_007_199_254_740_991_i64)]
    {
        peer.request(json!({"id": id, "method": "ping"}))?;
        let answer = peer.answer(&id)?;
        ensure(answer.is("response"), || format!("no response: {}", answer.text))?;
    }
    Ok(())
}

fn long_id(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    let id = peer.request(json!({"id": "x".repeat(256), "method": "ping"}))?;
    let answer = peer.answer(&id)?;
    ensure(answer.value.get("result").is_some(), || format!("rejected: {}", answer.text))
}

fn pipelined(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    let mut ids = Vec::new();
    for _ in 0..PIPELINED {
        ids.push(peer.request(json!({"method": "ping"}))?);
    }
    for id in ids {
        let answer = peer.answer(&id)?;
        ensure(answer.value.get("result").is_some(), || format!("rejected: {}", answer.text))?;
    }
    Ok(())
}

fn one_response(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    call(&mut peer, "ping", &json!({}))?;
    // A second response is found by the trace of the connection.
    expect_silence(&mut peer, "ping, once more")
}

/// Checks that a request is rejected.
fn reject(context: &Context<'_>, request: Value, code: &str, mcp_code: Option<i64>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    let id = peer.request(request)?;
    let answer = peer.answer(&id)?;
    ensure(answer.value.get("result").is_none(), || format!("it was served: {}", answer.text))?;
    expect_error(&answer, code, mcp_code)
}

/// Checks that a text is rejected by error.internal, and that the connection stays.
fn reject_text(context: &Context<'_>, text: &str, mcp_code: i64) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    peer.send_text(text)?;
    expect_error(&peer.error()?, "error.internal", Some(mcp_code))?;
    expect_ready(&mut peer)
}

fn unknown_members(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    let id = peer.request(json!({"method": "ping", "extension": {"a": [1]}}))?;
    let answer = peer.answer(&id)?;
    ensure(answer.value.get("result").is_some(), || format!("rejected: {}", answer.text))
}

fn served_after_error(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    let id = peer.request(json!({"method": "no/such/method"}))?;
    peer.answer(&id)?;
    expect_ready(&mut peer)
}

fn list(
    context: &Context<'_>,
    method: &str,
    name: &str,
    is_item: impl Fn(&Value) -> bool,
) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    let id = peer.request(json!({"method": method}))?;
    let answer = peer.answer(&id)?;
    let items = answer.value["result"][name].as_array();
    ensure(items.is_some_and(|items| items.iter().all(is_item)), || {
        format!("not a list of {name}: {}", answer.text)
    })
}

fn identical(context: &Context<'_>) -> CheckResult {
    let mut first = Peer::ready(context)?;
    let mut second = Peer::ready(context)?;
    let first = call(&mut first, "tools/list", &json!({}))?;
    let second = call(&mut second, "tools/list", &json!({}))?;
    ensure(first.value["result"] == second.value["result"], || {
        "two connections have other tools".to_owned()
    })
}

/// Runs `ask` on a connection of each target.
fn ask_both(
    context: &Context<'_>,
    ask: impl Fn(&mut Peer<'_>) -> Result<Value, CheckError>,
) -> Result<[Value; 2], CheckError> {
    let missing = || CheckError::Skipped("needs --compare".to_owned());
    let settings = context.settings.for_other().ok_or_else(missing)?;
    let other = Context::new(&settings, None);
    Ok([ask(&mut Peer::ready(context)?)?, ask(&mut Peer::ready(&other)?)?])
}

fn registry_across_transports(context: &Context<'_>) -> CheckResult {
    let [one, other] = ask_both(context, |peer| {
        let list = call(peer, "tools/list", &json!({}))?;
        Ok(list.value["result"].clone())
    })?;
    ensure(one == other, || format!("other tools over the other transport: {other}"))
}

fn errors_across_transports(context: &Context<'_>) -> CheckResult {
    let [one, other] = ask_both(context, |peer| {
        let mut errors = Vec::new();
        let id = peer.request(json!({"method": "no/such/method"}))?;
        errors.push(peer.answer(&id)?);
        for text in [r#"{"type":"no.such.type"}"#, r#"{"type":"cancel"}"#, "{"] {
            peer.send_text(text)?;
            errors.push(peer.error()?);
        }
        let errors = errors.into_iter().map(|error| error.value["error"].clone());
        Ok(errors.map(|it| json!([it["code"], it["retryable"], it["details"]])).collect())
    })?;
    ensure(one == other, || format!("{one} is {other} over the other transport"))
}

/// Provokes errors of several kinds; broken rules are found by the trace of the connection.
fn provoke_errors(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    let id = peer.request(json!({"method": "no/such/method"}))?;
    peer.answer(&id)?;
    peer.send_text(r#"{"type":"no.such.type"}"#)?;
    peer.error()?;
    peer.send_text("{")?;
    peer.error().map(drop)
}
