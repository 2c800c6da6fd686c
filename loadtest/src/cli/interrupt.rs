//! Signals that end a run with its partial result. A second one ends the program.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use corelane_load::generator::StopRequest;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_default};

use super::supervisor::is_ignored;

/// Returns a request that SIGINT or SIGTERM makes from now on. Signals that were ignored at start
/// stay ignored.
pub(super) fn stop_on_signal() -> io::Result<StopRequest> {
    let flag = Arc::<AtomicBool>::default();
    for signal in [SIGINT, SIGTERM].into_iter().filter(|signal| !is_ignored(*signal)) {
        // In this order: the first signal finds the flag unset.
        register_conditional_default(signal, Arc::clone(&flag))?;
        register(signal, Arc::clone(&flag))?;
    }
    Ok(StopRequest::of_flag(flag))
}
