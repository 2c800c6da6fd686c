//! Rate limit for events that a peer can cause.
//!
//! Writing an event blocks the shard, so a flood of refusals, invalid lines or resets must cost a
//! bounded number of lines per second. The next line reports how many were suppressed. Events of
//! the process itself are not limited.

use std::time::Duration;

use corelane_base::time::Instant;

/// Admits up to [`EventThrottle::EVENTS_MAX`] events per [`EventThrottle::WINDOW`].
#[derive(Clone, Debug, Default)]
pub struct EventThrottle {
    window_start: Instant,
    admitted: u32,
    suppressed: u64,
    suppressed_total: u64,
}

impl EventThrottle {
    /// Events admitted per window.
    pub const EVENTS_MAX: u32 = 10;

    /// Length of a window.
    pub const WINDOW: Duration = Duration::from_secs(1);

    /// Admits an event at `now` and returns the number of events suppressed since the last admitted
    /// one. Returns `None` if this event is to be suppressed too.
    pub fn admit(&mut self, now: Instant) -> Option<u64> {
        if now.since(self.window_start) >= Self::WINDOW {
            self.window_start = now;
            self.admitted = 0;
        }
        if self.admitted == Self::EVENTS_MAX {
            self.suppressed += 1;
            self.suppressed_total += 1;
            return None;
        }
        self.admitted += 1;
        Some(std::mem::take(&mut self.suppressed))
    }

    /// Returns the number of events suppressed since the start.
    pub const fn suppressed_total(&self) -> u64 {
        self.suppressed_total
    }
}

/// Admits one event a minute.
#[derive(Clone, Debug, Default)]
pub struct MinuteThrottle {
    admitted: Option<Instant>,
    suppressed: u64,
}

impl MinuteThrottle {
    /// Admits an event at `now` and returns the number of events suppressed since the last admitted
    /// one. Returns `None` if this event is to be suppressed too.
    pub fn admit(&mut self, now: Instant) -> Option<u64> {
        if self.is_closed(now) {
            self.suppressed += 1;
            return None;
        }
        self.admitted = Some(now);
        Some(std::mem::take(&mut self.suppressed))
    }

    /// Returns whether an event at `now` is suppressed.
    pub fn is_closed(&self, now: Instant) -> bool {
        self.admitted.is_some_and(|admitted| now.since(admitted) < Duration::from_mins(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_flood_is_suppressed_and_reported_next_window() {
        let mut throttle = EventThrottle::default();
        let now = Instant::from_milliseconds(5000);
        let admitted = (0..1000).filter(|_| throttle.admit(now).is_some()).count();
        assert_eq!(admitted, EventThrottle::EVENTS_MAX as usize);
        let later = now.after(EventThrottle::WINDOW);
        assert_eq!(throttle.admit(later), Some(990));
        assert_eq!(throttle.admit(later), Some(0));
        assert_eq!(throttle.suppressed_total(), 990);
    }

    #[test]
    fn slow_events_are_never_suppressed() {
        let mut throttle = EventThrottle::default();
        for second in 0..100 {
            assert_eq!(throttle.admit(Instant::from_milliseconds(second * 1000)), Some(0));
        }
    }
}
