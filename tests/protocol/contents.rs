//! Content of every kind in every revision: results of tools, prompts, resources, completions.

use crate::judged::{CACHE, hold_result, suffix};
use bytes::Bytes;
use corelane::protocol::message::{
    self, Answer, Block, Body, Content, ContentAnnotations, ContentsWriter, Icon, PromptWriter,
    ResourceContent, ResourceLink, Role,
};
use corelane::protocol::revision::Revision;
use serde_json::{Value, json};

fn link() -> ResourceLink {
    ResourceLink {
        title: Some("T".into()),
        description: Some("D".into()),
        mime_type: Some("text/plain".into()),
        size_bytes: Some(7),
        icons: vec![Icon::new("https://example.com/i.png")],
        ..ResourceLink::new("file:///a", "a")
    }
}

fn embedded() -> ResourceContent {
    let meta = json!({"com.example/a": 1}).as_object().cloned();
    ResourceContent {
        meta,
        ..ResourceContent::text("test://a", "x\n").with_mime_type("text/plain")
    }
}

/// One block of every kind, bare and with all that can be said about it.
fn blocks() -> Vec<Block> {
    let contents = [
        Content::text("t\"\n"),
        Content::image(&b"\x89PNG"[..], "image/png"),
        Content::audio(&b"RIFF"[..], "audio/wav"),
        Content::Link(link()),
        Content::Embedded(embedded()),
        Content::Embedded(ResourceContent::blob("test://b", Bytes::from_static(b"\0\xff"))),
    ];
    let annotations = ContentAnnotations {
        audience: vec![Role::User, Role::Assistant],
        priority: Some(7.0),
        last_modified_ms: Some(1_785_231_000_125),
    };
    let meta = json!({"com.example/b": {"c": null}}).as_object().cloned().expect("an object");
    let bare = contents.clone().into_iter().map(Block::from);
    let full = contents
        .into_iter()
        .map(|content| content.block().annotated(annotations.clone()).with_meta(meta.clone()));
    bare.chain(full).collect()
}

fn called(revision: Revision, say: impl Fn(&mut Answer<'_>)) -> Value {
    let suffix = suffix(revision);
    let mut answer = hold_result(revision, "tools/call", |out| {
        let mut answer = Answer::open(out, revision, &suffix);
        say(&mut answer);
        answer.finish();
    });
    answer["result"]["content"].take()
}

#[test]
fn every_block_fits_every_revision_in_results_of_tools_and_in_prompts() {
    for revision in Revision::ALL {
        let content = called(revision, |answer| {
            for block in blocks() {
                answer.block(&block);
            }
        });
        assert_eq!(content.as_array().unwrap().len(), blocks().len());
        let suffix = suffix(revision);
        let answer = hold_result(revision, "prompts/get", |out| {
            let blocks = blocks();
            let messages = blocks.iter().map(|block| (Role::Assistant, block));
            message::prompt_result(out, revision, Some("d\""), messages, &suffix);
        });
        let said = |message: &Value| message["content"].clone();
        let messages = answer["result"]["messages"].as_array().unwrap();
        assert_eq!(messages.iter().map(said).collect::<Value>(), content);
        assert_eq!(answer["result"]["description"], "d\"");
    }
}

#[test]
fn what_a_revision_lacks_is_said_in_words_or_left_out() {
    let annotated = blocks().split_off(6);
    for revision in Revision::ALL {
        let dialect = revision.dialect();
        let content = called(revision, |answer| {
            for block in &annotated {
                answer.block(block);
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
fn borrowed_content_is_written_as_the_owned_blocks_are() {
    for revision in Revision::ALL {
        let borrowed = called(revision, |answer| {
            answer.text("t").image(b"\x89PNG", "image/png").audio(b"RIFF", "audio/wav");
            answer.link(&link()).embed(&embedded());
        });
        let owned = called(revision, |answer| {
            for content in [
                Content::text("t"),
                Content::image(&b"\x89PNG"[..], "image/png"),
                Content::audio(&b"RIFF"[..], "audio/wav"),
                Content::Link(link()),
                Content::Embedded(embedded()),
            ] {
                answer.block(&content.block());
            }
        });
        assert_eq!(borrowed, owned);
    }
}

#[test]
fn a_prompt_is_written_as_it_is_said() {
    for revision in Revision::ALL {
        let suffix = suffix(revision);
        let answer = hold_result(revision, "prompts/get", |out| {
            let mut prompt = PromptWriter::open(out, revision, None, &suffix);
            prompt.text(Role::User, "a\"").format(Role::Assistant, format_args!("{}", 7));
            prompt.finish();
        });
        let message = |role, text| json!({"role": role, "content": {"type": "text", "text": text}});
        let expected = json!([message("user", "a\""), message("assistant", "7")]);
        assert_eq!(answer["result"]["messages"], expected);
    }
}

#[test]
fn contents_of_resources_fit_every_revision() {
    for revision in Revision::ALL {
        let suffix = suffix(revision);
        let held = [embedded(), ResourceContent::blob("test://b", vec![0; 7])];
        let answer = hold_result(revision, "resources/read", |out| {
            message::read_result(out, revision, &held, CACHE, &suffix);
        });
        assert_eq!(answer["result"]["contents"][1]["blob"], "AAAAAAAAAA==");
        assert_eq!(answer["result"]["ttlMs"].as_u64().is_some(), revision.is_modern());
        let said = hold_result(revision, "resources/read", |out| {
            let mut contents = ContentsWriter::open(out, revision, CACHE, &suffix);
            assert!(contents.is_empty());
            contents.content(&embedded()).blob("test://b", None, &[0; 7]);
            contents.finish();
        });
        assert_eq!(said, answer);
        assert!(matches!(&held[1].body, Body::Blob(bytes) if bytes.len() == 7));
    }
}

#[test]
fn a_completion_has_a_hundred_values_at_most_and_says_that_there_are_more() {
    for revision in Revision::ALL {
        let suffix = suffix(revision);
        for (count, total, more, said) in [
            (0, None, false, 0),
            (100, Some(100), false, 100),
            (101, None, false, 100),
            (1, Some(9), true, 1),
        ] {
            let answer = hold_result(revision, "completion/complete", |out| {
                let values = (0..count).map(|value| format!("v{value}"));
                message::completion_result(out, values, total, more, &suffix);
            });
            let completion = &answer["result"]["completion"];
            assert_eq!(completion["values"].as_array().unwrap().len(), said);
            assert_eq!(completion["total"].as_u64(), total);
            assert_eq!(completion["hasMore"], more || count > said);
        }
    }
}
