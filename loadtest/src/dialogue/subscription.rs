//! What is listened to: how a server is asked for it, and what it tells of it.
//!
//! ```text
//!  modern   one `subscriptions/listen` a stream; its id names the stream in all that is told
//!  legacy   lists      a session hears of them by itself; over lines and frames a `ping` is
//!                      answered when the server has read that the session is initialized
//!           resources  `resources/subscribe`, one for each
//! ```
//!
//! What it keeps true: a notification counts for a stream only where it says what that stream asked
//! for, in the name of that stream.
//!
//! Source: 2026-07-28, basic/patterns/subscriptions; 2025-11-25, server/tools, server/prompts and
//! server/resources, "List Changed Notification" and "Subscriptions".

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::call::{Call, ID_DIGITS, ID_FIRST, Speech, digits};
use crate::target::{Era, Transport};

/// What is listened to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Subject {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The list of resources.
    Resources,
    /// These resources.
    Uris(Vec<String>),
}

impl Subject {
    /// The notification that tells of it.
    const fn method(&self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
            Self::Resources => "notifications/resources/list_changed",
            Self::Uris(_) => "notifications/resources/updated",
        }
    }

    /// How a modern stream asks for it.
    fn wish(&self) -> Value {
        match self {
            Self::Tools => json!({ "toolsListChanged": true }),
            Self::Prompts => json!({ "promptsListChanged": true }),
            Self::Resources => json!({ "resourcesListChanged": true }),
            Self::Uris(uris) => json!({ "resourceSubscriptions": uris }),
        }
    }

    /// Whether a server that grants this grants all of it.
    fn is_granted(&self, granted: &Value) -> bool {
        match (self, self.wish()) {
            (Self::Uris(uris), _) => {
                let granted = granted["resourceSubscriptions"].as_array();
                let has =
                    |uri: &String| granted.is_some_and(|all| all.iter().any(|one| one == uri));
                uris.iter().all(has)
            }
            (_, Value::Object(wish)) => wish.iter().all(|(name, value)| &granted[name] == value),
            _ => false,
        }
    }

    /// Whether a change of this resource is one of what is listened to: it may be a part of it.
    fn covers(&self, uri: &str) -> bool {
        match self {
            Self::Uris(uris) => uris.iter().any(|listened| uri.starts_with(listened.as_str())),
            _ => true,
        }
    }
}

/// What all streams of a run listen to, and what was learned of how it is told.
#[derive(Clone, Debug)]
pub struct Subscription {
    speech: Speech,
    subject: Subject,
    /// What is asked: by each stream where the era is modern, else one after the other.
    requests: Vec<Call>,
    streams: usize,
    pattern: Pattern,
}

/// What a notification says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Notice {
    /// What is listened to has changed.
    Change {
        /// The request that asked, where that is named.
        id: Option<u64>,
    },
    /// A stream is open.
    Acknowledged {
        /// The request that asked.
        id: Option<u64>,
        /// All that was asked for is granted.
        is_whole: bool,
    },
    /// It tells of something that was not asked for.
    Unasked,
    /// Something else, which a server may say.
    Nothing,
}

#[derive(Deserialize)]
struct Message<'a> {
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
    /// So many streams of each connection listen to `subject`. In the legacy era a connection is
    /// one stream, whatever `streams` says.
    pub fn new(speech: &Speech, subject: Subject, streams: usize) -> Self {
        let request = |method: &str, params: Value| {
            Call::new(speech, (method, params.as_object().cloned()), None)
        };
        let requests = match (speech.era, &subject) {
            (Era::Modern, subject) => {
                let mut params = Map::new();
                params.insert("notifications".into(), subject.wish());
                vec![request("subscriptions/listen", Value::from(params))]
            }
            (Era::Legacy, Subject::Uris(uris)) => uris
                .iter()
                .map(|uri| request("resources/subscribe", json!({ "uri": uri })))
                .collect(),
            (Era::Legacy, _) if speech.transport == Transport::Http => Vec::new(),
            (Era::Legacy, _) => vec![Call::new(speech, ("ping", None), None)],
        };
        let streams = if speech.era == Era::Modern { streams } else { 1 };
        let speech = speech.clone();
        Self { speech, subject, requests, streams, pattern: Pattern::default() }
    }

    /// Streams of one connection.
    pub const fn streams(&self) -> usize {
        self.streams
    }

    /// How the server is spoken to.
    pub(super) const fn speech(&self) -> &Speech {
        &self.speech
    }

    pub(super) fn is_over(&self, transport: Transport) -> bool {
        self.speech.transport == transport
    }

    pub(super) fn is_modern(&self) -> bool {
        self.speech.era == Era::Modern
    }

    /// Requests of one connection that are answered, or acknowledged, before it is open.
    pub(super) const fn requests(&self) -> usize {
        match self.speech.era {
            Era::Modern => self.streams,
            Era::Legacy => self.requests.len(),
        }
    }

    /// Writes the request of this place among those of a connection.
    pub(super) fn ask(&self, out: &mut Vec<u8>, place: usize, session: Option<&[u8]>) {
        let request =
            if self.is_modern() { self.requests.first() } else { self.requests.get(place) };
        if let Some(request) = request {
            request.write(out, ID_FIRST + place as u64, session);
        }
    }

    /// The place of the request with this id.
    pub(super) fn place(&self, id: u64) -> Option<usize> {
        let place = usize::try_from(id.checked_sub(ID_FIRST)?).ok()?;
        (place < self.requests()).then_some(place)
    }

    /// The stream that is told of a change, where the text is to the byte what told of the last
    /// one, but for the name of the stream.
    #[inline]
    pub(super) fn recognize(&self, text: &[u8]) -> Option<usize> {
        let id = self.pattern.id_of(text)?;
        if self.is_modern() { self.place(id) } else { Some(0) }
    }

    /// Reads a notification in full.
    pub(super) fn read(&mut self, text: &[u8]) -> Notice {
        let Ok(message) = serde_json::from_slice::<Message<'_>>(text) else {
            return Notice::Unasked;
        };
        let Params { meta, uri, notifications } = &message.params;
        let id = meta.subscription.and_then(|id| id.get().parse().ok());
        match &*message.method {
            "notifications/subscriptions/acknowledged" => {
                let granted = notifications.and_then(|all| serde_json::from_str(all.get()).ok());
                let is_whole = granted.is_some_and(|granted| self.subject.is_granted(&granted));
                Notice::Acknowledged { id, is_whole }
            }
            method if method == self.subject.method() && self.subject.covers(uri) => {
                // Without a name nobody could tell which stream is meant.
                if id.is_some() != self.is_modern() {
                    return Notice::Unasked;
                }
                self.pattern.learn(text, id);
                Notice::Change { id }
            }
            "notifications/resources/updated" => Notice::Unasked,
            // Legacy sessions hear of all lists.
            method if method.ends_with("/list_changed") && self.is_modern() => Notice::Unasked,
            _ => Notice::Nothing,
        }
    }
}

/// The last notification that was read in full. Those that follow differ from it in the name of
/// the stream at most, so that most are compared and not read.
#[derive(Clone, Debug, Default)]
struct Pattern {
    text: Vec<u8>,
    /// Where the id of the request that asked stands, where it does.
    id_at: Option<usize>,
}

impl Pattern {
    /// Keeps this text; none where the id does not stand in it exactly once.
    fn learn(&mut self, text: &[u8], id: Option<u64>) {
        self.text.clear();
        self.id_at = None;
        if let Some(id) = id {
            let digits = digits(id);
            let mut found = memchr::memmem::find_iter(text, &digits);
            let (Some(at), None) = (found.next(), found.next()) else { return };
            self.id_at = Some(at);
        }
        self.text.extend_from_slice(text);
    }

    /// The id in a text that is like this one, the first of all where none stands in it; none where
    /// it is not.
    #[inline]
    fn id_of(&self, text: &[u8]) -> Option<u64> {
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

    fn subscription(era: Era, subject: Subject) -> Subscription {
        let speech = Speech {
            transport: Transport::Tcp,
            era,
            authority: "localhost:1".into(),
            path: "/mcp".into(),
            fields: Vec::new(),
        };
        Subscription::new(&speech, subject, 3)
    }

    fn asked(subscription: &Subscription, place: usize) -> Value {
        let mut out = Vec::new();
        subscription.ask(&mut out, place, None);
        serde_json::from_slice(&out).unwrap()
    }

    fn change(method: &str, id: u64) -> String {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/{method}\",\"params\":{{\"_meta\":\
             {{\"io.modelcontextprotocol/subscriptionId\":{id}}}}}}}"
        )
    }

    #[test]
    fn every_stream_asks_in_a_name_of_its_own() {
        let subscription = subscription(Era::Modern, Subject::Prompts);
        let request = asked(&subscription, 2);
        assert_eq!(request["method"], "subscriptions/listen");
        assert_eq!(request["id"], ID_FIRST + 2);
        assert_eq!(request["params"]["notifications"], json!({ "promptsListChanged": true }));
        assert_eq!((subscription.streams(), subscription.requests()), (3, 3));
    }

    #[test]
    fn a_legacy_session_subscribes_to_each_resource_and_to_no_list() {
        let uris = Subject::Uris(vec!["test://a".into(), "test://b".into()]);
        let resources = subscription(Era::Legacy, uris);
        assert_eq!((resources.streams(), resources.requests()), (1, 2));
        assert_eq!(asked(&resources, 1)["method"], "resources/subscribe");
        assert_eq!(asked(&resources, 1)["params"], json!({ "uri": "test://b" }));
        assert_eq!(asked(&subscription(Era::Legacy, Subject::Tools), 0)["method"], "ping");
    }

    #[test]
    fn a_change_is_read_once_and_compared_from_then_on() {
        let mut subscription = subscription(Era::Modern, Subject::Tools);
        let text = |place| change("tools/list_changed", ID_FIRST + place);
        assert_eq!(subscription.recognize(text(0).as_bytes()), None);
        let id = Some(ID_FIRST);
        assert_eq!(subscription.read(text(0).as_bytes()), Notice::Change { id });
        assert_eq!(subscription.recognize(text(2).as_bytes()), Some(2));
        assert_eq!(subscription.recognize(text(3).as_bytes()), None, "there are three");
        let other = text(1).replace("tools", "pools");
        assert_eq!(subscription.recognize(other.as_bytes()), None);
        let nameless = text(1).replace("1000000001", "1x00000001");
        assert_eq!(subscription.recognize(nameless.as_bytes()), None);
    }

    #[test]
    fn what_nobody_asked_for_is_told_from_changes() {
        let mut modern = subscription(Era::Modern, Subject::Tools);
        let other = change("prompts/list_changed", ID_FIRST);
        assert_eq!(modern.read(other.as_bytes()), Notice::Unasked);
        let nameless = br#"{"method":"notifications/tools/list_changed"}"#;
        assert_eq!(modern.read(nameless), Notice::Unasked);
        assert_eq!(modern.read(br#"{"method":"notifications/message"}"#), Notice::Nothing);
        let mut legacy = subscription(Era::Legacy, Subject::Tools);
        assert_eq!(legacy.read(nameless), Notice::Change { id: None });
        assert_eq!(legacy.recognize(nameless), Some(0));
        assert_eq!(
            legacy.read(br#"{"method":"notifications/prompts/list_changed"}"#),
            Notice::Nothing
        );
        assert_eq!(legacy.read(other.replace("prompts", "tools").as_bytes()), Notice::Unasked);
    }

    #[test]
    fn only_resources_that_were_named_have_changed_or_parts_of_them() {
        let mut subscription = subscription(Era::Legacy, Subject::Uris(vec!["test://a".into()]));
        let updated = |uri: &str| {
            format!(r#"{{"method":"notifications/resources/updated","params":{{"uri":"{uri}"}}}}"#)
        };
        for uri in ["test://a", "test://a/part"] {
            let notice = subscription.read(updated(uri).as_bytes());
            assert_eq!(notice, Notice::Change { id: None });
        }
        assert_eq!(subscription.read(updated("test://b").as_bytes()), Notice::Unasked);
    }

    #[test]
    fn a_stream_that_grants_less_is_found_out() {
        let uris = Subject::Uris(vec!["test://a".into(), "test://b".into()]);
        let mut subscription = subscription(Era::Modern, uris);
        let mut read = |granted: &str| {
            let text = change("subscriptions/acknowledged", ID_FIRST);
            let text = text.replace("}}}", &format!("}},\"notifications\":{granted}}}}}"));
            subscription.read(text.as_bytes())
        };
        let id = Some(ID_FIRST);
        let whole = r#"{"resourceSubscriptions":["test://b","test://a"]}"#;
        assert_eq!(read(whole), Notice::Acknowledged { id, is_whole: true });
        let less = r#"{"resourceSubscriptions":["test://b"]}"#;
        assert_eq!(read(less), Notice::Acknowledged { id, is_whole: false });
        assert_eq!(read("{}"), Notice::Acknowledged { id, is_whole: false });
    }
}
