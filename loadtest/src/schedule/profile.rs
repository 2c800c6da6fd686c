//! Request rate over the time of a run.
//!
//! ```text
//!  rate │        ramp          step         spike
//!       │            ╱       ┌────          ┌┐
//!       │          ╱     ┌───┘              ││
//!       │        ╱   ────┘            ──────┘└──────
//!       └───────────────────────────────────────────── time
//! ```
//!
//! All of these are sequences of segments in which the rate changes linearly. The number of
//! requests due by a time is the area below the line.

use std::time::Duration;

/// A part of a run in which the rate changes linearly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// Duration.
    pub span: Duration,
    /// Requests per second at the beginning.
    pub from_rate: f64,
    /// Requests per second at the end.
    pub to_rate: f64,
}

impl Segment {
    /// Creates a segment of one rate, in requests per second.
    pub const fn constant(rate: f64, span: Duration) -> Self {
        Self { span, from_rate: rate, to_rate: rate }
    }

    /// Returns the number of requests due in the segment.
    pub fn requests(&self) -> f64 {
        f64::midpoint(self.from_rate, self.to_rate) * self.span.as_secs_f64()
    }

    /// Returns the seconds from the beginning of the segment until `requests` are due; `requests`
    /// must be at most [`Segment::requests`].
    ///
    /// Solves `from · t + slope · t² / 2 = requests` in a form that is numerically stable for small
    /// slopes.
    fn seconds_until(&self, requests: f64) -> f64 {
        let seconds = self.span.as_secs_f64();
        let slope = (self.to_rate - self.from_rate) / seconds;
        let root = (2.0 * slope).mul_add(requests, self.from_rate * self.from_rate).max(0.0).sqrt();
        let sum = self.from_rate + root;
        // Both are zero only for the first request, at time 0.
        if sum > 0.0 { (2.0 * requests / sum).min(seconds) } else { 0.0 }
    }
}

/// The request rate of a whole run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RateProfile {
    segments: Vec<Segment>,
}

impl RateProfile {
    /// Creates a profile from consecutive segments. Segments of zero duration are dropped: the rate
    /// may jump.
    pub fn new(segments: impl IntoIterator<Item = Segment>) -> Self {
        let segments = segments.into_iter().filter(|segment| !segment.span.is_zero());
        Self { segments: segments.collect() }
    }

    /// Creates a profile of one rate, in requests per second.
    pub fn constant(rate: f64, span: Duration) -> Self {
        Self::new([Segment::constant(rate, span)])
    }

    /// Creates a linear ramp between two rates, in requests per second.
    pub fn ramp(from_rate: f64, to_rate: f64, span: Duration) -> Self {
        Self::new([Segment { span, from_rate, to_rate }])
    }

    /// Creates `steps` evenly spaced rates from the first to the last, each for the same time.
    pub fn steps(from_rate: f64, to_rate: f64, steps: u32, span: Duration) -> Self {
        let steps = steps.max(1);
        let width = (to_rate - from_rate) / f64::from(steps.saturating_sub(1).max(1));
        let each = span / steps;
        Self::new((0..steps).map(|step| {
            let rate = width.mul_add(f64::from(step), from_rate);
            Segment::constant(rate, each)
        }))
    }

    /// Returns the segments in order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns the duration of the run.
    pub fn span(&self) -> Duration {
        self.segments.iter().map(|segment| segment.span).sum()
    }

    /// Returns the number of requests due in the whole run.
    pub fn requests(&self) -> f64 {
        self.segments.iter().map(Segment::requests).sum()
    }

    /// Returns the highest rate, in requests per second.
    pub fn rate_max(&self) -> f64 {
        let rates = self.segments.iter().flat_map(|it| [it.from_rate, it.to_rate]);
        rates.fold(0.0, f64::max)
    }
}

/// Position in a profile, advanced from request to request.
#[derive(Clone, Debug)]
pub(super) struct ProfileCursor {
    profile: RateProfile,
    /// Index of the current segment.
    index: usize,
    /// Seconds from the beginning of the run to the beginning of that segment.
    segment_start: f64,
    /// Requests due before that segment.
    requests_before: f64,
}

impl ProfileCursor {
    pub(super) const fn new(profile: RateProfile) -> Self {
        Self { profile, index: 0, segment_start: 0.0, requests_before: 0.0 }
    }

    /// Returns the seconds from the beginning of the run until `requests` are due, or `None` if the
    /// profile has fewer. `requests` must not decrease between calls.
    pub(super) fn seconds_until(&mut self, requests: f64) -> Option<f64> {
        loop {
            let segment = self.profile.segments.get(self.index)?;
            let wanted = segment.requests();
            let inside = requests - self.requests_before;
            if inside < wanted {
                return Some(self.segment_start + segment.seconds_until(inside));
            }
            self.requests_before += wanted;
            self.segment_start += segment.span.as_secs_f64();
            self.index += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Returns the times of the first, second, third request and so on.
    fn request_times(profile: RateProfile) -> Vec<f64> {
        let mut cursor = ProfileCursor::new(profile);
        (0..).map_while(|count| cursor.seconds_until(f64::from(count))).collect()
    }

    #[test]
    fn constant_profile_spaces_requests_evenly() {
        let times = request_times(RateProfile::constant(4.0, SECOND * 2));
        assert_eq!(times, [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75]);
    }

    #[test]
    fn ramp_profile_requests_equal_area_below() {
        let profile = RateProfile::ramp(0.0, 100.0, SECOND * 2);
        let times = request_times(profile.clone());
        assert!((profile.requests() - 100.0).abs() < 1e-9);
        assert_eq!(times.len(), 100);
        // A quarter of the requests is due in the first half of the time.
        let early = times.iter().filter(|time| **time < 1.0).count();
        assert_eq!(early, 25);
    }

    #[test]
    fn ramp_down_to_zero_ends_in_time() {
        let times = request_times(RateProfile::ramp(100.0, 0.0, SECOND * 2));
        assert_eq!(times.len(), 100);
        assert!(times.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(times.iter().all(|time| (0.0..2.0).contains(time)));
    }

    #[test]
    fn step_profile_reaches_last_rate() {
        let profile = RateProfile::steps(10.0, 40.0, 4, SECOND * 4);
        let rates: Vec<f64> = profile.segments().iter().map(|segment| segment.from_rate).collect();
        assert_eq!(rates, [10.0, 20.0, 30.0, 40.0]);
        assert_eq!(profile.span(), SECOND * 4);
        assert_eq!(request_times(profile).len(), 100);
    }

    #[test]
    fn spike_profile_peaks_only_in_its_time() {
        let profile = RateProfile::new([
            Segment::constant(10.0, SECOND),
            Segment::constant(1_000.0, SECOND),
            Segment::constant(10.0, SECOND),
        ]);
        let times = request_times(profile.clone());
        let during = times.iter().filter(|time| (1.0..2.0).contains(*time)).count();
        assert_eq!((during, times.len()), (1_000, 1_020));
        assert!((profile.rate_max() - 1_000.0).abs() < f64::EPSILON);
    }

    #[test]
    fn zero_rate_segment_is_skipped() {
        let profile = RateProfile::new([
            Segment::constant(2.0, SECOND),
            Segment::constant(0.0, SECOND),
            Segment::constant(2.0, SECOND),
        ]);
        assert_eq!(request_times(profile), [0.0, 0.5, 2.0, 2.5]);
    }
}
