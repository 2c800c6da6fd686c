//! The handle of a running server.

use std::any::Any;
use std::io;
#[cfg(feature = "tower")]
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use corelane_engine::mesh::ShardId;
#[cfg(feature = "tower")]
use corelane_engine::mesh::TrySendError;

use super::shard_limits;
use super::tls::ListenerTls;
use crate::guard::pressure::MemoryReading;
use crate::guard::pressure::PressureStep;
use crate::server::audit::AuditLog;
use crate::server::auth::{AuthSource, AuthUpdate};
use crate::server::catalog_updates::CatalogWriter;
#[cfg(feature = "signals")]
use crate::server::diagnostics::ConfigReloads;
use crate::server::diagnostics::{
    ConnectionPage, CounterSnapshots, ListPosition, PageBuilder, REPLY_TIMEOUT, Rows,
};
#[cfg(feature = "tower")]
use crate::server::extension_slot::ExtensionSlot;
use crate::server::options::Options;
use crate::server::overload::{EndWatch, MemoryWatch, OverloadRules};
use crate::server::rate::RateSource;
use crate::server::shard_message::{
    Broadcast, BroadcastMessage, Busy, ReportMessage, ShardMessage,
};
use crate::server::shared_states::StateSource;
use crate::server::traces::TraceSource;
use crate::service::{Catalog, CatalogBuilder, CatalogError};
use crate::telemetry::counters::Counters;
use crate::telemetry::event::{Event, OverloadEvent};
use crate::telemetry::label::DrainCause;
use crate::telemetry::open_work::ConnectionInfo;

/// Interval at which a thread that waits for a shard checks whether the shard has ended.
const ENDED_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Controls a running server from any thread. Cheap to clone; clones share one order.
///
/// Every message reaches every shard once, in the order in which it was accepted. Inboxes are
/// bounded ([`corelane_engine::mesh::MeshOptions`]), and a shard empties its own once per turn. The
/// plain methods wait for space, which takes microseconds, and must not be called on a shard's
/// thread; the `try_` methods never wait and may be called anywhere, in a handler too.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(super) broadcast: Arc<Broadcast>,
    pub(super) catalog_writer: Arc<CatalogWriter>,
    pub(super) snapshots: Arc<CounterSnapshots>,
    /// The options at start.
    pub(super) options: Arc<Options>,
    /// Whether the drain was requested, by this handle or another one of the server.
    pub(super) is_draining: Arc<AtomicBool>,
    pub(super) tls: Arc<ListenerTls>,
    pub(super) auth: Arc<AuthSource>,
    pub(super) audit: Arc<AuditLog>,
    pub(super) memory: Arc<MemoryWatch>,
    pub(super) rate: Arc<RateSource>,
    pub(super) states: Arc<StateSource>,
    pub(super) traces: Arc<TraceSource>,
    #[cfg(feature = "signals")]
    pub(super) reloads: Arc<ConfigReloads>,
}

impl Handle {
    /// Stops accepting connections after [`EngineOptions::drain_delay`], completes what is in
    /// flight within [`EngineOptions::drain_timeout`], then ends the server. Requests that take
    /// longer are cancelled and get an error whose `data.retryable` is true. Further calls have no
    /// effect.
    ///
    /// [`EngineOptions::drain_delay`]: crate::server::options::EngineOptions::drain_delay
    /// [`EngineOptions::drain_timeout`]: crate::server::options::EngineOptions::drain_timeout
    pub fn drain(&self) {
        self.drain_because(DrainCause::Handle);
    }

    /// [`Handle::drain`], with its cause for the log.
    pub(super) fn drain_because(&self, cause: DrainCause) {
        self.log_drain_started(cause);
        self.broadcast.send(&BroadcastMessage::Drain(None));
    }

    /// Drains at once, and cuts what takes longer than `timeout`.
    pub(super) fn drain_within(&self, timeout: Duration) {
        self.log_drain_started(DrainCause::Handle);
        self.broadcast.send(&BroadcastMessage::Drain(Some(timeout)));
    }

    fn log_drain_started(&self, cause: DrainCause) {
        if !self.is_draining.swap(true, Ordering::Relaxed) {
            Event::DrainStarted { cause }.emit();
        }
    }

    /// Logs the end of the drain, if there was one. The last event of the server.
    pub(super) fn log_drain_finished(&self, counters: &Counters) {
        if self.is_draining.load(Ordering::Relaxed) {
            let requests = &counters.requests;
            Event::DrainFinished { served: requests.served(), cut: requests.cut }.emit();
        }
    }

    /// Updates the catalog: `update` receives a builder with the current content and returns the
    /// next one. Returns when every shard has the message. Updates are serialized, each applied to
    /// the result of the one before it; clients are notified after all shards offer the new
    /// version; calls in flight complete with the version they started with.
    ///
    /// Waits for updates in progress and for space in the inboxes. Must not be called on a shard's
    /// thread (a handler uses [`crate::service::RequestContext`] or
    /// [`crate::service::BlockingContext`]) or within an update, where it would deadlock. Cost:
    /// what is new is encoded once; one message per shard.
    ///
    /// # Errors
    ///
    /// If the resulting catalog is invalid: nothing changes.
    pub fn update_catalog(
        &self,
        update: impl FnOnce(CatalogBuilder) -> CatalogBuilder + Send,
    ) -> Result<(), CatalogError> {
        self.catalog_writer.update(update)
    }

    /// Replaces the whole catalog; otherwise as [`Handle::update_catalog`].
    pub fn replace_catalog(&self, catalog: Catalog) {
        self.catalog_writer.replace(Arc::new(catalog));
    }

    /// Notifies the subscribers of the resource `uri` that it has changed. Several changes may be
    /// merged into one notification for a slow client. Waits for space in the inboxes: must not be
    /// called on a shard's thread.
    ///
    /// Source: `notifications/resources/updated`, server/resources of each revision.
    pub fn notify_resource_updated(&self, uri: &str) {
        self.catalog_writer.notify_resource_updated(uri);
    }

    /// Applies the limits of `options`: connections, sessions, timeouts, sizes. Open connections
    /// stay open, and timeouts that run already keep their length. Options that are fixed at start
    /// (addresses, hosts and origins, the HTTP profile, shards, rings, threads) are ignored; the
    /// ring sizes still bound the number of connections.
    pub fn reload_limits(&self, options: &Options) {
        self.broadcast.send(&self.limits_message(options));
        set_memory_guard(self, options);
    }

    /// Has the memory guard apply a reading, as if it were its own.
    pub fn apply_memory_reading(&self, reading: &MemoryReading) {
        self.memory.apply(reading, &publish_pressure(self));
    }

    /// Reads certificates, private keys, OCSP responses, ticket keys, authorities and revocation
    /// lists again ([`ListenerTlsOptions`]), for connections that are accepted from now on; open
    /// ones keep theirs, and end if the certificate of their client is revoked, or was issued by an
    /// authority that is not listed any more. Whether a listener
    /// is encrypted, and the limits of handshakes, stay. Does nothing if the server started without
    /// a certificate. Waits for space in the inboxes: must not be called on a shard's thread.
    ///
    /// # Errors
    ///
    /// Which file cannot be used, and why; nothing changes.
    ///
    /// [`ListenerTlsOptions`]: crate::server::options::ListenerTlsOptions
    pub fn reload_tls(&self, options: &Options) -> Result<(), String> {
        self.tls.reload(&options.tls)?;
        let revoked = Arc::new(self.tls.revoked());
        self.broadcast.send(&BroadcastMessage::Revoked(revoked));
        Ok(())
    }

    /// Reads API keys, key sets in files and rules again
    /// ([`AuthOptions`](crate::server::options::AuthOptions)), for all requests from now on: a
    /// withdrawn key is refused on open connections, too. Opens the audit file anew. The issuers,
    /// where their keys are, the resource, and whether there is authentication at all stay. Waits
    /// for space in the inboxes: must not be called on a shard's thread.
    ///
    /// # Errors
    ///
    /// Which option or file cannot be used, and why; nothing changes.
    pub fn reload_auth(&self, options: &Options) -> Result<(), String> {
        let reopened = self.audit.reopen();
        let reloaded = self.auth.reload(&options.auth, |authenticator| {
            self.broadcast.send(&BroadcastMessage::Authenticator(authenticator));
        });
        reloaded.and(reopened)
    }

    /// Applies the rate limits of `options`
    /// ([`RateOptions`](crate::server::options::RateOptions)) from now on. A rule that has not
    /// changed keeps what it has counted. The number of keys stays. Waits for space in the inboxes:
    /// must not be called on a shard's thread.
    ///
    /// # Errors
    ///
    /// Which option is malformed, and why; nothing changes.
    pub fn reload_rate(&self, options: &Options) -> Result<(), String> {
        self.rate.reload(&options.rate, |rules| {
            self.broadcast.send(&BroadcastMessage::RateRules(rules));
        })
    }

    /// Reads the keys of `requestState` again
    /// ([`LimitOptions::request_state_keys`](crate::server::options::LimitOptions)): states under a
    /// key that is listed no more are refused from now on. Waits for space in the inboxes: must not
    /// be called on a shard's thread.
    ///
    /// # Errors
    ///
    /// Which file cannot be used, and why; nothing changes.
    pub fn reload_state_keys(&self, options: &Options) -> Result<(), String> {
        let states = self.states.read(options)?;
        self.broadcast.send(&BroadcastMessage::RequestStates(Box::new(states)));
        Ok(())
    }

    /// Starts the thread that keeps keys up to date until the returned value is dropped, if one is
    /// needed.
    pub(super) fn watch_auth(&self) -> io::Result<Option<Box<dyn Any + Send + Sync>>> {
        let broadcast = Arc::clone(&self.broadcast);
        self.auth.watch(move |update| {
            broadcast.send(&match update {
                AuthUpdate::Authenticator(keys) => BroadcastMessage::Authenticator(keys),
                AuthUpdate::Introspected(token) => BroadcastMessage::Introspected(token),
            });
        })
    }

    /// Starts the thread that looks at the files of TLS until the returned value is dropped, if one
    /// is needed.
    pub(super) fn watch_tls(&self) -> io::Result<Option<Box<dyn Any + Send + Sync>>> {
        let broadcast = Arc::clone(&self.broadcast);
        self.tls.watch(self.options.tls.check_interval, move |revoked| {
            broadcast.send(&BroadcastMessage::Revoked(Arc::new(revoked)));
        })
    }

    /// Starts the memory guard if it is on; it ends when the returned value is dropped.
    pub(super) fn watch_memory(&self) -> Box<dyn Any + Send + Sync> {
        set_memory_guard(self, &self.options);
        Box::new(EndWatch(Arc::clone(&self.memory)))
    }

    /// Returns the number of TLS handshakes of all shards by their result: `full`, `resumed`,
    /// `refused`, `address_refused`, or why they failed. Empty if no listener is encrypted.
    pub fn tls_handshakes(&self) -> Vec<(&'static str, u64)> {
        self.tls.counters().map(|counters| counters.results().collect()).unwrap_or_default()
    }

    /// Returns the sum of the counters of all shards since the start; after the end of the server,
    /// the final ones. May be called from any thread, as often as needed.
    ///
    /// Every shard is requested at once and replies between two steps of its work, usually within
    /// 100 µs: the numbers are those of the time of the call. It waits for at most 500 µs. A shard
    /// that has not replied by then, such as one in the middle of a long inline handler,
    /// contributes its last reply (zeros before the first), and replies to the next call. Numbers
    /// never decrease from one call to the next.
    ///
    /// Cost: a shard copies less than 2 KiB and wakes the caller, a few microseconds; without calls
    /// nothing. In a handler it waits in vain for its own shard.
    pub fn counters(&self) -> Counters {
        let Self { broadcast, snapshots, .. } = self;
        let request = snapshots.begin_request();
        let is_requested = |shard: &ShardId| {
            let message =
                ShardMessage::PublishCounters { request, snapshots: Arc::clone(snapshots) };
            broadcast.sender().try_send(*shard, message).is_ok()
        };
        let requested: Vec<ShardId> = broadcast.sender().shards().filter(is_requested).collect();
        snapshots.wait(&requested, request, REPLY_TIMEOUT)
    }

    /// Returns the open connections, those that are being closed included. Connections that open or
    /// close meanwhile may be missing; those of a shard that ends are.
    ///
    /// Waits for the shards, one after the other: must not be called on a shard's thread. Cost: a
    /// shard visits 256 connections in a turn, which takes some tens of microseconds, and continues
    /// in the next one; about 120 bytes of the result for each connection.
    pub fn connections(&self) -> Vec<ConnectionInfo> {
        let mut connections = Vec::new();
        let mut next = Some(ListPosition::default());
        while let Some(position) = next {
            next = if let Some(page) = self.connection_page(position) {
                connections.extend(page.rows);
                page.next
            } else {
                // The shard has ended.
                let shard = position.shard + 1;
                let is_shard = usize::from(shard) < self.broadcast.shard_count();
                is_shard.then_some(ListPosition { shard, slot: 0 })
            };
        }
        connections
    }

    /// Returns the page at `position`, or `None` if the shard has ended.
    fn connection_page(&self, position: ListPosition) -> Option<ConnectionPage> {
        let (reply, replies) = mpsc::sync_channel(1);
        let page = PageBuilder::new(position, Rows::Values(Vec::new(), reply));
        let (sender, shard) = (self.broadcast.sender(), page.shard());
        let report = ReportMessage::Connections { exchange: None, page };
        let message = ShardMessage::Report(Box::new(report));
        sender.send_while(shard, message, || true).ok()?;
        loop {
            match replies.recv_timeout(ENDED_CHECK_INTERVAL) {
                Ok(page) => return Some(page),
                Err(RecvTimeoutError::Timeout) if !sender.has_ended(shard) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Opens an HTTP connection to the server over a pair of Unix sockets and returns the end of
    /// the client. It is served by the shard `index` (modulo their number), or the next one that
    /// has not ended. Never waits; a server that has reached a limit answers with an error or
    /// closes the connection. Cost: two descriptors of the process.
    ///
    /// # Errors
    ///
    /// `NotConnected` if the server has ended, `WouldBlock` if inboxes are full, or an error of the
    /// system.
    #[cfg(feature = "tower")]
    pub(crate) fn connect_http(&self, index: usize) -> io::Result<(UnixStream, ExtensionSlot)> {
        let (client, stream) = UnixStream::pair()?;
        let extensions = ExtensionSlot::default();
        let sender = self.broadcast.sender();
        let shards = self.broadcast.shard_count();
        let mut message = ShardMessage::AdoptStream(stream.into(), extensions.clone());
        let mut cause = io::ErrorKind::NotConnected;
        let from_index = sender.shards().skip(index % shards.max(1));
        for shard in from_index.chain(sender.shards()).take(shards) {
            message = match sender.try_send(shard, message) {
                Ok(()) => return Ok((client, extensions)),
                Err(TrySendError::Closed(message)) => message,
                Err(TrySendError::Full(message)) => {
                    cause = io::ErrorKind::WouldBlock;
                    message
                }
            }
        }
        Err(cause.into())
    }

    /// Options at the start.
    #[cfg(feature = "tower")]
    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// [`Handle::drain`] without waiting. Messages that find an inbox full are sent with the next
    /// call of any method, such as [`Handle::try_flush`].
    ///
    /// # Errors
    ///
    /// [`Busy`]: an earlier message is in delivery, or another thread is sending. Nothing was sent.
    pub fn try_drain(&self) -> Result<(), Busy> {
        self.broadcast.try_send(&BroadcastMessage::Drain(None))?;
        self.log_drain_started(DrainCause::Handle);
        Ok(())
    }

    /// [`Handle::replace_catalog`] without waiting, as [`Handle::try_drain`].
    ///
    /// # Errors
    ///
    /// [`Busy`], as [`Handle::try_drain`], and if a catalog update is in progress.
    pub fn try_replace_catalog(&self, catalog: &Arc<Catalog>) -> Result<(), Busy> {
        self.catalog_writer.try_replace(catalog)
    }

    /// [`Handle::reload_limits`] without waiting, as [`Handle::try_drain`].
    ///
    /// # Errors
    ///
    /// [`Busy`], as [`Handle::try_drain`].
    pub fn try_reload_limits(&self, options: &Options) -> Result<(), Busy> {
        set_memory_guard(self, options);
        self.broadcast.try_send(&self.limits_message(options))
    }

    /// Sends messages that found an inbox full, without waiting.
    ///
    /// # Errors
    ///
    /// [`Busy`]: some inbox is still full.
    pub fn try_flush(&self) -> Result<(), Busy> {
        self.broadcast.try_flush()
    }

    fn limits_message(&self, options: &Options) -> BroadcastMessage {
        let mut options = options.clone();
        // The listeners are fixed at start and decide which limits apply.
        options.tcp.address = self.options.tcp.address;
        options.http.address = self.options.http.address;
        options.admin.address = self.options.admin.address;
        let limits = shard_limits(&options, self.broadcast.shard_count());
        let overload = OverloadRules::new(&options.overload);
        BroadcastMessage::Limits(Arc::new(limits), Arc::new(overload))
    }
}

/// Applies the options of the memory guard. Without a thread for it, the guard stays off.
fn set_memory_guard(handle: &Handle, options: &Options) {
    let options = &options.overload.memory;
    if let Err(error) = handle.memory.set_options(options, publish_pressure(handle)) {
        let error = format!("the memory guard is off: its thread cannot be started: {error}");
        Event::from(OverloadEvent::GuardFailed { error: error.into() }).emit();
    }
}

/// Returns what sends a step of memory pressure to the shards.
fn publish_pressure(handle: &Handle) -> impl Fn(PressureStep) + Send + Sync + 'static {
    let broadcast = Arc::clone(&handle.broadcast);
    move |step| broadcast.send(&BroadcastMessage::Pressure(step))
}
