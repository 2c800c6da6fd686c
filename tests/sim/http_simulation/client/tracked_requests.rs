//! Requests whose responses are checked in detail: batches, tasks, catalog updates and
//! subscriptions.

use std::time::Duration;

use corelane_base::time::Instant;
use corelane_engine::ring::sim::World;
use corelane_protocol::revision::Revision;
use serde_json::{Value, json};

use super::connection::{HttpRequest, RequestKind};
use super::http_client::HttpClient;
use super::http_requests::{self, RequestStyle};
use crate::feature_simulation::action::TASK_TOOLS;
use crate::feature_simulation::catalog_versions;
use crate::feature_simulation::messages;
use crate::feature_simulation::request_expectation::RequestExpectation;
use crate::feature_simulation::shared_model::RequestSpan;
use crate::http_simulation::catalog::resource_uri;

/// A request whose response is checked in detail.
#[derive(Clone, Debug)]
pub(super) struct TrackedRequest {
    method: &'static str,
    is_modern: bool,
    sent_at: Instant,
    /// Expected response, if it is about a task.
    expectation: Option<RequestExpectation>,
}

impl HttpClient {
    /// Returns whether a request is for a task.
    pub(super) fn is_about_task(&self, id: u64) -> bool {
        let request = self.tracked_requests.get(&id);
        let expectation = request.and_then(|request| request.expectation.as_ref());
        matches!(expectation, Some(RequestExpectation::Task(_)))
    }

    /// Sends a batch, which sessions of 2025-03-26 may.
    pub(super) fn send_batch(&mut self, session: usize, world: &World, now: Instant) {
        if self.sessions[session].revision != Revision::V2025_03_26 {
            return;
        }
        let mut messages = Vec::new();
        let count = 1 + self.random.below(4);
        for _ in 0..count {
            let id = self.new_id();
            let order = self.draw_work();
            let mut params = http_requests::work_params(self.number, order);
            params["_meta"] = json!({"progressToken": id});
            let (method, params, least) = match self.random.below(3) {
                0 => ("ping", json!({}), Duration::ZERO),
                _ => ("tools/call", params, order.duration_min()),
            };
            messages.push(messages::request(id, method, params, Revision::V2025_03_26));
            self.sessions[session].record_request(id, least, now);
        }
        let first = messages[0]["id"].as_u64().unwrap_or_default();
        self.sessions[session].record_batch(first, count as u64);
        if self.random.chance(1, 3) {
            let notice = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"});
            messages.insert(self.random.below(count + 1), notice);
        }
        let style = RequestStyle::draw(&mut self.random);
        let messages = Value::Array(messages);
        let text =
            http_requests::post_message(&messages, Some(self.sessions[session].name()), style);
        let asked = HttpRequest::new(RequestKind::Request, Some(first), Some(session), now);
        self.totals.batches += 1;
        self.send(
            HttpRequest { closes_connection: style.closes_connection(), ..asked },
            &text,
            world,
            now,
        );
    }

    /// Calls a tool as a task, or sends a request for a task of any client.
    pub(super) fn send_task_request(
        &mut self,
        session: Option<usize>,
        world: &World,
        now: Instant,
    ) {
        let session = session.filter(|session| {
            self.sessions[*session].revision.dialect().core_tasks && self.random.chance(3, 4)
        });
        if self.random.chance(1, 2) {
            let tool = TASK_TOOLS[self.random.below(TASK_TOOLS.len())];
            let seconds = [0.0, 0.01, 0.2][self.random.below(3)];
            let arguments = match tool {
                "confirm_delete" => json!({"filename": "nothing"}),
                "slow_compute" => json!({"seconds": seconds}),
                _ => json!({}),
            };
            let mut params = json!({"name": tool, "arguments": arguments});
            if session.is_some() {
                let ttl = [1, 1_500][self.random.below(2)];
                params["task"] = json!({"ttl": ttl});
            }
            let expectation = RequestExpectation::Call { tool, state: None, texts: Vec::new() };
            return self.send_tracked(session, "tools/call", params, Some(expectation), world, now);
        }
        let Some(task) = self.choose_task(session.is_none()) else { return };
        let method = ["tasks/get", "tasks/get", "tasks/cancel"][self.random.below(3)];
        let params = json!({"taskId": task});
        self.send_tracked(
            session,
            method,
            params,
            Some(RequestExpectation::Task(task)),
            world,
            now,
        );
    }

    /// Chooses a task that any client of the same era created.
    fn choose_task(&mut self, is_modern: bool) -> Option<String> {
        let model = self.shared_model.borrow();
        let tasks = model.shared.tasks.iter().filter(|(_, task)| task.is_modern == is_modern);
        let tasks: Vec<&String> = tasks.map(|(id, _)| id).collect();
        let place = self.random.below(tasks.len().max(1));
        tasks.get(place).map(|task| (*task).clone())
    }

    /// Calls the tool that changes the catalog.
    pub(super) fn change_catalog(&mut self, session: Option<usize>, world: &World, now: Instant) {
        let params = json!({"name": "vary", "arguments": {}});
        self.send_tracked(session, "tools/call", params, None, world, now);
    }

    /// Sends `server/discover`, which returns the catalog version.
    pub(super) fn discover(&mut self, world: &World, now: Instant) {
        self.send_tracked(None, "server/discover", json!({}), None, world, now);
    }

    /// Sends a request whose response is checked by [`Self::check_tracked_response`].
    fn send_tracked(
        &mut self,
        session: Option<usize>,
        method: &'static str,
        params: Value,
        expectation: Option<RequestExpectation>,
        world: &World,
        now: Instant,
    ) {
        let id = self.last_id + 1;
        let is_modern = session.is_none();
        self.tracked_requests
            .insert(id, TrackedRequest { method, is_modern, sent_at: now, expectation });
        if let Some(session) = session {
            return self.send_request(session, method, params, Duration::ZERO, world, now);
        }
        let id = self.new_id();
        let style = RequestStyle::draw(&mut self.random);
        let message = messages::request(id, method, params, Revision::LATEST);
        let text = http_requests::post_message(&message, None, style);
        let asked = HttpRequest::new(RequestKind::Modern, Some(id), None, now);
        self.send(
            HttpRequest { closes_connection: style.closes_connection(), ..asked },
            &text,
            world,
            now,
        );
    }

    /// Opens a modern stream of all notifications, sometimes with a task.
    pub(super) fn open_subscription(&mut self, world: &World, now: Instant) {
        let id = self.new_id();
        let mut filter = json!({
            "toolsListChanged": true, "resourceSubscriptions": [resource_uri(self.number)],
        });
        let task = self.choose_task(true).filter(|_| self.random.chance(1, 2));
        if let Some(task) = &task {
            filter["taskIds"] = json!([task]);
        }
        let params = json!({"notifications": filter});
        let message = messages::request(id, "subscriptions/listen", params, Revision::LATEST);
        let text = http_requests::post_message(&message, None, RequestStyle::default());
        let asked = HttpRequest::new(RequestKind::Subscribe, Some(id), None, now);
        self.send(HttpRequest { task, ..asked }, &text, world, now);
    }

    /// Checks the response to a tracked request against the shared model.
    pub(super) fn check_tracked_response(
        &mut self,
        message: &Value,
        session: Option<usize>,
        now: Instant,
    ) -> Result<(), String> {
        let id = message["id"].as_u64().unwrap_or_default();
        let Some(request) = self.tracked_requests.remove(&id) else { return Ok(()) };
        let TrackedRequest { method, is_modern, sent_at, expectation } = request;
        let model = &mut *self.shared_model.borrow_mut();
        if let Some(expectation) = expectation {
            let (span, shared) = (RequestSpan { sent: sent_at, received: now }, &mut model.shared);
            let begun = expectation.check_response(message, method, is_modern, span, shared)?;
            if let (Some(task), Some(session)) = (begun, session) {
                self.sessions[session].created_tasks.insert(task);
            }
            return Ok(());
        }
        let Some(number) = catalog_versions::catalog_version(method, message) else {
            return Ok(());
        };
        if method != "tools/call" {
            self.seen_version = Some(number);
            return model.check_version(number, sent_at);
        }
        model.add_update(number, sent_at, now);
        if model.shared.catalog_versions.insert(number) {
            return Ok(());
        }
        Err(format!("two updates made catalog version {number}"))
    }

    /// Checks a notification: it must have been subscribed to.
    pub(super) fn check_notification(
        &mut self,
        asked: &mut HttpRequest,
        message: &Value,
        now: Instant,
    ) -> Result<(), String> {
        let params = &message["params"];
        let mut model = self.shared_model.borrow_mut();
        match message["method"].as_str().unwrap_or_default() {
            "notifications/tools/list_changed" if asked.is_endless() => {
                asked.last_list_change = Some(now);
                self.totals.session_notifications += 1;
                if let Some(session) = asked.session {
                    let checker = &mut self.sessions[session];
                    checker.list_changes += 1;
                    return model.check_list_change(checker.list_changes, checker.created_at);
                }
                asked.list_changes += 1;
                model.check_list_change(asked.list_changes, asked.sent_at)
            }
            "notifications/tasks" if asked.kind == RequestKind::Subscribe => {
                if params["taskId"].as_str() != asked.task.as_deref() {
                    return Err(format!("{message} was not subscribed to by {asked:?}"));
                }
                model.shared.update_task(params, None, now)
            }
            "notifications/tasks/status" => {
                let task = params["taskId"].as_str().unwrap_or_default().to_owned();
                let Some(session) = asked.session else {
                    return Err(format!("{message} came outside of a session"));
                };
                self.sessions[session].notified_tasks.insert(task);
                Ok(())
            }
            name if name.ends_with("list_changed") => {
                Err(format!("{message} was not subscribed to"))
            }
            _ => Ok(()),
        }
    }
}
