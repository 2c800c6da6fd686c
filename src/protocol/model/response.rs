//! Encoders of responses, errors and progress notifications.
//!
//! MCP `basic/index` of each revision; progress: `basic/utilities/progress` (2024-11-05 to
//! 2025-11-25), `basic/patterns/progress` (2026-07-28).

use crate::protocol::error::Error;
use crate::protocol::json::write;
use crate::protocol::jsonrpc::Id;
use crate::protocol::revision::Revision;

/// Appends an error response.
///
/// If `id` is `None` (it could not be read), the member is omitted, as 2025-11-25 and later
/// require; for earlier revisions it is `"id":null`, as JSON-RPC 2.0 requires.
pub fn write_error_response(
    out: &mut Vec<u8>,
    id: Option<Id<'_>>,
    error: &Error,
    revision: Option<Revision>,
) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","#);
    match id {
        Some(id) => {
            out.extend_from_slice(br#""id":"#);
            id.write(out);
            out.push(b',');
        }
        None if revision.is_some_and(|revision| revision.dialect().error_id_null) => {
            out.extend_from_slice(br#""id":null,"#);
        }
        None => {}
    }
    out.extend_from_slice(br#""error":"#);
    write_error_object(out, error);
    out.push(b'}');
}

/// Appends the error object of an error response or a failed task.
pub(super) fn write_error_object(out: &mut Vec<u8>, error: &Error) {
    out.extend_from_slice(br#"{"code":"#);
    write::signed(out, error.code.into());
    out.extend_from_slice(br#","message":"#);
    write::string(out, &error.message);
    if let Some(data) = &error.data {
        out.extend_from_slice(br#","data":"#);
        out.extend_from_slice(data.as_bytes());
    }
    out.push(b'}');
}

/// Appends a response up to its `result`, which the caller appends before [`end_response`].
#[inline]
pub fn begin_response(out: &mut Vec<u8>, id: Id<'_>) {
    const BEFORE: &[u8; 22] = br#"{"jsonrpc":"2.0","id":"#;
    const AFTER: &[u8; 10] = br#","result":"#;
    if let Id::Signed(number) = id
        && let Ok(number) = u64::try_from(number)
    {
        return write::unsigned_between(out, BEFORE, number, AFTER);
    }
    out.extend_from_slice(BEFORE);
    id.write(out);
    out.extend_from_slice(AFTER);
}

/// Appends the end of a response.
#[inline]
pub fn end_response(out: &mut Vec<u8>) {
    out.push(b'}');
}

/// Appends a response with the encoded result `body`.
#[inline]
pub fn write_response(out: &mut Vec<u8>, id: Id<'_>, body: &[u8]) {
    out.reserve(body.len() + 64);
    begin_response(out, id);
    out.extend_from_slice(body);
    end_response(out);
}

/// Appends an `EmptyResult` (`ping`); `suffix` is the [`super::result_suffix`] of the revision.
pub fn write_empty_result(out: &mut Vec<u8>, suffix: &[u8]) {
    out.push(b'{');
    // The suffix starts with a comma, which has no member to separate here.
    out.extend_from_slice(suffix.strip_prefix(b",").unwrap_or(suffix));
    out.push(b'}');
}

/// Appends `notifications/progress` for the request that carried `token`. The caller must increase
/// `progress` with every call and stop after the response.
pub fn write_progress(
    out: &mut Vec<u8>,
    token: Id<'_>,
    progress: f64,
    total: Option<f64>,
    message: Option<&str>,
    revision: Revision,
) {
    out.extend_from_slice(
        br#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"#,
    );
    token.write(out);
    out.extend_from_slice(br#","progress":"#);
    write::float(out, if progress.is_finite() { progress } else { 0.0 });
    if let Some(total) = total.filter(|total| total.is_finite()) {
        out.extend_from_slice(br#","total":"#);
        write::float(out, total);
    }
    if let Some(message) = message
        && revision.dialect().progress_message
    {
        out.extend_from_slice(br#","message":"#);
        write::string(out, message);
    }
    out.extend_from_slice(b"}}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::eras::ClientCapabilities;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn error_id_unreadable_is_omitted_or_null() {
        let failure = Error::parse("no");
        let text = |id, revision| written(|out| write_error_response(out, id, &failure, revision));
        let with = |id: &str| {
            format!(r#"{{"jsonrpc":"2.0",{id}"error":{{"code":-32700,"message":"no"}}}}"#)
        };
        assert_eq!(text(Some(Id::Signed(7)), None), with(r#""id":7,"#));
        assert_eq!(text(Some(Id::Text("a\"")), None), with(r#""id":"a\"","#));
        assert_eq!(text(None, None), with(""));
        assert_eq!(text(None, Some(Revision::V2025_11_25)), with(""));
        assert_eq!(text(None, Some(Revision::V2025_06_18)), with(r#""id":null,"#));
    }

    #[test]
    fn error_data_is_written_unchanged() {
        let failure = Error::missing_capability(ClientCapabilities::SAMPLING);
        let text = written(|out| write_error_response(out, None, &failure, None));
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            json["error"]["data"]["requiredCapabilities"]["sampling"],
            serde_json::json!({})
        );
    }

    #[test]
    fn response_wraps_encoded_result() {
        let text = written(|out| write_response(out, Id::Signed(-3), b"{}"));
        assert_eq!(text, r#"{"jsonrpc":"2.0","id":-3,"result":{}}"#);
        assert_eq!(written(|out| write_empty_result(out, b"")), "{}");
        let modern = written(|out| write_empty_result(out, br#","resultType":"complete""#));
        assert_eq!(modern, r#"{"resultType":"complete"}"#);
    }

    #[test]
    fn progress_message_depends_on_revision() {
        let text = |revision| {
            written(|out| {
                write_progress(out, Id::Text("t"), 1.0, Some(2.5), Some("half"), revision);
            })
        };
        let notification = |more: &str| {
            let params = format!(r#"{{"progressToken":"t","progress":1,"total":2.5{more}}}"#);
            let head = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":"#;
            format!("{head}{params}}}")
        };
        assert_eq!(text(Revision::V2024_11_05), notification(""));
        assert_eq!(text(Revision::LATEST), notification(r#","message":"half""#));
    }
}
