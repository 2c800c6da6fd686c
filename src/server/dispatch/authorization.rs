//! Whether the caller of a request may make it, decided on the values of the message.
//!
//! A request over HTTP is authenticated before its body is read, one of another transport by
//! `message_token`.
//!
//! The audit log (`auth.audit`) has the calls of marked tools, with caller and outcome. Invariant:
//! a call is logged once, when it ends; nothing of its arguments and results is.
//!
//! Source: MCP 2026-07-28, basic/authorization, "Scope Challenge Handling".

use std::sync::Arc;

use corelane_base::principal::{Binding, Principal};
use corelane_protocol::eras::Method;
use corelane_protocol::error::Error;
use corelane_protocol::json::Value;
use corelane_protocol::params::{
    CompleteRequestParams, CompletionReference, SubscriptionsListenRequestParams,
};

use super::admission::{Request, record_invalid};
use super::{Dispatcher, MessageContext, write_request_error};
use crate::guard::auth::AuthError;
use crate::guard::auth::access::AccessDenied;
use crate::guard::auth::challenge::Scheme;
use crate::server::auth;
use crate::server::connection_state::PeerState;
use crate::server::reply_to::{Outcome, PeerId, RefusalFields};
use crate::telemetry::auth_event::{AuditedCall, AuthEvent};
use crate::telemetry::event::Event;
use crate::telemetry::label::Transport;

impl Dispatcher {
    /// Checks the token of a message, and whether the caller may make the request.
    ///
    /// # Errors
    ///
    /// What has become of the request: the error response is written, or it waits for the answer
    /// about its token.
    #[inline]
    pub(super) fn authorize(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
    ) -> Result<(), Outcome> {
        // Requests over HTTP are authenticated by their head.
        if peer.state.transport == Transport::Http && !self.has_access_rules() {
            return Ok(());
        }
        self.check_caller(ctx, peer, request).map_err(|refused| match refused {
            Some(error) => write_request_error(peer, request, &error),
            None => Outcome::None,
        })
    }

    /// Returns whether callers differ in what they may do.
    #[inline]
    fn has_access_rules(&self) -> bool {
        self.auth.has_rules() || self.catalog.requires_scopes()
    }

    /// Checks the token of a message of a connection, and whether the caller may make the request.
    ///
    /// # Errors
    ///
    /// The error response: the request has no valid token, or its caller lacks a scope or tier.
    /// `None` if it waits for the answer about its token.
    #[inline(never)]
    pub(super) fn check_caller(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
    ) -> Result<(), Option<Error>> {
        if peer.state.transport != Transport::Http
            && let Err(error) = self.authenticate_message(ctx, peer, request)
        {
            if error == AuthError::Pending {
                return Err(self.hold_request(ctx, peer, request).err());
            }
            let client = self.rate.client_of(peer, ctx.reply_to.peer_id);
            self.auth.record_failure(&error, client, ctx.now);
            return Err(Some(refuse_connection(ctx, peer, &error)));
        }
        if !self.has_access_rules() {
            return Ok(());
        }
        let principal = peer.principal().map(|principal| &**principal);
        let checked = self.check_access(principal, request);
        checked.map_err(|denied| Some(self.refuse_access(peer, request, &denied)))
    }

    /// Makes the error for a caller who may not make a request.
    #[cold]
    fn refuse_access(
        &self,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
        AccessDenied { scopes, reason, is_second_factor }: &AccessDenied,
    ) -> Error {
        peer.outbox.counters.auth.denied += 1;
        if let Some(call) = self.audited_call(peer, request) {
            self.audit.record(call).log("denied");
        }
        let principal = peer.principal().map(Arc::clone);
        let (caller, method) = (principal.clone(), request.method.as_str());
        let address = peer.origin.peer_addr.copied().map(Into::into);
        let reason_text = reason.clone();
        peer.outbox.log(Event::Auth(AuthEvent::Denied {
            caller,
            method,
            reason: reason_text,
            peer: address,
            request_id: peer.origin.request_id().map(Box::from),
        }));
        let challenges = self.auth.challenges();
        if principal.is_none() && self.auth.verifies_tokens() {
            let challenge = challenges.map(|it| it.missing(scopes).into());
            peer.refusal = challenge.map(RefusalFields::Challenge);
            return Error::unauthorized(format!("a token is needed: {reason}"));
        }
        let scheme = match principal.as_ref().and_then(|principal| principal.binding()) {
            Some(Binding::ProofKey(_)) => Scheme::Dpop,
            Some(Binding::Certificate(_)) | None => Scheme::Bearer,
        };
        let challenge = challenges.map(|it| it.insufficient_scope(scopes, reason, scheme).into());
        peer.refusal = challenge.map(RefusalFields::Challenge);
        Error::insufficient_scope(reason.to_string(), scopes, *is_second_factor)
    }

    /// Checks everything that a request is for.
    fn check_access(
        &self,
        principal: Option<&Principal>,
        request: &Request<'_>,
    ) -> Result<(), AccessDenied> {
        let check =
            |method, name: &str| self.auth.check_operation(&self.catalog, principal, method, name);
        check(request.method, request.target_name())?;
        // A malformed one is refused by the method itself.
        match request.method {
            // A skill is used by reading its `SKILL.md`.
            Method::ResourcesSubscribe | Method::SkillsGet => {
                let params = request.params().and_then(Value::as_object);
                let uri = params.and_then(|params| params.find("uri")).and_then(Value::as_str);
                check(Method::ResourcesRead, uri.unwrap_or_default())
            }
            Method::CompletionComplete => match CompleteRequestParams::read(request.params()) {
                Ok(params) => match params.reference {
                    CompletionReference::Prompt(name) => check(Method::PromptsGet, name),
                    CompletionReference::Resource(uri) => check(Method::ResourcesRead, uri),
                },
                Err(_) => Ok(()),
            },
            Method::SubscriptionsListen => {
                match SubscriptionsListenRequestParams::read(request.id(), request.params()) {
                    Ok(params) => {
                        let uris = params.filter.resource_subscriptions;
                        uris.into_iter().try_for_each(|uri| check(Method::ResourcesRead, uri))
                    }
                    Err(_) => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
}

/// Makes the error for a request of a connection that is not authenticated.
#[cold]
fn refuse_connection(ctx: MessageContext, peer: &mut PeerState<'_>, error: &AuthError) -> Error {
    auth::count_refusal(&mut peer.outbox.counters.auth, error);
    let address = peer.origin.peer_addr.copied().map(Into::into);
    peer.outbox.log(auth::unauthorized_event(error, address, peer.origin.request_id()));
    record_invalid(ctx, peer);
    match (ctx.reply_to.peer_id, peer.state.transport) {
        (PeerId::Parity(_), _) => auth::parity_refusal_error(error),
        (_, Transport::WebSocket) => auth::refusal_error(error, MISSING_UPGRADE_TOKEN),
        _ => auth::refusal_error(error, MISSING_TOKEN),
    }
}

const MISSING_TOKEN: &str =
    "the connection is not authenticated: send auth_token in the params of initialize, or in _meta";
const MISSING_UPGRADE_TOKEN: &str =
    "the connection is not authenticated: send Authorization with the upgrade to WebSocket";

impl Dispatcher {
    /// Returns what is logged of a request, if it is a call of a marked tool.
    pub(super) fn audited_call(
        &self,
        peer: &PeerState<'_>,
        request: &Request<'_>,
    ) -> Option<AuditedCall> {
        if request.method != Method::ToolsCall || !self.auth.has_audit() {
            return None;
        }
        let tool = request.target_name();
        self.auth.audits(tool).then(|| {
            let peer_addr = peer.origin.peer_addr.copied().map(Into::into);
            AuditedCall {
                caller: peer.principal().map(Arc::clone),
                tool: tool.into(),
                peer: peer_addr,
                request_id: peer.origin.request_id().map(Box::from),
            }
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
            self.audit.record(call).log("rate limited");
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
