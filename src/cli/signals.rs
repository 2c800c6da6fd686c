//! The second SIGTERM or SIGINT, which ends the process at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::signal::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Exit code of a process that a second signal has ended, as of shells: 128 and the number of
/// SIGINT.
const SECOND_SIGNAL_EXIT_CODE: i32 = 130;

/// Has the second SIGTERM or SIGINT from now on end the process, with
/// [`SECOND_SIGNAL_EXIT_CODE`] and without waiting for any thread. Call after the handlers of the
/// first one are registered.
pub(crate) fn end_at_second_signal() -> io::Result<()> {
    let is_first_received = Arc::<AtomicBool>::default();
    for signal in [SIGTERM, SIGINT] {
        // In this order: the first signal must not find its own flag.
        flag::register_conditional_shutdown(
            signal,
            SECOND_SIGNAL_EXIT_CODE,
            Arc::clone(&is_first_received),
        )?;
        flag::register(signal, Arc::clone(&is_first_received))?;
    }
    Ok(())
}
