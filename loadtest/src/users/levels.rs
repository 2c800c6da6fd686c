//! Number of users over the time of a run.

use std::time::Duration;

/// A part of a run in which the number of users changes linearly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// Users at its end.
    pub to: f64,
    /// How long it lasts; not zero.
    pub over: Duration,
}

/// Number of users over the time of a run. After the last stage it stays.
///
/// Users have places from 0: that of place `n` is there while the number is above `n`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UserLevels {
    /// Users at the beginning.
    first: f64,
    stages: Vec<Stage>,
}

impl UserLevels {
    /// Creates the levels of a run that begins with `first` users.
    pub const fn new(first: f64, stages: Vec<Stage>) -> Self {
        Self { first, stages }
    }

    /// Returns whether users leave because their number falls.
    pub fn falls(&self) -> bool {
        self.segments().any(|(_, from, stage)| stage.to < from)
    }

    /// Returns the duration of all stages.
    pub fn span(&self) -> Duration {
        self.stages.iter().map(|stage| stage.over).sum()
    }

    /// Returns how many users are there at the end of a run of `span`.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number of users: `as` saturates"
    )]
    pub fn users_at(&self, span: Duration) -> usize {
        self.at(span).ceil() as usize
    }

    /// Returns the level after this time.
    pub fn at(&self, span: Duration) -> f64 {
        for (begin, from, stage) in self.segments() {
            if span < begin + stage.over {
                let part = span.saturating_sub(begin).div_duration_f64(stage.over);
                return (stage.to - from).mul_add(part, from);
            }
        }
        self.stages.last().map_or(self.first, |stage| stage.to)
    }

    /// Returns when the user of a place comes, at `after` or later, or leaves if it `is_there`.
    pub fn next_change(&self, place: usize, after: Duration, is_there: bool) -> Option<Duration> {
        #[expect(clippy::cast_precision_loss, reason = "a number of users")]
        let place = place as f64;
        if !is_there && after.is_zero() && self.first > place {
            return Some(Duration::ZERO);
        }
        self.segments().find_map(|(begin, from, stage)| {
            let end = begin + stage.over;
            // A stage has one change of a place at most.
            let is_past = end <= after;
            let is_reached =
                if is_there { stage.to <= place && stage.to < from } else { stage.to > place };
            let part = ((place - from) / (stage.to - from)).clamp(0.0, 1.0);
            (is_reached && !is_past).then(|| (begin + stage.over.mul_f64(part)).max(after))
        })
    }

    /// Returns the stages, each with its begin and the number of users there.
    fn segments(&self) -> impl Iterator<Item = (Duration, f64, Stage)> {
        let mut state = (Duration::ZERO, self.first);
        self.stages.iter().map(move |&stage| {
            let (begin, from) = state;
            state = (begin + stage.over, stage.to);
            (begin, from, stage)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn levels(first: f64, stages: &[(f64, u32)]) -> UserLevels {
        let stage = |&(to, seconds): &(f64, u32)| Stage { to, over: SECOND * seconds };
        UserLevels::new(first, stages.iter().map(stage).collect())
    }

    /// Returns the times in seconds at which the user of a place comes, leaves, comes and so on.
    fn changes(levels: &UserLevels, place: usize) -> Vec<f64> {
        let (mut after, mut is_there, mut times) = (Duration::ZERO, false, Vec::new());
        while let Some(at) = levels.next_change(place, after, is_there) {
            times.push(at.as_secs_f64());
            (after, is_there) = (at, !is_there);
        }
        times
    }

    #[test]
    fn users_come_one_after_another() {
        let ramp = levels(0.0, &[(4.0, 8)]);
        let times: Vec<_> = (0..5).map(|place| changes(&ramp, place)).collect();
        assert_eq!(times, [vec![0.0], vec![2.0], vec![4.0], vec![6.0], vec![]]);
        assert_eq!(changes(&levels(2.0, &[]), 1), [0.0]);
        assert!(changes(&levels(2.0, &[]), 2).is_empty());
    }

    #[test]
    fn users_leave_in_reverse_and_return() {
        let wave = levels(0.0, &[(4.0, 4), (4.0, 6), (0.0, 8), (2.0, 1), (2.0, 5), (0.0, 1)]);
        assert_eq!(changes(&wave, 3), [3.0, 12.0]);
        assert_eq!(changes(&wave, 1), [1.0, 16.0, 18.5, 24.5]);
        assert_eq!(changes(&wave, 0), [0.0, 18.0, 18.0, 25.0]);
        assert!(wave.falls() && !levels(1.0, &[(1.0, 1), (3.0, 1)]).falls());
    }

    #[test]
    fn level_changes_linearly_in_stages() {
        let levels = levels(2.0, &[(4.0, 2), (4.0, 1), (0.0, 4)]);
        let at = [0, 1, 2, 3, 5, 7, 9].map(|second| levels.at(SECOND * second));
        let expected = [2.0, 3.0, 4.0, 4.0, 2.0, 0.0, 0.0_f64];
        assert!(at.iter().zip(expected).all(|(level, it)| (level - it).abs() < 1e-9), "{at:?}");
        assert_eq!(levels.span(), SECOND * 7);
    }
}
