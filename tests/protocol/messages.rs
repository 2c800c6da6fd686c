//! Every message that this room can say, held against the schema of its revision.

use crate::judge::judge;
use corelane::protocol::era::ClientCapabilities;
use corelane::protocol::error::{Error, Kind};
use corelane::protocol::message::{
    self, Answer, CacheHint, Listed, ServerCapabilities, ServerInfo, ToolsCapability,
};
use corelane::protocol::revision::Revision;
use corelane::protocol::rpc::Id;
use serde_json::{Value, json};

const CACHE: CacheHint = CacheHint { fresh_ms: 60_000, shared: true };

fn info() -> ServerInfo {
    ServerInfo {
        title: Some("A \"server\"".into()),
        description: Some("It serves.".into()),
        website_url: Some("https://example.com/".into()),
        ..ServerInfo::new("server", "1.0")
    }
}

fn capabilities() -> [ServerCapabilities; 3] {
    [None, Some(false), Some(true)].map(|tools| ServerCapabilities {
        tools: tools.map(|list_changed| ToolsCapability { list_changed }),
        ..ServerCapabilities::default()
    })
}

/// Judges what `write` says in `revision`, as the answer to `method`.
fn hold(revision: Revision, method: Option<&str>, write: impl FnOnce(&mut Vec<u8>)) -> Value {
    let mut out = Vec::new();
    write(&mut out);
    assert!(!out.contains(&b'\n'), "a message is one line");
    let message: Value = serde_json::from_slice(&out).expect("a message is one JSON text");
    if let Err(reason) = judge(revision.as_str(), &message, method) {
        panic!("{reason}");
    }
    message
}

/// Judges a response with the body that `write` says.
fn hold_result(revision: Revision, method: &str, write: impl FnOnce(&mut Vec<u8>)) -> Value {
    hold(revision, Some(method), |out| {
        message::result_open(out, Id::Text("7"));
        write(out);
        message::result_close(out);
    })
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
fn a_page_of_tools_fits_every_revision() {
    for revision in Revision::ALL {
        let suffix = message::result_suffix(revision, &info());
        let tool = br#"{"name":"a","inputSchema":{"type":"object"}}"#;
        for (tools, cursor) in [(0, None), (1, Some("next\"")), (3, None)] {
            let answer = hold_result(revision, "tools/list", |out| {
                let tools = std::iter::repeat_n(tool, tools);
                message::list_page(out, revision, Listed::Tools, tools, cursor, CACHE, &suffix);
            });
            assert_eq!(answer["result"]["tools"].as_array().unwrap().len(), tools);
            assert_eq!(answer["result"]["nextCursor"].as_str(), cursor);
            assert_eq!(answer["result"]["ttlMs"].is_u64(), revision.is_modern());
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
    for revision in Revision::ALL {
        let more = modern.iter().filter(|_| revision.is_modern());
        for error in everywhere.iter().chain(more) {
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
