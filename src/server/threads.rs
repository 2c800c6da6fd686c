//! The threads of a server: each builds its ring, reports, and runs its shard to the end.

use std::io;
use std::rc::Rc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use super::driver::ShardDriver;
use super::launch::StartError;
use super::options::{Options, RingBackend};
use super::shard::{self, Seed};
use crate::engine::clock::Clock;
use crate::engine::host::{Host, Native};
use crate::engine::placement::Placement;
use crate::engine::ring::poll::PollRing;
use crate::engine::ring::uring::UringRing;
use crate::engine::ring::{Patience, Ring, RingOptions};
use crate::engine::shard::{Shard, Turn};
use crate::observe::counters::Counters;
use crate::observe::event::Event;

/// Running shards.
#[derive(Debug)]
pub(super) struct Threads {
    handles: Vec<JoinHandle<Result<Counters, io::Error>>>,
    granted: Vec<String>,
}

/// Starts a thread for each seed and waits until every one of them has its ring.
pub(super) fn start(placement: &Placement, seeds: Vec<Seed>) -> Result<Threads, StartError> {
    let (report, reports) = channel();
    let mut handles = Vec::with_capacity(seeds.len());
    let shards = seeds.len();
    for (index, seed) in seeds.into_iter().enumerate() {
        let report = report.clone();
        let thread = std::thread::Builder::new().name(format!("corelane-{index}"));
        handles.push(thread.spawn(move || live(seed, &report))?);
    }
    let _ = placement;
    drop(report);
    let mut granted = Vec::with_capacity(shards);
    for _ in 0..shards {
        match reports.recv() {
            Ok(Ok(description)) => granted.push(description),
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => break,
        }
    }
    Ok(Threads { handles, granted })
}

type Report = Sender<Result<String, io::Error>>;

/// One thread's life.
fn live(seed: Seed, report: &Report) -> Result<Counters, io::Error> {
    let options = std::sync::Arc::clone(&seed.options);
    let sizes = options.engine.ring_sizes;
    let clock = Clock::start();
    if options.engine.ring != RingBackend::Poll {
        match UringRing::new(&sizes, clock) {
            Ok(ring) => return run(ring, seed, report),
            Err(error) if options.engine.ring == RingBackend::Uring => {
                drop(report.send(Err(error)));
                return Ok(Counters::default());
            }
            Err(_) => {}
        }
    }
    match PollRing::new(&sizes, clock) {
        Ok(ring) => run(ring, seed, report),
        Err(error) => {
            drop(report.send(Err(error)));
            Ok(Counters::default())
        }
    }
}

fn run<R: Ring>(ring: R, seed: Seed, report: &Report) -> Result<Counters, io::Error> {
    let description = ring.describe();
    let host: Rc<dyn Host> = Rc::new(Native::new(ring.waker()));
    let mut shard: Shard<R, ShardDriver> = shard::build(ring, host, seed)?;
    drop(report.send(Ok(description)));
    while shard.turn(Patience::Forever) == Turn::More {}
    Ok(shard.driver().counters())
}

impl Threads {
    /// Tells what the shards run on.
    pub(super) fn announce(&self, options: &Options, placement: &Placement) {
        for (shard, granted) in (0_u16..).zip(&self.granted) {
            Event::RingGranted { shard, ring: granted }.emit();
        }
        let _ = (options, placement);
    }

    /// Waits for every shard; adds up what they counted.
    pub(super) fn join(self) -> Result<Counters, StartError> {
        let mut total = Counters::default();
        for handle in self.handles {
            match handle.join() {
                Ok(counted) => total.add(&counted?),
                Err(_) => return Err(StartError::Shard("it panicked".into())),
            }
        }
        Ok(total)
    }
}
