//! What a proxy in front of the server may have done to a response, as text of a failure.

use super::exchange::Head;

/// Status of a request without a valid token.
const UNAUTHORIZED: u16 = 401;

/// Returns why an event stream has not begun: `head` is that of an earlier response.
pub fn explain_missing_event(head: Option<&Head>) -> String {
    let name = describe(head);
    format!(
        "{name} may buffer the stream (nginx: `proxy_http_version 1.1` and `proxy_buffering off`)"
    )
}

/// Returns why an event stream may have ended within its body.
pub fn explain_cut_stream(head: Option<&Head>) -> String {
    let name = describe(head);
    format!(
        "{name} may end a response that is silent for less than the time between keepalives \
         (nginx: `proxy_read_timeout`)"
    )
}

/// Returns why a token may not have reached the server, if the response is that to a request
/// without one: it has a challenge without an error code (RFC 6750, section 3).
pub fn explain_missing_token(head: &Head) -> Option<String> {
    let challenge = head.header("www-authenticate")?.to_ascii_lowercase();
    let is_missing = challenge.starts_with("bearer") && !challenge.contains("error=");
    let name = describe(Some(head));
    (head.status == UNAUTHORIZED && is_missing).then(|| {
        format!(
            "the token has not arrived: {name} may not forward Authorization (nginx: \
             `proxy_set_header Authorization $http_authorization`)"
        )
    })
}

/// Names the program that sent a response, which is the proxy if there is one.
fn describe(head: Option<&Head>) -> String {
    match head.and_then(|head| head.header("via").or_else(|| head.header("server"))) {
        Some(name) => format!("the proxy '{name}'"),
        None => "a proxy".to_owned(),
    }
}
