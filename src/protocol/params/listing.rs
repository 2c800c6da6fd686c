//! The params of lists.

use super::fields::{text_if, wrong};
use crate::protocol::error::Error;
use crate::protocol::json::Value;

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
            return Err(wrong("params", "an object"));
        };
        let [cursor] = params.once(["cursor"])?;
        Ok(Self { cursor: text_if(cursor, "params.cursor")? })
    }
}
