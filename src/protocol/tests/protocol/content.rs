//! Content of every type in every revision: results of tools, prompts, resources, completions.

use crate::schema_checks::{CACHE_HINT, check_response, suffix};
use bytes::Bytes;
use corelane_protocol::model::{
    self, Annotations, CallToolResultWriter, Content, ContentBlock, GetPromptResultWriter, Icon,
    ReadResourceResultWriter, ResourceBody, ResourceContents, ResourceLink, Role,
};
use corelane_protocol::revision::Revision;
use serde_json::{Value, json};

fn resource_link() -> ResourceLink {
    ResourceLink {
        title: Some("T".into()),
        description: Some("D".into()),
        mime_type: Some("text/plain".into()),
        size_bytes: Some(7),
        icons: vec![Icon::new("https://example.com/i.png")],
        ..ResourceLink::new("file:///a", "a")
    }
}

fn resource_contents() -> ResourceContents {
    let meta = json!({"com.example/a": 1}).as_object().cloned();
    ResourceContents {
        meta,
        ..ResourceContents::text("test://a", "x\n").with_mime_type("text/plain")
    }
}

/// One block of every type, without and with annotations and `_meta`.
fn blocks() -> Vec<ContentBlock> {
    let contents = [
        Content::text("t\"\n"),
        Content::image(&b"\x89PNG"[..], "image/png"),
        Content::audio(&b"RIFF"[..], "audio/wav"),
        Content::ResourceLink(resource_link()),
        Content::EmbeddedResource(resource_contents()),
        Content::EmbeddedResource(ResourceContents::blob(
            "test://b",
            Bytes::from_static(b"\0\xff"),
        )),
    ];
    let annotations = Annotations {
        audience: vec![Role::User, Role::Assistant],
        priority: Some(7.0),
        last_modified_ms: Some(1_785_231_000_125),
    };
    let meta = json!({"com.example/b": {"c": null}}).as_object().cloned().expect("an object");
    let bare = contents.clone().into_iter().map(ContentBlock::from);
    let full = contents.into_iter().map(|content| {
        content.into_block().with_annotations(annotations.clone()).with_meta(meta.clone())
    });
    bare.chain(full).collect()
}

fn tool_result_content(revision: Revision, write: impl Fn(&mut CallToolResultWriter<'_>)) -> Value {
    let suffix = suffix(revision);
    let mut response = check_response(revision, "tools/call", |out| {
        let mut result = CallToolResultWriter::open(out, revision, &suffix);
        write(&mut result);
        result.finish();
    });
    response["result"]["content"].take()
}

#[test]
fn content_block_fits_every_revision() {
    for revision in Revision::ALL {
        let content = tool_result_content(revision, |result| {
            for block in blocks() {
                result.content_block(&block);
            }
        });
        assert_eq!(content.as_array().unwrap().len(), blocks().len());
        let suffix = suffix(revision);
        let response = check_response(revision, "prompts/get", |out| {
            let blocks = blocks();
            let mut writer = GetPromptResultWriter::open(out, revision, Some("d\""), &suffix);
            for block in &blocks {
                writer.message(Role::Assistant, block);
            }
            writer.finish();
        });
        let content_of = |message: &Value| message["content"].clone();
        let messages = response["result"]["messages"].as_array().unwrap();
        assert_eq!(messages.iter().map(content_of).collect::<Value>(), content);
        assert_eq!(response["result"]["description"], "d\"");
    }
}

#[test]
fn unsupported_content_becomes_text_or_is_omitted() {
    let annotated = blocks().split_off(6);
    for revision in Revision::ALL {
        let dialect = revision.dialect();
        let content = tool_result_content(revision, |result| {
            for block in &annotated {
                result.content_block(block);
            }
        });
        let text = &content[0];
        assert_eq!(text["annotations"]["priority"], 1);
        let modified = text["annotations"].get("lastModified").and_then(Value::as_str);
        let expected = dialect.annotations_last_modified.then_some("2026-07-28T09:30:00.125Z");
        assert_eq!(modified, expected);
        assert_eq!(text.get("_meta").is_some(), dialect.meta_on_types);
        let (audio, link, embedded) = (&content[2], &content[3], &content[4]);
        if dialect.audio {
            assert_eq!(audio["data"], "UklGRg==");
        } else {
            assert_eq!(audio["text"], "[audio: audio/wav, 4 bytes]");
        }
        if dialect.resource_link {
            assert_eq!(link["uri"], "file:///a");
            assert_eq!(link.get("icons").is_some(), dialect.icons);
        } else {
            assert_eq!(link["text"], "file:///a");
        }
        assert_eq!(embedded["resource"]["text"], "x\n");
        assert_eq!(embedded["resource"].get("_meta").is_some(), dialect.meta_on_types);
    }
}

#[test]
fn borrowed_and_owned_content_encode_equally() {
    for revision in Revision::ALL {
        let borrowed = tool_result_content(revision, |result| {
            result.text("t").image(b"\x89PNG", "image/png").audio(b"RIFF", "audio/wav");
            result.resource_link(&resource_link()).embedded_resource(&resource_contents());
        });
        let owned = tool_result_content(revision, |result| {
            for content in [
                Content::text("t"),
                Content::image(&b"\x89PNG"[..], "image/png"),
                Content::audio(&b"RIFF"[..], "audio/wav"),
                Content::ResourceLink(resource_link()),
                Content::EmbeddedResource(resource_contents()),
            ] {
                result.content_block(&content.into_block());
            }
        });
        assert_eq!(borrowed, owned);
    }
}

#[test]
fn prompt_messages_keep_call_order() {
    for revision in Revision::ALL {
        let suffix = suffix(revision);
        let response = check_response(revision, "prompts/get", |out| {
            let mut prompt = GetPromptResultWriter::open(out, revision, None, &suffix);
            prompt.text(Role::User, "a\"").format(Role::Assistant, format_args!("{}", 7));
            prompt.finish();
        });
        let message = |role, text| json!({"role": role, "content": {"type": "text", "text": text}});
        let expected = json!([message("user", "a\""), message("assistant", "7")]);
        assert_eq!(response["result"]["messages"], expected);
    }
}

#[test]
fn resource_contents_fit_every_revision() {
    for revision in Revision::ALL {
        let suffix = suffix(revision);
        let contents = [resource_contents(), ResourceContents::blob("test://b", vec![0; 7])];
        let response = check_response(revision, "resources/read", |out| {
            let mut writer = ReadResourceResultWriter::open(out, revision, CACHE_HINT, &suffix);
            for content in &contents {
                writer.content(content);
            }
            writer.finish();
        });
        assert_eq!(response["result"]["contents"][1]["blob"], "AAAAAAAAAA==");
        assert_eq!(response["result"]["ttlMs"].as_u64().is_some(), revision.is_modern());
        let streamed = check_response(revision, "resources/read", |out| {
            let mut writer = ReadResourceResultWriter::open(out, revision, CACHE_HINT, &suffix);
            assert!(writer.is_empty());
            writer.content(&resource_contents()).blob("test://b", None, &[0; 7]);
            writer.finish();
        });
        assert_eq!(streamed, response);
        assert!(matches!(&contents[1].body, ResourceBody::Blob(bytes) if bytes.len() == 7));
    }
}

#[test]
fn completion_is_truncated_to_a_hundred_values() {
    for revision in Revision::ALL {
        let suffix = suffix(revision);
        for (count, total, has_more, written) in [
            (0, None, false, 0),
            (100, Some(100), false, 100),
            (101, None, false, 100),
            (1, Some(9), true, 1),
        ] {
            let response = check_response(revision, "completion/complete", |out| {
                let values = (0..count).map(|value| format!("v{value}"));
                model::write_complete_result(out, values, total, has_more, &suffix);
            });
            let completion = &response["result"]["completion"];
            assert_eq!(completion["values"].as_array().unwrap().len(), written);
            assert_eq!(completion["total"].as_u64(), total);
            assert_eq!(completion["hasMore"], has_more || count > written);
        }
    }
}
