//! The service room from the outside: catalogs built, listed and called in every revision.

#[path = "../support/judge.rs"]
mod judge;

mod demo;
mod failures;
mod lists;
mod stage;
