//! Exploring a SQLite file.

use std::sync::{Arc, OnceLock};

use serde_json::json;

use crate::declared::call::{Call, Failure, Output};
use crate::declared::limits::CallLimits;
use crate::declared::problem::Problem;
use crate::declared::sql::explore_kind::{ExploreKind, query_text};
use crate::declared::sql::inspection::InspectError;
use crate::declared::sql::sqlite::authorizer::With;
use crate::declared::sql::sqlite::failures;
use crate::declared::sql::sqlite::run::{Run, describe_open};
use crate::declared::sql::sqlite::schema::{read_schema, readable_names, table_names};
use crate::declared::sql::sqlite::tool::{CancelFlag, Pools, inspect_error, run_on_thread, take};
use crate::declared::sql::statement::{Dialect, StatementText};

/// A tool that explores a SQLite file.
#[derive(Clone, Debug)]
pub struct SqliteExplorer {
    kind: ExploreKind,
    explored: Arc<Explored>,
}

/// The file, and what may be read of it.
#[derive(Debug)]
pub(crate) struct Explored {
    /// Connections of the file.
    pub(crate) pools: Pools,
    /// Tables and views that may be read; all if there is no list.
    pub(crate) tables: Option<Arc<[String]>>,
    /// Rows of a result, at most.
    pub(crate) rows_max: usize,
    /// Limits of a call.
    pub(crate) limits: CallLimits,
}

impl SqliteExplorer {
    /// A tool of this kind.
    pub(crate) fn new(kind: ExploreKind, explored: Arc<Explored>) -> Self {
        Self { kind, explored }
    }

    /// Runs the tool on this thread, which blocks. `is_cancelled` is asked every few microseconds
    /// of a statement's work, and while it waits for a lock.
    ///
    /// # Errors
    ///
    /// The statement fails, is refused or cancelled, or reaches a limit.
    pub fn call_blocking(
        &self,
        call: &Call,
        is_cancelled: impl Fn() -> bool + Send + 'static,
    ) -> Result<Output, Failure> {
        self.explored.run(self.kind, call, Box::new(is_cancelled))
    }

    /// Runs the tool on a thread of the runtime. Dropping the future interrupts it.
    ///
    /// # Errors
    ///
    /// The statement fails, is refused, or reaches a limit.
    pub async fn call(&self, call: Call) -> Result<Output, Failure> {
        let (kind, explored) = (self.kind, Arc::clone(&self.explored));
        run_on_thread(move |is_cancelled| explored.run(kind, &call, is_cancelled)).await
    }
}

impl Explored {
    fn run(
        &self,
        kind: ExploreKind,
        call: &Call,
        is_cancelled: CancelFlag,
    ) -> Result<Output, Failure> {
        match kind {
            ExploreKind::Query => self.query(call, is_cancelled),
            ExploreKind::Schema => self.schema(is_cancelled),
        }
    }

    fn query(&self, call: &Call, is_cancelled: CancelFlag) -> Result<Output, Failure> {
        let text = query_text(call, Dialect::Sqlite)?;
        let run = Run {
            text: text.text(),
            parameters: &[],
            rows_max: self.rows_max,
            is_one: false,
            is_cached: false,
            keys: &OnceLock::new(),
            with: self.with_of(&text)?,
            limits: self.limits,
        };
        run.run(&self.pools.run, call, is_cancelled).map_err(|failure| match failure {
            Failure::Failed(text) if run.with.is_some() && text.contains("may not read") => {
                Failure::failed(format!("{text} in a statement with WITH: write subqueries"))
            }
            failure => failure,
        })
    }

    /// What the authorizer knows about a statement with WITH if tables are listed.
    fn with_of(&self, text: &StatementText) -> Result<Option<With>, Failure> {
        if self.tables.is_none() || !text.has_word("with") {
            return Ok(None);
        }
        let reader = self.pools.schema.take().map_err(|it| Failure::failed(describe_open(&it)))?;
        let names = readable_names(&reader.connection);
        self.pools.schema.put(reader);
        let names = names.map_err(|error| Failure::failed(failures::describe(&error)))?;
        Ok(Some(With { names }))
    }

    fn schema(&self, is_cancelled: CancelFlag) -> Result<Output, Failure> {
        let pool = &self.pools.schema;
        let pooled = pool.take().map_err(|error| Failure::failed(describe_open(&error)))?;
        pooled.watch.begin(self.limits.timeout, Some(is_cancelled), None);
        let read = read_schema(&pooled.connection, |name| self.is_listed(name));
        pooled.watch.end();
        let mut tables = read.map_err(|error| Failure::failed(failures::describe(&error)))?;
        pool.put(pooled);
        let mut is_truncated = false;
        loop {
            let text = json!({ "tables": tables, "truncated": is_truncated }).to_string();
            if text.len() <= self.limits.output_bytes_max {
                return Ok(Output::JsonText(text));
            }
            if tables.is_empty() {
                return Err(Failure::failed("the schema is longer than the limit of the output"));
            }
            tables.truncate(tables.len() / 2);
            is_truncated = true;
        }
    }

    fn is_listed(&self, name: &str) -> bool {
        let Some(tables) = &self.tables else {
            return true;
        };
        tables.iter().any(|it| it.eq_ignore_ascii_case(name))
    }
}

/// Checks that the file is a database with the tables that are listed.
pub(crate) fn check_tables(pools: &Pools, tables: Option<&[String]>) -> Result<(), InspectError> {
    let reader = take(&pools.schema)?;
    reader.watch.begin(CallLimits::default().timeout, None, None);
    let names = table_names(&reader.connection);
    reader.watch.end();
    let names = names.map_err(|error| match inspect_error(&error, &pools.schema) {
        InspectError::Problem(problem) => {
            InspectError::Problem(Problem { key: "url".into(), ..problem })
        }
        unreachable @ InspectError::Unreachable(_) => unreachable,
    })?;
    pools.schema.put(reader);
    let is_missing = |table: &&String| !names.iter().any(|it| it.0.eq_ignore_ascii_case(table));
    match tables.into_iter().flatten().find(is_missing) {
        None => Ok(()),
        Some(table) => {
            let message = format!("there is no table or view {table:?}");
            let hint = names.iter().map(|it| it.0.as_str()).collect::<Vec<_>>().join(", ");
            let hint = format!("the database has {hint}");
            Err(InspectError::Problem(Problem::new("tables", message, hint)))
        }
    }
}
