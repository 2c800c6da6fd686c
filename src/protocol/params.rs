//! The params that the protocol itself reads, apart from those of the handshake ([`super::era`]).
//!
//! What it keeps true: each key occurs at most once, and a member that is `null` counts as left
//! out. The params of `tools/call` belong to the service.

use crate::protocol::error::Error;
use crate::protocol::json::Value;
use crate::protocol::rpc::Id;

/// The params of a list: where to go on.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct List<'a> {
    /// The `nextCursor` of the page before; the first page without it. The empty string is a
    /// cursor like any other.
    pub cursor: Option<&'a str>,
}

impl<'a> List<'a> {
    /// Reads the params of `tools/list` and its like, which may be left out.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) where they are not an object, or the cursor is twice or no string.
    ///
    /// Source: `server/utilities/pagination` of each revision.
    #[inline]
    pub fn read(params: Option<Value<'a>>) -> Result<Self, Error> {
        let Some(params) = params else {
            return Ok(Self::default());
        };
        let Some(params) = params.as_object() else {
            return Err(not_an_object());
        };
        let [cursor] = params.once(["cursor"])?;
        match cursor.filter(|cursor| !cursor.is_null()) {
            None => Ok(Self { cursor: None }),
            Some(cursor) => match cursor.as_str() {
                Some(cursor) => Ok(Self { cursor: Some(cursor) }),
                None => Err(Error::invalid_params("params.cursor must be a string")),
            },
        }
    }
}

/// The params of `notifications/cancelled`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Cancelled<'a> {
    /// The request that is not wanted any more.
    pub request: Id<'a>,
    /// Why, for a human.
    pub reason: Option<&'a str>,
}

impl<'a> Cancelled<'a> {
    /// Reads the params; none where they name no request. Nobody is told: it is a notification.
    ///
    /// Source: `basic/utilities/cancellation` (2025-11-25), `basic/patterns/cancellation`
    /// (2026-07-28).
    #[inline]
    pub fn read(params: Option<Value<'a>>) -> Option<Self> {
        let [request, reason] = params?.as_object()?.once(["requestId", "reason"]).ok()?;
        let request = Id::from_value(request?)?;
        Some(Self { request, reason: reason.and_then(Value::as_str) })
    }
}

#[cold]
fn not_an_object() -> Error {
    Error::invalid_params("params must be an object")
}
