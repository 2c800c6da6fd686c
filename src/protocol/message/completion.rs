//! How an argument may go on, as it is answered.
//!
//! Source: `CompleteResult` in the schema of each revision; `server/utilities/completion`.

use crate::protocol::json::{ObjectWriter, write};

/// Values that one answer may hold.
pub const COMPLETION_VALUES_MAX: usize = 100;

/// Appends the result of `completion/complete`: the first [`COMPLETION_VALUES_MAX`] of `values`,
/// best first, and `has_more` where there are others. `total` is how many there are in all, where
/// that is known; `suffix` is that of [`super::result_suffix`].
pub fn completion_result<T: AsRef<str>>(
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
    completion.unsigned_if("total", total).boolean("hasMore", has_more);
    completion.close();
    out.extend_from_slice(suffix);
    out.push(b'}');
}
