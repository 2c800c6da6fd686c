//! Encoders of responses, errors and progress notifications.
//!
//! MCP `basic/index` of each revision; progress: `basic/utilities/progress` (2024-11-05 to
//! 2025-11-25), `basic/patterns/progress` (2026-07-28).

use std::ops::Range;

use crate::error::Error;
use crate::json::write;
use crate::jsonrpc::Id;
use crate::revision::Revision;

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

/// What stands before the id of a response.
const RESPONSE_HEAD: &[u8; 22] = br#"{"jsonrpc":"2.0","id":"#;
/// What stands between the id and the result.
const RESULT_KEY: &[u8; 10] = br#","result":"#;
/// What stands behind the result.
const RESPONSE_END: u8 = b'}';

/// Appends a response up to its `result`, which the caller appends before [`end_response`].
#[inline]
pub fn begin_response(out: &mut Vec<u8>, id: Id<'_>) {
    if let Id::Signed(number) = id
        && let Ok(number) = u64::try_from(number)
    {
        return write::unsigned_between(out, RESPONSE_HEAD, number, RESULT_KEY);
    }
    out.extend_from_slice(RESPONSE_HEAD);
    id.write(out);
    out.extend_from_slice(RESULT_KEY);
}

/// Appends the end of a response.
#[inline]
pub fn end_response(out: &mut Vec<u8>) {
    out.push(RESPONSE_END);
}

/// Appends a response with the encoded result `body`.
#[inline]
pub fn write_response(out: &mut Vec<u8>, id: Id<'_>, body: &[u8]) {
    out.reserve(body.len() + 64);
    begin_response(out, id);
    out.extend_from_slice(body);
    end_response(out);
}

/// A response with a result, as [`begin_response`] and [`end_response`] have written it: the parts
/// that an envelope of another dialect has, too.
#[derive(Clone, Copy, Debug)]
pub struct EncodedResponse<'a>(&'a [u8]);

impl<'a> EncodedResponse<'a> {
    /// The response in `text`, and nothing else.
    #[inline]
    pub const fn new(text: &'a [u8]) -> Self {
        Self(text)
    }

    /// Returns the whole text.
    #[inline]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Returns the end of the text, from the value of `id` on.
    #[inline]
    pub fn id_and_result(self) -> &'a [u8] {
        self.0.get(RESPONSE_HEAD.len()..).unwrap_or_default()
    }

    /// Returns the value of `result`; `id` is that of the response. Cost: the id is written once
    /// more.
    pub fn result(self, id: Id<'_>) -> &'a [u8] {
        let mut before = Vec::new();
        begin_response(&mut before, id);
        let result = self.0.get(before.len()..).unwrap_or_default();
        result.strip_suffix(&[RESPONSE_END]).unwrap_or_default()
    }
}

/// Appends an `EmptyResult` (`ping`); `suffix` is the [`super::result_suffix`] of the revision.
pub fn write_empty_result(out: &mut Vec<u8>, suffix: &[u8]) {
    out.push(b'{');
    // The suffix starts with a comma, which has no member to separate here.
    out.extend_from_slice(suffix.strip_prefix(b",").unwrap_or(suffix));
    out.push(b'}');
}

/// Appends `notifications/progress` for the request that carried `token`. The caller must increase
/// `progress` with every call and stop after the response. Returns where the members behind the
/// token stand, with the end of their object.
pub fn write_progress(
    out: &mut Vec<u8>,
    token: Id<'_>,
    progress: f64,
    total: Option<f64>,
    message: Option<&str>,
    revision: Revision,
) -> Range<usize> {
    out.extend_from_slice(
        br#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"#,
    );
    token.write(out);
    out.push(b',');
    let start = out.len();
    out.extend_from_slice(br#""progress":"#);
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
    out.push(b'}');
    let end = out.len();
    out.push(b'}');
    start..end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eras::{ClientCapabilities, LoggingLevel};
    use crate::model;

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
    fn response_has_its_parts() {
        for id in [Id::Signed(7), Id::Signed(-3), Id::Unsigned(u64::MAX), Id::Text("a\"b")] {
            let mut out = Vec::new();
            write_response(&mut out, id, br#"{"tools":[]}"#);
            let response = EncodedResponse::new(&out);
            assert_eq!(response.result(id), br#"{"tools":[]}"#);
            let id = written(|out| id.write(out));
            let end = format!("{id},\"result\":{{\"tools\":[]}}}}");
            assert_eq!(response.id_and_result(), end.as_bytes());
        }
    }

    #[test]
    fn progress_members_are_found() {
        let (mut out, revision) = (b"before".to_vec(), Revision::LATEST_LEGACY);
        let token = Id::Signed(4);
        let members = write_progress(&mut out, token, 0.5, Some(1.0), Some("half"), revision);
        assert_eq!(&out[members], br#""progress":0.5,"total":1,"message":"half"}"#);
    }

    #[test]
    fn logging_params_are_found() {
        let mut out = b"before".to_vec();
        let params = model::write_logging_message(&mut out, LoggingLevel::Info, None, b"[1]");
        assert_eq!(&out[params], br#"{"level":"info","data":[1]}"#);
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
