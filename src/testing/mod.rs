//! Tests of own tools, without sockets: a server in the thread of the test, and a client of it.
//!
//! ```
//! use corelane::model::Implementation;
//! use corelane::testing::{TestServer, block_on};
//! use corelane::{Catalog, Tool};
//! use serde_json::json;
//!
//! # #[derive(serde::Deserialize, schemars::JsonSchema)]
//! # struct Greet { name: String }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let greet = Tool::new("greet").inline(|Greet { name }, _| format!("Hello, {name}!"));
//! let catalog = Catalog::builder(Implementation::new("greeter", "1.0.0")).tool(greet).build()?;
//!
//! let server = TestServer::new(catalog)?;
//! let result = block_on(server.call_tool("greet", json!({"name": "Ada"})))?;
//! assert_eq!(result.text(), "Hello, Ada!");
//!
//! let error = block_on(server.call_tool("wave", json!({}))).unwrap_err();
//! assert_eq!(error.code(), Some(-32602));
//! # Ok(())
//! # }
//! ```
//!
//! The futures work under every executor: in a `#[tokio::test]`, or with [`block_on`] in a plain
//! `#[test]`. A local handler that uses tokio fails in a server, but finds the runtime of a
//! `#[tokio::test]`: test local handlers with [`block_on`].
//!
//! Every message passes through the request path of a real server, so a test sees what a client
//! sees: validated arguments, the texts of errors, limits. Only the socket is missing, and the
//! cause of a failed handler is shown, which other clients do not see.

mod result;

mod client;

use std::cell::RefCell;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use corelane_base::principal::Principal;
use corelane_client::MessageChannel;
use corelane_protocol::revision::Revision;
use serde_json::{Map, Value, json};

use self::client::Client;
pub use self::result::{CallResult, TestError};
pub use crate::client::block_on;
use crate::server::{Handle, InProcessConnection, Server, StartError};
use crate::service::Catalog;
use crate::telemetry::counters::Counters;

/// A server in the thread of a test, with its client.
///
/// The client speaks the newest revision, requests progress and all log messages, and declares the
/// capabilities that it has answers for.
///
/// ```
/// # use corelane::{Catalog, NoArguments, RequestContext, Tool};
/// # use corelane::model::{ElicitRequest, Field, Form, Implementation, Revision};
/// # use corelane::testing::{TestServer, block_on};
/// # use serde_json::json;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let order = Tool::new("order").local(|_: NoArguments, ctx: RequestContext| async move {
///     ctx.progress(1.0, Some(2.0), None);
///     let form = Form::new().field(Field::text("dish").required());
///     let result = ctx.elicit("dish", ElicitRequest::form("Which dish?", form)).await?;
///     Ok(format!("{} ordered", result.content["dish"].as_str().unwrap_or_default()))
/// });
/// let catalog = Catalog::builder(Implementation::new("shop", "1")).tool(order).build()?;
///
/// let server = TestServer::new(catalog)?.on_elicitation(|params| {
///     assert_eq!(params["message"], "Which dish?");
///     json!({"action": "accept", "content": {"dish": "soup"}})
/// });
/// let result = block_on(async { server.call("order").await })?;
/// assert_eq!(result.text(), "soup ordered");
/// assert_eq!(result.progress()[0]["total"], 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TestServer {
    client: RefCell<Client>,
}

impl TestServer {
    /// Starts a server that offers `catalog`, with the default options.
    ///
    /// # Errors
    ///
    /// As [`Server::connect`].
    pub fn new(catalog: Catalog) -> Result<Self, StartError> {
        Self::with(Server::builder(catalog))
    }

    /// Starts `server`, which may have a state, options or a tokio runtime. Errors contain the
    /// cause of a failed handler, as with
    /// [`ServiceOptions::expose_errors`](crate::options::ServiceOptions::expose_errors).
    ///
    /// # Errors
    ///
    /// As [`Server::connect`].
    pub fn with(mut server: Server) -> Result<Self, StartError> {
        server.expose_errors();
        Ok(Self { client: RefCell::new(Client::new(server.connect()?)) })
    }

    /// Sets the revision that the client speaks. Default: [`Revision::LATEST`]. With a legacy one,
    /// the first request performs the handshake (`initialize`).
    #[must_use]
    pub fn revision(self, revision: Revision) -> Self {
        self.client.borrow_mut().set_revision(revision);
        self
    }

    /// Sets the answer to `elicitation/create`: `answer` receives the params and returns the
    /// `ElicitResult`, such as `json!({"action": "decline"})`. In every revision: as a response to
    /// a request of the server, or since 2026-07-28 with the repeated request of the client.
    #[must_use]
    pub fn on_elicitation(self, answer: impl FnMut(&Value) -> Value + 'static) -> Self {
        self.client.borrow_mut().set_answer("elicitation/create", Box::new(answer));
        self
    }

    /// Sets the answer to `sampling/createMessage`, a `CreateMessageResult`.
    #[must_use]
    pub fn on_sampling(self, answer: impl FnMut(&Value) -> Value + 'static) -> Self {
        self.client.borrow_mut().set_answer("sampling/createMessage", Box::new(answer));
        self
    }

    /// Sets the answer to `roots/list`, a `ListRootsResult`.
    #[must_use]
    pub fn on_roots(self, answer: impl FnMut(&Value) -> Value + 'static) -> Self {
        self.client.borrow_mut().set_answer("roots/list", Box::new(answer));
        self
    }

    /// Attaches a value to the requests, in the place of a value of the same type: handlers read it
    /// by [`RequestInfo::extension`](crate::RequestInfo::extension), such as an authenticated user
    /// that a middleware attaches in production.
    #[must_use]
    pub fn extension<T: Clone + Send + Sync + 'static>(self, value: T) -> Self {
        self.client.borrow_mut().set_extension(value);
        self
    }

    /// Makes `principal` the caller of the requests, as a token does in production: its scopes and
    /// tier decide what it may do, and its sessions and tasks are its own. Default: an unknown
    /// caller, to whom tools that require scopes are refused.
    #[must_use]
    pub fn principal(self, principal: Principal) -> Self {
        self.extension(principal)
    }

    /// Calls a tool with a JSON object and returns its result; a failed tool is a result with
    /// [`CallResult::is_error`].
    ///
    /// # Errors
    ///
    /// A JSON-RPC error, such as that for an unknown tool.
    pub async fn call_tool(&self, name: &str, arguments: Value) -> Result<CallResult, TestError> {
        self.call(name).arguments(arguments).await
    }

    /// Returns a call of the tool `name` without arguments, to be changed, awaited or started.
    ///
    /// ```
    /// # use corelane::{Catalog, NoArguments, Tool};
    /// # use corelane::testing::TestServer;
    /// # use std::time::Duration;
    /// # let info = corelane::model::Implementation::new("test", "1");
    /// let (ended, ends) = std::sync::mpsc::channel();
    /// let slow = Tool::new("slow").local(move |_: NoArguments, ctx| {
    ///     let ended = ended.clone();
    ///     async move {
    ///         let slept = ctx.sleep(Duration::from_secs(60)).await;
    ///         ended.send(slept.is_err()).ok();
    ///         slept.map(|()| "late").map_err(Into::into)
    ///     }
    /// });
    /// # let catalog = Catalog::builder(info).tool(slow).build()?;
    /// let server = TestServer::new(catalog)?;
    /// let call = server.call("slow").start(); // to cancel it later, await it with a timeout first
    /// call.cancel();
    /// assert!(ends.try_recv()?, "the handler has ended");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A tokio handler ends on its runtime: wait there until its future is dropped.
    pub fn call(&self, name: &str) -> ToolCall<'_> {
        ToolCall::new(&self.client, name)
    }

    /// Returns the tools of all pages of `tools/list`.
    ///
    /// # Errors
    ///
    /// A JSON-RPC error.
    pub async fn list_tools(&self) -> Result<Vec<Value>, TestError> {
        let mut tools = Vec::new();
        let mut params = json!({});
        loop {
            let mut page = self.request("tools/list", params).await?;
            if let Value::Array(listed) = page["tools"].take() {
                tools.extend(listed);
            }
            let Value::String(cursor) = page["nextCursor"].take() else { return Ok(tools) };
            params = json!({ "cursor": cursor });
        }
    }

    /// Returns the `ReadResourceResult` of a resource.
    ///
    /// # Errors
    ///
    /// A JSON-RPC error, such as that for an unknown resource.
    pub async fn read_resource(&self, uri: &str) -> Result<Value, TestError> {
        self.request("resources/read", json!({ "uri": uri })).await
    }

    /// Returns the `GetPromptResult` of a prompt; the arguments are an object of strings.
    ///
    /// # Errors
    ///
    /// A JSON-RPC error, such as that for a missing argument.
    pub async fn get_prompt(&self, name: &str, arguments: Value) -> Result<Value, TestError> {
        self.request("prompts/get", json!({ "name": name, "arguments": arguments })).await
    }

    /// Sends a request and returns its result. `params` is an object; what its revision requires in
    /// `_meta` is added.
    ///
    /// # Errors
    ///
    /// A JSON-RPC error.
    pub async fn request(&self, method: &str, params: Value) -> Result<Value, TestError> {
        let params = match params {
            Value::Object(params) => params,
            _ => Map::new(),
        };
        let response = RunningCall::request(&self.client, method, params).await?;
        Ok(response.into_value())
    }

    /// Takes the notifications that belong to no request in flight, such as
    /// `notifications/tools/list_changed`: objects with `method` and `params`.
    pub fn take_notifications(&self) -> Vec<Value> {
        self.client.borrow_mut().take_notifications()
    }

    /// Returns the counters of the server, such as those of slow handlers.
    pub fn counters(&self) -> Counters {
        self.client.borrow().connection.counters()
    }

    /// Returns a handle to update the catalog or to drain the server, as
    /// [`crate::InProcessConnection::handle`].
    pub fn handle(&self) -> Handle {
        self.client.borrow().connection.handle()
    }
}

impl MessageChannel for InProcessConnection {
    fn send(&mut self, message: &[u8]) {
        Self::send(self, message);
    }

    fn poll_receive(&mut self, context: &Context<'_>) -> Poll<Option<&[u8]>> {
        Self::poll_receive(self, context)
    }
}

/// A tool call that has not started. Await it, or start it with [`ToolCall::start`].
#[derive(Debug)]
#[must_use = "a call does nothing unless it is awaited or started"]
pub struct ToolCall<'a> {
    client: &'a RefCell<Client>,
    params: Map<String, Value>,
}

impl<'a> ToolCall<'a> {
    fn new(client: &'a RefCell<Client>, name: &str) -> Self {
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
    fn request(client: &'a RefCell<Client>, method: &str, params: Map<String, Value>) -> Self {
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
