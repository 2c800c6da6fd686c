//! The context of an inline handler.

use std::fmt;
use std::marker::PhantomData;

use crate::service::context::ClientInfo;
use crate::service::context::RequestView;
use crate::service::context::shard_state;

/// Context of an inline handler's request. Reads the message in place: what the handler does not
/// read costs nothing.
///
/// `S` is the state of the shard; see [`ToolBuilder::state`](crate::service::ToolBuilder::state).
pub struct InlineContext<'a, S = ()> {
    request: RequestView<'a>,
    state: PhantomData<fn() -> S>,
}

impl<'a, S: 'static> InlineContext<'a, S> {
    pub(in crate::service) const fn new(request: RequestView<'a>) -> Self {
        Self { request, state: PhantomData }
    }

    /// The request: its id, headers, `_meta` and what is known of its connection.
    pub const fn request(&self) -> RequestView<'a> {
        self.request
    }

    /// Revision and capabilities of the client.
    pub fn client(&self) -> ClientInfo {
        self.request.client()
    }

    /// The state of the shard; see [`ToolBuilder::state`](crate::service::ToolBuilder::state).
    pub fn state(&self) -> &'a S {
        shard_state::get(self.request.state())
    }
}

impl<S> fmt::Debug for InlineContext<'_, S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("InlineContext").field("request", &self.request).finish()
    }
}
