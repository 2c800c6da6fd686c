//! Requests from server to client in every era, and the results of clients.

use crate::schema_checks::{check_encoded, check_response, suffix};
use corelane_protocol::eras::ClientCapabilities as Capabilities;
use corelane_protocol::jsonrpc::Id;
use corelane_protocol::model::{
    self, Content, CreateMessageRequest, ElicitAction, ElicitRequest, Field, Form, IncludeContext,
    InputRequest, InputResponse, ModelPreferences, ResourceContents, ResourceLink, Role, Root,
    SamplingMessageContentBlock, SamplingTool, ToolChoice,
};
use corelane_protocol::revision::Revision;
use serde_json::{Map, Value, json};

fn form_request() -> InputRequest {
    let form = Form::new().field(Field::text("name").required()).field(Field::integer("age"));
    InputRequest::Elicit(ElicitRequest::form("Who?", form))
}

fn url_request() -> InputRequest {
    InputRequest::Elicit(ElicitRequest::url("Sign in", "https://example.com/?a=%22b"))
}

fn sampling_with_tools() -> InputRequest {
    let tool_use = SamplingMessageContentBlock::ToolUse {
        id: "u".into(),
        name: "add".into(),
        input: Map::new(),
    };
    let result = SamplingMessageContentBlock::ToolResult {
        tool_use_id: "u".into(),
        content: vec![
            Content::text("3"),
            Content::ResourceLink(ResourceLink::new("file:///a", "a")),
        ],
        is_error: true,
    };
    let tool = SamplingTool {
        name: "add".into(),
        description: Some("Adds.".into()),
        input_schema: json!({"type": "object"}),
    };
    let preferences = ModelPreferences {
        hints: vec!["small".into(), "fast".into()],
        cost_priority: Some(2.0),
        speed_priority: Some(f64::NAN),
        intelligence_priority: Some(0.5),
    };
    let sampling = CreateMessageRequest::new(100)
        .message(Role::User, Content::text("1 + 2?"))
        .message(Role::User, Content::image(&b"\x89PNG"[..], "image/png"))
        .message(Role::User, Content::audio(&b"RIFF"[..], "audio/wav"))
        .message(Role::User, Content::EmbeddedResource(ResourceContents::text("test://a", "x")))
        .messages(
            Role::Assistant,
            [SamplingMessageContentBlock::from(Content::text("I add.")), tool_use],
        )
        .messages(Role::User, [result])
        .system_prompt("Be brief.")
        .include_context(IncludeContext::ThisServer)
        .temperature(0.5)
        .stop_sequences(["\n"])
        .model_preferences(preferences)
        .metadata(Map::from_iter([("a".to_owned(), json!(1))]))
        .tools([tool])
        .tool_choice(ToolChoice::Auto);
    InputRequest::CreateMessage(Box::new(sampling))
}

fn simple_sampling() -> InputRequest {
    let sampling =
        CreateMessageRequest::new(10).message(Role::User, Content::text("Capital of France?"));
    InputRequest::CreateMessage(Box::new(sampling))
}

fn requests() -> Vec<InputRequest> {
    vec![
        form_request(),
        url_request(),
        sampling_with_tools(),
        simple_sampling(),
        InputRequest::ListRoots,
    ]
}

#[test]
fn server_request_fits_every_legacy_revision() {
    for revision in Revision::ALL.into_iter().filter(|revision| !revision.is_modern()) {
        for request in requests() {
            if request == url_request() && !revision.dialect().elicitation_url {
                continue;
            }
            for (id, task) in [(Id::Signed(7), None), (Id::Text("q\""), Some("t1"))] {
                let sent = check_encoded(revision, None, |out| {
                    model::write_server_request(out, id, &request, revision, task);
                });
                assert_eq!(sent["method"], request.method());
                let meta = &sent["params"]["_meta"];
                assert_eq!(meta["progressToken"], sent["id"]);
                let related = &meta["io.modelcontextprotocol/related-task"]["taskId"];
                let expected = task.filter(|_| revision.dialect().core_tasks);
                assert_eq!(related.as_str(), expected);
            }
        }
    }
}

#[test]
fn url_elicitation_has_id_in_2025_11_25() {
    let sent = check_encoded(Revision::V2025_11_25, None, |out| {
        model::write_server_request(
            out,
            Id::Signed(7),
            &url_request(),
            Revision::V2025_11_25,
            None,
        );
    });
    assert_eq!(sent["params"]["elicitationId"], "7");
    let with_id =
        InputRequest::Elicit(ElicitRequest::url("m", "https://example.com/").with_id("e"));
    let sent = check_encoded(Revision::V2025_11_25, None, |out| {
        model::write_server_request(out, Id::Text("x"), &with_id, Revision::V2025_11_25, None);
    });
    assert_eq!(sent["params"]["elicitationId"], "e");
    let mut out = Vec::new();
    with_id.write_input_request(&mut out);
    let embedded: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(
        embedded["params"],
        json!({"mode": "url", "message": "m", "url": "https://example.com/"})
    );
}

#[test]
fn sampling_params_depend_on_revision() {
    for revision in Revision::ALL {
        let mut out = Vec::new();
        sampling_with_tools().write_params(&mut out, revision, Id::Signed(1));
        let params: Value = serde_json::from_slice(&out).unwrap();
        let messages = params["messages"].as_array().unwrap();
        let has_tools = revision.dialect().sampling_tools;
        assert_eq!(messages.len(), if has_tools { 6 } else { 7 });
        assert_eq!(params.get("tools").is_some(), has_tools);
        assert_eq!(params.get("toolChoice").is_some(), has_tools);
        assert_eq!(params["modelPreferences"]["costPriority"], 1);
        assert!(params["modelPreferences"].get("speedPriority").is_none());
        assert_eq!(messages[3]["content"], json!({"type": "text", "text": "x"}));
        if has_tools {
            assert_eq!(messages[4]["content"][1]["type"], "tool_use");
            assert_eq!(messages[5]["content"]["toolUseId"], "u");
        } else {
            assert_eq!(messages[5]["content"]["text"], "[tool use: add]");
        }
    }
}

#[test]
fn input_required_result_has_requests_or_state() {
    let revision = Revision::LATEST;
    let suffix = suffix(revision);
    let requests = requests();
    let keyed = || requests.iter().enumerate().map(|(index, request)| (KEYS[index], request));
    for (method, count, state) in
        [("tools/call", 5, None), ("prompts/get", 5, Some("s\"")), ("resources/read", 0, Some(""))]
    {
        let response = check_response(revision, method, |out| {
            model::write_input_required_result(out, keyed().take(count), state, &suffix);
        });
        let result = &response["result"];
        assert_eq!(result["resultType"], "input_required");
        assert_eq!(result["requestState"].as_str(), state);
        assert_eq!(result["inputRequests"].as_object().map_or(0, Map::len), count);
        assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "server");
        assert!(result.get("ttlMs").is_none());
    }
}

const KEYS: [&str; 5] = ["form", "visit", "talk", "ask", "roots\""];

#[test]
fn input_request_requires_client_capabilities() {
    for (request, required) in [
        (form_request(), Capabilities::ELICITATION_FORM),
        (url_request(), Capabilities::ELICITATION_URL),
        (simple_sampling(), Capabilities::SAMPLING),
        (sampling_with_tools(), Capabilities::SAMPLING.union(Capabilities::SAMPLING_TOOLS)),
        (InputRequest::ListRoots, Capabilities::ROOTS),
    ] {
        assert_eq!(request.required_capabilities(), required);
        for revision in Revision::ALL {
            let dialect = revision.dialect();
            let expected = match required {
                Capabilities::ELICITATION_FORM => dialect.elicitation,
                Capabilities::ELICITATION_URL => dialect.elicitation_url,
                _ => true,
            };
            assert_eq!(request.is_defined_in(revision), expected);
        }
    }
}

#[test]
fn client_result_is_read_by_its_request() {
    let read = |request: InputRequest, result: Value| request.read_response(&result).unwrap();
    let result = json!({"action": "accept", "content": {"name": "octocat", "age": 8, "x": 1}});
    let InputResponse::Elicit(elicited) = read(form_request(), result) else { panic!() };
    assert_eq!(elicited.action, ElicitAction::Accept);
    assert_eq!(Value::Object(elicited.content), json!({"name": "octocat", "age": 8}));
    for action in ["decline", "cancel"] {
        let result = json!({"action": action, "content": {"name": 7}});
        let InputResponse::Elicit(elicited) = read(form_request(), result) else { panic!() };
        assert_eq!(elicited.action.as_str(), action);
        assert!(elicited.content.is_empty());
    }
    let InputResponse::Elicit(elicited) = read(url_request(), json!({"action": "accept"})) else {
        panic!()
    };
    assert!(elicited.content.is_empty());
    let result = json!({"roots": [{"uri": "file:///p", "name": "p"}, {"uri": "file:///q"}]});
    let InputResponse::ListRoots(roots) = read(InputRequest::ListRoots, result) else { panic!() };
    assert_eq!(roots[0], Root { uri: "file:///p".into(), name: Some("p".into()) });
    assert_eq!(roots.len(), 2);
}

#[test]
fn create_message_result_content_can_be_sent_back() {
    let blocks = json!([
        {"type": "text", "text": "I add."},
        {"type": "image", "data": "iVBORw==", "mimeType": "image/png"},
        {"type": "tool_use", "id": "u", "name": "add", "input": {"a": 1}},
    ]);
    for content in [blocks.clone(), blocks[0].clone()] {
        let result =
            json!({"role": "assistant", "content": content, "model": "m", "stopReason": "toolUse"});
        let Ok(InputResponse::CreateMessage(sampled)) = simple_sampling().read_response(&result)
        else {
            panic!()
        };
        assert_eq!(sampled.text(), Some("I add."));
        assert_eq!(sampled.stop_reason.as_deref(), Some("toolUse"));
        let request = CreateMessageRequest::new(1).messages(sampled.role, sampled.content);
        let mut out = Vec::new();
        let request = InputRequest::CreateMessage(Box::new(request));
        request.write_params(&mut out, Revision::LATEST, Id::Signed(1));
        let params: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(params["messages"][0]["content"], content);
    }
}

#[test]
fn malformed_client_result_error_names_its_member() {
    let text = json!({"type": "text", "text": "x"});
    for (request, result, name) in [
        (form_request(), json!(7), "elicitation/create"),
        (form_request(), json!({}), "action"),
        (form_request(), json!({"action": "yes"}), "action"),
        (form_request(), json!({"action": "accept"}), "content.name"),
        (form_request(), json!({"action": "accept", "content": []}), "content"),
        (form_request(), json!({"action": "accept", "content": {"name": 7}}), "content.name"),
        (form_request(), json!({"action": "accept", "content": {"name": null}}), "content.name"),
        (
            form_request(),
            json!({"action": "accept", "content": {"name": "a", "age": 1.5}}),
            "content.age",
        ),
        (simple_sampling(), json!({"content": text, "model": "m"}), "role"),
        (simple_sampling(), json!({"role": "system", "content": text, "model": "m"}), "role"),
        (simple_sampling(), json!({"role": "user", "model": "m"}), "content"),
        (simple_sampling(), json!({"role": "user", "content": text}), "model"),
        (simple_sampling(), json!({"role": "user", "content": "x", "model": "m"}), "content"),
        (
            simple_sampling(),
            json!({"role": "user", "content": {"type": "text"}, "model": "m"}),
            "text",
        ),
        (
            simple_sampling(),
            json!({"role": "user", "content": {"type": "film"}, "model": "m"}),
            "type",
        ),
        (
            simple_sampling(),
            json!({"role": "user", "model": "m", "content":
                {"type": "image", "data": "!", "mimeType": "a/b"}}),
            "data",
        ),
        (
            simple_sampling(),
            json!({"role": "user", "model": "m", "content": [{"type": "tool_use", "id": "u"}]}),
            "name",
        ),
        (
            simple_sampling(),
            json!({"role": "user", "content": text, "model": "m", "stopReason": 1}),
            "stopReason",
        ),
        (InputRequest::ListRoots, json!({}), "roots"),
        (InputRequest::ListRoots, json!({"roots": [7]}), "root"),
        (InputRequest::ListRoots, json!({"roots": [{"name": "p"}]}), "uri"),
        (InputRequest::ListRoots, json!({"roots": [{"uri": "file:///p", "name": 7}]}), "name"),
    ] {
        let error = request.read_response(&result).unwrap_err();
        assert_eq!(error.code, -32602, "{result}");
        assert!(error.message.contains(name), "{result}: {error}");
    }
}
