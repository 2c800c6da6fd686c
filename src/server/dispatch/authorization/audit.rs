//! The audit log: calls of marked tools, with caller and outcome (`auth.audit`).
//!
//! Invariant: a call is logged once, when it ends; nothing of its arguments and results is.

use std::sync::Arc;

use crate::protocol::eras::Method;
use crate::server::auth::Authentication;
use crate::server::connection_state::PeerState;
use crate::server::dispatch::admission::Request;
use crate::server::dispatch::{Dispatcher, MessageContext, handler_calls};
use crate::server::refusal_fields::RefusalFields;
use crate::server::reply_to::Outcome;
use crate::telemetry::auth_event::{AuditedCall, AuthEvent};
use crate::telemetry::event::Event;

/// Dispatches a request to its handler, and logs the call if its tool is marked.
#[inline]
pub(in crate::server::dispatch) fn dispatch_call(
    dispatcher: &mut Dispatcher,
    ctx: MessageContext,
    peer: &mut PeerState<'_>,
    request: &Request<'_>,
) -> Outcome {
    match audited_call(&dispatcher.auth, peer, request) {
        None => handler_calls::dispatch_call(dispatcher, ctx, peer, request),
        Some(call) => dispatch_audited(dispatcher, ctx, (peer, request), call),
    }
}

/// Returns what is logged of a request, if it is a call of a marked tool.
#[inline]
pub(super) fn audited_call(
    auth: &Authentication,
    peer: &PeerState<'_>,
    request: &Request<'_>,
) -> Option<Box<AuditedCall>> {
    if request.method != Method::ToolsCall || !auth.has_audit() {
        return None;
    }
    let tool = request.target_name();
    auth.audits(tool).then(|| {
        let peer_addr = peer.origin.peer_addr.copied().map(Into::into);
        Box::new(AuditedCall {
            caller: peer.principal().map(Arc::clone),
            tool: tool.into(),
            peer: peer_addr,
            request_id: peer.origin.request_id().map(Box::from),
        })
    })
}

/// Logs a request that exceeds the limit in the refusal of `peer`.
#[cold]
pub(in crate::server::dispatch) fn log_rate_limited(
    auth: &Authentication,
    peer: &mut PeerState<'_>,
    request: &Request<'_>,
) {
    if let Some(call) = audited_call(auth, peer, request) {
        call.log("rate limited");
    }
    let rule = match &peer.refusal {
        Some(RefusalFields::RateLimit(exceeded)) => exceeded.rule.clone(),
        _ => Box::default(),
    };
    let (caller, method) = (peer.principal().map(Arc::clone), request.method.as_str());
    let (name, address) = (request.target_name().into(), peer.origin.peer_addr.copied());
    let peer_addr = address.map(Into::into);
    let request_id = peer.origin.request_id().map(Box::from);
    let event = AuthEvent::RateLimited { caller, method, name, rule, peer: peer_addr, request_id };
    peer.outbox.log(Event::Auth(event));
}

#[cold]
fn dispatch_audited(
    dispatcher: &mut Dispatcher,
    ctx: MessageContext,
    (peer, request): (&mut PeerState<'_>, &Request<'_>),
    call: Box<AuditedCall>,
) -> Outcome {
    let (failed, tasks) = {
        let counters = &peer.outbox.counters.requests;
        (counters.tool_errors, counters.tasks_created)
    };
    let outcome = handler_calls::dispatch_call(dispatcher, ctx, peer, request);
    let counters = &peer.outbox.counters.requests;
    match outcome {
        Outcome::Response if counters.tool_errors > failed => call.log("failed"),
        Outcome::Response if counters.tasks_created > tasks => call.log("task"),
        Outcome::Response => call.log("succeeded"),
        Outcome::Error(_) => call.log("error"),
        Outcome::None | Outcome::Notification | Outcome::Envelope => {
            let call_id = peer.state.in_flight.call_of(request.id(), ctx.reply_to.exchange());
            match call_id {
                Some(call_id) => dispatcher.deferred.calls.attach_audit(call_id, call),
                None => call.log("pending"),
            }
        }
    }
    outcome
}
