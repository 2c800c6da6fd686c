//! Limits of messages, requests, tasks and subscriptions, for every transport; overload protection
//! and rate limits.

use std::path::PathBuf;
use std::time::Duration;

use super::declare::{DAY, GIB, KIB, MIB, MINUTE, options};

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

        /// Keys, values, brackets, commas and colons of one message; a message with more gets error
        /// -32600. Messages up to 64 KiB have fewer.
        #[option("json_tokens_max", Count { min: 65_536, max: 16_777_216 }, restart)]
        #[cost = "up to 32 bytes each while a message is parsed, and the time of its handler"]
        #[source = "RFC 8259, section 9"]
        pub json_tokens_max: usize = 524_288, tiny 65_536;

        /// Size of a message from which on a thread in the background parses it, so that the
        /// messages of others do not wait.
        ///
        /// Nothing more is read from its connection meanwhile.
        #[option("parse_on_thread_bytes", Bytes { min: 1024, max: GIB }, restart)]
        #[cost = "a larger one delays all clients of a shard, by up to 10 ms a MiB"]
        pub parse_on_thread_bytes: usize = 256 * 1024, tiny 1 << 30;

        /// Time for which a connection is open; 0 is no limit. Then nothing more is read, what runs
        /// is answered, streams end with their result, and it is closed.
        ///
        /// So clients behind a load balancer connect to new servers, and their certificates are
        /// verified again. A WebSocket gets close code 1001. stdio has no limit.
        #[option("connection_lifetime", Milliseconds { min: 0, max: 30 * DAY }, reload)]
        #[cost = "a pass over all connections in a tenth of it, 10 s at most"]
        #[source = "RFC 9110, section 7.6.1; RFC 6455, section 7.4.1"]
        pub connection_lifetime: Duration = Duration::ZERO;

        /// Requests in flight per connection; one more gets error -32603.
        ///
        /// That one may be retried. The connection is still read, because the next message may be
        /// the response that a handler waits for, or a cancellation.
        #[option("requests_in_flight_max", Count { min: 1, max: 65_536 }, reload)]
        #[cost = "1 to 2 KiB each while its handler runs"]
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

        /// Files with the keys of `requestState`, so that servers that share them accept each
        /// other's, as behind a load balancer: a line of `openssl rand -base64 32` each, of which
        /// the first encrypts and all decrypt; `off` has a random key, and only this process
        /// accepts its states. Read again on SIGHUP.
        ///
        /// A state is used once at each server.
        #[option("request_state_keys", Files, reload)]
        #[cost = "states are as secret as the files; 4 MiB to remember states of other servers"]
        #[source = "draft-irtf-cfrg-xchacha-03"]
        pub request_state_keys: Vec<PathBuf> = Vec::new();

        /// Bytes queued for a slow peer; beyond it the connection is not read.
        #[option("outgoing_bytes_max", Bytes { min: KIB, max: GIB }, reload)]
        #[cost = "that many bytes per connection with a slow peer"]
        #[source = "tcp(7): backpressure"]
        pub outgoing_bytes_max: usize = 1024 * 1024, tiny 8192;

        /// Memory that clients may make the server hold: incomplete incoming and unsent outgoing
        /// messages, TLS handshakes and connections (4 KiB each), running calls with their
        /// arguments and open requests to clients (a quarter at most), results of blocking handlers
        /// before they are outgoing messages, sessions with their stored events, tasks with their
        /// results, subscriptions. At the limit connections of the client address that holds most
        /// are closed, the largest first, and calls with large arguments get error -32603.
        ///
        /// Divided evenly among shards. A call beyond that quarter gets error -32603, unless the
        /// arguments of its connection's calls take less than 64 KiB; a request to a client fails,
        /// unless those of its handler take less. Results of blocking handlers take an eighth, over
        /// all shards: a call starts on a thread when its result has room, by the size of the file
        /// or as large as the last ones of the tool, prompt or resource; one that is larger than
        /// all the room has it alone.
        #[option("memory_bytes_max", Bytes { min: 16 * KIB, max: 1024 * GIB }, reload)]
        #[cost = "that many bytes, if every peer is slow"]
        pub memory_bytes_max: usize = 1024 * 1024 * 1024, tiny 64 * 1024;

        /// Memory of incomplete messages of unproven peers, those whose token or certificate is not
        /// accepted yet, beyond 64 KiB for each connection. Without room a connection is not read
        /// until it has some; one that has room and sends less than 64 KiB in a second meanwhile
        /// gets error -32603 and is closed.
        ///
        /// Divided evenly among shards; at most half of `memory_bytes_max`. One message of
        /// `message_bytes_max` always has room on each shard, and a client address has its
        /// `address_share_percent` of the rest. Where callers without a token are served, or none
        /// needs one, every peer without is unproven; where a token is required, a message over
        /// TCP or WebSocket before the first accepted one is limited to 64 KiB, with error -32012.
        #[option("unproven_bytes_max", Bytes { min: 0, max: 1024 * GIB }, reload)]
        #[cost = "that many bytes; at least message_bytes_max per shard"]
        pub unproven_bytes_max: usize = 64 * 1024 * 1024, tiny 16 * 1024;

        /// Percent of the connections of a transport, and of the tasks and bytes of task results of
        /// a shard, that one client address (IPv6: /64 prefix) may take; 100 switches the limit
        /// off. 127.0.0.1 and `::1` are exempt without `trusted_proxies`.
        ///
        /// Proxies on this machine connect from those two.
        #[option("address_share_percent", Count { min: 1, max: 100 }, reload)]
        #[cost = "clients behind one proxy that is not trusted share it"]
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

options! {
    /// How much the server takes on; all of it is off by default. A refused call gets error -32603
    /// (HTTP status 503) with `data.retryAfterMs`.
    pub struct OverloadOptions at |options| options.overload;

    group OVERLOAD {
        /// Calls of handlers that run at once, over all shards; a further one is refused. Inline
        /// handlers do not count. 0 switches it off.
        ///
        /// A shard runs one inline handler at a time. One caller, which is the authenticated one or
        /// else the client address, gets half of the calls, rounded up; 127.0.0.1 and `::1` are
        /// exempt.
        #[option("overload.calls_max", Count { min: 0, max: 10_000_000 }, reload)]
        #[cost = "none"]
        pub calls_max: u32 = 0;

        /// Running calls of each tool, over all shards; a further one is refused. 0 switches it
        /// off.
        ///
        /// One caller gets half of them, as with `overload.calls_max`.
        #[option("overload.tool_calls_max", Count { min: 0, max: 10_000_000 }, reload)]
        #[cost = "a lock at each call that is not inline"]
        pub tool_calls_max: u32 = 0;

        /// Running calls of some tools, in place of `overload.tool_calls_max`: name and number,
        /// such as `deploy_app 4`.
        #[option("overload.tool_calls", Words, reload)]
        #[cost = "a comparison for each at each call that is not inline"]
        pub tool_calls: Vec<(String, u32)> = Vec::new();

        /// Longest time that calls may wait for a blocking thread; if all of an interval have
        /// waited for longer, new ones are refused. 0 switches it off.
        ///
        /// They are refused until one has waited for less; with 0, when the queue is full.
        #[option("overload.queue_target", Milliseconds { min: 0, max: 60 * MINUTE }, reload)]
        #[cost = "a clock reading for each blocking call"]
        #[source = "RFC 8289"]
        pub queue_target: Duration = Duration::ZERO;

        /// Time for which calls may wait for longer than `overload.queue_target`; 0 is 20 times the
        /// target.
        #[option("overload.queue_interval", Milliseconds { min: 0, max: 60 * MINUTE }, reload)]
        #[cost = "none"]
        #[source = "RFC 8289"]
        pub queue_interval: Duration = Duration::ZERO;
    }

    nested {
        /// Circuit breakers of tools.
        pub breaker: BreakerOptions = BreakerOptions::default(), tiny BreakerOptions::tiny();

        /// Steps at which the server takes on less because memory is short.
        pub memory: MemoryGuardOptions = MemoryGuardOptions::default(),
            tiny MemoryGuardOptions::tiny();
    }
}

options! {
    /// The circuit breaker of each tool, on each shard: a tool that fails or is slow is not called
    /// for a while. Off unless one of the percentages is set.
    pub struct BreakerOptions at |options| options.overload.breaker;

    group BREAKER {
        /// Percentage of failed calls at which the breaker of a tool opens: panics, internal
        /// errors, timeouts. Each shard has its own breakers. 0 switches it off.
        #[option("breaker.failed_percent", Count { min: 0, max: 100 }, reload)]
        #[cost = "a lookup by name at each call of a tool"]
        pub failed_percent: u8 = 0;

        /// Percentage of slow calls at which a breaker opens. 0 switches it off.
        #[option("breaker.slow_percent", Count { min: 0, max: 100 }, reload)]
        #[cost = "as breaker.failed_percent"]
        pub slow_percent: u8 = 0;

        /// A call that takes at least this long is slow.
        #[option("breaker.slow_after", Milliseconds { min: 1, max: 60 * MINUTE }, reload)]
        #[cost = "none"]
        pub slow_after: Duration = Duration::from_secs(1), tiny Duration::from_millis(50);

        /// Count results with `isError` as failures.
        ///
        /// By default they are answers of the tool.
        #[option("breaker.tool_errors", Switch, reload)]
        #[cost = "none"]
        #[source = "MCP, server/tools, Error Handling"]
        pub tool_errors: bool = false;

        /// Calls that ended in this time count.
        #[option("breaker.window", Milliseconds { min: 100, max: 60 * MINUTE }, reload)]
        #[cost = "none"]
        pub window: Duration = Duration::from_secs(10), tiny Duration::from_millis(500);

        /// Calls in the window below which a breaker stays closed.
        #[option("breaker.calls_min", Count { min: 1, max: 1_000_000 }, reload)]
        #[cost = "a broken tool is called that often"]
        pub calls_min: u32 = 20, tiny 4;

        /// How long an open breaker refuses calls; then some are let through.
        #[option("breaker.wait", Milliseconds { min: 1, max: 60 * MINUTE }, reload)]
        #[cost = "a tool that works again is not called for that long"]
        pub wait: Duration = Duration::from_secs(5), tiny Duration::from_millis(100);

        /// The wait doubles up to this while the tool fails again.
        ///
        /// It also doubles if the breaker opens again soon after it has closed.
        #[option("breaker.wait_max", Milliseconds { min: 1, max: DAY }, reload)]
        #[cost = "as breaker.wait"]
        pub wait_max: Duration = Duration::from_mins(1), tiny Duration::from_secs(1);

        /// Calls that are let through after the wait; the breaker closes when all have succeeded.
        #[option("breaker.probes_max", Count { min: 1, max: 10_000 }, reload)]
        #[cost = "none"]
        pub probes_max: u16 = 3, tiny 1;
    }
}

options! {
    /// The memory guard: compares what the process uses with the limit of its control group (Linux,
    /// `memory.max`), or else with the memory of the machine. Each step applies those before it,
    /// and ends 5 percent below where it begins. Off unless one of the percentages is set; each
    /// must be at least the one before.
    pub struct MemoryGuardOptions at |options| options.overload.memory;

    group MEMORY_GUARD {
        /// Percentage of the memory of the control group, or of the machine, from which new
        /// connections are refused. 0 switches the step off.
        #[option("memory_guard.refuse_connections_percent", Count { min: 0, max: 100 }, reload)]
        #[cost = "a thread that reads small files"]
        #[source = "Linux, cgroup-v2.rst"]
        pub refuse_connections_percent: u8 = 0;

        /// Percentage from which messages longer than `memory_guard.message_bytes_max` are refused,
        /// too. 0 switches the step off.
        #[option("memory_guard.refuse_messages_percent", Count { min: 0, max: 100 }, reload)]
        #[cost = "none"]
        #[source = "Linux, cgroup-v2.rst"]
        pub refuse_messages_percent: u8 = 0;

        /// Percentage from which notification streams are ended and refused, too. 0 switches the
        /// step off.
        #[option("memory_guard.end_streams_percent", Count { min: 0, max: 100 }, reload)]
        #[cost = "none"]
        #[source = "Linux, cgroup-v2.rst"]
        pub end_streams_percent: u8 = 0;

        /// Percentage from which the connections are closed for which most is held, too. 0 switches
        /// the step off.
        ///
        /// Those are the ones that read slowest.
        #[option("memory_guard.close_slowest_percent", Count { min: 0, max: 100 }, reload)]
        #[cost = "none"]
        #[source = "Linux, cgroup-v2.rst"]
        pub close_slowest_percent: u8 = 0;

        /// Percentage of 10 seconds in which tasks of the control group waited for memory (PSI),
        /// from which the next step applies. 0 switches it off.
        #[option("memory_guard.stalled_percent", Count { min: 0, max: 100 }, reload)]
        #[cost = "none"]
        #[source = "Linux, psi.rst"]
        pub stalled_percent: u8 = 0;

        /// Longest message while memory is short.
        #[option("memory_guard.message_bytes_max", Bytes { min: KIB, max: 64 * MIB }, reload)]
        #[cost = "none"]
        pub message_bytes_max: usize = 64 * 1024, tiny 1024;

        /// Time between two readings of the memory.
        #[option("memory_guard.interval", Milliseconds { min: 10, max: 60 * MINUTE }, reload)]
        #[cost = "a few system calls each"]
        pub interval: Duration = Duration::from_millis(500);
    }
}

options! {
    /// How many requests callers may send, and how many connections addresses may open. Off by
    /// default.
    ///
    /// A request over a limit gets error 1002 with `data.retryAfterMs`, over HTTP status 429 with
    /// `Retry-After`, `RateLimit` and `RateLimit-Policy`; a notification is dropped.
    pub struct RateOptions at |options| options.rate;

    group RATE {
        /// What is limited: `method [name] rate=LIMIT/PERIOD [burst=N] [per=KEYS]`, such as
        /// `tools/call deploy_* rate=5/min per=principal`; `*` stands for any text. Periods are s,
        /// min, h and d, keys principal, address, session, method and tool, joined by `+`. A
        /// request beyond a limit gets error 1002 or status 429. All rules that apply must admit
        /// it; 127.0.0.1 and `::1` have no limit by address without `trusted_proxies`.
        ///
        /// Requests that are not MCP are `http/connections`, `http/delete`, `http/metadata`,
        /// `http/metrics`, `http/options`, `http/page`, `http/status`, `http/stream` (GET of an
        /// event stream), `http/upgrade`, `http/upstreams` and `parity/handshake`; `/healthz`,
        /// `/readyz` and the listener of operators have no limit.
        ///
        /// The burst is what may come at once after a pause; default is LIMIT. A period may have a
        /// number (`10s`). Each value of the keys has a limit of its own; without keys all requests
        /// of the rule share one. A burst below four times the number of shards costs a lock, too.
        #[option("rate.rules", Words, reload)]
        #[cost = "a hash for each rule and request"]
        #[source = "RFC 6585, section 4; draft-ietf-httpapi-ratelimit-headers-10"]
        pub rules: Vec<String> = Vec::new();

        /// New connections of one client address (IPv6: /64 prefix), such as `rate=20/s burst=50`;
        /// default is no limit. 127.0.0.1 and `::1` are exempt without `trusted_proxies`.
        ///
        /// A connection beyond it gets error 1002 (status 429) and is closed.
        #[option("rate.connections", Text, reload)]
        #[cost = "a lock for each new connection"]
        #[source = "RFC 6177: a client controls a /64"]
        pub connections: Option<String> = None;

        /// Failed tokens and failed handshakes (TLS, parity dialect) of one client address (IPv6:
        /// /64 prefix), such as `rate=30/min burst=60`; default is no limit. 127.0.0.1 and `::1`
        /// are exempt without `trusted_proxies`.
        ///
        /// Beyond it no unknown token of the address is verified: a request with one gets error
        /// 1002 or status 429. Tokens that the shard has verified before are accepted.
        #[option("rate.failures", Text, reload)]
        #[cost = "a lock for each token that is not known"]
        #[source = "RFC 6177: a client controls a /64"]
        pub failures: Option<String> = None;

        /// Open connections of one client address, of each transport; 0 leaves it to
        /// `address_share_percent`. 127.0.0.1 and `::1` are exempt without `trusted_proxies`.
        ///
        /// A connection beyond it gets error 1001 and is closed.
        #[option("rate.connections_per_address_max", Count { min: 0, max: 1_000_000 }, reload)]
        #[cost = "clients behind one proxy that is not trusted share it"]
        #[source = "RFC 6177: a client controls a /64"]
        pub connections_per_address_max: u32 = 0;

        /// Callers, addresses and other keys whose state each shard stores at once; further ones
        /// share the limit of one.
        ///
        /// They do so until another one has not sent requests for a while.
        #[option("rate.keys_max", Count { min: 16, max: 10_000_000 }, restart)]
        #[cost = "48 bytes each, once there is a rule"]
        pub keys_max: u32 = 65_536, tiny 64;
    }
}
