//! Subscriptions of both eras, and the notifications that follow from them.

use std::collections::BTreeSet;
use std::io;

use serde_json::{Value, json};

use crate::server::{Request, Server};

/// The key of a notification's `_meta`.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// What the client has subscribed to.
#[derive(Default)]
pub(crate) struct Subscriptions {
    /// URIs of `resources/subscribe`.
    uris: BTreeSet<String>,
    /// Requests `subscriptions/listen` that are open, each with its filter.
    listens: Vec<Listen>,
}

struct Listen {
    id: Value,
    filter: Value,
}

impl Subscriptions {
    /// Subscribes to a resource, or unsubscribes.
    pub(crate) fn set(&mut self, uri: &str, is_subscribed: bool) {
        if is_subscribed {
            self.uris.insert(uri.to_owned());
        } else {
            self.uris.remove(uri);
        }
    }

    /// Closes the listen with this id.
    pub(crate) fn end(&mut self, id: &Value) {
        self.listens.retain(|listen| listen.id != *id);
    }

    /// The subscriptions, for the tool `state`.
    pub(crate) fn describe(&self) -> Value {
        let listens: Vec<&Value> = self.listens.iter().map(|listen| &listen.filter).collect();
        json!({"uris": self.uris, "listens": listens})
    }
}

impl Server {
    /// `subscriptions/listen`: stays open until it is cancelled.
    pub(crate) fn listen(&mut self, request: &Request) -> io::Result<()> {
        let wanted = request.params["notifications"].as_object().cloned().unwrap_or_default();
        let known = |key: &str| key.ends_with("ListChanged") || key == "resourceSubscriptions";
        let filter: Value = wanted.into_iter().filter(|entry| known(&entry.0)).collect();
        let id = request.id.clone();
        let params = json!({"_meta": {SUBSCRIPTION: id}, "notifications": filter});
        self.subscriptions.listens.push(Listen { id, filter });
        self.notify("notifications/subscriptions/acknowledged", &params)
    }

    /// Ends all requests `subscriptions/listen` with their results.
    pub(crate) fn end_listens(&mut self) -> io::Result<()> {
        for Listen { id, .. } in std::mem::take(&mut self.subscriptions.listens) {
            let result = json!({"resultType": "complete", "_meta": {SUBSCRIPTION: id}});
            self.output.write(&json!({"jsonrpc": "2.0", "id": id, "result": result}))?;
        }
        Ok(())
    }

    /// Notifies that a list has changed; `kind` is tools, prompts or resources.
    pub(crate) fn notify_list_changed(&mut self, kind: &str) -> io::Result<()> {
        let method = format!("notifications/{kind}/list_changed");
        if !self.client.is_null() {
            self.notify(&method, &json!({}))?;
        }
        let key = format!("{kind}ListChanged");
        let is_wanted = |filter: &Value| filter[&key] == true;
        self.notify_listens(&method, json!({}), is_wanted)
    }

    /// Notifies those who have subscribed that a resource is updated.
    pub(crate) fn notify_updated(&mut self, uri: &str) -> io::Result<()> {
        let method = "notifications/resources/updated";
        let params = json!({"uri": uri});
        if self.subscriptions.uris.contains(uri) {
            self.notify(method, &params)?;
        }
        let is_wanted = |filter: &Value| {
            let uris = filter["resourceSubscriptions"].as_array();
            uris.is_some_and(|uris| uris.iter().any(|it| it == uri))
        };
        self.notify_listens(method, params, is_wanted)
    }

    fn notify_listens(
        &mut self,
        method: &str,
        mut params: Value,
        is_wanted: impl Fn(&Value) -> bool,
    ) -> io::Result<()> {
        let listens = self.subscriptions.listens.iter().filter(|listen| is_wanted(&listen.filter));
        let ids: Vec<Value> = listens.map(|listen| listen.id.clone()).collect();
        for id in ids {
            params["_meta"] = json!({SUBSCRIPTION: id});
            self.notify(method, &params)?;
        }
        Ok(())
    }
}
