//! Readings of the memory of the process and its control group, off the request path.
//!
//! Invariants: the thread runs only while the memory guard is on; shards receive a step when it has
//! changed, and again with each reading while connections have to be closed.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, PoisonError};
use std::thread;

use super::memory_source::MemorySource;
use crate::guard::pressure::{MemoryReading, PressureGuard, PressureRules, PressureStep};
use crate::server::options::MemoryGuardOptions;
use crate::telemetry::event::{Event, OverloadEvent};

#[expect(clippy::disallowed_types, reason = "locked for each reading, by no shard")]
type Mutex<T> = std::sync::Mutex<T>;

/// The memory guard of a server.
#[derive(Debug, Default)]
pub struct MemoryWatch(Mutex<WatchState>);

#[derive(Debug, Default)]
struct WatchState {
    rules: PressureRules,
    guard: PressureGuard,
    /// Ends the thread when it is dropped.
    thread: Option<SyncSender<()>>,
    has_ended: bool,
}

impl MemoryWatch {
    /// Applies options: starts the thread of the guard, or ends it.
    ///
    /// # Errors
    ///
    /// The system refuses a thread.
    pub fn set_options(
        self: &Arc<Self>,
        options: &MemoryGuardOptions,
        publish: impl Fn(PressureStep) + Send + Sync + 'static,
    ) -> io::Result<()> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // One with another interval is replaced.
        state.thread = None;
        state.rules = pressure_rules(options);
        if !state.rules.is_enabled() || state.has_ended {
            // The shards end its steps with the reload.
            state.guard = PressureGuard::default();
            return Ok(());
        }
        let (stop, stopped) = sync_channel::<()>(0);
        let (watch, interval) = (Arc::downgrade(self), options.interval);
        let run = move || {
            let source = MemorySource::system();
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                let Some(watch) = watch.upgrade() else { return };
                watch.apply(&source.read(), &publish);
            }
        };
        thread::Builder::new().name("corelane-memory".into()).spawn(run)?;
        state.thread = Some(stop);
        Ok(())
    }

    /// Applies a reading.
    pub fn apply(&self, reading: &MemoryReading, publish: &impl Fn(PressureStep)) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let WatchState { rules, guard, .. } = &mut *state;
        let has_changed = guard.update(*rules, reading);
        let step = guard.step();
        drop(state);
        if has_changed {
            let (used_percent, stalled_percent) = (reading.used_percent(), reading.stalled_percent);
            let step = step.as_str();
            let event = OverloadEvent::PressureChanged { step, used_percent, stalled_percent };
            Event::from(event).emit();
        }
        if has_changed || step == PressureStep::CloseSlowest {
            publish(step);
        }
    }

    /// Ends the thread for good.
    pub fn end(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (state.thread, state.has_ended) = (None, true);
    }
}

/// Returns the rules of `options`.
pub(super) fn pressure_rules(options: &MemoryGuardOptions) -> PressureRules {
    PressureRules {
        begins_at: [
            options.refuse_connections_percent,
            options.refuse_messages_percent,
            options.end_streams_percent,
            options.close_slowest_percent,
        ],
        stalled_percent: options.stalled_percent,
    }
}

/// Ends the thread of a memory guard when it is dropped.
#[derive(Debug)]
pub struct EndWatch(pub Arc<MemoryWatch>);

impl Drop for EndWatch {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::*;

    #[test]
    fn shards_receive_changed_steps_only() {
        let watch = MemoryWatch::default();
        let rules = PressureRules { begins_at: [50, 0, 0, 90], stalled_percent: 0 };
        watch.0.lock().unwrap().rules = rules;
        let published = AtomicU8::new(0);
        let publish = |_| _ = published.fetch_add(1, Ordering::Relaxed);
        for used_bytes in [10, 60, 60, 95, 95, 10, 10] {
            watch.apply(
                &MemoryReading { used_bytes, limit_bytes: 100, stalled_percent: 0 },
                &publish,
            );
        }
        assert_eq!(published.into_inner(), 4);
    }
}
