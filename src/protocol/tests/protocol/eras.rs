//! Eras: `_meta` of modern requests and params of the legacy handshake.

use crate::parsing::with_value;
use corelane_protocol::eras::{
    ClientCapabilities, InitializeRequestParams, LoggingLevel, RequestMetaObject,
};
use corelane_protocol::error::Error;
use corelane_protocol::jsonrpc::Id;
use corelane_protocol::params::{CancelledNotificationParams, PaginatedRequestParams};
use corelane_protocol::revision::Revision;
use serde_json::{Value, json};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

fn error_code<T>(params: &str, read: impl FnOnce(&str) -> Result<T, Error>) -> i32 {
    read(params).map_or_else(|error| error.code, |_| 0)
}

/// Returns the error code of a modern request with this `_meta`, or 0 if it is accepted.
fn modern_code(meta: &str) -> i32 {
    error_code(&format!(r#"{{"_meta":{meta}}}"#), |params| {
        let read = |meta: RequestMetaObject<'_>| meta.parse_modern().map(|_| ());
        with_value(params, |params| RequestMetaObject::read(Some(params)).and_then(read))
            .expect("JSON")
    })
}

#[test]
fn modern_meta_is_read_in_full() {
    let params = json!({"name": "echo", "_meta": {
        VERSION: "2026-07-28",
        CAPABILITIES: {"elicitation": {"url": {}}, "sampling": {"tools": {}}, "new": 1},
        LOG_LEVEL: "warning",
        "progressToken": "p",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    }});
    with_value(params.to_string(), |params| {
        let meta = RequestMetaObject::read(Some(params)).unwrap();
        assert!(meta.is_modern());
        let meta = meta.parse_modern().unwrap();
        assert_eq!(meta.revision, Revision::V2026_07_28);
        assert_eq!(meta.log_level, Some(LoggingLevel::Warning));
        assert_eq!(meta.progress_token, Some(Id::Text("p")));
        assert!(meta.capabilities.contains(ClientCapabilities::ELICITATION_URL));
        assert!(!meta.capabilities.contains(ClientCapabilities::ELICITATION_FORM));
        assert!(meta.capabilities.contains(ClientCapabilities::SAMPLING_TOOLS));
        assert!(!meta.capabilities.contains(ClientCapabilities::ROOTS));
    })
    .unwrap();
}

#[test]
fn modern_meta_incomplete_or_unsupported_is_rejected() {
    let capabilities = format!(r#""{CAPABILITIES}":{{}}"#);
    let version = format!(r#""{VERSION}":"2026-07-28""#);
    for (meta, code) in [
        (format!("{{{version},{capabilities}}}"), 0),
        ("{}".to_owned(), -32602),
        ("null".to_owned(), -32602),
        ("7".to_owned(), -32602),
        (format!("{{{version}}}"), -32602),
        (format!("{{{capabilities}}}"), -32602),
        (format!(r#"{{{version},"{CAPABILITIES}":[]}}"#), -32602),
        (format!(r#"{{{version},"{CAPABILITIES}":null}}"#), -32602),
        (format!(r#"{{{version},"{CAPABILITIES}":{{"roots":true}}}}"#), -32602),
        (format!(r#"{{"{VERSION}":7,{capabilities}}}"#), -32602),
        (format!(r#"{{"{VERSION}":null,{capabilities}}}"#), -32602),
        (format!("{{{version},{version},{capabilities}}}"), -32602),
        (format!(r#"{{{version},{capabilities},"{LOG_LEVEL}":"loud"}}"#), -32602),
        (format!(r#"{{{version},{capabilities},"{LOG_LEVEL}":1}}"#), -32602),
        (format!(r#"{{{version},{capabilities},"progressToken":1.5}}"#), -32602),
        (format!(r#"{{{version},{capabilities},"progressToken":null}}"#), 0),
        (format!(r#"{{"{VERSION}":"1900-01-01",{capabilities}}}"#), -32022),
        (format!(r#"{{"{VERSION}":"2025-11-25",{capabilities}}}"#), -32022),
        (format!(r#"{{"{VERSION}":"1900-01-01"}}"#), -32602),
    ] {
        assert_eq!(modern_code(&meta), code, "{meta}");
    }
    assert_eq!(RequestMetaObject::read(None).unwrap().parse_modern().unwrap_err().code, -32602);
}

#[test]
fn only_protocol_version_key_makes_request_modern() {
    for (params, expected) in [
        (json!({}), false),
        (json!({"_meta": null}), false),
        (json!({"_meta": {"progressToken": 1}}), false),
        (json!({"_meta": {CAPABILITIES: {}}}), false),
        (json!({VERSION: "2026-07-28"}), false),
        (json!({"arguments": {"_meta": {VERSION: "2026-07-28"}}}), false),
        (json!([{"_meta": {VERSION: "2026-07-28"}}]), false),
        (json!({"_meta": {VERSION: null}}), true),
        (json!({"_meta": {VERSION: "nonsense"}}), true),
    ] {
        let is_modern = with_value(params.to_string(), |params| {
            RequestMetaObject::read(Some(params)).map(|meta| meta.is_modern()).unwrap()
        });
        assert_eq!(is_modern, Ok(expected), "{params}");
    }
    assert!(!RequestMetaObject::read(None).unwrap().is_modern());
}

#[test]
fn duplicate_protocol_key_is_rejected() {
    for params in [
        r#"{"_meta":{},"_meta":{}}"#,
        r#"{"_meta":{"progressToken":1,"progressToken":1}}"#,
        &format!(r#"{{"_meta":{{"{VERSION}":"a","{VERSION}":"b"}}}}"#),
    ] {
        let code = error_code(params, |params| {
            with_value(params, |params| RequestMetaObject::read(Some(params)).map(|_| ()))
                .expect("JSON")
        });
        assert_eq!(code, -32602, "{params}");
    }
}

fn initialize() -> Value {
    json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {"roots": {"listChanged": true}, "elicitation": {}, "sampling": null},
        "clientInfo": {"name": "c", "version": "1", "title": "C"},
    })
}

#[test]
fn initialize_params_are_read_in_full() {
    with_value(initialize().to_string(), |params| {
        let read = InitializeRequestParams::read(Some(params)).unwrap();
        assert_eq!(read.negotiate_revision(), Revision::V2025_06_18);
        assert!(read.capabilities.contains(ClientCapabilities::ROOTS_LIST_CHANGED));
        assert!(read.capabilities.contains(ClientCapabilities::ELICITATION_FORM));
        assert!(!read.capabilities.contains(ClientCapabilities::ELICITATION_URL));
        assert!(!read.capabilities.contains(ClientCapabilities::SAMPLING));
    })
    .unwrap();
}

#[test]
fn initialize_error_names_missing_member() {
    let read = |params: &Value| {
        with_value(params.to_string(), |params| {
            InitializeRequestParams::read(Some(params)).map(|_| ())
        })
        .expect("JSON")
    };
    for path in ["/protocolVersion", "/capabilities", "/clientInfo", "/clientInfo/name"] {
        for wrong in [json!(7), json!([]), Value::Null] {
            let mut params = initialize();
            *params.pointer_mut(path).expect("a member") = wrong;
            let error = read(&params).unwrap_err();
            assert_eq!(error.code, -32602, "{params}");
            let member = path.rsplit('/').next().expect("a name").replace("capabilities", "");
            assert!(error.message.contains(&member), "{error}");
        }
    }
    assert_eq!(read(&json!([])).unwrap_err().code, -32602);
    assert_eq!(InitializeRequestParams::read(None).unwrap_err().code, -32602);
}

#[test]
fn list_cursor_is_read_or_rejected() {
    let read = |params: &str| {
        with_value(params, |params| {
            PaginatedRequestParams::read(Some(params)).map(|list| list.cursor.map(str::to_owned))
        })
        .expect("JSON")
    };
    assert_eq!(PaginatedRequestParams::read(None).unwrap().cursor, None);
    assert_eq!(read("{}").unwrap(), None);
    assert_eq!(read(r#"{"cursor":null}"#).unwrap(), None);
    assert_eq!(read(r#"{"cursor":""}"#).unwrap().as_deref(), Some(""));
    for wrong in [r#"{"cursor":7}"#, r#"{"cursor":"a","cursor":"a"}"#, "[]"] {
        assert_eq!(read(wrong).unwrap_err().code, -32602, "{wrong}");
    }
}

#[test]
fn cancelled_params_without_request_id_are_ignored() {
    let read = |params: &str| {
        with_value(params, |params| {
            CancelledNotificationParams::read(Some(params))
                .map(|cancelled| format!("{:?}", cancelled.request_id))
        })
        .expect("JSON")
    };
    assert_eq!(read(r#"{"requestId":7}"#).as_deref(), Some("Signed(7)"));
    assert_eq!(read(r#"{"requestId":"7","reason":"x"}"#).as_deref(), Some("Text(\"7\")"));
    for ignored in ["{}", "[]", r#"{"requestId":null}"#, r#"{"requestId":1,"requestId":2}"#] {
        assert_eq!(read(ignored), None);
    }
}
