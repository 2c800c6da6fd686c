//! The demo tools: results, progress, cancellation and limits.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use corelane::Catalog;
use corelane::internal::demo;
use corelane_protocol::model::Implementation;
use corelane_protocol::revision::Revision;
use serde_json::json;

use crate::service::harness::{TestBlockingHost, TestRequestHost, call_tool, call_tool_with_hosts};

fn catalog() -> Catalog {
    demo::catalog(Implementation::new("demo", "1.0.0")).expect("the demo tools are valid")
}

#[test]
fn echo_returns_every_character() {
    let message = "a \"quoted\" \\ line\n\t\u{1}é😀";
    let params = json!({ "name": "echo", "arguments": { "message": message } });
    for revision in Revision::ALL {
        let result = call_tool(&catalog(), revision, &params.to_string()).unwrap();
        assert_eq!(result["content"], json!([{ "type": "text", "text": message }]));
        assert_eq!(result.get("isError"), None);
    }
}

#[test]
fn add_returns_structured_content_where_supported() {
    let params = r#"{"name":"add","arguments":{"a":1,"b":2.5}}"#;
    for revision in Revision::ALL {
        let result = call_tool(&catalog(), revision, params).unwrap();
        assert_eq!(result["content"][0]["text"], r#"{"sum":3.5}"#);
        let structured = revision.dialect().structured_content.then(|| json!({ "sum": 3.5 }));
        assert_eq!(result.get("structuredContent"), structured.as_ref());
    }
}

#[test]
fn add_overflow_is_a_tool_error() {
    let params = r#"{"name":"add","arguments":{"a":1.7e308,"b":1.7e308}}"#;
    let result = call_tool(&catalog(), Revision::LATEST, params).unwrap();
    assert_eq!(result["isError"], true);
}

#[test]
fn slow_reports_progress_of_every_step() {
    let (host, pool) = (Rc::new(TestRequestHost::default()), Arc::new(TestBlockingHost::default()));
    let params = r#"{"name":"slow","arguments":{"steps":3,"step_ms":40}}"#;
    let seen = Rc::clone(&host);
    let result = call_tool_with_hosts(&catalog(), Revision::LATEST, params, host, pool).unwrap();
    assert_eq!(result["content"][0]["text"], "took 3 steps of 40 ms");
    assert_eq!(*seen.progress.borrow(), [(1.0, Some(3.0)), (2.0, Some(3.0)), (3.0, Some(3.0))]);
    assert_eq!(seen.slept.get(), Duration::from_millis(120));
}

#[test]
fn cancelled_slow_stops() {
    let host =
        Rc::new(TestRequestHost { cancel_after: Some(2).into(), ..TestRequestHost::default() });
    let params = r#"{"name":"slow","arguments":{"steps":1000,"step_ms":1}}"#;
    let seen = Rc::clone(&host);
    let result =
        call_tool_with_hosts(&catalog(), Revision::LATEST, params, host, Arc::default()).unwrap();
    assert_eq!(result["isError"], true);
    assert_eq!(seen.progress.borrow().len(), 2);
}

#[test]
fn hash_matches_fnv1a_of_generated_bytes() {
    for bytes in [0, 1, 251, 64_256, 64_257, 200_000] {
        let expected =
            (0..=250_u8).cycle().take(bytes).fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
            });
        let params = json!({ "name": "hash", "arguments": { "bytes": bytes } });
        let result = call_tool(&catalog(), Revision::LATEST, &params.to_string()).unwrap();
        let structured = &result["structuredContent"];
        assert_eq!(structured["hash"], format!("{expected:016x}"), "{bytes} bytes");
        assert_eq!(structured["bytes"], bytes);
        assert_eq!(structured["algorithm"], "FNV-1a-64");
    }
}

#[test]
fn hash_reports_progress_and_stops_when_cancelled() {
    let params = r#"{"name":"hash","arguments":{"bytes":40000000}}"#;
    let pool = Arc::new(TestBlockingHost::default());
    let seen = Arc::clone(&pool);
    call_tool_with_hosts(&catalog(), Revision::LATEST, params, Rc::default(), pool).unwrap();
    assert_eq!(seen.progress_count.load(Ordering::Relaxed), 3);

    let pool = Arc::new(TestBlockingHost { is_cancelled: true, ..TestBlockingHost::default() });
    let seen = Arc::clone(&pool);
    let result =
        call_tool_with_hosts(&catalog(), Revision::LATEST, params, Rc::default(), pool).unwrap();
    assert_eq!(result["isError"], true);
    assert_eq!(seen.progress_count.load(Ordering::Relaxed), 0);
}

#[test]
fn demo_tool_arguments_are_limited() {
    for params in [
        r#"{"name":"hash","arguments":{"bytes":1073741825}}"#,
        r#"{"name":"hash","arguments":{"bytes":-1}}"#,
        r#"{"name":"slow","arguments":{"steps":0,"step_ms":1}}"#,
        r#"{"name":"slow","arguments":{"steps":1001,"step_ms":1}}"#,
        r#"{"name":"slow","arguments":{"steps":1,"step_ms":60001}}"#,
    ] {
        let result = call_tool(&catalog(), Revision::LATEST, params).unwrap();
        assert_eq!(result["isError"], true, "{params}");
        let error = call_tool(&catalog(), Revision::V2025_06_18, params).unwrap_err();
        assert_eq!(error.code, -32602, "{params}");
    }
}
