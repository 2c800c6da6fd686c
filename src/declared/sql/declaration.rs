//! What a file says about statements and databases.

use std::fmt;
use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::Deserialize;

/// A statement of a database.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SqlDeclaration {
    /// `sqlite:/srv/shop.db`, `postgres://user:${PASSWORD}@host/name`, or the name of a
    /// `[[database]]`. A relative path is below the folder of the file.
    pub database: String,
    /// One statement. `:name` stands for the argument `name`, NULL if it is absent; `:principal`
    /// for the name of the caller. Values are bound: they are never part of the statement.
    pub query: String,
    /// Whether the statement may change the database. Default `false`.
    #[serde(default)]
    pub write: bool,
    /// Whether the result is the one row of the statement in place of a list of rows. No row, or
    /// more than one, is an error. Default `false`.
    #[serde(default)]
    pub one: bool,
    /// Rows of a result, at most. If there are more, `truncated` is `true`. Default 1000.
    #[serde(default)]
    pub rows_max: Option<NonZeroU32>,
}

/// A database with a name, and the tools that explore it.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DatabaseDeclaration {
    /// Name, for `database = "…"` of statements, and for the tools `NAME_query` and `NAME_schema`.
    pub name: String,
    /// `sqlite:/srv/shop.db` or `postgres://user:${PASSWORD}@host/name`. A relative path is below
    /// the folder of the file.
    pub url: String,
    /// Tables and views that the tools `NAME_query` and `NAME_schema` read. Default: all. Only for
    /// SQLite: PostgreSQL limits them by the rights of the user.
    #[serde(default)]
    pub tables: Option<Vec<String>>,
    /// Whether statements with `write = true` may use the database. The tools `NAME_query` and
    /// `NAME_schema` never change it. Default `false`.
    #[serde(default)]
    pub write: bool,
    /// Whether there are the tools `NAME_query` and `NAME_schema`. Default `true`.
    #[serde(default = "yes")]
    pub explore: bool,
    /// Rows of a result of `NAME_query`, at most. Default 1000.
    #[serde(default)]
    pub rows_max: Option<NonZeroU32>,
}

impl fmt::Debug for SqlDeclaration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the database: its URL may have a password.
        let mut debug = formatter.debug_struct("SqlDeclaration");
        debug.field("query", &self.query).field("write", &self.write).finish_non_exhaustive()
    }
}

impl fmt::Debug for DatabaseDeclaration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the URL, which may have a password.
        let mut debug = formatter.debug_struct("DatabaseDeclaration");
        debug.field("name", &self.name).field("tables", &self.tables).finish_non_exhaustive()
    }
}

const fn yes() -> bool {
    true
}

/// Rows of a result unless a declaration has its own number.
pub(super) const ROWS_MAX: usize = 1000;

/// The number of rows, at most.
pub(super) fn rows_max(declared: Option<NonZeroU32>) -> usize {
    declared.map_or(ROWS_MAX, |rows| usize::try_from(rows.get()).unwrap_or(usize::MAX))
}
