//! Requests of the session itself, whose responses no caller waits for.

use std::collections::BTreeMap;

use super::context::SessionContext;
use super::event::MessageSink;
use super::request::CallRequest;
use super::{Phase, Session};
use corelane_protocol::eras::Method;
use corelane_protocol::json::write;

/// Requests without responses that are remembered.
const REQUESTS_MAX: usize = 1_024;

/// What follows from the response to a request of the session.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum SideRequest {
    /// Nothing.
    Ignored,
    /// An error fails the call whose first request has this id: the server refuses its input.
    TaskUpdate { call: u64 },
    /// The answer decides whether the subscription `call` has this resource.
    Subscribe { call: u64, uri: Box<str> },
}

/// The requests that are in flight.
#[derive(Debug, Default)]
pub(super) struct SideRequests(BTreeMap<u64, SideRequest>);

impl SideRequests {
    pub(super) fn contains(&self, id: u64) -> bool {
        self.0.contains_key(&id)
    }

    /// Takes a request whose response has arrived, or will not arrive.
    pub(super) fn take(&mut self, id: u64) -> Option<SideRequest> {
        self.0.remove(&id)
    }

    /// Adds a request; the oldest one makes room for it.
    fn insert(&mut self, id: u64, request: SideRequest) {
        if self.0.len() >= REQUESTS_MAX {
            self.0.pop_first();
        }
        self.0.insert(id, request);
    }
}

/// Sends a request, if the session is ready for it.
pub(super) fn send<T, S: MessageSink>(
    session: &mut Session<T>,
    request: &CallRequest,
    kind: SideRequest,
    ctx: &mut SessionContext<'_, T, S>,
) {
    let Phase::Ready(server) = &session.phase else { return };
    let (revision, id) = (server.revision, session.calls.allocate_id());
    session.side_requests.insert(id, kind);
    ctx.send_request(&session.config, id, request, revision);
}

/// Asks a legacy server that sends log messages for the level that the client wants.
pub(super) fn send_log_level<T, S: MessageSink>(
    session: &mut Session<T>,
    ctx: &mut SessionContext<'_, T, S>,
) {
    let Phase::Ready(server) = &session.phase else { return };
    if !server.capabilities.logging {
        return;
    }
    let Some(level) = session.config.log_level() else { return };
    let mut params = b"{\"level\":".to_vec();
    write::string(&mut params, level.as_str());
    params.push(b'}');
    let request = CallRequest { params, ..CallRequest::new(Method::LoggingSetLevel) };
    send(session, &request, SideRequest::Ignored, ctx);
}
