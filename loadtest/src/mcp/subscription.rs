//! Subscriptions: the requests for them and the notifications they produce.
//!
//! ```text
//!  modern   one `subscriptions/listen` per stream; its id is the subscription id in notifications
//!  legacy   lists      a session gets list changes without a request; over lines and frames the
//!                      response to a `ping` shows that the server has read `initialized`
//!           resources  one `resources/subscribe` per resource
//! ```
//!
//! Invariants: a notification counts for a stream only if it has the requested type and the
//! subscription id of that stream.
//!
//! Source: MCP 2026-07-28, basic/patterns/subscriptions; 2025-11-25, server/tools, server/prompts
//! and server/resources, "List Changed Notification" and "Subscriptions".

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::request_settings::RequestSettings;
use super::request_template::{ID_DIGITS, ID_FIRST, RequestTemplate, id_digits};
use crate::target::{Era, Transport};

/// What is subscribed to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SubscriptionFilter {
    /// `notifications/tools/list_changed`.
    Tools,
    /// `notifications/prompts/list_changed`.
    Prompts,
    /// `notifications/resources/list_changed`.
    Resources,
    /// `notifications/resources/updated` of these resources.
    Uris(Vec<String>),
}

impl SubscriptionFilter {
    /// Returns the notification method.
    const fn method(&self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
            Self::Resources => "notifications/resources/list_changed",
            Self::Uris(_) => "notifications/resources/updated",
        }
    }

    /// Returns the `notifications` parameter of `subscriptions/listen`.
    fn to_params(&self) -> Value {
        match self {
            Self::Tools => json!({ "toolsListChanged": true }),
            Self::Prompts => json!({ "promptsListChanged": true }),
            Self::Resources => json!({ "resourcesListChanged": true }),
            Self::Uris(uris) => json!({ "resourceSubscriptions": uris }),
        }
    }

    /// Returns whether the acknowledged parameter includes all that was requested.
    fn is_granted(&self, granted: &Value) -> bool {
        match (self, self.to_params()) {
            (Self::Uris(uris), _) => {
                let granted = granted["resourceSubscriptions"].as_array();
                let has =
                    |uri: &String| granted.is_some_and(|all| all.iter().any(|one| one == uri));
                uris.iter().all(has)
            }
            (_, Value::Object(params)) => {
                params.iter().all(|(name, value)| &granted[name] == value)
            }
            _ => false,
        }
    }

    /// Returns whether an update of this resource is covered. It may be a sub-resource.
    fn covers_uri(&self, uri: &str) -> bool {
        match self {
            Self::Uris(uris) => uris.iter().any(|subscribed| uri.starts_with(subscribed.as_str())),
            _ => true,
        }
    }
}

/// Subscription of all streams of a run, with the template of its notifications.
#[derive(Clone, Debug)]
pub struct Subscription {
    request_settings: RequestSettings,
    filter: SubscriptionFilter,
    /// Modern: the request of each stream. Legacy: the requests of a connection, in order.
    requests: Vec<RequestTemplate>,
    streams: usize,
    template: NotificationTemplate,
}

/// Kind of a notification.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum NotificationKind {
    /// A change that was subscribed to.
    Change {
        /// Subscription id; `None` in the legacy era.
        id: Option<u64>,
    },
    /// A stream was opened.
    Acknowledged {
        /// Subscription id.
        id: Option<u64>,
        /// Whether everything that was requested is included.
        is_complete: bool,
    },
    /// A change that was not subscribed to.
    Unrequested,
    /// Any other notification.
    Other,
}

#[derive(Deserialize)]
struct NotificationView<'a> {
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow, default)]
    params: Params<'a>,
}

#[derive(Default, Deserialize)]
struct Params<'a> {
    #[serde(borrow, default, rename = "_meta")]
    meta: Meta<'a>,
    #[serde(borrow, default)]
    uri: Cow<'a, str>,
    #[serde(borrow, default)]
    notifications: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct Meta<'a> {
    #[serde(borrow, default, rename = "io.modelcontextprotocol/subscriptionId")]
    subscription: Option<&'a RawValue>,
}

impl Subscription {
    /// Creates the subscription of `streams` streams per connection to `subject`. In the legacy era
    /// a connection is always one stream.
    pub fn new(settings: &RequestSettings, filter: SubscriptionFilter, streams: usize) -> Self {
        let request = |method: &str, params: Value| {
            RequestTemplate::new(settings, method, params.as_object(), None)
        };
        let requests = match (settings.era, &filter) {
            (Era::Modern, subject) => {
                let mut params = Map::new();
                params.insert("notifications".into(), subject.to_params());
                vec![request("subscriptions/listen", Value::from(params))]
            }
            (_, SubscriptionFilter::Uris(uris)) => uris
                .iter()
                .map(|uri| request("resources/subscribe", json!({ "uri": uri })))
                .collect(),
            (_, _) if settings.transport == Transport::Http => Vec::new(),
            (_, _) => vec![RequestTemplate::new(settings, "ping", None, None)],
        };
        let streams = if settings.era == Era::Modern { streams } else { 1 };
        let request_settings = settings.clone();
        Self {
            request_settings,
            filter,
            requests,
            streams,
            template: NotificationTemplate::default(),
        }
    }

    /// Returns the number of streams per connection.
    pub const fn streams(&self) -> usize {
        self.streams
    }

    /// Returns how messages are framed for the server.
    pub(super) const fn request_settings(&self) -> &RequestSettings {
        &self.request_settings
    }

    pub(super) fn is_over(&self, transport: Transport) -> bool {
        self.request_settings.transport == transport
    }

    pub(super) fn is_modern(&self) -> bool {
        self.request_settings.era == Era::Modern
    }

    /// Returns how many requests of a connection must be answered before it is open.
    pub(super) const fn requests(&self) -> usize {
        match self.request_settings.era {
            Era::Modern => self.streams,
            _ => self.requests.len(),
        }
    }

    /// Writes the request at position `place` of a connection.
    pub(super) fn write_request(&self, out: &mut Vec<u8>, place: usize, session: Option<&str>) {
        let request =
            if self.is_modern() { self.requests.first() } else { self.requests.get(place) };
        if let Some(request) = request {
            request.write_request(out, ID_FIRST + place as u64, session);
        }
    }

    /// Returns the position of the request with this id.
    pub(super) fn position(&self, id: u64) -> Option<usize> {
        let place = usize::try_from(id.checked_sub(ID_FIRST)?).ok()?;
        (place < self.requests()).then_some(place)
    }

    /// Returns the stream of a notification that equals the template except for the subscription
    /// id.
    #[inline]
    pub(super) fn match_template(&self, text: &[u8]) -> Option<usize> {
        let id = self.template.match_id(text)?;
        if self.is_modern() { self.position(id) } else { Some(0) }
    }

    /// Parses a notification.
    pub(super) fn parse_notification(&mut self, text: &[u8]) -> NotificationKind {
        let Ok(message) = serde_json::from_slice::<NotificationView<'_>>(text) else {
            return NotificationKind::Unrequested;
        };
        let Params { meta, uri, notifications } = &message.params;
        let id = meta.subscription.and_then(|id| id.get().parse().ok());
        match &*message.method {
            "notifications/subscriptions/acknowledged" => {
                let granted = notifications.and_then(|all| serde_json::from_str(all.get()).ok());
                let is_whole = granted.is_some_and(|granted| self.filter.is_granted(&granted));
                NotificationKind::Acknowledged { id, is_complete: is_whole }
            }
            method if method == self.filter.method() && self.filter.covers_uri(uri) => {
                // Without a subscription id the stream is unknown.
                if id.is_some() != self.is_modern() {
                    return NotificationKind::Unrequested;
                }
                self.template.learn(text, id);
                NotificationKind::Change { id }
            }
            "notifications/resources/updated" => NotificationKind::Unrequested,
            // Legacy sessions receive the changes of all lists.
            method if method.ends_with("/list_changed") && self.is_modern() => {
                NotificationKind::Unrequested
            }
            _ => NotificationKind::Other,
        }
    }
}

/// The last notification that was parsed. Later ones usually differ only in the subscription id and
/// are compared instead of parsed.
#[derive(Clone, Debug, Default)]
struct NotificationTemplate {
    text: Vec<u8>,
    /// Position of the subscription id, if there is one.
    id_at: Option<usize>,
}

impl NotificationTemplate {
    /// Stores `text`, unless the id does not occur in it exactly once.
    fn learn(&mut self, text: &[u8], id: Option<u64>) {
        self.text.clear();
        self.id_at = None;
        if let Some(id) = id {
            let digits = id_digits(id);
            let mut found = memchr::memmem::find_iter(text, &digits);
            let (Some(at), None) = (found.next(), found.next()) else { return };
            self.id_at = Some(at);
        }
        self.text.extend_from_slice(text);
    }

    /// Returns the subscription id in a text that equals the template otherwise, [`ID_FIRST`] for a
    /// template without id, or `None` if it differs.
    #[inline]
    fn match_id(&self, text: &[u8]) -> Option<u64> {
        if text.len() != self.text.len() || text.is_empty() {
            return None;
        }
        let Some(at) = self.id_at else { return (text == self.text).then_some(ID_FIRST) };
        let end = at + ID_DIGITS;
        if text[..at] != self.text[..at] || text[end..] != self.text[end..] {
            return None;
        }
        let add = |sum: u64, digit: &u8| {
            digit.is_ascii_digit().then(|| sum * 10 + u64::from(digit - b'0'))
        };
        text[at..end].iter().try_fold(0, add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscription(era: Era, subject: SubscriptionFilter) -> Subscription {
        let (authority, path) = ("localhost:1", "/mcp");
        let settings =
            RequestSettings::new(Transport::Tcp, era, authority, path, Vec::new()).unwrap();
        Subscription::new(&settings, subject, 3)
    }

    fn request(subscription: &Subscription, place: usize) -> Value {
        let mut out = Vec::new();
        subscription.write_request(&mut out, place, None);
        serde_json::from_slice(&out).unwrap()
    }

    fn change(method: &str, id: u64) -> String {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/{method}\",\"params\":{{\"_meta\":\
             {{\"io.modelcontextprotocol/subscriptionId\":{id}}}}}}}"
        )
    }

    #[test]
    fn subscription_streams_have_own_request_ids() {
        let subscription = subscription(Era::Modern, SubscriptionFilter::Prompts);
        let request = request(&subscription, 2);
        assert_eq!(request["method"], "subscriptions/listen");
        assert_eq!(request["id"], ID_FIRST + 2);
        assert_eq!(request["params"]["notifications"], json!({ "promptsListChanged": true }));
        assert_eq!((subscription.streams(), subscription.requests()), (3, 3));
    }

    #[test]
    fn legacy_subscription_requests_each_resource() {
        let uris = SubscriptionFilter::Uris(vec!["test://a".into(), "test://b".into()]);
        let resources = subscription(Era::Legacy, uris);
        assert_eq!((resources.streams(), resources.requests()), (1, 2));
        assert_eq!(request(&resources, 1)["method"], "resources/subscribe");
        assert_eq!(request(&resources, 1)["params"], json!({ "uri": "test://b" }));
        assert_eq!(
            request(&subscription(Era::Legacy, SubscriptionFilter::Tools), 0)["method"],
            "ping"
        );
    }

    #[test]
    fn subscription_notification_matches_after_first() {
        let mut subscription = subscription(Era::Modern, SubscriptionFilter::Tools);
        let text = |place| change("tools/list_changed", ID_FIRST + place);
        assert_eq!(subscription.match_template(text(0).as_bytes()), None);
        let id = Some(ID_FIRST);
        assert_eq!(
            subscription.parse_notification(text(0).as_bytes()),
            NotificationKind::Change { id }
        );
        assert_eq!(subscription.match_template(text(2).as_bytes()), Some(2));
        assert_eq!(subscription.match_template(text(3).as_bytes()), None, "there are three");
        let other = text(1).replace("tools", "pools");
        assert_eq!(subscription.match_template(other.as_bytes()), None);
        let nameless = text(1).replace("1000000001", "1x00000001");
        assert_eq!(subscription.match_template(nameless.as_bytes()), None);
    }

    #[test]
    fn unrequested_notification_is_distinguished_from_change() {
        let mut modern = subscription(Era::Modern, SubscriptionFilter::Tools);
        let other = change("prompts/list_changed", ID_FIRST);
        assert_eq!(modern.parse_notification(other.as_bytes()), NotificationKind::Unrequested);
        let nameless = br#"{"method":"notifications/tools/list_changed"}"#;
        assert_eq!(modern.parse_notification(nameless), NotificationKind::Unrequested);
        assert_eq!(
            modern.parse_notification(br#"{"method":"notifications/message"}"#),
            NotificationKind::Other
        );
        let mut legacy = subscription(Era::Legacy, SubscriptionFilter::Tools);
        assert_eq!(legacy.parse_notification(nameless), NotificationKind::Change { id: None });
        assert_eq!(legacy.match_template(nameless), Some(0));
        assert_eq!(
            legacy.parse_notification(br#"{"method":"notifications/prompts/list_changed"}"#),
            NotificationKind::Other
        );
        assert_eq!(
            legacy.parse_notification(other.replace("prompts", "tools").as_bytes()),
            NotificationKind::Unrequested
        );
    }

    #[test]
    fn resource_subscription_matches_uri_and_children() {
        let mut subscription =
            subscription(Era::Legacy, SubscriptionFilter::Uris(vec!["test://a".into()]));
        let updated = |uri: &str| {
            format!(r#"{{"method":"notifications/resources/updated","params":{{"uri":"{uri}"}}}}"#)
        };
        for uri in ["test://a", "test://a/part"] {
            let notice = subscription.parse_notification(updated(uri).as_bytes());
            assert_eq!(notice, NotificationKind::Change { id: None });
        }
        assert_eq!(
            subscription.parse_notification(updated("test://b").as_bytes()),
            NotificationKind::Unrequested
        );
    }

    #[test]
    fn partial_acknowledgement_is_detected() {
        let uris = SubscriptionFilter::Uris(vec!["test://a".into(), "test://b".into()]);
        let mut subscription = subscription(Era::Modern, uris);
        let mut read = |granted: &str| {
            let text = change("subscriptions/acknowledged", ID_FIRST);
            let text = text.replace("}}}", &format!("}},\"notifications\":{granted}}}}}"));
            subscription.parse_notification(text.as_bytes())
        };
        let id = Some(ID_FIRST);
        let whole = r#"{"resourceSubscriptions":["test://b","test://a"]}"#;
        assert_eq!(read(whole), NotificationKind::Acknowledged { id, is_complete: true });
        let less = r#"{"resourceSubscriptions":["test://b"]}"#;
        assert_eq!(read(less), NotificationKind::Acknowledged { id, is_complete: false });
        assert_eq!(read("{}"), NotificationKind::Acknowledged { id, is_complete: false });
    }
}
