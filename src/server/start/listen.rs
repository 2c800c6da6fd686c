//! The addresses that a host program listens on, in place of those of the options.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use crate::server::options::Options;

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
