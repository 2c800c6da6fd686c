//! Samples the backlog of a load thread: of requests, or of users that arrive at a rate and have no
//! place.

use std::time::Duration;

use corelane_base::time::Instant;

use super::context::RunContext;
use super::period::PeriodRecorder;
use super::run_config::LoadMode;
use super::user_arrivals::ArrivalCounts;
use super::users::Users;
use crate::metrics::backlog::{BacklogSamples, RequestCounts};

/// Sampler of an open loop. Its accuracy is that of the calls of [`BacklogSampler::sample`].
#[derive(Debug)]
pub(super) struct BacklogSampler {
    samples: BacklogSamples,
    interval: Duration,
    /// Time of the next sample; `None` unless requests are sent, or users arrive, at a rate.
    next_at: Option<Instant>,
    /// Requests of the periods that ended.
    ended: RequestCounts,
    /// Requests of the warm-up that were open at its end.
    earlier_open: u64,
}

impl BacklogSampler {
    /// Creates a sampler that has not started.
    pub(super) fn new(ctx: &RunContext) -> Self {
        let span = ctx.config.mode.span().saturating_sub(ctx.config.warm_up);
        Self {
            samples: BacklogSamples::default(),
            interval: BacklogSamples::interval(span),
            next_at: None,
            ended: RequestCounts::default(),
            earlier_open: 0,
        }
    }

    /// Starts at the beginning of the run.
    pub(super) fn start(&mut self, ctx: &RunContext) {
        let users = ctx.users.as_ref().and_then(Users::arrival_counts);
        let is_open = matches!(ctx.config.mode, LoadMode::Open { .. }) || users.is_some();
        self.next_at = is_open.then_some(ctx.recorder.measured_from);
    }

    /// Takes the samples that are due.
    pub(super) fn sample(&mut self, ctx: &RunContext) {
        while let Some(at) = self.next_at.filter(|at| *at <= ctx.now) {
            self.next_at = Some(at.after(self.interval));
            self.push(ctx);
        }
    }

    /// Adds the requests of a period that ends.
    pub(super) fn end_period(&mut self, recorder: &PeriodRecorder) {
        let counts = recorder.counts();
        self.ended.due += counts.due;
        self.ended.completed += counts.completed;
    }

    /// Ends with a last sample and returns all.
    pub(super) fn finish(&mut self, ctx: &RunContext) -> BacklogSamples {
        if self.next_at.take().is_some() {
            self.push(ctx);
        }
        std::mem::take(&mut self.samples)
    }

    fn push(&mut self, ctx: &RunContext) {
        if let Some(users) = ctx.users.as_ref().and_then(Users::arrival_counts) {
            let ArrivalCounts { arrived, placed } = users;
            return self.samples.push(RequestCounts { due: arrived, completed: placed });
        }
        let recorder = &ctx.recorder;
        if self.samples.is_empty() {
            self.earlier_open = recorder.earlier_open;
        }
        let counts = recorder.counts();
        let earlier_completed = self.earlier_open.saturating_sub(recorder.earlier_open);
        self.samples.push(RequestCounts {
            due: self.ended.due + counts.due + self.earlier_open,
            completed: self.ended.completed + counts.completed + earlier_completed,
        });
    }
}
