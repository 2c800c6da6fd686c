//! The scripted server over lines and over WebSocket.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tungstenite::http::StatusCode;
use tungstenite::protocol::CloseFrame;
use tungstenite::{Error, Message};

use super::engine::{Input, InputKind};
use super::mutation::Mutation;
use super::session::Output;

/// Time of a read of a WebSocket, after which its output is looked at.
const SLICE: Duration = Duration::from_millis(5);

/// Serves a connection of lines.
pub(crate) fn serve_lines(connection: u64, stream: &TcpStream, engine: &Sender<Input>) {
    let (reply, output) = channel();
    let writer = stream.try_clone().unwrap();
    thread::spawn(move || write_lines(writer, &output));
    let kind = InputKind::Opened { output: reply.clone() };
    engine.send(Input { connection, kind }).ok();
    for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
        let kind = InputKind::Message { bytes: line, reply: reply.clone(), http: None };
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
pub(crate) fn serve_websocket(
    connection: u64,
    stream: TcpStream,
    engine: &Sender<Input>,
    mutation: Mutation,
) {
    #[expect(clippy::result_large_err, reason = "the signature is that of the library")]
    let check = |request: &Request, response: Response| {
        let has_token = request.headers().contains_key("authorization");
        if has_token || mutation != Mutation::AuthTokenRefused {
            return Ok(response);
        }
        let mut refused = ErrorResponse::new(None);
        *refused.status_mut() = StatusCode::UNAUTHORIZED;
        Err(refused)
    };
    let Ok(mut socket) = tungstenite::accept_hdr(stream, check) else { return };
    socket.get_ref().set_read_timeout(Some(SLICE)).unwrap();
    let (reply, output) = channel();
    let kind = InputKind::Opened { output: reply.clone() };
    engine.send(Input { connection, kind }).ok();
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
                let bytes = text.as_bytes().to_vec();
                let kind = InputKind::Message { bytes, reply: reply.clone(), http: None };
                if engine.send(Input { connection, kind }).is_err() {
                    break;
                }
            }
            Ok(_) => {}
            Err(Error::Io(error))
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(Error::Utf8(_)) => {
                let (bytes, reply) = (vec![0xff], reply.clone());
                let kind = InputKind::Message { bytes, reply, http: None };
                engine.send(Input { connection, kind }).ok();
            }
            Err(_) => break,
        }
    }
    engine.send(Input { connection, kind: InputKind::Closed }).ok();
}
