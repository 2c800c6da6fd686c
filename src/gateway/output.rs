//! What a client gets of an upstream's answer.

use std::collections::BTreeMap;
use std::ops::Range;

use corelane_client::{ClientError, ClientErrorKind, ReceivedMessage};
use corelane_protocol::error::{Error, ErrorKind};
use corelane_protocol::revision::Revision;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::service::{HandlerError, HandlerOutput};

/// What a result of an upstream up to 2025-11-25 lacks for a client of 2026-07-28. Results of tasks
/// of newer ones may lack `resultType`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MissingMembers {
    /// `resultType`
    ResultType,
    /// `resultType`, `ttlMs` and `cacheScope`
    CacheHints,
}

impl MissingMembers {
    /// The members, each with a comma behind it.
    const fn text(self) -> &'static str {
        match self {
            Self::ResultType => r#""resultType":"complete","#,
            Self::CacheHints => r#""resultType":"complete","ttlMs":0,"cacheScope":"private","#,
        }
    }
}

/// Returns the result of a response as the output of a handler whose client has `revision`.
///
/// # Errors
///
/// The response has no result.
pub fn result_of(
    message: ReceivedMessage,
    revision: Revision,
    missing: MissingMembers,
) -> Result<HandlerOutput, HandlerError> {
    let is_of_older = !message.revision().is_modern();
    let text = message.into_bytes();
    let has_type = || memchr::memmem::find(&text, b"\"resultType\"").is_some();
    let missing = if is_of_older {
        Some(missing)
    } else {
        (!has_type()).then_some(MissingMembers::ResultType)
    };
    let missing = missing.filter(|_| revision.is_modern());
    let Some((result, is_error)) = take_result(text, missing) else {
        return Err(Error::internal("the response of the upstream has no result").into());
    };
    Ok(HandlerOutput::Encoded { result, is_error })
}

/// Takes the result out of a response, on one line and with the `missing` members, and whether it
/// has `isError: true`.
fn take_result(text: Vec<u8>, missing: Option<MissingMembers>) -> Option<(Vec<u8>, bool)> {
    let Place { range, is_error } = find_result(&text)?;
    let mut result = text;
    result.truncate(range.end);
    result.drain(..range.start);
    // Line ends between its parts: valid strings have none, and messages are lines.
    if memchr::memchr2(b'\n', b'\r', &result).is_some() {
        for byte in result.iter_mut().filter(|it| matches!(it, b'\n' | b'\r')) {
            *byte = b' ';
        }
    }
    if let Some(missing) = missing {
        remove_members(&mut result);
        let is_empty = result[1..].trim_ascii_start() == b"}";
        let members = missing.text();
        let members = if is_empty { members.trim_end_matches(',') } else { members };
        result.splice(1..1, members.bytes());
    }
    Some((result, is_error))
}

/// Removes the members that an older server may send by chance and that are added.
fn remove_members(result: &mut Vec<u8>) {
    const ADDED: [&str; 3] = ["resultType", "ttlMs", "cacheScope"];
    let finds = |name: &&str| memchr::memmem::find(result, name.as_bytes()).is_some();
    if !ADDED.iter().any(finds) {
        return;
    }
    let Ok(members) = serde_json::from_slice::<BTreeMap<String, Box<RawValue>>>(result) else {
        return;
    };
    let kept: BTreeMap<_, _> =
        members.into_iter().filter(|(name, _)| !ADDED.contains(&name.as_str())).collect();
    if let Ok(text) = serde_json::to_vec(&kept) {
        *result = text;
    }
}

/// Where a result stands in its response.
struct Place {
    range: Range<usize>,
    is_error: bool,
}

fn find_result(text: &[u8]) -> Option<Place> {
    #[derive(Deserialize)]
    struct Response<'a> {
        #[serde(borrow)]
        result: &'a RawValue,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ToolResult {
        #[serde(default)]
        is_error: bool,
    }
    let Response { result } = serde_json::from_slice(text).ok()?;
    let result = result.get();
    if !result.starts_with('{') {
        return None;
    }
    let start = result.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    // Short of the member, to find out whether the result need be read.
    let may_fail = memchr::memmem::find(result.as_bytes(), b"\"isError\"").is_some();
    let is_error =
        may_fail && serde_json::from_str::<ToolResult>(result).is_ok_and(|result| result.is_error);
    Some(Place { range: start..start + result.len(), is_error })
}

/// Returns the error of a request that `upstream` did not answer with a result.
pub fn error_of(upstream: &str, error: &ClientError) -> HandlerError {
    let message = error.message();
    let data = error.data();
    let error = match error.kind() {
        ClientErrorKind::Rpc { code } => {
            let code = i32::try_from(code).unwrap_or(-32603);
            let kind = match code {
                -32602 => ErrorKind::InvalidParams,
                -32601 => ErrorKind::MethodNotFound,
                -32002 => ErrorKind::ResourceNotFound,
                -32021 => ErrorKind::MissingCapability,
                -32042 => ErrorKind::UrlElicitationRequired,
                _ => ErrorKind::Application(code),
            };
            Error { kind, code, message: message.to_owned().into(), data: data.map(Into::into) }
        }
        ClientErrorKind::Busy | ClientErrorKind::Http { status: 429 | 503 } => {
            let seconds = error.retry_after().map_or(1, |after| after.as_secs().max(1));
            let kind = ErrorKind::Overloaded {
                retry_after_seconds: u16::try_from(seconds).unwrap_or(u16::MAX),
            };
            Error::new(kind, format!("upstream `{upstream}` is busy: {message}"))
        }
        ClientErrorKind::Timeout => {
            Error::internal(format!("upstream `{upstream}` has not answered in time"))
        }
        ClientErrorKind::Closed => Error::internal(format!(
            "upstream `{upstream}` has ended before its answer; the call may have run: {message}"
        )),
        // The text quotes what the upstream has sent, which may be of another caller.
        ClientErrorKind::Protocol => {
            Error::internal(format!("upstream `{upstream}` has sent an invalid message"))
        }
        _ => Error::internal(format!("upstream `{upstream}`: {message}")),
    };
    HandlerError::Rpc(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_is_found_in_its_response() {
        let found = |text: &str| {
            let Place { range, is_error } = find_result(text.as_bytes())?;
            Some((text[range].to_owned(), is_error))
        };
        for (text, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"result":{"a":1}}"#, Some((r#"{"a":1}"#, false))),
            (r#"{"result": {"isError": true} ,"id":1}"#, Some((r#"{"isError": true}"#, true))),
            (
                r#"{"result":{"t":"\"isError\":true"}}"#,
                Some((r#"{"t":"\"isError\":true"}"#, false)),
            ),
            (r#"{"id":1,"error":{}}"#, None),
            (r#"{"id":1,"result":7}"#, None),
        ] {
            let expected = expected.map(|(text, is_error)| (text.to_owned(), is_error));
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn error_of_upstream_keeps_code_and_kind() {
        for (code, kind) in [
            (-32602, ErrorKind::InvalidParams),
            (-32021, ErrorKind::MissingCapability),
            (-32050, ErrorKind::Application(-32050)),
        ] {
            let error = ClientError::new(ClientErrorKind::Rpc { code }, "no");
            let HandlerError::Rpc(error) = error_of("one", &error) else { panic!("{code}") };
            assert_eq!((error.kind, i64::from(error.code)), (kind, code));
        }
    }

    #[test]
    fn result_is_one_line_with_missing_members() {
        let taken = |text: &str, missing| {
            let (result, _) = take_result(text.as_bytes().to_vec(), missing).unwrap();
            String::from_utf8(result).unwrap()
        };
        assert_eq!(taken("{\"id\":1,\"result\":{\n\"a\":\r\n1}}", None), "{ \"a\":  1}");
        let of_tool = Some(MissingMembers::ResultType);
        for (result, expected) in [
            ("{}", r#"{"resultType":"complete"}"#),
            (r#"{"a":1}"#, r#"{"resultType":"complete","a":1}"#),
            (
                r#"{"resultType":"input_required","requestState":"x"}"#,
                r#"{"resultType":"complete","requestState":"x"}"#,
            ),
            (r#"{"a":"resultType"}"#, r#"{"resultType":"complete","a":"resultType"}"#),
        ] {
            assert_eq!(taken(&format!("{{\"result\":{result}}}"), of_tool), expected);
        }
        let read =
            taken(r#"{"result":{"ttlMs":-1,"contents":[]}}"#, Some(MissingMembers::CacheHints));
        let hints = r#""resultType":"complete","ttlMs":0,"cacheScope":"private""#;
        assert_eq!(read, format!("{{{hints},\"contents\":[]}}"));
    }
}
