//! From JSON-RPC texts of the dispatcher to envelopes.
//!
//! Invariants: a response keeps the bytes of its result; an error keeps its message, and its code
//! where the dialect has no own.

use std::ops::Range;

use crate::protocol::error::ErrorKind;
use crate::protocol::jsonrpc::Id;
use crate::protocol::parity::envelope::ChunkType;
use crate::protocol::parity::error::ParityError;
use crate::protocol::parity::write::{self, RESPONSE_HEAD};

/// The beginning of a response of JSON-RPC, up to the id.
const JSON_RPC_HEAD: &[u8; 22] = br#"{"jsonrpc":"2.0","id":"#;
/// What follows the id.
const RESULT_KEY: &[u8; 10] = br#","result":"#;
const PROGRESS_HEAD: &[u8] =
    br#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"#;
const LOG_HEAD: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/message","params":"#;

/// Converts the response at the end of `out`, from `start`.
#[inline]
pub(super) fn response_in_place(out: &mut Vec<u8>, start: usize) {
    const GROWTH: usize = RESPONSE_HEAD.len() - JSON_RPC_HEAD.len();
    let end = out.len();
    out.extend_from_slice(&[b' '; GROWTH]);
    out.copy_within(start + JSON_RPC_HEAD.len()..end, start + RESPONSE_HEAD.len());
    out[start..start + RESPONSE_HEAD.len()].copy_from_slice(RESPONSE_HEAD);
}

/// Returns the place of the result in the response to the request `id`.
pub(super) fn result_range(response: &[u8], id: Id<'_>) -> Range<usize> {
    let mut id_text = Vec::new();
    id.write(&mut id_text);
    let start = JSON_RPC_HEAD.len() + id_text.len() + RESULT_KEY.len();
    // Behind it: the closing brace of the response.
    start.min(response.len())..response.len().saturating_sub(1).max(start.min(response.len()))
}

/// Converts the error response at the end of `out`, from `start`, and returns its error.
#[cold]
pub(super) fn error_in_place(out: &mut Vec<u8>, start: usize, kind: ErrorKind) -> ParityError {
    let response = out.split_off(start);
    write_error_response(out, &response, kind)
}

/// Appends an error response of JSON-RPC as one of the dialect, and returns its error.
#[cold]
pub(super) fn write_error_response(
    out: &mut Vec<u8>,
    response: &[u8],
    kind: ErrorKind,
) -> ParityError {
    let json: serde_json::Value = serde_json::from_slice(response).unwrap_or_default();
    let error = read_error(&json, kind);
    match &json["id"] {
        serde_json::Value::String(id) => write::error_response(out, Id::Text(id), &error),
        id => {
            let unsigned = id.as_u64().map(Id::from);
            let whole = || Id::from_double(id.as_f64()?);
            let id = id.as_i64().map(Id::from).or(unsigned).or_else(whole);
            write::error_response(out, id.unwrap_or(Id::Text("")), &error);
        }
    }
    error
}

/// Returns the error of a response.
#[cold]
pub(super) fn error_of(response: &[u8], kind: ErrorKind) -> ParityError {
    read_error(&serde_json::from_slice(response).unwrap_or_default(), kind)
}

fn read_error(response: &serde_json::Value, kind: ErrorKind) -> ParityError {
    let error = &response["error"];
    let code = error["code"].as_i64().and_then(|code| i32::try_from(code).ok());
    let code = code.unwrap_or_else(|| kind.properties().code);
    let message = error["message"].as_str().unwrap_or("the request has failed").to_owned();
    let data = error.get("data").map(ToString::to_string);
    ParityError::from_mcp(kind, code, message.into(), data.as_deref())
}

/// Returns the kind and data of the chunk that a notification becomes; `None` if it has none in the
/// dialect. `token` is the progress token of the stream.
pub(super) fn notification(text: &[u8], token: u32) -> Option<(ChunkType, Vec<u8>)> {
    if let Some(params) = text.strip_prefix(PROGRESS_HEAD) {
        let members = params.strip_prefix(token.to_string().as_bytes())?.strip_prefix(b",")?;
        let mut data = vec![b'{'];
        data.extend_from_slice(members.strip_suffix(b"}")?);
        return Some((ChunkType::Progress, data));
    }
    if let Some(params) = text.strip_prefix(write::PARTIAL_NOTIFICATION_HEAD) {
        return Some((ChunkType::Partial, params.strip_suffix(b"}")?.to_vec()));
    }
    let params = text.strip_prefix(LOG_HEAD)?.strip_suffix(b"}")?;
    Some((ChunkType::Log, params.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::eras::LoggingLevel;
    use crate::protocol::error::Error;
    use crate::protocol::model;
    use crate::protocol::revision::Revision;

    #[test]
    fn response_keeps_its_result() {
        for id in [Id::Signed(7), Id::Signed(-3), Id::Text("a\"b")] {
            let mut out = b"before".to_vec();
            model::write_response(&mut out, id, br#"{"tools":[]}"#);
            let range = result_range(&out[6..], id);
            assert_eq!(&out[6..][range], br#"{"tools":[]}"#);
            response_in_place(&mut out, 6);
            let json: serde_json::Value = serde_json::from_slice(&out[6..]).unwrap();
            assert_eq!(json["type"], "response");
            assert_eq!(json["result"], serde_json::json!({"tools": []}));
            assert!(json.get("jsonrpc").is_none() && out.starts_with(b"before{"));
        }
    }

    #[test]
    fn error_response_is_converted() {
        let mut out = Vec::new();
        let failure = Error::invalid_params("no name");
        model::write_error_response(&mut out, Some(Id::Signed(1)), &failure, None);
        error_in_place(&mut out, 0, failure.kind);
        let expected = concat!(
            r#"{"type":"response","id":1,"error":{"code":"error.internal","#,
            r#""message":"no name","retryable":false,"details":{"mcpCode":-32602}}}"#
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn notifications_become_chunks() {
        let mut text = Vec::new();
        let revision = Revision::LATEST_LEGACY;
        model::write_progress(&mut text, Id::Signed(4), 0.5, Some(1.0), Some("half"), revision);
        let (chunk_type, data) = notification(&text, 4).unwrap();
        let data = String::from_utf8(data).unwrap();
        assert_eq!(chunk_type, ChunkType::Progress);
        assert_eq!(data, r#"{"progress":0.5,"total":1,"message":"half"}"#);
        assert!(notification(&text, 5).is_none());
        let mut text = Vec::new();
        model::write_logging_message(&mut text, LoggingLevel::Info, None, b"[1]");
        let (chunk_type, data) = notification(&text, 4).unwrap();
        assert_eq!(
            (chunk_type, &data[..]),
            (ChunkType::Log, &br#"{"level":"info","data":[1]}"#[..])
        );
        assert!(notification(br#"{"jsonrpc":"2.0","method":"other"}"#, 4).is_none());
    }
}
