//! Responses: those of the shards, passed on as they arrive, and the errors of the service itself.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use bytes::Bytes;
use corelane_protocol::error::Error;
use corelane_protocol::model;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::connection::{BoxError, Connection, Pool};

/// The body of a response. Dropping it before its end closes its connection, and with it cancels
/// the request if it is one of 2026-07-28.
pub struct ResponseBody(Content);

enum Content {
    Text(Option<Bytes>),
    Stream { body: Incoming, source: Option<Source> },
}

/// The connection of a body.
struct Source {
    connection: Box<Connection>,
    /// Weak, because streams end with the server, which ends with its last service.
    pool: Weak<Pool>,
}

impl ResponseBody {
    /// The body of the response that arrives on `connection`, which then returns to `pool`.
    pub(super) fn new(body: Incoming, connection: Box<Connection>, pool: &Arc<Pool>) -> Self {
        let source = Some(Source { connection, pool: Arc::downgrade(pool) });
        let mut body = Self(Content::Stream { body, source });
        body.release_at_end();
        body
    }

    pub(super) const fn empty() -> Self {
        Self(Content::Text(None))
    }

    /// Returns the connection of a complete body to its pool.
    fn release_at_end(&mut self) {
        if let Content::Stream { body, source } = &mut self.0
            && body.is_end_stream()
            && let Some(Source { connection, pool }) = source.take()
            && let Some(pool) = pool.upgrade()
        {
            pool.put(connection);
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let (body, source) = match &mut self.0 {
            Content::Text(text) => return Poll::Ready(text.take().map(|it| Ok(Frame::data(it)))),
            Content::Stream { body, source } => (body, source),
        };
        let Some(Source { connection, .. }) = source else { return Poll::Ready(None) };
        let polled = connection.poll_body(body, context);
        match &polled {
            Poll::Pending => {}
            Poll::Ready(Some(Ok(_))) => self.release_at_end(),
            Poll::Ready(Some(Err(_))) => *source = None,
            Poll::Ready(None) => {
                if let Some(Source { connection, pool }) = source.take()
                    && let Some(pool) = pool.upgrade()
                {
                    pool.put(connection);
                }
            }
        }
        polled.map(|frame| frame.map(|frame| frame.map_err(BoxError::from)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Content::Text(text) => text.is_none(),
            Content::Stream { body, source } => source.is_none() || body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Content::Text(text) => {
                SizeHint::with_exact(text.as_ref().map_or(0, |it| it.len() as u64))
            }
            Content::Stream { body, .. } => body.size_hint(),
        }
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ResponseBody").finish_non_exhaustive()
    }
}

/// Returns an error response in the form of the server's.
pub(super) fn error_response(status: StatusCode, error: &Error) -> Response<ResponseBody> {
    let mut text = Vec::new();
    model::write_error_response(&mut text, None, error, None);
    let mut response = Response::new(ResponseBody(Content::Text(Some(text.into()))));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}
