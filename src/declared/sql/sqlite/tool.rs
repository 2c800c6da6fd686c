//! A declared statement of a SQLite file.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use rusqlite::Statement;
use serde_json::Value;

use crate::declared::call::{Call, Failure, Output};
use crate::declared::limits::CallLimits;
use crate::declared::problem::Problem;
use crate::declared::sql::declaration::{SqlDeclaration, rows_max};
use crate::declared::sql::inspection::InspectError;
use crate::declared::sql::output_schema::{Column, result_schema};
use crate::declared::sql::rows::{ColumnKeys, Shape};
use crate::declared::sql::sqlite::authorizer::Access;
use crate::declared::sql::sqlite::columns::columns_of;
use crate::declared::sql::sqlite::failures::{self, ErrorKind};
use crate::declared::sql::sqlite::pool::{PooledConnection, SqlitePool};
use crate::declared::sql::sqlite::run::{Run, column_keys, describe_open};
use crate::declared::sql::statement::StatementText;

/// A declared statement of a SQLite file.
#[derive(Clone, Debug)]
pub struct SqliteTool {
    query: Arc<SqliteQuery>,
}

/// The statement, with what was found when it was prepared for the first time.
#[derive(Debug)]
struct SqliteQuery {
    pool: Arc<SqlitePool>,
    text: StatementText,
    parameters: Vec<String>,
    rows_max: usize,
    is_one: bool,
    limits: CallLimits,
    keys: OnceLock<ColumnKeys>,
    output_schema: Value,
    warning: Option<String>,
}

/// What a prepared statement says about itself.
struct Inspected {
    keys: ColumnKeys,
    columns: Vec<Column>,
}

impl SqliteTool {
    /// A tool that runs `text` on connections of `pool`. The statement is prepared by a connection
    /// of `schema_pool`, which is for the same file, to learn its columns.
    ///
    /// # Errors
    ///
    /// The statement does not prepare, or does what the declaration does not permit.
    pub(crate) fn new(
        declaration: &SqlDeclaration,
        text: StatementText,
        pools: Pools,
        limits: CallLimits,
    ) -> Result<Self, Vec<Problem>> {
        let parameters: Vec<String> = text.parameters().into_iter().map(str::to_owned).collect();
        let rows_max = rows_max(declaration.rows_max);
        let shape = if declaration.one { Shape::One } else { Shape::Rows { max: rows_max } };
        let keys = OnceLock::new();
        let (output_schema, warning) = match inspect(declaration, &text, &pools) {
            Ok(inspected) => {
                let shape = if inspected.columns.is_empty() { Shape::Changes } else { shape };
                let schema = result_schema(Some(&inspected.columns), shape);
                keys.get_or_init(|| inspected.keys);
                (schema, None)
            }
            Err(InspectError::Unreachable(warning)) => (result_schema(None, shape), Some(warning)),
            Err(InspectError::Problem(problem)) => return Err(vec![problem]),
        };
        let (pool, is_one) = (pools.run, declaration.one);
        let query = SqliteQuery {
            pool,
            text,
            parameters,
            rows_max,
            is_one,
            limits,
            keys,
            output_schema,
            warning,
        };
        Ok(Self { query: Arc::new(query) })
    }

    /// JSON Schema of the results.
    pub fn output_schema(&self) -> &Value {
        &self.query.output_schema
    }

    /// Why the database was not reachable at the start, if it was not.
    pub fn warning(&self) -> Option<&str> {
        self.query.warning.as_deref()
    }

    /// Runs the statement on this thread, which blocks. `is_cancelled` is asked every few
    /// microseconds of the statement's work, and while it waits for a lock.
    ///
    /// # Errors
    ///
    /// The statement fails, is cancelled, or reaches a limit.
    pub fn call_blocking(
        &self,
        call: &Call,
        is_cancelled: impl Fn() -> bool + Send + 'static,
    ) -> Result<Output, Failure> {
        self.query.run(call, is_cancelled)
    }

    /// Runs the statement on a thread of the runtime. Dropping the future interrupts it.
    ///
    /// # Errors
    ///
    /// The statement fails or reaches a limit.
    pub async fn call(&self, call: Call) -> Result<Output, Failure> {
        let query = Arc::clone(&self.query);
        run_on_thread(move |is_cancelled| query.run(&call, is_cancelled)).await
    }
}

impl SqliteQuery {
    fn run(
        &self,
        call: &Call,
        is_cancelled: impl Fn() -> bool + Send + 'static,
    ) -> Result<Output, Failure> {
        let run = Run {
            text: self.text.text(),
            parameters: &self.parameters,
            rows_max: self.rows_max,
            is_one: self.is_one,
            is_cached: true,
            keys: &self.keys,
            with: None,
            limits: self.limits,
        };
        run.run(&self.pool, call, Box::new(is_cancelled))
    }
}

/// Connections of one file.
#[derive(Clone, Debug)]
pub(crate) struct Pools {
    /// Those that run the statement.
    pub(crate) run: Arc<SqlitePool>,
    /// Those that read the schema.
    pub(crate) schema: Arc<SqlitePool>,
}

/// Runs `run` on a thread of the runtime, with a function that returns whether the future of the
/// result was dropped.
pub(crate) async fn run_on_thread(
    run: impl FnOnce(CancelFlag) -> Result<Output, Failure> + Send + 'static,
) -> Result<Output, Failure> {
    struct CancelOnDrop(Arc<AtomicBool>);
    impl Drop for CancelOnDrop {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let on_drop = CancelOnDrop(Arc::default());
    let flag = Arc::clone(&on_drop.0);
    let is_cancelled: CancelFlag = Box::new(move || flag.load(Ordering::Relaxed));
    match tokio::task::spawn_blocking(move || run(is_cancelled)).await {
        Ok(result) => result,
        Err(error) => Err(Failure::failed(format!("the call ended early: {error}"))),
    }
}

/// Returns whether a call is cancelled.
pub(crate) type CancelFlag = Box<dyn Fn() -> bool + Send>;

/// Prepares the statement once, to know its columns.
fn inspect(
    declaration: &SqlDeclaration,
    text: &StatementText,
    pools: &Pools,
) -> Result<Inspected, InspectError> {
    let pooled = take(&pools.run)?;
    pooled.watch.begin(CallLimits::default().timeout, None, None);
    let inspected = inspect_on(&pooled, declaration, text, pools);
    pools.run.put(pooled);
    inspected
}

/// Takes a connection for an inspection.
pub(crate) fn take(pool: &SqlitePool) -> Result<PooledConnection, InspectError> {
    pool.take().map_err(|error| {
        let described = describe_open(&error);
        InspectError::Unreachable(format!("{}: {described}", pool.path().display()))
    })
}

fn inspect_on(
    pooled: &PooledConnection,
    declaration: &SqlDeclaration,
    text: &StatementText,
    pools: &Pools,
) -> Result<Inspected, InspectError> {
    let query = |message: String, hint: &str| {
        InspectError::Problem(Problem::new("sql.query", message, hint))
    };
    let prepared = pooled.connection.prepare_cached(text.text());
    let ending = pooled.watch.end();
    let statement = prepared.map_err(|error| match ending.refused {
        Some(refused) => {
            let hint = if pools.run.access().is_write() {
                "a declared statement may not do this"
            } else {
                "set write = true if it may change the database"
            };
            query(format!("may not {refused}"), hint)
        }
        None => inspect_error(&error, &pools.run),
    })?;
    if !statement.readonly() && !pools.run.access().is_write() {
        let hint = "set write = true if it may change the database";
        return Err(query("changes the database".to_owned(), hint));
    }
    check_parameters(&statement, text).map_err(InspectError::Problem)?;
    let hint = "name the columns of the result apart";
    let keys = column_keys(&statement).map_err(|message| query(message, hint))?;
    if keys.len() == 0 && !declaration.write {
        return Err(query("has no result".to_owned(), "write a SELECT statement"));
    }
    if keys.len() == 0 && declaration.one {
        let hint = "remove it, or add a RETURNING clause";
        return Err(InspectError::Problem(Problem::new(
            "sql.one",
            "is set, but the statement has no columns",
            hint,
        )));
    }
    let reader = take(&pools.schema)?;
    // The statement may change the database: a connection that does not would refuse it.
    let columns = columns_of(&reader.connection, &statement, text)
        .map_err(|error| inspect_error(&error, &pools.run))?;
    pools.schema.put(reader);
    Ok(Inspected { keys, columns })
}

/// Checks that SQLite finds the parameters that this server binds.
fn check_parameters(statement: &Statement<'_>, text: &StatementText) -> Result<(), Problem> {
    let names = text.parameters();
    let found = (1..=statement.parameter_count()).map(|index| {
        statement.parameter_name(index).and_then(|name| name.strip_prefix(':')).unwrap_or("?")
    });
    if found.clone().eq(names.iter().copied()) {
        return Ok(());
    }
    let message = format!("has the parameters {:?}", found.collect::<Vec<_>>());
    Err(Problem::new("sql.query", message, "write :name with A-Z a-z 0-9 and _"))
}

/// What an error means for the declaration.
pub(crate) fn inspect_error(error: &rusqlite::Error, pool: &SqlitePool) -> InspectError {
    let described = failures::describe(error);
    let path = pool.path().display();
    match failures::kind_of(error) {
        ErrorKind::Locked | ErrorKind::Unreachable | ErrorKind::Interrupted => {
            InspectError::Unreachable(format!("{path}: {described}"))
        }
        ErrorKind::Damaged => {
            let hint = "name a file that SQLite has written";
            InspectError::Problem(Problem::new(
                "sql.database",
                format!("{path}: {described}"),
                hint,
            ))
        }
        ErrorKind::Refused | ErrorKind::Other => {
            let hint = "correct the statement, or the schema of the database";
            InspectError::Problem(Problem::new("sql.query", described, hint))
        }
    }
}

/// The pools of a file for statements with `access`.
pub(crate) fn access_of(declaration: &SqlDeclaration) -> Access {
    if declaration.write { Access::Write } else { Access::Read }
}
