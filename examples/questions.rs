//! Elicitation: one tool handler that asks the user, for clients of every protocol revision.
//!
//! Run `cargo run --release --example questions`, then connect a client that declares the
//! `elicitation` capability.

use std::error::Error;

use corelane::model::{ElicitAction, ElicitRequest, Field, Form, Implementation};
use corelane::{CallToolResult, Catalog, RequestContext, Server, Tool};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Order {
    /// What to order.
    dish: String,
}

fn main() -> Result<(), Box<dyn Error>> {
    let order = Tool::new("order").description("Orders a dish.").local(
        |Order { dish }: Order, ctx: RequestContext| async move {
            let form = Form::new()
                .field(Field::integer("count").title("How many?").bounds(1, 20).required())
                .field(Field::single_select("size", ["small", "large"]).default("small"));
            // A client of MCP 2026-07-28 sends the call again with the answer, and the handler runs
            // from its start: side effects belong after the last elicitation.
            let answer = ctx.elicit("details", ElicitRequest::form(dish.clone(), form)).await?;
            Ok(match answer.action {
                ElicitAction::Accept => {
                    CallToolResult::text(format!("{} {dish} ordered", answer.content["count"]))
                }
                ElicitAction::Decline | ElicitAction::Cancel => {
                    CallToolResult::text("nothing ordered")
                }
            })
        },
    );
    let catalog = Catalog::builder(Implementation::new("kitchen", "1.0.0")).tool(order).build()?;
    Server::builder(catalog).serve()?;
    Ok(())
}
