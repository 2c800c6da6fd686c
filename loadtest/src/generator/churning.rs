//! Lanes that leave because they are to, and come back: churn and storms.
//!
//! ```text
//!  due ─▶ the oldest lane takes no more requests ─▶ its answers have come ─▶ goodbye ─▶ closed
//!   └────────────────────────── what its time counts ──────────────────────────▶ open again
//! ```
//!
//! What it keeps true: a replacement counts from the moment at which it was due, also where no lane
//! was there to leave or the server let nobody in; a lane that goes on purpose is not lost.

use std::collections::VecDeque;

use corelane::base::time::Moment;
use corelane::engine::ring::{Operation, Ring};

use super::job::Job;
use super::lane::{Departure, State};
use super::worker::Worker;
use crate::dialogue::{Goodbye, Parting};
use crate::measure::outcome::Failure;
use crate::schedule::{Occasion, Share, Turnover};
use crate::target::Transport;

/// What a worker knows of the lanes that come and go.
#[derive(Debug)]
pub(super) struct Churning {
    turnover: Option<Turnover>,
    /// Replacements that are due and wait for a lane that could leave.
    due: VecDeque<Moment>,
    /// Lanes by their age, the oldest first, each with the moment at which its connect began: an
    /// entry of another moment is out of date.
    standing: VecDeque<(u32, Moment)>,
    /// Lanes that are closed and come back before all others.
    returning: VecDeque<u32>,
    /// Lanes that leave, or have left and are not back.
    under_way: usize,
}

impl Churning {
    /// Nobody leaves yet.
    pub(super) const fn new() -> Self {
        Self {
            turnover: None,
            due: VecDeque::new(),
            standing: VecDeque::new(),
            returning: VecDeque::new(),
            under_way: 0,
        }
    }

    /// The run has begun.
    pub(super) fn begin(&mut self, job: &Job, share: Share, begin: Moment) {
        if let Some(churn) = &job.churn {
            let times = (begin, job.drive.span());
            self.turnover = Some(Turnover::new((churn.rate, churn.storm), share, times));
        }
    }

    /// When the next replacement is due.
    pub(super) fn next_at(&mut self) -> Option<Moment> {
        self.turnover.as_mut()?.next_at()
    }

    /// Whether nobody leaves, is to leave, or has left and is not back.
    pub(super) fn is_settled(&mut self) -> bool {
        self.under_way == 0 && self.due.is_empty() && self.next_at().is_none()
    }
}

impl<R: Ring> Worker<R> {
    /// Has lanes leave that are due to be replaced.
    #[cold]
    pub(super) fn churn(&mut self) {
        while let Some(churning) = &mut self.churning
            && let Some(due) = churning.turnover.as_mut().and_then(|all| all.take(self.now))
        {
            match due.occasion {
                Occasion::Churn if churning.due.len() < self.job.limits.due_max => {
                    churning.due.push_back(due.at);
                }
                Occasion::Churn => self.tally.period.openings.unopened += 1,
                // It is of those that are there.
                Occasion::Storm => {
                    for _ in 0..due.connections {
                        let Some(index) = self.oldest() else { break };
                        self.depart(index, due.at, Occasion::Storm);
                    }
                }
            }
        }
        while self.churning.as_ref().is_some_and(|churning| !churning.due.is_empty())
            && let Some(index) = self.oldest()
            && let Some(intended) =
                self.churning.as_mut().and_then(|churning| churning.due.pop_front())
        {
            self.depart(index, intended, Occasion::Churn);
        }
    }

    /// The lane that has been open for longest, among those that may leave.
    fn oldest(&mut self) -> Option<usize> {
        let churning = self.churning.as_mut()?;
        while let Some((index, began)) = churning.standing.pop_front() {
            let lane = &self.lanes[index as usize];
            if lane.began == began && !lane.is_leaving && matches!(lane.state, State::Open(_)) {
                return Some(index as usize);
            }
        }
        None
    }

    fn depart(&mut self, index: usize, intended: Moment, occasion: Occasion) {
        let lane = &mut self.lanes[index];
        lane.is_leaving = true;
        lane.departure = Some(Box::new(Departure { intended, occasion, asked: self.now }));
        if let Some(churning) = &mut self.churning {
            churning.under_way += 1;
        }
        self.leave(index);
    }

    /// A lane that is to leave says goodbye, where it owes nothing.
    #[cold]
    pub(super) fn leave(&mut self, index: usize) {
        let lane = &mut self.lanes[index];
        let is_idle = matches!(&lane.state, State::Open(books) if books.in_flight() == 0);
        let Some(departure) = lane.departure.as_mut().filter(|_| is_idle) else { return };
        departure.asked = self.now;
        if self.job.churn.is_some_and(|churn| churn.leaves_sessions) {
            return self.end(index, Failure::Closed);
        }
        let State::Open(books) = std::mem::replace(&mut lane.state, State::Closing) else { return };
        let (parting, goodbye) = Parting::new(&self.job.speech, books.close());
        lane.state = State::Parting(Box::new(parting));
        match goodbye {
            Goodbye::Words(words) => {
                lane.outgoing.extend_from_slice(&words);
                self.cork(index);
            }
            // What waits to be sent could not follow the end. What is encrypted has words of its
            // own for it, which go with the end of both sides. A pipe has no halves: its program
            // hears the end when both are closed.
            Goodbye::Finish
                if lane.outgoing.is_empty() && lane.filter.is_none() && lane.hears == lane.says =>
            {
                if let Some(socket) = lane.says {
                    self.ring.submit(Operation::Finish(socket));
                }
            }
            Goodbye::Finish | Goodbye::Nothing => self.end(index, Failure::Closed),
        }
    }

    /// The other end has answered a goodbye, or took too long to.
    #[cold]
    pub(super) fn part(&mut self, index: usize, is_agreed: bool) {
        if !is_agreed && self.job.speech.transport == Transport::Http {
            self.tally.period.openings.undeleted += 1;
        }
        self.end(index, Failure::Closed);
    }

    /// A lane is open: how long that took.
    #[cold]
    pub(super) fn note_opened(&mut self, index: usize) {
        let lane = &mut self.lanes[index];
        let openings = &mut self.tally.period.openings;
        match lane.departure.take() {
            None => openings.open(self.now.since(lane.began)),
            Some(departure) => {
                let Departure { intended, occasion, .. } = *departure;
                if intended >= self.tally.measured_from {
                    openings.replace(occasion, self.now.since(intended));
                }
                if let Some(churning) = &mut self.churning {
                    churning.under_way -= 1;
                }
            }
        }
        let is_beside = self.audience.as_ref().is_some_and(|audience| audience.has(index));
        if let Some(churning) = &mut self.churning
            && !is_beside
        {
            churning.standing.push_back((u32::try_from(index).unwrap_or(u32::MAX), lane.began));
            // What was lost and came back has left its old entry behind.
            if churning.standing.len() > 2 * self.lanes.len() {
                let lanes = &self.lanes;
                churning.standing.retain(|(index, began)| lanes[*index as usize].began == *began);
            }
        }
    }

    /// A lane that left is closed: whether it is one of those that come back at once.
    pub(super) fn comes_back(&mut self, index: usize) -> bool {
        let lane = &self.lanes[index];
        let Some(churning) = &mut self.churning else { return false };
        // It is not leaving any more where it was the new connection that came to nothing.
        let comes_back = lane.is_leaving && lane.departure.is_some();
        if comes_back {
            churning.returning.push_back(u32::try_from(index).unwrap_or(u32::MAX));
        }
        comes_back
    }

    /// The next of those that come back.
    pub(super) fn next_returning(&mut self) -> Option<u32> {
        self.churning.as_mut()?.returning.pop_front()
    }

    /// The run is over: who was due and is not back.
    pub(super) fn conclude_churn(&mut self) {
        let from = self.tally.measured_from;
        let Some(churning) = &mut self.churning else { return };
        let gone = self.lanes.iter().filter_map(|lane| lane.departure.as_ref());
        let gone = gone.map(|departure| departure.intended).chain(churning.due.drain(..));
        let mut gone = gone.filter(|intended| *intended >= from).count();
        // What the generator itself never came to look at.
        let ever = Moment::from_nanoseconds(u64::MAX);
        while let Some(due) = churning.turnover.as_mut().and_then(|all| all.take(ever)) {
            gone += due.connections;
        }
        self.tally.period.openings.unopened += gone as u64;
    }
}
