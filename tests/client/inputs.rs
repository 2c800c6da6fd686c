//! Input that servers require of the client: elicitation, sampling, roots.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use corelane::client::{ClientBuilder, ClientErrorKind, EraPreference};
use corelane::model::{
    Content, CreateMessageResult, ElicitAction, ElicitResult, Revision, Role, Root,
    SamplingMessageContentBlock,
};
use corelane_test_support::{TestServer, tcp_options};
use serde_json::json;

use super::{ERAS, client_of};

/// Eras in which servers ask the user.
const ELICITING: [EraPreference; 3] = [
    EraPreference::Auto,
    EraPreference::Legacy(Revision::V2025_11_25),
    EraPreference::Legacy(Revision::V2025_06_18),
];

/// Adds a user who submits `name`.
fn with_user(client: ClientBuilder, name: &'static str) -> ClientBuilder {
    client.on_elicitation(move |request| async move {
        assert_eq!(request.message, "What is your name?");
        let mut content = request.defaults();
        content.insert("name".into(), name.into());
        Ok(ElicitResult { action: ElicitAction::Accept, content })
    })
}

#[test]
fn elicitation_reaches_user_in_every_era() {
    let server = TestServer::with_test_tools(tcp_options());
    for era in ELICITING {
        let client = with_user(client_of(&server).era(era), "Ada").connect_blocking().unwrap();
        let result = client.call_tool("ask", &json!({})).wait().unwrap();
        assert_eq!(result.text(), "Hello, Ada!", "{era:?}");
    }
}

#[test]
fn sampling_and_roots_are_provided() {
    let server = TestServer::with_test_tools(tcp_options());
    let asked = Arc::new(AtomicU32::new(0));
    for era in ERAS {
        let of_model = Arc::clone(&asked);
        let client = client_of(&server)
            .era(era)
            .on_sampling(move |request| {
                of_model.fetch_add(1, Ordering::Relaxed);
                async move {
                    assert_eq!(request.messages.len(), 1);
                    let content = Content::text("Paris");
                    Ok(CreateMessageResult {
                        role: Role::Assistant,
                        content: vec![SamplingMessageContentBlock::Content(content)],
                        model: "geographer".into(),
                        stop_reason: None,
                    })
                }
            })
            .on_roots(async || Ok(vec![Root { uri: "file:///a".into(), name: None }]))
            .connect_blocking()
            .unwrap();
        let call = client.call_tool("test_sampling", &json!({ "prompt": "Capital?" }));
        let result = call.wait().unwrap();
        assert!(result.text().contains("Paris"), "{era:?}: {result:?}");
    }
    assert_eq!(asked.load(Ordering::Relaxed), 6);
}

#[test]
fn missing_handler_is_an_undeclared_capability() {
    let server = TestServer::with_test_tools(tcp_options());
    let client = client_of(&server).connect_blocking().unwrap();
    let error = client.call_tool("ask", &json!({})).wait().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Rpc { code: -32021 });
    assert!(error.data().unwrap().contains("elicitation"), "{error:?}");
}

#[test]
fn failed_handler_fails_its_call_only() {
    let server = TestServer::with_test_tools(tcp_options());
    for era in ELICITING {
        let client = client_of(&server).era(era);
        let client = client.on_elicitation(async |_| Err("no terminal".into()));
        let client = client.connect_blocking().unwrap();
        match client.call_tool("ask", &json!({})).wait() {
            Err(error) => assert_eq!(error.kind(), ClientErrorKind::Input, "{error}"),
            Ok(result) => assert!(result.is_error, "{result:?}"),
        }
        let result = client.call_tool("echo", &json!({ "message": "hi" })).wait().unwrap();
        assert_eq!(result.text(), "hi");
    }
}

#[test]
fn panicking_handler_fails_its_call_only() {
    let server = TestServer::with_test_tools(tcp_options());
    let client = client_of(&server).on_elicitation(async |_| panic!("a test"));
    let client = client.connect_blocking().unwrap();
    let error = client.call_tool("ask", &json!({})).wait().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Input, "{error}");
    let result = client.call_tool("echo", &json!({ "message": "hi" })).wait().unwrap();
    assert_eq!(result.text(), "hi");
}
