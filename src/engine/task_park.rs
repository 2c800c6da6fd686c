//! A task that waits for a shard on its own thread: woken by the shard's waker, or by a thread at
//! the shard's next deadline.
//!
//! Works under any executor of futures. The thread starts with the first deadline and ends when the
//! value is dropped.

use std::fmt;
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};
use std::task;
use std::thread::JoinHandle;

use crate::clock::Clock;
use crate::ring::Waker;
use corelane_base::time::Instant;

#[expect(clippy::disallowed_types, reason = "locked by wake-ups and when a task parks")]
type Mutex<T> = std::sync::Mutex<T>;

/// Where the task that runs a shard waits. Dropping it ends the thread of its deadlines.
pub struct TaskPark {
    shared: Arc<Shared>,
    timer: Option<JoinHandle<()>>,
}

struct Shared {
    clock: Clock,
    state: Mutex<ParkState>,
    /// Notified for an earlier deadline and at the end.
    has_changed: Condvar,
}

#[derive(Debug, Default)]
struct ParkState {
    /// There was a wake-up since the last park.
    is_woken: bool,
    task: Option<task::Waker>,
    deadline: Option<Instant>,
    is_closed: bool,
}

impl TaskPark {
    /// Returns a park whose deadlines are times of `clock`.
    pub fn new(clock: Clock) -> Self {
        let shared = Shared { clock, state: Mutex::default(), has_changed: Condvar::new() };
        Self { shared: Arc::new(shared), timer: None }
    }

    /// Returns a waker of the task that is parked, or else of the next one.
    pub fn waker(&self) -> Waker {
        let shared = Arc::clone(&self.shared);
        Waker::new(move || shared.wake())
    }

    /// Has `task` woken once, by the next wake-up or at `deadline`. Returns `false` if it must not
    /// wait: there was a wake-up since the last call.
    pub fn park(&mut self, task: &task::Waker, deadline: Option<Instant>) -> bool {
        if deadline.is_some() && !self.start_timer() {
            return false;
        }
        let mut state = self.shared.lock();
        if std::mem::take(&mut state.is_woken) {
            return false;
        }
        state.task = Some(task.clone());
        let is_earlier = match (deadline, state.deadline) {
            (Some(next), Some(current)) => next < current,
            (next, _) => next.is_some(),
        };
        state.deadline = deadline;
        if is_earlier {
            self.shared.has_changed.notify_one();
        }
        true
    }

    /// Starts the thread unless it runs. Returns whether it does.
    fn start_timer(&mut self) -> bool {
        if self.timer.is_none() {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("corelane-timer".to_owned());
            self.timer = thread.spawn(move || shared.run_timer()).ok();
        }
        self.timer.is_some()
    }
}

impl Shared {
    /// No code panics with the lock held.
    fn lock(&self) -> MutexGuard<'_, ParkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        let mut state = self.lock();
        state.is_woken = true;
        let task = state.task.take();
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
    }

    /// Wakes at each deadline, until the park is closed.
    fn run_timer(&self) {
        let mut state = self.lock();
        while !state.is_closed {
            let now = self.clock.now();
            state = match state.deadline {
                Some(deadline) if deadline <= now => {
                    state.deadline = None;
                    drop(state);
                    self.wake();
                    self.lock()
                }
                Some(deadline) => {
                    let timeout = deadline.since(now);
                    let waited = self.has_changed.wait_timeout(state, timeout);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.has_changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

impl Drop for TaskPark {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.has_changed.notify_one();
        if let Some(timer) = self.timer.take() {
            // A panic of the thread has been reported by the panic hook.
            timer.join().unwrap_or_default();
        }
    }
}

impl fmt::Debug for TaskPark {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TaskPark").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// Sends a message for each wake-up.
    struct Recorder(mpsc::Sender<()>);

    impl task::Wake for Recorder {
        fn wake(self: Arc<Self>) {
            self.0.send(()).unwrap();
        }
    }

    fn recorder() -> (task::Waker, mpsc::Receiver<()>) {
        let (sender, wakes) = mpsc::channel();
        (Arc::new(Recorder(sender)).into(), wakes)
    }

    #[test]
    fn wake_before_park_prevents_it() {
        let mut park = TaskPark::new(Clock::start());
        let (task, wakes) = recorder();
        park.waker().wake();
        assert!(!park.park(&task, None));
        assert!(park.park(&task, None));
        let waker = park.waker();
        std::thread::spawn(move || waker.wake()).join().unwrap();
        assert_eq!(wakes.try_iter().count(), 1);
        assert!(!park.park(&task, None), "woken since");
    }

    #[test]
    fn deadline_wakes_task_without_executor() {
        let clock = Clock::start();
        let mut park = TaskPark::new(clock);
        let (task, wakes) = recorder();
        assert!(park.park(&task, Some(clock.now().after(Duration::from_hours(1)))));
        assert!(park.park(&task, Some(clock.now().after(Duration::from_millis(1)))));
        wakes.recv_timeout(Duration::from_mins(1)).unwrap();
        assert!(!park.park(&task, None), "the deadline is a wake-up");
        drop(park);
    }
}
