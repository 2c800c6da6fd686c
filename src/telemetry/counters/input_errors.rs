//! Counters of input that is no message.

use super::CounterValue;

group! {
    /// Counters of input rejected before it became a message.
    InputErrorCounters {
        /// Invalid framing.
        framing,
        /// HTTP requests rejected before their message was read.
        http,
        /// Text that is not UTF-8.
        utf8,
        /// Messages over the size limit.
        oversize,
        /// Messages refused at the memory limit of all connections.
        memory,
    }
}
