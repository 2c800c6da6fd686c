//! Options of reconnection, and the delays that follow from them: exponential, with full jitter.

use std::time::Duration;

use corelane_base::random::Random;

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

/// The delays of one client.
#[derive(Debug)]
pub struct Backoff {
    /// Attempts since the last reset.
    attempts: u32,
    random: Random,
}

impl Backoff {
    /// Creates the delays that `seed` determines.
    pub const fn new(seed: u64) -> Self {
        Self { attempts: 0, random: Random::seeded(seed) }
    }

    /// Returns the delay of the next attempt, or `None` if there are no more.
    pub fn next_delay(&mut self, options: &ReconnectOptions) -> Option<Duration> {
        if options.attempts_max.is_some_and(|attempts_max| self.attempts >= attempts_max) {
            return None;
        }
        let factor = 1_u32.checked_shl(self.attempts).unwrap_or(u32::MAX);
        let longest = options.delay_min.saturating_mul(factor).min(options.delay_max);
        self.attempts += 1;
        let nanoseconds = usize::try_from(longest.as_nanos()).unwrap_or(usize::MAX);
        let drawn = self.random.below(nanoseconds.saturating_add(1));
        Some(Duration::from_nanos(drawn as u64))
    }

    /// Returns a seed for other delays.
    pub fn draw_seed(&mut self) -> u64 {
        self.random.below(usize::MAX) as u64
    }

    /// Begins the delays again.
    pub const fn reset(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn delays_double_up_to_the_longest() {
        // The longest of many draws is close to the bound, the shortest close to zero.
        let mut bounds = vec![(Duration::MAX, Duration::ZERO); 12];
        let options = ReconnectOptions::default();
        for seed in 0..2_000 {
            let mut backoff = Backoff::new(seed);
            for (shortest, longest) in &mut bounds {
                let delay = backoff.next_delay(&options).unwrap();
                (*shortest, *longest) = ((*shortest).min(delay), (*longest).max(delay));
            }
        }
        let expected = (0..12).map(|attempt| (100 * MS * (1 << attempt)).min(30_000 * MS));
        for ((shortest, longest), expected) in bounds.into_iter().zip(expected) {
            assert!(longest <= expected && longest > expected * 99 / 100, "{longest:?}");
            assert!(shortest < expected / 100, "{shortest:?}");
        }
    }

    #[test]
    fn delays_are_bounded_after_any_number_of_attempts() {
        let (mut backoff, options) = (Backoff::new(1), ReconnectOptions::default());
        assert!((0..1_000).all(|_| backoff.next_delay(&options).unwrap() <= 30_000 * MS));
        backoff.reset();
        assert!(backoff.next_delay(&options).unwrap() <= 100 * MS);
    }

    #[test]
    fn attempts_end_at_their_limit_until_reset() {
        let options = ReconnectOptions { attempts_max: Some(2), ..Default::default() };
        let mut backoff = Backoff::new(1);
        assert_eq!([(); 3].map(|()| backoff.next_delay(&options).is_some()), [true, true, false]);
        backoff.reset();
        assert!(backoff.next_delay(&options).is_some());
    }

    #[test]
    fn seed_determines_the_delays() {
        let delays = |seed| {
            let (mut backoff, options) = (Backoff::new(seed), ReconnectOptions::default());
            [(); 5].map(|()| backoff.next_delay(&options).unwrap())
        };
        assert_eq!(delays(7), delays(7));
        assert_ne!(delays(7), delays(8));
    }
}
