//! A server of lines that lets streams listen and tells them of changes in a manner of its own.

#![expect(clippy::disallowed_types, reason = "its threads share who listens; it is no shard")]

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

/// How a server tells of a change that a call has caused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Manner {
    /// Only so many streams are told.
    Some(usize),
    /// Each is told twice.
    Twice,
    /// One stream is ended with its result; the others are told.
    End,
    /// The connection of one stream is closed; the others are told.
    Close,
    /// The call fails, and nobody is told.
    Refuse,
    /// Nobody may listen.
    Deaf,
}

/// A running server; its threads end with their connections.
pub(crate) struct Teller {
    pub(crate) address: SocketAddr,
    room: Arc<Room>,
}

/// What its connections share.
struct Room {
    manner: Manner,
    /// Streams in the order in which they asked, each with its id.
    streams: Mutex<Vec<(TcpStream, Value)>>,
    listens: AtomicUsize,
}

impl Teller {
    pub(crate) fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (streams, listens) = (Mutex::default(), AtomicUsize::new(0));
        let room = Arc::new(Room { manner, streams, listens });
        let shared = Arc::clone(&room);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, room) = (stream.unwrap(), Arc::clone(&shared));
                thread::spawn(move || room.serve(stream));
            }
        });
        Self { address, room }
    }

    /// How often a stream was asked for.
    pub(crate) fn listens(&self) -> usize {
        self.room.listens.load(Ordering::SeqCst)
    }
}

impl Room {
    fn serve(&self, mut stream: TcpStream) {
        for line in BufReader::new(stream.try_clone().unwrap()).lines() {
            let Ok(line) = line else { return };
            let request: Value = serde_json::from_str(&line).unwrap();
            let answer = match request["method"].as_str().unwrap() {
                "subscriptions/listen" => self.listen(&stream, &request),
                _ => self.publish(&request["id"]),
            };
            // A client that has gone wants no answer.
            stream.write_all(answer.as_bytes()).ok();
        }
    }

    fn listen(&self, stream: &TcpStream, request: &Value) -> String {
        let (id, granted) = (&request["id"], &request["params"]["notifications"]);
        if self.manner == Manner::Deaf {
            return line(&json!({ "id": id, "error": { "code": -32_601, "message": "no" } }));
        }
        self.listens.fetch_add(1, Ordering::SeqCst);
        self.streams.lock().unwrap().push((stream.try_clone().unwrap(), id.clone()));
        let method = "notifications/subscriptions/acknowledged";
        line(
            &json!({ "method": method, "params": { "_meta": name(id), "notifications": granted } }),
        )
    }

    fn publish(&self, id: &Value) -> String {
        if self.manner == Manner::Refuse {
            return line(&json!({ "id": id, "error": { "code": -32_603, "message": "no" } }));
        }
        for (place, (stream, id)) in self.streams.lock().unwrap().iter_mut().enumerate() {
            let method = "notifications/tools/list_changed";
            let told = line(&json!({ "method": method, "params": { "_meta": name(id) } }));
            let words = match (self.manner, place) {
                (Manner::Some(count), place) if place >= count => continue,
                (Manner::Twice, _) => told.repeat(2),
                (Manner::End, 0) => line(&json!({ "id": id, "result": { "_meta": name(id) } })),
                (Manner::Close, 0) => {
                    stream.shutdown(Shutdown::Both).unwrap();
                    continue;
                }
                _ => told,
            };
            stream.write_all(words.as_bytes()).ok();
        }
        line(&json!({ "id": id, "result": { "content": [] } }))
    }
}

fn name(id: &Value) -> Value {
    json!({ "io.modelcontextprotocol/subscriptionId": id })
}

fn line(message: &Value) -> String {
    format!("{message}\n")
}
