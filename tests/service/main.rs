//! The service room from the outside: catalogs built, listed and called in every revision.

mod demo;
mod failures;
mod lists;
mod stage;
