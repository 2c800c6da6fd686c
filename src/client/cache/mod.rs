//! Results of a server that the client may use again for a while.
//!
//! MCP 2026-07-28 `server/utilities/caching`.

mod store;

use std::fmt;
use std::sync::{MutexGuard, PoisonError};

use serde::Deserialize;

use self::store::{CacheKey, CacheStore};
use super::session::{CallRequest, ReceivedMessage};
use corelane_base::time::Instant;
use corelane_engine::clock::Clock;
use corelane_protocol::eras::Method;

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
