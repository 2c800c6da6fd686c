//! Responses and notifications: the frames around a body.
//!
//! Source: `basic/index` of each revision; progress: `basic/utilities/progress` (2024-11-05 to
//! 2025-11-25), `basic/patterns/progress` (2026-07-28).

use crate::protocol::error::Error;
use crate::protocol::json::write;
use crate::protocol::revision::Revision;
use crate::protocol::rpc::Id;

/// Appends an error response.
///
/// Without an `id` (it could not be read) the member is left out, as 2025-11-25 and later have it;
/// a session of an earlier revision gets `"id":null`, which JSON-RPC 2.0 asks for.
pub fn error(out: &mut Vec<u8>, id: Option<Id<'_>>, error: &Error, revision: Option<Revision>) {
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
    error_object(out, error);
    out.push(b'}');
}

/// Appends the object that says what went wrong: in an error response, and in a task that failed.
pub fn error_object(out: &mut Vec<u8>, error: &Error) {
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

/// Appends a response up to its body, which the caller appends before [`result_close`].
#[inline]
pub fn result_open(out: &mut Vec<u8>, id: Id<'_>) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    id.write(out);
    out.extend_from_slice(br#","result":"#);
}

/// Appends what stands behind the body of a response.
#[inline]
pub fn result_close(out: &mut Vec<u8>) {
    out.push(b'}');
}

/// Appends a response with a `body` that is encoded already.
#[inline]
pub fn result(out: &mut Vec<u8>, id: Id<'_>, body: &[u8]) {
    out.reserve(body.len() + 64);
    result_open(out, id);
    out.extend_from_slice(body);
    result_close(out);
}

/// Appends the body of a result that says nothing but that it is done (`ping`); `suffix` is that of
/// [`super::result_suffix`].
pub fn empty_result(out: &mut Vec<u8>, suffix: &[u8]) {
    out.push(b'{');
    // The suffix starts with the comma that separates it from the members before it.
    out.extend_from_slice(suffix.strip_prefix(b",").unwrap_or(suffix));
    out.push(b'}');
}

/// Appends `notifications/progress` for the request that carried `token`. The caller keeps
/// `progress` increasing and says nothing after the result.
pub fn progress(
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
    use crate::protocol::era::ClientCapabilities;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_error_carries_the_id_or_what_its_revision_says_instead() {
        let fault = Error::parse("no");
        let text = |id, revision| written(|out| error(out, id, &fault, revision));
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
    fn the_data_of_an_error_is_passed_on_as_it_is() {
        let fault = Error::missing_capability(ClientCapabilities::SAMPLING);
        let text = written(|out| error(out, None, &fault, None));
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            json["error"]["data"]["requiredCapabilities"]["sampling"],
            serde_json::json!({})
        );
    }

    #[test]
    fn a_result_stands_between_its_brackets() {
        let text = written(|out| result(out, Id::Signed(-3), b"{}"));
        assert_eq!(text, r#"{"jsonrpc":"2.0","id":-3,"result":{}}"#);
        assert_eq!(written(|out| empty_result(out, b"")), "{}");
        let modern = written(|out| empty_result(out, br#","resultType":"complete""#));
        assert_eq!(modern, r#"{"resultType":"complete"}"#);
    }

    #[test]
    fn progress_says_what_the_revision_knows() {
        let text = |revision| {
            written(|out| progress(out, Id::Text("t"), 1.0, Some(2.5), Some("half"), revision))
        };
        let frame = |more: &str| {
            let params = format!(r#"{{"progressToken":"t","progress":1,"total":2.5{more}}}"#);
            let head = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":"#;
            format!("{head}{params}}}")
        };
        assert_eq!(text(Revision::V2024_11_05), frame(""));
        assert_eq!(text(Revision::LATEST), frame(r#","message":"half""#));
    }
}
