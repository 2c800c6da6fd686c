//! The results, bounded in number and bytes.

use std::collections::{HashMap, VecDeque};

use serde::Deserialize;

use crate::session::{CallRequest, ReceivedMessage};
use corelane_base::time::Instant;
use corelane_protocol::eras::Method;
use corelane_protocol::uri;

/// Results of one server.
const RESULTS_MAX: usize = 1_024;
/// Bytes of all results of one server.
const BYTES_MAX: usize = 8 << 20;
/// Bytes of one result.
const RESULT_BYTES_MAX: usize = 2 << 20;

/// What a notification of a change concerns.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum CacheKind {
    Discover,
    Tools,
    Prompts,
    Resources,
    Contents,
}

/// A request without its id.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct CacheKey {
    method: Method,
    name: Option<Box<str>>,
    params: Box<[u8]>,
}

impl CacheKey {
    pub(super) fn of_request(request: &CallRequest) -> Self {
        let CallRequest { method, name, params, .. } = request;
        Self {
            method: *method,
            name: name.as_deref().map(Box::from),
            params: params.as_slice().into(),
        }
    }

    pub(super) const fn kind(&self) -> CacheKind {
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
pub(super) struct CacheStore {
    results: HashMap<CacheKey, CacheEntry>,
    /// Keys, the oldest first; may name results that are gone.
    order: VecDeque<CacheKey>,
    bytes: usize,
    changes: HashMap<CacheKind, u64>,
}

impl CacheStore {
    /// Returns a result that is fresh.
    pub(super) fn get(&mut self, key: &CacheKey, now: Instant) -> Option<&ReceivedMessage> {
        if self.results.get(key)?.fresh_until <= now {
            self.remove(key);
            return None;
        }
        self.results.get(key).map(|entry| &entry.message)
    }

    /// Adds a result; the oldest ones make room for it.
    pub(super) fn insert(&mut self, key: CacheKey, message: ReceivedMessage, fresh_until: Instant) {
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
    pub(super) fn changes(&self, kind: CacheKind) -> u64 {
        self.changes.get(&kind).copied().unwrap_or_default()
    }

    /// Removes what a notification concerns.
    pub(super) fn handle_notification(&mut self, message: &ReceivedMessage) {
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
    use std::time::Duration;

    use super::*;
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
