//! One HTTP request while it is handled.

use corelane_base::slab::Key;
use corelane_protocol::revision::Revision;
use corelane_transport::http::fields::ResponseFields;
use corelane_transport::http::head::{Field, Head};

use crate::server::connection_state::{EchoedFields, ResponseFormat};

/// One request and the bytes of its head.
#[derive(Clone, Copy, Debug)]
pub(super) struct IncomingRequest<'a> {
    pub(super) key: Key,
    pub(super) head: &'a Head,
    pub(super) bytes: &'a [u8],
    pub(super) format: ResponseFormat,
    /// `X-Request-ID`, if it is taken over.
    pub(super) request_id: Option<&'a [u8]>,
}

impl<'a> IncomingRequest<'a> {
    pub(super) fn origin(&self) -> Option<&'a [u8]> {
        self.head.field(self.bytes, Field::Origin)
    }

    /// Returns the fields that every response to it repeats.
    #[inline]
    pub(super) fn echoed(&self) -> EchoedFields<'a> {
        EchoedFields { origin: self.origin(), request_id: self.request_id }
    }

    /// Returns the header fields of every response to it.
    pub(super) fn response_fields(&self) -> ResponseFields<'a> {
        ResponseFields {
            protocol_version: self.format.protocol_version.map(Revision::as_str),
            allow_origin: self.origin(),
            request_id: self.request_id,
            ..ResponseFields::NONE
        }
    }

    /// Gives errors the status codes that sessions have for them.
    #[inline]
    pub(super) const fn use_session_errors(&mut self) {
        self.format.is_modern = false;
    }

    /// Returns the request with the status codes that sessions have for errors.
    pub(super) const fn for_session(&self) -> Self {
        let mut request = *self;
        request.use_session_errors();
        request
    }
}
