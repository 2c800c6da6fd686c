//! Tests of the client's side of a session.

use super::*;
use corelane_protocol::json::{PADDING_BYTES, PaddedText, ParseLimits, Parser};
use corelane_protocol::jsonrpc::Id;

const ACK: &str = concat!(
    r#"{"type":"handshakeAck","protocolVersion":"1.0","sessionId":"a","resumeToken":"t","#,
    r#""capabilities":{"tools":true,"streaming":true,"resume":true,"cancellation":true}}"#
);

/// Gives one message of the server to a client, and names what it means.
fn receive(client: &mut ClientSession, text: &str) -> Result<String, Violation> {
    let mut parser = Parser::new(ParseLimits::default());
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(text.len() + PADDING_BYTES, 0);
    let document = parser.parse(PaddedText::new(&mut bytes, text.len())).unwrap();
    Ok(match client.receive(Envelope::read(document.root()).unwrap())? {
        ClientEvent::Chunk(chunk) => format!("chunk {} {}", chunk.stream_id, chunk.seq),
        ClientEvent::Response(_) => "response".to_owned(),
        ClientEvent::Ready { resumed } => format!("ready {resumed:?}"),
        ClientEvent::ExchangeCapabilities => "exchange".to_owned(),
        other => format!("{other:?}"),
    })
}

fn all() -> Capabilities {
    Capabilities::of(Feature::ALL)
}

fn connect(client: &mut ClientSession) -> String {
    let mut out = Vec::new();
    client.connect(&mut out, &all(), ("c", "1"), Some("secret")).unwrap();
    String::from_utf8(out).unwrap()
}

fn ready() -> ClientSession {
    let mut client = ClientSession::default();
    connect(&mut client);
    assert_eq!(receive(&mut client, ACK).unwrap(), "ready None");
    client
}

fn send(client: &mut ClientSession, id: i64, streams: bool) -> Result<(), ParityError> {
    let request = RequestParams {
        id: Id::Signed(id),
        method: "tools/call",
        params: None,
        streams,
        idempotency_key: None,
        auth_token: None,
    };
    client.request(&mut Vec::new(), &request)
}

fn open_stream(client: &mut ClientSession, id: i64, stream: &str) {
    send(client, id, true).unwrap();
    let response = format!(r#"{{"type":"response","id":{id},"result":{{"streamId":"{stream}"}}}}"#);
    assert_eq!(receive(client, &response).unwrap(), "response");
}

fn eos(stream: &str, seq: u64) -> String {
    let head = format!(r#"{{"type":"stream.chunk","streamId":"{stream}","seq":{seq},"#);
    head + r#""chunkType":"eos","reason":"completed"}"#
}

#[test]
fn cancel_ends_with_response_of_its_target() {
    let mut client = ready();
    send(&mut client, 1, false).unwrap();
    send(&mut client, 2, false).unwrap();
    client.cancel(&mut Vec::new(), Target::Request(Id::Signed(1))).unwrap();
    assert!(send(&mut client, 3, false).is_err());
    receive(&mut client, r#"{"type":"response","id":2,"result":{}}"#).unwrap();
    assert_eq!(client.state(), State::Canceling);
    // The response has crossed the cancellation.
    receive(&mut client, r#"{"type":"response","id":1,"result":{}}"#).unwrap();
    assert_eq!(client.state(), State::Ready);
    send(&mut client, 3, false).unwrap();
}

#[test]
fn cancel_ends_with_eos_of_its_stream() {
    let mut client = ready();
    open_stream(&mut client, 1, "s1");
    send(&mut client, 2, true).unwrap();
    // Its response is on the way.
    client.cancel(&mut Vec::new(), Target::Request(Id::Signed(2))).unwrap();
    receive(&mut client, r#"{"type":"response","id":2,"result":{"streamId":"s2"}}"#).unwrap();
    assert_eq!(receive(&mut client, &eos("s1", 1)).unwrap(), "chunk s1 1");
    assert_eq!(client.state(), State::Canceling);
    receive(&mut client, &eos("s2", 1)).unwrap();
    assert_eq!(client.state(), State::Ready);
}

#[test]
fn refinement_is_exchanged_before_ready() {
    let mut client = ClientSession::default();
    client.refine(Capabilities::of([Feature::Tools, Feature::Streaming]));
    assert!(connect(&mut client).contains(r#""capabilitiesExchange":true"#));
    assert_eq!(receive(&mut client, ACK).unwrap(), "exchange");
    assert!(send(&mut client, 1, false).is_err());
    let mut out = Vec::new();
    client.exchange_capabilities(&mut out);
    let refined = String::from_utf8(out).unwrap();
    assert!(refined.contains(r#""streaming":true,"resume":false"#), "{refined}");
    let ack = r#"{"type":"capabilitiesAck","capabilities":{"tools":true,"streaming":true}}"#;
    assert_eq!(receive(&mut client, ack).unwrap(), "ready None");
    assert!(client.cancel(&mut Vec::new(), Target::Stream("s1")).is_err());
    // Once more is a violation.
    assert!(matches!(receive(&mut client, ack), Err(Violation::State(_))));
    // The next connection offers what was agreed, and is ready with the acknowledgement.
    client.disconnect();
    let handshake = connect(&mut client);
    assert!(handshake.contains(r#""resume":false"#), "{handshake}");
    assert!(!handshake.contains("capabilitiesExchange"), "{handshake}");
}

#[test]
fn stream_of_lost_response_is_an_orphan() {
    let mut client = ready();
    open_stream(&mut client, 1, "s1");
    send(&mut client, 2, true).unwrap();
    client.disconnect();
    assert!(connect(&mut client).contains(r#""lastAckSeq":{"s1":0}"#));
    let resumed = ACK.replace(
        r#""resumeToken""#,
        concat!(
            r#""resumed":true,"streams":[{"streamId":"s1","nextSeq":1},"#,
            r#"{"streamId":"s2","nextSeq":1}],"resumeToken""#
        ),
    );
    assert_eq!(receive(&mut client, &resumed).unwrap(), "ready Some(true)");
    assert_eq!(client.take_orphans(), ["s2".into()]);
    assert_eq!(receive(&mut client, &eos("s2", 1)).unwrap(), "chunk s2 1");
    assert!(client.take_orphans().is_empty());
}

#[test]
fn restart_advice_forgets_streams() {
    let mut client = ready();
    open_stream(&mut client, 1, "s1");
    client.disconnect();
    connect(&mut client);
    let stale = ACK.replace(
        r#""resumeToken""#,
        r#""resumed":false,"advice":"restart","reason":"expired","resumeToken""#,
    );
    assert_eq!(receive(&mut client, &stale).unwrap(), "ready Some(false)");
    let unknown = Violation::Chunk(Received::UnknownStream);
    assert_eq!(receive(&mut client, &eos("s1", 1)), Err(unknown));
    client.restart();
    client.disconnect();
    assert!(!connect(&mut client).contains("resumeToken"));
}
