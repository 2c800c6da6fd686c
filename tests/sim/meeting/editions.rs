//! The catalog of a gathering, and how its handlers change it.
//!
//! A change goes the whole way: a handler asks for it and waits, somebody makes the edition when
//! the simulator says so, every shard is told, then the handler. Each edition has a number, and
//! whoever asks what there is hears it.
//!
//! What it checks: editions are numbered one after the other, each by one change; a connection sees
//! none that is older than one it saw, nor older than one that a change on it was answered with.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use corelane::base::random::Random;
use corelane::base::time::Moment;
use corelane::protocol::message::ServerInfo;
use corelane::server::PendingEdit;
use corelane::service::demo::fixture;
use corelane::service::{
    Catalog, CatalogBuilder, CatalogError, HandlerError, Live, NoArguments, Outcome, Tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// The changes that handlers wait for.
pub(crate) struct Editions {
    asked: Receiver<PendingEdit>,
    /// Each with the moment from which on it is made.
    waiting: Vec<(Moment, PendingEdit)>,
    made: Arc<AtomicU64>,
    /// How often one had to wait for another one or for room.
    pub(crate) held_up: u64,
}

impl Editions {
    /// None yet; `made` counts those of the catalog ([`catalog`]).
    pub(crate) const fn new(asked: Receiver<PendingEdit>, made: Arc<AtomicU64>) -> Self {
        Self { asked, waiting: Vec::new(), made, held_up: 0 }
    }

    /// Makes what is due, as far as that goes now.
    pub(crate) fn turn(&mut self, now: Moment, random: &mut Random) {
        while let Ok(edit) = self.asked.try_recv() {
            let span = Duration::from_micros(random.below(MAKING_US_MAX) as u64);
            self.waiting.push((now.after(span), edit));
        }
        for (due, edit) in std::mem::take(&mut self.waiting) {
            if due > now {
                self.waiting.push((due, edit));
            } else if let Err(rest) = edit.try_make() {
                self.held_up += 1;
                self.waiting.push((due, rest));
            }
        }
    }

    /// When the next one is due.
    pub(crate) fn next(&self) -> Option<Moment> {
        self.waiting.iter().map(|(due, _)| *due).min()
    }

    /// How many were made.
    pub(crate) fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }
}

/// The editions that one connection has heard of.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    /// No older one may be seen from here on.
    newest: u64,
}

impl Shelf {
    /// An answer to a request by `method` was heard. Remembers in `claimed` which edition a change
    /// was answered with.
    ///
    /// # Errors
    ///
    /// An edition that is too old, or one that two changes made.
    pub(crate) fn hear(
        &mut self,
        method: &str,
        message: &Value,
        claimed: &mut BTreeSet<u64>,
    ) -> Result<(), String> {
        let is_change = method == "tools/call";
        let Some(number) = number(method, message) else { return Ok(()) };
        if is_change && !claimed.insert(number) {
            return Err(format!("two changes made edition {number}"));
        }
        if !is_change && number < self.newest {
            return Err(format!("edition {number} is seen after edition {}", self.newest));
        }
        self.newest = self.newest.max(number);
        Ok(())
    }
}

/// The edition that an answer to a request by `method` names.
pub(crate) fn number(method: &str, message: &Value) -> Option<u64> {
    let result = &message["result"];
    let is_change = method == "tools/call";
    let text = if is_change { &result["content"][0]["text"] } else { &result["instructions"] };
    text.as_str()?.strip_prefix(EDITION)?.parse().ok()
}

/// The fixture, what says that a resource has changed, what changes the catalog, and a tool that
/// only every other edition has.
///
/// # Errors
///
/// Where that is none.
pub(crate) fn catalog(made: &Arc<AtomicU64>) -> Result<Catalog, CatalogError> {
    let touch = Tool::new("touch").local(|Touch { uri }: Touch, live: Live| async move {
        live.updated(&uri);
        Ok(Outcome::text("touched"))
    });
    let builder = fixture::offer(Catalog::builder(ServerInfo::new("sim", "1"))).tool(touch);
    offer(builder, made).build()
}

/// Adds what changes the catalog: each call makes an edition and is answered with its number.
pub(crate) fn offer(builder: CatalogBuilder, made: &Arc<AtomicU64>) -> CatalogBuilder {
    let made = Arc::clone(made);
    let vary = Tool::new("vary").local(move |_: Anything, live: Live| {
        let made = Arc::clone(&made);
        async move {
            let number = Arc::<AtomicU64>::default();
            let own = Arc::clone(&number);
            let edit = move |catalog| {
                own.store(1 + made.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
                follow(catalog, own.load(Ordering::Relaxed))
            };
            live.change(edit).await.map_err(HandlerError::failed)?;
            Ok(Outcome::text(format!("{EDITION}{}", number.load(Ordering::Relaxed))))
        }
    });
    builder.tool(vary).instructions(format!("{EDITION}0"))
}

/// The edition of this number, out of the one before it.
fn follow(catalog: CatalogBuilder, number: u64) -> CatalogBuilder {
    let catalog = catalog.instructions(format!("{EDITION}{number}"));
    if catalog.has_tool("odd") {
        return catalog.remove_tool("odd");
    }
    catalog.tool(Tool::new("odd").inline(|_: NoArguments, answer| {
        answer.text("odd");
        Ok(())
    }))
}

#[derive(Deserialize, JsonSchema)]
struct Touch {
    uri: String,
}

#[derive(Deserialize, JsonSchema)]
struct Anything {}

/// What stands before the number of an edition.
const EDITION: &str = "edition ";
/// How long it takes at most until an edition is made, in microseconds.
const MAKING_US_MAX: usize = 4_000;
