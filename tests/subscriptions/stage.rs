//! The stage: a server whose tools change what it offers, and what clients say to it.

use std::net::SocketAddr;

use corelane::observe::counters::Counters;
use corelane::protocol::message::ServerInfo;
use corelane::server::{Handle, Options};
use corelane::service::{
    Catalog, CatalogBuilder, CatalogError, HandlerError, NoArguments, Outcome, Resource, Tool,
};
use serde_json::{Value, json};

use crate::client::{Client, MODERN, modern, request};
use crate::judge::judge;
use crate::loopback::{self, Loopback};

/// A running server.
pub(crate) struct Stage {
    server: Loopback,
}

/// What a tool that names a resource is asked.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Named {
    /// The resource, or the tool.
    name: String,
}

impl Stage {
    /// Starts a server with `shards` shards.
    pub(crate) fn open(shards: u16, adjust: impl FnOnce(&mut Options)) -> Self {
        let mut options = loopback::options();
        options.engine.shards = Some(shards);
        options.engine.cpus = None;
        adjust(&mut options);
        Self { server: Loopback::start(catalog(), options) }
    }

    /// A connection that has said nothing.
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address())
    }

    /// A connection whose handshake agreed on `revision`, which the server has seen.
    pub(crate) fn session(&self, revision: &str) -> Client {
        let mut client = self.connect();
        client.handshake(revision);
        client.expect_alive();
        client
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.server.address()
    }

    pub(crate) fn handle(&self) -> Handle {
        self.server.handle()
    }

    /// Drains and waits for the end.
    pub(crate) fn close(self) -> Counters {
        let counters = self.server.close();
        let streams = &counters.subscriptions;
        assert_eq!(streams.opened, streams.ended, "{counters}");
        counters
    }
}

/// Tools that change things, two resources, and no prompts.
fn catalog() -> Catalog {
    let builder = Catalog::builder(ServerInfo::new("subscriptions", "1.0.0")).tools([
        Tool::new("grow").local(|Named { name }: Named, live| async move {
            live.change(|catalog| catalog.tool(plain(name))).await.map_err(failed)?;
            Ok(Outcome::text("grown"))
        }),
        Tool::new("grow-aside").blocking(|Named { name }: Named, worker| {
            worker.change(|catalog| catalog.tool(plain(name))).map_err(failed)?;
            Ok(Outcome::text("grown"))
        }),
        Tool::new("touch").local(|Named { name }: Named, live| async move {
            // Said often in one turn, told once.
            for _ in 0..100 {
                live.updated(&name);
            }
            Ok(Outcome::text("touched"))
        }),
        Tool::new("touch-aside").blocking(|Named { name }: Named, worker| {
            worker.updated(&name);
            Ok(Outcome::text("touched"))
        }),
        Tool::new("break").local(|NoArguments {}, live| async move {
            live.change(|_| panic!("on purpose")).await.map_err(failed)?;
            Ok(Outcome::text("not reached"))
        }),
        Tool::new("hold-a-thread").blocking(|NoArguments {}, worker| {
            worker.progress(1.0, None, None);
            while !worker.is_cancelled() {
                std::thread::yield_now();
            }
            Ok(Outcome::text("let go"))
        }),
        Tool::new("until-cancelled").local(|NoArguments {}, live| async move {
            live.cancelled().await;
            Ok(Outcome::text("cancelled"))
        }),
    ]);
    resources(builder).build().expect("a catalog")
}

/// What clients subscribe to: `test://one` and `test://two`.
fn resources(builder: CatalogBuilder) -> CatalogBuilder {
    let resource = |uri: &'static str| Resource::new(uri, uri).text("text");
    builder.resources([resource("test://one"), resource("test://two")])
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` hands over")]
fn failed(error: CatalogError) -> HandlerError {
    HandlerError::failed(error.to_string())
}

/// A tool that does nothing.
pub(crate) fn plain(name: impl Into<String>) -> Tool {
    Tool::new(name.into()).inline(|NoArguments {}, answer| {
        answer.text("plain");
        Ok(())
    })
}

/// `subscriptions/listen`.
#[expect(clippy::needless_pass_by_value, reason = "a literal stands in most calls")]
pub(crate) fn listen(id: impl Into<Value>, wish: Value) -> Value {
    modern(request(id, "subscriptions/listen", json!({"notifications": wish})))
}

/// What a modern notification names.
pub(crate) fn stream_of(message: &Value) -> &Value {
    &message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"]
}

/// Opens a stream; returns what was granted.
pub(crate) fn open_stream(client: &mut Client, id: impl Into<Value>, wish: Value) -> Value {
    let id = id.into();
    let mut said = client.ask(listen(id.clone(), wish));
    fits(MODERN, &said, None);
    assert_eq!(said["method"], "notifications/subscriptions/acknowledged", "{said}");
    assert_eq!(stream_of(&said), &id, "{said}");
    said["params"]["notifications"].take()
}

/// Waits for a notification on a modern stream.
pub(crate) fn hear(client: &mut Client, method: &str, id: impl Into<Value>) -> Value {
    let said = client.answer();
    fits(MODERN, &said, None);
    assert_eq!(said["method"], method, "{said}");
    assert_eq!(stream_of(&said), &id.into(), "{said}");
    said
}

/// The names of the tools that are listed.
pub(crate) fn listed(client: &mut Client) -> Vec<String> {
    let answer = client.ask(modern(request("list", "tools/list", json!({}))));
    let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}"));
    tools.iter().filter_map(|tool| Some(tool["name"].as_str()?.to_owned())).collect()
}

/// Nothing was said that has not been read: the next message is the answer to a question.
pub(crate) fn expect_silence(client: &mut Client) {
    let answer = client.ask(modern(request("silence?", "server/discover", json!({}))));
    assert_eq!(answer["id"], "silence?", "{answer}");
}

/// Judges a message.
pub(crate) fn fits(revision: &str, message: &Value, answers: Option<&str>) {
    judge(revision, message, answers).unwrap_or_else(|reason| panic!("{reason}"));
}

pub(crate) const TOOLS: &str = "notifications/tools/list_changed";
pub(crate) const UPDATED: &str = "notifications/resources/updated";
