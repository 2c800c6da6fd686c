//! The gateway of a server: it follows the upstreams, and keeps the catalog as they are.

use std::collections::{BTreeSet, HashSet};
use std::error::Error;
use std::fmt;
use std::io;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use corelane_base::time::Instant;
use corelane_client::{ClientError, IoThread, Target, block_on};
use corelane_engine::clock::Clock;
use crossbeam::channel::{Receiver, RecvTimeoutError, unbounded};

use crate::declared::{ChangeCounts, Entry, Key, Offered, OnChange};
use crate::gateway::call::{Running, Upstream};
use crate::gateway::directory::Directory;
use crate::gateway::entries::{Merged, Source, keys_of};
use crate::gateway::faults::{find_equal_names, read_manifest};
use crate::gateway::followed_resources::{FollowedResources, place_of};
use crate::gateway::follower::{
    Changes, FollowedLists, FollowedResource, FollowerEvent, FollowerEvents, RETRY_MAX, follow,
    follow_resource, has_no_notifications, read_lists, retry_delay,
};
use crate::gateway::held::HeldCalls;
use crate::gateway::lists::Lists;
use crate::gateway::manifest;
use crate::gateway::names::NameRules;
use crate::gateway::pins::{PinCheck, Pins};
use crate::gateway::pool::Pool;
use crate::gateway::report::{UpstreamFacts, UpstreamReport};
use crate::gateway::settings::UpstreamSettings;
use crate::gateway::status::UpstreamStatus;
use crate::server::options::GatewayOptions;
use crate::server::{Handle, ResourceWatch, Server, UpstreamChange};
use crate::service::{Catalog, CatalogError, Features};
use crate::telemetry::event::UpstreamEvent;

#[expect(clippy::disallowed_types, reason = "locked by the thread of the gateway, by no shard")]
type Mutex<T> = std::sync::Mutex<T>;

/// The upstreams of a server.
pub struct Gateway {
    upstreams: Vec<Arc<Upstream>>,
    held: Arc<HeldCalls<Running>>,
    clock: Clock,
    options: GatewayOptions,
    io: IoThread,
    state: Mutex<State>,
    events: FollowerEvents,
    received: Receiver<FollowerEvent>,
}

#[derive(Default)]
struct State {
    upstreams: Vec<UpstreamState>,
    offered: Offered,
    /// Entries that the server has beside those of upstreams.
    own_keys: BTreeSet<Key>,
    left_out: HashSet<String>,
    resources: FollowedResources,
    /// `None` without a file for them.
    pins: Option<Pins>,
}

/// What is known of one upstream.
#[derive(Clone, Default)]
struct UpstreamState {
    lists: Option<Box<Lists>>,
    is_disabled: bool,
    is_reading: bool,
    /// When its lists are read again, after the read in progress.
    due: Option<Instant>,
    /// Failures since its lists were last read.
    failures: u32,
    /// When its notifications were last asked for.
    followed_at: Option<Instant>,
    is_followed: bool,
    follower: FollowedLists,
    /// When its notifications are asked for again; never of an upstream that has none.
    follow_due: Option<Instant>,
    /// Ends of its notifications, one after the other.
    follow_ends: u32,
}

/// Time in which changes of a list become one.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// Time between two looks at held calls.
const TICK: Duration = Duration::from_secs(1);
/// Time after which the lists of an upstream without notifications are read again.
const POLL: Duration = Duration::from_mins(5);

impl Gateway {
    /// Creates the gateway. Nothing is started yet.
    ///
    /// # Errors
    ///
    /// The system grants no thread, or two upstreams have one name.
    pub fn new(upstreams: Vec<UpstreamSettings>, options: &GatewayOptions) -> Result<Self, String> {
        if let Some(error) = find_equal_names(&upstreams) {
            return Err(error);
        }
        let pins = options.pins.as_deref().map(Pins::open).transpose()?;
        let mut asking = upstreams.iter().filter(|it| it.on_change.is_some());
        if let (None, Some(upstream)) = (&pins, asking.next()) {
            let name = &upstream.name;
            return Err(format!("upstream `{name}`: on_change needs the option gateway.pins"));
        }
        let io = IoThread::start().map_err(|error| format!("no thread for upstreams: {error}"))?;
        let held = Arc::new(HeldCalls::new(options.hold_time, options.held_max));
        let clock = Clock::start();
        let (sender, received) = unbounded();
        let events = FollowerEvents::new(sender);
        let upstream = |(index, settings): (usize, UpstreamSettings)| {
            let UpstreamSettings { name, target, share, .. } = &settings;
            let status = Arc::new(UpstreamStatus::new(name, target, *share, clock));
            let changes = events.clone();
            let on_moved = Box::new(move || changes.record_moved(index));
            let pool = Arc::new(Pool::new(settings, status, &io, on_moved));
            Arc::new(Upstream { pool, held: Arc::clone(&held), clock })
        };
        let upstreams: Vec<Arc<Upstream>> =
            upstreams.into_iter().enumerate().map(upstream).collect();
        let state = State {
            upstreams: vec![UpstreamState::default(); upstreams.len()],
            pins,
            ..State::default()
        };
        let state = Mutex::new(state);
        let options = options.clone();
        Ok(Self { upstreams, held, clock, options, io, state, events, received })
    }

    /// Adds what the upstreams offer to the catalog of `server`, and follows it while it runs.
    /// Waits for the first lists of all upstreams without manifests, up to the time of the options.
    ///
    /// # Errors
    ///
    /// An entry of the server is invalid, or a manifest.
    pub fn add_to(self: &Arc<Self>, server: Server) -> Result<Server, Box<dyn Error>> {
        self.read_first()?;
        let gateway = Arc::clone(self);
        let server = server.try_map_catalog(|catalog| self.extend(catalog))?;
        let events = self.events.clone();
        let watch = ResourceWatch::new(move |uri, has_subscribers| {
            events.record_subscribers(uri, has_subscribers);
        });
        let statuses = self.upstreams.iter().map(|it| Arc::clone(&it.pool.status));
        let directory = Arc::new(Directory::new(statuses.collect(), self.events.clone()));
        let server = server.keep_session_slots().watch_resources(watch).upstreams(directory);
        Ok(server.on_start(move |handle| GatewayThread::start(gateway, handle)))
    }

    /// Starts each upstream once and says what it is, in their order.
    pub fn check(&self) -> Vec<UpstreamReport> {
        self.read_once(|settings, lists| {
            settings.selection.apply(lists);
            Ok(())
        })
    }

    /// Starts each upstream once, and writes its lists to its manifest if it has one.
    pub fn write_manifests(&self) -> Vec<UpstreamReport> {
        self.read_once(|settings, lists| match &settings.manifest {
            Some(path) => manifest::write(path, lists),
            None => Ok(()),
        })
    }

    /// Reads the lists of each upstream once, and hands them to `on_lists`. Says what they are, in
    /// their order.
    fn read_once(
        &self,
        on_lists: impl Fn(&UpstreamSettings, &mut Lists) -> Result<(), String>,
    ) -> Vec<UpstreamReport> {
        let start = self.clock.now();
        let mut outcomes: Vec<Option<UpstreamReport>> = vec![None; self.upstreams.len()];
        let until = start.after(self.options.start_time);
        (0..self.upstreams.len()).for_each(|index| self.read(index));
        while outcomes.iter().any(Option::is_none) {
            let Ok(event) = self.received.recv_timeout(until.since(self.clock.now())) else {
                break;
            };
            let (index, outcome) = match event {
                FollowerEvent::Lists { index, mut lists } => {
                    let settings = &self.upstreams[index].pool.settings;
                    let handled = on_lists(settings, &mut lists);
                    (index, handled.map(|()| UpstreamFacts::new(&lists, settings.share)))
                }
                FollowerEvent::Failed { index, error } => (index, Err(error.to_string())),
                _ => continue,
            };
            let name = self.upstreams[index].pool.settings.name.clone();
            outcomes[index] =
                Some(UpstreamReport { name, time: self.clock.now().since(start), outcome });
        }
        let unanswered = |(upstream, outcome): (&Arc<Upstream>, Option<UpstreamReport>)| {
            outcome.unwrap_or_else(|| UpstreamReport {
                name: upstream.name().into(),
                time: self.clock.now().since(start),
                outcome: Err("it has not answered within gateway.start_time".to_owned()),
            })
        };
        self.upstreams.iter().zip(outcomes).map(unanswered).collect()
    }

    /// Reads the manifests, and the lists of all other upstreams at once.
    ///
    /// # Errors
    ///
    /// A manifest is invalid.
    fn read_first(&self) -> Result<(), String> {
        let until = self.clock.now().after(self.options.start_time);
        let mut waiting = BTreeSet::new();
        for (index, upstream) in self.upstreams.iter().enumerate() {
            let settings = &upstream.pool.settings;
            if let Some(lists) = read_manifest(settings)? {
                self.take_lists(&mut self.lock(), index, Box::new(lists));
            } else {
                self.read(index);
                waiting.insert(index);
            }
        }
        while !waiting.is_empty() {
            let Ok(event) = self.received.recv_timeout(until.since(self.clock.now())) else {
                break;
            };
            match &event {
                FollowerEvent::Lists { index, .. } | FollowerEvent::Failed { index, .. } => {
                    waiting.remove(index);
                }
                _ => {}
            }
            self.handle(event);
        }
        for index in waiting {
            let upstream = &self.upstreams[index].pool.settings.name;
            let error = "it has not answered yet; its tools follow when it does";
            UpstreamEvent::Failed { upstream, error }.emit();
        }
        Ok(())
    }

    fn extend(&self, catalog: &Catalog) -> Result<Catalog, CatalogError> {
        let mut state = self.lock();
        state.own_keys = keys_of(catalog);
        let entries = self.entries(&mut state);
        let (offered, catalog) = Offered::first(entries, catalog)?;
        state.offered = offered;
        let lists = || state.upstreams.iter().filter_map(|it| it.lists.as_deref());
        let is_unknown = state.upstreams.iter().any(|it| it.lists.is_none());
        let mut features = Features::TOOLS;
        if is_unknown || lists().any(|it| it.server.capabilities.resources.is_some()) {
            features = features.with(Features::RESOURCES);
        }
        if is_unknown || lists().any(|it| it.server.capabilities.prompts.is_some()) {
            features = features.with(Features::PROMPTS);
        }
        let builder = catalog.to_builder().enable_features(features);
        match self.instructions(&state) {
            Some(instructions) => builder.instructions(instructions).build(),
            None => builder.build(),
        }
    }

    /// The instructions of the upstreams, with their names if there are several.
    fn instructions(&self, state: &State) -> Option<String> {
        let given =
            self.upstreams.iter().zip(&state.upstreams).filter_map(|(upstream, followed)| {
                let instructions = followed.lists.as_ref()?.server.instructions.as_deref()?;
                Some((upstream.name(), instructions))
            });
        let given: Vec<(&str, &str)> = given.collect();
        match &given[..] {
            [] => None,
            [(_, only)] if self.upstreams.len() == 1 => Some((*only).to_owned()),
            several => {
                let parts: Vec<String> =
                    several.iter().map(|(name, text)| format!("{name}: {text}")).collect();
                Some(parts.join("\n\n"))
            }
        }
    }

    const fn name_rules(&self) -> NameRules {
        NameRules { prefix: self.options.prefix, separator: self.options.separator }
    }

    /// The upstreams with their lists.
    fn sources<'s>(&'s self, upstreams: &'s [UpstreamState]) -> Vec<Source<'s>> {
        let upstreams = self.upstreams.iter().zip(upstreams);
        let source = |(upstream, followed): (_, &'s UpstreamState)| Source {
            upstream,
            lists: followed.lists.as_deref(),
        };
        upstreams.map(source).collect()
    }

    /// The entries to offer. What is left out is logged once.
    fn entries(&self, state: &mut State) -> Vec<Entry> {
        let Merged { mut entries, mut left_out } =
            Merged::new(&self.sources(&state.upstreams), self.name_rules(), self.options.expose);
        let mut known = state.own_keys.clone();
        entries.retain(|entry| {
            let key = entry.key();
            let why = if state.own_keys.contains(&key) {
                "the server has one itself"
            } else {
                "another one has the same name"
            };
            let (kind, name) = (key.kind, key.name.clone());
            let is_new = known.insert(key);
            if !is_new {
                left_out.push(format!("{kind} `{name}`: {why}"));
            }
            is_new
        });
        let left_out: HashSet<String> = left_out.into_iter().collect();
        let mut added: Vec<&String> = left_out.difference(&state.left_out).collect();
        added.sort_unstable();
        for what in added {
            UpstreamEvent::LeftOut { what }.emit();
        }
        state.left_out = left_out;
        entries
    }

    /// Begins to read the lists of an upstream.
    fn read(&self, index: usize) {
        let (pool, events) = (Arc::clone(&self.upstreams[index].pool), self.events.clone());
        // Fails only when the thread has ended.
        drop(self.io.spawn(move || read_lists(pool, index, events)));
    }

    /// Asks for the notifications of an upstream.
    fn follow(&self, index: usize, followed: &mut UpstreamState) {
        (followed.is_followed, followed.follow_due) = (true, None);
        followed.followed_at = Some(self.clock.now());
        let (pool, events) = (Arc::clone(&self.upstreams[index].pool), self.events.clone());
        let follower = FollowedLists { number: followed.follower.number + 1, ..Default::default() };
        followed.follower = follower.clone();
        drop(self.io.spawn(move || follow(pool, index, follower, events)));
    }

    /// Follows an upstream on the connection that its lists come from now, and reads them again.
    fn follow_moved(&self, index: usize, state: &mut State) {
        let followed = &mut state.upstreams[index];
        if followed.is_disabled {
            return;
        }
        let due = self.clock.now().after(DEBOUNCE);
        followed.due = Some(followed.due.map_or(due, |known| known.min(due)));
        if followed.followed_at.is_none() {
            return;
        }
        if followed.is_followed {
            followed.follower.stop.set(());
            self.follow(index, followed);
        }
        for uri in state.resources.end_all(index) {
            self.subscribe(state, &uri);
        }
    }

    /// Notes that an upstream sends no more notifications: they are asked for again, and what was
    /// missed is read. One that has none is looked at from time to time.
    fn end_follow(&self, index: usize, followed: &mut UpstreamState, error: Option<&ClientError>) {
        let now = self.clock.now();
        followed.is_followed = false;
        if followed.is_disabled {
            return;
        }
        if error.is_some_and(has_no_notifications) {
            followed.due = Some(now.after(POLL));
            return;
        }
        if let Some(error) = error {
            self.log_failure(index, error);
        }
        if followed.followed_at.is_some_and(|began| now.since(began) > RETRY_MAX) {
            followed.follow_ends = 0;
        }
        let due = now.after(retry_delay(followed.follow_ends));
        followed.follow_ends += 1;
        (followed.due, followed.follow_due) = (Some(due), Some(due));
    }

    /// Notes what has happened. Returns whether the lists have changed.
    fn handle(&self, event: FollowerEvent) -> bool {
        let mut state = self.lock();
        match event {
            FollowerEvent::Lists { index, .. } | FollowerEvent::Failed { index, .. }
                if state.upstreams[index].is_disabled =>
            {
                state.upstreams[index].is_reading = false;
                false
            }
            FollowerEvent::Lists { index, lists } => {
                self.take_lists(&mut state, index, lists);
                let followed = &mut state.upstreams[index];
                (followed.is_reading, followed.failures) = (false, 0);
                let is_silent = followed.followed_at.is_some() && !followed.is_followed;
                if is_silent && followed.follow_due.is_none() {
                    followed.due = Some(self.clock.now().after(POLL));
                }
                if followed.followed_at.is_none() {
                    self.follow(index, followed);
                }
                self.subscribe_waiting(&mut state);
                true
            }
            FollowerEvent::Failed { index, error } => {
                let upstream = &self.upstreams[index].pool.settings.name;
                UpstreamEvent::Failed { upstream, error: &error.to_string() }.emit();
                let followed = &mut state.upstreams[index];
                followed.is_reading = false;
                let due = self.clock.now().after(retry_delay(followed.failures));
                followed.due = Some(due);
                followed.failures += 1;
                self.upstreams[index].pool.status.set_failed(&error, due);
                false
            }
            FollowerEvent::FollowEnded { index, number, error } => {
                let followed = &mut state.upstreams[index];
                if number == followed.follower.number {
                    self.end_follow(index, followed, error.as_ref());
                }
                false
            }
            FollowerEvent::ResourceEnded { index, uri, number, error } => {
                let has_none = error.as_ref().is_some_and(has_no_notifications);
                if let Some(error) = error.filter(|_| !has_none) {
                    self.log_failure(index, &error);
                }
                state.resources.end(&uri, number, has_none, self.clock.now());
                false
            }
            FollowerEvent::Changed | FollowerEvent::Stop => false,
        }
    }

    /// Has the lists of an upstream offered, without what is left out.
    fn take_lists(&self, state: &mut State, index: usize, mut lists: Box<Lists>) {
        let settings = &self.upstreams[index].pool.settings;
        let hidden = check_pins(state, settings, &mut lists);
        settings.selection.apply(&mut lists);
        let upstream = &settings.name;
        UpstreamEvent::Ready {
            upstream,
            revision: lists.server.revision.as_str(),
            tools: lists.tools.len(),
            resources: lists.resources.len() + lists.templates.len(),
            prompts: lists.prompts.len(),
        }
        .emit();
        let facts = UpstreamFacts::new(&lists, settings.share);
        self.upstreams[index].pool.status.set_ready(&lists, facts.share, &hidden);
        state.upstreams[index].lists = Some(lists);
    }

    fn log_failure(&self, index: usize, error: &ClientError) {
        let upstream = &self.upstreams[index].pool.settings.name;
        UpstreamEvent::Failed { upstream, error: &error.to_string() }.emit();
    }

    /// Applies the change of an operator. What is offered of an upstream stays while it restarts.
    fn change_upstream(&self, index: usize, followed: &mut UpstreamState, change: UpstreamChange) {
        let is_enabled = change != UpstreamChange::Disable;
        if change == UpstreamChange::Enable && !followed.is_disabled {
            return;
        }
        let pool = &self.upstreams[index].pool;
        let (upstream, change) = (&pool.settings.name, change.as_str());
        UpstreamEvent::Requested { upstream, change }.emit();
        pool.set_disabled(!is_enabled);
        pool.status.set_changed(is_enabled);
        for connection in pool.replace_connections() {
            drop(self.io.spawn(move || connection.close()));
        }
        let now = is_enabled.then(|| self.clock.now());
        (followed.is_disabled, followed.failures, followed.follow_ends) = (!is_enabled, 0, 0);
        followed.due = now;
        followed.follow_due = now.filter(|_| !followed.is_followed);
        if !is_enabled {
            followed.lists = None;
        }
    }

    /// Handles what followers, shards and operators have recorded. Returns the resources that have
    /// changed, and whether the catalog may have.
    fn take_changes(&self) -> (BTreeSet<String>, bool) {
        let Changes { lists, resources, subscribed, upstreams, approved, moved } =
            self.events.take_changes();
        let mut state = self.lock();
        for index in approved {
            let upstream = &self.upstreams[index].pool.settings.name;
            let written = state.pins.as_mut().map_or(Ok(()), |it| it.approve(upstream));
            log_unwritten(upstream, written);
            state.upstreams[index].due = Some(self.clock.now());
        }
        let due = self.clock.now().after(DEBOUNCE);
        let has_disabled = upstreams.values().any(|change| *change == UpstreamChange::Disable);
        for (index, change) in upstreams {
            self.change_upstream(index, &mut state.upstreams[index], change);
        }
        for index in moved {
            self.follow_moved(index, &mut state);
        }
        for index in lists {
            let followed = &mut state.upstreams[index];
            if !followed.is_disabled {
                followed.due = Some(followed.due.map_or(due, |known| known.min(due)));
            }
        }
        for (uri, is_subscribed) in subscribed {
            if is_subscribed {
                self.subscribe(&mut state, &uri);
            } else {
                state.resources.unsubscribe(&uri);
            }
        }
        (resources, has_disabled)
    }

    /// Follows a resource with subscribers at its upstream, if that is known.
    fn subscribe(&self, state: &mut State, uri: &str) {
        let place = place_of(&self.sources(&state.upstreams), uri);
        if let Some(resource) = state.resources.subscribe(uri, place, self.clock.now()) {
            self.follow_resource(resource);
        }
    }

    /// Follows the resources whose upstreams were not known.
    fn subscribe_waiting(&self, state: &mut State) {
        for uri in state.resources.without_upstream() {
            self.subscribe(state, &uri);
        }
    }

    fn follow_resource(&self, resource: FollowedResource) {
        let pool = Arc::clone(&self.upstreams[resource.index].pool);
        let events = self.events.clone();
        drop(self.io.spawn(move || follow_resource(pool, resource, events)));
    }

    /// Reads the lists that are due, and asks for notifications. Returns the time of the next ones.
    fn read_due(&self, now: Instant) -> Option<Instant> {
        let mut state = self.lock();
        for (index, followed) in state.upstreams.iter_mut().enumerate() {
            if !followed.is_reading && followed.due.is_some_and(|due| due <= now) {
                (followed.due, followed.is_reading) = (None, true);
                self.read(index);
            }
            if followed.follow_due.is_some_and(|due| due <= now) {
                self.follow(index, followed);
            }
        }
        for uri in state.resources.take_due(now) {
            self.subscribe(&mut state, &uri);
        }
        let reads = state.upstreams.iter().filter(|it| !it.is_reading).filter_map(|it| it.due);
        let follows = state.upstreams.iter().filter_map(|it| it.follow_due);
        reads.chain(follows).chain(state.resources.next_due()).min()
    }

    /// Changes the catalog of the running server to what the upstreams offer.
    fn publish(&self, handle: &Handle) {
        let mut state = self.lock();
        let entries = self.entries(&mut state);
        let update = state.offered.update(entries);
        let counts = update.counts;
        if counts == ChangeCounts::default() {
            return;
        }
        let (next, edit) = update.keeping_others(&state.offered).into_parts();
        match handle.update_catalog(edit) {
            Ok(()) => {
                state.offered = next;
                let (added, replaced, removed) = (counts.added, counts.replaced, counts.removed);
                UpstreamEvent::Changed { added, replaced, removed }.emit();
            }
            Err(error) => UpstreamEvent::LeftOut { what: &error.to_string() }.emit(),
        }
    }

    /// Follows the upstreams until the server has ended.
    fn run(&self, handle: &Handle) {
        self.publish(handle);
        loop {
            let now = self.clock.now();
            self.held.expire();
            let wait = self.read_due(now).map_or(TICK, |due| due.since(now).min(TICK));
            match self.received.recv_timeout(wait) {
                Ok(FollowerEvent::Stop) | Err(RecvTimeoutError::Disconnected) => {
                    return self.end_sessions();
                }
                Ok(FollowerEvent::Changed) => {
                    let (resources, may_differ) = self.take_changes();
                    for uri in resources {
                        handle.notify_resource_updated(&uri);
                    }
                    if may_differ {
                        self.publish(handle);
                    }
                }
                Ok(event) => {
                    if self.handle(event) {
                        self.publish(handle);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Ends the sessions at addresses, which else keep them until they expire. The client bounds
    /// the time of each. Programs end with this process.
    fn end_sessions(&self) {
        let pools = self.upstreams.iter().map(|upstream| &upstream.pool);
        let remote = pools.filter(|it| !matches!(it.settings.target, Target::Stdio(_)));
        let connections = remote.flat_map(|pool| pool.replace_connections());
        let closing: Vec<_> =
            connections.filter_map(|it| self.io.spawn(move || it.close()).ok()).collect();
        for closed in closing {
            // Fails if the I/O thread has ended, and the connection with it.
            block_on(closed).unwrap_or_default();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Gateway")
            .field("upstreams", &self.upstreams)
            .finish_non_exhaustive()
    }
}

/// Compares the tools of an upstream with those that were accepted. Returns the names of those that
/// are left out.
fn check_pins(state: &mut State, settings: &UpstreamSettings, lists: &mut Lists) -> Vec<String> {
    let Some(pins) = &mut state.pins else { return Vec::new() };
    let on_change = settings.on_change.unwrap_or_default();
    let (upstream, is_hidden) = (&settings.name, on_change == OnChange::Hide);
    let PinCheck { changed, is_news, written } = pins.check(upstream, on_change, &mut lists.tools);
    log_unwritten(upstream, written);
    if is_news {
        let tools = &changed.join(" ");
        UpstreamEvent::ToolsChanged { upstream, tools, is_hidden }.emit();
    }
    if is_hidden { changed } else { Vec::new() }
}

fn log_unwritten(upstream: &str, written: io::Result<()>) {
    if let Err(error) = written {
        let error = &format!("gateway.pins cannot be written: {error}");
        UpstreamEvent::Failed { upstream, error }.emit();
    }
}

/// The thread that follows the upstreams. Dropping it ends the thread.
struct GatewayThread {
    events: FollowerEvents,
    thread: Option<JoinHandle<()>>,
}

impl GatewayThread {
    /// Starts the thread; without one the catalog stays as it is, which is logged.
    fn start(gateway: Arc<Gateway>, handle: Handle) -> Self {
        let events = gateway.events.clone();
        let run = move || gateway.run(&handle);
        let thread = std::thread::Builder::new().name("corelane-gateway".to_owned()).spawn(run);
        let thread = thread.inspect_err(|error| {
            let what = format!("changes of upstreams are not followed: {error}");
            UpstreamEvent::LeftOut { what: &what }.emit();
        });
        Self { events, thread: thread.ok() }
    }
}

impl Drop for GatewayThread {
    fn drop(&mut self) {
        self.events.send(FollowerEvent::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported by its hook.
            thread.join().unwrap_or_default();
        }
    }
}
