//! The service room from the outside: catalogs built, listed and called in every revision.

#[path = "../support/judge.rs"]
mod judge;

mod arguments;
mod asking;
mod completion;
mod demo;
mod editions;
mod failures;
mod lists;
mod prompts;
mod resources;
mod results;
mod stage;
