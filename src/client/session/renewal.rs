//! A session of HTTP that the server has forgotten is begun again; its calls stay.

use super::context::SessionContext;
use super::event::MessageSink;
use super::{Phase, Session};

/// Begins the handshake of a legacy session again. Calls in flight still wait for their responses;
/// new calls wait for the handshake.
pub(in crate::client) fn renew<T: Clone, S: MessageSink>(
    session: &mut Session<T>,
    ctx: &mut SessionContext<'_, T, S>,
) {
    if let Phase::Ready(server) = &session.phase
        && !server.revision.is_modern()
    {
        session.send_initialize(server.revision, ctx);
    }
}

/// Returns whether the request `id` waits for its response.
pub(in crate::client) fn is_waiting_for<T>(session: &Session<T>, id: u64) -> bool {
    match &session.phase {
        Phase::Handshake(request) if request.id == id => true,
        _ => session.calls.get(id).is_some() || session.side_requests.contains(id),
    }
}
