//! Limits of messages, requests, tasks and subscriptions, for every transport.

use std::time::Duration;

use super::declare::{DAY, GIB, KIB, options};

options! {
    /// Limits per message, request and connection, for every transport.
    pub struct LimitOptions at |options| options.limits;

    group LIMITS {
        /// Size of one message; a longer one gets error -32012 before the rest of it is buffered.
        #[option("message_bytes_max", Bytes { min: 256, max: GIB }, reload)]
        #[cost = "that many bytes per connection with an incomplete message"]
        #[source = "RFC 8259, section 9"]
        pub message_bytes_max: usize = 16 * 1024 * 1024, tiny 4096;

        /// Depth of nested arrays and objects in one message.
        #[option("nesting_max", Count { min: 1, max: 1024 }, restart)]
        #[cost = "stack and time on hostile input"]
        #[source = "RFC 8259, section 9"]
        pub nesting_max: usize = 64, tiny 8;

        /// Requests in flight per connection; one more gets error -32603.
        ///
        /// That one may be retried. The connection is still read, because the next message may be
        /// the response that a handler waits for, or a cancellation.
        #[option("requests_in_flight_max", Count { min: 1, max: 65_536 }, reload)]
        #[cost = "about 64 bytes each while in flight"]
        pub requests_in_flight_max: u32 = 256, tiny 4;

        /// Time from a request to its response; after it the request is cancelled and gets an
        /// error.
        #[option("request_timeout", Milliseconds { min: 1, max: 30 * DAY }, reload)]
        #[cost = "a longer time retains handlers whose client has given up"]
        #[source = "MCP, basic/lifecycle: timeouts"]
        pub request_timeout: Duration = Duration::from_mins(5), tiny Duration::from_millis(500);

        /// Time a client may take to respond to a request of the server (sampling, elicitation,
        /// roots); after it the request is cancelled and the handler gets an error.
        ///
        /// Revisions up to 2025-11-25 have such requests. The timeout of the call is suspended
        /// meanwhile.
        #[option("client_request_timeout", Milliseconds { min: 1, max: 30 * DAY }, reload)]
        #[cost = "a longer time retains handlers whose user has gone"]
        #[source = "MCP 2025-11-25, basic/lifecycle: timeouts"]
        pub client_request_timeout: Duration = Duration::from_mins(5),
            tiny Duration::from_millis(200);

        /// Time for which an encrypted `requestState` is valid; a retry after it gets error -32602.
        ///
        /// Revisions since 2026-07-28 have such states.
        #[option("request_state_ttl", Milliseconds { min: 1000, max: 30 * DAY }, reload)]
        #[cost = "none: the server stores nothing meanwhile"]
        #[source = "MCP 2026-07-28, basic/patterns/mrtr"]
        pub request_state_ttl: Duration = Duration::from_mins(10), tiny Duration::from_secs(2);

        /// Bytes queued for a slow peer; beyond it the connection is not read.
        #[option("outgoing_bytes_max", Bytes { min: KIB, max: GIB }, reload)]
        #[cost = "that many bytes per connection with a slow peer"]
        #[source = "tcp(7): backpressure"]
        pub outgoing_bytes_max: usize = 1024 * 1024, tiny 8192;

        /// Memory that clients may make the server hold: incomplete incoming and unsent outgoing
        /// messages, arguments of running calls and open requests to clients (a quarter at most),
        /// results of blocking handlers before they are outgoing messages, stored events, task
        /// results, subscriptions. At the limit connections of the client address that holds most
        /// are closed, the largest first, and calls with large arguments get error -32603.
        ///
        /// Divided evenly among shards. A call beyond that quarter gets error -32603, unless the
        /// arguments of its connection's calls take less than 64 KiB; a request to a client fails,
        /// unless those of its handler take less. While results of blocking handlers take an
        /// eighth, no further call of a client whose results take more than 64 KiB starts on a
        /// thread.
        #[option("memory_bytes_max", Bytes { min: 16 * KIB, max: 1024 * GIB }, reload)]
        #[cost = "that many bytes, if every peer is slow"]
        pub memory_bytes_max: usize = 1024 * 1024 * 1024, tiny 64 * 1024;

        /// Percent of the connections of a transport, and of the tasks and bytes of task results of
        /// a shard, that one client address (IPv6: /64 prefix) may take; 100 switches the limit
        /// off. 127.0.0.1 and `::1` are exempt.
        ///
        /// Proxies on this machine connect from those two.
        #[option("address_share_percent", Count { min: 1, max: 100 }, reload)]
        #[cost = "clients behind one proxy on another machine share it"]
        #[source = "RFC 6177: a client controls a /64"]
        pub address_share_percent: u8 = 75;

        /// Tasks stored per shard, running or completed; one more evicts a completed one whose
        /// connection or session has gone, or gets an error.
        #[option("tasks_max", Count { min: 1, max: 1_000_000 }, reload)]
        #[cost = "about 512 bytes each, without their results"]
        #[source = "MCP, tasks: resource management"]
        pub tasks_max: u32 = 1024, tiny 4;

        /// Tasks stored per connection, running or completed; a call that would create one more
        /// gets an error.
        ///
        /// Tasks are stored until their TTL has passed, also after the connection has closed,
        /// unless they are evicted.
        #[option("tasks_per_connection_max", Count { min: 1, max: 1_000_000 }, reload)]
        #[cost = "a larger value lets one peer use up tasks_max"]
        #[source = "MCP, tasks: resource management"]
        pub tasks_per_connection_max: u32 = 256, tiny 3;

        /// Time from its creation for which a task is stored, if its request names none; a task
        /// still running then is cancelled.
        #[option("task_ttl", Milliseconds { min: 1, max: 30 * DAY }, reload)]
        #[cost = "a longer time retains results that are not fetched"]
        #[source = "MCP, tasks: ttl"]
        pub task_ttl: Duration = Duration::from_mins(10), tiny Duration::from_millis(500);

        /// Longest ttl that a request may name for its task; a longer one is shortened.
        #[option("task_ttl_max", Milliseconds { min: 1, max: 30 * DAY }, reload)]
        #[cost = "results are stored as long as callers ask for, up to this"]
        #[source = "MCP, tasks: ttl"]
        pub task_ttl_max: Duration = Duration::from_hours(1), tiny Duration::from_secs(1);

        /// Bytes of task results stored per shard, at most an eighth of its part of
        /// `memory_bytes_max`; a result beyond that evicts those of completed tasks whose
        /// connection or session has gone, or its task fails.
        #[option("task_bytes_max", Bytes { min: KIB, max: 1024 * GIB }, reload)]
        #[cost = "that many bytes on each shard"]
        #[source = "MCP, tasks: resource management"]
        pub task_bytes_max: usize = 64 * 1024 * 1024, tiny 4096;

        /// `subscriptions/listen` streams per connection; one more gets error -32603.
        #[option("subscriptions_per_connection_max", Count { min: 1, max: 1_000_000 }, reload)]
        #[cost = "less than 512 bytes each"]
        #[source = "MCP, basic/patterns/subscriptions"]
        pub subscriptions_per_connection_max: u32 = 1024, tiny 3;

        /// Resources and tasks that one stream or legacy session may subscribe to; more get error
        /// -32602.
        #[option("subscription_uris_max", Count { min: 1, max: 1_000_000 }, reload)]
        #[cost = "64 bytes each, and each distinct URI once per shard"]
        #[source = "MCP, basic/patterns/subscriptions"]
        pub subscription_uris_max: u32 = 1024, tiny 4;

        /// Length of a subscribed URI; a longer one gets error -32602.
        ///
        /// The same applies to a task id.
        #[option("subscription_uri_bytes_max", Bytes { min: 16, max: GIB }, reload)]
        #[cost = "that many bytes per distinct URI"]
        #[source = "MCP, basic/patterns/subscriptions"]
        pub subscription_uri_bytes_max: usize = 4096, tiny 64;

        /// Memory of all subscription streams, at most an eighth of `memory_bytes_max`, divided
        /// evenly among shards; a stream that would exceed it gets error -32603.
        #[option("subscription_bytes_max", Bytes { min: 4 * KIB, max: 1024 * GIB }, reload)]
        #[cost = "that many bytes, if that many subscriptions are open"]
        #[source = "MCP, basic/patterns/subscriptions"]
        pub subscription_bytes_max: usize = 64 * 1024 * 1024, tiny 8 * 1024;
    }
}

impl LimitOptions {
    /// Returns the most that task results, subscriptions and stored events may each take, so that
    /// connections keep the larger part of `memory_bytes_max`.
    pub(crate) const fn stored_bytes_max(&self) -> usize {
        self.memory_bytes_max / 8
    }
}
