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

mod service;

pub use self::message::ResponseBody;
pub use self::service::{McpService, ResponseFuture};
