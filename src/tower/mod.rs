//! The server inside an HTTP server of the host program, such as axum: [`McpService`].
//!
//! The service passes each request over a Unix socket pair to a shard, which reads, checks and
//! answers it as it does for its own listeners: the same statuses, headers and bodies, event
//! streams, sessions and limits. The host's server does the rest: listeners, TLS, HTTP/2,
//! authentication, other routes.
//!
//! ```no_run
//! use axum::Router;
//! use corelane::model::Implementation;
//! use corelane::tower::McpService;
//! use corelane::{Catalog, Server};
//!
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! let catalog = Catalog::builder(Implementation::new("mounted", "1.0.0")).build()?;
//! let router = Router::new().nest_service("/mcp", McpService::new(Server::builder(catalog))?);
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
//! axum::serve(listener, router).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Paths
//!
//! `/` is the MCP endpoint and `/ws` the WebSocket endpoint, as `nest_service` leaves the path; so
//! are the paths of the options `http.path` and `websocket.path`, for services that are mounted
//! with their whole path. Everything else is answered with 404: the endpoints of operators and the
//! web page are not reachable, and neither is HTTP with SSE (2024-11-05).
//!
//! # Hosts and origins
//!
//! The server checks `Host` and `Origin`. By default it serves requests to `localhost` and loopback
//! addresses only; the public name of the host program belongs in `http.hosts`, and the origins of
//! its pages in `http.origins`:
//!
//! ```
//! let mut options = corelane::Options::default();
//! options.http.hosts = vec!["mcp.example.com".into()];
//! ```
//!
//! # Limits
//!
//! Requests in flight and open streams count as connections (`http.connections_max`); beyond the
//! limit the response is 503 with `Retry-After`. A request that the host drops, because its client
//! has closed the connection, is cancelled like any other one. Handlers see no address of the peer;
//! fields such as `X-Forwarded-For` reach them as the host has set them.
//!
//! # Extensions
//!
//! What middleware inserts into the extensions of a request reaches the handlers of this request on
//! every shard, and those of all messages of a WebSocket, if it is the upgrade: see
//! [`RequestInfo::extension`](crate::RequestInfo::extension). They pass beside the request, so that
//! no client can set one.
//!
//! Cost: two sockets and two copies of each message more than a listener of the server, and at most
//! 64 idle connections.

#![forbid(unsafe_code)]

mod connection;

mod message;

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;

use bytes::Bytes;
use corelane_protocol::error::Error;
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body::Body;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncWriteExt, copy_bidirectional};
use tokio::net::UnixStream;
use tower_service::Service;

use self::connection::{BoxError, Connection, Pool};
pub use self::message::ResponseBody;
use self::message::{ConvertedRequest, Targets, convert, error_response, remove_connection_fields};
use crate::server::{Handle, Running, Server, StartError, request_id};

/// A server as a [`tower_service::Service`] of HTTP requests; see the [module](crate::tower).
///
/// Cheap to clone; clones share the server and its connections. Calls need the tokio runtime of the
/// calls before.
#[derive(Clone)]
pub struct McpService {
    inner: Arc<Inner>,
}

struct Inner {
    pool: Arc<Pool>,
    targets: Targets,
    /// The server, if it ends with the service.
    running: Option<Running>,
}

impl McpService {
    /// Starts `server` without listeners for clients: `tcp.address` is ignored, and `http.address`
    /// only decides the default of `http.hosts` and `http.origins`. `admin.address` is served.
    /// Handlers of the kind `tokio` run on the current runtime, unless the server has one.
    ///
    /// The server drains when the last clone is dropped; see [`McpService::handle`].
    ///
    /// # Errors
    ///
    /// As [`Server::start`].
    pub fn new(server: Server) -> Result<Self, StartError> {
        let running = server.start_unbound()?;
        Ok(Self { inner: Arc::new(Inner::new(&running.handle(), Some(running))) })
    }

    /// Returns a service of a running server, which also has listeners of its own and does not end
    /// with the service. Its option `http.address` must be set.
    pub fn from_handle(handle: &Handle) -> Self {
        Self { inner: Arc::new(Inner::new(handle, None)) }
    }

    /// Returns the handle of the server. [`Handle::drain`] ends its event streams, which a graceful
    /// shutdown of the HTTP server would wait for.
    pub fn handle(&self) -> Handle {
        self.inner.pool.handle().clone()
    }
}

impl Inner {
    fn new(handle: &Handle, running: Option<Running>) -> Self {
        let targets = Targets::new(handle.options());
        Self { pool: Arc::new(Pool::new(handle.clone())), targets, running }
    }
}

impl fmt::Debug for McpService {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("McpService").finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let Some(running) = self.running.take() else { return };
        running.handle().drain();
        // Joined on a thread, because this one belongs to the host's runtime. The result is logged.
        let joiner = thread::Builder::new().name("corelane-join".into());
        drop(joiner.spawn(move || drop(running.join())));
    }
}

/// The future of one request. Dropping it closes the connection to the server.
pub struct ResponseFuture(Pin<Box<dyn Future<Output = Response<ResponseBody>> + Send>>);

impl Future for ResponseFuture {
    type Output = Result<Response<ResponseBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(context).map(Ok)
    }
}

impl fmt::Debug for ResponseFuture {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

impl<B> Service<Request<B>> for McpService
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = ResponseFuture;

    /// Always ready: a server that has reached a limit answers with status 503.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> ResponseFuture {
        ResponseFuture(Box::pin(respond(Arc::clone(&self.inner), request)))
    }
}

/// Responds to a request; every response has an `X-Request-ID`.
async fn respond<B>(inner: Arc<Inner>, request: Request<B>) -> Response<ResponseBody>
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let sent: Vec<_> = request.headers().get_all(&REQUEST_ID).into_iter().cloned().collect();
    let mut response = pass_on(inner, request).await;
    // Without an answer of the server.
    if !response.headers().contains_key(&REQUEST_ID) {
        let id = request_id(sent.iter().map(HeaderValue::as_bytes));
        if let Some(id) = id.and_then(|id| HeaderValue::from_bytes(&id).ok()) {
            response.headers_mut().insert(REQUEST_ID, id);
        }
    }
    response
}

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Passes a request to the server and its response back.
async fn pass_on<B>(inner: Arc<Inner>, request: Request<B>) -> Response<ResponseBody>
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let pool = &inner.pool;
    let ConvertedRequest { mut request, upgrade, extensions } = convert(request, &inner.targets);
    loop {
        let mut connection = match pool.take().await {
            Ok(connection) => connection,
            Err(error) => return no_connection(&*error),
        };
        // Before the request, so that the shard finds them.
        connection.set_extensions(extensions.clone());
        let response = match connection.send(request).await {
            Ok(response) => response,
            Err(mut error) => match error.take_message() {
                // The server has closed the connection since its last response.
                Some(unsent) if connection.is_reused => {
                    request = unsent;
                    continue;
                }
                _ => return no_response(error.error(), connection.is_reused),
            },
        };
        if let (StatusCode::SWITCHING_PROTOCOLS, Some(client)) = (response.status(), upgrade) {
            return switch_protocols(response, client, connection);
        }
        let (mut parts, body) = response.into_parts();
        remove_connection_fields(&mut parts.headers);
        return Response::from_parts(parts, ResponseBody::new(body, connection, pool));
    }
}

/// The response if no connection to the server can be opened.
fn no_connection(
    error: &(dyn std::error::Error + Send + Sync + 'static),
) -> Response<ResponseBody> {
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    let error = match kind {
        Some(io::ErrorKind::NotConnected) => Error::draining(),
        _ => Error::connection_limit(),
    };
    error_response(StatusCode::SERVICE_UNAVAILABLE, &error)
}

/// The response if the server has closed the connection, or the body of the request has failed.
fn no_response(error: &hyper::Error, is_reused: bool) -> Response<ResponseBody> {
    if error.is_user() {
        let error = Error::invalid_request("the request body could not be read");
        return error_response(StatusCode::BAD_REQUEST, &error);
    }
    if !is_reused {
        // Beyond its limit, the server closes connections without a response.
        return error_response(StatusCode::SERVICE_UNAVAILABLE, &Error::connection_limit());
    }
    let error = Error::internal("the server closed the connection before its response");
    error_response(StatusCode::BAD_GATEWAY, &error)
}

/// Passes on the response that accepts a handshake, and then the bytes of both sides until they
/// close.
fn switch_protocols(
    response: Response<Incoming>,
    client: OnUpgrade,
    connection: Box<Connection>,
) -> Response<ResponseBody> {
    tokio::spawn(async move {
        let (server, read) = connection.into_upgraded().await;
        // An error is the end of the connection, on either side.
        drop(copy(client, server, read).await);
    });
    let mut response = response.map(|_| ResponseBody::empty());
    let headers = response.headers_mut();
    remove_connection_fields(headers);
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    response
}

/// Copies until both sides have closed. `read` came from the server behind its response.
async fn copy(client: OnUpgrade, mut server: UnixStream, read: Bytes) -> io::Result<()> {
    let mut client = TokioIo::new(client.await.map_err(io::Error::other)?);
    client.write_all(&read).await?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
