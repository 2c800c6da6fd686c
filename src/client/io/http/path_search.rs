//! The endpoint of a server whose URL ends with the slash after the host: there, or at the path
//! that most servers have.

use corelane_protocol::eras::Method;
use corelane_transport::http::client::request_writer::RequestWriter;
use corelane_transport::http::client::response_head::MediaType;

use super::connection::HttpResponse;
use super::exchange::{ExchangeKind, McpExchange};
use crate::error::ClientError;

/// The path that a URL may name without meaning it.
const ROOT: &str = "/";
/// The path that most servers have.
const USUAL: &str = "/mcp";

/// Looks for the endpoint while the handshake goes on.
#[derive(Debug)]
pub(super) struct PathSearch {
    /// The URL names no path but the slash.
    is_needed: bool,
    /// The request that was sent to the other path last.
    tried: Option<u64>,
}

impl PathSearch {
    /// Creates the search for an endpoint that `writer` writes requests to.
    pub(super) fn new(writer: &RequestWriter) -> Self {
        Self { is_needed: writer.path() == ROOT, tried: None }
    }

    /// Returns whether a request of the handshake is to be sent to the other path, since there is
    /// no endpoint of MCP at this one; `writer` names the other one then.
    pub(super) fn tries_other(
        &mut self,
        exchange: &McpExchange,
        response: &HttpResponse,
        writer: &mut RequestWriter,
    ) -> bool {
        let ExchangeKind::Request { id, method: Method::Discover | Method::Initialize } =
            exchange.kind()
        else {
            return false;
        };
        if !self.is_needed || self.tried == Some(*id) || is_endpoint(response, *id) {
            return false;
        }
        self.tried = Some(*id);
        let other = if writer.path() == ROOT { USUAL } else { ROOT };
        writer.set_endpoint(other.as_bytes())
    }
}

/// Returns whether an endpoint of MCP may have answered the request `id` so.
fn is_endpoint(response: &HttpResponse, id: u64) -> bool {
    match response.head.status {
        200..300 => !matches!(response.head.media_type, MediaType::Other | MediaType::Missing),
        // The response to a method that the server does not know may have one of these.
        404 | 405 | 501 => {
            let message: Option<serde_json::Value> = serde_json::from_slice(&response.body).ok();
            message.is_some_and(|message| message["id"].as_u64() == Some(id))
        }
        _ => true,
    }
}

/// Whether the server speaks HTTP with SSE.
#[derive(Debug, Default)]
pub(super) enum LegacySse {
    /// It is not known to.
    #[default]
    Unused,
    /// `initialize` was refused with this error. It waits for the path.
    Opening(Box<(McpExchange, ClientError)>),
    /// The path is known.
    Open,
    /// The stream has ended, and the session with it.
    Ended,
}

impl LegacySse {
    /// Returns whether a server that refused `initialize` with `status` may speak HTTP with SSE.
    pub(super) const fn may_follow(&self, status: u16) -> bool {
        matches!(self, Self::Unused) && matches!(status, 400 | 404 | 405)
    }

    pub(super) const fn is_unused(&self) -> bool {
        matches!(self, Self::Unused)
    }

    pub(super) const fn is_open(&self) -> bool {
        matches!(self, Self::Open)
    }

    pub(super) const fn has_ended(&self) -> bool {
        matches!(self, Self::Ended)
    }

    /// Waits for the path of a server that refused `initialize`.
    pub(super) fn begin(&mut self, initialize: McpExchange, error: ClientError) {
        *self = Self::Opening(Box::new((initialize, error)));
    }

    /// Returns `initialize`, to be sent once the path is known.
    pub(super) fn open(&mut self) -> Option<McpExchange> {
        match std::mem::replace(self, Self::Open) {
            Self::Opening(waiting) => Some(waiting.0),
            Self::Unused | Self::Open | Self::Ended => None,
        }
    }

    /// Handles the end of the stream. Returns `initialize` with its error if it waits.
    pub(super) fn end(&mut self) -> Option<(McpExchange, ClientError)> {
        match std::mem::replace(self, Self::Ended) {
            Self::Opening(waiting) => Some(*waiting),
            Self::Unused | Self::Open | Self::Ended => None,
        }
    }
}
