//! Listeners: the addresses that a host program chooses, and what the options say of them.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;

use super::proxies::ListenerProxies;
use super::threads::ListenerFd;
use super::tls::ListenerTls;
use crate::connection::listener::{self, ListenerOptions};
use crate::server::acceptance::ListenerKind;
use crate::server::options::{Options, TcpOptions};
use crate::telemetry::event::Event;
use crate::telemetry::label::Transport;

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

    /// Returns the first address that `address`, the argument of `call`, stands for.
    pub(super) fn resolve(
        call: &'static str,
        address: impl ToSocketAddrs + fmt::Debug,
    ) -> io::Result<SocketAddr> {
        let first = match address.to_socket_addrs() {
            Ok(mut all) => all.next().ok_or_else(|| io::Error::other("it resolves to no address")),
            Err(error) => Err(error),
        };
        first.map_err(|error| {
            let text = format!(
                "{call}({address:?}): {error}; write HOST:PORT, such as \"127.0.0.1:8080\""
            );
            io::Error::new(error.kind(), text)
        })
    }
}

/// The bound listeners of a server.
#[derive(Debug)]
pub(super) struct Bound {
    /// Those of each shard.
    pub(super) listeners: Vec<Vec<ListenerFd>>,
    pub(super) addresses: Vec<(Transport, SocketAddr)>,
    pub(super) admin_address: Option<SocketAddr>,
}

/// Binds the listeners of clients, one per shard, and that of operators.
pub(super) fn bind(
    options: &Options,
    endpoints: &[(Transport, Option<SocketAddr>)],
    shards: usize,
    listener_tls: &ListenerTls,
    listener_proxies: &ListenerProxies,
) -> io::Result<Bound> {
    let mut listeners: Vec<_> = (0..shards).map(|_| Vec::new()).collect();
    let mut addresses = Vec::new();
    for &(transport, address) in endpoints {
        let Some(address) = address else { continue };
        let descriptors = bind_listeners(&options.tcp, address, shards)?;
        if let Some(first) = descriptors.first() {
            addresses.push((transport, listener::local_address(first)?));
        }
        for (shard, descriptor) in listeners.iter_mut().zip(descriptors) {
            let (tls, proxies) = (listener_tls.of(transport), listener_proxies.of(transport));
            let kind = ListenerKind::Clients(transport);
            shard.push(ListenerFd { descriptor, kind, tls, proxies });
        }
    }
    let mut admin_address = None;
    if let (Some(address), Some(shard)) = (options.admin.address, listeners.first_mut()) {
        for descriptor in bind_listeners(&options.tcp, address, 1)? {
            admin_address = Some(listener::local_address(&descriptor)?);
            let (kind, tls) = (ListenerKind::Operators, listener_tls.of_operators());
            shard.push(ListenerFd { descriptor, kind, tls, proxies: None });
        }
    }
    Ok(Bound { listeners, addresses, admin_address })
}

/// Logs what the server listens on.
pub(super) fn log_listening(
    options: &Options,
    addresses: &[(Transport, SocketAddr)],
    admin_address: Option<SocketAddr>,
    tls: &ListenerTls,
) {
    if let Some(address) = admin_address {
        Event::Listening { listener: "admin", address, path: "" }.emit();
    }
    for (transport, address) in addresses {
        let is_encrypted = tls.of(*transport).is_some();
        let listener = match transport {
            Transport::Http if is_encrypted => "https",
            Transport::Tcp if is_encrypted => "tls",
            transport => transport.as_str(),
        };
        let path = if *transport == Transport::Http { &*options.http.path } else { "" };
        Event::Listening { listener, address: *address, path }.emit();
        if let (Transport::Http, Some(path)) = (transport, &options.websocket.path) {
            let listener = if is_encrypted { "wss" } else { Transport::WebSocket.as_str() };
            Event::Listening { listener, address: *address, path }.emit();
        }
    }
}

/// Opens one listener per shard on the same address.
fn bind_listeners(
    tcp: &TcpOptions,
    address: SocketAddr,
    shards: usize,
) -> io::Result<Vec<OwnedFd>> {
    listener::listen_shared(address, shards, &listener_options(tcp))
}

/// Binds `address` for a moment, without listening.
///
/// # Errors
///
/// The server could not listen there.
#[cfg(feature = "cli")]
pub(super) fn probe_address(tcp: &TcpOptions, address: SocketAddr) -> io::Result<()> {
    listener::probe(address, &listener_options(tcp))
}

fn listener_options(tcp: &TcpOptions) -> ListenerOptions {
    ListenerOptions {
        keepalive: tcp.keepalive,
        nodelay: tcp.nodelay,
        receive_buffer_bytes: tcp.receive_buffer_bytes,
        send_buffer_bytes: tcp.send_buffer_bytes,
        backlog_max: tcp.backlog_max,
        reuse_port: tcp.reuse_port,
    }
}
