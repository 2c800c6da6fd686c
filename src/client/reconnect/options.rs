//! Options of reconnection.

use std::time::Duration;

/// How a client connects again after the loss of a connection on which the handshake was complete.
/// Over HTTP each request finds a connection of its own, and only the delays and the attempts have
/// an effect: on subscriptions, whose streams are opened again.
///
/// Requests that are made while there is no connection wait for it, at most for their timeout, and
/// at most 16,384 of them; further ones fail with
/// [`Busy`](crate::ClientErrorKind::Busy). A request that was sent before the loss fails
/// with [`Closed`](crate::ClientErrorKind::Closed): it may have run. A
/// subscription counts as a request that waits: it is established again, which
/// [`Change::Resubscribed`](crate::Change::Resubscribed) reports.
///
/// A client that has never been connected does not repeat an attempt, unless
/// [`ReconnectOptions::retry_first`] says so: its requests fail with
/// [`Connect`](crate::ClientErrorKind::Connect) at once.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ReconnectOptions {
    /// When to connect again. Default [`ReconnectMode::Auto`].
    pub mode: ReconnectMode,
    /// Longest delay of the first attempt; that of each further one is twice as long. The delay is
    /// drawn between zero and this (full jitter). Default 100 ms.
    pub delay_min: Duration,
    /// Longest delay. After a connection that has lasted so long the delays begin again. Default
    /// 30 s.
    pub delay_max: Duration,
    /// Attempts without a complete handshake, after which the requests that wait fail with
    /// [`Connect`](crate::ClientErrorKind::Connect) and the next request begins anew.
    /// `Some(0)` makes no request wait. Default `None`: unlimited.
    pub attempts_max: Option<u32>,
    /// Repeats the first attempts, too: requests, and those that wait for the handshake, wait for
    /// a server that is not there yet. Default false.
    pub retry_first: bool,
    /// Closes a connection on which nothing has been in flight for so long: no request, task or
    /// subscription. The next request opens another one. Default `None`; 5 min in a
    /// [`ClientPool`](crate::ClientPool).
    pub idle_timeout: Option<Duration>,
    /// Pings a WebSocket connection on which nothing was received for so long. If nothing is
    /// received for as long again, the connection is lost. Cost: two frames of a few bytes each
    /// time. Default 30 s; `None` or zero for no pings. Source: RFC 6455, section 5.5.2.
    pub ping_interval: Option<Duration>,
    /// Sends a request again that was sent before the loss, if it is idempotent: `ping`,
    /// `server/discover`, lists, `resources/read`, `prompts/get` and `completion/complete`. Default
    /// false.
    pub resend_idempotent: bool,
}

impl Default for ReconnectOptions {
    fn default() -> Self {
        Self {
            mode: ReconnectMode::Auto,
            delay_min: Duration::from_millis(100),
            delay_max: Duration::from_secs(30),
            attempts_max: None,
            retry_first: false,
            idle_timeout: None,
            ping_interval: Some(Duration::from_secs(30)),
            resend_idempotent: false,
        }
    }
}

/// When a client connects again.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum ReconnectMode {
    /// [`ReconnectMode::Always`] for TCP, Unix sockets and WebSocket, [`ReconnectMode::OnDemand`]
    /// for programs.
    #[default]
    Auto,
    /// After the delay, also if no request waits.
    Always,
    /// When a request waits, not before the delay has passed.
    OnDemand,
}
