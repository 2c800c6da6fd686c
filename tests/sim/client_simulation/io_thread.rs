//! The I/O of clients in a simulated world.

use std::io;

use corelane::client::{IoDriver, IoThread};
use corelane_engine::ring::sim::{SimRing, World};
use corelane_engine::ring::{ParkTimeout, RingOptions};
use corelane_engine::shard_loop::{Driver, ShardLoop, TurnStatus};

/// The loop of an I/O thread; its resources are dropped once it has ended.
pub(crate) struct SimIoThread {
    /// Given up when the clients are closed.
    thread: Option<IoThread>,
    shard: Option<ShardLoop<SimRing, IoDriver>>,
}

impl SimIoThread {
    pub(crate) fn new(world: &World, options: RingOptions, seed: u64) -> io::Result<Self> {
        let (thread, shard) = IoThread::simulated(world.ring(options), seed)?;
        Ok(Self { thread: Some(thread), shard: Some(shard) })
    }

    /// Returns the handle for its clients, until [`SimIoThread::stop`].
    pub(crate) const fn handle(&self) -> Option<&IoThread> {
        self.thread.as_ref()
    }

    /// Lets the loop end once its clients are gone.
    pub(crate) fn stop(&mut self) {
        self.thread = None;
    }

    pub(crate) const fn has_ended(&self) -> bool {
        self.shard.is_none()
    }

    /// Number of objects that it holds for its clients; zero at rest.
    pub(crate) fn held_objects(&self) -> usize {
        self.shard.as_ref().map_or(0, |shard| shard.driver().held_objects())
    }

    /// Returns whether it holds nothing, and its ring neither.
    pub(crate) fn is_idle(&self) -> bool {
        let has_released = |shard: &ShardLoop<SimRing, IoDriver>| {
            shard.driver().held_objects() == 0 && shard.ring().resource_usage().is_idle()
        };
        self.shard.as_ref().is_none_or(has_released)
    }

    /// Runs one turn.
    ///
    /// # Errors
    ///
    /// The loop has ended without releasing something.
    pub(crate) fn turn(&mut self) -> Result<(), String> {
        let Some(shard) = &mut self.shard else { return Ok(()) };
        if shard.run_turn(ParkTimeout::Infinite) == TurnStatus::Continue {
            return Ok(());
        }
        let (held, usage) = (shard.driver().held_objects(), shard.ring().resource_usage());
        let is_released = held == 0 && usage.receive_buffers_held == 0;
        if !is_released {
            return Err(format!("the I/O thread ends with {held} objects and {usage:?}"));
        }
        self.shard = None;
        Ok(())
    }

    pub(crate) fn describe(&self) -> String {
        let Some(shard) = &self.shard else { return "an I/O thread has ended".to_owned() };
        let deadline = Driver::<SimRing>::next_deadline(shard.driver());
        let (held, usage) = (self.held_objects(), shard.ring().resource_usage());
        format!("I/O thread: {held} objects, next deadline {deadline:?}, {usage:?}")
    }
}
