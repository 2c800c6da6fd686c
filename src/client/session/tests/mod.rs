//! Handshakes, calls and messages of one session, on the time of the test.

mod inputs;
mod logging;
mod repeats;
mod subscriptions;
mod suspension;
mod tasks;
mod unreadable;

use serde_json::json;

use super::*;
use crate::error::ClientErrorKind;
use corelane_protocol::eras::ClientCapabilities;
use corelane_protocol::json::{PaddedBuffer, ParseLimits, Parser};

const DISCOVERED: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete",
    "supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},
    "_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"2"}}}}"#;
const METHOD_NOT_FOUND: &str =
    r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"unknown"}}"#;

/// What the client declares.
const DECLARED: ClientCapabilities =
    ClientCapabilities::ELICITATION_FORM.union(ClientCapabilities::SAMPLING);

/// What was sent, one text each, and whether the stream for notifications is not open yet.
#[derive(Default)]
struct Sent(Vec<String>, bool);

impl MessageSink for Sent {
    fn send(&mut self, message: OutgoingMessage<'_>) {
        self.0.push(String::from_utf8(message.text.to_vec()).unwrap());
    }

    fn receives_notifications(&self) -> bool {
        !self.1
    }
}

type Ctx<'a> = SessionContext<'a, &'static str, Sent>;

/// A session with what it has sent and reported since the last look.
struct TestSession {
    session: Session<&'static str>,
    parser: Parser,
    buffers: SessionBuffers,
    now: Instant,
    sent: Sent,
    events: Vec<SessionEvent<&'static str>>,
    /// Inputs that were required.
    required: Vec<InputKey>,
}

impl TestSession {
    fn with(change: impl FnOnce(&mut SessionOptions)) -> Self {
        let mut options = SessionOptions::default();
        change(&mut options);
        let config = SessionConfig::new(options, DECLARED);
        let mut session = Self {
            session: Session::new(Arc::new(config)),
            parser: Parser::new(ParseLimits::default()),
            buffers: SessionBuffers::default(),
            now: Instant::ORIGIN,
            sent: Sent::default(),
            events: Vec::new(),
            required: Vec::new(),
        };
        session.run(|session, ctx| session.start(false, ctx));
        session
    }

    fn run<R>(&mut self, act: impl FnOnce(&mut Session<&'static str>, &mut Ctx<'_>) -> R) -> R {
        let mut ctx = SessionContext {
            now: self.now,
            sink: &mut self.sent,
            events: &mut self.events,
            buffers: &mut self.buffers,
        };
        act(&mut self.session, &mut ctx)
    }

    fn receive(&mut self, text: &str) {
        let mut text = PaddedBuffer::copy_of(text.as_bytes());
        let mut ctx = SessionContext {
            now: self.now,
            sink: &mut self.sent,
            events: &mut self.events,
            buffers: &mut self.buffers,
        };
        self.session.receive(text.text(), &mut self.parser, &mut ctx);
    }

    fn call(&mut self, token: &'static str, method: Method) -> CallId {
        self.run(|session, ctx| session.call(CallRequest::new(method), token, ctx))
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now.after(time);
        self.run(Session::expire);
    }

    /// Takes the messages that were sent.
    fn sent(&mut self) -> Vec<serde_json::Value> {
        let texts = std::mem::take(&mut self.sent.0);
        texts.iter().map(|text| serde_json::from_str(text).unwrap()).collect()
    }

    /// Takes the methods of the messages that were sent.
    fn sent_methods(&mut self) -> Vec<String> {
        let method = |message: serde_json::Value| message["method"].as_str().unwrap().to_owned();
        self.sent().into_iter().map(method).collect()
    }

    /// Takes the events, each in a few words.
    fn events(&mut self) -> Vec<String> {
        let required = &mut self.required;
        let describe = |event| match event {
            SessionEvent::Ready => "ready".to_owned(),
            SessionEvent::HandshakeFailed(error) => format!("failed {:?}", error.kind()),
            SessionEvent::Completed { token, result: Ok(_) } => format!("{token} ok"),
            SessionEvent::Completed { token, result: Err(error) } => {
                format!("{token} {:?}", error.kind())
            }
            SessionEvent::Progress { token, progress } => {
                format!("{token} {}", progress.progress)
            }
            SessionEvent::TaskStatus { token, message } => {
                let text = String::from_utf8_lossy(message.as_bytes());
                let is_working = text.contains(r#""status":"working""#);
                format!("{token} {}", if is_working { "working" } else { "another status" })
            }
            SessionEvent::InputRequired(input) => {
                let text = format!("requires {:?}", input.kind);
                required.push(input.key);
                text
            }
            SessionEvent::InputCancelled(_) => "input cancelled".to_owned(),
            SessionEvent::Subscription { token, .. } => format!("{token} notification"),
            SessionEvent::Notification(_) => "notification".to_owned(),
            SessionEvent::Violation(_) => "violation".to_owned(),
            SessionEvent::Repeated(event) => {
                let name = event.name.as_deref().unwrap_or(event.method);
                format!("{name} again in {:?}: {:?}", event.delay, event.error.kind())
            }
        };
        std::mem::take(&mut self.events).into_iter().map(describe).collect()
    }

    /// Takes the key of the only input that was required.
    fn required_key(&mut self) -> InputKey {
        self.events();
        let [key] = std::mem::take(&mut self.required)[..] else { panic!("not one input") };
        key
    }

    /// A session after the handshake of the newest revision.
    fn modern() -> Self {
        let mut session = Self::with(|_| {});
        session.receive(DISCOVERED);
        session.sent();
        session.events();
        session
    }

    /// A session after `initialize` for `revision`.
    fn legacy(revision: Revision) -> Self {
        let mut session = Self::with(|options| options.era = EraPreference::Legacy(revision));
        session.receive(&initialized(1, revision));
        session.sent();
        session.events();
        session
    }
}

fn initialized(id: u64, revision: Revision) -> String {
    json!({
        "jsonrpc": "2.0",
        "id": id,
        "result": {
            "protocolVersion": revision.as_str(),
            "capabilities": { "tools": { "listChanged": true } },
            "serverInfo": { "name": "s", "version": "1" },
        },
    })
    .to_string()
}

fn result(id: u64) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "result": {} }).to_string()
}

#[test]
fn discover_result_makes_session_modern() {
    let mut session = TestSession::with(|_| {});
    let sent = session.sent();
    assert_eq!(sent[0]["method"], "server/discover");
    let meta = &sent[0]["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    let extensions = json!({ "io.modelcontextprotocol/tasks": {} });
    let declared =
        json!({ "elicitation": { "form": {} }, "extensions": extensions, "sampling": {} });
    assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], declared);
    assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "corelane");
    session.receive(DISCOVERED);
    assert_eq!(session.events(), ["ready"]);
    assert!(session.sent().is_empty());
    let server = session.session.server().unwrap();
    assert_eq!(server.revision, Revision::LATEST);
    assert_eq!(server.implementation.as_ref().unwrap().name, "s");
}

#[test]
fn any_discover_error_falls_back_to_initialize() {
    for code in [-32601, -32600, -32602, -32000, 0] {
        let mut session = TestSession::with(|_| {});
        session.receive(&METHOD_NOT_FOUND.replace("-32601", &code.to_string()));
        let sent = session.sent();
        assert_eq!(sent[1]["method"], "initialize", "{code}");
        assert_eq!(sent[1]["params"]["protocolVersion"], "2025-11-25");
        let declared = json!({ "elicitation": { "form": {} }, "sampling": {} });
        assert_eq!(sent[1]["params"]["capabilities"], declared);
        session.receive(&initialized(2, Revision::V2025_06_18));
        assert_eq!(session.events(), ["ready"]);
        assert_eq!(session.sent_methods(), ["notifications/initialized"]);
        assert_eq!(session.session.server().unwrap().revision, Revision::V2025_06_18);
    }
}

#[test]
fn unanswered_discover_falls_back_to_initialize() {
    let mut session = TestSession::with(|_| {});
    assert!(session.session.is_discovering());
    session.pass(Duration::from_secs(5));
    assert_eq!(session.sent_methods(), ["server/discover", "initialize"]);
    // A late error changes nothing.
    session.receive(METHOD_NOT_FOUND);
    assert!(session.events().is_empty());
    session.receive(&initialized(2, Revision::V2025_06_18));
    assert_eq!(session.events(), ["ready"]);
    let error = session.session.server().unwrap().discover_error.as_deref();
    assert_eq!(error, Some("no response within 5s"));
}

#[test]
fn late_discover_result_makes_session_modern() {
    let mut session = TestSession::with(|_| {});
    session.pass(Duration::from_secs(5));
    assert_eq!(session.sent_methods(), ["server/discover", "initialize"]);
    session.receive(DISCOVERED);
    assert_eq!(session.events(), ["ready"]);
    assert!(session.session.server().unwrap().revision.is_modern());
    // The response to `initialize` belongs to no request any more.
    session.receive(&METHOD_NOT_FOUND.replace("\"id\":1", "\"id\":2"));
    assert!(session.events().is_empty() && session.sent().is_empty());
}

#[test]
fn failed_handshake_names_both_answers() {
    let mut session = TestSession::with(|_| {});
    session.receive(METHOD_NOT_FOUND);
    session.receive(&METHOD_NOT_FOUND.replace("\"id\":1", "\"id\":2").replace("-32601", "-3"));
    let error = session.session.end_reason().unwrap().to_string();
    let expected = "the handshake failed at initialize: the server answered with error -3: \
        unknown; server/discover: the server answered with error -32601: unknown";
    assert_eq!(error, expected);
}

#[test]
fn unsupported_version_error_selects_listed_revision() {
    let error = |supported: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":-32022,"message":"no",
            "data":{{"supported":[{supported}],"requested":"2026-07-28"}}}}}}"#
        )
    };
    let mut session = TestSession::with(|_| {});
    session.receive(&error(r#""2024-11-05","2025-06-18""#));
    assert_eq!(session.sent()[1]["params"]["protocolVersion"], "2025-06-18");
    let mut session = TestSession::with(|_| {});
    session.receive(&error(r#""2031-01-01""#));
    assert_eq!(session.events(), ["failed Handshake"]);
    assert!(session.session.end_reason().is_some());
}

#[test]
fn initialize_with_unknown_revision_fails_handshake() {
    let mut session = TestSession::with(|options| {
        options.era = EraPreference::Legacy(Revision::V2025_03_26);
    });
    session.call("call", Method::ToolsList);
    session.receive(&initialized(1, Revision::V2025_03_26).replace("2025-03-26", "1999-01-01"));
    assert_eq!(session.events(), ["failed Handshake", "call Handshake"]);
    session.call("late", Method::ToolsList);
    assert_eq!(session.events(), ["late Handshake"]);
}

#[test]
fn calls_wait_for_handshake_in_order() {
    let mut session = TestSession::with(|_| {});
    session.call("first", Method::ToolsList);
    session.call("second", Method::PromptsList);
    let third = session.call("third", Method::ToolsCall);
    session.call("fourth", Method::ToolsCall);
    assert_eq!(session.sent_methods(), ["server/discover"]);
    assert_eq!(session.run(|session, ctx| session.cancel(third, None, ctx)), Some("third"));
    session.receive(DISCOVERED);
    assert_eq!(session.sent_methods(), ["tools/list", "tools/call"]);
    assert_eq!(session.events(), ["ready", "second Unsupported"]);
}

#[test]
fn calls_above_in_flight_max_wait() {
    let mut session = TestSession::with(|options| {
        (options.in_flight_max, options.waiting_max) = (1, 1);
    });
    session.receive(DISCOVERED);
    session.sent();
    session.call("first", Method::ToolsList);
    session.call("second", Method::ToolsList);
    session.call("third", Method::ToolsList);
    assert_eq!(session.events(), ["ready", "third Busy"]);
    assert_eq!(session.sent().len(), 1);
    session.receive(&result(2));
    assert_eq!(session.events(), ["first ok"]);
    assert_eq!(session.sent()[0]["id"], 3);
}

#[test]
fn undeclared_capability_fails_locally() {
    let mut session = TestSession::legacy(Revision::V2025_11_25);
    session.call("prompts", Method::PromptsList);
    session.call("discover", Method::Discover);
    assert_eq!(session.events(), ["prompts Unsupported", "discover Unsupported"]);
    assert!(session.sent().is_empty());
}

#[test]
fn cancelled_call_ignores_late_response() {
    let mut session = TestSession::modern();
    let call = session.call("call", Method::ToolsCall);
    session.sent();
    let cancelled = session.run(|session, ctx| session.cancel(call, Some("no"), ctx));
    assert_eq!(cancelled, Some("call"));
    let sent = session.sent();
    assert_eq!(sent[0]["method"], "notifications/cancelled");
    assert_eq!(sent[0]["params"], json!({ "requestId": 2, "reason": "no" }));
    session.receive(&result(2));
    assert!(session.events().is_empty());
    assert_eq!(session.run(|session, ctx| session.cancel(call, None, ctx)), None);
}

#[test]
fn call_timeout_cancels_request() {
    let mut session = TestSession::modern();
    session.call("call", Method::ToolsCall);
    session.sent();
    session.pass(Duration::from_secs(29));
    assert!(session.events().is_empty());
    session.pass(Duration::from_secs(1));
    assert_eq!(session.events(), ["call Timeout"]);
    assert_eq!(session.sent_methods(), ["notifications/cancelled"]);
    assert_eq!(session.session.deadline(), None);
}

#[test]
fn authorization_does_not_count_for_timeouts() {
    let mut session = TestSession::with(|_| {});
    session.call("early", Method::ToolsCall);
    session.sent();
    let seconds = Duration::from_secs;
    session.pass(seconds(4));
    session.session.pause(session.now);
    session.pass(seconds(100));
    assert_eq!(session.session.deadline(), None);
    session.session.resume(session.now);
    session.pass(Duration::from_millis(999));
    assert!(session.sent().is_empty());
    // Five seconds for `server/discover` and thirty for the call.
    session.pass(seconds(1));
    assert_eq!(session.sent_methods(), ["initialize"]);
    session.pass(seconds(24));
    assert!(session.events().is_empty());
    session.pass(seconds(2));
    assert_eq!(session.events(), ["early Timeout"]);
}

#[test]
fn failed_authorization_ends_handshake() {
    let mut session = TestSession::with(|_| {});
    session.sent();
    let error = ClientError::authorization("denied");
    session.run(|session, ctx| session.fail_request(1, error, ctx));
    assert!(session.sent().is_empty());
    assert_eq!(session.events(), ["failed Authorization"]);
}

#[test]
fn invalid_messages_fail_no_other_call() {
    let mut session = TestSession::modern();
    session.call("call", Method::ToolsCall);
    session.call("other", Method::ToolsCall);
    for violation in [
        "{",
        "7",
        "[]",
        "\"\u{7}\"",
        r#"{"jsonrpc":"2.0","id":99,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"2","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#,
        r#"{"jsonrpc":"1.0","id":"x","result":{}}"#,
    ] {
        session.receive(violation);
        assert_eq!(session.events(), ["violation"], "{violation}");
    }
    session.receive(r#"{"jsonrpc":"2.0","id":2,"result":{},"error":{}}"#);
    assert_eq!(session.events(), ["violation", "call Protocol"]);
    session.receive(&result(3));
    session.receive(&result(3));
    assert_eq!(session.events(), ["other ok"]);
}

#[test]
fn unknown_result_type_fails_call() {
    for (result_type, outcome) in [
        ("complete", "call ok"),
        ("input_required", "call Protocol"),
        ("later", "call Protocol"),
        ("", "call Protocol"),
    ] {
        let mut session = TestSession::modern();
        session.call("call", Method::ToolsCall);
        let result = json!({ "resultType": result_type });
        session.receive(&json!({ "jsonrpc": "2.0", "id": 2, "result": result }).to_string());
        assert_eq!(session.events(), [outcome]);
    }
}

#[test]
fn rpc_error_keeps_code_and_data() {
    let mut session = TestSession::modern();
    session.call("call", Method::ToolsCall);
    session.receive(
        r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"bad","data":{"uri":"a"}}}"#,
    );
    let Some(SessionEvent::Completed { result: Err(error), .. }) = session.events.pop() else {
        panic!("no error")
    };
    assert_eq!(error.kind(), ClientErrorKind::Rpc { code: -32602 });
    assert_eq!((error.message(), error.data()), ("bad", Some(r#"{"uri":"a"}"#)));
}

#[test]
fn progress_reaches_its_call() {
    let mut session = TestSession::legacy(Revision::V2025_11_25);
    let request = CallRequest { wants_progress: true, ..CallRequest::new(Method::ToolsCall) };
    session.run(|session, ctx| session.call(request, "call", ctx));
    assert_eq!(session.sent()[0]["params"]["_meta"]["progressToken"], 2);
    let progress = |token: u64| {
        let params = json!({ "progressToken": token, "progress": 0.5, "total": 1 });
        json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params })
            .to_string()
    };
    session.receive(&progress(2));
    session.receive(&progress(9));
    assert_eq!(session.events(), ["call 0.5"]);
}

#[test]
fn server_ping_is_answered_and_others_refused() {
    let mut session = TestSession::legacy(Revision::V2025_03_26);
    session.receive(
        r#"[{"jsonrpc":"2.0","id":"p","method":"ping"},
            {"jsonrpc":"2.0","id":5,"method":"roots/list"},
            {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}]"#,
    );
    let sent = session.sent();
    assert_eq!(sent[0], json!({ "jsonrpc": "2.0", "id": "p", "result": {} }));
    assert_eq!((&sent[1]["id"], &sent[1]["error"]["code"]), (&json!(5), &json!(-32601)));
    assert_eq!(session.events(), ["notification"]);
}

#[test]
fn lost_connection_fails_every_call_once() {
    let mut session = TestSession::with(|options| options.in_flight_max = 1);
    session.receive(DISCOVERED);
    session.call("sent", Method::ToolsCall);
    session.call("waiting", Method::ToolsCall);
    session.events();
    let error = ClientError::new(ClientErrorKind::Connect, "reset by the server");
    session.session.disconnect(error, &mut session.events);
    assert_eq!(session.events(), ["sent Closed", "waiting Connect"]);
    session.receive(&result(2));
    assert!(session.events().is_empty());
}
