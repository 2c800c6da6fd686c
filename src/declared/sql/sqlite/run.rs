//! One run of one statement.

use std::sync::OnceLock;
use std::time::Duration;

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Row, Statement, StatementStatus};
use serde_json::Value;

use crate::declared::call::{Call, Failure, Output};
use crate::declared::limits::CallLimits;
use crate::declared::sql::rows::{Cell, ColumnKeys, Next, RowsWriter, Shape};
use crate::declared::sql::sqlite::authorizer::With;
use crate::declared::sql::sqlite::failures::{self, ErrorKind};
use crate::declared::sql::sqlite::pool::{OpenError, PooledConnection, SqlitePool};
use crate::declared::sql::sqlite::watch::{Ending, Interruption, IsCancelled};
use crate::declared::template::PRINCIPAL;

/// How long a call waits for the locks of other programs, at most.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(5);

/// A statement with all that a run of it needs.
#[derive(Debug)]
pub(crate) struct Run<'r> {
    /// The statement.
    pub(crate) text: &'r str,
    /// Names of its parameters, in the order of their numbers.
    pub(crate) parameters: &'r [String],
    /// Rows of a result, at most, if it has more than one.
    pub(crate) rows_max: usize,
    /// Whether the result is one row.
    pub(crate) is_one: bool,
    /// Whether the statement is prepared once for all calls of the connection.
    pub(crate) is_cached: bool,
    /// Names of the columns, if they are the same for all calls.
    pub(crate) keys: &'r OnceLock<ColumnKeys>,
    /// For statements with WITH that read listed tables only.
    pub(crate) with: Option<With>,
    /// Limits of the call.
    pub(crate) limits: CallLimits,
}

/// Why a run has no output.
#[derive(Debug)]
enum RunError {
    Sqlite(rusqlite::Error),
    Failure(Failure),
}

impl From<rusqlite::Error> for RunError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<Failure> for RunError {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl Run<'_> {
    /// Runs the statement on a connection of `pool`. Blocks; `is_cancelled` is asked every few
    /// microseconds of the statement's work, and while it waits for a lock.
    pub(crate) fn run(
        &self,
        pool: &SqlitePool,
        call: &Call,
        is_cancelled: IsCancelled,
    ) -> Result<Output, Failure> {
        let pooled = pool.take().map_err(|error| Failure::failed(describe_open(&error)))?;
        pooled.watch.begin(self.limits.timeout, Some(is_cancelled), self.with.clone());
        let result = self.run_when_unlocked(pool, &pooled, call);
        let ending = pooled.watch.end();
        match result {
            Ok(output) => {
                pool.put(pooled);
                Ok(output)
            }
            Err(RunError::Failure(failure)) => {
                pool.put(pooled);
                Err(failure)
            }
            Err(RunError::Sqlite(error)) => {
                if matches!(
                    failures::kind_of(&error),
                    ErrorKind::Interrupted | ErrorKind::Other | ErrorKind::Refused
                ) {
                    pool.put(pooled);
                }
                Err(self.describe_failure(&error, &ending))
            }
        }
    }

    /// Runs the statement again while another program holds a lock: what the statement has changed
    /// is rolled back then.
    fn run_when_unlocked(
        &self,
        pool: &SqlitePool,
        pooled: &PooledConnection,
        call: &Call,
    ) -> Result<Output, RunError> {
        let mut give_up = None;
        loop {
            let error = match self.run_once(pooled, call) {
                Err(RunError::Sqlite(error)) if failures::kind_of(&error) == ErrorKind::Locked => {
                    error
                }
                result => return result,
            };
            let now = pool.clock().now();
            let wait = LOCK_WAIT_MAX.min(self.limits.timeout * 3 / 4);
            if pooled.watch.must_end() || now >= *give_up.get_or_insert_with(|| now.after(wait)) {
                return Err(error.into());
            }
        }
    }

    fn run_once(&self, pooled: &PooledConnection, call: &Call) -> Result<Output, RunError> {
        if self.is_cached {
            let mut statement = pooled.connection.prepare_cached(self.text)?;
            return self.run_prepared(pooled, &mut statement, call);
        }
        let mut statement = pooled.connection.prepare(self.text)?;
        self.run_prepared(pooled, &mut statement, call)
    }

    fn run_prepared(
        &self,
        pooled: &PooledConnection,
        statement: &mut Statement<'_>,
        call: &Call,
    ) -> Result<Output, RunError> {
        if statement.parameter_count() != self.parameters.len() {
            let text = "the statement has other parameters than :name";
            return Err(Failure::failed(text).into());
        }
        for (index, name) in self.parameters.iter().enumerate() {
            bind(statement, index + 1, name, call)?;
        }
        let (columns, is_read_only) = (statement.column_count(), statement.readonly());
        let shape = match (columns, self.is_one) {
            (0, _) => Shape::Changes,
            (_, true) => Shape::One,
            _ => Shape::Rows { max: self.rows_max },
        };
        let mut writer = RowsWriter::new(shape, self.limits.output_bytes_max);
        let mut rows = statement.raw_query();
        // The columns of a statement that SQLite prepares again, as the tables have changed.
        let mut changed_keys = None;
        let mut is_open = true;
        while let Some(row) = rows.next()? {
            if !is_open {
                continue;
            }
            let keys = match &changed_keys {
                Some(keys) => keys,
                None => self.keys_of(row, &mut changed_keys)?,
            };
            let cells = (0..keys.len()).map(|index| cell(row, index));
            is_open = writer.write_row(keys, cells)? == Next::More;
            if !is_open && is_read_only {
                break;
            }
        }
        drop(rows);
        Ok(writer.finish(pooled.connection.changes())?)
    }

    /// The names of the columns: those of all calls, or those that this statement has now.
    fn keys_of<'k>(
        &'k self,
        row: &Row<'_>,
        changed: &'k mut Option<ColumnKeys>,
    ) -> Result<&'k ColumnKeys, Failure> {
        let statement: &Statement<'_> = row.as_ref();
        let is_changed = statement.get_status(StatementStatus::RePrepare) > 0;
        if !is_changed && let Some(keys) = self.keys.get() {
            return Ok(keys);
        }
        let keys = column_keys(statement).map_err(Failure::failed)?;
        if is_changed {
            return Ok(changed.insert(keys));
        }
        Ok(self.keys.get_or_init(|| keys))
    }

    fn describe_failure(&self, error: &rusqlite::Error, ending: &Ending) -> Failure {
        match (failures::kind_of(error), ending) {
            (_, Ending { interruption: Some(Interruption::Cancelled), .. }) => {
                Failure::failed("the call was cancelled")
            }
            (ErrorKind::Interrupted, _) => {
                let timeout = self.limits.timeout;
                let text = format!(
                    "the statement was stopped at its time limit of {timeout:?}: make it read \
                     fewer rows"
                );
                Failure::failed(text)
            }
            (_, Ending { refused: Some(refused), .. }) => {
                Failure::failed(format!("the statement may not {refused}"))
            }
            _ => Failure::failed(failures::describe(error)),
        }
    }
}

/// Names of the columns of a statement.
///
/// # Errors
///
/// Two have the same name.
pub(crate) fn column_keys(statement: &Statement<'_>) -> Result<ColumnKeys, String> {
    ColumnKeys::new(statement.column_names())
        .map_err(|name| format!("two columns have the name {name:?}: name one of them with AS"))
}

/// What is wrong with a file that has no connection.
pub(crate) fn describe_open(error: &OpenError) -> String {
    match error {
        OpenError::File(error) if error.kind() == std::io::ErrorKind::NotFound => {
            "the file of the database does not exist".to_owned()
        }
        OpenError::File(error) => format!("the file of the database cannot be opened: {error}"),
        OpenError::Sqlite(error) => failures::describe(error),
    }
}

fn bind(
    statement: &mut Statement<'_>,
    index: usize,
    name: &str,
    call: &Call,
) -> Result<(), RunError> {
    if name == PRINCIPAL {
        statement.raw_bind_parameter(index, call.principal.as_deref())?;
        return Ok(());
    }
    match call.arguments.get(name) {
        None => statement.raw_bind_parameter(index, rusqlite::types::Null)?,
        Some(value) => statement.raw_bind_parameter(index, to_sql(name, value)?)?,
    }
    Ok(())
}

/// The value of an argument as SQLite stores it: booleans as 0 and 1, lists and objects as JSON.
fn to_sql<'v>(name: &str, value: &'v Value) -> Result<Bound<'v>, Failure> {
    let bound = match value {
        Value::Null => ToSqlOutput::Borrowed(ValueRef::Null),
        Value::Bool(is_true) => ToSqlOutput::Borrowed(ValueRef::Integer((*is_true).into())),
        Value::Number(number) => {
            if let Some(integer) = number.as_i64() {
                ToSqlOutput::Borrowed(ValueRef::Integer(integer))
            } else if let Some(real) = number.as_f64().filter(|_| !number.is_u64()) {
                ToSqlOutput::Borrowed(ValueRef::Real(real))
            } else {
                let text = format!("{name} is {number}, but the largest integer is {}", i64::MAX);
                return Err(Failure::invalid_argument(text));
            }
        }
        Value::String(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
        Value::Array(_) | Value::Object(_) => ToSqlOutput::Owned(value.to_string().into()),
    };
    Ok(Bound(bound))
}

struct Bound<'v>(ToSqlOutput<'v>);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match &self.0 {
            ToSqlOutput::Owned(value) => ToSqlOutput::Borrowed(value.into()),
            other => other.clone(),
        })
    }
}

fn cell<'v>(row: &'v Row<'_>, index: usize) -> Cell<'v> {
    match row.get_ref(index) {
        Ok(ValueRef::Integer(number)) => Cell::Integer(number),
        Ok(ValueRef::Real(number)) => Cell::Real(number),
        Ok(ValueRef::Text(text)) => Cell::Text(text),
        Ok(ValueRef::Blob(bytes)) => Cell::Blob(bytes),
        // A column that is not there cannot be: `index` is below their number.
        Ok(ValueRef::Null) | Err(_) => Cell::Null,
    }
}
