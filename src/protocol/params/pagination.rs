//! Params of paginated lists.

use super::members::{invalid_member, optional_string};
use crate::error::Error;
use crate::json::Value;

/// The params of `tools/list` and the other paginated lists.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PaginatedRequestParams<'a> {
    /// The `nextCursor` of the previous page; `None` for the first page. The empty string is an
    /// ordinary cursor.
    pub cursor: Option<&'a str>,
}

impl<'a> PaginatedRequestParams<'a> {
    /// Reads the params, which are optional.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) if they are not an object, or `cursor` is duplicated or not a
    /// string.
    ///
    /// MCP: `server/utilities/pagination` of each revision.
    #[inline]
    pub fn read(params: Option<Value<'a>>) -> Result<Self, Error> {
        let Some(params) = params else {
            return Ok(Self::default());
        };
        let Some(params) = params.as_object() else {
            return Err(invalid_member("params", "an object"));
        };
        let [cursor] = params.find_unique(["cursor"])?;
        Ok(Self { cursor: optional_string(cursor, "params.cursor")? })
    }
}
