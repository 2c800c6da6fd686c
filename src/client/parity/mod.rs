//! The client of the parity dialect, as a program holds it.

mod request;

mod builder;

use std::fmt;
use std::sync::Arc;

use corelane_protocol::eras::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

pub use self::builder::ParityClientBuilder;
pub use self::request::{ParityCancel, ParityRequest, ParityResponse};
use crate::error::{ClientError, ClientErrorKind};
use crate::io::ParityPeerRef;
use crate::parity_session::ParityServerInfo;
use crate::request::ListItem;
use crate::results::{CallToolResult, GetPromptResult, ListResult, ReadResourceResult};
use crate::target::IntoTarget;

/// Pages of one list, so that a server whose list does not end is not read forever.
const PAGES_MAX: usize = 1_000;

/// A client of one server of the parity dialect, over TCP, a Unix socket, WebSocket, HTTP or the
/// standard streams of a program. Cloning is cheap; clones and their requests share the session,
/// which ends when the last one is dropped.
///
/// Over HTTP a target without a path is that of `/parity`. At most 10 requests are in flight, each
/// on a connection of its own; further ones wait. Streams share one more connection.
///
/// The session outlives its connections. After a loss the client connects again and resumes it:
///
/// | request | after the loss |
/// | --- | --- |
/// | not sent | is sent on the next connection |
/// | streamed, stream open | continues, or fails with [`Restart`] if the server cannot |
/// | `tools/call` with an idempotency key | is sent again if the session continues |
/// | another `tools/call`, or its stream is not open yet | fails with [`Closed`]: it may have run |
/// | another method | is sent again |
///
/// A server that is a program does not resume. The I/O happens on a thread of its own. The futures
/// need no runtime and work with every executor; each request also has [`ParityRequest::wait`] for
/// threads.
///
/// ```no_run
/// use corelane::client::{ParityChunk, ParityClient};
/// use serde_json::json;
///
/// let client = ParityClient::builder("tcp://127.0.0.1:8888").connect_blocking()?;
/// let result = client
///     .call_tool("slow", &json!({ "steps": 3, "step_ms": 100 }))
///     .on_chunk(|chunk| {
///         if let ParityChunk::Progress(progress) = chunk {
///             println!("{}", progress.progress);
///         }
///     })
///     .wait()?;
/// println!("{}", result.text());
/// # Ok::<(), corelane::client::ClientError>(())
/// ```
///
/// [`Restart`]: ClientErrorKind::Restart
/// [`Closed`]: ClientErrorKind::Closed
#[derive(Clone)]
pub struct ParityClient {
    peer: Arc<ParityPeerRef>,
}

/// Connecting.
impl ParityClient {
    /// Begins to configure a client of the server at `target`; see [`Target`] for its text.
    ///
    /// [`Target`]: crate::Target
    pub fn builder(target: impl IntoTarget) -> ParityClientBuilder {
        ParityClientBuilder::new(target)
    }

    /// Connects with the default options.
    ///
    /// # Errors
    ///
    /// Those of [`ParityClientBuilder::connect`].
    pub async fn connect(target: impl IntoTarget) -> Result<Self, ClientError> {
        Self::builder(target).connect().await
    }

    /// Returns what the server declared in the handshake, and connects if it is not connected.
    ///
    /// # Errors
    ///
    /// [`ClientErrorKind::Connect`] and [`ClientErrorKind::Tls`] if there is no connection,
    /// [`ClientErrorKind::Parity`] if the server refuses the handshake, such as with
    /// `error.auth.unauthorized`, [`ClientErrorKind::Handshake`] if it does not speak the dialect,
    /// [`ClientErrorKind::Timeout`] if it does not answer.
    pub async fn server(&self) -> Result<Arc<ParityServerInfo>, ClientError> {
        self.peer.server().await
    }

    /// Replaces the token of the caller: the next request carries it, as do later handshakes. The
    /// `Authorization` of an upgrade to WebSocket stays.
    ///
    /// # Errors
    ///
    /// [`ClientErrorKind::Unsupported`] over HTTP, [`ClientErrorKind::Closed`] if the I/O thread
    /// has ended.
    pub fn set_auth_token(&self, token: &str) -> Result<(), ClientError> {
        self.peer.set_auth_token(token)
    }

    /// Closes the connection, for all clones. Requests in flight fail with
    /// [`ClientErrorKind::Closed`]. A program that was started has 5 seconds to exit, and is then
    /// ended; this waits for its end.
    pub async fn close(self) {
        self.peer.close().await;
    }
}

/// Requests. Their errors are [`ClientErrorKind::Parity`] if the server answers with one,
/// [`ClientErrorKind::Unsupported`] if what they need is not negotiated,
/// [`ClientErrorKind::Timeout`], [`ClientErrorKind::Busy`] if 16,384 requests wait, those of
/// [`ParityClient::server`], and those of the table above.
impl ParityClient {
    /// Calls a tool. `arguments` must serialize to a JSON object. A result with `isError` is no
    /// error.
    pub fn call_tool(
        &self,
        name: &str,
        arguments: &(impl Serialize + ?Sized),
    ) -> ParityRequest<CallToolResult> {
        self.named("tools/call", name, arguments)
    }

    /// Gets the messages of a prompt. `arguments` must serialize to a JSON object of strings.
    pub fn get_prompt(
        &self,
        name: &str,
        arguments: &(impl Serialize + ?Sized),
    ) -> ParityRequest<GetPromptResult> {
        self.named("prompts/get", name, arguments)
    }

    fn named<R: DeserializeOwned>(
        &self,
        method: &str,
        name: &str,
        arguments: &(impl Serialize + ?Sized),
    ) -> ParityRequest<R> {
        #[derive(Serialize)]
        struct Params<'a, A: ?Sized> {
            name: &'a str,
            arguments: &'a A,
        }
        self.request(method, &Params { name, arguments })
    }

    /// Reads a resource.
    pub fn read_resource(&self, uri: &str) -> ParityRequest<ReadResourceResult> {
        self.request("resources/read", &json!({ "uri": uri }))
    }

    /// Makes a request by the name of its method: those of MCP 2025-11-25 that the dialect has.
    /// `params` must serialize to a JSON object. An `R` may be a
    /// `Box<serde_json::value::RawValue>`.
    pub fn request<R: DeserializeOwned>(
        &self,
        method: &str,
        params: &(impl Serialize + ?Sized),
    ) -> ParityRequest<R> {
        ParityRequest::new(Arc::clone(&self.peer), method, params)
    }

    /// Sends `ping`, and waits for the response.
    ///
    /// # Errors
    ///
    /// Those of a request.
    pub async fn ping(&self) -> Result<(), ClientError> {
        let _: Map<String, Value> = self.request("ping", &json!({})).await?;
        Ok(())
    }

    /// Reads all pages of a list: of tools, prompts, resources or resource templates, as `T` says.
    ///
    /// # Errors
    ///
    /// Those of a request; [`ClientErrorKind::Protocol`] for more than 1,000 pages.
    pub async fn list<T: ListItem>(&self) -> Result<Vec<T>, ClientError> {
        let mut pages = Vec::new();
        let mut cursor = None;
        for _ in 0..PAGES_MAX {
            let page = self.page(T::METHOD, cursor.as_deref()).await?;
            let page = ListResult::<T>::read(page, T::KEY).map_err(|error| {
                let text = format!("the list is invalid: {error}");
                ClientError::new(ClientErrorKind::Protocol, text)
            })?;
            pages.extend(page.items);
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(pages);
            }
        }
        let text = format!("the list has more than {PAGES_MAX} pages");
        Err(ClientError::new(ClientErrorKind::Protocol, text))
    }

    async fn page(
        &self,
        method: Method,
        cursor: Option<&str>,
    ) -> Result<Map<String, Value>, ClientError> {
        let params = cursor.map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
        self.request(method.as_str(), &params).await
    }
}

impl fmt::Debug for ParityClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ParityClient").finish_non_exhaustive()
    }
}

/// Connecting.
impl ParityClientBuilder {
    /// Connects and completes the handshake.
    ///
    /// # Errors
    ///
    /// Those of [`ParityClient::server`].
    pub async fn connect(self) -> Result<ParityClient, ClientError> {
        let client = self.connect_lazy()?;
        client.server().await?;
        Ok(client)
    }

    /// [`ParityClientBuilder::connect`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`ParityClientBuilder::connect`]; [`ClientErrorKind::InvalidInput`] on the thread that
    /// does the I/O of the client.
    pub fn connect_blocking(self) -> Result<ParityClient, ClientError> {
        let client = self.connect_lazy()?;
        client.peer.wait(client.server())?;
        Ok(client)
    }

    /// Creates a client that connects with its first request.
    ///
    /// # Errors
    ///
    /// [`ClientErrorKind::InvalidInput`] for an invalid target or TLS options that do not fit,
    /// [`ClientErrorKind::Connect`] if the system grants no thread.
    pub fn connect_lazy(self) -> Result<ParityClient, ClientError> {
        Ok(ParityClient { peer: Arc::new(self.open()?) })
    }
}
