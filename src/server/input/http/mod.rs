//! HTTP requests: from the input of a connection to what responds.
//!
//! A request is checked by its head, then by its message. Its kind decides who responds: the
//! dispatcher at once (`post`), a legacy session, possibly on another shard (`session`,
//! `legacy_sse`), the page and other resources (`plain`), or the WebSocket transport
//! (`websocket_upgrade`).

mod responses;

mod authentication;
mod plain;
mod websocket_upgrade;

mod session;

mod legacy_sse;
mod parity;
mod post;

mod requests;

use corelane_base::slab::Key;
use corelane_protocol::revision::Revision;
use corelane_transport::http::fields::ResponseFields;
use corelane_transport::http::head::{Field, Head};

use crate::server::connection_state::{EchoedFields, ResponseFormat};

/// One request and the bytes of its head.
#[derive(Clone, Copy, Debug)]
struct IncomingRequest<'a> {
    key: Key,
    head: &'a Head,
    bytes: &'a [u8],
    format: ResponseFormat,
    /// `X-Request-ID`, if it is taken over.
    request_id: Option<&'a [u8]>,
}

impl<'a> IncomingRequest<'a> {
    fn origin(&self) -> Option<&'a [u8]> {
        self.head.field(self.bytes, Field::Origin)
    }

    /// Returns the fields that every response to it repeats.
    #[inline]
    fn echoed(&self) -> EchoedFields<'a> {
        EchoedFields { origin: self.origin(), request_id: self.request_id }
    }

    /// Returns the header fields of every response to it.
    fn response_fields(&self) -> ResponseFields<'a> {
        ResponseFields {
            protocol_version: self.format.protocol_version.map(Revision::as_str),
            allow_origin: self.origin(),
            request_id: self.request_id,
            ..ResponseFields::NONE
        }
    }

    /// Gives errors the status codes that sessions have for them.
    #[inline]
    const fn use_session_errors(&mut self) {
        self.format.is_modern = false;
    }

    /// Returns the request with the status codes that sessions have for errors.
    const fn for_session(&self) -> Self {
        let mut request = *self;
        request.use_session_errors();
        request
    }
}
