//! A line-based server with `subscriptions/listen` that misbehaves when it notifies.

#![expect(clippy::disallowed_types, reason = "its threads share the subscribed streams")]

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

/// How the server notifies of a change caused by a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum NotifyBehaviour {
    /// Only this many streams are notified.
    Limited(usize),
    /// Each stream is notified twice.
    Twice,
    /// One stream is ended with its result; the others are notified.
    End,
    /// The connection of one stream is closed; the others are notified.
    Close,
    /// The call is not answered; the streams are notified.
    LosePublish,
    /// The call fails, and no stream is notified.
    RejectPublish,
    /// Subscriptions are rejected.
    RejectListen,
}

/// A running server.
pub(crate) struct NotifyingServer {
    pub(crate) address: SocketAddr,
    state: Arc<SharedState>,
}

/// State shared by the connections.
struct SharedState {
    behaviour: NotifyBehaviour,
    /// Streams in the order of subscription, each with its id.
    streams: Mutex<Vec<(TcpStream, Value)>>,
    listens: AtomicUsize,
}

impl NotifyingServer {
    pub(crate) fn start(behaviour: NotifyBehaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (streams, listens) = (Mutex::default(), AtomicUsize::new(0));
        let state = Arc::new(SharedState { behaviour, streams, listens });
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, room) = (stream.unwrap(), Arc::clone(&shared));
                thread::spawn(move || room.serve(stream));
            }
        });
        Self { address, state }
    }

    /// Returns the number of subscriptions.
    pub(crate) fn listens(&self) -> usize {
        self.state.listens.load(Ordering::SeqCst)
    }
}

impl SharedState {
    fn serve(&self, mut stream: TcpStream) {
        for line in BufReader::new(stream.try_clone().unwrap()).lines() {
            let Ok(line) = line else { return };
            let request: Value = serde_json::from_str(&line).unwrap();
            let answer = match request["method"].as_str().unwrap() {
                "subscriptions/listen" => self.listen(&stream, &request),
                "notifications/cancelled" => String::new(),
                _ => self.publish(&request["id"]),
            };
            // The client may have closed the connection.
            stream.write_all(answer.as_bytes()).ok();
        }
    }

    fn listen(&self, stream: &TcpStream, request: &Value) -> String {
        let (id, granted) = (&request["id"], &request["params"]["notifications"]);
        if self.behaviour == NotifyBehaviour::RejectListen {
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
        if self.behaviour == NotifyBehaviour::RejectPublish {
            return line(&json!({ "id": id, "error": { "code": -32_603, "message": "no" } }));
        }
        for (place, (stream, id)) in self.streams.lock().unwrap().iter_mut().enumerate() {
            let method = "notifications/tools/list_changed";
            let notification = line(&json!({ "method": method, "params": { "_meta": name(id) } }));
            let bytes = match (self.behaviour, place) {
                (NotifyBehaviour::Limited(count), place) if place >= count => continue,
                (NotifyBehaviour::Twice, _) => notification.repeat(2),
                (NotifyBehaviour::End, 0) => {
                    line(&json!({ "id": id, "result": { "_meta": name(id) } }))
                }
                (NotifyBehaviour::Close, 0) => {
                    stream.shutdown(Shutdown::Both).unwrap();
                    continue;
                }
                _ => notification,
            };
            stream.write_all(bytes.as_bytes()).ok();
        }
        if self.behaviour == NotifyBehaviour::LosePublish {
            return String::new();
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
