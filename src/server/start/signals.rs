//! The signals that [`super::Server::serve`] and [`super::Server::stdio`] handle.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, SyncSender};
use std::task::{Context, Poll, Wake, Waker};

use corelane_engine::clock::unix_ms;
use signal_hook::SigId;
use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::{flag, low_level};

use super::handle::Handle;
use super::running::Running;
use super::threads::StartError;
use crate::telemetry::counters::Counters;
use crate::telemetry::event::Event;
use crate::telemetry::label::DrainCause;

/// Exit code of a process that a second signal has ended, as of shells: 128 and the number of
/// SIGINT.
const SECOND_SIGNAL_EXIT_CODE: i32 = 130;

/// The callback for SIGHUP.
pub(super) type ReloadCallback = Box<dyn Fn(&Handle) -> Result<(), String> + Send>;

/// The callback of a program without [`Server::on_reload`](super::Server::on_reload).
pub(super) fn reload_nothing(_: &Handle) -> Result<(), String> {
    Err("this program reads no configuration again".to_owned())
}

/// The second SIGTERM or SIGINT ends the process while this value exists.
#[derive(Debug)]
struct SecondSignal {
    handlers: Vec<SigId>,
}

/// SIGTERM, SIGINT and SIGHUP, handled by the thread that waits for the server.
#[derive(Debug)]
pub(super) struct SignalLoop {
    signals: Signals,
    _second: SecondSignal,
}

impl SignalLoop {
    /// Registers the signals. The second SIGTERM or SIGINT ends the process with
    /// [`SECOND_SIGNAL_EXIT_CODE`], without waiting for any thread.
    pub(super) fn register() -> io::Result<Self> {
        let signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
        let mut second = SecondSignal { handlers: Vec::with_capacity(4) };
        let is_first_received = Arc::<AtomicBool>::default();
        for signal in [SIGTERM, SIGINT] {
            // In this order: the first signal must not find its own flag.
            let is_received = || Arc::clone(&is_first_received);
            let shutdown =
                flag::register_conditional_shutdown(signal, SECOND_SIGNAL_EXIT_CODE, is_received());
            second.handlers.push(shutdown?);
            second.handlers.push(flag::register(signal, is_received())?);
        }
        Ok(Self { signals, _second: second })
    }

    /// Handles signals until the server has ended: SIGTERM and SIGINT drain it, SIGHUP calls
    /// `reload`.
    pub(super) fn join(
        mut self,
        mut running: Running,
        reload: ReloadCallback,
    ) -> Result<Counters, StartError> {
        let waker = Waker::from(Arc::new(EndOfServer(self.signals.handle())));
        let handle = running.handle();
        let mut reloads = Reloads { callback: Some(reload), requests: None };
        let context = Context::from_waker(&waker);
        if let Poll::Ready(ended) = running.poll_end(&context) {
            return ended;
        }
        // Ends when the waker closes it.
        for signal in &mut self.signals {
            match signal {
                SIGHUP => reloads.request(&handle)?,
                SIGINT => handle.drain_because(DrainCause::Sigint),
                _ => handle.drain_because(DrainCause::Sigterm),
            }
        }
        running.join()
    }
}

/// Ends the loop over signals.
struct EndOfServer(signal_hook::iterator::Handle);

impl Wake for EndOfServer {
    fn wake(self: Arc<Self>) {
        self.0.close();
    }
}

/// The thread that runs the callback of SIGHUP, started by the first one.
struct Reloads {
    callback: Option<ReloadCallback>,
    requests: Option<SyncSender<()>>,
}

impl Reloads {
    /// Has the thread call the callback, once more if it is running.
    fn request(&mut self, handle: &Handle) -> io::Result<()> {
        if let Some(callback) = self.callback.take() {
            let (requests, receiver) = mpsc::sync_channel(1);
            let handle = handle.clone();
            // Not joined: a callback that waits must not keep the server from ending.
            std::thread::Builder::new().name("corelane-reload".into()).spawn(move || {
                for () in receiver {
                    let reloaded = callback(&handle);
                    handle.reloads.record(reloaded.is_ok(), unix_ms() / 1_000);
                    Event::Reloaded { error: reloaded.err().as_deref() }.emit();
                }
            })?;
            self.requests = Some(requests);
        }
        if let Some(requests) = &self.requests {
            // Refused while a call waits to begin, which reads what this one would.
            requests.try_send(()).ok();
        }
        Ok(())
    }
}

impl Drop for SecondSignal {
    fn drop(&mut self) {
        for handler in self.handlers.drain(..) {
            low_level::unregister(handler);
        }
    }
}
