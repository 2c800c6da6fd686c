//! What the server offers over HTTP: a tool whose every word names whom it is for, and a resource
//! for each client. Besides, all that the meetings have: tools that run as tasks and one that
//! changes the catalog.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use corelane::protocol::era::LogLevel;
use corelane::protocol::message::{Elicitation, Field, Form, ServerInfo};
use corelane::service::demo::fixture;
use corelane::service::{Catalog, CatalogError, Live, Outcome, Resource, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::meeting::editions;

/// The catalog; `made` counts its editions.
///
/// # Errors
///
/// Where that is none.
pub(crate) fn catalog(made: &Arc<AtomicU64>) -> Result<Catalog, CatalogError> {
    let work = Tool::new("work").local(|order: Order, live: Live| async move {
        let Order { guest, words, pause_us, asks, leaves } = order;
        for word in 1..=words {
            live.sleep(Duration::from_micros(pause_us.into())).await?;
            live.progress(word.into(), Some(words.into()), Some(&mark(guest)));
            if word % 2 == 1 {
                live.log(LogLevel::Info, None, mark(guest));
            }
            if leaves == Some(word) {
                live.close_stream();
            }
        }
        if asks {
            let form = Form::new().field(Field::text("word").required());
            live.elicit("word", Elicitation::form(mark(guest), form)).await?;
        }
        live.sleep(Duration::from_micros(pause_us.into())).await?;
        Ok(Outcome::text(format!("{} had {words} words", mark(guest))))
    });
    let touch = Tool::new("touch").local(|Touch { guest }: Touch, live: Live| async move {
        live.updated(&note(guest));
        Ok(Outcome::text("touched"))
    });
    let builder = fixture::offer(Catalog::builder(ServerInfo::new("sim", "1")));
    let mut builder = editions::offer(builder.tool(work).tool(touch), made);
    for guest in 0..GUESTS_MAX {
        builder = builder.resource(Resource::new(note(guest), mark(guest)).text(mark(guest)));
    }
    builder.build()
}

/// What stands in everything that is said to a client.
pub(crate) fn mark(guest: u32) -> String {
    format!("guest {guest}")
}

/// The resource of a client.
pub(crate) fn note(guest: u32) -> String {
    format!("note://{guest}")
}

#[derive(Deserialize, JsonSchema)]
struct Order {
    guest: u32,
    words: u32,
    pause_us: u32,
    asks: bool,
    leaves: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
struct Touch {
    guest: u32,
}

/// Clients of one run.
pub(crate) const GUESTS_MAX: u32 = 12;
