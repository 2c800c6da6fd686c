//! HTTP/1.1 connections to the shards: one that is driven by the future that uses it, and those
//! that are open and unused.
//!
//! No task of its own reads and writes the connection, so that a call wakes only the task that
//! waits for it, and dropping that task closes the connection.

use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Extensions, Request, Response};
use http_body::{Body as _, Frame};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, Parts, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

use crate::server::{ExtensionSlot, Handle};

/// Any error, as bodies of other crates return it.
pub(super) type BoxError = Box<dyn Error + Send + Sync>;

/// The body of a request.
pub(super) type RequestBody = UnsyncBoxBody<Bytes, BoxError>;

type Transport = http1::Connection<TokioIo<UnixStream>, RequestBody>;

/// An open connection.
pub(super) struct Connection {
    sender: SendRequest<RequestBody>,
    transport: Transport,
    /// The transport has ended and must not be polled.
    has_ended: bool,
    /// Shared with the shard.
    extensions: ExtensionSlot,
    /// A request before this one was answered.
    pub(super) is_reused: bool,
}

impl Connection {
    /// Opens a connection over the client's end of a socket pair. Must be called on a tokio
    /// runtime, which alone can use the connection.
    pub(super) async fn open(
        stream: StdUnixStream,
        extensions: ExtensionSlot,
    ) -> Result<Self, BoxError> {
        stream.set_nonblocking(true)?;
        let stream = TokioIo::new(UnixStream::from_std(stream)?);
        let (sender, transport) = http1::handshake(stream).await?;
        Ok(Self { sender, transport, has_ended: false, extensions, is_reused: false })
    }

    /// Returns whether a request can be sent: the last response is complete, and the server has not
    /// closed the connection.
    fn is_ready(&mut self) -> bool {
        // An idle connection wakes no task.
        let context = &mut Context::from_waker(Waker::noop());
        self.poll_transport(context);
        matches!(self.sender.poll_ready(context), Poll::Ready(Ok(()))) && !self.has_ended
    }

    /// Sets the extensions of the next request, or of all messages of a WebSocket.
    pub(super) fn set_extensions(&self, extensions: Option<Arc<Extensions>>) {
        self.extensions.set(extensions);
    }

    /// Sends a request and receives the head of its response.
    pub(super) async fn send(
        &mut self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, TrySendError<Request<RequestBody>>> {
        let mut response = pin!(self.sender.try_send_request(request));
        poll_fn(|context| {
            // First, because the response comes from it.
            poll_transport(&mut self.transport, &mut self.has_ended, context);
            response.as_mut().poll(context)
        })
        .await
    }

    /// Polls the body of the last response.
    pub(super) fn poll_body(
        &mut self,
        body: &mut Incoming,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        // A frame that is there, or the request for the next one, which the transport then reads.
        if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(context) {
            return Poll::Ready(frame);
        }
        self.poll_transport(context);
        Pin::new(body).poll_frame(context)
    }

    /// Takes the socket after a response that switches protocols, and what was read behind it.
    pub(super) async fn into_upgraded(mut self) -> (UnixStream, Bytes) {
        poll_fn(|context| {
            self.poll_transport(context);
            if self.has_ended { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        let Parts { io, read_buf, .. } = self.transport.into_parts();
        (io.into_inner(), read_buf)
    }

    fn poll_transport(&mut self, context: &mut Context<'_>) {
        poll_transport(&mut self.transport, &mut self.has_ended, context);
    }
}

/// Reads and writes as far as possible.
fn poll_transport(transport: &mut Transport, has_ended: &mut bool, context: &mut Context<'_>) {
    if !*has_ended {
        // Errors are reported by the response or its body.
        *has_ended = transport.poll_without_shutdown(context).is_ready();
    }
}

/// Unused connections of one service that stay open.
const IDLE_CONNECTIONS_MAX: usize = 64;

/// Locked to take or return a connection.
#[expect(clippy::disallowed_types, reason = "the threads of the host's runtime share it")]
type Mutex<T> = std::sync::Mutex<T>;

/// The connections of one service.
///
/// Invariants: a connection serves one request at a time; at most [`IDLE_CONNECTIONS_MAX`] are open
/// without one.
pub(super) struct Pool {
    handle: Handle,
    /// Connections opened so far; each is opened to the next shard.
    opened: AtomicUsize,
    /// The one used last is taken first.
    #[expect(clippy::vec_box, reason = "a connection is moved several times for each request")]
    idle: Mutex<Vec<Box<Connection>>>,
}

impl Pool {
    pub(super) fn new(handle: Handle) -> Self {
        Self { handle, opened: AtomicUsize::new(0), idle: Mutex::default() }
    }

    /// The server of the connections.
    pub(super) const fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Takes an unused connection, or opens one.
    ///
    /// # Errors
    ///
    /// That of [`Handle::connect_http`].
    pub(super) async fn take(&self) -> Result<Box<Connection>, BoxError> {
        while let Some(mut connection) = self.take_idle() {
            if connection.is_ready() {
                return Ok(connection);
            }
        }
        let index = self.opened.fetch_add(1, Ordering::Relaxed);
        let (stream, extensions) = self.handle.connect_http(index)?;
        let mut connection = Box::new(Connection::open(stream, extensions).await?);
        if !connection.is_ready() {
            return Err(io::Error::from(io::ErrorKind::ConnectionReset).into());
        }
        Ok(connection)
    }

    /// Returns a connection whose response is complete. It is closed if it cannot be used again, or
    /// if too many are unused.
    pub(super) fn put(&self, mut connection: Box<Connection>) {
        if connection.is_ready() {
            connection.set_extensions(None);
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < IDLE_CONNECTIONS_MAX {
                connection.is_reused = true;
                idle.push(connection);
            }
        }
    }

    fn take_idle(&self) -> Option<Box<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}
