//! A running server, as a host program holds it.

use std::net::SocketAddr;
use std::sync::mpsc;

use signal_hook::consts::signal::{SIGHUP, SIGINT};
use signal_hook::iterator::Signals;

use super::handle::Handle;
use super::threads::{ShardThreads, StartError};
use super::{Guard, ReloadCallback};
use crate::telemetry::counters::Counters;
use crate::telemetry::label::{DrainCause, Transport};

/// A running server.
#[derive(Debug)]
pub struct Running {
    pub(super) addresses: Vec<(Transport, SocketAddr)>,
    pub(super) admin_address: Option<SocketAddr>,
    pub(super) handle: Handle,
    pub(super) threads: ShardThreads,
    /// Values of the callbacks of [`Server::on_start`].
    pub(super) guards: Vec<Guard>,
}

impl Running {
    /// The addresses that it listens on, with the port that the kernel chose for port 0.
    pub fn addresses(&self) -> &[(Transport, SocketAddr)] {
        &self.addresses
    }

    /// The address of the endpoints of operators, if it is not that of clients
    /// ([`crate::server::options::AdminOptions::address`]).
    pub const fn admin_address(&self) -> Option<SocketAddr> {
        self.admin_address
    }

    /// Returns a handle to control the server from other threads.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Waits until the server has ended, after [`Handle::drain`] or the end of its input. Returns
    /// the counters of all shards.
    ///
    /// # Errors
    ///
    /// If a shard failed.
    pub fn join(self) -> Result<Counters, StartError> {
        let Self { handle, threads, guards, .. } = self;
        let ended = threads.join(|| handle.drain_because(DrainCause::ShardFailed));
        drop(guards);
        ended.inspect(|counters| handle.log_drain_finished(counters))
    }

    /// Waits for SIGTERM, SIGINT or the end of the server.
    pub(super) fn join_until_signal(
        self,
        mut signals: Signals,
        reload: ReloadCallback,
    ) -> Result<Counters, StartError> {
        let watch = signals.handle();
        let (reload_requests, reloads) = mpsc::sync_channel(1);
        let handle = self.handle();
        // Not joined: a callback that waits must not keep the server from ending.
        std::thread::Builder::new().name("corelane-reload".into()).spawn(move || {
            for () in reloads {
                reload(&handle);
            }
        })?;
        let handle = self.handle();
        let listener = std::thread::Builder::new().name("corelane-signal".into());
        let listener = listener.spawn(move || {
            for signal in &mut signals {
                match signal {
                    SIGHUP => {
                        // Refused while a call waits to begin, which reads what this one would.
                        reload_requests.try_send(()).ok();
                    }
                    SIGINT => handle.drain_because(DrainCause::Sigint),
                    _ => handle.drain_because(DrainCause::Sigterm),
                }
            }
        })?;
        let ended = self.join();
        watch.close();
        // The listener only loops over signals; a panic in it no longer matters.
        drop(listener.join());
        ended
    }
}
