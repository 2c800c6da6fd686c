//! Integration tests of the service module: catalogs built, listed and called in every revision.

#[path = "../support/mcp_schema.rs"]
mod mcp_schema;

mod arguments;
mod catalog_updates;
mod completion;
mod demo;
mod elicitation;
mod errors;
mod harness;
mod lists;
mod prompts;
mod resources;
mod results;
