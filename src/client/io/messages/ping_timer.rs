//! When an idle WebSocket connection is pinged, and when it is lost (RFC 6455, section 5.5.2).

use std::time::Duration;

use corelane_base::time::Instant;

/// The pings of one connection. Everything that is received shows that the peer is there, a pong
/// as well as a message.
#[derive(Debug)]
pub(super) struct PingTimer {
    /// `None` for a connection that is not pinged.
    interval: Option<Duration>,
    /// When something was received, or the connection was opened.
    last_received: Instant,
    /// When the ping was sent that nothing has followed.
    pinged_at: Option<Instant>,
}

/// What is to be done at a deadline.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum PingAction {
    None,
    /// Send a ping.
    Ping,
    /// End the connection: nothing was received for this time since a ping.
    Lost(Duration),
}

impl PingTimer {
    /// Creates the timer of a connection that is open since `now`.
    pub(super) const fn new(interval: Option<Duration>, now: Instant) -> Self {
        Self { interval, last_received: now, pinged_at: None }
    }

    /// Notes that something was received.
    pub(super) const fn handle_received(&mut self, now: Instant) {
        self.last_received = now;
        self.pinged_at = None;
    }

    /// Returns when [`PingTimer::expire`] must be called.
    pub(super) fn deadline(&self) -> Option<Instant> {
        Some(self.pinged_at.unwrap_or(self.last_received).after(self.interval?))
    }

    /// Returns what is due; a ping that is due counts as sent.
    pub(super) fn expire(&mut self, now: Instant) -> PingAction {
        let Some(interval) = self.interval else { return PingAction::None };
        if self.deadline().is_none_or(|deadline| deadline > now) {
            return PingAction::None;
        }
        if self.pinged_at.is_some() {
            return PingAction::Lost(interval);
        }
        self.pinged_at = Some(now);
        PingAction::Ping
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN.after(Duration::from_secs(seconds))
    }

    #[test]
    fn idle_connection_is_pinged_and_lost() {
        let mut timer = PingTimer::new(Some(Duration::from_secs(30)), at(1));
        assert_eq!(timer.deadline(), Some(at(31)));
        assert_eq!(timer.expire(at(30)), PingAction::None);
        assert_eq!(timer.expire(at(31)), PingAction::Ping);
        assert_eq!(timer.deadline(), Some(at(61)));
        assert_eq!(timer.expire(at(60)), PingAction::None);
        assert_eq!(timer.expire(at(61)), PingAction::Lost(Duration::from_secs(30)));
    }

    #[test]
    fn received_bytes_postpone_ping_and_loss() {
        let mut timer = PingTimer::new(Some(Duration::from_secs(30)), at(0));
        timer.handle_received(at(20));
        assert_eq!(timer.expire(at(30)), PingAction::None);
        assert_eq!(timer.expire(at(50)), PingAction::Ping);
        timer.handle_received(at(79));
        assert_eq!(timer.expire(at(80)), PingAction::None);
        assert_eq!(timer.expire(at(109)), PingAction::Ping);
    }

    #[test]
    fn connection_without_interval_is_not_pinged() {
        let mut timer = PingTimer::new(None, at(0));
        assert_eq!(timer.deadline(), None);
        assert_eq!(timer.expire(at(1 << 40)), PingAction::None);
    }
}
