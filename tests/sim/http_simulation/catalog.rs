//! The catalog of the simulation over HTTP: a tool whose every message names its client, and a
//! resource for each client; also the task tools of the fixture and the tool that changes the
//! catalog.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use corelane::internal::demo::fixture;
use corelane::{CallToolResult, Catalog, CatalogError, RequestContext, Resource, Tool};
use corelane_protocol::eras::LoggingLevel;
use corelane_protocol::model::{ElicitRequest, Field, Form, Implementation};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::feature_simulation::catalog_versions;

/// Builds the catalog; `made` counts its versions.
///
/// # Errors
///
/// The catalog is invalid.
pub(crate) fn build_catalog(made: &Arc<AtomicU64>) -> Result<Catalog, CatalogError> {
    let work = Tool::new("work").local(|arguments: WorkInput, ctx: RequestContext| async move {
        let WorkInput { client, steps, pause_us, elicits, closes_stream_after } = arguments;
        for step in 1..=steps {
            ctx.sleep(Duration::from_micros(pause_us.into())).await?;
            ctx.progress(step.into(), Some(steps.into()), Some(&client_label(client)));
            if step % 2 == 1 {
                ctx.log(LoggingLevel::Info, None, client_label(client));
            }
            if closes_stream_after == Some(step) {
                ctx.close_sse_stream();
            }
        }
        if elicits {
            let form = Form::new().field(Field::text("word").required());
            ctx.elicit("word", ElicitRequest::form(client_label(client), form)).await?;
        }
        ctx.sleep(Duration::from_micros(pause_us.into())).await?;
        Ok(CallToolResult::text(format!("{} completed {steps} steps", client_label(client))))
    });
    let touch = Tool::new("touch").local(
        |TouchInput { client }: TouchInput, ctx: RequestContext| async move {
            ctx.notify_resource_updated(&resource_uri(client));
            Ok(CallToolResult::text("touched"))
        },
    );
    let builder = fixture::add_services(Catalog::builder(Implementation::new("sim", "1")));
    let mut builder = catalog_versions::add_change_tool(builder.tool(work).tool(touch), made);
    for client in 0..CLIENTS_MAX {
        builder = builder.resource(
            Resource::new(resource_uri(client), client_label(client)).text(client_label(client)),
        );
    }
    builder.build()
}

/// Text contained in every message to a client.
pub(crate) fn client_label(client: u32) -> String {
    format!("sim client {client}")
}

/// URI of the resource of a client.
pub(crate) fn resource_uri(client: u32) -> String {
    format!("note://{client}")
}

#[derive(Deserialize, JsonSchema)]
struct WorkInput {
    client: u32,
    steps: u32,
    pause_us: u32,
    elicits: bool,
    closes_stream_after: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
struct TouchInput {
    client: u32,
}

/// Limit of clients per run.
pub(crate) const CLIENTS_MAX: u32 = 12;
