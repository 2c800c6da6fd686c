//! Tests of both sides of a session against each other.

use std::time::Duration;

use crate::fuzz::settings;
use corelane_base::time::Instant;
use corelane_parity::capabilities::{Capabilities, Feature};
use corelane_parity::client_session::{ClientEvent, ClientSession, Violation};
use corelane_parity::envelope::{ChunkType, Envelope};
use corelane_parity::error::{ErrorCode, ParityError};
use corelane_parity::machine::State;
use corelane_parity::server_session::{Action, Expired, Input, Rejection, ServerSession};
use corelane_parity::stream::Received;
use corelane_parity::write::{self, HandshakeAckParams, RequestParams};
use corelane_protocol::json::{PADDING_BYTES, PaddedText, ParseLimits, Parser, Value};
use corelane_protocol::jsonrpc::Id;
use proptest::prelude::*;

fn at(seconds: u64) -> Instant {
    Instant::ORIGIN.after(Duration::from_secs(seconds))
}

fn with_value<T>(text: &str, read: impl FnOnce(Value<'_>) -> T) -> T {
    let mut parser = Parser::new(ParseLimits::default());
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(text.len() + PADDING_BYTES, 0);
    let document = parser.parse(PaddedText::new(&mut bytes, text.len())).expect("the text is JSON");
    read(document.root())
}

/// Gives one message to the session and describes what follows.
fn receive(session: &mut ServerSession, text: &str, in_flight: usize) -> String {
    let settings = settings();
    with_value(text, |value| {
        let envelope = match Envelope::read(value) {
            Ok(envelope) => envelope,
            Err(invalid) => return describe(&session.reject_malformed(invalid)),
        };
        let (bytes, now) = (text.len(), at(1));
        let input = Input { settings: &settings, bytes, in_flight, now, envelope };
        match session.receive(input) {
            Ok(Action::Acknowledge(handshake, both)) => {
                let exchanges = handshake.exchanges_capabilities;
                session.acknowledge(both, exchanges, &settings, now);
                "acknowledge".to_owned()
            }
            Ok(Action::Cancel(_)) => {
                session.end_cancel();
                "cancel".to_owned()
            }
            Ok(Action::AcknowledgeCapabilities(_)) => "acknowledge capabilities".to_owned(),
            Ok(Action::Start(request)) => format!("start {}", request.method),
            Ok(Action::None) => "none".to_owned(),
            Err(rejection) => describe(&rejection),
        }
    })
}

fn describe(rejection: &Rejection<'_>) -> String {
    let kind = if rejection.is_response { "response" } else { "error" };
    let closes = if rejection.closes { ", closes" } else { "" };
    format!("{kind} {}{closes}", rejection.error.code.as_str())
}

const HANDSHAKE: &str = concat!(
    r#"{"type":"handshake","protocolVersion":"1.0","#,
    r#""capabilities":{"tools":true,"streaming":true,"cancellation":true}}"#
);

fn ready_session() -> ServerSession {
    let mut session = ServerSession::new(&settings(), at(0));
    assert_eq!(receive(&mut session, HANDSHAKE, 0), "acknowledge");
    assert!(session.is_ready());
    session
}

#[test]
fn request_before_ready_is_rejected() {
    let mut session = ServerSession::new(&settings(), at(0));
    let request = r#"{"type":"request","id":1,"method":"ping"}"#;
    assert_eq!(receive(&mut session, request, 0), "response error.feature_not_available, closes");
    let keepalive = r#"{"type":"keepalive","timeoutHintSec":1}"#;
    assert_eq!(receive(&mut session, keepalive, 0), "error error.feature_not_available, closes");
    assert_eq!(session.state(), State::Connecting);
    assert_eq!(receive(&mut session, HANDSHAKE, 0), "acknowledge");
    assert_eq!(receive(&mut session, request, 0), "start ping");
    assert_eq!(receive(&mut session, HANDSHAKE, 0), "error error.feature_not_available");
    assert!(session.is_ready(), "a second handshake changes nothing");
}

#[test]
fn unknown_version_and_empty_capabilities_close() {
    for (text, expected) in [
        (
            r#"{"type":"handshake","protocolVersion":"2.0","capabilities":{"tools":true}}"#,
            "error error.version_unsupported, closes",
        ),
        (
            r#"{"type":"handshake","protocolVersion":"1.0","capabilities":{"streaming":true}}"#,
            "error error.feature_not_available, closes",
        ),
        (
            r#"{"type":"handshake","protocolVersion":"1.0"}"#,
            "error error.feature_not_available, closes",
        ),
    ] {
        let mut session = ServerSession::new(&settings(), at(0));
        assert_eq!(receive(&mut session, text, 0), expected);
        assert_eq!(session.state(), State::Closing);
        assert_eq!(receive(&mut session, HANDSHAKE, 0), "error error.feature_not_available");
    }
}

#[test]
fn refined_capabilities_only_narrow() {
    let mut session = ServerSession::new(&settings(), at(0));
    let handshake =
        HANDSHAKE.replace(r#""capabilities""#, r#""capabilitiesExchange":true,"capabilities""#);
    assert_eq!(receive(&mut session, &handshake, 0), "acknowledge");
    assert_eq!(session.state(), State::HandshakeAcked);
    let request = r#"{"type":"request","id":1,"method":"ping"}"#;
    assert_eq!(receive(&mut session, request, 0), "response error.feature_not_available");
    let before = *session.capabilities();
    let refined =
        r#"{"type":"capabilities","capabilities":{"tools":true,"prompts":true,"maxConcurrent":9}}"#;
    assert_eq!(receive(&mut session, refined, 0), "acknowledge capabilities");
    assert!(session.is_ready() && session.capabilities().is_within(&before));
    assert!(!session.capabilities().has(Feature::Streaming));
    assert_eq!(session.capabilities().max_concurrent, Some(4));
    assert_eq!(receive(&mut session, refined, 0), "error error.feature_not_available");
}

#[test]
fn request_beyond_capabilities_is_answered_with_error() {
    let mut session = ready_session();
    for (text, in_flight, expected) in [
        (r#"{"type":"request","id":1,"method":"tools/call"}"#, 0, "start tools/call"),
        (r#"{"type":"request","id":1,"method":"tools/call"}"#, 4, "response error.rate_limited"),
        (
            r#"{"type":"request","id":1,"method":"prompts/list"}"#,
            0,
            "response error.feature_not_available",
        ),
        (
            r#"{"type":"request","id":1,"method":"tasks/list"}"#,
            0,
            "response error.feature_not_available",
        ),
        (r#"{"type":"request","id":1,"method":7}"#, 0, "response error.internal"),
        (r#"{"type":"request","method":"ping"}"#, 0, "error error.internal"),
        (r#"{"type":"response","id":1,"result":{}}"#, 0, "error error.internal"),
        (r#"{"type":"nothing"}"#, 0, "error error.internal"),
        (r#"{"type":"keepalive"}"#, 0, "none"),
        (r#"{"type":"cancel","id":77}"#, 0, "cancel"),
    ] {
        assert_eq!(receive(&mut session, text, in_flight), expected, "{text}");
        assert!(session.is_ready());
    }
    let long =
        format!(r#"{{"type":"request","id":1,"method":"ping","x":"{}"}}"#, "x".repeat(1_000));
    assert_eq!(receive(&mut session, &long, 0), "response error.payload_too_large, closes");
}

#[test]
fn idempotency_key_is_accepted_once() {
    let mut session = ready_session();
    let request = r#"{"type":"request","id":1,"method":"ping","idempotencyKey":"k"}"#;
    assert_eq!(receive(&mut session, request, 0), "start ping");
    assert_eq!(receive(&mut session, request, 0), "response error.already_processed");
}

#[test]
fn session_without_handshake_expires() {
    let mut settings = settings();
    let mut session = ServerSession::new(&settings, at(0));
    assert!(matches!(session.expire(&settings, false, at(4)), Expired::None));
    let Expired::Close(error) = session.expire(&settings, false, at(5)) else { panic!() };
    assert_eq!((error.code, session.state()), (ErrorCode::VersionUnsupported, State::Closing));
    let exchanging =
        HANDSHAKE.replace(r#""capabilities""#, r#""capabilitiesExchange":true,"capabilities""#);
    let mut session = ServerSession::new(&settings, at(0));
    assert_eq!(receive(&mut session, &exchanging, 0), "acknowledge");
    assert!(matches!(session.expire(&settings, false, at(6)), Expired::None));
    assert!(session.is_ready());
    settings.timeouts.continues_without_capabilities = false;
    let mut session = ServerSession::new(&settings, at(0));
    assert_eq!(receive(&mut session, &exchanging, 0), "acknowledge");
    let Expired::Close(error) = session.expire(&settings, false, at(6)) else { panic!() };
    assert_eq!(error.code, ErrorCode::FeatureNotAvailable);
}

#[test]
fn silent_client_gets_keepalive_then_close() {
    let settings = settings();
    let mut session = ready_session();
    assert_eq!(session.next_deadline(&settings, false), Some(at(61)));
    assert!(matches!(session.expire(&settings, false, at(61)), Expired::SendKeepalive));
    assert!(matches!(session.expire(&settings, false, at(121)), Expired::SendKeepalive));
    let Expired::Close(error) = session.expire(&settings, false, at(181)) else { panic!() };
    assert_eq!(error, ParityError::idle_timeout());
    assert_eq!(session.state(), State::Closing);
}

/// Gives one message of the server to a client.
fn deliver(client: &mut ClientSession, text: &str) -> Result<String, Violation> {
    with_value(text, |value| {
        let event = client.receive(Envelope::read(value).expect("the message is valid"))?;
        Ok(match event {
            ClientEvent::Chunk(chunk) => format!("chunk {}", chunk.seq),
            ClientEvent::Ready { resumed } => format!("ready {resumed:?}"),
            ClientEvent::None => "none".to_owned(),
            other => format!("{other:?}"),
        })
    })
}

#[test]
fn client_and_server_agree() {
    let settings = settings();
    let offered = Capabilities::of([Feature::Tools, Feature::Streaming, Feature::Resume]);
    let mut client = ClientSession::default();
    let mut out = Vec::new();
    client.connect(&mut out, &offered, ("c", "1"), None).unwrap();
    let mut server = ServerSession::new(&settings, at(0));
    let handshake = String::from_utf8(std::mem::take(&mut out)).unwrap();
    assert_eq!(receive(&mut server, &handshake, 0), "acknowledge");
    let params = HandshakeAckParams {
        session_id: "a",
        capabilities: server.capabilities(),
        server_info: ("s", "1"),
        resume_token: Some("t"),
        resumption: None,
    };
    write::handshake_ack(&mut out, &params);
    let text = String::from_utf8(std::mem::take(&mut out)).unwrap();
    assert_eq!(deliver(&mut client, &text).unwrap(), "ready None");
    assert_eq!(client.capabilities(), server.capabilities());
    let call = RequestParams {
        id: Id::Signed(1),
        method: "tools/call",
        params: None,
        streams: true,
        idempotency_key: None,
        auth_token: None,
    };
    client.request(&mut out, &call).unwrap();
    let get = RequestParams { id: Id::Signed(2), method: "prompts/get", streams: false, ..call };
    assert!(client.request(&mut out, &get).is_err());
    let request = String::from_utf8(std::mem::take(&mut out)).unwrap();
    assert_eq!(receive(&mut server, &request, 0), "start tools/call");
    let window = server.window(&settings);
    let stream = server.streams.open(Id::Signed(1), settings.streams_max).unwrap();
    let response =
        format!(r#"{{"type":"response","id":1,"result":{{"streamId":"{}"}}}}"#, stream.id());
    assert!(deliver(&mut client, &response).is_ok());
    let mut texts = Vec::new();
    for _ in 0..2 {
        let mut text = Vec::new();
        stream.write_chunk(&mut text, ChunkType::Partial, b"1", window.as_ref(), at(1));
        texts.push(String::from_utf8(text).unwrap());
    }
    assert_eq!(deliver(&mut client, &texts[0]).unwrap(), "chunk 1");
    assert_eq!(deliver(&mut client, &texts[0]).unwrap(), "none");
    let gap = texts[1].replace("\"seq\":2", "\"seq\":3");
    let expected = Violation::Chunk(Received::Gap { expected: 2 });
    assert_eq!(deliver(&mut client, &gap), Err(expected));
    // The connection is lost: the client names the last number, and the rest follows.
    assert_eq!(client.disconnect(), Duration::from_millis(100));
    client.connect(&mut out, &offered, ("c", "1"), None).unwrap();
    let handshake = String::from_utf8(out).unwrap();
    assert!(handshake.contains(r#""resumeToken":"t","lastAckSeq":{"s1":1}"#), "{handshake}");
    let rest: Vec<_> = stream.resume(1, &window.unwrap(), at(2)).unwrap().collect();
    assert_eq!(rest, [texts[1].as_bytes()]);
}

/// The response that opens a stream may be lost with its connection.
#[test]
fn resumed_client_knows_streams_of_acknowledgement() {
    let offered = Capabilities::of([Feature::Tools, Feature::Streaming, Feature::Resume]);
    let mut client = ClientSession::default();
    for (rest, expected) in [
        ("", "ready None"),
        (r#","resumed":true,"streams":[{"streamId":"s1","nextSeq":1}]"#, "ready Some(true)"),
    ] {
        client.disconnect();
        client.connect(&mut Vec::new(), &offered, ("c", "1"), None).unwrap();
        let ack = format!(
            r#"{{"type":"handshakeAck","protocolVersion":"1.0","sessionId":"a",
            "capabilities":{{"tools":true,"streaming":true,"resume":true}},
            "resumeToken":"t"{rest}}}"#
        );
        assert_eq!(deliver(&mut client, &ack).unwrap(), expected);
    }
    let chunk = r#"{"type":"stream.chunk","streamId":"s1","seq":1,"chunkType":"partial","data":1}"#;
    assert_eq!(deliver(&mut client, chunk).unwrap(), "chunk 1");
}

#[test]
fn widened_capabilities_are_a_violation() {
    let offered = Capabilities::of([Feature::Tools]);
    let mut client = ClientSession::default();
    client.connect(&mut Vec::new(), &offered, ("c", "1"), None).unwrap();
    let ack = concat!(
        r#"{"type":"handshakeAck","protocolVersion":"1.0","sessionId":"a","#,
        r#""capabilities":{"tools":true,"prompts":true}}"#
    );
    assert_eq!(deliver(&mut client, ack), Err(Violation::WidenedCapabilities));
}

proptest! {
    /// Whatever a client sends, requests start in Ready only, within capabilities that only narrow.
    #[test]
    fn any_messages_keep_the_invariants(steps in proptest::collection::vec(0..12_usize, 0..40)) {
        let mut session = ServerSession::new(&settings(), at(0));
        let exchanging = HANDSHAKE
            .replace(r#""capabilities""#, r#""capabilitiesExchange":true,"capabilities""#);
        let messages = [
            HANDSHAKE,
            &exchanging,
            r#"{"type":"handshake","protocolVersion":"9","capabilities":{"tools":true}}"#,
            r#"{"type":"capabilities","capabilities":{"tools":true,"prompts":true}}"#,
            r#"{"type":"capabilities","capabilities":{}}"#,
            r#"{"type":"request","id":1,"method":"tools/call"}"#,
            r#"{"type":"request","id":2,"method":"tools/call","stream":true}"#,
            r#"{"type":"request","id":3,"method":"prompts/list"}"#,
            r#"{"type":"cancel","id":1}"#,
            r#"{"type":"keepalive"}"#,
            r#"{"type":"response","id":1,"result":{}}"#,
            r#"{"type":"other"}"#,
        ];
        let mut agreed: Option<Capabilities> = None;
        for step in steps {
            let (state, before) = (session.state(), *session.capabilities());
            let done = receive(&mut session, messages[step], 0);
            if done.starts_with("start") {
                prop_assert_eq!(state, State::Ready);
                prop_assert!(before.has(Feature::Tools));
                prop_assert!(step != 6 || before.has(Feature::Streaming));
                prop_assert!(step != 7, "prompts are not negotiated");
            }
            if let Some(agreed) = agreed {
                prop_assert!(session.capabilities().is_within(&agreed));
            } else if done == "acknowledge" {
                agreed = Some(*session.capabilities());
            }
            prop_assert!(state != State::Closing || session.state() == State::Closing);
        }
    }
}
