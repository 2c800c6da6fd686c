//! The level of the log messages of the server.

use serde_json::json;

use super::*;
use corelane_protocol::eras::LoggingLevel;

#[test]
fn modern_requests_carry_log_level() {
    let mut session = TestSession::modern();
    let level = |session: &mut TestSession| {
        session.call("call", Method::ToolsCall);
        session.sent()[0]["params"]["_meta"]["io.modelcontextprotocol/logLevel"].clone()
    };
    assert_eq!(level(&mut session), json!(null));
    session.session.config.set_log_level(LoggingLevel::Warning);
    assert_eq!(level(&mut session), json!("warning"));
    session.session.config.set_log_level(LoggingLevel::Debug);
    assert_eq!(level(&mut session), json!("debug"));
}

#[test]
fn legacy_handshake_sets_log_level() {
    let revision = Revision::V2025_06_18;
    for (capabilities, expected) in [
        (r#""capabilities":{"logging":{},"#, &["logging/setLevel"][..]),
        (r#""capabilities":{"#, &[]),
    ] {
        let mut session =
            TestSession::with(|options| options.era = EraPreference::Legacy(revision));
        session.session.config.set_log_level(LoggingLevel::Error);
        let response = initialized(1, revision);
        session.receive(&response.replace(r#""capabilities":{"#, capabilities));
        let sent = session.sent();
        let methods: Vec<_> = sent[2..].iter().map(|it| it["method"].as_str().unwrap()).collect();
        assert_eq!(methods, expected);
        if let Some(request) = sent.get(2) {
            assert_eq!((&request["id"], &request["params"]["level"]), (&json!(2), &json!("error")));
        }
        // No caller waits for the response.
        session.receive(&result(2));
        let events = session.events();
        assert_eq!(events[0], "ready");
        assert!(events.len() == 1 || expected.is_empty(), "{events:?}");
    }
}
