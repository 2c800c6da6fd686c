//! The options of MCP over standard input and output.

use super::declare::{MIB, options};

options! {
    /// Options of standard input and output.
    pub struct StdioOptions at |options| options.stdio;

    group STDIO {
        /// Size of the read buffer of standard input, and of the write buffer of standard output.
        #[option("stdio.buffer_bytes", Bytes { min: 256, max: 64 * MIB }, restart)]
        #[cost = "that many bytes, twice"]
        #[source = "MCP, basic/transports: stdio"]
        pub buffer_bytes: u32 = 64 * 1024, tiny 512;

        /// Start a request only after the response to the one before; notifications and responses
        /// are handled meanwhile. Requests that wait take up to `message_bytes_max` and
        /// `requests_in_flight_max`, nothing is read beyond that.
        ///
        /// A call can be cancelled and can ask its client. Both limits are those of
        /// [`LimitOptions`](super::LimitOptions).
        #[option("stdio.sequential", Switch, restart)]
        #[cost = "a slow call delays all others"]
        #[source = "JSON-RPC 2.0, section 6"]
        pub sequential: bool = false;
    }
}
