//! What statements may do, decided by SQLite's authorizer while it prepares them.

use std::fmt;
use std::sync::Arc;

use rusqlite::hooks::{AuthAction, AuthContext};

/// What the statements of a connection may do.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Access {
    /// Read everything.
    Read,
    /// Read and change everything, but neither attach files nor begin transactions nor set pragmas.
    Write,
    /// Read these tables and views, and nothing about the schema; everything if there is no list.
    Explore(Option<Arc<[String]>>),
    /// Read everything, and pragmas; for the statements of this module.
    Schema,
}

/// Functions that reach beyond the database.
const REFUSED_FUNCTIONS: [&str; 3] = ["load_extension", "fts3_tokenizer", "edit"];

/// Table-valued functions that read nothing but their arguments.
const PURE_TABLES: [&str; 4] = ["json_each", "json_tree", "jsonb_each", "jsonb_tree"];

/// Pragmas that virtual tables of SQLite read.
const READ_PRAGMAS: [&str; 2] = ["data_version", "page_size"];

/// An action that is refused, as text for the message: `insert into t`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Access {
    /// Whether statements may change the database.
    pub(crate) const fn is_write(&self) -> bool {
        matches!(self, Self::Write)
    }

    /// Decides an action. `with` is there for statements with WITH.
    ///
    /// # Errors
    ///
    /// The action is refused.
    pub(crate) fn decide(
        &self,
        context: &AuthContext<'_>,
        with: Option<&With>,
    ) -> Result<(), Refused> {
        let refused = |text: String| Err(Refused(text));
        match context.action {
            AuthAction::Select | AuthAction::Recursive => Ok(()),
            AuthAction::Function { function_name } => {
                let mut names = REFUSED_FUNCTIONS.iter();
                if names.any(|it| function_name.eq_ignore_ascii_case(it)) {
                    return refused(format!("call {function_name}()"));
                }
                Ok(())
            }
            AuthAction::Read { table_name, column_name } => {
                let read = Read { table_name, column_name, accessor: context.accessor };
                if self.may_read(&read, with) {
                    return Ok(());
                }
                refused(format!("read {table_name}"))
            }
            AuthAction::Pragma { .. } if *self == Self::Schema => Ok(()),
            AuthAction::Pragma { pragma_name, pragma_value } => {
                if pragma_value.is_none() && READ_PRAGMAS.contains(&pragma_name) {
                    return Ok(());
                }
                refused(format!("use pragma {pragma_name}"))
            }
            AuthAction::Attach { .. } => refused("attach a file".to_owned()),
            AuthAction::Detach { .. } => refused("detach a file".to_owned()),
            AuthAction::Transaction { .. } | AuthAction::Savepoint { .. } => {
                refused("begin or end a transaction".to_owned())
            }
            _ if self.is_write() => Ok(()),
            ref change => refused(describe_change(change)),
        }
    }

    fn may_read(&self, read: &Read<'_>, with: Option<&With>) -> bool {
        let Self::Explore(Some(tables)) = self else {
            return true;
        };
        let has = |names: &[String], name| names.iter().any(|it| it.eq_ignore_ascii_case(name));
        if has(tables, read.table_name) || PURE_TABLES.contains(&read.table_name) {
            return true;
        }
        match with {
            // Only a view can be between the statement and the table.
            None => read.accessor.is_some_and(|view| has(tables, view)),
            // A common table expression of which no column is read: `select count(*) from x`.
            Some(with) => read.column_name.is_empty() && !with.has_table(read.table_name),
        }
    }
}

/// A statement that may have common table expressions. SQLite's authorizer does not tell them from
/// views: one with the name of a view that is listed could read any table.
#[derive(Clone, Debug)]
pub(crate) struct With {
    /// Names of everything in the database that can be read like a table.
    pub(crate) names: Vec<String>,
}

impl With {
    /// Whether `name` is a table, and not only that of a common table expression.
    fn has_table(&self, name: &str) -> bool {
        let lower = name.to_ascii_lowercase();
        lower.starts_with("sqlite_")
            || lower.starts_with("pragma_")
            || self.names.iter().any(|it| it.eq_ignore_ascii_case(name))
    }
}

/// A column that is read.
struct Read<'r> {
    table_name: &'r str,
    /// Empty if the statement reads no column of the table.
    column_name: &'r str,
    /// The view or common table expression that reads it.
    accessor: Option<&'r str>,
}

fn describe_change(change: &AuthAction<'_>) -> String {
    match change {
        AuthAction::Insert { table_name } => format!("insert into {table_name}"),
        AuthAction::Update { table_name, .. } => format!("update {table_name}"),
        AuthAction::Delete { table_name } => format!("delete from {table_name}"),
        AuthAction::CreateTable { table_name } | AuthAction::CreateTempTable { table_name } => {
            format!("create the table {table_name}")
        }
        _ => "change the schema".to_owned(),
    }
}
