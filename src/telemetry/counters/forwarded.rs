//! Counters of what HTTP requests say of their clients.

use super::CounterValue;

group! {
    /// Counters of HTTP requests by what they say of their clients: `X-Forwarded-For` and
    /// `Forwarded`.
    ForwardedCounters {
        /// Requests of trusted proxies with the address of a client.
        client,
        /// Requests of trusted proxies without the field `http.forwarded_field`.
        missing,
        /// Requests of trusted proxies whose field names no address: `unknown`, or malformed.
        invalid,
        /// Requests of other peers with one of the fields, which was ignored.
        ignored,
    }
}
