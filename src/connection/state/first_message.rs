//! Which messages satisfy the timeout of the first message: all that are not recorded as invalid.
//!
//! A message is counted when it arrives, and no longer once it turns out to be invalid, so that a
//! valid one costs nothing for this.

use super::Connection;

/// Records that a received message, or one text of a WebSocket message, is invalid.
#[cold]
pub const fn record_invalid<S>(connection: &mut Connection<S>) {
    connection.close_state.record_invalid();
    let messages_in = &mut connection.record.traffic.messages_in;
    *messages_in = messages_in.saturating_sub(1);
}

/// Records a text of a WebSocket message after its first one.
pub const fn record_further_text<S>(connection: &mut Connection<S>) {
    connection.record.traffic.messages_in += 1;
}
