//! Results of a server that the client may use again for a while.
//!
//! MCP 2026-07-28 `server/utilities/caching`.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{MutexGuard, PoisonError};

use corelane_base::time::Instant;
use corelane_engine::clock::Clock;
use corelane_protocol::eras::Method;
use corelane_protocol::uri;
use serde::Deserialize;

use super::session::{CallRequest, ReceivedMessage};

#[expect(clippy::disallowed_types, reason = "held for the few steps of one operation")]
type Mutex<T> = std::sync::Mutex<T>;

/// Which results a client uses again while the server calls them fresh (`ttlMs`, 2026-07-28).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum CachePolicy {
    /// None.
    Off,
    /// Lists and `server/discover`.
    #[default]
    Lists,
    /// Lists, `server/discover` and the contents of resources.
    ListsAndResources,
}

/// The fresh results of one server. Notifications of changes remove what they concern.
pub(super) struct Cache {
    policy: CachePolicy,
    clock: Clock,
    /// Created by the first request whose result may be stored.
    store: Mutex<Option<Box<CacheStore>>>,
}

/// What a cache has for a request.
#[derive(Debug)]
pub(super) enum CacheLookup {
    /// A result that is fresh.
    Hit(ReceivedMessage),
    /// None; this stores the one that the server sends.
    Miss(CacheTicket),
    /// The request must be sent, and its result is not stored.
    Bypass,
}

/// The right to store the result of a request that is being sent.
#[derive(Debug)]
pub(super) struct CacheTicket {
    key: CacheKey,
    /// The number of changes of this kind that were notified before.
    changes: u64,
    sent_at: Instant,
}

impl Cache {
    pub(super) fn new(policy: CachePolicy) -> Self {
        Self { policy, clock: Clock::start(), store: Mutex::default() }
    }

    /// Looks for the result of a request.
    pub(super) fn look_up(&self, request: &CallRequest) -> CacheLookup {
        let is_allowed = match (self.policy, request.method) {
            (CachePolicy::Off, _) => false,
            (_, Method::ResourcesRead) => self.policy == CachePolicy::ListsAndResources,
            (_, method) => matches!(
                method,
                Method::ToolsList
                    | Method::PromptsList
                    | Method::ResourcesList
                    | Method::ResourcesTemplatesList
                    | Method::Discover
            ),
        };
        if !is_allowed || !request.meta.is_empty() || request.wants_progress {
            return CacheLookup::Bypass;
        }
        let (key, now) = (CacheKey::of_request(request), self.clock.now());
        let mut store = self.lock();
        let store = store.get_or_insert_default();
        if !request.is_fresh
            && let Some(message) = store.get(&key, now)
        {
            return CacheLookup::Hit(message.clone());
        }
        let changes = store.changes(key.kind());
        CacheLookup::Miss(CacheTicket { key, changes, sent_at: now })
    }

    /// Stores a result for as long as the server allows.
    pub(super) fn store(&self, ticket: CacheTicket, message: &ReceivedMessage) {
        if !message.revision().is_modern() || message.used_input() {
            return;
        }
        let CacheTicket { key, changes, sent_at } = ticket;
        let Some(hint) = Freshness::read(message) else { return };
        if let Some(store) = &mut *self.lock()
            && store.changes(key.kind()) == changes
        {
            store.insert(key, message.clone(), sent_at.after(hint.ttl()));
        }
    }

    /// Removes what a notification concerns.
    pub(super) fn handle_notification(&self, message: &ReceivedMessage) {
        if self.policy != CachePolicy::Off
            && message.revision().is_modern()
            && let Some(store) = &mut *self.lock()
        {
            store.handle_notification(message);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<CacheStore>>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Cache").field("policy", &self.policy).finish_non_exhaustive()
    }
}

/// How long a result may be used. `cacheScope` forbids nothing: each client has its own cache.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Freshness {
    #[serde(default)]
    ttl_ms: f64,
}

impl Freshness {
    /// Reads the hint of a result; `None` if it may not be used again.
    fn read(message: &ReceivedMessage) -> Option<Self> {
        #[derive(Deserialize)]
        struct Response {
            result: Freshness,
        }
        let response: Response = serde_json::from_slice(message.as_bytes()).ok()?;
        (response.result.ttl_ms >= 1.0).then_some(response.result)
    }

    /// The time, a year at most.
    fn ttl(&self) -> std::time::Duration {
        let year = std::time::Duration::from_hours(24 * 365);
        std::time::Duration::try_from_secs_f64(self.ttl_ms / 1e3).map_or(year, |ttl| ttl.min(year))
    }
}

/// Results of one server.
const RESULTS_MAX: usize = 1_024;
/// Bytes of all results of one server.
const BYTES_MAX: usize = 8 << 20;
/// Longest result that is stored; a longer one is not.
const RESULT_BYTES_MAX: usize = 2 << 20;

/// What a notification of a change concerns.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum CacheKind {
    Discover,
    Tools,
    Prompts,
    Resources,
    Contents,
}

/// A request without its id.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct CacheKey {
    method: Method,
    name: Option<Box<str>>,
    params: Box<[u8]>,
}

impl CacheKey {
    fn of_request(request: &CallRequest) -> Self {
        let CallRequest { method, name, params, .. } = request;
        Self {
            method: *method,
            name: name.as_deref().map(Box::from),
            params: params.as_slice().into(),
        }
    }

    const fn kind(&self) -> CacheKind {
        match self.method {
            Method::ToolsList => CacheKind::Tools,
            Method::PromptsList => CacheKind::Prompts,
            Method::ResourcesList | Method::ResourcesTemplatesList => CacheKind::Resources,
            Method::ResourcesRead => CacheKind::Contents,
            _ => CacheKind::Discover,
        }
    }
}

#[derive(Debug)]
struct CacheEntry {
    message: ReceivedMessage,
    fresh_until: Instant,
}

/// The results and the numbers of changes.
#[derive(Debug, Default)]
struct CacheStore {
    results: HashMap<CacheKey, CacheEntry>,
    /// Keys, the oldest first; may name results that are gone.
    order: VecDeque<CacheKey>,
    bytes: usize,
    changes: HashMap<CacheKind, u64>,
}

impl CacheStore {
    /// Returns a result that is fresh.
    fn get(&mut self, key: &CacheKey, now: Instant) -> Option<&ReceivedMessage> {
        if self.results.get(key)?.fresh_until <= now {
            self.remove(key);
            return None;
        }
        self.results.get(key).map(|entry| &entry.message)
    }

    /// Adds a result; the oldest ones make room for it.
    fn insert(&mut self, key: CacheKey, message: ReceivedMessage, fresh_until: Instant) {
        let bytes = message.as_bytes().len();
        self.remove(&key);
        if bytes > RESULT_BYTES_MAX {
            return;
        }
        while self.results.len() >= RESULTS_MAX || self.bytes + bytes > BYTES_MAX {
            let Some(oldest) = self.order.pop_front() else { return };
            self.remove(&oldest);
        }
        self.bytes += bytes;
        self.order.push_back(key.clone());
        self.results.insert(key, CacheEntry { message, fresh_until });
    }

    fn remove(&mut self, key: &CacheKey) {
        if let Some(entry) = self.results.remove(key) {
            self.bytes -= entry.message.as_bytes().len();
            self.order.retain(|other| other != key);
        }
    }

    /// Returns how many changes of a kind were notified.
    fn changes(&self, kind: CacheKind) -> u64 {
        self.changes.get(&kind).copied().unwrap_or_default()
    }

    /// Removes what a notification concerns.
    fn handle_notification(&mut self, message: &ReceivedMessage) {
        use CacheKind::{Contents, Prompts, Resources, Tools};

        #[derive(Deserialize)]
        struct Notification {
            method: String,
            #[serde(default)]
            params: Params,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Params {
            uri: String,
        }
        let Ok(notification) = serde_json::from_slice::<Notification>(message.as_bytes()) else {
            return;
        };
        let kinds: &[CacheKind] = match notification.method.as_str() {
            "notifications/tools/list_changed" => &[Tools],
            "notifications/prompts/list_changed" => &[Prompts],
            "notifications/resources/list_changed" => &[Resources],
            "notifications/resources/updated" => &[Contents],
            // Changes before the subscription, or while its connection was lost, were not notified.
            "notifications/subscriptions/acknowledged" => &[Tools, Prompts, Resources, Contents],
            _ => return,
        };
        for kind in kinds {
            *self.changes.entry(*kind).or_default() += 1;
        }
        // The URI may be that of a part of a resource.
        let uri = &notification.params.uri;
        let is_part = |name: &str| uri::is_part_of(uri, name) || uri::is_part_of(name, uri);
        let removed: Vec<CacheKey> = self
            .order
            .iter()
            .filter(|key| kinds.contains(&key.kind()))
            .filter(|key| key.kind() != Contents || key.name.as_deref().is_none_or(is_part))
            .cloned()
            .collect();
        for key in removed {
            self.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use corelane_protocol::revision::Revision;

    fn key(method: Method, uri: &str) -> CacheKey {
        let mut request = CallRequest::new(method);
        request.name = Some(uri.into());
        CacheKey::of_request(&request)
    }

    fn message(text: &str) -> ReceivedMessage {
        ReceivedMessage::new(text.as_bytes().to_vec(), Revision::LATEST, false)
    }

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN.after(Duration::from_secs(seconds))
    }

    #[test]
    fn result_is_fresh_until_its_time() {
        let mut store = CacheStore::default();
        let tools = key(Method::ToolsList, "");
        store.insert(tools.clone(), message("a"), at(5));
        assert_eq!(store.get(&tools, at(4)), Some(&message("a")));
        assert_eq!(store.get(&tools, at(5)), None);
        assert_eq!((store.bytes, store.order.len()), (0, 0));
    }

    #[test]
    fn oldest_results_make_room() {
        let mut store = CacheStore::default();
        let large = "x".repeat(RESULT_BYTES_MAX);
        for index in 0..5 {
            let uri = format!("test://{index}");
            store.insert(key(Method::ResourcesRead, &uri), message(&large), at(5));
        }
        assert_eq!((store.results.len(), store.bytes), (4, BYTES_MAX));
        assert_eq!(store.get(&key(Method::ResourcesRead, "test://0"), at(0)), None);
        let too_large = message(&format!("{large}x"));
        store.insert(key(Method::ResourcesRead, "test://9"), too_large, at(5));
        assert_eq!(store.results.len(), 4);
        let mut store = CacheStore::default();
        for index in 0..=RESULTS_MAX {
            store.insert(key(Method::ResourcesRead, &index.to_string()), message("a"), at(5));
        }
        assert_eq!((store.results.len(), store.order.len()), (RESULTS_MAX, RESULTS_MAX));
    }

    #[test]
    fn notification_removes_what_it_concerns() {
        let mut store = CacheStore::default();
        let keys = [
            key(Method::ToolsList, ""),
            key(Method::ResourcesList, ""),
            key(Method::ResourcesTemplatesList, ""),
            key(Method::ResourcesRead, "test://a"),
            key(Method::ResourcesRead, "test://b"),
        ];
        for key in &keys {
            store.insert(key.clone(), message("a"), at(5));
        }
        let mut present = |notification: &str| {
            store.handle_notification(&message(notification));
            keys.iter().map(|key| store.get(key, at(0)).is_some()).collect::<Vec<_>>()
        };
        assert_eq!(present(r#"{"method":"notifications/message"}"#), [true; 5]);
        assert_eq!(
            present(
                r#"{"method":"notifications/resources/updated","params":{"uri":"TEST://A/b"}}"#
            ),
            [true, true, true, false, true]
        );
        assert_eq!(
            present(r#"{"method":"notifications/resources/list_changed"}"#),
            [true, false, false, false, true]
        );
        assert_eq!(
            present(r#"{"method":"notifications/tools/list_changed","params":{}}"#),
            [false, false, false, false, true]
        );
        let acknowledged = r#"{"method":"notifications/subscriptions/acknowledged"}"#;
        assert_eq!(present(acknowledged), [false; 5]);
        assert_eq!(store.changes(CacheKind::Tools), 2);
        assert_eq!(store.changes(CacheKind::Prompts), 1);
    }
}
