//! Every message that this room can say, held against the schema of its revision.

use crate::judged::{CACHE, hold, hold_result, info};
use corelane::protocol::era::ClientCapabilities;
use corelane::protocol::error::{Error, Kind};
use corelane::protocol::message::{
    self, Answer, Elicitation, Listed, PromptsCapability, ResourcesCapability, ServerCapabilities,
    TasksCapability, ToolsCapability,
};
use corelane::protocol::revision::Revision;
use corelane::protocol::rpc::Id;
use serde_json::{Value, json};

/// Nothing, everything, and a part.
fn capabilities() -> [ServerCapabilities; 3] {
    let of = |said| ServerCapabilities {
        tools: Some(ToolsCapability { list_changed: said }),
        prompts: Some(PromptsCapability { list_changed: said }),
        resources: Some(ResourcesCapability { subscribe: said, list_changed: said }),
        completions: said,
        logging: said,
        tasks: Some(TasksCapability { list: said, cancel: said }),
        extensions: if said { &[("com.example/x", r#"{"a":1}"#)] } else { &[] },
    };
    [ServerCapabilities::default(), of(true), of(false)]
}

#[test]
fn a_capability_is_said_in_the_revisions_that_know_it() {
    let [_, all, _] = capabilities();
    for revision in Revision::ALL {
        let mut out = Vec::new();
        all.write(&mut out, revision);
        let said: Value = serde_json::from_slice(&out).unwrap();
        let dialect = revision.dialect();
        assert_eq!(said["tools"], json!({"listChanged": true}));
        assert_eq!(said["resources"], json!({"subscribe": true, "listChanged": true}));
        assert_eq!(said.get("completions").is_some(), dialect.completions_capability);
        assert_eq!(said.get("tasks").is_some(), dialect.core_tasks);
        assert_eq!(said.get("extensions").is_some(), dialect.extensions);
        if dialect.core_tasks {
            let calls = json!({"tools": {"call": {}}});
            assert_eq!(said["tasks"], json!({"cancel": {}, "list": {}, "requests": calls}));
        }
        if dialect.extensions {
            let tasks = "io.modelcontextprotocol/tasks";
            assert_eq!(said["extensions"], json!({tasks: {}, "com.example/x": {"a": 1}}));
        }
    }
}

#[test]
fn the_answer_to_initialize_fits_every_legacy_revision() {
    for revision in Revision::ALL.into_iter().filter(|revision| !revision.is_modern()) {
        for capabilities in capabilities() {
            let answer = hold_result(revision, "initialize", |out| {
                let instructions = Some("Call \"echo\".\n");
                message::initialize_result(out, revision, capabilities, &info(), instructions);
            });
            assert_eq!(answer["result"]["protocolVersion"], revision.as_str());
            assert_eq!(answer["result"]["instructions"], "Call \"echo\".\n");
        }
        hold_result(revision, "ping", |out| message::empty_result(out, b""));
    }
}

#[test]
fn the_answer_to_discover_fits_and_names_every_revision() {
    for capabilities in capabilities() {
        let answer = hold_result(Revision::LATEST, "server/discover", |out| {
            message::discover_result(out, capabilities, &info(), None, CACHE);
        });
        let result = &answer["result"];
        assert_eq!(result["supportedVersions"][0], Revision::LATEST.as_str());
        assert_eq!(result["cacheScope"], "public");
        let info = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
        assert_eq!(info["name"], "server");
    }
}

#[test]
fn a_page_of_any_list_fits_every_revision() {
    for revision in Revision::ALL {
        let suffix = message::result_suffix(revision, &info());
        let tool = br#"{"name":"a","inputSchema":{"type":"object"}}"#;
        for (tools, cursor) in [(0, None), (1, Some("next\"")), (3, None)] {
            let page = |listed, method, item: &[u8], key: &str| {
                let answer = hold_result(revision, method, |out| {
                    let items = std::iter::repeat_n(item, tools);
                    message::list_page(out, revision, listed, items, cursor, CACHE, &suffix);
                });
                assert_eq!(answer["result"][key].as_array().unwrap().len(), tools);
                assert_eq!(answer["result"]["nextCursor"].as_str(), cursor);
                assert_eq!(answer["result"]["ttlMs"].is_u64(), revision.is_modern());
            };
            page(Listed::Tools, "tools/list", tool, "tools");
            page(Listed::Prompts, "prompts/list", br#"{"name":"a"}"#, "prompts");
            let resource = br#"{"uri":"test://a","name":"a"}"#;
            page(Listed::Resources, "resources/list", resource, "resources");
            let template = br#"{"uriTemplate":"test://{a}","name":"a"}"#;
            let method = "resources/templates/list";
            page(Listed::ResourceTemplates, method, template, "resourceTemplates");
        }
    }
}

#[test]
fn an_answer_of_a_tool_fits_every_revision() {
    for revision in Revision::ALL {
        let suffix = message::result_suffix(revision, &info());
        let structures = [json!({"a": [1, "\"\n"]}), json!([1]), json!("x"), Value::Null];
        for structured in structures.map(Some).into_iter().chain([None]) {
            for failed in [false, true] {
                hold_result(revision, "tools/call", |out| {
                    let mut answer = Answer::open(out, revision, &suffix);
                    answer.text("one \u{1}").format(format_args!("{:?}", "two"));
                    if let Some(structured) = &structured {
                        answer.structured(structured).unwrap();
                    }
                    if failed {
                        answer.mark_failed();
                    }
                    answer.finish();
                });
            }
        }
    }
}

#[test]
fn progress_fits_every_revision() {
    for revision in Revision::ALL {
        for token in [Id::Signed(-1), Id::Signed(i64::MAX), Id::Text("t\"")] {
            for (progress, total, text) in
                [(0.0, None, None), (0.5, Some(1.0), Some("half\n")), (f64::NAN, None, None)]
            {
                let message = hold(revision, None, |out| {
                    message::progress(out, token, progress, total, text, revision);
                });
                assert_eq!(message["method"], "notifications/progress");
            }
        }
    }
}

#[test]
fn every_error_fits_every_revision_that_has_it() {
    let everywhere = [
        Error::application(7, "a \"quoted\" word"),
        Error::busy(1024),
        Error::connection_limit(),
        Error::internal("x"),
        Error::invalid_params("x").with_data(r#"{"uri":"file:///x"}"#),
        Error::invalid_request("x"),
        Error::method_not_found("resources/list\n"),
        Error::new(Kind::InvalidUtf8, "x"),
        Error::not_initialized("x"),
        Error::parse("x"),
        Error::too_large(16 << 20),
    ];
    let modern = [
        Error::header_mismatch("x"),
        Error::missing_capability(ClientCapabilities::SAMPLING),
        Error::unsupported_version("1900-01-01"),
    ];
    let visit = Elicitation::url("Sign in", "https://example.com/").with_id("e1");
    let addressed = [Error::url_elicitation_required([&visit])];
    for revision in Revision::ALL {
        let more = modern.iter().filter(|_| revision.is_modern());
        let more = more.chain(addressed.iter().filter(|_| revision.dialect().elicitation_ids));
        let missing = [Error::resource_not_found("test://x", revision)];
        for error in everywhere.iter().chain(more).chain(&missing) {
            for id in [Some(Id::Signed(7)), Some(Id::Text("a")), None] {
                let message = hold(revision, None, |out| {
                    message::error(out, id, error, Some(revision));
                });
                assert_eq!(message["error"]["code"], error.code);
                let null = id.is_none() && revision.dialect().error_id_null;
                assert_eq!(message.get("id").is_some(), id.is_some() || null);
            }
        }
    }
}
