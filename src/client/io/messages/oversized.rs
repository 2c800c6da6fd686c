//! Responses that are longer than the limit: to which request they belong.

use memchr::memmem;

/// Bytes at the start of a message in which its id is looked for.
const START_BYTES: usize = 128;

/// Returns the id of the response that begins with `text`, if it has its id before its result.
pub(super) fn response_id(text: &[u8]) -> Option<u64> {
    let start = &text[..text.len().min(START_BYTES)];
    let (before, after) = start.split_at(memmem::find(start, b"\"id\"")?);
    // It is a member of the message, and no other is an object.
    let is_own = before.iter().filter(|byte| matches!(byte, b'{' | b'[')).count() == 1;
    let value = skip(after, b"\"id\"").and_then(|rest| skip(rest, b":")).filter(|_| is_own)?;
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (id, rest) = value.split_at(digits);
    let rest = skip(rest, b",")?;
    // A request of the server has an id of the server.
    let is_response = rest.starts_with(b"\"result\"") || rest.starts_with(b"\"error\"");
    str::from_utf8(id).ok().filter(|_| is_response)?.parse().ok()
}

/// Returns what follows `expected` and white space, at the start of `text` behind white space.
fn skip<'t>(text: &'t [u8], expected: &[u8]) -> Option<&'t [u8]> {
    Some(text.trim_ascii_start().strip_prefix(expected)?.trim_ascii_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_has_its_id_before_its_result() {
        for text in [
            &br#"{"jsonrpc":"2.0","id":18446744073709551615,"result":{"content":[{"type"#[..],
            b" { \"id\" : 18446744073709551615 , \"error\" : {",
        ] {
            assert_eq!(response_id(text), Some(u64::MAX));
        }
        for text in [
            &br#"{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","#[..],
            br#"{"jsonrpc":"2.0","result":{"id":7,"result":1}"#,
            br#"{"jsonrpc":"2.0","id":"7","result":"#,
            br#"{"jsonrpc":"2.0","id":-7,"result":"#,
            br#"{"jsonrpc":"2.0","id":7"#,
            br#"{"jsonrpc":"2.0","#,
            b"\"id\":7,\"result\":1",
            b"",
        ] {
            assert_eq!(response_id(text), None, "{}", text.escape_ascii());
        }
        let late = format!("{{\"jsonrpc\":\"{}\",\"id\":7,\"result\":1", "2".repeat(START_BYTES));
        assert_eq!(response_id(late.as_bytes()), None);
    }
}
