//! The thread on which declared tools wait for their programs.

use std::io;
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// A tokio runtime on a thread of its own. Dropping it ends the thread; what still runs on it is
/// cancelled.
#[derive(Debug)]
pub struct IoThread {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl IoThread {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// The system has no thread or descriptor left.
    pub fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("corelane-io".to_owned());
        // An error of the channel means the same as its message: the owner is gone.
        let thread = thread.spawn(move || drop(runtime.block_on(stopped)))?;
        Ok(Self { handle, stop: Some(stop), thread: Some(thread) })
    }

    /// The runtime.
    pub const fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for IoThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported by its hook.
            thread.join().ok();
        }
    }
}
