//! Encoder of the result of `completion/complete`.
//!
//! MCP schema: `CompleteResult` of each revision; `server/utilities/completion`.

use crate::json::{ObjectWriter, write};

/// Highest number of values in one result.
pub const COMPLETION_VALUES_MAX: usize = 100;

/// Appends a `CompleteResult` with the first [`COMPLETION_VALUES_MAX`] of `values`, best first.
/// `hasMore` is true if `has_more` is or values were cut off; `total` is the number of all values,
/// if known; `suffix` is the [`super::result_suffix`] of the revision.
pub fn write_complete_result<T: AsRef<str>>(
    out: &mut Vec<u8>,
    values: impl IntoIterator<Item = T>,
    total: Option<u64>,
    has_more: bool,
    suffix: &[u8],
) {
    out.extend_from_slice(br#"{"completion":{"values":["#);
    let mut values = values.into_iter();
    for (index, value) in values.by_ref().take(COMPLETION_VALUES_MAX).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write::string(out, value.as_ref());
    }
    out.push(b']');
    let mut completion = ObjectWriter::resume(out);
    let has_more = has_more || values.next().is_some();
    completion.unsigned_opt("total", total).boolean("hasMore", has_more);
    completion.close();
    out.extend_from_slice(suffix);
    out.push(b'}');
}
