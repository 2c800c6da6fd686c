//! A bound on how much a shard says.
//!
//! What it keeps true: a flood of refusals, bad lines or resets costs a bounded number of written
//! lines a second, and the next line tells how many were withheld. Writing blocks the shard, so
//! every event that a peer can cause goes through here; events of the process itself do not.

use std::time::Duration;

use crate::base::time::Moment;

/// Lets [`Throttle::EVENTS_MAX`] events through in each second of a shard's life.
#[derive(Clone, Debug, Default)]
pub struct Throttle {
    window_start: Moment,
    admitted: u32,
    withheld: u64,
    withheld_total: u64,
}

impl Throttle {
    /// Events let through in one window.
    pub const EVENTS_MAX: u32 = 10;

    /// The length of a window.
    pub const WINDOW: Duration = Duration::from_secs(1);

    /// Whether an event may be written at `now`, and how many were withheld since the last one
    /// that was. `None`: withhold this one too.
    pub fn admit(&mut self, now: Moment) -> Option<u64> {
        if now.since(self.window_start) >= Self::WINDOW {
            self.window_start = now;
            self.admitted = 0;
        }
        if self.admitted == Self::EVENTS_MAX {
            self.withheld += 1;
            self.withheld_total += 1;
            return None;
        }
        self.admitted += 1;
        Some(std::mem::take(&mut self.withheld))
    }

    /// Events withheld since the start.
    pub const fn withheld_total(&self) -> u64 {
        self.withheld_total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_and_told_of_in_the_next_window() {
        let mut throttle = Throttle::default();
        let now = Moment::from_milliseconds(5000);
        let admitted = (0..1000).filter(|_| throttle.admit(now).is_some()).count();
        assert_eq!(admitted, Throttle::EVENTS_MAX as usize);
        let later = now.after(Throttle::WINDOW);
        assert_eq!(throttle.admit(later), Some(990));
        assert_eq!(throttle.admit(later), Some(0));
        assert_eq!(throttle.withheld_total(), 990);
    }

    #[test]
    fn a_calm_shard_is_never_cut() {
        let mut throttle = Throttle::default();
        for second in 0..100 {
            assert_eq!(throttle.admit(Moment::from_milliseconds(second * 1000)), Some(0));
        }
    }
}
