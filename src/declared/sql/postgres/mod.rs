//! Statements of PostgreSQL servers.
//!
//! A statement that reads runs as a subquery, where PostgreSQL's grammar has no place for changes,
//! and in a READ ONLY transaction, which refuses those of functions. The server encodes the rows as
//! JSON, and leaves out what is beyond the limits.

pub(crate) mod arguments;
pub(crate) mod encryption;

pub(crate) mod connection;
pub(crate) mod failures;
pub(crate) mod query;

pub(crate) mod tool;

pub(crate) mod explorer;

#[cfg(test)]
mod tests;
