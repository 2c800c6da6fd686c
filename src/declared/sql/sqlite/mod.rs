//! Statements of SQLite files.

pub(crate) mod authorizer;
pub(crate) mod failures;

pub(crate) mod watch;

pub(crate) mod pool;

pub(crate) mod columns;
pub(crate) mod run;
pub(crate) mod schema;

pub(crate) mod tool;

pub(crate) mod explorer;

#[cfg(test)]
mod tests;
