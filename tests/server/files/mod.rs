//! Tests of files as resources and prompts: listing, reading, traversal, change notifications.

mod changes;
mod fixtures;
mod process;
mod prompts;
mod reading;
mod traversal;
