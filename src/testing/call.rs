//! One tool call of a test: built, started, awaited or cancelled.

use std::cell::RefCell;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use serde_json::{Map, Value};

use super::client::Client;
use super::result::{CallResult, TestError};

/// A tool call that has not started. Await it, or start it with [`ToolCall::start`].
#[derive(Debug)]
#[must_use = "a call does nothing unless it is awaited or started"]
pub struct ToolCall<'a> {
    client: &'a RefCell<Client>,
    params: Map<String, Value>,
}

impl<'a> ToolCall<'a> {
    pub(super) fn new(client: &'a RefCell<Client>, name: &str) -> Self {
        Self { client, params: Map::from_iter([("name".to_owned(), name.into())]) }
    }

    /// Sets the arguments, a JSON object.
    pub fn arguments(mut self, arguments: Value) -> Self {
        self.params.insert("arguments".to_owned(), arguments);
        self
    }

    /// Adds a member to `_meta` of the request.
    pub fn meta(mut self, key: &str, value: Value) -> Self {
        let meta = self.params.entry("_meta").or_insert_with(|| Map::new().into());
        meta[key] = value;
        self
    }

    /// Sends the request. Inline handlers have run when this returns.
    pub fn start(self) -> RunningCall<'a> {
        let key = self.client.borrow_mut().start("tools/call", self.params);
        RunningCall { client: self.client, key }
    }
}

impl<'a> IntoFuture for ToolCall<'a> {
    type Output = Result<CallResult, TestError>;
    type IntoFuture = RunningCall<'a>;

    fn into_future(self) -> RunningCall<'a> {
        self.start()
    }
}

/// A tool call in flight: a future of its result. Dropping it cancels the call.
///
/// The handlers of all calls run while one of them is awaited.
#[derive(Debug)]
#[must_use = "dropping a call cancels it"]
pub struct RunningCall<'a> {
    client: &'a RefCell<Client>,
    key: u64,
}

impl<'a> RunningCall<'a> {
    /// Sends another request than a tool call.
    pub(super) fn request(
        client: &'a RefCell<Client>,
        method: &str,
        params: Map<String, Value>,
    ) -> Self {
        let key = client.borrow_mut().start(method, params);
        Self { client, key }
    }

    /// Cancels the call (`notifications/cancelled`). The server has handled the notification when
    /// this returns: local handlers have observed it, those on other threads will.
    pub fn cancel(self) {}
}

impl Future for RunningCall<'_> {
    type Output = Result<CallResult, TestError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let response = self.client.borrow_mut().poll_response(self.key, context);
        let (result, notifications) = ready!(response);
        Poll::Ready(result.map(|result| CallResult::new(result, notifications)))
    }
}

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        self.client.borrow_mut().cancel(self.key);
    }
}
