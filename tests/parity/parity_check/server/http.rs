//! The scripted server over HTTP and Server-Sent Events: a request for each connection.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::engine::{HttpContext, Input, InputKind};
use super::messages::{NO_TOKEN, status};
use super::mutation::Mutation;
use super::session::Output;

/// Longest time without an answer; calls of `slow` take less.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

struct Request {
    method: String,
    path: String,
    query: String,
    context: HttpContext,
    last_event_id: Option<String>,
    body: Vec<u8>,
}

/// Serves one request.
pub(crate) fn serve_http(
    connection: u64,
    mut stream: TcpStream,
    engine: &Sender<Input>,
    mutation: Mutation,
) {
    let Ok(mut request) = read_request(&mut stream) else { return };
    if mutation == Mutation::SessionHeaderUnread {
        request.context.session = None;
    }
    let (reply, output) = channel();
    let send = |kind| engine.send(Input { connection, kind }).is_ok();
    let (method, path) = (request.method.as_str(), request.path.as_str());
    // A client that has gone needs no response.
    let _unsent = match (method, path) {
        ("GET", "/parity/events") => {
            serve_events(connection, &mut stream, &request, engine, mutation)
        }
        ("GET", _) if path.starts_with("/parity/schemas/") => serve_schema(&mut stream, path),
        ("DELETE", "/parity") => {
            let session = request.context.session.unwrap_or_default();
            send(InputKind::Delete { session, reply });
            match output.recv_timeout(ANSWER_TIMEOUT) {
                Ok(Output::Message(error)) if error.is_object() => {
                    write_message(&mut stream, &error, Mutation::Correct)
                }
                _ => write_response(&mut stream, 204, "", ""),
            }
        }
        ("POST", "/parity") => {
            let takes_chunks = request.context.takes_chunks;
            let http = Some(request.context);
            send(InputKind::Message { bytes: request.body, reply, http });
            if takes_chunks {
                write_stream(&mut stream, &output)
            } else {
                write_answer(&mut stream, &output, mutation)
            }
        }
        _ => write_response(&mut stream, 404, "", ""),
    };
}

fn read_request(stream: &mut TcpStream) -> io::Result<Request> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let length = stream.read(&mut buffer)?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&buffer[..length]);
        let mut fields = [httparse::EMPTY_HEADER; 32];
        let mut request = httparse::Request::new(&mut fields);
        let parsed = request.parse(&bytes).map_err(io::Error::other)?;
        let httparse::Status::Complete(head) = parsed else { continue };
        let field = |name: &str| {
            let mut fields = request.headers.iter();
            let found = fields.find(|field| field.name.eq_ignore_ascii_case(name));
            found.map(|field| String::from_utf8_lossy(field.value).into_owned())
        };
        let body = field("content-length").map_or(0, |length| length.parse().unwrap());
        if bytes.len() < head + body {
            continue;
        }
        let target = request.path.unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let token = field("authorization");
        let accept = field("accept").unwrap_or_default();
        let is_post = request.method == Some("POST");
        let context = HttpContext {
            session: field("mcp-session-id"),
            token: token.and_then(|it| it.strip_prefix("Bearer ").map(str::to_owned)),
            takes_chunks: is_post && accept.starts_with("text/event-stream"),
        };
        return Ok(Request {
            method: request.method.unwrap_or_default().to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            context,
            last_event_id: field("last-event-id"),
            body: bytes[head..].to_vec(),
        });
    }
}

fn write_response(stream: &mut TcpStream, status: u16, fields: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status} S\r\n{fields}Content-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

fn write_message(stream: &mut TcpStream, message: &Value, mutation: Mutation) -> io::Result<()> {
    let mut fields = "Content-Type: application/json\r\n".to_owned();
    let session = message["sessionId"].as_str();
    if let Some(session) = session.filter(|_| mutation != Mutation::SessionHeaderHidden) {
        write!(fields, "Mcp-Session-Id: {session}\r\n").unwrap();
    }
    let error = &message["error"];
    let has_challenge =
        mutation != Mutation::MissingTokenWithoutChallenge || error["message"] != NO_TOKEN;
    if error["code"] == "error.auth.unauthorized" && has_challenge {
        fields += "WWW-Authenticate: Bearer\r\n";
    }
    match (error["retryAfter"].as_u64(), mutation) {
        (None, _) | (_, Mutation::RetryAfterHeaderMissing) => {}
        (_, Mutation::RetryAfterHeaderTooShort) => fields += "Retry-After: 0\r\n",
        (Some(seconds), _) => write!(fields, "Retry-After: {seconds}\r\n").unwrap(),
    }
    write_response(stream, status(message, mutation), &fields, &message.to_string())
}

/// Writes the answer of a message; that of a call may come late. The engine drops the sender of a
/// message that has none.
fn write_answer(
    stream: &mut TcpStream,
    output: &Receiver<Output>,
    mutation: Mutation,
) -> io::Result<()> {
    match output.recv_timeout(ANSWER_TIMEOUT) {
        Ok(Output::Message(message)) => write_message(stream, &message, mutation),
        Ok(Output::Close(_)) | Err(_) => write_response(stream, 202, "", ""),
    }
}

fn event_stream_head(session: &str, mutation: Mutation) -> String {
    let unbuffered = match mutation {
        Mutation::EventsBuffered => "",
        _ => "X-Accel-Buffering: no\r\n",
    };
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n\
         Mcp-Session-Id: {session}\r\n{unbuffered}\r\n"
    )
}

fn event(message: &Value, mutation: Mutation) -> String {
    let kind = message["type"].as_str().unwrap_or_default();
    let name = match kind {
        "handshakeAck" => "handshake",
        "stream.chunk" if mutation == Mutation::ChunksUnnamed => "message",
        kind => kind,
    };
    let id = match (message["streamId"].as_str(), message["seq"].as_u64()) {
        (Some(stream), Some(seq)) => format!("id: {stream}:{seq}\n"),
        _ => String::new(),
    };
    format!("event: {name}\n{id}data: {message}\n\n")
}

/// Writes the response and the chunks of a request as events.
fn write_stream(stream: &mut TcpStream, output: &Receiver<Output>) -> io::Result<()> {
    stream.write_all(event_stream_head("", Mutation::Correct).as_bytes())?;
    while let Ok(Output::Message(message)) = output.recv_timeout(ANSWER_TIMEOUT) {
        stream.write_all(event(&message, Mutation::Correct).as_bytes())?;
        if message["chunkType"] == "eos" {
            break;
        }
    }
    Ok(())
}

/// Makes the handshake of a query; returns the acknowledgement or the error.
fn handshake_of_query(connection: u64, request: &Request, engine: &Sender<Input>) -> Value {
    let mut handshake = json!({"type": "handshake", "capabilities": {}});
    for (name, value) in request.query.split('&').filter_map(|pair| pair.split_once('=')) {
        match name {
            "capabilities" => {
                value.split(',').for_each(|it| handshake["capabilities"][it] = json!(true));
            }
            "lastAckSeq" => {
                let pairs = value.split(',').filter_map(|pair| pair.rsplit_once(':'));
                for (stream, seq) in pairs {
                    handshake["lastAckSeq"][stream] = json!(seq.parse::<u64>().unwrap());
                }
            }
            name => handshake[name] = json!(value),
        }
    }
    let (reply, output) = channel();
    let http = Some(HttpContext { session: None, ..request.context.clone() });
    let kind = InputKind::Message { bytes: handshake.to_string().into_bytes(), reply, http };
    engine.send(Input { connection, kind }).ok();
    match output.recv_timeout(ANSWER_TIMEOUT) {
        Ok(Output::Message(message)) => message,
        _ => Value::Null,
    }
}

fn serve_events(
    connection: u64,
    stream: &mut TcpStream,
    request: &Request,
    engine: &Sender<Input>,
    mutation: Mutation,
) -> io::Result<()> {
    let session = if let Some(session) = &request.context.session {
        session.clone()
    } else {
        let reply = handshake_of_query(connection, request, engine);
        let Some(session) = reply["sessionId"].as_str() else {
            return write_message(stream, &reply, Mutation::Correct);
        };
        session.to_owned()
    };
    let (sender, output) = channel();
    let last_event_id = request.last_event_id.clone();
    let kind = InputKind::Attach { session: session.clone(), output: sender, last_event_id };
    engine.send(Input { connection, kind }).ok();
    let (mut reader, detached) = (stream.try_clone()?, engine.clone());
    let kind = InputKind::Detached { session: session.clone() };
    thread::spawn(move || {
        // The client sends nothing more.
        reader.read_exact(&mut [0]).ok();
        detached.send(Input { connection, kind }).ok();
    });
    let first = output.recv_timeout(ANSWER_TIMEOUT);
    let Ok(Output::Message(first)) = first else { return Ok(()) };
    if first["type"] == "error" {
        return write_message(stream, &first, Mutation::Correct);
    }
    stream.write_all(event_stream_head(&session, mutation).as_bytes())?;
    stream.write_all(event(&first, mutation).as_bytes())?;
    while let Ok(Output::Message(message)) = output.recv() {
        stream.write_all(event(&message, mutation).as_bytes())?;
    }
    stream.shutdown(Shutdown::Both)
}

fn serve_schema(stream: &mut TcpStream, path: &str) -> io::Result<()> {
    let name = path.rsplit('/').next().unwrap_or_default();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/parity");
    match fs::read_to_string(folder.join(name)) {
        Ok(schema) => {
            let fields = "Content-Type: application/schema+json\r\n";
            write_response(stream, 200, fields, &schema)
        }
        Err(_) => write_response(stream, 404, "", ""),
    }
}
