//! Lanes that listen, and the one over which is published what they are to hear.
//!
//! They stand behind the lanes for requests: first those that listen, then, with the first worker,
//! the one that publishes. Each worker knows when publications are planned and what its own streams
//! heard of them; all workers have one clock.
//!
//! What it keeps true: a publication is asked for once, at its planned moment or as soon after it
//! as the worker turns; hearing of one allocates nothing.

use corelane::base::time::Moment;
use corelane::engine::ring::Ring;

use super::job::Job;
use super::lane::State;
use super::period::Tally;
use super::worker::{Stage, Worker};
use crate::dialogue::{Hearing, Listening, Refused, Subscription};
use crate::measure::fanout::{Course, Roll};
use crate::measure::outcome::Failure;
use crate::schedule::Share;
use crate::wire::Reader;

/// What one worker knows of those that listen.
#[derive(Debug)]
pub(super) struct Audience {
    subscription: Subscription,
    /// The first lane that listens.
    first: usize,
    /// How many there are.
    pub(super) lanes: usize,
    /// The lane that publishes, with the first worker.
    pub(super) publisher: Option<usize>,
    /// The last publication that was asked for, counted from one.
    published: u32,
    roll: Roll,
    /// Streams that are open.
    pub(super) open: usize,
}

/// What an opening has left: its reader, what that is not done with, and the session.
type Opened = (Reader, Vec<u8>, Option<Box<[u8]>>);

/// What a lane that listens has to do about what it heard.
#[derive(Debug, Default)]
pub(super) struct Heed {
    words: Vec<u8>,
    is_closing: bool,
    refused: Option<Refused>,
}

impl Audience {
    /// A worker's share of those that listen, behind its lanes for requests; none where nobody
    /// does.
    pub(super) fn new(job: &Job, share: Share, first: usize) -> Option<Self> {
        let listen = job.listen.as_ref()?;
        let (worker, workers) = (share.worker as usize, share.workers.max(1) as usize);
        // Those that do not divide evenly go to the last workers: the first one publishes.
        let lanes = (listen.connections() + worker) / workers;
        Some(Self {
            subscription: listen.subscription.clone(),
            first,
            lanes,
            publisher: (worker == 0).then_some(first + lanes),
            published: 0,
            roll: Roll::new(lanes * listen.subscription.streams()),
            open: 0,
        })
    }

    /// All lanes of it.
    pub(super) fn lanes_all(&self) -> usize {
        self.lanes + usize::from(self.publisher.is_some())
    }

    /// Whether a lane is one of all these, and none for requests.
    pub(super) const fn has(&self, lane: usize) -> bool {
        lane >= self.first
    }

    /// Whether a lane is one of those that listen.
    pub(super) const fn listens(&self, lane: usize) -> bool {
        lane >= self.first && lane < self.first + self.lanes
    }

    /// Whether all streams are open.
    const fn is_whole(&self) -> bool {
        self.open == self.lanes * self.subscription.streams()
    }

    /// Takes in what arrived on a lane that listens.
    #[inline]
    pub(super) fn hear(
        &mut self,
        (lane, listening): (usize, &mut Listening),
        arrived: &[u8],
        (tally, now): (&mut Tally, Moment),
    ) -> Heed {
        let Self { subscription, roll, open, first, .. } = self;
        let listened = &mut tally.period.listened;
        roll.advance(now, &mut listened.reaches);
        let is_measured = roll.is_measured(now);
        if is_measured {
            listened.bytes += arrived.len() as u64;
        }
        let stream = (lane - *first) * subscription.streams();
        let mut heed = Heed::default();
        let heard = listening.hear(subscription, arrived, |hearing| match hearing {
            Hearing::Told(place) if roll.hear(stream + place, now) => {}
            Hearing::Told(_) | Hearing::Stray => listened.stray += u64::from(is_measured),
            Hearing::Opened => *open += 1,
            Hearing::Ended => {
                *open -= 1;
                listened.lost += 1;
            }
            Hearing::Say(words) => heed.words.extend_from_slice(&words),
            Hearing::Closing => heed.is_closing = true,
        });
        heed.refused = heard.err();
        heed
    }
}

impl<R: Ring> Worker<R> {
    /// Whether a lane is to listen when it is open.
    pub(super) fn listens(&self, index: usize) -> bool {
        self.audience.as_ref().is_some_and(|audience| audience.listens(index))
    }

    /// A lane that is to listen has been opened: it says what it wants to hear of.
    pub(super) fn begin_listening(&mut self, index: usize, opened: Opened) {
        let Some(audience) = &mut self.audience else { return };
        let lane = &mut self.lanes[index];
        if lane.outgoing.capacity() == 0 {
            lane.outgoing = self.spare.pop().unwrap_or_default();
        }
        let mut listening = Listening::new(&audience.subscription, opened, &mut lane.outgoing);
        let heed = audience.hear((index, &mut listening), &[], (&mut self.tally, self.now));
        lane.state = State::Listening(Box::new(listening));
        self.cork(index);
        self.heed(index, heed);
    }

    /// Does what hearing something asks for.
    #[inline]
    pub(super) fn heed(&mut self, index: usize, heed: Heed) {
        let Heed { words, is_closing, refused } = heed;
        if let Some(refused) = refused {
            return self.refuse_listening(index, refused);
        }
        let lane = &mut self.lanes[index];
        if let State::Listening(listening) = &mut lane.state
            && listening.is_newly_whole()
        {
            self.connecting -= 1;
            self.open += 1;
            self.note_opened(index);
        }
        let lane = &mut self.lanes[index];
        lane.is_leaving |= is_closing;
        if !words.is_empty() {
            self.say(index, &words);
            self.cork(index);
        }
    }

    /// A server does not let a lane listen, or has said what no server may.
    #[cold]
    fn refuse_listening(&mut self, index: usize, refused: Refused) {
        let lane = &mut self.lanes[index];
        let is_lost = !lane.is_leaving;
        let state = std::mem::replace(&mut lane.state, State::Closing);
        if let State::Listening(listening) = state
            && !self.stop_listening(&listening, is_lost)
        {
            return self.break_off(index, refused);
        }
        self.close(index);
    }

    /// A lane listens no more; whether it had come to be open.
    pub(super) fn stop_listening(&mut self, listening: &Listening, is_lost: bool) -> bool {
        let open = listening.open();
        if let Some(audience) = &mut self.audience {
            audience.open -= open;
        }
        if listening.has_opened() {
            self.open -= 1;
            self.tally.period.lost += u64::from(is_lost);
            self.tally.period.listened.lost += open as u64;
        }
        listening.has_opened()
    }

    /// Looks after a lane that listens: streams that have ended are opened again.
    pub(super) fn sweep_listening(&mut self, index: usize) {
        let Some(audience) = &self.audience else { return };
        let lane = &mut self.lanes[index];
        if lane.is_leaving {
            return self.end(index, Failure::Closed);
        }
        let State::Listening(listening) = &mut lane.state else { return };
        if !listening.has_opened() && self.now.since(lane.began) > self.job.limits.connect_max {
            let said = "it let nobody listen in time".into();
            return self.refuse_listening(index, Refused { failure: Failure::Timeout, said });
        }
        if !audience.is_whole() && listening.ask_again(&audience.subscription, &mut lane.outgoing) {
            self.cork(index);
        }
    }

    /// The run is about to begin: publications are planned from then on.
    pub(super) fn begin_publishing(&mut self, begin: Moment, end: Moment) {
        let (Some(audience), Some(listen)) = (&mut self.audience, &self.job.listen) else { return };
        audience.roll.begin(Course {
            begin,
            end,
            every: listen.every,
            heard_max: listen.every.min(self.job.limits.answer_max),
            measured_from: self.tally.measured_from,
        });
    }

    /// Asks for the publications whose moments have come.
    #[inline]
    pub(super) fn publish_due(&mut self) {
        let Some(audience) = &mut self.audience else { return };
        let period = &mut self.tally.period;
        audience.roll.advance(self.now, &mut period.listened.reaches);
        let (Some(index), Some(call)) = (audience.publisher, self.tally.publishing) else { return };
        if self.stage == Stage::Connecting {
            return;
        }
        while audience.published < audience.roll.number() {
            audience.published += 1;
            let Some(intended) = audience.roll.planned(audience.published) else { return };
            let lane = &mut self.lanes[index];
            let is_measured = intended >= self.tally.measured_from;
            match &mut lane.state {
                State::Open(books) if !lane.is_leaving => {
                    books.ask(&self.calls, call, (intended, self.now), &mut lane.outgoing);
                    if is_measured {
                        let lag = self.now.since(intended).as_nanos();
                        period.lag.saturating_record(u64::try_from(lag).unwrap_or(u64::MAX));
                    }
                    if !lane.is_corked {
                        lane.is_corked = true;
                        self.corked.push(u32::try_from(index).unwrap_or(u32::MAX));
                    }
                }
                _ if is_measured => period.listened.published(Some(Failure::Connect)),
                _ => {}
            }
        }
    }

    /// When the next publication has to be asked for here.
    #[inline]
    pub(super) fn next_publication(&self) -> Option<Moment> {
        let audience = self.audience.as_ref()?;
        audience.publisher?;
        audience.roll.planned(audience.published + 1)
    }

    /// Whether nothing more is to be heard.
    pub(super) fn has_heard(&self) -> bool {
        self.audience.as_ref().is_none_or(|audience| audience.roll.is_over(self.now))
    }

    /// The run is over: so is the publication under way.
    pub(super) fn conclude_listening(&mut self) {
        if let Some(audience) = &mut self.audience {
            audience.roll.close(&mut self.tally.period.listened.reaches);
        }
    }
}
