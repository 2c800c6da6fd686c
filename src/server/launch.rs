//! Starting and ending: from options to running shards, and back.
//!
//! Everything that can fail fails here, before the first connection, with a text that names the
//! cause: listeners are bound before the first thread starts, and nothing is announced before every
//! shard has reported what its ring was granted.

mod threads;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

pub use self::threads::StartError;
use self::threads::{Sources, Threads};
use super::editor::{Editor, Makers, PendingEdit};
use super::files::{Files, Publisher, Watch};
use super::http::Census;
use super::letter::{Busy, Circular, Notice};
use super::options::{HttpOptions, Options};
use super::questions::rounds::ROUNDS_REMEMBERED_MAX;
use super::shard::{self, ShardSeed};
use crate::engine::blocking::BlockingPool;
use crate::engine::mesh::{Spent, Tally, mesh};
use crate::engine::origin::Origin;
use crate::engine::placement::Placement;
use crate::guard::origin::{OriginGuard, OriginOptions, UnreadableEntry};
use crate::link::listener::{self, ListenerOptions};
use crate::observe::counters::Counters;
use crate::observe::event::Event;
use crate::observe::label::Transport;
use crate::service::{Catalog, CatalogBuilder, CatalogError, Edit};

/// A server that has not started: what it offers and how.
///
/// ```no_run
/// use corelane::protocol::message::ServerInfo;
/// use corelane::server::{Options, Server};
/// use corelane::service::demo;
///
/// let catalog = demo::catalog(ServerInfo::new("demo", "1.0.0"))?;
/// Server::new(catalog).options(Options::default()).serve()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Server {
    catalog: Arc<Catalog>,
    files: Option<Files>,
    options: Options,
    origin: Option<Origin>,
    edits: Option<Sender<PendingEdit>>,
    reload: Reload,
}

/// What SIGHUP asks for.
type Reload = Box<dyn Fn(&Handle) + Send>;

impl fmt::Debug for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Server").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Server {
    /// A server that offers `catalog` with the default options.
    pub fn new(catalog: Catalog) -> Self {
        let reload = Box::new(|_: &Handle| Event::Reloaded.emit());
        let (catalog, options) = (Arc::new(catalog), Options::default());
        Self { catalog, files: None, options, origin: None, edits: None, reload }
    }

    /// The same server with other options.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// The same server with chance and date given, as a simulation needs them. Without it the
    /// machine is asked when the server starts.
    #[must_use]
    pub const fn origin(mut self, origin: Origin) -> Self {
        self.origin = Some(origin);
        self
    }

    /// The same server whose handlers' changes of the catalog ([`crate::service::Live::change`]) go
    /// to `edits`, and are made when the receiver makes them, as a simulation needs it. Without it
    /// the threads for blocking handlers make them at once.
    #[must_use]
    pub fn edits_to(mut self, edits: Sender<PendingEdit>) -> Self {
        self.edits = Some(edits);
        self
    }

    /// Offers `files` beside what the catalog has, and keeps them as they stand on disk while the
    /// server runs.
    ///
    /// # Errors
    ///
    /// Where the catalog has resources under the same URIs.
    pub fn files(mut self, mut files: Files) -> Result<Self, CatalogError> {
        self.catalog = Arc::new(files.offer(&self.catalog)?);
        self.files = Some(files);
        Ok(self)
    }

    /// Has [`Server::serve`] call `reload` at each SIGHUP, on the thread that waits for signals:
    /// the place to read a configuration again and pass it on by [`Handle::keep_to`], or to offer
    /// another catalog.
    #[must_use]
    pub fn on_reload(mut self, reload: impl Fn(&Handle) + Send + 'static) -> Self {
        self.reload = Box::new(reload);
        self
    }

    /// Starts every shard and returns once all of them listen.
    ///
    /// # Errors
    ///
    /// Where an address cannot be listened on or a ring cannot be built.
    pub fn start(mut self) -> Result<Running, StartError> {
        let placement = self.placement()?;
        let shards = placement.len();
        let mut listeners: Vec<_> = (0..shards).map(|_| Vec::new()).collect();
        let mut addresses = Vec::new();
        let doors = [
            (Transport::Tcp, self.options.tcp.address),
            (Transport::Http, self.options.http.address),
        ];
        for (transport, address) in doors {
            let Some(address) = address else { continue };
            let descriptors = self.listen(address, shards)?;
            if let Some(first) = descriptors.first() {
                addresses.push((transport, listener::local_address(first)?));
            }
            for (shard, descriptor) in listeners.iter_mut().zip(descriptors) {
                shard.push((descriptor, transport));
            }
        }
        let sources = listeners.into_iter().map(Sources::Listeners).collect();
        let (threads, handle) = self.launch(&placement, sources)?;
        for (transport, address) in &addresses {
            Event::Listening { transport: *transport, address: *address, path: "" }.emit();
            if let (Transport::Http, Some(path)) = (transport, &self.options.websocket.path) {
                let transport = Transport::WebSocket;
                Event::Listening { transport, address: *address, path }.emit();
            }
        }
        let watch = self.watch(&handle);
        Ok(Running { addresses, handle, threads, watch })
    }

    /// Starts, serves until SIGTERM or SIGINT, drains and returns what was counted. SIGHUP calls
    /// what was given to [`Server::on_reload`].
    ///
    /// # Errors
    ///
    /// As [`Server::start`], and where a shard failed.
    pub fn serve(mut self) -> Result<Counters, StartError> {
        let reload = std::mem::replace(&mut self.reload, Box::new(|_| {}));
        // Before anybody can know that the server is there: a signal must find its handler.
        let signals = watched_signals()?;
        self.start()?.until_signal(signals, reload)
    }

    /// Serves one client over standard input and output, until the input ends or a signal comes.
    ///
    /// Calls that came before the end of the input are answered. Tasks that still run are let go
    /// with it: the one client who could ask for them is gone, and nothing outlives the process.
    /// After a signal, as when [`Server::serve`] ends, they have the time of a drain.
    ///
    /// # Errors
    ///
    /// Where the ring cannot be built.
    pub fn stdio(mut self) -> Result<Counters, StartError> {
        let signals = watched_signals()?;
        let placement = match &self.options.engine.cpus {
            Some(cpus) => Placement::choose(Some(cpus), Some(1))?,
            None => Placement::unpinned(1),
        };
        let input = rustix::io::dup(rustix::stdio::stdin()).map_err(io::Error::from)?;
        let output = rustix::io::dup(rustix::stdio::stdout()).map_err(io::Error::from)?;
        let (threads, handle) = self.launch(&placement, vec![Sources::Pipes { input, output }])?;
        let watch = self.watch(&handle);
        let running = Running { addresses: Vec::new(), handle, threads, watch };
        running.until_signal(signals, self.reload)
    }

    /// Follows the files, if there are some. A server that cannot goes on without.
    fn watch(&mut self, handle: &Handle) -> Option<Watch> {
        self.files.take()?.watch(handle.clone()).unwrap_or_else(|error| {
            let doubt = format!("changes of files are not noticed ({error}); start fewer threads");
            Event::FileDoubted { doubt: &doubt }.emit();
            None
        })
    }

    /// Who may use the HTTP endpoint.
    fn guard(&self) -> Result<OriginGuard, UnreadableEntry> {
        let HttpOptions { address, hosts, origins, .. } = &self.options.http;
        OriginGuard::new(&OriginOptions {
            is_loopback: address.is_some_and(|address| address.ip().is_loopback()),
            hosts: hosts.clone(),
            origins: origins.clone(),
        })
    }

    fn placement(&self) -> Result<Placement, StartError> {
        let engine = &self.options.engine;
        Ok(Placement::choose(engine.cpus.as_deref(), engine.shards)?)
    }

    /// One listener a shard on the same address; the first one finds the port where it is 0.
    fn listen(&self, address: SocketAddr, shards: usize) -> io::Result<Vec<OwnedFd>> {
        let tcp = &self.options.tcp;
        let options = ListenerOptions {
            keepalive: tcp.keepalive,
            nodelay: tcp.nodelay,
            receive_buffer_bytes: tcp.receive_buffer_bytes,
            send_buffer_bytes: tcp.send_buffer_bytes,
            backlog_max: tcp.backlog_max,
        };
        let first = listener::listen(address, &options)?;
        let address = listener::local_address(&first)?;
        let mut descriptors = vec![first];
        for _ in 1..shards {
            descriptors.push(listener::listen(address, &options)?);
        }
        Ok(descriptors)
    }

    /// The seeds of `shards` shards that belong together, and the handle that steers them: for
    /// programs that bring rings and executors of their own. [`Server::start`] does it for all
    /// others.
    ///
    /// # Errors
    ///
    /// Where the threads for blocking tools cannot be started, or the system has no random source.
    pub fn seeds(&self, shards: usize) -> io::Result<(Vec<ShardSeed>, Handle)> {
        let options = Arc::new(self.options.clone());
        let engine = &options.engine;
        let (seats, post) = mesh(shards, &engine.mesh);
        let guard = self.guard().map_err(io::Error::other)?;
        let (served, served_http) = (Arc::new(Tally::default()), Arc::new(Tally::default()));
        let threads = usize::from(engine.blocking_threads);
        let blocking = BlockingPool::new(threads, engine.blocking_queue_max as usize)?;
        let blocking = Arc::new(blocking);
        let origin = self.origin.map_or_else(Origin::of_this_machine, Ok)?;
        let spent = Arc::new(Spent::new(ROUNDS_REMEMBERED_MAX));
        let circular = Arc::new(Circular::new(post.clone()));
        let editor = Arc::new(Editor::new(Arc::clone(&circular), Arc::clone(&self.catalog)));
        let makers = match &self.edits {
            Some(edits) => Makers::Receiver(edits.clone()),
            None => Makers::Pool(Arc::clone(&blocking)),
        };
        let census = Census::default();
        let seed = |seat| ShardSeed {
            origin,
            spent: Arc::clone(&spent),
            options: Arc::clone(&options),
            catalog: Arc::clone(&self.catalog),
            seat,
            post: post.clone(),
            guard: guard.clone(),
            served: Arc::clone(&served),
            served_http: Arc::clone(&served_http),
            census: census.clone(),
            blocking: Arc::clone(&blocking),
            makers: makers.clone(),
            editor: Arc::clone(&editor),
        };
        let handle =
            Handle { circular, editor: Arc::clone(&editor), options: Arc::clone(&options) };
        Ok((seats.into_iter().map(seed).collect(), handle))
    }

    fn launch(
        &self,
        placement: &Placement,
        sources: Vec<Sources>,
    ) -> Result<(Threads, Handle), StartError> {
        let (seeds, handle) = self.seeds(sources.len())?;
        let is_piped = sources.iter().any(|it| matches!(it, Sources::Pipes { .. }));
        let threads = threads::start(placement, seeds.into_iter().zip(sources).collect())?;
        threads.announce(&self.options, placement, is_piped);
        Ok((threads, handle))
    }
}

/// A server whose shards run.
#[derive(Debug)]
pub struct Running {
    addresses: Vec<(Transport, SocketAddr)>,
    handle: Handle,
    threads: Threads,
    /// Held as long as it runs.
    watch: Option<Watch>,
}

impl Running {
    /// Where it listens; port 0 has become the port that the kernel chose.
    pub fn addresses(&self) -> &[(Transport, SocketAddr)] {
        &self.addresses
    }

    /// How other threads steer it.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Waits until it has ended, by a [`Handle::drain`] or the end of its input; returns what all
    /// shards counted.
    ///
    /// # Errors
    ///
    /// Where a shard failed.
    pub fn join(self) -> Result<Counters, StartError> {
        let Self { handle, threads, watch, .. } = self;
        let ended = threads.join(|| handle.drain());
        drop(watch);
        ended
    }

    /// Waits for SIGTERM, SIGINT or the end by itself.
    fn until_signal(self, mut signals: Signals, reload: Reload) -> Result<Counters, StartError> {
        let watch = signals.handle();
        let handle = self.handle.clone();
        let drain = self.handle;
        let listener = std::thread::Builder::new().name("corelane-signal".into());
        let listener = listener.spawn(move || {
            for signal in &mut signals {
                if signal == SIGHUP {
                    reload(&handle);
                } else {
                    handle.drain();
                }
            }
        })?;
        let ended = self.threads.join(|| drain.drain());
        drop(self.watch);
        watch.close();
        // The listener only loops over signals: it cannot have failed in a way that matters now.
        drop(listener.join());
        ended
    }
}

fn watched_signals() -> io::Result<Signals> {
    Signals::new([SIGTERM, SIGINT, SIGHUP])
}

/// Steers a running server from any thread. Cheap to clone; all clones have one order.
///
/// What is told here comes to every shard once, in the order in which it was taken. Inboxes are
/// bounded ([`crate::engine::mesh::MeshOptions::post_letters_max`]), and a shard reads its own once
/// a turn. The plain forms wait for room, which takes microseconds, and are for threads that are no
/// shards; the `try_` forms never wait and may be called anywhere, a handler included.
#[derive(Clone, Debug)]
pub struct Handle {
    circular: Arc<Circular>,
    editor: Arc<Editor>,
    /// Those that the server was started with.
    options: Arc<Options>,
}

impl Handle {
    /// Stops accepting, lets what is in flight end within the drain time, then ends. Safe to call
    /// more than once.
    pub fn drain(&self) {
        self.circular.tell(&Notice::Drain);
    }

    /// Changes what is offered: `edit` gets a builder with everything that is offered now, and what
    /// it returns is offered next. Returns when every shard has been told. Changes are made one
    /// after the other, each on what the one before it left; those who listen hear of it after
    /// their shard offers it; calls in flight end with the definitions they began with.
    ///
    /// Waits for changes that are being made and for room in the inboxes: for threads that are no
    /// shards (a handler asks by [`crate::service::Live::change`] or
    /// [`crate::service::Worker::change`]), and not from within an edit, which would wait for
    /// itself. Cost: what is new is framed once; a letter to each shard.
    ///
    /// # Errors
    ///
    /// Where what came of it is no catalog: everything stays as it was.
    pub fn change(
        &self,
        edit: impl FnOnce(CatalogBuilder) -> CatalogBuilder + Send,
    ) -> Result<(), CatalogError> {
        self.editor.change(edit)
    }

    /// Offers `catalog` from now on, whatever was offered before; otherwise as [`Handle::change`].
    pub fn offer(&self, catalog: Catalog) {
        self.editor.offer(Arc::new(catalog));
    }

    /// Tells everybody who subscribed to the resource `uri` that it has changed. Clients that are
    /// slow may hear of several changes once: it says only that the resource is to be read again.
    /// Waits for room in the inboxes: for threads that are no shards.
    ///
    /// Source: `notifications/resources/updated`, server/resources of each revision.
    pub fn updated(&self, uri: &str) {
        self.editor.updated(uri);
    }

    /// Keeps to the limits of `options` from now on: connections, sessions, times, sizes. Nothing
    /// that is open is cut for it, and what waits already waits as long as it was to. What was
    /// fixed at start (addresses, hosts and origins, the profile of HTTP, shards, rings, threads)
    /// stays as it is; more connections than it was started for find no slots in the rings.
    pub fn keep_to(&self, options: &Options) {
        self.circular.tell(&self.limits(options));
    }

    /// [`Handle::drain`] without waiting. What a shard has no room for follows with the next call
    /// of any kind, [`Handle::try_deliver`] for one.
    ///
    /// # Errors
    ///
    /// [`Busy`]: what was told before has not come to every shard, or another thread is telling.
    /// Nothing was taken.
    pub fn try_drain(&self) -> Result<(), Busy> {
        self.circular.try_tell(&Notice::Drain)
    }

    /// [`Handle::offer`] without waiting, as [`Handle::try_drain`].
    ///
    /// # Errors
    ///
    /// [`Busy`], as [`Handle::try_drain`], and where another change is being made.
    pub fn try_offer(&self, catalog: &Arc<Catalog>) -> Result<(), Busy> {
        self.editor.try_offer(catalog)
    }

    /// [`Handle::keep_to`] without waiting, as [`Handle::try_drain`].
    ///
    /// # Errors
    ///
    /// [`Busy`], as [`Handle::try_drain`].
    pub fn try_keep_to(&self, options: &Options) -> Result<(), Busy> {
        self.circular.try_tell(&self.limits(options))
    }

    /// Tries again what found no room before, without waiting.
    ///
    /// # Errors
    ///
    /// [`Busy`]: some shard still has none.
    pub fn try_deliver(&self) -> Result<(), Busy> {
        self.circular.try_deliver()
    }

    fn limits(&self, options: &Options) -> Notice {
        let mut options = options.clone();
        // The doors that are open decide which connections there are.
        options.tcp.address = self.options.tcp.address;
        options.http.address = self.options.http.address;
        Notice::Limits(Arc::new(shard::limits(&options, self.circular.shards())))
    }
}

impl Publisher for Handle {
    fn change(&self, edit: Edit) -> Result<(), CatalogError> {
        Self::change(self, edit)
    }

    fn updated(&self, uri: &str) {
        Self::updated(self, uri);
    }
}
