//! The client as a program holds it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::block_on::block_on;
use super::cache::{Cache, CachePolicy};
use super::error::{ClientError, ClientErrorKind};
use super::inputs::{CreateMessageRequestParams, ElicitRequestParams, InputHandlers, InputResult};
use super::io::{ConnectionCallback, IoThread, PeerHandle, PeerRef, StderrCallback};
use super::notifications::{LogMessage, NotificationHandlers};
use super::oauth::OAuthOptions;
use super::oneshot::Oneshot;
use super::reconnect::{ConnectionEvent, ReconnectOptions};
use super::request::{ListItem, Pages, Request, Task};
use super::results::{
    CallToolResult, CompleteResult, GetPromptResult, PromptInfo, ReadResourceResult, ResourceInfo,
    ResourceTemplateInfo, ToolInfo,
};
use super::session::{
    CallRequest, EraPreference, ReceivedMessage, ServerInfo, SessionConfig, SessionOptions,
};
use super::subscription::{
    ListWatch, Subscription, SubscriptionFilter, SubscriptionQueue, WatchedItem,
};
use super::target::{IntoTarget, Target};
use super::tls_options::{TlsOptions, tls_client};
use crate::protocol::eras::{LoggingLevel, Method};
use crate::protocol::json::write;
use crate::protocol::model::{CreateMessageResult, ElicitResult, Implementation, Root};
use crate::transport::http::client::request_writer::ExtraFields;

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
    pub async fn server(&self) -> Result<Arc<ServerInfo>, ClientError> {
        self.peer.server().await
    }

    /// Closes the connection, for all clones. Calls in flight fail with
    /// [`ClientErrorKind::Closed`]. A program that was started has 5 seconds to exit, and is then
    /// ended by SIGTERM and, 5 seconds later, SIGKILL; this waits for its end.
    pub async fn close(self) {
        let slot = Arc::new(Oneshot::new());
        if self.peer.close(Arc::clone(&slot)).is_ok() {
            slot.take().await;
        }
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
        self.new_request(CallRequest::with_arguments(Method::ToolsCall, name, arguments))
    }

    /// Gets the messages of a prompt. `arguments` must serialize to a JSON object of strings.
    pub fn get_prompt(
        &self,
        name: &str,
        arguments: &(impl Serialize + ?Sized),
    ) -> Request<GetPromptResult> {
        self.new_request(CallRequest::with_arguments(Method::PromptsGet, name, arguments))
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
    pub fn request<R: DeserializeOwned>(
        &self,
        method: &str,
        params: &(impl Serialize + ?Sized),
    ) -> Request<R> {
        self.new_request(CallRequest::with_params(method, params))
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
    pub async fn set_log_level(&self, level: LoggingLevel) -> Result<(), ClientError> {
        let is_modern = self.server().await?.revision.is_modern();
        self.peer.config().set_log_level(level);
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

    fn new_request<R: DeserializeOwned>(
        &self,
        request: Result<CallRequest, ClientError>,
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
    #[cfg(feature = "cli")]
    pub(crate) fn raw_pages(&self, method: Method, key: &'static str) -> Pages<Value> {
        Pages::raw(Arc::clone(&self.peer), method, key)
    }

    /// Lists the tools. Over HTTP those with an invalid `x-mcp-header` are left out, and the
    /// others are called with the headers that they require (2026-07-28).
    ///
    /// # Errors
    ///
    /// Those of a request; [`ClientErrorKind::Protocol`] for more than 1,000 pages.
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

/// Options of a [`Client`].
#[must_use = "a builder connects nothing by itself"]
pub struct ClientBuilder {
    target: Result<Target, ClientError>,
    options: SessionOptions,
    connect_timeout: Duration,
    tls: Option<TlsOptions>,
    inputs: InputHandlers,
    extra_fields: ExtraFields,
    oauth: Option<OAuthOptions>,
    notifications: NotificationHandlers,
    log_level: Option<LoggingLevel>,
    cache: CachePolicy,
    on_stderr: Option<StderrCallback>,
    reconnect: ReconnectOptions,
    on_connection_event: Option<ConnectionCallback>,
    thread: Option<IoThread>,
}

impl ClientBuilder {
    fn new(target: Result<Target, ClientError>) -> Self {
        Self {
            target,
            options: SessionOptions::default(),
            connect_timeout: Duration::from_secs(5),
            tls: None,
            inputs: InputHandlers::default(),
            extra_fields: ExtraFields::default(),
            oauth: None,
            notifications: NotificationHandlers::default(),
            log_level: None,
            cache: CachePolicy::default(),
            on_stderr: None,
            reconnect: ReconnectOptions::default(),
            on_connection_event: None,
            thread: None,
        }
    }

    /// Sets name and version of the client. Default: those of this library.
    pub fn client_info(mut self, client_info: Implementation) -> Self {
        self.options.client_info = client_info;
        self
    }

    /// Sets which revisions to use. Default [`EraPreference::Auto`].
    pub const fn era(mut self, era: EraPreference) -> Self {
        self.options.era = era;
        self
    }

    /// Sets the time from a request to its response. Default 30 s.
    pub const fn request_timeout(mut self, timeout: Duration) -> Self {
        self.options.request_timeout = timeout;
        self
    }

    /// Sets the time to open a connection to one address, and that of its TLS handshake. Default
    /// 5 s.
    pub const fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets how the server is verified, for a target that begins with `https://` or `tls://`.
    /// Default: by the root certificates of the system. Another target fails the connection with
    /// [`ClientErrorKind::InvalidInput`].
    pub fn tls(self, tls: TlsOptions) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// Lets servers answer tool calls with tasks (2026-07-28); the calls wait for their results.
    /// Default `true`.
    pub const fn tasks(mut self, is_allowed: bool) -> Self {
        self.options.tasks = is_allowed;
        self
    }

    /// Sets which results are used again while they are fresh. Default [`CachePolicy::Lists`].
    pub const fn cache(mut self, policy: CachePolicy) -> Self {
        self.cache = policy;
        self
    }

    /// Answers questions of the server to the user. `handler` runs on the I/O thread and must not
    /// block; the time that it takes does not count for the call. Without it the client does not
    /// declare elicitation.
    pub fn on_elicitation<F, O>(mut self, handler: F) -> Self
    where
        F: Fn(ElicitRequestParams) -> O + Send + Sync + 'static,
        O: Future<Output = InputResult<ElicitResult>> + 'static,
    {
        self.inputs.set_elicitation(handler);
        self
    }

    /// Lets the server use the model of the client. As [`ClientBuilder::on_elicitation`].
    pub fn on_sampling<F, O>(mut self, handler: F) -> Self
    where
        F: Fn(CreateMessageRequestParams) -> O + Send + Sync + 'static,
        O: Future<Output = InputResult<CreateMessageResult>> + 'static,
    {
        self.inputs.set_sampling(handler);
        self
    }

    /// Lists the directories and files that the server may use. As
    /// [`ClientBuilder::on_elicitation`].
    pub fn on_roots<F, O>(mut self, handler: F) -> Self
    where
        F: Fn() -> O + Send + Sync + 'static,
        O: Future<Output = InputResult<Vec<Root>>> + 'static,
    {
        self.inputs.set_roots(handler);
        self
    }

    /// Adds a header to each HTTP request, and to the upgrade request of WebSocket. Its value is
    /// never logged. An invalid name or value, one of the headers that the client sends itself, or
    /// another target fails the connection with [`ClientErrorKind::InvalidInput`].
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let added = match &self.target {
            Ok(Target::Http(_) | Target::WebSocket(_)) => self.extra_fields.push(name, value),
            Ok(_) => Err("headers need a target of HTTP or WebSocket".to_owned()),
            Err(_) => return self,
        };
        if let Err(text) = added {
            self.target = Err(ClientError::new(ClientErrorKind::InvalidInput, text));
        }
        self
    }

    /// Authorizes each HTTP request with a bearer token (RFC 6750): a header, as
    /// [`ClientBuilder::header`] adds it.
    pub fn bearer(self, token: &str) -> Self {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    /// Obtains access tokens with OAuth when the server asks for authorization. A target that is
    /// not HTTP, and a header `Authorization` besides, fail the connection with
    /// [`ClientErrorKind::InvalidInput`].
    pub fn oauth(self, options: OAuthOptions) -> Self {
        Self { oauth: Some(options), ..self }
    }

    /// Receives the notifications that belong to no request, as JSON text. `on_notification` is
    /// called on the I/O thread and must not block.
    pub fn on_notification(
        mut self,
        on_notification: impl Fn(ReceivedMessage) + Send + Sync + 'static,
    ) -> Self {
        self.notifications.set_all(on_notification);
        self
    }

    /// Receives the log messages of the server from `level` on: `logging/setLevel` up to
    /// 2025-11-25, `io.modelcontextprotocol/logLevel` in each request since then.
    /// [`Client::set_log_level`] changes the level. `on_log` is called on the I/O thread and must
    /// not block.
    pub fn on_log(
        mut self,
        level: LoggingLevel,
        on_log: impl Fn(LogMessage) + Send + Sync + 'static,
    ) -> Self {
        self.log_level = Some(level);
        self.notifications.set_log(on_log);
        self
    }

    /// Receives each line that a program writes to its standard error, whatever
    /// [`Program::stderr`](super::Program::stderr) says. `on_stderr` is called on a thread of its
    /// own.
    pub fn on_stderr(mut self, on_stderr: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_stderr = Some(Arc::new(on_stderr));
        self
    }

    /// Sets how the client connects again after the loss of its connection.
    pub fn reconnect(self, reconnect: ReconnectOptions) -> Self {
        Self { reconnect, ..self }
    }

    /// Receives the changes of the connection; not over HTTP. `on_connection_event` is called on
    /// the I/O thread and must not block.
    pub fn on_connection_event(
        mut self,
        on_connection_event: impl Fn(ConnectionEvent) + Send + Sync + 'static,
    ) -> Self {
        self.on_connection_event = Some(Box::new(on_connection_event));
        self
    }

    /// Shares an I/O thread with other clients. Default: a thread for each client.
    pub fn io_thread(self, thread: &IoThread) -> Self {
        Self { thread: Some(thread.clone()), ..self }
    }

    /// Connects and completes the handshake.
    ///
    /// # Errors
    ///
    /// [`ClientErrorKind::InvalidInput`] for an invalid target, [`ClientErrorKind::Connect`],
    /// [`ClientErrorKind::Tls`], [`ClientErrorKind::Handshake`].
    pub async fn connect(self) -> Result<Client, ClientError> {
        let client = self.connect_lazy()?;
        client.server().await?;
        Ok(client)
    }

    /// [`ClientBuilder::connect`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`ClientBuilder::connect`].
    pub fn connect_blocking(self) -> Result<Client, ClientError> {
        block_on(self.connect())
    }

    /// Creates a client that connects with its first request. Concurrent first requests share one
    /// handshake.
    ///
    /// # Errors
    ///
    /// [`ClientErrorKind::InvalidInput`] for an invalid target or TLS options that do not fit,
    /// [`ClientErrorKind::Connect`] if the system grants no thread.
    pub fn connect_lazy(self) -> Result<Client, ClientError> {
        let target = self.target?;
        let oauth = match self.oauth {
            Some(options) => {
                Some(options.checked(&target, &self.extra_fields, self.tls.as_ref())?)
            }
            None => None,
        };
        let tls = tls_client(&target, self.tls.as_ref())?;
        let thread = match self.thread {
            Some(thread) => thread,
            None => IoThread::start().map_err(|error| {
                let text = format!("the I/O thread cannot be started: {error}");
                ClientError::with_source(ClientErrorKind::Connect, text, error)
            })?,
        };
        let config = SessionConfig::new(self.options, self.inputs.capabilities());
        if let Some(level) = self.log_level {
            config.set_log_level(level);
        }
        let handle = PeerHandle {
            target: Arc::new(target),
            tls,
            config: Arc::new(config),
            connect_timeout: self.connect_timeout,
            inputs: self.inputs,
            extra_fields: self.extra_fields,
            oauth,
            notifications: self.notifications,
            cache: Arc::new(Cache::new(self.cache)),
            on_stderr: self.on_stderr,
            reconnect: self.reconnect,
            on_connection_event: self.on_connection_event,
        };
        Ok(Client { peer: Arc::new(PeerRef::add(thread, handle)?) })
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ClientBuilder")
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}
