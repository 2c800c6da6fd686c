//! Writers of messages: each appends one JSON object.

use super::PROTOCOL_VERSION;
use super::capabilities::Capabilities;
use super::envelope::{ChunkType, Target};
use super::error::ParityError;
use corelane_protocol::json::{ObjectWriter, write};
use corelane_protocol::jsonrpc::Id;
use corelane_protocol::message_head::MessageHead;
use corelane_protocol::model::EncodedResponse;

/// The beginning of a response, up to the id.
const RESPONSE_HEAD: &[u8; 24] = br#"{"type":"response","id":"#;

/// The members of a `handshakeAck`.
#[derive(Clone, Copy, Debug)]
pub struct HandshakeAckParams<'a> {
    /// The id of the session, which the server chooses.
    pub session_id: &'a str,
    /// The intersection.
    pub capabilities: &'a Capabilities,
    /// Name and version of the server.
    pub server_info: (&'a str, &'a str),
    /// The token to resume the session with.
    pub resume_token: Option<&'a str>,
    /// What has become of the presented token.
    pub resumption: Option<Resumption<'a>>,
}

/// What has become of a resume token.
#[derive(Clone, Copy, Debug)]
pub enum Resumption<'a> {
    /// The streams continue, each at its number.
    Resumed(&'a [(String, u64)]),
    /// The client has to start again, for this reason.
    Restart(&'a str),
}

/// Appends the data of a `log` chunk that stands for dropped chunks.
pub fn dropped_chunks(out: &mut Vec<u8>, count: u64) {
    let mut object = ObjectWriter::open(out);
    object.string("level", "warning").string("logger", "corelane");
    let mut data = object.object("data");
    data.unsigned("dropped", count);
    data.close();
    object.close();
}

/// Appends a `handshakeAck`.
pub fn handshake_ack(out: &mut Vec<u8>, params: &HandshakeAckParams<'_>) {
    let mut object = open(out, "handshakeAck");
    object.string("protocolVersion", PROTOCOL_VERSION).string("sessionId", params.session_id);
    params.capabilities.write(object.key("capabilities"));
    let mut server_info = object.object("serverInfo");
    let (name, version) = params.server_info;
    server_info.string("name", name).string("version", version);
    server_info.close();
    object.string_opt("resumeToken", params.resume_token);
    match params.resumption {
        Some(Resumption::Resumed(streams)) => {
            object.boolean("resumed", true);
            write_streams(object.key("streams"), streams);
        }
        Some(Resumption::Restart(reason)) => {
            object.boolean("resumed", false).string("advice", "restart").string("reason", reason);
        }
        None => {}
    }
    object.close();
}

fn write_streams(out: &mut Vec<u8>, streams: &[(String, u64)]) {
    out.push(b'[');
    for (index, (stream_id, next_seq)) in streams.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let mut object = ObjectWriter::open(out);
        object.string("streamId", stream_id).unsigned("nextSeq", *next_seq);
        object.close();
    }
    out.push(b']');
}

/// The members of a `handshake`.
#[derive(Clone, Copy, Debug)]
pub struct HandshakeParams<'a> {
    /// What the client offers.
    pub capabilities: &'a Capabilities,
    /// A `capabilities` message follows the acknowledgement.
    pub exchanges_capabilities: bool,
    /// Name and version of the client.
    pub client_info: (&'a str, &'a str),
    /// The token of the caller.
    pub auth_token: Option<&'a str>,
    /// The token of the session to resume, with the last number received of each stream.
    pub resume: Option<(&'a str, &'a [(String, u64)])>,
}

/// Appends a `handshake`.
pub fn handshake(out: &mut Vec<u8>, params: &HandshakeParams<'_>) {
    let mut object = open(out, "handshake");
    object.string("protocolVersion", PROTOCOL_VERSION);
    params.capabilities.write(object.key("capabilities"));
    let mut client_info = object.object("clientInfo");
    let (name, version) = params.client_info;
    client_info.string("name", name).string("version", version);
    client_info.close();
    if params.exchanges_capabilities {
        object.boolean("capabilitiesExchange", true);
    }
    object.string_opt("auth_token", params.auth_token);
    if let Some((token, acknowledged)) = params.resume {
        object.string("resumeToken", token);
        let mut streams = object.object("lastAckSeq");
        for (stream, seq) in acknowledged {
            streams.unsigned(stream, *seq);
        }
        streams.close();
    }
    object.close();
}

/// Appends a `capabilities`.
pub fn capabilities(out: &mut Vec<u8>, capabilities: &Capabilities) {
    let mut object = open(out, "capabilities");
    capabilities.write(object.key("capabilities"));
    object.close();
}

/// Appends a `capabilitiesAck`.
pub fn capabilities_ack(out: &mut Vec<u8>, capabilities: &Capabilities) {
    let mut object = open(out, "capabilitiesAck");
    capabilities.write(object.key("capabilities"));
    object.close();
}

/// The members of a `request`.
#[derive(Clone, Copy, Debug)]
pub struct RequestParams<'a> {
    /// The id, unique among the requests in flight.
    pub id: Id<'a>,
    /// The method.
    pub method: &'a str,
    /// An encoded object.
    pub params: Option<&'a [u8]>,
    /// Whether the result is streamed.
    pub streams: bool,
    /// The key under which it is accepted once.
    pub idempotency_key: Option<&'a str>,
    /// The token that replaces that of the handshake.
    pub auth_token: Option<&'a str>,
}

/// Appends a `request`.
pub fn request(out: &mut Vec<u8>, request: &RequestParams<'_>) {
    let mut object = open(out, "request");
    request.id.write(object.key("id"));
    object.string("method", request.method);
    if let Some(params) = request.params {
        object.raw("params", params);
    }
    if request.streams {
        object.boolean("stream", true);
    }
    object.string_opt("idempotencyKey", request.idempotency_key);
    object.string_opt("auth_token", request.auth_token);
    object.close();
}

/// Appends a response with a result.
#[inline]
pub fn response(out: &mut Vec<u8>, response: EncodedResponse<'_>) {
    let members = response.id_and_result();
    out.reserve(RESPONSE_HEAD.len() + members.len());
    out.extend_from_slice(RESPONSE_HEAD);
    out.extend_from_slice(members);
}

/// Appends a response with an error.
pub fn error_response(out: &mut Vec<u8>, id: Id<'_>, error: &ParityError) {
    out.extend_from_slice(RESPONSE_HEAD);
    id.write(out);
    out.extend_from_slice(br#","error":"#);
    error.write(out);
    out.push(b'}');
}

/// Appends the response to a request that opens a stream.
pub fn stream_response(out: &mut Vec<u8>, id: Id<'_>, stream_id: &str) {
    out.extend_from_slice(RESPONSE_HEAD);
    id.write(out);
    out.extend_from_slice(br#","result":{"streamId":"#);
    write::string(out, stream_id);
    out.extend_from_slice(b"}}");
}

/// Appends a `stream.chunk` with `data`, one encoded value.
pub fn chunk(out: &mut Vec<u8>, stream_id: &str, seq: u64, chunk_type: ChunkType, data: &[u8]) {
    begin_chunk(out, stream_id, seq, chunk_type);
    out.extend_from_slice(br#","data":"#);
    out.extend_from_slice(data);
    out.push(b'}');
}

/// Appends the last chunk of a stream.
pub fn eos(out: &mut Vec<u8>, stream_id: &str, seq: u64, reason: &str) {
    begin_chunk(out, stream_id, seq, ChunkType::Eos);
    out.extend_from_slice(br#","reason":"#);
    write::string(out, reason);
    out.push(b'}');
}

fn begin_chunk(out: &mut Vec<u8>, stream_id: &str, seq: u64, chunk_type: ChunkType) {
    out.extend_from_slice(br#"{"type":"stream.chunk","streamId":"#);
    write::string(out, stream_id);
    out.extend_from_slice(br#","seq":"#);
    write::unsigned(out, seq);
    out.extend_from_slice(br#","chunkType":""#);
    out.extend_from_slice(chunk_type.as_str().as_bytes());
    out.push(b'"');
}

/// Appends a `keepalive`.
pub fn keepalive(out: &mut Vec<u8>, timeout_hint: u64) {
    let mut object = open(out, "keepalive");
    object.unsigned("timeoutHintSec", timeout_hint);
    object.close();
}

/// Appends a `cancel`.
pub fn cancel(out: &mut Vec<u8>, target: Target<'_>, reason: Option<&str>) {
    let mut object = open(out, "cancel");
    match target {
        Target::Request(id) => id.write(object.key("id")),
        Target::Stream(stream_id) => {
            object.string("streamId", stream_id);
        }
    }
    object.string_opt("reason", reason);
    object.close();
}

/// Appends an `error`, about a request or stream if one is named.
pub fn error(out: &mut Vec<u8>, target: Option<Target<'_>>, error: &ParityError) {
    let mut object = open(out, "error");
    match target {
        Some(Target::Request(id)) => id.write(object.key("id")),
        Some(Target::Stream(stream_id)) => {
            object.string("streamId", stream_id);
        }
        None => {}
    }
    error.write(object.key("error"));
    object.close();
}

/// Appends the answer to a text that was not read as a message: the response to its request, if
/// `head` has one with an id, or else an `error`, with the id if there is one.
pub fn rejection(out: &mut Vec<u8>, head: &MessageHead, failure: &ParityError) {
    match head.id() {
        Some(id) if head.has_method() => error_response(out, id, failure),
        id => error(out, id.map(Target::Request), failure),
    }
}

fn open<'o>(out: &'o mut Vec<u8>, kind: &str) -> ObjectWriter<'o> {
    let mut object = ObjectWriter::open(out);
    object.string("type", kind);
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capabilities::Feature;
    use corelane_protocol::error::Error;
    use corelane_protocol::model;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn members_have_the_order_of_the_specification() {
        let capabilities = Capabilities::of([Feature::Tools]);
        let flags = written(|out| capabilities.write(out));
        let streams = [("s1".to_owned(), 5)];
        let params = HandshakeAckParams {
            session_id: "a",
            capabilities: &capabilities,
            server_info: ("n", "v"),
            resume_token: Some("t"),
            resumption: Some(Resumption::Resumed(&streams)),
        };
        let head = r#"{"type":"handshakeAck","protocolVersion":"1.0","sessionId":"a","#.to_owned()
            + &format!(r#""capabilities":{flags},"serverInfo":{{"name":"n","version":"v"}},"#);
        assert_eq!(
            written(|out| handshake_ack(out, &params)),
            head.clone()
                + r#""resumeToken":"t","resumed":true,"streams":[{"streamId":"s1","nextSeq":5}]}"#
        );
        let restart = HandshakeAckParams {
            resume_token: None,
            resumption: Some(Resumption::Restart("expired")),
            ..params
        };
        assert_eq!(
            written(|out| handshake_ack(out, &restart)),
            head + r#""resumed":false,"advice":"restart","reason":"expired"}"#
        );
    }

    #[test]
    fn response_keeps_its_result() {
        for (id, text) in [(Id::Signed(7), "7"), (Id::Signed(-3), "-3"), (Id::Text("q"), "\"q\"")] {
            let mut encoded = Vec::new();
            model::write_response(&mut encoded, id, br#"{"tools":[]}"#);
            let out = written(|out| response(out, EncodedResponse::new(&encoded)));
            let expected = format!(r#"{{"type":"response","id":{text},"result":{{"tools":[]}}}}"#);
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn error_of_mcp_is_written() {
        let error = ParityError::from(&Error::invalid_params("no name"));
        let expected = concat!(
            r#"{"type":"response","id":1,"error":{"code":"error.internal","#,
            r#""message":"no name","retryable":false,"details":{"mcpCode":-32602}}}"#
        );
        assert_eq!(written(|out| error_response(out, Id::Signed(1), &error)), expected);
    }

    #[test]
    fn chunks_and_responses_are_written() {
        for (text, expected) in [
            (
                written(|out| chunk(out, "s1", 3, ChunkType::Partial, b"[1]")),
                r#"{CHUNK,"seq":3,"chunkType":"partial","data":[1]}"#,
            ),
            (
                written(|out| eos(out, "s1", 4, "completed")),
                r#"{CHUNK,"seq":4,"chunkType":"eos","reason":"completed"}"#,
            ),
            (
                written(|out| stream_response(out, Id::Text("q"), "s1")),
                r#"{"type":"response","id":"q","result":{"streamId":"s1"}}"#,
            ),
            (
                written(|out| cancel(out, Target::Request(Id::Signed(3)), Some("r"))),
                r#"{"type":"cancel","id":3,"reason":"r"}"#,
            ),
            (written(|out| keepalive(out, 120)), r#"{"type":"keepalive","timeoutHintSec":120}"#),
            (
                written(|out| {
                    let (params, auth_token) = (None, None);
                    let (id, method) = (Id::Signed(1), "ping");
                    let (streams, idempotency_key) = (true, Some("k"));
                    let it =
                        RequestParams { id, method, params, streams, idempotency_key, auth_token };
                    request(out, &it);
                }),
                r#"{"type":"request","id":1,"method":"ping","stream":true,"idempotencyKey":"k"}"#,
            ),
        ] {
            let chunk = r#""type":"stream.chunk","streamId":"s1""#;
            assert_eq!(text, expected.replace("CHUNK", chunk));
        }
    }
}
