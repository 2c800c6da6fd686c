//! A server whose requests depend on the results of earlier ones, and that logs what it is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use corelane_base::time::Instant;
use corelane_engine::clock::Clock;
use corelane_load::target::Transport;
use serde_json::{Value, json};

use crate::hostile::scripted_server::{
    Reaction, ReceivedRequest, ScriptedServer, framed, response,
};

/// Pages of the list.
const PAGES: u64 = 3;

/// What the server does.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ShopModel {
    /// `create` is answered by an error.
    pub(super) refuses_create: bool,
    /// Each request with this number, from 1, or a multiple of it is answered by status 429.
    pub(super) limits_each: Option<u64>,
}

/// What the server was asked.
#[derive(Clone, Debug, Default)]
pub(super) struct ShopLog {
    pub(super) connections: u64,
    pub(super) listed: u64,
    pub(super) created: u64,
    pub(super) read: u64,
    pub(super) limited: u64,
    pub(super) cancelled: u64,
    /// Requests that do not follow from the ones before them.
    pub(super) mistakes: Vec<String>,
    /// Notes of orders.
    pub(super) notes: BTreeSet<String>,
    /// Notes of orders with the tokens of their requests.
    pub(super) tokens: BTreeSet<(String, String)>,
    /// Shortest time between an answer and the next request of a connection.
    pub(super) pause_min: Option<Duration>,
    requests: u64,
    sessions: BTreeMap<usize, Session>,
}

/// State of one connection.
#[derive(Clone, Debug, Default)]
struct Session {
    /// The cursor that was sent.
    cursor: Option<u64>,
    /// Whether the last page was sent.
    is_listed: bool,
    order: Option<u64>,
    answered: Option<Instant>,
}

/// The server.
pub(super) struct Shop {
    server: ScriptedServer,
    log: Arc<Mutex<ShopLog>>,
}

impl Shop {
    pub(super) fn new(transport: Transport, model: ShopModel) -> Self {
        let log = Arc::new(Mutex::new(ShopLog::default()));
        let (shared, clock) = (Arc::clone(&log), Clock::start());
        let server = ScriptedServer::new(transport, move |request: &ReceivedRequest<'_>| {
            let mut log = shared.lock().unwrap();
            let reaction = log.react(transport, model, request, clock.now());
            let session = log.sessions.entry(request.connection).or_default();
            session.answered = Some(clock.now());
            reaction
        });
        Self { server, log }
    }

    pub(super) fn target(&self) -> String {
        self.server.target()
    }

    /// Returns what the server was asked so far.
    pub(super) fn log(&self) -> ShopLog {
        let log: MutexGuard<'_, ShopLog> = self.log.lock().unwrap();
        let (connections, cancelled) = (self.server.connections(), self.server.cancelled());
        ShopLog { connections, cancelled, ..log.clone() }
    }
}

impl ShopLog {
    fn react(
        &mut self,
        transport: Transport,
        model: ShopModel,
        request: &ReceivedRequest<'_>,
        now: Instant,
    ) -> Reaction {
        let call = request.call;
        let mut session = self.sessions.remove(&request.connection).unwrap_or_default();
        if let Some(answered) = session.answered {
            let pause = now.since(answered);
            self.pause_min = Some(self.pause_min.map_or(pause, |shortest| shortest.min(pause)));
        }
        self.requests += 1;
        if model.limits_each.is_some_and(|each| self.requests.is_multiple_of(each)) {
            self.limited += 1;
            self.sessions.insert(request.connection, session);
            let head = "429 Too Many Requests\r\nRetry-After: 0";
            return Reaction::Send(response(head, "{}"));
        }
        let (name, arguments) = (&call["params"]["name"], &call["params"]["arguments"]);
        let outcome = match (call["method"].as_str(), name.as_str()) {
            (Some("resources/list"), _) => Ok(self.list(&mut session, &call["params"])),
            (Some("tools/call"), Some("slow")) => Err(None),
            (Some("tools/call"), Some("create")) => {
                let token = request.authorization.unwrap_or_default().to_owned();
                let note = arguments["note"].as_str().unwrap_or_default().to_owned();
                self.notes.insert(note.clone());
                self.tokens.insert((note, token));
                self.created += 1;
                if model.refuses_create { Err(Some(())) } else { Ok(self.create(&mut session)) }
            }
            (Some("tools/call"), Some(item)) => {
                self.read += 1;
                if item != format!("item {PAGES}") || arguments["order"] != json!(session.order) {
                    self.mistakes.push(format!("{call} with {session:?}"));
                }
                Ok(json!({ "content": [] }))
            }
            _ => Err(Some(())),
        };
        self.sessions.insert(request.connection, session);
        let id = &call["id"];
        let message = match outcome {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(Some(())) => {
                json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32000, "message": "no" } })
            }
            Err(None) => return Reaction::Send(Vec::new()),
        };
        Reaction::Send(framed(transport, &message.to_string()))
    }

    fn list(&mut self, session: &mut Session, params: &Value) -> Value {
        self.listed += 1;
        let expected = session.cursor.map(|cursor| json!(format!("page {cursor}")));
        if params.get("cursor") != expected.as_ref() {
            self.mistakes.push(format!("{params} with {session:?}"));
        }
        let page = session.cursor.unwrap_or(1);
        session.cursor = (page < PAGES).then_some(page + 1);
        session.is_listed = page == PAGES;
        let mut result = json!({ "resources": [{ "uri": "a:b", "name": format!("item {page}") }] });
        if let Some(next) = session.cursor {
            result["nextCursor"] = json!(format!("page {next}"));
        }
        result
    }

    fn create(&mut self, session: &mut Session) -> Value {
        let order = 1_000 + self.created;
        session.order = Some(order);
        json!({ "content": [], "structuredContent": { "order": order } })
    }
}
