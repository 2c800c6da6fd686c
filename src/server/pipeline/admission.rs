//! The gate of the eras: from a request as it was read to one that may be served.

use super::Passage;
use crate::protocol::era::{ClientCapabilities, Lifecycle, LogLevel, Meta, Method};
use crate::protocol::error::Error;
use crate::protocol::inflight::{Inflight, Rejected};
use crate::protocol::json::Value;
use crate::protocol::params::CallParams;
use crate::protocol::revision::Revision;
use crate::protocol::rpc::Id;
use crate::service::Client;

/// A request as it was read.
pub(in crate::server) struct Asked<'a> {
    pub(in crate::server) id: Id<'a>,
    pub(in crate::server) method: &'a str,
    pub(in crate::server) params: Option<Value<'a>>,
    /// The same, looked through once for all stops of the road.
    pub(in crate::server) members: &'a CallParams<'a>,
    /// What it says of itself there, read once; an error is one only where somebody asks.
    pub(in crate::server) meta: &'a Result<Meta<'a>, Error>,
}

/// A request whose era has admitted it.
pub(super) struct Admitted<'a> {
    pub(super) id: Id<'a>,
    pub(super) method: Method,
    pub(super) params: Option<Value<'a>>,
    pub(super) members: &'a CallParams<'a>,
    pub(super) revision: Revision,
    pub(super) progress_token: Option<Id<'a>>,
    /// What the client declared: with this request, or once for its session.
    pub(super) capabilities: ClientCapabilities,
    /// From which level on this request wants log messages (modern).
    pub(super) log_level: Option<LogLevel>,
}

impl Admitted<'_> {
    /// Who asks.
    pub(super) const fn client(&self) -> Client {
        Client { revision: self.revision, capabilities: self.capabilities }
    }
}

/// Asks the era of a request whether it may be served: a request that says its revision in `_meta`
/// stands alone, everything else goes by the handshake of its party.
#[inline]
pub(super) fn admit<'a>(
    passage: Passage,
    asked: &Asked<'a>,
    lifecycle: Lifecycle,
    in_flight: &Inflight,
) -> Result<Admitted<'a>, Error> {
    let Asked { id, method: name, params, members, meta } = *asked;
    if !in_flight.is_empty() && in_flight.find(id).is_some() {
        return Err(Rejected::Duplicate.into());
    }
    let meta = meta.as_ref().map_err(Error::clone)?;
    let method = Method::parse(name);
    let discovers = method == Some(Method::Discover) && lifecycle == Lifecycle::NotInitialized;
    let is_modern = meta.is_modern() || discovers || passage.is_modern;
    if is_modern && passage.in_batch {
        // What is said before its answer, as by a stream, has no place in an array of answers.
        return Err(Error::invalid_request(
            "a request of revision 2026-07-28 is no part of a batch",
        ));
    }
    let (agreed, capabilities, log_level) = if is_modern {
        let meta = meta.modern()?;
        (Some(meta.revision), meta.capabilities, meta.log_level)
    } else {
        (lifecycle.revision(), lifecycle.capabilities(), None)
    };
    let method = match method {
        Some(method) if !is_modern || method.is_in(Revision::LATEST) => method,
        // What an unprepared connection may not do is said before what nobody can do.
        None if !is_modern => {
            return Err(lifecycle
                .admit(Method::ToolsList)
                .err()
                .unwrap_or_else(|| Error::method_not_found(name)));
        }
        Some(_) | None => return Err(Error::method_not_found(name)),
    };
    let revision = match agreed {
        Some(revision) if is_modern => revision,
        _ => lifecycle.admit(method)?,
    };
    let progress_token = meta.progress_token();
    Ok(Admitted { id, method, params, members, revision, progress_token, capabilities, log_level })
}
