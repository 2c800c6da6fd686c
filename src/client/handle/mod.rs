//! The client as a program holds it.

mod builder;

use std::fmt;
use std::sync::Arc;

use corelane_protocol::eras::{LoggingLevel, Method};
use corelane_protocol::json::write;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

pub use self::builder::ClientBuilder;
use crate::error::ClientError;
use crate::io::PeerRef;
use crate::request::{ListItem, Pages, Request, Task, take_request};
use crate::results::{
    CallToolResult, CompleteResult, GetPromptResult, PromptInfo, ReadResourceResult, ResourceInfo,
    ResourceTemplateInfo, ToolInfo,
};
use crate::session::{CallRequest, ServerInfo};
use crate::subscription::{
    ListWatch, Subscription, SubscriptionFilter, SubscriptionQueue, WatchedItem,
};
use crate::target::IntoTarget;

/// A client of one MCP server. Cloning is cheap; clones and their requests share the connection,
/// which is closed when the last one is dropped.
///
/// Over HTTP at most 10 requests are in flight, each on a connection of its own; further ones wait.
///
/// The I/O happens on a thread of its own. The futures need no runtime and work with every
/// executor; each request also has [`Request::wait`] for threads.
///
/// ```no_run
/// use corelane::Client;
/// use serde_json::json;
///
/// let client = Client::builder("tcp://127.0.0.1:8888").connect_blocking()?;
/// let result = client.call_tool("echo", &json!({ "message": "hi" })).wait()?;
/// assert_eq!(result.text(), "hi");
/// # Ok::<(), corelane::client::ClientError>(())
/// ```
#[derive(Clone)]
pub struct Client {
    peer: Arc<PeerRef>,
}

/// Connecting.
impl Client {
    /// Begins to configure a client of the server at `target`; see [`Target`] for its text.
    ///
    /// [`Target`]: crate::Target
    pub fn builder(target: impl IntoTarget) -> ClientBuilder {
        ClientBuilder::new(target.into_target())
    }

    /// Connects with the default options.
    ///
    /// # Errors
    ///
    /// Those of [`ClientBuilder::connect`].
    pub async fn connect(target: impl IntoTarget) -> Result<Self, ClientError> {
        Self::builder(target).connect().await
    }

    /// Returns what the server declared in the handshake, and connects if it is not connected.
    ///
    /// # Errors
    ///
    /// [`ClientErrorKind::Connect`], [`ClientErrorKind::Handshake`].
    ///
    /// [`ClientErrorKind::Connect`]: crate::ClientErrorKind::Connect
    /// [`ClientErrorKind::Handshake`]: crate::ClientErrorKind::Handshake
    pub async fn server(&self) -> Result<Arc<ServerInfo>, ClientError> {
        self.peer.server().await
    }

    /// Closes the connection, for all clones. Calls in flight fail with
    /// [`ClientErrorKind::Closed`]. A program that was started has 5 seconds to exit, and is then
    /// ended by SIGTERM and, 5 seconds later, SIGKILL; this waits for its end.
    ///
    /// [`ClientErrorKind::Closed`]: crate::ClientErrorKind::Closed
    pub async fn close(self) {
        self.peer.close().await;
    }
}

/// Requests.
impl Client {
    /// Calls a tool. `arguments` must serialize to a JSON object.
    pub fn call_tool(
        &self,
        name: &str,
        arguments: &(impl Serialize + ?Sized),
    ) -> Request<CallToolResult> {
        self.new_request(take_request().with_arguments(Method::ToolsCall, name, arguments))
    }

    /// Gets the messages of a prompt. `arguments` must serialize to a JSON object of strings.
    pub fn get_prompt(
        &self,
        name: &str,
        arguments: &(impl Serialize + ?Sized),
    ) -> Request<GetPromptResult> {
        self.new_request(take_request().with_arguments(Method::PromptsGet, name, arguments))
    }

    /// Reads a resource.
    pub fn read_resource(&self, uri: &str) -> Request<ReadResourceResult> {
        let mut params = b"{\"uri\":".to_vec();
        write::string(&mut params, uri);
        params.push(b'}');
        let request = CallRequest::new(Method::ResourcesRead);
        self.new_request(Ok(CallRequest { name: Some(uri.into()), params, ..request }))
    }

    /// Completes the argument `argument` of a prompt, of which `value` is typed so far.
    pub fn complete_prompt(
        &self,
        prompt: &str,
        argument: &str,
        value: &str,
    ) -> Request<CompleteResult> {
        self.complete(&json!({ "type": "ref/prompt", "name": prompt }), argument, value)
    }

    /// Completes the variable `argument` of a resource template, of which `value` is typed so far.
    pub fn complete_resource(
        &self,
        uri_template: &str,
        argument: &str,
        value: &str,
    ) -> Request<CompleteResult> {
        self.complete(&json!({ "type": "ref/resource", "uri": uri_template }), argument, value)
    }

    /// Names a task by its id, such as one of an earlier client.
    pub fn task(&self, id: &str) -> Task {
        Task::of_id(Arc::clone(&self.peer), id)
    }

    /// Makes a request by the name of its method, for results that this library has no type for,
    /// and for a result as it was sent: an `R` may be a `Box<serde_json::value::RawValue>`.
    /// `params` must serialize to a JSON object without `_meta`.
    pub fn request<R: DeserializeOwned + 'static>(
        &self,
        method: &str,
        params: &(impl Serialize + ?Sized),
    ) -> Request<R> {
        self.new_request(CallRequest::with_params(method, params))
    }

    /// Makes a request whose params are encoded already: a JSON object without `_meta`. `name` is
    /// what it is about, see [`CallRequest::name`].
    #[doc(hidden)]
    pub fn encoded_request(
        &self,
        method: Method,
        name: Option<&str>,
        params: Vec<u8>,
    ) -> Request<Value> {
        let request = CallRequest::new(method);
        self.new_request(Ok(CallRequest { name: name.map(Into::into), params, ..request }))
    }

    /// Subscribes to changes of lists and resources, and waits until the server has acknowledged
    /// it: `subscriptions/listen`, and up to 2025-11-25 `resources/subscribe` for each resource.
    ///
    /// # Errors
    ///
    /// Those of a request.
    pub async fn subscribe(
        &self,
        filter: &SubscriptionFilter,
    ) -> Result<Subscription, ClientError> {
        let params = json!({ "notifications": filter }).to_string().into_bytes();
        let request = CallRequest { params, ..CallRequest::new(Method::SubscriptionsListen) };
        let queue = Arc::new(SubscriptionQueue::default());
        let messages = Arc::clone(&queue);
        let request =
            self.new_request(Ok(request)).on_message(move |message| messages.push(message));
        Subscription::open(queue, request.into_future()).await
    }

    /// Checks that the server answers: `ping` up to 2025-11-25, `server/discover` later.
    ///
    /// # Errors
    ///
    /// Those of a request.
    pub async fn ping(&self) -> Result<(), ClientError> {
        let is_modern = self.server().await?.revision.is_modern();
        let method = if is_modern { Method::Discover } else { Method::Ping };
        let _: Map<String, Value> = self.new_request(Ok(CallRequest::new(method))).fresh().await?;
        Ok(())
    }

    /// Sets the lowest level of the log messages that the server sends from now on
    /// ([`ClientBuilder::on_log`]).
    ///
    /// # Errors
    ///
    /// Up to 2025-11-25 [`ClientErrorKind::Unsupported`] if the server sends no log messages, and
    /// those of a request.
    ///
    /// [`ClientErrorKind::Unsupported`]: crate::ClientErrorKind::Unsupported
    pub async fn set_log_level(&self, level: LoggingLevel) -> Result<(), ClientError> {
        let is_modern = self.server().await?.revision.is_modern();
        self.peer.shared.config.set_log_level(level);
        if !is_modern {
            let params = json!({ "level": level.as_str() }).to_string().into_bytes();
            let request = CallRequest { params, ..CallRequest::new(Method::LoggingSetLevel) };
            let _: Map<String, Value> = self.new_request(Ok(request)).await?;
        }
        Ok(())
    }

    fn complete(&self, reference: &Value, name: &str, value: &str) -> Request<CompleteResult> {
        let params = json!({ "ref": reference, "argument": { "name": name, "value": value } });
        let params = params.to_string().into_bytes();
        let request = CallRequest::new(Method::CompletionComplete);
        self.new_request(Ok(CallRequest { params, ..request }))
    }

    fn new_request<R: DeserializeOwned + 'static>(
        &self,
        request: Result<impl Into<Box<CallRequest>>, ClientError>,
    ) -> Request<R> {
        Request::new(Arc::clone(&self.peer), request)
    }
}

/// Lists: all pages.
impl Client {
    /// Reads a list page by page: of tools, prompts, resources, resource templates or tasks, as `T`
    /// says.
    ///
    /// ```no_run
    /// # async fn print(client: &corelane::Client) -> Result<(), corelane::client::ClientError> {
    /// let mut pages = client.pages::<corelane::client::ToolInfo>();
    /// while let Some(page) = pages.next().await {
    ///     page?.items.iter().for_each(|tool| println!("{}", tool.name));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn pages<T: ListItem>(&self) -> Pages<T> {
        Pages::new(Arc::clone(&self.peer))
    }

    /// Reads a list, and reads it again after each change: `client.watch::<ToolInfo>()`.
    ///
    /// # Errors
    ///
    /// Those of [`Client::subscribe`].
    pub async fn watch<T: WatchedItem>(&self) -> Result<ListWatch<T>, ClientError> {
        let subscription = self.subscribe(&T::change_filter()).await?;
        Ok(ListWatch::new(Arc::clone(&self.peer), subscription))
    }

    /// Reads the list of `method`, whose items are in the member `key`, as it was sent.
    #[doc(hidden)]
    pub fn raw_pages(&self, method: Method, key: &'static str) -> Pages<Value> {
        Pages::raw(Arc::clone(&self.peer), method, key)
    }

    /// Lists the tools. Over HTTP those with an invalid `x-mcp-header` are left out, and the
    /// others are called with the headers that they require (2026-07-28).
    ///
    /// # Errors
    ///
    /// Those of a request; [`ClientErrorKind::Protocol`] for more than 1,000 pages.
    ///
    /// [`ClientErrorKind::Protocol`]: crate::ClientErrorKind::Protocol
    pub async fn list_tools(&self) -> Result<Vec<ToolInfo>, ClientError> {
        self.pages().collect().await
    }

    /// Lists the prompts. Errors: as for [`Client::list_tools`].
    pub async fn list_prompts(&self) -> Result<Vec<PromptInfo>, ClientError> {
        self.pages().collect().await
    }

    /// Lists the resources. Errors: as for [`Client::list_tools`].
    pub async fn list_resources(&self) -> Result<Vec<ResourceInfo>, ClientError> {
        self.pages().collect().await
    }

    /// Lists the resource templates. Errors: as for [`Client::list_tools`].
    pub async fn list_resource_templates(&self) -> Result<Vec<ResourceTemplateInfo>, ClientError> {
        self.pages().collect().await
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Client").finish_non_exhaustive()
    }
}

/// Connecting.
impl ClientBuilder {
    /// Connects and completes the handshake.
    ///
    /// # Errors
    ///
    /// [`ClientErrorKind::InvalidInput`] for an invalid target, [`ClientErrorKind::Connect`],
    /// [`ClientErrorKind::Tls`], [`ClientErrorKind::Handshake`].
    ///
    /// [`ClientErrorKind::Connect`]: crate::ClientErrorKind::Connect
    /// [`ClientErrorKind::Handshake`]: crate::ClientErrorKind::Handshake
    /// [`ClientErrorKind::InvalidInput`]: crate::ClientErrorKind::InvalidInput
    /// [`ClientErrorKind::Tls`]: crate::ClientErrorKind::Tls
    pub async fn connect(self) -> Result<Client, ClientError> {
        let client = self.connect_lazy()?;
        client.server().await?;
        Ok(client)
    }

    /// [`ClientBuilder::connect`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`ClientBuilder::connect`]; [`ClientErrorKind::InvalidInput`] on the thread that does the
    /// I/O of the client.
    ///
    /// [`ClientErrorKind::InvalidInput`]: crate::ClientErrorKind::InvalidInput
    pub fn connect_blocking(self) -> Result<Client, ClientError> {
        let client = self.connect_lazy()?;
        client.peer.wait(client.server())?;
        Ok(client)
    }

    /// Creates a client that connects with its first request. Concurrent first requests share one
    /// handshake.
    ///
    /// # Errors
    ///
    /// [`ClientErrorKind::InvalidInput`] for an invalid target or TLS options that do not fit,
    /// [`ClientErrorKind::Connect`] if the system grants no thread.
    ///
    /// [`ClientErrorKind::Connect`]: crate::ClientErrorKind::Connect
    /// [`ClientErrorKind::InvalidInput`]: crate::ClientErrorKind::InvalidInput
    pub fn connect_lazy(self) -> Result<Client, ClientError> {
        let (settings, thread) = self.into_parts()?;
        Ok(Client { peer: Arc::new(PeerRef::of_mcp(thread, settings)?) })
    }
}
