//! The audit log: calls of marked tools, with caller and outcome (`auth.audit`).
//!
//! Invariant: a call is logged once, when it ends; nothing of its arguments and results is.

use std::sync::Arc;

use corelane_protocol::eras::Method;
use corelane_protocol::error::Error;

use super::admission::Request;
use super::handlers::CallEnd;
use super::{Dispatcher, MessageContext, write_request_error};
use crate::server::connection_state::PeerState;
use crate::server::refusal_fields::RefusalFields;
use crate::server::reply_to::Outcome;
use crate::telemetry::auth_event::{AuditedCall, AuthEvent};
use crate::telemetry::event::Event;

impl Dispatcher {
    /// Logs how a call has ended, if its tool is marked. One whose response comes later is logged
    /// with it.
    #[cold]
    pub(super) fn audit_call(
        &mut self,
        ctx: MessageContext,
        peer: &PeerState<'_>,
        request: &Request<'_>,
        end: &Result<CallEnd, Error>,
    ) {
        let Some(call) = self.audited_call(peer, request) else { return };
        match end {
            Ok(CallEnd::Answered { is_failed: true } | CallEnd::Task { is_failed: true }) => {
                call.log("failed");
            }
            Ok(CallEnd::Answered { is_failed: false }) => call.log("succeeded"),
            Ok(CallEnd::Task { is_failed: false }) => call.log("task"),
            Ok(CallEnd::Pending) => {
                match peer.state.in_flight.call_of(request.id(), ctx.reply_to.exchange()) {
                    Some(call_id) => self.deferred.calls.attach_audit(call_id, call),
                    None => call.log("pending"),
                }
            }
            Err(_) => call.log("error"),
        }
    }

    /// Returns what is logged of a request, if it is a call of a marked tool.
    pub(super) fn audited_call(
        &self,
        peer: &PeerState<'_>,
        request: &Request<'_>,
    ) -> Option<Box<AuditedCall>> {
        if request.method != Method::ToolsCall || !self.auth.has_audit() {
            return None;
        }
        let tool = request.target_name();
        self.auth.audits(tool).then(|| {
            let peer_addr = peer.origin.peer_addr.copied().map(Into::into);
            Box::new(AuditedCall {
                caller: peer.principal().map(Arc::clone),
                tool: tool.into(),
                peer: peer_addr,
                request_id: peer.origin.request_id().map(Box::from),
            })
        })
    }

    /// Logs a request that exceeds the limit in the refusal of `peer`, and writes the error
    /// response.
    #[cold]
    pub(super) fn refuse_rate(
        &self,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
        error: &Error,
    ) -> Outcome {
        if let Some(call) = self.audited_call(peer, request) {
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
        let event =
            AuthEvent::RateLimited { caller, method, name, rule, peer: peer_addr, request_id };
        peer.outbox.log(Event::Auth(event));
        write_request_error(peer, request, error)
    }
}
