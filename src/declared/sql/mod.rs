//! Statements of databases as tools: `sql = { database = "…", query = "…" }`.
//!
//! Values are bound, never part of a statement. A statement reads unless its declaration permits
//! changes. Rows, bytes and time of a call are limited.

mod declaration;
mod inspection;

mod rows;

mod output_schema;
mod statement;

mod explore_kind;
mod sqlite;

#[cfg(feature = "postgres")]
mod postgres;

mod databases;

mod explore;
mod tool;

pub use crate::declared::sql::databases::Databases;
pub use crate::declared::sql::declaration::{DatabaseDeclaration, SqlDeclaration};
pub use crate::declared::sql::explore::ExploreTool;
pub use crate::declared::sql::tool::{SqlContext, SqlTool};
