//! What the server asks, in every era, and what it makes of the answers.

use crate::judged::{hold, hold_result, suffix};
use corelane::protocol::era::ClientCapabilities as Has;
use corelane::protocol::message::{
    self, Action, Content, Elicitation, Field, Form, IncludeContext, InputRequest, InputResponse,
    ModelPreferences, ResourceContent, ResourceLink, Role, Root, Sampling, SamplingTool, Spoken,
    ToolChoice,
};
use corelane::protocol::revision::Revision;
use corelane::protocol::rpc::Id;
use serde_json::{Map, Value, json};

fn plain_form() -> InputRequest {
    let form = Form::new().field(Field::text("name").required()).field(Field::integer("age"));
    InputRequest::Elicit(Elicitation::form("Who?", form))
}

fn visit() -> InputRequest {
    InputRequest::Elicit(Elicitation::url("Sign in", "https://example.com/?a=%22b"))
}

fn conversation() -> InputRequest {
    let used = Spoken::ToolUse { id: "u".into(), name: "add".into(), input: Map::new() };
    let result = Spoken::ToolResult {
        tool_use_id: "u".into(),
        content: vec![Content::text("3"), Content::Link(ResourceLink::new("file:///a", "a"))],
        is_error: true,
    };
    let tool = SamplingTool {
        name: "add".into(),
        description: Some("Adds.".into()),
        input_schema: json!({"type": "object"}),
    };
    let preferences = ModelPreferences {
        hints: vec!["small".into(), "fast".into()],
        cost: Some(2.0),
        speed: Some(f64::NAN),
        intelligence: Some(0.5),
    };
    let sampling = Sampling::new(100)
        .message(Role::User, Content::text("1 + 2?"))
        .message(Role::User, Content::image(&b"\x89PNG"[..], "image/png"))
        .message(Role::User, Content::audio(&b"RIFF"[..], "audio/wav"))
        .message(Role::User, Content::Embedded(ResourceContent::text("test://a", "x")))
        .messages(Role::Assistant, [Spoken::from(Content::text("I add.")), used])
        .messages(Role::User, [result])
        .system_prompt("Be brief.")
        .include_context(IncludeContext::ThisServer)
        .temperature(0.5)
        .stop_sequences(["\n"])
        .preferences(preferences)
        .metadata(Map::from_iter([("a".to_owned(), json!(1))]))
        .tools([tool])
        .tool_choice(ToolChoice::Auto);
    InputRequest::Sample(Box::new(sampling))
}

fn simple_sampling() -> InputRequest {
    let sampling = Sampling::new(10).message(Role::User, Content::text("Capital of France?"));
    InputRequest::Sample(Box::new(sampling))
}

fn questions() -> Vec<InputRequest> {
    vec![plain_form(), visit(), conversation(), simple_sampling(), InputRequest::Roots]
}

#[test]
fn a_question_fits_every_legacy_revision_as_a_request() {
    for revision in Revision::ALL.into_iter().filter(|revision| !revision.is_modern()) {
        for question in questions() {
            if question == visit() && !revision.dialect().elicitation_url {
                continue;
            }
            for (id, task) in [(Id::Signed(7), None), (Id::Text("q\""), Some("t1"))] {
                let said = hold(revision, None, |out| {
                    message::request(out, id, &question, revision, task);
                });
                assert_eq!(said["method"], question.method());
                let meta = &said["params"]["_meta"];
                assert_eq!(meta["progressToken"], said["id"]);
                let related = &meta["io.modelcontextprotocol/related-task"]["taskId"];
                let expected = task.filter(|_| revision.dialect().core_tasks);
                assert_eq!(related.as_str(), expected);
            }
        }
    }
}

#[test]
fn an_address_carries_an_id_where_the_revision_has_one() {
    let said = hold(Revision::V2025_11_25, None, |out| {
        message::request(out, Id::Signed(7), &visit(), Revision::V2025_11_25, None);
    });
    assert_eq!(said["params"]["elicitationId"], "7");
    let own = InputRequest::Elicit(Elicitation::url("m", "https://example.com/").with_id("e"));
    let said = hold(Revision::V2025_11_25, None, |out| {
        message::request(out, Id::Text("x"), &own, Revision::V2025_11_25, None);
    });
    assert_eq!(said["params"]["elicitationId"], "e");
    let mut out = Vec::new();
    own.write_embedded(&mut out);
    let embedded: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(
        embedded["params"],
        json!({"mode": "url", "message": "m", "url": "https://example.com/"})
    );
}

#[test]
fn a_conversation_says_what_the_revision_knows() {
    for revision in Revision::ALL {
        let mut out = Vec::new();
        conversation().write_params(&mut out, revision, Id::Signed(1));
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
            assert_eq!(messages[5]["content"]["text"], "[used the tool add]");
        }
    }
}

#[test]
fn a_result_that_asks_holds_questions_or_a_state_or_both() {
    let revision = Revision::LATEST;
    let suffix = suffix(revision);
    let asked = questions();
    let keyed = || asked.iter().enumerate().map(|(index, asked)| (KEYS[index], asked));
    for (method, count, state) in
        [("tools/call", 5, None), ("prompts/get", 5, Some("s\"")), ("resources/read", 0, Some(""))]
    {
        let answer = hold_result(revision, method, |out| {
            message::input_required_body(out, keyed().take(count), state, &suffix);
        });
        let result = &answer["result"];
        assert_eq!(result["resultType"], "input_required");
        assert_eq!(result["requestState"].as_str(), state);
        assert_eq!(result["inputRequests"].as_object().map_or(0, Map::len), count);
        assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "server");
        assert!(result.get("ttlMs").is_none());
    }
}

const KEYS: [&str; 5] = ["form", "visit", "talk", "ask", "roots\""];

#[test]
fn a_question_names_what_its_client_must_be_able_to_do() {
    for (question, needs) in [
        (plain_form(), Has::ELICITATION_FORM),
        (visit(), Has::ELICITATION_URL),
        (simple_sampling(), Has::SAMPLING),
        (conversation(), Has::SAMPLING.with(Has::SAMPLING_TOOLS)),
        (InputRequest::Roots, Has::ROOTS),
    ] {
        assert_eq!(question.needs(), needs);
        for revision in Revision::ALL {
            let dialect = revision.dialect();
            let expected = match needs {
                Has::ELICITATION_FORM => dialect.elicitation,
                Has::ELICITATION_URL => dialect.elicitation_url,
                _ => true,
            };
            assert_eq!(question.is_in(revision), expected);
        }
    }
}

#[test]
fn an_answer_is_read_as_the_question_asked() {
    let read = |question: InputRequest, answer: Value| question.read_response(&answer).unwrap();
    let answer = json!({"action": "accept", "content": {"name": "octocat", "age": 8, "x": 1}});
    let InputResponse::Elicited(elicited) = read(plain_form(), answer) else { panic!() };
    assert_eq!(elicited.action, Action::Accept);
    assert_eq!(Value::Object(elicited.content), json!({"name": "octocat", "age": 8}));
    for action in ["decline", "cancel"] {
        let answer = json!({"action": action, "content": {"name": 7}});
        let InputResponse::Elicited(elicited) = read(plain_form(), answer) else { panic!() };
        assert_eq!(elicited.action.as_str(), action);
        assert!(elicited.content.is_empty());
    }
    let InputResponse::Elicited(visited) = read(visit(), json!({"action": "accept"})) else {
        panic!()
    };
    assert!(visited.content.is_empty());
    let answer = json!({"roots": [{"uri": "file:///p", "name": "p"}, {"uri": "file:///q"}]});
    let InputResponse::Roots(roots) = read(InputRequest::Roots, answer) else { panic!() };
    assert_eq!(roots[0], Root { uri: "file:///p".into(), name: Some("p".into()) });
    assert_eq!(roots.len(), 2);
}

#[test]
fn what_a_model_said_can_be_said_to_it_again() {
    let blocks = json!([
        {"type": "text", "text": "I add."},
        {"type": "image", "data": "iVBORw==", "mimeType": "image/png"},
        {"type": "tool_use", "id": "u", "name": "add", "input": {"a": 1}},
    ]);
    for content in [blocks.clone(), blocks[0].clone()] {
        let answer =
            json!({"role": "assistant", "content": content, "model": "m", "stopReason": "toolUse"});
        let Ok(InputResponse::Sampled(sampled)) = simple_sampling().read_response(&answer) else {
            panic!()
        };
        assert_eq!(sampled.text(), Some("I add."));
        assert_eq!(sampled.stop_reason.as_deref(), Some("toolUse"));
        let again = Sampling::new(1).messages(sampled.role, sampled.content);
        let mut out = Vec::new();
        let again = InputRequest::Sample(Box::new(again));
        again.write_params(&mut out, Revision::LATEST, Id::Signed(1));
        let params: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(params["messages"][0]["content"], content);
    }
}

#[test]
fn a_malformed_answer_is_refused_with_the_name_of_what_is_wrong() {
    let text = json!({"type": "text", "text": "x"});
    for (question, answer, name) in [
        (plain_form(), json!(7), "elicitation/create"),
        (plain_form(), json!({}), "action"),
        (plain_form(), json!({"action": "yes"}), "action"),
        (plain_form(), json!({"action": "accept"}), "content.name"),
        (plain_form(), json!({"action": "accept", "content": []}), "content"),
        (plain_form(), json!({"action": "accept", "content": {"name": 7}}), "content.name"),
        (plain_form(), json!({"action": "accept", "content": {"name": null}}), "content.name"),
        (
            plain_form(),
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
        (InputRequest::Roots, json!({}), "roots"),
        (InputRequest::Roots, json!({"roots": [7]}), "root"),
        (InputRequest::Roots, json!({"roots": [{"name": "p"}]}), "uri"),
        (InputRequest::Roots, json!({"roots": [{"uri": "file:///p", "name": 7}]}), "name"),
    ] {
        let error = question.read_response(&answer).unwrap_err();
        assert_eq!(error.code, -32602, "{answer}");
        assert!(error.message.contains(name), "{answer}: {error}");
    }
}
