//! Options of rate limits.

/// How many requests callers may send, and how many connections addresses may open. Off by default.
///
/// A request over a limit gets error 1002 with `data.retryAfterMs`, over HTTP status 429 with
/// `Retry-After`, `RateLimit` and `RateLimit-Policy`; a notification is dropped.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct RateOptions {
    /// What is limited: `method [name] rate=LIMIT/PERIOD [burst=N] [per=KEYS]`, such as `tools/call
    /// deploy_* rate=5/min per=principal`. `*` stands for any text. A period is `s`, `min`, `h` or
    /// `d`, or several of them (`10s`). The burst is what may come at once after a pause; default
    /// is LIMIT. Keys, joined by `+`, are `principal`,
    /// `address`, `session`, `method` and `tool`; each value has a limit of its own, without keys
    /// all requests of the rule share one. All rules that apply must admit a request. Cost: a hash
    /// for each rule and request, and a lock where the burst is below four times the number of
    /// shards. Default: none.
    pub rules: Vec<String>,
    /// New connections of one address (IPv6: /64 prefix): `rate=LIMIT/PERIOD [burst=N]`. A
    /// connection beyond it gets error 1002 (status 429) and is closed. 127.0.0.1 and `::1` are
    /// exempt. Cost: a lock for each new connection. Default `None`.
    pub connections: Option<String>,
    /// Open connections of one address, of each transport; 0 leaves it to
    /// [`address_share_percent`](super::LimitOptions::address_share_percent). A connection beyond
    /// it gets error 1001 and is closed. 127.0.0.1 and `::1` are exempt. Default 0.
    pub connections_per_address_max: u32,
    /// Keys whose state each shard stores at once. Further ones share the limit of one key, until
    /// another one has not sent requests for a while. Cost: 48 bytes each, once there is a rule.
    /// Default 65,536.
    pub keys_max: u32,
}

impl Default for RateOptions {
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            connections: None,
            connections_per_address_max: 0,
            keys_max: 65_536,
        }
    }
}
