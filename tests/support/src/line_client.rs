//! `LineClient`: a client of messages in lines, over a TCP connection or the pipes of a process.
//!
//! It checks only that each line is a JSON-RPC message.

use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::{ChildStdin, ChildStdout};

use serde_json::{Value, json};

use crate::TIMEOUT;
use crate::messages::{initialize, notification};
use crate::sockets;

/// One connection.
pub struct LineClient {
    reader: BufReader<Stream>,
}

impl LineClient {
    /// Connects without sending anything.
    pub fn connect(address: SocketAddr) -> Self {
        Self::new(Stream::Socket(sockets::connect(address)))
    }

    /// Accepts a connection, to be the peer of a client.
    pub fn accept(listener: &TcpListener) -> Self {
        let (socket, _) = listener.accept().expect("a client connects");
        socket.set_read_timeout(Some(TIMEOUT)).expect("a socket option");
        socket.set_write_timeout(Some(TIMEOUT)).expect("a socket option");
        Self::new(Stream::Socket(socket))
    }

    /// Connects with socket buffers of about `bytes` in each direction.
    pub fn connect_with_buffers(address: SocketAddr, bytes: usize) -> Self {
        Self::new(Stream::Socket(sockets::connect_with_buffers(address, bytes)))
    }

    /// Connects from the local address `from`.
    pub fn connect_from(from: IpAddr, address: SocketAddr) -> Self {
        Self::new(Stream::Socket(sockets::connect_from(from, address)))
    }

    /// Creates a client over the standard input and output of a server process.
    pub fn over_pipes(stdin: ChildStdin, stdout: ChildStdout) -> Self {
        Self::new(Stream::Pipes(Some(stdin), stdout))
    }

    fn new(stream: Stream) -> Self {
        Self { reader: BufReader::new(stream) }
    }

    /// Returns the socket of a TCP connection.
    pub fn socket(&self) -> &TcpStream {
        match self.reader.get_ref() {
            Stream::Socket(socket) => socket,
            Stream::Pipes(..) => panic!("pipes are no socket"),
        }
    }

    /// Sends bytes as they are.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).expect("server reads");
    }

    /// Sends `text` and a newline.
    pub fn send(&mut self, text: impl Display) {
        self.send_line(text.to_string().as_bytes());
    }

    /// Sends `bytes` and a newline.
    pub fn send_line(&mut self, bytes: &[u8]) {
        self.send_bytes(&[bytes, b"\n"].concat());
    }

    /// Like [`Self::send_bytes`]; returns errors of the connection.
    pub fn try_send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.reader.get_mut().write_all(bytes)
    }

    /// Like [`Self::send`]; returns errors of the connection.
    pub fn try_send(&mut self, text: impl Display) -> io::Result<()> {
        self.reader.get_mut().write_all(format!("{text}\n").as_bytes())
    }

    /// Receives a line without its terminator, or `None` at an orderly end of the stream.
    pub fn receive_line(&mut self) -> Option<String> {
        self.read_line().expect("line or end of stream")
    }

    /// Like [`Self::receive_line`]; a connection reset is also `None`.
    pub fn receive_line_or_reset(&mut self) -> Option<String> {
        match self.read_line() {
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => None,
            line => line.expect("line, end of stream or reset"),
        }
    }

    fn read_line(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        assert_eq!(line.pop(), Some('\n'), "incomplete line: {line}");
        assert!(!line.contains('\r'), "line contains a carriage return: {line}");
        Ok(Some(line))
    }

    /// Receives the next message.
    pub fn receive(&mut self) -> Value {
        self.receive_text().0
    }

    /// Receives the next message; returns it parsed and as text.
    pub fn receive_text(&mut self) -> (Value, String) {
        let line = self.receive_line().expect("message before the end of stream");
        let message = serde_json::from_str(&line).expect("server sends JSON");
        if let Value::Object(message) = &message {
            assert_eq!(message.get("jsonrpc"), Some(&json!("2.0")), "{line}");
        }
        (message, line)
    }

    /// Sends `text` and receives the next message.
    pub fn exchange(&mut self, text: impl Display) -> Value {
        self.send(text);
        self.receive()
    }

    /// Sends a `ping`; the next message must be its response.
    pub fn ping(&mut self) {
        let pong = self.exchange(r#"{"jsonrpc":"2.0","id":"alive?","method":"ping"}"#);
        assert_eq!(pong, json!({"jsonrpc": "2.0", "id": "alive?", "result": {}}));
    }

    /// Completes the handshake of a legacy protocol version.
    pub fn handshake(&mut self, revision: &str) {
        let response = self.exchange(initialize(0, revision));
        assert_eq!(response["result"]["protocolVersion"], revision, "{response}");
        self.send(notification("notifications/initialized"));
    }

    /// Closes the sending side; messages can still be received.
    pub fn shutdown_write(&mut self) {
        match self.reader.get_mut() {
            Stream::Socket(socket) => sockets::shutdown_write(socket),
            Stream::Pipes(stdin, _) => *stdin = None,
        }
    }

    /// Receives all messages until an orderly end of the stream.
    pub fn receive_rest(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.receive_line())
            .map(|line| serde_json::from_str(&line).expect("server sends JSON"))
            .collect()
    }

    /// Like [`Self::receive_rest`]; the connection may also be reset.
    pub fn receive_rest_or_reset(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.receive_line_or_reset())
            .map(|line| serde_json::from_str(&line).expect("server sends JSON"))
            .collect()
    }

    /// Receives all bytes until an orderly end of the stream.
    pub fn receive_rest_bytes(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.reader.read_to_end(&mut bytes).expect("orderly end of stream");
        bytes
    }

    /// Waits for an orderly end of the stream, before which no message may arrive.
    pub fn expect_end(&mut self) {
        assert_eq!(self.receive_line(), None);
    }

    /// Like [`Self::expect_end`]; the connection may also be reset.
    pub fn expect_end_or_reset(&mut self) {
        assert_eq!(self.receive_line_or_reset(), None);
    }

    /// Closes the connection with a TCP reset.
    pub fn reset(self) {
        sockets::reset_on_close(self.socket());
    }
}

/// Where the lines of a client go.
enum Stream {
    Socket(TcpStream),
    /// Standard input, until it is closed, and standard output of the server.
    Pipes(Option<ChildStdin>, ChildStdout),
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Socket(socket) => socket.read(bytes),
            Self::Pipes(_, stdout) => {
                sockets::wait_until_readable(&*stdout)?;
                stdout.read(bytes)
            }
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Socket(socket) => socket.write(bytes),
            Self::Pipes(stdin, _) => stdin.as_mut().expect("sending side is open").write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
