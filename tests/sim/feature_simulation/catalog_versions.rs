//! The catalog of a simulation, and its changes by handlers.
//!
//! An update takes the whole path: a handler requests it and waits, the catalog writer applies it
//! when the simulation allows, every shard is notified, then the handler. Each version has a
//! number, which clients see in `instructions`.
//!
//! Checks that each version is made by one update, and that a connection never sees a version older
//! than one it has seen or one that an update on it has returned.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use corelane::internal::UpdateJob;
use corelane::internal::demo::fixture;
use corelane::{
    CallToolResult, Catalog, CatalogBuilder, CatalogError, NoArguments, RequestContext, Tool,
};
use corelane_base::random::Random;
use corelane_base::time::Instant;
use corelane_protocol::model::Implementation;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// Catalog updates that handlers wait for.
pub(crate) struct CatalogUpdates {
    requested: Receiver<UpdateJob>,
    /// Each with the time from which it may be applied.
    waiting: Vec<(Instant, UpdateJob)>,
    versions_made: Arc<AtomicU64>,
    /// How often an update had to wait for another one or for room.
    pub(crate) delayed: u64,
}

impl CatalogUpdates {
    /// `made` counts the versions of [`catalog`].
    pub(crate) const fn new(requested: Receiver<UpdateJob>, versions_made: Arc<AtomicU64>) -> Self {
        Self { requested, waiting: Vec::new(), versions_made, delayed: 0 }
    }

    /// Applies due updates, as far as possible now.
    pub(crate) fn apply_due(&mut self, now: Instant, random: &mut Random) {
        while let Ok(edit) = self.requested.try_recv() {
            let span = Duration::from_micros(random.below(UPDATE_DELAY_US_MAX) as u64);
            self.waiting.push((now.after(span), edit));
        }
        for (due, edit) in std::mem::take(&mut self.waiting) {
            if due > now {
                self.waiting.push((due, edit));
            } else if let Err(rest) = edit.try_run() {
                self.delayed += 1;
                self.waiting.push((due, rest));
            }
        }
    }

    /// Returns when the next update is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.waiting.iter().map(|(due, _)| *due).min()
    }

    /// Number of versions made.
    pub(crate) fn versions_made(&self) -> u64 {
        self.versions_made.load(Ordering::Relaxed)
    }
}

/// Catalog versions that one connection has seen.
#[derive(Debug, Default)]
pub(crate) struct CatalogVersionChecker {
    /// No older version may be seen from now on.
    newest: u64,
}

impl CatalogVersionChecker {
    /// Checks a response to `method`. Adds the version that an update returned to `claimed`.
    ///
    /// # Errors
    ///
    /// The version is too old, or two updates returned it.
    pub(crate) fn check(
        &mut self,
        method: &str,
        message: &Value,
        claimed: &mut BTreeSet<u64>,
    ) -> Result<(), String> {
        let is_change = method == "tools/call";
        let Some(number) = catalog_version(method, message) else { return Ok(()) };
        if is_change && !claimed.insert(number) {
            return Err(format!("two updates made catalog version {number}"));
        }
        if !is_change && number < self.newest {
            let newest = self.newest;
            return Err(format!("catalog version {number} is seen after version {newest}"));
        }
        self.newest = self.newest.max(number);
        Ok(())
    }
}

/// Returns the catalog version that a response to `method` names.
pub(crate) fn catalog_version(method: &str, message: &Value) -> Option<u64> {
    let result = &message["result"];
    let is_change = method == "tools/call";
    let text = if is_change { &result["content"][0]["text"] } else { &result["instructions"] };
    text.as_str()?.strip_prefix(VERSION_PREFIX)?.parse().ok()
}

/// The test fixture, a tool that reports a resource as updated, one that changes the catalog, and
/// one that only every other version has.
///
/// # Errors
///
/// The catalog is invalid.
pub(crate) fn catalog(made: &Arc<AtomicU64>) -> Result<Catalog, CatalogError> {
    let touch = Tool::new("touch").local(
        |TouchInput { uri }: TouchInput, ctx: RequestContext| async move {
            ctx.notify_resource_updated(&uri);
            Ok(CallToolResult::text("touched"))
        },
    );
    let builder =
        fixture::add_services(Catalog::builder(Implementation::new("sim", "1"))).tool(touch);
    add_change_tool(builder, made).build()
}

/// Adds a tool that changes the catalog: each call makes a version and returns its number.
pub(crate) fn add_change_tool(builder: CatalogBuilder, made: &Arc<AtomicU64>) -> CatalogBuilder {
    let made = Arc::clone(made);
    let vary = Tool::new("vary").local(move |_: AnyInput, ctx: RequestContext| {
        let made = Arc::clone(&made);
        async move {
            let number = Arc::<AtomicU64>::default();
            let own = Arc::clone(&number);
            let edit = move |catalog| {
                own.store(1 + made.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
                next_version(catalog, own.load(Ordering::Relaxed))
            };
            ctx.update_catalog(edit).await?;
            Ok(CallToolResult::text(format!("{VERSION_PREFIX}{}", number.load(Ordering::Relaxed))))
        }
    });
    builder.tool(vary).instructions(format!("{VERSION_PREFIX}0"))
}

/// Makes version `number` out of the previous one.
fn next_version(catalog: CatalogBuilder, number: u64) -> CatalogBuilder {
    let catalog = catalog.instructions(format!("{VERSION_PREFIX}{number}"));
    if catalog.has_tool("odd") {
        return catalog.remove_tool("odd");
    }
    catalog.tool(Tool::new("odd").inline_writer(|_: NoArguments, answer, _| {
        answer.text("odd");
        Ok(())
    }))
}

#[derive(Deserialize, JsonSchema)]
struct TouchInput {
    uri: String,
}

#[derive(Deserialize, JsonSchema)]
struct AnyInput {}

/// Prefix of the number of a catalog version.
const VERSION_PREFIX: &str = "catalog version ";
/// Upper bound of the time until an update is applied, in microseconds.
const UPDATE_DELAY_US_MAX: usize = 4_000;
