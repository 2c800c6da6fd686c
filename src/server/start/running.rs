//! A running server, as a host program holds it.

use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use super::Guard;
use super::handle::Handle;
use super::threads::{ShardThreads, StartError};
use crate::telemetry::counters::Counters;
use crate::telemetry::label::Transport;

/// A running server. Dropping it stops the server: requests in flight are cancelled and get an
/// error whose `data.retryable` is true, and connections are closed. The drop does not wait for
/// that, nor for the audit lines of the last calls; [`Running::shutdown`], [`Running::wait`] and
/// [`Running::join`] do.
///
/// ```no_run
/// # use corelane::{Catalog, Server, model::Implementation};
/// # use std::time::Duration;
/// # async fn example(signal: impl Future<Output = ()>) -> Result<(), Box<dyn std::error::Error>> {
/// # let catalog = Catalog::builder(Implementation::new("demo", "1.0.0")).build()?;
/// let running = Server::builder(catalog).http("127.0.0.1:0").start()?;
/// println!("listening on {:?}", running.http_address());
/// signal.await;
/// let counters = running.shutdown(Duration::from_secs(10)).await?;
/// println!("{} requests served", counters.requests.served());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Running {
    addresses: Vec<(Transport, SocketAddr)>,
    admin_address: Option<SocketAddr>,
    handle: Handle,
    threads: ShardThreads,
    /// Values of the callbacks of [`Server::on_start`](super::Server::on_start).
    guards: Vec<Guard>,
    /// The result of the server, once it has ended; a failure as text.
    ended: Option<Result<Counters, String>>,
}

impl Running {
    pub(super) const fn new(
        addresses: Vec<(Transport, SocketAddr)>,
        admin_address: Option<SocketAddr>,
        handle: Handle,
        threads: ShardThreads,
        guards: Vec<Guard>,
    ) -> Self {
        Self { addresses, admin_address, handle, threads, guards, ended: None }
    }

    /// The addresses that it listens on, with the port that the kernel chose for port 0.
    pub fn addresses(&self) -> &[(Transport, SocketAddr)] {
        &self.addresses
    }

    /// The address of HTTP and WebSocket, if the server listens on one.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.address_of(Transport::Http)
    }

    /// The address of JSON lines over TCP, if the server listens on one.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.address_of(Transport::Tcp)
    }

    fn address_of(&self, transport: Transport) -> Option<SocketAddr> {
        let listener = self.addresses.iter().find(|(known, _)| *known == transport);
        listener.map(|(_, address)| *address)
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

    /// Waits until the server has ended, after [`Handle::drain`], a failure, or the end of its
    /// input. Returns the counters of all shards. A future that is dropped has no effect: it can
    /// stand in a `select!`, and be created again. Blocks no thread and needs no runtime.
    ///
    /// # Errors
    ///
    /// If a shard failed. The second call returns the text of the first error.
    pub async fn wait(&mut self) -> Result<Counters, StartError> {
        std::future::poll_fn(|context| self.poll_end(context)).await
    }

    /// [`Running::wait`], polled.
    pub(super) fn poll_end(&mut self, context: &Context<'_>) -> Poll<Result<Counters, StartError>> {
        if let Some(ended) = self.earlier_end() {
            return Poll::Ready(ended);
        }
        self.threads.poll_join(context).map(|ended| self.finish(ended))
    }

    /// Stops the server: accepts nothing more, completes the requests in flight within `grace`,
    /// cancels those that take longer (their clients get an error whose `data.retryable` is true,
    /// for which there is a second more), and waits for the end. Returns the counters of all
    /// shards. A drain in progress is shortened to `grace`, and never extended.
    ///
    /// # Errors
    ///
    /// If a shard failed.
    pub async fn shutdown(mut self, grace: Duration) -> Result<Counters, StartError> {
        self.handle.drain_within(grace);
        self.wait().await
    }

    /// [`Running::wait`], blocking the thread.
    ///
    /// # Errors
    ///
    /// If a shard failed.
    pub fn join(mut self) -> Result<Counters, StartError> {
        if let Some(ended) = self.earlier_end() {
            return ended;
        }
        let ended = self.threads.join();
        self.finish(ended)
    }

    fn earlier_end(&self) -> Option<Result<Counters, StartError>> {
        self.ended.clone().map(|ended| ended.map_err(StartError::Shard))
    }

    /// Records the result of the server.
    fn finish(&mut self, ended: Result<Counters, StartError>) -> Result<Counters, StartError> {
        self.guards.clear();
        self.handle.audit.flush();
        self.ended = Some(ended.as_ref().map_err(ToString::to_string).cloned());
        ended.inspect(|counters| self.handle.log_drain_finished(counters))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.handle.drain_within(Duration::ZERO);
        }
    }
}
