//! The scripted server over lines and over WebSocket.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use tungstenite::protocol::CloseFrame;
use tungstenite::{Error, Message};

use super::engine::{Input, InputKind};
use super::session::Output;

/// Time of a read of a WebSocket, after which its output is looked at.
const SLICE: Duration = Duration::from_millis(5);

/// Serves a connection of lines, whose first message must come within `handshake_timeout`.
pub(crate) fn serve_lines(
    connection: u64,
    stream: &TcpStream,
    engine: &Sender<Input>,
    handshake_timeout: Duration,
) {
    let (reply, output) = channel();
    let writer = stream.try_clone().unwrap();
    thread::spawn(move || write_lines(writer, &output));
    stream.set_read_timeout(Some(handshake_timeout)).unwrap();
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        stream.set_read_timeout(None).unwrap();
        let kind = InputKind::Message { text: line, reply: reply.clone(), http: None };
        if engine.send(Input { connection, kind }).is_err() {
            break;
        }
    }
    engine.send(Input { connection, kind: InputKind::Closed }).ok();
}

fn write_lines(mut stream: TcpStream, output: &Receiver<Output>) {
    while let Ok(Output::Message(message)) = output.recv() {
        if stream.write_all(format!("{message}\n").as_bytes()).is_err() {
            break;
        }
    }
    stream.shutdown(Shutdown::Both).ok();
}

/// Serves a WebSocket.
pub(crate) fn serve_websocket(connection: u64, stream: TcpStream, engine: &Sender<Input>) {
    let Ok(mut socket) = tungstenite::accept(stream) else { return };
    socket.get_ref().set_read_timeout(Some(SLICE)).unwrap();
    let (reply, output) = channel();
    loop {
        for output in output.try_iter() {
            let sent = match output {
                Output::Message(message) => socket.send(Message::text(message.to_string())),
                Output::Close(code) => {
                    let frame = CloseFrame { code: code.into(), reason: "".into() };
                    socket.close(Some(frame))
                }
            };
            if sent.is_err() {
                break;
            }
        }
        match socket.read() {
            Ok(Message::Text(text)) => {
                let (text, reply) = (text.to_string(), reply.clone());
                let kind = InputKind::Message { text, reply, http: None };
                if engine.send(Input { connection, kind }).is_err() {
                    break;
                }
            }
            Ok(_) => {}
            Err(Error::Io(error))
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
    }
    engine.send(Input { connection, kind: InputKind::Closed }).ok();
}
