//! A server that asks its user: one handler for clients of every revision.
//!
//! `cargo run --release --example questions`, then connect a client that declares `elicitation`.

use std::error::Error;

use corelane::protocol::message::{Action, Elicitation, Field, Form, ServerInfo};
use corelane::service::{Live, Outcome};
use corelane::{Catalog, Server, Tool};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Order {
    /// What to order.
    dish: String,
}

fn main() -> Result<(), Box<dyn Error>> {
    let order = Tool::new("order").describe("Orders a dish.").local(
        |Order { dish }: Order, live: Live| async move {
            let form = Form::new()
                .field(Field::integer("count").title("How many?").bounds(1, 20).required())
                .field(Field::one("size", ["small", "large"]).default("small"));
            // A client of 2026 calls again with the answer, and the handler runs from its start:
            // what has effects comes after the last question.
            let answer = live.elicit("details", Elicitation::form(dish.clone(), form)).await?;
            Ok(match answer.action {
                Action::Accept => {
                    Outcome::text(format!("{} {dish} ordered", answer.content["count"]))
                }
                Action::Decline | Action::Cancel => Outcome::text("nothing ordered"),
            })
        },
    );
    let catalog = Catalog::builder(ServerInfo::new("kitchen", "1.0.0")).tool(order).build()?;
    Server::new(catalog).serve()?;
    Ok(())
}
