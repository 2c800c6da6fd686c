//! Lanes that are processes: each has a child of its own, and hears and says over its pipes.
//!
//! ```text
//!  Away ─ start ─▶ Connecting ─ Started ─▶ Opening ─▶ Open ─ its output ends ─▶ Closing
//!    ▲                 │ Failed                                                    │ both pipes
//!    └─────────────────┴──────────────────────── Ended ◀───────────────── stop ◀───┘ are closed
//! ```
//!
//! What it keeps true: a program that does not come up is not started again before the first
//! request, so that a wrong command is told at once and not when the time for opening is over; in
//! the run it is, like a connection that was lost.

use corelane::engine::ring::{Operation, Registered, Ring, Source, Waker};

use super::lane::State;
use super::worker::Worker;
use crate::children::{Keeper, News};
use crate::dialogue::Refused;
use crate::measure::outcome::Failure;

/// What a worker has where its lanes are processes.
#[derive(Debug)]
pub(super) struct Spawning {
    keeper: Keeper,
    /// Lanes whose program did not come up before the first request.
    given_up: Vec<u32>,
}

impl Spawning {
    /// Lanes with children of this keeper, which wakes the ring of the worker.
    pub(super) fn new(keeper: Keeper, waker: Waker) -> Self {
        keeper.tell(waker);
        Self { keeper, given_up: Vec::new() }
    }

    /// Starts the process of a lane.
    pub(super) fn start(&self, lane: u32) {
        self.keeper.start(lane);
    }

    /// Ends the process of a lane whose pipes have been closed.
    pub(super) fn stop(&self, lane: usize) {
        self.keeper.stop(u32::try_from(lane).unwrap_or(u32::MAX));
    }

    /// Leaves a lane away until the first request.
    pub(super) fn give_up(&mut self, lane: u32) {
        self.given_up.push(lane);
    }
}

impl<R: Ring> Worker<R> {
    /// Lanes that are not tried again before the first request.
    pub(super) fn given_up(&self) -> u64 {
        self.spawning.as_ref().map_or(0, |spawning| spawning.given_up.len() as u64)
    }

    /// From here on lanes that were given up are tried like all others.
    pub(super) fn try_again(&mut self) {
        if let Some(spawning) = &mut self.spawning {
            self.away.extend(spawning.given_up.drain(..));
        }
    }

    /// Hears what has become of children.
    pub(super) fn hear_keeper(&mut self) {
        while let Some(news) = self.spawning.as_ref().and_then(|own| own.keeper.news()) {
            match news {
                News::Started { lane, input, output } => {
                    let ends = [Source::Pipe(output), Source::Pipe(input)];
                    let ends = ends.map(|end| self.ring.register(end));
                    match ends {
                        [Ok(Registered::Socket(hears)), Ok(Registered::Socket(says))] => {
                            self.begin(lane as usize, (hears, says));
                        }
                        ends => self.drop_ends(lane as usize, ends),
                    }
                }
                News::Failed { lane, why } => {
                    self.connecting -= 1;
                    self.tally.period.openings.refuse(Failure::Connect);
                    self.tally.period.refused = Some(why);
                    self.stay_away(lane as usize);
                }
                News::Ended { lane, why } => {
                    if self.lanes[lane as usize].is_lost {
                        self.tally.period.refused = Some(why);
                    }
                    self.come_back(lane as usize);
                }
            }
        }
    }

    /// The ring has no room for both ends.
    #[cold]
    fn drop_ends(&mut self, index: usize, ends: [std::io::Result<Registered>; 2]) {
        self.connecting -= 1;
        let lane = &mut self.lanes[index];
        (lane.state, lane.is_lost) = (State::Closing, false);
        for end in ends {
            match end {
                Ok(Registered::Socket(socket)) => self.ring.submit(Operation::Close(socket)),
                Ok(Registered::Listener(_)) => {}
                Err(error) => {
                    let said = error.to_string();
                    self.note_refusal(Refused { failure: Failure::Connect, said });
                }
            }
        }
        if let Some(spawning) = &self.spawning {
            spawning.stop(index);
        }
    }
}
