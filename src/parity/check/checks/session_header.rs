//! Whether `Mcp-Session-Id` passes in both directions. A proxy that drops it breaks almost every
//! other rule over HTTP, so that these are not checked then.

use serde_json::json;

use crate::peer::{Message, Peer, full_handshake};
use crate::steps::ensure;
use crate::suite::Level::Must;
use crate::suite::{Check, CheckError, CheckResult, Context, Need};
use crate::wire::exchange::describe_proxy;
use crate::wire::http::SESSION_HEADER;

/// The name of the check that reports a dropped header.
pub const SESSION_HEADER_CHECK: &str = "http.session_header";

pub(super) const CHECKS: &[Check] = &[Check {
    name: SESSION_HEADER_CHECK,
    level: Must,
    needs: &[Need::Http],
    rule: "the response to a handshake has status 200 and Mcp-Session-Id with the sessionId, and \
           the server receives it with later requests",
    run: session_header,
}];

fn session_header(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::open(context)?;
    let ack = peer.handshake(&full_handshake(context)).map_err(CheckError::blocked)?;
    ensure(ack.status() == Some(200), || format!("the status is {:?}", ack.status()))?;
    let session = ack.head.as_ref().and_then(|head| head.header(SESSION_HEADER));
    let wanted = ack.value["sessionId"].as_str();
    ensure(session.is_some() && session == wanted, || {
        format!("{SESSION_HEADER} is {session:?} and sessionId {wanted:?}")
    })
}

/// Returns why `Mcp-Session-Id` does not reach the client, or the server.
pub fn find_dropped_header(context: &Context<'_>) -> Option<String> {
    let mut peer = Peer::open(context).ok()?;
    let ack = peer.handshake(&full_handshake(context)).ok()?;
    if ack.head.as_ref()?.header(SESSION_HEADER).is_none() {
        let cause = describe(&ack, "`proxy_hide_header`");
        return Some(format!("the response to the handshake has no {SESSION_HEADER}: {cause}"));
    }
    let id = peer.request(json!({"method": "ping"})).ok()?;
    let answer = peer.answer(&id).ok()?;
    let error = &answer.value["error"];
    let is_dropped =
        error["code"] == "error.feature_not_available" && error["details"]["state"] == "Connecting";
    is_dropped.then(|| {
        let cause = describe(&answer, "`proxy_set_header`, `proxy_pass_request_headers`");
        format!("{SESSION_HEADER} of a request has not arrived: {cause}; received {}", answer.text)
    })
}

/// Names the proxy that may remove the header, and the directives of nginx that do.
fn describe(message: &Message, directives: &str) -> String {
    format!("{} may remove it (nginx: {directives})", describe_proxy(message.head.as_ref()))
}
