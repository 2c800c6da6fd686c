//! Signals that end a run with its partial result. A second one ends the program.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use corelane_load::generator::StopRequest;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use super::supervisor::is_ignored;

/// Returns a request that SIGINT or SIGTERM makes from now on. Signals that were ignored at start
/// stay ignored.
///
/// One thread takes all signals, so that of two at the same time exactly one is the first.
pub(super) fn stop_on_signal() -> io::Result<StopRequest> {
    let ends = [SIGINT, SIGTERM].into_iter().filter(|signal| !is_ignored(*signal));
    let mut signals = Signals::new(ends)?;
    let flag = Arc::<AtomicBool>::default();
    let asked = Arc::clone(&flag);
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            if asked.swap(true, Ordering::Relaxed) {
                emulate_default_handler(signal).unwrap_or(());
            }
        }
    })?;
    Ok(StopRequest::of_flag(flag))
}
