//! How many requests a second are wanted at each moment of a run.
//!
//! ```text
//!  rate │        ramp          step         spike
//!       │            ╱       ┌────          ┌┐
//!       │          ╱     ┌───┘              ││
//!       │        ╱   ────┘            ──────┘└──────
//!       └───────────────────────────────────────────── time
//! ```
//!
//! All of these are sequences of segments in which the rate changes evenly, so one piece of
//! arithmetic serves them all: the requests wanted up to a moment are the area below the line.

use std::time::Duration;

/// A part of a run in which the rate changes evenly from one value to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// How long it lasts.
    pub span: Duration,
    /// Requests a second at its beginning.
    pub from_rate: f64,
    /// Requests a second at its end.
    pub to_rate: f64,
}

impl Segment {
    /// A segment of one rate, in requests a second.
    pub const fn constant(rate: f64, span: Duration) -> Self {
        Self { span, from_rate: rate, to_rate: rate }
    }

    /// The requests that it wants.
    pub fn requests(&self) -> f64 {
        f64::midpoint(self.from_rate, self.to_rate) * self.span.as_secs_f64()
    }

    /// Seconds from its beginning until it has wanted this many requests; `requests` must not be
    /// more than [`Segment::requests`].
    ///
    /// Solves `from · t + slope · t² / 2 = requests` in the form that loses no digits where the
    /// slope is small.
    fn seconds_until(&self, requests: f64) -> f64 {
        let seconds = self.span.as_secs_f64();
        let slope = (self.to_rate - self.from_rate) / seconds;
        let root = (2.0 * slope).mul_add(requests, self.from_rate * self.from_rate).max(0.0).sqrt();
        let sum = self.from_rate + root;
        // Where both are zero it is the first request that is asked for, and nothing has gone by.
        if sum > 0.0 { (2.0 * requests / sum).min(seconds) } else { 0.0 }
    }
}

/// The rates of a whole run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    segments: Vec<Segment>,
}

impl Profile {
    /// A run of these segments, one after the other. Those without time are left out: a rate may
    /// jump, and needs no time for it.
    pub fn new(segments: impl IntoIterator<Item = Segment>) -> Self {
        let segments = segments.into_iter().filter(|segment| !segment.span.is_zero());
        Self { segments: segments.collect() }
    }

    /// One rate throughout.
    pub fn constant(rate: f64, span: Duration) -> Self {
        Self::new([Segment::constant(rate, span)])
    }

    /// An even change from one rate to another.
    pub fn ramp(from_rate: f64, to_rate: f64, span: Duration) -> Self {
        Self::new([Segment { span, from_rate, to_rate }])
    }

    /// `steps` rates from the first to the last, evenly apart, each for as long as the others.
    pub fn steps(from_rate: f64, to_rate: f64, steps: u32, span: Duration) -> Self {
        let steps = steps.max(1);
        let width = (to_rate - from_rate) / f64::from(steps.saturating_sub(1).max(1));
        let each = span / steps;
        Self::new((0..steps).map(|step| {
            let rate = width.mul_add(f64::from(step), from_rate);
            Segment::constant(rate, each)
        }))
    }

    /// A rate that for a time in the middle of the run is another: `before` at `rate`, `during` at
    /// `peak_rate`, `after` at `rate` again.
    pub fn spike(
        (rate, peak_rate): (f64, f64),
        (before, during, after): (Duration, Duration, Duration),
    ) -> Self {
        Self::new([
            Segment::constant(rate, before),
            Segment::constant(peak_rate, during),
            Segment::constant(rate, after),
        ])
    }

    /// The segments, in their order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// How long the run lasts.
    pub fn span(&self) -> Duration {
        self.segments.iter().map(|segment| segment.span).sum()
    }

    /// The requests that the whole run wants.
    pub fn requests(&self) -> f64 {
        self.segments.iter().map(Segment::requests).sum()
    }

    /// The highest rate.
    pub fn rate_max(&self) -> f64 {
        let rates = self.segments.iter().flat_map(|it| [it.from_rate, it.to_rate]);
        rates.fold(0.0, f64::max)
    }

    /// The rate that is wanted this long after the beginning; none behind the end.
    pub fn rate_at(&self, since: Duration) -> Option<f64> {
        let mut begun = Duration::ZERO;
        for segment in &self.segments {
            let inside = since.saturating_sub(begun);
            if inside < segment.span {
                let part = inside.as_secs_f64() / segment.span.as_secs_f64();
                return Some(
                    (segment.to_rate - segment.from_rate).mul_add(part, segment.from_rate),
                );
            }
            begun += segment.span;
        }
        None
    }
}

/// Goes through a profile from request to request.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    profile: Profile,
    /// The segment in which the walk stands.
    index: usize,
    /// Seconds from the beginning of the run to the beginning of that segment.
    begun: f64,
    /// Requests wanted before that segment.
    passed: f64,
}

impl Walk {
    pub(super) const fn new(profile: Profile) -> Self {
        Self { profile, index: 0, begun: 0.0, passed: 0.0 }
    }

    /// Seconds from the beginning of the run until the run has wanted this many requests; none
    /// where it never does. Ask with numbers that do not fall.
    pub(super) fn seconds_until(&mut self, requests: f64) -> Option<f64> {
        loop {
            let segment = self.profile.segments.get(self.index)?;
            let wanted = segment.requests();
            let inside = requests - self.passed;
            if inside < wanted {
                return Some(self.begun + segment.seconds_until(inside));
            }
            self.passed += wanted;
            self.begun += segment.span.as_secs_f64();
            self.index += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// The moments at which a walk wants its first, second, third request.
    fn moments(profile: Profile) -> Vec<f64> {
        let mut walk = Walk::new(profile);
        (0..).map_while(|count| walk.seconds_until(f64::from(count))).collect()
    }

    #[test]
    fn a_constant_rate_wants_its_requests_evenly_apart() {
        let moments = moments(Profile::constant(4.0, SECOND * 2));
        assert_eq!(moments, [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75]);
    }

    #[test]
    fn a_ramp_wants_as_many_requests_as_the_area_below_it() {
        let profile = Profile::ramp(0.0, 100.0, SECOND * 2);
        let moments = moments(profile.clone());
        assert!((profile.requests() - 100.0).abs() < 1e-9);
        assert_eq!(moments.len(), 100);
        // A quarter of the requests come in the first half of the time.
        let early = moments.iter().filter(|moment| **moment < 1.0).count();
        assert_eq!(early, 25);
    }

    #[test]
    fn a_ramp_down_to_nothing_ends_where_it_should() {
        let moments = moments(Profile::ramp(100.0, 0.0, SECOND * 2));
        assert_eq!(moments.len(), 100);
        assert!(moments.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(moments.iter().all(|moment| (0.0..2.0).contains(moment)));
    }

    #[test]
    fn steps_reach_the_last_rate_and_share_the_time() {
        let profile = Profile::steps(10.0, 40.0, 4, SECOND * 4);
        let rates: Vec<f64> = profile.segments().iter().map(|segment| segment.from_rate).collect();
        assert_eq!(rates, [10.0, 20.0, 30.0, 40.0]);
        assert_eq!(profile.span(), SECOND * 4);
        assert_eq!(moments(profile).len(), 100);
    }

    #[test]
    fn a_spike_is_wanted_in_its_time_only() {
        let profile = Profile::spike((10.0, 1_000.0), (SECOND, SECOND, SECOND));
        let moments = moments(profile.clone());
        let during = moments.iter().filter(|moment| (1.0..2.0).contains(*moment)).count();
        assert_eq!((during, moments.len()), (1_000, 1_020));
        assert_eq!(profile.rate_at(SECOND * 3 / 2), Some(1_000.0));
        assert!((profile.rate_max() - 1_000.0).abs() < f64::EPSILON);
        assert_eq!(profile.rate_at(SECOND * 3), None);
    }

    #[test]
    fn a_pause_of_no_rate_wants_nothing_and_is_passed() {
        let profile = Profile::new([
            Segment::constant(2.0, SECOND),
            Segment::constant(0.0, SECOND),
            Segment::constant(2.0, SECOND),
        ]);
        assert_eq!(moments(profile), [0.0, 0.5, 2.0, 2.5]);
    }
}
