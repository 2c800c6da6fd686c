//! The programs and sessions of one upstream, and who shares them.
//!
//! Invariants: what belongs to a session or to a principal serves no other one; there are at most
//! `children_max` of them; the program of a call that may require input serves that call only,
//! and ends with it; one that is recycled ends after the last of its calls.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock, PoisonError, RwLockWriteGuard, Weak};

use corelane_base::principal::Principal;
use corelane_client::{
    Client, ClientError, ClientErrorKind, IoThread, LogMessage, ReconnectMode, ReconnectOptions,
    ServerInfo, Target,
};
use corelane_protocol::eras::{ClientCapabilities, LoggingLevel};
use corelane_protocol::error::{Error, ErrorKind};

use crate::declared::Share;
use crate::gateway::input::CallEvents;
use crate::gateway::output::error_of;
use crate::gateway::recycling::Usage;
use crate::gateway::settings::UpstreamSettings;
use crate::gateway::status::{ChildRecord, UpstreamStatus};
use crate::service::{HandlerError, RequestInfo, SessionSlot};
use crate::telemetry::event::UpstreamEvent;

#[expect(clippy::disallowed_types, reason = "held for the few steps of one operation")]
type Mutex<T> = std::sync::Mutex<T>;
#[expect(clippy::disallowed_types, reason = "read for the clone of a pointer")]
type RwLock<T> = std::sync::RwLock<T>;

/// One upstream: its programs or sessions.
pub struct Pool {
    pub settings: UpstreamSettings,
    pub status: Arc<UpstreamStatus>,
    io: IoThread,
    list_connection: RwLock<ListConnection>,
    by_principal: Mutex<HashMap<Option<String>, Arc<Connection>>>,
    children: Arc<AtomicUsize>,
    /// Every connection that is not dropped.
    connections: Mutex<Vec<Weak<Connection>>>,
    is_disabled: AtomicBool,
    /// Called when lists come from another connection, in place of a manifest also the first one.
    on_moved: OnMoved,
}

/// Is called on shards, and must not block.
pub type OnMoved = Box<dyn Fn() + Send + Sync>;

/// The one that the lists are read from, and that all callers share where they do.
#[derive(Default)]
struct ListConnection {
    current: Option<Arc<Connection>>,
    /// The one that takes its place when it is connected. The place is that of the current one
    /// until its calls have ended.
    next: Option<(Arc<Connection>, Place)>,
}

/// A client of an upstream: one program, or one session.
pub struct Connection {
    pub client: Client,
    /// Set with the handshake.
    server: OnceLock<Arc<ServerInfo>>,
    /// Counts as one of the children while it lives.
    place: OnceLock<Place>,
    /// Counts it among the children of the upstream.
    child: Arc<ChildRecord>,
    /// It has no events.
    is_http: bool,
    /// Another one takes its place with the next request.
    is_replaced: AtomicBool,
    log_readers: Arc<LogReaders>,
}

/// The calls in flight that get log messages. A message does not say which call it is of: where one
/// caller has the connection, the first one gets it, else the only one, or none.
#[derive(Debug)]
struct LogReaders {
    is_private: bool,
    /// A call was cancelled, whose messages may still come.
    has_cancelled: AtomicBool,
    calls: Mutex<Vec<Weak<CallEvents>>>,
}

impl LogReaders {
    fn add(&self, events: &Arc<CallEvents>) {
        let mut calls = lock(&self.calls);
        if calls.len() == calls.capacity() {
            calls.retain(|call| call.strong_count() > 0);
        }
        calls.push(Arc::downgrade(events));
    }

    fn push(&self, message: LogMessage) {
        let calls = lock(&self.calls);
        let mut live = calls.iter().filter_map(Weak::upgrade);
        let is_certain = !self.has_cancelled.load(Ordering::Relaxed);
        let first = live.next().filter(|_| self.is_private || is_certain && live.next().is_none());
        drop(live);
        drop(calls);
        if let Some(first) = first {
            first.push_log(message);
        }
    }
}

/// One of the places for children.
struct Place(Arc<AtomicUsize>);

impl Place {
    /// Takes a place, if fewer than `max` are taken.
    fn take(children: &Arc<AtomicUsize>, max: usize) -> Option<Self> {
        let take = |taken: usize| (taken < max).then_some(taken + 1);
        let taken = children.try_update(Ordering::AcqRel, Ordering::Acquire, take);
        taken.ok().map(|_| Self(Arc::clone(children)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The connections of one legacy session, by the addresses of their pools.
#[derive(Default)]
struct SessionConnections(Mutex<HashMap<Box<str>, Arc<Connection>>>);

/// Whom a connection serves.
enum ConnectionScope<'a> {
    Everyone,
    Principal(Option<String>),
    Session(&'a SessionSlot),
    Call,
}

/// Input that an upstream may require of a client. Roots alone are a reason for a program of its
/// own only where the settings say so: most clients declare them, and few servers require them.
const INPUTS: [ClientCapabilities; 3] = [
    ClientCapabilities::ELICITATION_FORM,
    ClientCapabilities::ELICITATION_URL,
    ClientCapabilities::SAMPLING,
];

impl Connection {
    /// Ends its program or session; its calls in flight fail.
    pub async fn close(self: Arc<Self>) {
        self.client.clone().close().await;
    }

    fn is_current(&self) -> bool {
        !self.is_replaced.load(Ordering::Acquire)
    }

    /// Whether it serves one caller.
    pub fn is_private(&self) -> bool {
        self.log_readers.is_private
    }

    /// Notes that a call has ended without its response.
    pub fn note_cancelled(&self) {
        self.log_readers.has_cancelled.store(true, Ordering::Relaxed);
    }

    /// Lets a call have the log messages.
    pub fn add_log_reader(&self, events: &Arc<CallEvents>) {
        self.log_readers.add(events);
    }

    /// The events of a call in flight beside `own`, if the connection serves one caller, whose
    /// input requests a server up to 2025-11-25 does not attribute.
    pub fn other_call(&self, own: &Arc<CallEvents>) -> Option<Arc<CallEvents>> {
        let calls = lock(&self.log_readers.calls);
        let is_legacy = self.server.get().is_some_and(|server| !server.revision.is_modern());
        let is_one_caller = self.is_private() && is_legacy;
        let mut live = calls.iter().filter_map(Weak::upgrade).filter(|_| is_one_caller);
        live.find(|it| !Arc::ptr_eq(it, own))
    }

    /// Returns what the server declared in the handshake, and connects if it is not connected.
    pub async fn server(&self) -> Result<&Arc<ServerInfo>, ClientError> {
        if let Some(server) = self.server.get() {
            return Ok(server);
        }
        let server = self.client.server().await?;
        if self.is_http {
            self.child.open();
        }
        Ok(self.server.get_or_init(|| server))
    }
}

impl Pool {
    /// Creates the pool, which connects to nothing yet.
    pub fn new(
        settings: UpstreamSettings,
        status: Arc<UpstreamStatus>,
        io: &IoThread,
        on_moved: OnMoved,
    ) -> Self {
        Self {
            settings,
            status,
            io: io.clone(),
            list_connection: RwLock::default(),
            by_principal: Mutex::default(),
            children: Arc::default(),
            connections: Mutex::default(),
            is_disabled: AtomicBool::new(false),
            on_moved,
        }
    }

    /// The connection that the lists are read from. A server up to 2025-11-25 may list tools only
    /// for clients that give input, so this one declares that it does. Where all callers share the
    /// server they use this one, too: its lists, their changes and those of resources are of the
    /// program that runs the calls. Calls that may
    /// require input do not, and a request to the client gets an error.
    ///
    /// # Errors
    ///
    /// The target or its options are invalid, or the upstream is disabled.
    pub fn list_connection(&self) -> Result<Arc<Connection>, ClientError> {
        if self.is_disabled.load(Ordering::Acquire) {
            let text = "an operator has disabled it";
            return Err(ClientError::new(ClientErrorKind::Connect, text));
        }
        let known = self.list_connection.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.current.as_ref().filter(|it| it.is_current()) {
            return Ok(Arc::clone(known));
        }
        drop(known);
        let mut known = self.write_list_connection();
        if let Some(known) = known.current.as_ref().filter(|it| it.is_current()) {
            return Ok(Arc::clone(known));
        }
        let is_first = known.current.is_none();
        let connection = self.connect(every_input(), None, false, !is_first)?;
        *known = ListConnection { current: Some(Arc::clone(&connection)), next: None };
        drop(known);
        if is_first && self.settings.manifest.is_some() {
            (self.on_moved)();
        }
        Ok(connection)
    }

    /// The connection that all callers share, for one more call. If `connection` has had its calls
    /// or its time, another one takes its place as soon as it is connected, and it ends with its
    /// last call. Without a place for both of them, or if the other one does not connect, it stays.
    async fn admit(&self, mut connection: Arc<Connection>) -> Result<Arc<Connection>, ClientError> {
        while !connection.child.usage.admit() {
            let Some(next) = self.next_connection(&connection)? else { break };
            let connected = next.server().await;
            if let Err(error) = connected
                && connection.is_current()
            {
                let (upstream, error) = (&self.settings.name, &error.to_string());
                UpstreamEvent::Failed { upstream, error }.emit();
                connection.child.usage.put_off();
                self.drop_next(&next);
                break;
            }
            self.recycle(&connection, &next);
            connection = self.list_connection()?;
            connection.server().await?;
        }
        Ok(connection)
    }

    /// The connection that takes the place of `known`, which is made if there is none. `None` if as
    /// many programs are there as may be.
    fn next_connection(
        &self,
        known: &Arc<Connection>,
    ) -> Result<Option<Arc<Connection>>, ClientError> {
        let mut list = self.write_list_connection();
        if let Some(current) = list.current.as_ref().filter(|it| !Arc::ptr_eq(it, known)) {
            return Ok(Some(Arc::clone(current)));
        }
        if let Some((next, _)) = list.next.as_ref().filter(|(next, _)| next.is_current()) {
            return Ok(Some(Arc::clone(next)));
        }
        list.next = None;
        let place = Place::take(&self.children, self.settings.children_max);
        let Some(place) = place else { return Ok(None) };
        let next = self.connect(every_input(), None, false, true)?;
        list.next = Some((Arc::clone(&next), place));
        Ok(Some(next))
    }

    /// Has `next` take the place of `known`, unless another one has it.
    fn recycle(&self, known: &Arc<Connection>, next: &Arc<Connection>) {
        let mut list = self.write_list_connection();
        let is_known = |it: &Arc<Connection>| Arc::ptr_eq(it, known) && it.is_current();
        if !list.current.as_ref().is_some_and(is_known) {
            return;
        }
        let Some((next, place)) = list.next.take_if(|(it, _)| Arc::ptr_eq(it, next)) else {
            return;
        };
        let recycled = list.current.replace(next);
        drop(list);
        if let Some(recycled) = recycled {
            // It had none.
            drop(recycled.place.set(place));
        }
        (self.on_moved)();
    }

    /// Drops `next`, which has not connected.
    fn drop_next(&self, next: &Arc<Connection>) {
        let mut list = self.write_list_connection();
        let dropped = list.next.take_if(|(it, _)| Arc::ptr_eq(it, next));
        drop(list);
        drop(dropped);
    }

    fn write_list_connection(&self) -> RwLockWriteGuard<'_, ListConnection> {
        self.list_connection.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns every connection, in whose places the next requests make others. Their callers
    /// close them.
    pub fn replace_connections(&self) -> Vec<Arc<Connection>> {
        let connections = std::mem::take(&mut *lock(&self.connections));
        let live = connections.iter().filter_map(Weak::upgrade);
        live.inspect(|it| it.is_replaced.store(true, Ordering::Release)).collect()
    }

    /// Has requests fail, or served again.
    pub fn set_disabled(&self, is_disabled: bool) {
        self.is_disabled.store(is_disabled, Ordering::Release);
    }

    /// The connection of a request.
    ///
    /// # Errors
    ///
    /// The upstream does not start or answer, or all places are taken.
    pub async fn connection(&self, request: &RequestInfo) -> Result<Arc<Connection>, HandlerError> {
        let failed = |error: ClientError| error_of(&self.settings.name, &error);
        let list_connection = self.list_connection().map_err(failed)?;
        let is_modern = list_connection.server().await.map_err(failed)?.revision.is_modern();
        let capabilities = request.client().capabilities;
        let connection = match self.scope(request, is_modern) {
            ConnectionScope::Everyone => self.admit(list_connection).await.map_err(failed)?,
            ConnectionScope::Call => self.connect_place(capabilities, true, false)?,
            ConnectionScope::Principal(principal) => self.of_principal(principal)?,
            ConnectionScope::Session(slot) => self.of_session(slot, capabilities)?,
        };
        connection.server().await.map_err(failed)?;
        Ok(connection)
    }

    fn scope<'r>(&self, request: &'r RequestInfo, is_modern: bool) -> ConnectionScope<'r> {
        let capabilities = request.client().capabilities;
        let gives_roots = self.settings.roots && capabilities.contains(ClientCapabilities::ROOTS);
        let gives_input = gives_roots || INPUTS.iter().any(|it| capabilities.contains(*it));
        let share = match self.settings.share {
            Share::Auto if is_modern => Share::All,
            Share::Auto => Share::Session,
            share => share,
        };
        let slot = request.session_slot().filter(|_| share == Share::Session);
        match (share, slot) {
            (_, Some(slot)) => ConnectionScope::Session(slot),
            // A legacy server does not say which of several calls requires the input.
            _ if gives_input && !is_modern => ConnectionScope::Call,
            (Share::All | Share::Auto, None) => ConnectionScope::Everyone,
            (Share::Principal | Share::Session, None) => {
                ConnectionScope::Principal(request.principal().map(Principal::identity))
            }
        }
    }

    fn of_principal(&self, principal: Option<String>) -> Result<Arc<Connection>, HandlerError> {
        let mut connections = lock(&self.by_principal);
        let known = connections.get(&principal);
        if let Some(known) = known.filter(|it| it.is_current()) {
            return Ok(Arc::clone(known));
        }
        let follows = known.is_some();
        if self.children.load(Ordering::Acquire) >= self.settings.children_max {
            remove_idle(&mut connections);
        }
        let is_known = principal.is_some();
        let connection = self.connect_place(ClientCapabilities::NONE, is_known, follows)?;
        connections.insert(principal, Arc::clone(&connection));
        Ok(connection)
    }

    fn of_session(
        &self,
        slot: &SessionSlot,
        capabilities: ClientCapabilities,
    ) -> Result<Arc<Connection>, HandlerError> {
        let Some(SessionConnections(connections)) = slot.value(SessionConnections::default) else {
            return Err(Error::internal("the session keeps a value of another kind").into());
        };
        let mut connections = lock(connections);
        let known = connections.get(&self.settings.name);
        if let Some(known) = known.filter(|it| it.is_current()) {
            return Ok(Arc::clone(known));
        }
        let follows = known.is_some();
        let connection = self.connect_place(capabilities, true, follows)?;
        connections.insert(self.settings.name.clone(), Arc::clone(&connection));
        Ok(connection)
    }

    /// Makes a client that takes one of the places. `is_private` is whether one caller has it, and
    /// it `follows` one that it replaces.
    fn connect_place(
        &self,
        capabilities: ClientCapabilities,
        is_private: bool,
        follows: bool,
    ) -> Result<Arc<Connection>, HandlerError> {
        let children_max = self.settings.children_max;
        let Some(place) = Place::take(&self.children, children_max) else {
            let text = format!(
                "upstream `{}` has as many programs or sessions as it may (max_children {}); \
                 repeat the request later",
                self.settings.name, children_max
            );
            let kind = ErrorKind::Overloaded { retry_after_seconds: 1 };
            return Err(Error::new(kind, text).into());
        };
        self.connect(capabilities, Some(place), is_private, follows)
            .map_err(|error| error_of(&self.settings.name, &error))
    }

    /// Makes a client, which connects with its first request.
    fn connect(
        &self,
        capabilities: ClientCapabilities,
        place: Option<Place>,
        is_private: bool,
        follows: bool,
    ) -> Result<Arc<Connection>, ClientError> {
        let settings = &self.settings;
        let mut reconnect = ReconnectOptions::default();
        reconnect.mode = ReconnectMode::OnDemand;
        reconnect.idle_timeout = Some(settings.idle_stop);
        let builder = match &settings.client {
            Some(make) => make()?,
            None => Client::builder(settings.target.clone()).era(settings.era),
        };
        let mut builder = builder
            .io_thread(&self.io)
            .reconnect(reconnect)
            .request_timeout(settings.call_timeout)
            .connect_timeout(settings.init_timeout)
            .handshake_timeout(settings.init_timeout)
            .declare(inputs_of(capabilities));
        let usage = Usage::new(settings.recycle, self.status.clock);
        let child = Arc::new(ChildRecord::new(Arc::clone(&self.status.children), follows, usage));
        builder = child.watch(builder);
        let log_readers = Arc::new(LogReaders {
            is_private,
            has_cancelled: AtomicBool::new(false),
            calls: Mutex::default(),
        });
        let readers = Arc::clone(&log_readers);
        let on_log = move |message| readers.push(message);
        builder = if is_private {
            builder.on_log(LoggingLevel::Debug, on_log)
        } else {
            builder.on_log_of_requests(on_log)
        };
        for (name, value) in &settings.headers {
            builder = builder.header(name, value);
        }
        if let Some(oauth) = &settings.oauth {
            builder = builder.oauth(oauth.clone());
        }
        let client = builder.connect_lazy()?;
        let (server, is_http) = (OnceLock::new(), matches!(settings.target, Target::Http(_)));
        let is_replaced = AtomicBool::new(false);
        let place = place.map_or_else(OnceLock::new, OnceLock::from);
        let connection =
            Connection { client, server, place, child, is_http, is_replaced, log_readers };
        let connection = Arc::new(connection);
        self.register(&connection);
        Ok(connection)
    }

    fn register(&self, connection: &Arc<Connection>) {
        let mut connections = lock(&self.connections);
        if connections.len() == connections.capacity() {
            connections.retain(|it| it.strong_count() > 0);
        }
        connections.push(Arc::downgrade(connection));
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Pool").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Connection").field("server", &self.server).finish_non_exhaustive()
    }
}

/// Removes the connection of a principal without a call, which gives its place.
fn remove_idle(connections: &mut HashMap<Option<String>, Arc<Connection>>) {
    let idle = connections.iter().find(|(_, it)| Arc::strong_count(it) == 1);
    if let Some(idle) = idle.map(|(principal, _)| principal.clone()) {
        connections.remove(&idle);
    }
}

/// All capabilities of clients that give input.
fn every_input() -> ClientCapabilities {
    INPUTS.into_iter().fold(ClientCapabilities::ROOTS, ClientCapabilities::union)
}

/// The capabilities of a client whose requests the gateway passes on.
fn inputs_of(capabilities: ClientCapabilities) -> ClientCapabilities {
    capabilities.difference(ClientCapabilities::EXTENSION_TASKS)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
