//! Every message of the server, validated against the schema of its revision.

use crate::schema_checks::{CACHE_HINT, check_encoded, check_response, server_info};
use corelane_protocol::eras::ClientCapabilities;
use corelane_protocol::error::Error;
use corelane_protocol::jsonrpc::Id;
use corelane_protocol::model::{
    self, CallToolResultWriter, ElicitRequest, ListKind, PromptsCapability, ResourcesCapability,
    ServerCapabilities, TasksCapability, ToolsCapability,
};
use corelane_protocol::revision::Revision;
use serde_json::{Value, json};

/// No capabilities, all with their options, all without options.
fn capabilities() -> [ServerCapabilities; 3] {
    let with_options = |is_set| ServerCapabilities {
        tools: Some(ToolsCapability { list_changed: is_set }),
        prompts: Some(PromptsCapability { list_changed: is_set }),
        resources: Some(ResourcesCapability { subscribe: is_set, list_changed: is_set }),
        completions: is_set,
        logging: is_set,
        tasks: Some(TasksCapability { list: is_set, cancel: is_set }),
        extensions: if is_set { &[("com.example/x", r#"{"a":1}"#)] } else { &[] },
    };
    [ServerCapabilities::default(), with_options(true), with_options(false)]
}

#[test]
fn server_capabilities_depend_on_revision() {
    let [_, all, _] = capabilities();
    for revision in Revision::ALL {
        let mut out = Vec::new();
        all.write(&mut out, revision);
        let written: Value = serde_json::from_slice(&out).unwrap();
        let dialect = revision.dialect();
        assert_eq!(written["tools"], json!({"listChanged": true}));
        assert_eq!(written["resources"], json!({"subscribe": true, "listChanged": true}));
        assert_eq!(written.get("completions").is_some(), dialect.completions_capability);
        assert_eq!(written.get("tasks").is_some(), dialect.core_tasks);
        assert_eq!(written.get("extensions").is_some(), dialect.extensions);
        if dialect.core_tasks {
            let calls = json!({"tools": {"call": {}}});
            assert_eq!(written["tasks"], json!({"cancel": {}, "list": {}, "requests": calls}));
        }
        if dialect.extensions {
            let tasks = "io.modelcontextprotocol/tasks";
            assert_eq!(written["extensions"], json!({tasks: {}, "com.example/x": {"a": 1}}));
        }
    }
}

#[test]
fn initialize_result_fits_every_legacy_revision() {
    for revision in Revision::ALL.into_iter().filter(|revision| !revision.is_modern()) {
        for capabilities in capabilities() {
            let response = check_response(revision, "initialize", |out| {
                let instructions = Some("Call \"echo\".\n");
                model::write_initialize_result(
                    out,
                    revision,
                    capabilities,
                    &server_info(),
                    instructions,
                );
            });
            assert_eq!(response["result"]["protocolVersion"], revision.as_str());
            assert_eq!(response["result"]["instructions"], "Call \"echo\".\n");
        }
        check_response(revision, "ping", |out| model::write_empty_result(out, b""));
    }
}

#[test]
fn discover_result_names_every_revision() {
    for capabilities in capabilities() {
        let response = check_response(Revision::LATEST, "server/discover", |out| {
            model::write_discover_result(out, capabilities, &server_info(), None, CACHE_HINT);
        });
        let result = &response["result"];
        assert_eq!(result["supportedVersions"][0], Revision::LATEST.as_str());
        assert_eq!(result["cacheScope"], "public");
        let info = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
        assert_eq!(info["name"], "server");
    }
}

#[test]
fn list_result_fits_every_revision() {
    for revision in Revision::ALL {
        let suffix = model::result_suffix(revision, &server_info());
        let tool = br#"{"name":"a","inputSchema":{"type":"object"}}"#;
        for (tools, cursor) in [(0, None), (1, Some("next\"")), (3, None)] {
            let page = |listed, method, item: &[u8], key: &str| {
                let response = check_response(revision, method, |out| {
                    let items = std::iter::repeat_n(item, tools);
                    model::write_list_result(
                        out, revision, listed, items, cursor, CACHE_HINT, &suffix,
                    );
                });
                assert_eq!(response["result"][key].as_array().unwrap().len(), tools);
                assert_eq!(response["result"]["nextCursor"].as_str(), cursor);
                assert_eq!(response["result"]["ttlMs"].is_u64(), revision.is_modern());
            };
            page(ListKind::Tools, "tools/list", tool, "tools");
            page(ListKind::Prompts, "prompts/list", br#"{"name":"a"}"#, "prompts");
            let resource = br#"{"uri":"test://a","name":"a"}"#;
            page(ListKind::Resources, "resources/list", resource, "resources");
            let template = br#"{"uriTemplate":"test://{a}","name":"a"}"#;
            let method = "resources/templates/list";
            page(ListKind::ResourceTemplates, method, template, "resourceTemplates");
        }
    }
}

#[test]
fn call_tool_result_fits_every_revision() {
    for revision in Revision::ALL {
        let suffix = model::result_suffix(revision, &server_info());
        let structures = [json!({"a": [1, "\"\n"]}), json!([1]), json!("x"), Value::Null];
        for structured in structures.map(Some).into_iter().chain([None]) {
            for is_error in [false, true] {
                check_response(revision, "tools/call", |out| {
                    let mut result = CallToolResultWriter::open(out, revision, &suffix);
                    result.text("one \u{1}").format(format_args!("{:?}", "two"));
                    if let Some(structured) = &structured {
                        result.structured_content(structured).unwrap();
                    }
                    if is_error {
                        result.mark_error();
                    }
                    result.finish();
                });
            }
        }
    }
}

#[test]
fn progress_notification_fits_every_revision() {
    for revision in Revision::ALL {
        for token in [Id::Signed(-1), Id::Signed(i64::MAX), Id::Text("t\"")] {
            for (progress, total, text) in
                [(0.0, None, None), (0.5, Some(1.0), Some("half\n")), (f64::NAN, None, None)]
            {
                let message = check_encoded(revision, None, |out| {
                    model::write_progress(out, token, progress, total, text, revision);
                });
                assert_eq!(message["method"], "notifications/progress");
            }
        }
    }
}

#[test]
fn error_response_fits_every_revision() {
    let all_revisions = [
        Error::application(7, "a \"quoted\" word"),
        Error::too_many_requests(1024),
        Error::connection_limit(),
        Error::draining(),
        Error::internal("x"),
        Error::invalid_params("x").with_data(r#"{"uri":"file:///x"}"#),
        Error::invalid_request("x"),
        Error::method_not_found("resources/list\n"),
        Error::not_initialized("x"),
        Error::parse("x"),
        Error::message_too_large(16 << 20),
    ];
    let modern = [
        Error::header_mismatch("x"),
        Error::missing_capability(ClientCapabilities::SAMPLING),
        Error::unsupported_protocol_version("1900-01-01"),
    ];
    let url_request = ElicitRequest::url("Sign in", "https://example.com/").with_id("e1");
    let with_url = [Error::url_elicitation_required([&url_request])];
    for revision in Revision::ALL {
        let specific = modern.iter().filter(|_| revision.is_modern());
        let specific =
            specific.chain(with_url.iter().filter(|_| revision.dialect().elicitation_ids));
        let not_found = [Error::resource_not_found("test://x", revision)];
        for error in all_revisions.iter().chain(specific).chain(&not_found) {
            for id in [Some(Id::Signed(7)), Some(Id::Text("a")), None] {
                let message = check_encoded(revision, None, |out| {
                    model::write_error_response(out, id, error, Some(revision));
                });
                assert_eq!(message["error"]["code"], error.code);
                let null = id.is_none() && revision.dialect().error_id_null;
                assert_eq!(message.get("id").is_some(), id.is_some() || null);
            }
        }
    }
}
