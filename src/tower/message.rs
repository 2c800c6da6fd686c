//! Messages between the router of a host and the shards: requests, as a shard gets them, responses,
//! passed on as they arrive, and the errors of the service itself.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use corelane_protocol::error::Error;
use corelane_protocol::model;
use http::header::{
    CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, RETRY_AFTER, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::uri::PathAndQuery;
use http::{Extensions, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;

use super::connection::{BoxError, Connection, Pool, RequestBody};
use crate::server::Options;

/// The path of WebSocket within the service.
const WEBSOCKET_PATH: &str = "/ws";

/// The targets on the server that requests are converted to.
pub(super) struct Targets {
    mcp: Uri,
    /// `None` if the server has no WebSocket.
    websocket: Option<Uri>,
    /// One that the server answers with 404: no endpoint ends with `/`.
    unknown: Uri,
}

impl Targets {
    /// Returns the targets of a server with these options.
    pub(super) fn new(options: &Options) -> Self {
        let uri = |path: &str| path.parse().unwrap_or_else(|_| Uri::from_static("/invalid//"));
        Self {
            mcp: uri(&options.http.path),
            websocket: options.websocket.path.as_deref().map(uri),
            unknown: uri(&format!("{}//", options.http.path)),
        }
    }

    /// Returns the target of a request to `uri`.
    fn target(&self, uri: &Uri) -> Uri {
        let websocket = self.websocket.as_ref();
        let target = match uri.path() {
            path if path == "/" || path == self.mcp.path() => &self.mcp,
            path if path == WEBSOCKET_PATH || websocket.is_some_and(|it| it.path() == path) => {
                websocket.unwrap_or(&self.unknown)
            }
            _ => &self.unknown,
        };
        let Some(query) = uri.query() else { return target.clone() };
        // The parts are valid, so that the whole is.
        let target = PathAndQuery::try_from(format!("{}?{query}", target.path()));
        target.map_or_else(|_| self.unknown.clone(), Uri::from)
    }
}

/// Fields of one connection (RFC 9110, section 7.6.1), besides those that `Connection` lists.
const CONNECTION_FIELDS: [HeaderName; 7] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// A request for a shard.
pub(super) struct ConvertedRequest {
    pub(super) request: Request<RequestBody>,
    /// How to take over the connection of a client that requests WebSocket.
    pub(super) upgrade: Option<OnUpgrade>,
    /// What the middleware of the host has attached, if anything.
    pub(super) extensions: Option<Arc<Extensions>>,
}

/// Converts a request to one of `targets`.
pub(super) fn convert<B>(mut request: Request<B>, targets: &Targets) -> ConvertedRequest
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let upgrade = request.extensions_mut().remove::<OnUpgrade>();
    let (parts, body) = request.into_parts();
    let upgrade = upgrade.filter(|_| parts.method == Method::GET && is_websocket(&parts.headers));
    let mut headers = parts.headers;
    remove_connection_fields(&mut headers);
    if upgrade.is_some() {
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    }
    // HTTP/2 has the host in the target.
    if let Some(authority) = parts.uri.authority().filter(|_| !headers.contains_key(HOST))
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        headers.insert(HOST, host);
    }
    let body =
        body.map_frame(|frame| frame.map_data(into_bytes)).map_err(Into::into).boxed_unsync();
    let mut converted = Request::new(body);
    *converted.method_mut() = parts.method;
    *converted.uri_mut() = targets.target(&parts.uri);
    *converted.headers_mut() = headers;
    let extensions = (!parts.extensions.is_empty()).then(|| Arc::new(parts.extensions));
    ConvertedRequest { request: converted, upgrade, extensions }
}

/// Removes the fields that concern only the connection on which a message came.
pub(super) fn remove_connection_fields(headers: &mut HeaderMap) {
    let listed: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in listed.iter().chain(&CONNECTION_FIELDS) {
        headers.remove(name);
    }
}

fn is_websocket(headers: &HeaderMap) -> bool {
    headers.get(UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

fn into_bytes(mut data: impl Buf) -> Bytes {
    data.copy_to_bytes(data.remaining())
}

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

#[cfg(test)]
mod tests {
    use http_body_util::Empty;

    use super::*;

    fn converted(request: http::request::Builder) -> Request<RequestBody> {
        let targets = Targets::new(&Options::default());
        convert(request.body(Empty::<Bytes>::new()).unwrap(), &targets).request
    }

    #[test]
    fn only_mcp_and_websocket_paths_are_reachable() {
        let target = |uri: &str| converted(Request::get(uri)).uri().to_string();
        assert_eq!(target("/"), "/mcp");
        assert_eq!(target("/mcp?a=%20b"), "/mcp?a=%20b");
        assert_eq!(target("http://example.com"), "/mcp");
        assert_eq!(target("/ws"), "/mcp/ws");
        assert_eq!(target("/mcp/ws?x"), "/mcp/ws?x");
        for operators in
            ["/metrics", "/healthz", "/connections", "/../metrics", "//metrics", "/sse"]
        {
            assert_eq!(target(operators), "/mcp//");
        }
    }

    #[test]
    fn configured_paths_are_reachable() {
        let mut options = Options::default();
        options.http.path = "/api/v1".to_owned();
        options.http.legacy_sse_path = "/api/v1/sse".to_owned();
        for (websocket, expected) in [(Some("/socket"), "/socket"), (None, "/api/v1//")] {
            options.websocket.path = websocket.map(str::to_owned);
            let targets = Targets::new(&options);
            let target = |uri: &str| targets.target(&uri.parse().unwrap()).to_string();
            assert_eq!([target("/"), target("/api/v1")], ["/api/v1"; 2]);
            assert_eq!([target("/ws"), target("/socket")], [expected; 2]);
            assert_eq!(target("/?a=b"), "/api/v1?a=b");
            for unknown in ["/mcp", "/sse", "/api/v1/sse", "/metrics"] {
                assert_eq!(target(unknown), "/api/v1//");
            }
        }
    }

    #[test]
    fn fields_of_one_connection_are_removed() {
        let request = Request::post("http://example.com/")
            .header("Connection", "keep-alive, X-Hop")
            .header("Keep-Alive", "timeout=5")
            .header("Transfer-Encoding", "chunked")
            .header("X-Hop", "1")
            .header("Accept", "application/json");
        let headers = converted(request).headers().clone();
        let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["accept", "host"]);
        assert_eq!(headers["host"], "example.com");
    }
}
