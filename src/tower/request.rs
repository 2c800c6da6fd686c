//! From the request of a host's router to the request that a shard gets.

use bytes::{Buf, Bytes};
use http::header::{
    CONNECTION, HOST, HeaderMap, HeaderName, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request, Uri};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::upgrade::OnUpgrade;

use super::connection::{BoxError, RequestBody};

/// The path of MCP.
const MCP_PATH: &str = "/mcp";

/// The path of WebSocket within the service.
const WEBSOCKET_PATH: &str = "/ws";

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

/// Converts a request. `websocket_path` is that of the server, if it has one. Also returns how to
/// take over the connection of a client that requests WebSocket.
pub(super) fn convert<B>(
    mut request: Request<B>,
    websocket_path: Option<&str>,
) -> (Request<RequestBody>, Option<OnUpgrade>)
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
    *converted.uri_mut() = target(&parts.uri, websocket_path);
    *converted.headers_mut() = headers;
    (converted, upgrade)
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

/// Returns the target on the server: its MCP endpoint, its WebSocket endpoint, or one that it
/// answers with 404.
fn target(uri: &Uri, websocket_path: Option<&str>) -> Uri {
    let path = match uri.path() {
        "/" | MCP_PATH => MCP_PATH.to_owned(),
        path if path == WEBSOCKET_PATH || Some(path) == websocket_path => {
            websocket_path.unwrap_or("/mcp/ws").to_owned()
        }
        // Below the MCP endpoint there is no other one.
        path => format!("{MCP_PATH}{path}"),
    };
    let target = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None if path == MCP_PATH => return Uri::from_static(MCP_PATH),
        None => path,
    };
    // The parts are valid, so that the whole is.
    PathAndQuery::try_from(target).map_or_else(|_| Uri::from_static("/mcp/invalid"), Uri::from)
}

#[cfg(test)]
mod tests {
    use http_body_util::Empty;

    use super::*;

    fn converted(request: http::request::Builder) -> Request<RequestBody> {
        convert(request.body(Empty::<Bytes>::new()).unwrap(), Some("/mcp/ws")).0
    }

    #[test]
    fn only_mcp_and_websocket_paths_are_reachable() {
        let target = |uri: &str| converted(Request::get(uri)).uri().to_string();
        assert_eq!(target("/"), "/mcp");
        assert_eq!(target("/mcp?a=%20b"), "/mcp?a=%20b");
        assert_eq!(target("http://example.com"), "/mcp");
        assert_eq!(target("/ws"), "/mcp/ws");
        assert_eq!(target("/mcp/ws?x"), "/mcp/ws?x");
        for operators in ["/metrics", "/healthz", "/connections", "/../metrics", "//metrics"] {
            assert_eq!(target(operators), format!("/mcp{operators}"));
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
