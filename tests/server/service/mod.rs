//! Integration tests of the service module: catalogs built, listed and called in every revision.

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
