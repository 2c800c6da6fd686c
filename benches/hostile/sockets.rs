//! Connections from a given address.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

/// Connects from `from` to `to`. A port other than 0 may be that of a connection that has ended.
pub(crate) fn connect(
    from: SocketAddr,
    to: SocketAddr,
    timeout: Duration,
) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    if from.port() != 0 {
        socket.set_reuse_address(true)?;
    }
    socket.bind(&from.into())?;
    socket.connect_timeout(&to.into(), timeout)?;
    Ok(socket.into())
}
