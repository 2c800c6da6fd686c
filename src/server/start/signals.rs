//! The signals that [`super::Server::serve`] and [`super::Server::stdio`] handle.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::SigId;
use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::{flag, low_level};

/// Exit code of a process that a second signal has ended, as of shells: 128 and the number of
/// SIGINT.
const SECOND_SIGNAL_EXIT_CODE: i32 = 130;

/// The second SIGTERM or SIGINT ends the process while this value exists.
#[derive(Debug)]
pub(super) struct SecondSignal {
    handlers: Vec<SigId>,
}

/// Registers SIGTERM, SIGINT and SIGHUP. The second SIGTERM or SIGINT ends the process with
/// [`SECOND_SIGNAL_EXIT_CODE`], without waiting for any thread.
pub(super) fn register() -> io::Result<(Signals, SecondSignal)> {
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
    Ok((signals, second))
}

impl Drop for SecondSignal {
    fn drop(&mut self) {
        for handler in self.handlers.drain(..) {
            low_level::unregister(handler);
        }
    }
}
