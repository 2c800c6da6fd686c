//! The demo services do what they say, within their bounds.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use corelane::protocol::message::ServerInfo;
use corelane::protocol::revision::Revision;
use corelane::service::{Catalog, demo};
use serde_json::json;

use crate::stage::{Pool, Stage, call, call_watched};

fn catalog() -> Catalog {
    demo::catalog(ServerInfo::new("demo", "1.0.0")).expect("the demo tools are good ones")
}

#[test]
fn echo_sends_back_every_character() {
    let message = "a \"quoted\" \\ line\n\t\u{1}é😀";
    let params = json!({ "name": "echo", "arguments": { "message": message } });
    for revision in Revision::ALL {
        let result = call(&catalog(), revision, &params.to_string()).unwrap();
        assert_eq!(result["content"], json!([{ "type": "text", "text": message }]));
        assert_eq!(result.get("isError"), None);
    }
}

#[test]
fn add_answers_with_a_structure_where_the_revision_has_one() {
    let params = r#"{"name":"add","arguments":{"a":1,"b":2.5}}"#;
    for revision in Revision::ALL {
        let result = call(&catalog(), revision, params).unwrap();
        assert_eq!(result["content"][0]["text"], r#"{"sum":3.5}"#);
        let structured = revision.dialect().structured_content.then(|| json!({ "sum": 3.5 }));
        assert_eq!(result.get("structuredContent"), structured.as_ref());
    }
}

#[test]
fn a_sum_beyond_all_numbers_is_a_failure_and_no_broken_json() {
    let params = r#"{"name":"add","arguments":{"a":1.7e308,"b":1.7e308}}"#;
    let result = call(&catalog(), Revision::LATEST, params).unwrap();
    assert_eq!(result["isError"], true);
}

#[test]
fn slow_tells_every_step() {
    let (stage, pool) = (Rc::new(Stage::default()), Arc::new(Pool::default()));
    let params = r#"{"name":"slow","arguments":{"steps":3,"step_ms":40}}"#;
    let seen = Rc::clone(&stage);
    let result = call_watched(&catalog(), Revision::LATEST, params, stage, pool).unwrap();
    assert_eq!(result["content"][0]["text"], "took 3 steps of 40 ms");
    assert_eq!(*seen.progress.borrow(), [(1.0, Some(3.0)), (2.0, Some(3.0)), (3.0, Some(3.0))]);
    assert_eq!(seen.slept.get(), Duration::from_millis(120));
}

#[test]
fn slow_stops_where_it_is_cancelled() {
    let stage = Rc::new(Stage { cancel_after: Some(2).into(), ..Stage::default() });
    let params = r#"{"name":"slow","arguments":{"steps":1000,"step_ms":1}}"#;
    let seen = Rc::clone(&stage);
    let result = call_watched(&catalog(), Revision::LATEST, params, stage, Arc::default()).unwrap();
    assert_eq!(result["isError"], true);
    assert_eq!(seen.progress.borrow().len(), 2);
}

#[test]
fn hash_hashes_the_bytes_it_generates() {
    for bytes in [0, 1, 251, 64_256, 64_257, 200_000] {
        let expected =
            (0..=250_u8).cycle().take(bytes).fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
            });
        let params = json!({ "name": "hash", "arguments": { "bytes": bytes } });
        let result = call(&catalog(), Revision::LATEST, &params.to_string()).unwrap();
        let structured = &result["structuredContent"];
        assert_eq!(structured["hash"], format!("{expected:016x}"), "{bytes} bytes");
        assert_eq!(structured["bytes"], bytes);
        assert_eq!(structured["algorithm"], "FNV-1a-64");
    }
}

#[test]
fn hash_tells_progress_now_and_then_and_hears_of_cancellation() {
    let params = r#"{"name":"hash","arguments":{"bytes":40000000}}"#;
    let pool = Arc::new(Pool::default());
    let seen = Arc::clone(&pool);
    call_watched(&catalog(), Revision::LATEST, params, Rc::default(), pool).unwrap();
    assert_eq!(seen.progress_count.load(Ordering::Relaxed), 3);

    let pool = Arc::new(Pool { is_cancelled: true, ..Pool::default() });
    let seen = Arc::clone(&pool);
    let result = call_watched(&catalog(), Revision::LATEST, params, Rc::default(), pool).unwrap();
    assert_eq!(result["isError"], true);
    assert_eq!(seen.progress_count.load(Ordering::Relaxed), 0);
}

#[test]
fn what_a_call_may_cost_is_bounded() {
    for params in [
        r#"{"name":"hash","arguments":{"bytes":1073741825}}"#,
        r#"{"name":"hash","arguments":{"bytes":-1}}"#,
        r#"{"name":"slow","arguments":{"steps":0,"step_ms":1}}"#,
        r#"{"name":"slow","arguments":{"steps":1001,"step_ms":1}}"#,
        r#"{"name":"slow","arguments":{"steps":1,"step_ms":60001}}"#,
    ] {
        let result = call(&catalog(), Revision::LATEST, params).unwrap();
        assert_eq!(result["isError"], true, "{params}");
        let error = call(&catalog(), Revision::V2025_06_18, params).unwrap_err();
        assert_eq!(error.code, -32602, "{params}");
    }
}
