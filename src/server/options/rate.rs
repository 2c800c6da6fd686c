//! Options of rate limits.

use super::declare::options;

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
        /// it; 127.0.0.1 and `::1` have no limit by address.
        ///
        /// The burst is what may come at once after a pause; default is LIMIT. A period may have a
        /// number (`10s`). Each value of the keys has a limit of its own; without keys all requests
        /// of the rule share one. A burst below four times the number of shards costs a lock, too.
        #[option("rate.rules", Words, reload)]
        #[cost = "a hash for each rule and request"]
        #[source = "RFC 6585, section 4; draft-ietf-httpapi-ratelimit-headers-10"]
        pub rules: Vec<String> = Vec::new();

        /// New connections of one client address (IPv6: /64 prefix), such as `rate=20/s burst=50`;
        /// default is no limit. 127.0.0.1 and `::1` are exempt.
        ///
        /// A connection beyond it gets error 1002 (status 429) and is closed.
        #[option("rate.connections", Text, reload)]
        #[cost = "a lock for each new connection"]
        #[source = "RFC 6177: a client controls a /64"]
        pub connections: Option<String> = None;

        /// Open connections of one client address, of each transport; 0 leaves it to
        /// `address_share_percent`. 127.0.0.1 and `::1` are exempt.
        ///
        /// A connection beyond it gets error 1001 and is closed.
        #[option("rate.connections_per_address_max", Count { min: 0, max: 1_000_000 }, reload)]
        #[cost = "clients behind one proxy on another machine share it"]
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
