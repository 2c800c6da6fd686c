//! Log events of authentication and authorization.
//!
//! Invariant: no event has a token, a key, or a part of one.

use std::net::SocketAddr;
use std::sync::Arc;

use corelane_base::principal::Principal;
use tracing::{error, info, warn};

/// A log event of authentication or authorization.
#[derive(Clone, Debug)]
pub enum AuthEvent<'a> {
    /// The audit file takes no lines, or takes them again.
    AuditFile {
        /// Its path.
        location: &'a str,
        /// Why it takes none.
        error: Option<&'a str>,
    },
    /// A key set could not be fetched.
    KeySetFailed {
        /// The issuer.
        issuer: &'a str,
        /// The URL of its key set.
        location: &'a str,
        /// Why.
        error: &'a str,
    },
    /// The authorization server could not be asked about a token.
    IntrospectionFailed {
        /// The URL of its endpoint.
        location: &'a str,
        /// Why.
        error: &'a str,
    },
    /// Keys and rules were read again.
    Reloaded {
        /// Why they are not used; the previous ones stay in effect.
        error: Option<&'a str>,
    },
    /// A request was refused because its caller lacks a scope or tier.
    Denied {
        /// The caller, if it has a token.
        caller: Option<Arc<Principal>>,
        /// Method of the request.
        method: &'static str,
        /// What is missing.
        reason: Box<str>,
        /// Address of the peer, if known.
        peer: Option<SocketAddr>,
        /// Id of the HTTP request.
        request_id: Option<Box<str>>,
    },
    /// A request was refused because it exceeds a rate limit.
    RateLimited {
        /// The caller, if it has a credential.
        caller: Option<Arc<Principal>>,
        /// Method of the request.
        method: &'static str,
        /// The name of the tool, prompt or resource that it is for; empty if there is none.
        name: Box<str>,
        /// The rule, as it is configured.
        rule: Box<str>,
        /// Address of the peer, if known.
        peer: Option<SocketAddr>,
        /// Id of the HTTP request.
        request_id: Option<Box<str>>,
    },
    /// A request was refused because it has no valid token.
    Unauthorized {
        /// The kind of problem.
        reason: &'static str,
        /// The check of the token that has failed: `expired`, `audience` and so on; empty if none
        /// was made.
        check: &'static str,
        /// What is wrong, as the client reads it.
        detail: Box<str>,
        /// Address of the peer, if known.
        peer: Option<SocketAddr>,
        /// Id of the HTTP request.
        request_id: Option<Box<str>>,
    },
}

/// A call of a tool that the audit log has.
#[derive(Clone, Debug)]
pub struct AuditedCall {
    /// The caller, if it has a credential.
    pub caller: Option<Arc<Principal>>,
    /// The tool.
    pub tool: Box<str>,
    /// Address of the peer, if known.
    pub peer: Option<SocketAddr>,
    /// Id of the HTTP request.
    pub request_id: Option<Box<str>>,
}

impl AuditedCall {
    /// Logs the call with its outcome.
    pub fn log(&self, outcome: &'static str) {
        let Self { caller, tool, peer, request_id } = self;
        let (tool, request_id) = (&**tool, request_id.as_deref());
        let peer = peer.map(tracing::field::display);
        let issuer = caller.as_ref().map(|caller| caller.issuer());
        let caller = caller.as_ref().map(|caller| caller.id());
        info!(
            target: AUDIT_TARGET, caller, issuer, tool, peer, request_id, outcome, "tool called"
        );
    }
}

/// The `tracing` target of the audit log.
pub const AUDIT_TARGET: &str = "corelane::audit";

impl AuthEvent<'_> {
    /// Emits the event with the number of events that were suppressed since the last one.
    pub(super) fn emit(&self, suppressed: u64) {
        match self {
            Self::AuditFile { location, error: Some(error) } => {
                error!(location, error, "audit file not written");
            }
            Self::AuditFile { location, error: None } => {
                info!(location, "audit file written again");
            }
            Self::KeySetFailed { issuer, location, error } => {
                warn!(issuer, location, error, "key set not fetched");
            }
            Self::IntrospectionFailed { location, error } => {
                warn!(location, error, "token not introspected");
            }
            Self::Reloaded { error: None } => info!("authentication reloaded"),
            Self::Reloaded { error: Some(error) } => error!("authentication not reloaded: {error}"),
            Self::Denied { caller, method, reason, peer, request_id } => {
                let peer = peer.map(tracing::field::display);
                let issuer = caller.as_ref().map(|caller| caller.issuer());
                let caller = caller.as_ref().map(|caller| caller.id());
                let request_id = request_id.as_deref();
                warn!(
                    caller,
                    issuer, method, reason, peer, request_id, suppressed, "request denied"
                );
            }
            Self::Unauthorized { reason, check, detail, peer, request_id } => {
                let peer = peer.map(tracing::field::display);
                let check = Some(check).filter(|check| !check.is_empty());
                let request_id = request_id.as_deref();
                warn!(reason, check, detail, peer, request_id, suppressed, "request unauthorized");
            }
            Self::RateLimited { caller, method, name, rule, peer, request_id } => {
                let peer = peer.map(tracing::field::display);
                let issuer = caller.as_ref().map(|caller| caller.issuer());
                let caller = caller.as_ref().map(|caller| caller.id());
                let name = Some(&**name).filter(|name| !name.is_empty());
                let request_id = request_id.as_deref();
                warn!(
                    caller,
                    issuer,
                    method,
                    name,
                    rule,
                    peer,
                    request_id,
                    suppressed,
                    "request rate limited"
                );
            }
        }
    }
}
