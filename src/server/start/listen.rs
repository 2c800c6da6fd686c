//! Listeners: the addresses that a host program chooses, and what the options say of them.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;

use crate::connection::listener::{self, ListenerOptions};
use crate::guard::origin::{InvalidEntry, OriginGuard, OriginOptions};
use crate::server::options::{HttpOptions, Options, TcpOptions};

/// The addresses of `Server::tcp` and `Server::http`.
#[derive(Debug, Default)]
pub(super) struct Listen {
    pub(super) tcp: Option<io::Result<SocketAddr>>,
    pub(super) http: Option<io::Result<SocketAddr>>,
}

impl Listen {
    /// Replaces the addresses in `options`, if there was a call.
    pub(super) fn apply_to(&mut self, options: &mut Options) -> io::Result<()> {
        if self.tcp.is_some() || self.http.is_some() {
            options.tcp.address = self.tcp.take().transpose()?;
            options.http.address = self.http.take().transpose()?;
        }
        Ok(())
    }

    /// Returns the first address that `address` stands for.
    pub(super) fn resolve(address: impl ToSocketAddrs) -> io::Result<SocketAddr> {
        let first = address.to_socket_addrs()?.next();
        first.ok_or_else(|| io::Error::other("the name of a listener resolves to no address"))
    }
}

/// Returns the `Host` and `Origin` check of the HTTP endpoint.
pub(super) fn origin_guard(options: &Options) -> Result<OriginGuard, InvalidEntry> {
    let HttpOptions { address, hosts, origins, .. } = &options.http;
    OriginGuard::new(&OriginOptions {
        is_loopback: address.is_some_and(|address| address.ip().is_loopback()),
        hosts: hosts.clone(),
        origins: origins.clone(),
    })
}

/// Returns the `Host` and `Origin` check of the admin address.
pub(super) fn operator_guard(options: &Options) -> Result<OriginGuard, InvalidEntry> {
    let is_loopback = options.admin.address.is_some_and(|it| it.ip().is_loopback());
    OriginGuard::new(&OriginOptions { is_loopback, hosts: Vec::new(), origins: Vec::new() })
}

/// Opens one listener per shard on the same address.
pub(super) fn bind_listeners(
    tcp: &TcpOptions,
    address: SocketAddr,
    shards: usize,
) -> io::Result<Vec<OwnedFd>> {
    let options = ListenerOptions {
        keepalive: tcp.keepalive,
        nodelay: tcp.nodelay,
        receive_buffer_bytes: tcp.receive_buffer_bytes,
        send_buffer_bytes: tcp.send_buffer_bytes,
        backlog_max: tcp.backlog_max,
        reuse_port: tcp.reuse_port,
    };
    listener::listen_shared(address, shards, &options)
}
