//! Sets up a ring as a shard does, without starting a server: for `corelane check`.

use std::io;

use corelane_engine::clock::Clock;
use corelane_engine::ring::Ring;
use corelane_engine::ring::poll::PollRing;
#[cfg(target_os = "linux")]
use corelane_engine::ring::uring::UringRing;

use super::threads::ring_sizes;
use crate::server::options::{ExecutorKind, Options, RingBackend};

/// The ring that a shard would get.
#[derive(Debug)]
pub struct RingProbe {
    /// The backend and its features, as the log shows them.
    pub description: String,
    /// Why `io_uring` is not used, if the options allow it.
    pub uring_error: Option<io::Error>,
}

/// Creates the ring that a shard would get with `options`, and closes it again.
///
/// # Errors
///
/// The error with which the server would not start.
pub fn probe_ring(options: &Options) -> io::Result<RingProbe> {
    let mut uring_error = None;
    if options.engine.ring != RingBackend::Poll {
        match describe_uring(options) {
            Ok(description) => return Ok(RingProbe { description, uring_error }),
            Err(error) if options.engine.ring == RingBackend::Uring => return Err(error),
            Err(error) if options.engine.executor == ExecutorKind::Glommio => return Err(error),
            Err(error) => uring_error = Some(error),
        }
    }
    let ring = PollRing::new(&ring_sizes(options), Clock::start())?;
    Ok(RingProbe { description: ring.describe(), uring_error })
}

#[cfg(target_os = "linux")]
fn describe_uring(options: &Options) -> io::Result<String> {
    Ok(UringRing::new(&ring_sizes(options), Clock::start())?.describe())
}

#[cfg(not(target_os = "linux"))]
fn describe_uring(_: &Options) -> io::Result<String> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no io_uring"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probe_describes_requested_ring() {
        let mut options = Options::tiny();
        options.engine.ring = RingBackend::Poll;
        let probe = probe_ring(&options).unwrap();
        assert!(probe.description.starts_with("poll"), "{}", probe.description);
        assert!(probe.uring_error.is_none());
        options.engine.ring = RingBackend::Auto;
        let probe = probe_ring(&options).unwrap();
        let expected = if probe.uring_error.is_none() { "io_uring" } else { "poll" };
        assert!(probe.description.starts_with(expected), "{}", probe.description);
    }
}
