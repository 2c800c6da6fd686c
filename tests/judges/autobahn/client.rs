//! An echo client: the WebSocket codec of the client over blocking sockets.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use corelane::client::WebSocketEcho;

/// Bytes of a message, at most; more than those of any case.
const MESSAGE_BYTES_MAX: usize = 32 << 20;
/// Time in which the suite sends or closes; a case takes up to ten seconds.
const READ_TIMEOUT: Duration = Duration::from_mins(1);

/// Connects to `path` and sends each message back until the connection ends. Returns the messages.
pub(crate) fn echo(address: SocketAddr, path: &str) -> io::Result<Vec<String>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    let mut echo = WebSocketEcho::begin(&address.to_string(), path, MESSAGE_BYTES_MAX)?;
    let (mut buffer, mut messages) = (vec![0; 8 << 10], Vec::new());
    loop {
        if let Some(output) = echo.take_output() {
            // Fails if the suite has closed the connection already.
            drop(stream.write_all(&output));
        }
        let length = match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
            Err(error) => return Err(error),
        };
        let received = echo.receive(&buffer[..length]);
        let texts = echo.take_messages().into_iter();
        messages.extend(texts.map(|text| String::from_utf8_lossy(&text).into_owned()));
        if received.is_err() {
            close(stream, echo.take_output());
            break;
        }
    }
    Ok(messages)
}

/// Sends what is left, and reads to the end: unread bytes would reset the connection before the
/// suite has read it. Errors mean that the suite has closed the connection.
fn close(mut stream: TcpStream, output: Option<Vec<u8>>) {
    if let Some(output) = output {
        drop(stream.write_all(&output));
    }
    drop(stream.shutdown(Shutdown::Write));
    drop(io::copy(&mut stream, &mut io::sink()));
}
