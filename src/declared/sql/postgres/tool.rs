//! A declared statement of a PostgreSQL server.

use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Statement};

use crate::declared::call::{Call, Failure, Output};
use crate::declared::limits::CallLimits;
use crate::declared::problem::Problem;
use crate::declared::sql::declaration::{SqlDeclaration, rows_max};
use crate::declared::sql::inspection::InspectError;
use crate::declared::sql::output_schema::result_schema;
use crate::declared::sql::postgres::arguments::{Bound, bind};
use crate::declared::sql::postgres::connection::{PostgresServer, UsedClient};
use crate::declared::sql::postgres::failures::{describe, describe_connection, is_unreachable};
use crate::declared::sql::postgres::query::{Declared, PostgresQuery, begin};
use crate::declared::sql::rows::Shape;
use crate::declared::sql::statement::StatementText;

/// Time for a server to answer at the start.
const START_TIME: Duration = Duration::from_secs(10);

/// A declared statement of a PostgreSQL server.
#[derive(Clone, Debug)]
pub struct PostgresTool {
    statement: Arc<PostgresStatement>,
}

#[derive(Debug)]
struct PostgresStatement {
    server: Arc<PostgresServer>,
    /// The statement with `$1` for its first parameter.
    numbered: String,
    parameters: Vec<String>,
    declared: Declared,
    /// Set at the start, or by the first call if the server was not reachable then.
    query: OnceLock<PostgresQuery>,
    output_schema: Value,
    warning: Option<String>,
}

/// Why a run has no rows.
enum RunError {
    Postgres(Error),
    Failure(Failure),
}

impl From<Error> for RunError {
    fn from(error: Error) -> Self {
        Self::Postgres(error)
    }
}

impl PostgresTool {
    /// A tool that runs `text` on `server`, which is asked now what the statement returns. Blocks
    /// until it answers.
    ///
    /// # Errors
    ///
    /// The statement is wrong.
    pub(crate) fn new(
        declaration: &SqlDeclaration,
        text: &StatementText,
        server: Arc<PostgresServer>,
        limits: CallLimits,
    ) -> Result<Self, Vec<Problem>> {
        let declared = Declared {
            rows_max: rows_max(declaration.rows_max),
            is_one: declaration.one,
            is_write: declaration.write,
            limits,
        };
        let numbered = text.numbered();
        let parameters: Vec<String> = text.parameters().into_iter().map(str::to_owned).collect();
        let inspection = inspect(&server, &numbered, parameters.len(), &declared);
        let query = OnceLock::new();
        let (output_schema, warning) = match on_own_runtime(inspection) {
            Ok(found) => {
                let schema = result_schema(Some(&found.columns), found.shape);
                query.get_or_init(|| found);
                (schema, None)
            }
            Err(InspectError::Unreachable(warning)) => {
                let max = declared.rows_max;
                let shape = if declared.is_one { Shape::One } else { Shape::Rows { max } };
                let warning = format!("{}: {warning}", server.address());
                (result_schema(None, shape), Some(warning))
            }
            Err(InspectError::Problem(problem)) => return Err(vec![problem]),
        };
        let statement = PostgresStatement {
            server,
            numbered,
            parameters,
            declared,
            query,
            output_schema,
            warning,
        };
        Ok(Self { statement: Arc::new(statement) })
    }

    /// JSON Schema of the results.
    pub fn output_schema(&self) -> &Value {
        &self.statement.output_schema
    }

    /// Why the database was not reachable at the start, if it was not.
    pub fn warning(&self) -> Option<&str> {
        self.statement.warning.as_deref()
    }

    /// Runs the statement. Dropping the future cancels it at the server.
    ///
    /// # Errors
    ///
    /// The statement fails or reaches a limit.
    pub async fn call(&self, call: Call) -> Result<Output, Failure> {
        let statement = &self.statement;
        let (server, timeout) = (&statement.server, statement.declared.limits.timeout);
        let unreachable = |error: Error| Failure::failed(describe_connection(&error));
        let mut used = server.take().await.map_err(unreachable)?;
        loop {
            match statement.run(&mut used, &call).await {
                Ok(output) => {
                    server.put(used);
                    return Ok(output);
                }
                Err(RunError::Failure(failure)) => {
                    server.put(used);
                    return Err(failure);
                }
                // The server has closed an idle connection: nothing has run.
                Err(RunError::Postgres(error))
                    if error.is_closed() && used.is_reused() && !statement.declared.is_write =>
                {
                    used.close();
                    used = server.take_new().await.map_err(unreachable)?;
                }
                Err(RunError::Postgres(error)) => {
                    used.close();
                    return Err(describe(&error, timeout));
                }
            }
        }
    }
}

impl PostgresStatement {
    async fn run(&self, used: &mut UsedClient, call: &Call) -> Result<Output, RunError> {
        let query = match self.query.get() {
            Some(query) => query,
            None => self.inspect_late(used).await?,
        };
        let principal = call.principal.as_deref().map_or(Value::Null, Value::from);
        let bound = bind(&self.parameters, call, &principal);
        let values: Vec<&(dyn ToSql + Sync)> = bound.iter().map(as_dyn).collect();
        let begin = begin(&self.declared);
        let prepared = used.prepare(&query.text, &begin).await;
        let statement = prepared.map_err(|error| self.failed(error))?;
        let client = used.client();
        let bytes_max = self.declared.limits.output_bytes_max;
        if !self.declared.is_write {
            // One turn to the server: the three are sent one behind the other.
            let (began, rows, ended) = tokio::join!(
                biased;
                client.batch_execute(&begin),
                client.query(&statement, &values),
                client.batch_execute("rollback"),
            );
            began?;
            ended?;
            let rows = rows.map_err(|error| self.failed(error))?;
            return query.read(&rows, bytes_max).map_err(RunError::Failure);
        }
        client.batch_execute(&begin).await?;
        let result = self.change(client, query, &statement, &values).await;
        // What the caller does not see does not happen.
        let end = if result.is_ok() { "commit" } else { "rollback" };
        client.batch_execute(end).await.map_err(|it| self.failed(it))?;
        result
    }

    /// Runs a statement that may change the database, inside of a transaction.
    async fn change(
        &self,
        client: &Client,
        query: &PostgresQuery,
        statement: &Statement,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Output, RunError> {
        if query.shape == Shape::Changes {
            let changes = client.execute(statement, values).await.map_err(|it| self.failed(it))?;
            return Ok(Output::JsonText(format!("{{\"changes\":{changes}}}")));
        }
        let rows = client.query(statement, values).await.map_err(|it| self.failed(it))?;
        query.read(&rows, self.declared.limits.output_bytes_max).map_err(RunError::Failure)
    }

    /// The error of a statement: of the connection, or one that leaves the connection as it is.
    fn failed(&self, error: Error) -> RunError {
        if is_unreachable(&error) {
            return RunError::Postgres(error);
        }
        RunError::Failure(describe(&error, self.declared.limits.timeout))
    }

    /// Learns what the statement returns when the server is reachable for the first time.
    async fn inspect_late(&self, used: &UsedClient) -> Result<&PostgresQuery, RunError> {
        let count = self.parameters.len();
        let client = used.client();
        client.batch_execute(&begin(&self.declared)).await?;
        let inspected = inspect_on(used, &self.numbered, count, &self.declared).await;
        client.batch_execute("rollback").await?;
        match inspected {
            Ok(query) => Ok(self.query.get_or_init(|| query)),
            Err(InspectError::Unreachable(text)) => Err(RunError::Failure(Failure::failed(text))),
            Err(InspectError::Problem(problem)) => {
                Err(RunError::Failure(Failure::failed(problem.message)))
            }
        }
    }
}

fn as_dyn<'b>(bound: &'b Bound<'_>) -> &'b (dyn ToSql + Sync) {
    bound
}

/// Runs `future` on a runtime of its own, on another thread: this one may belong to a runtime.
pub(crate) fn on_own_runtime<T: Send>(
    future: impl Future<Output = Result<T, InspectError>> + Send,
) -> Result<T, InspectError> {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|it| InspectError::Unreachable(it.to_string()))?;
        let answer = runtime.block_on(async { tokio::time::timeout(START_TIME, future).await });
        answer.unwrap_or_else(|_| {
            let text = format!("the database does not answer within {START_TIME:?}");
            Err(InspectError::Unreachable(text))
        })
    };
    thread::scope(|scope| scope.spawn(run).join()).unwrap_or_else(|_| {
        Err(InspectError::Unreachable("the statement could not be prepared".to_owned()))
    })
}

async fn inspect(
    server: &PostgresServer,
    text: &str,
    parameters: usize,
    declared: &Declared,
) -> Result<PostgresQuery, InspectError> {
    let used = server.take_new().await;
    let used = used.map_err(|error| InspectError::Unreachable(describe_connection(&error)))?;
    let began = used.client().batch_execute(&begin(declared)).await;
    let inspected = match began {
        Ok(()) => inspect_on(&used, text, parameters, declared).await,
        Err(error) => Err(InspectError::Unreachable(describe_connection(&error))),
    };
    used.close();
    inspected
}

/// Prepares `text`, to know its columns, and the query that encodes its rows.
pub(crate) async fn inspect_on(
    used: &UsedClient,
    text: &str,
    parameters: usize,
    declared: &Declared,
) -> Result<PostgresQuery, InspectError> {
    let client = used.client();
    let problem = |message: String, hint: &str| {
        InspectError::Problem(Problem::new("sql.query", message, hint))
    };
    let classify = |error: &Error, before: &str, hint: &str| {
        if is_unreachable(error) {
            return InspectError::Unreachable(describe_connection(error));
        }
        let message = error.as_db_error().map_or_else(String::new, |it| it.message().to_owned());
        problem(format!("{before}{message}"), hint)
    };
    let hint = "correct the statement, or the schema of the database";
    let statement = client.prepare(text).await.map_err(|error| classify(&error, "", hint))?;
    if statement.params().len() != parameters {
        let message = format!("has {} parameters for PostgreSQL", statement.params().len());
        return Err(problem(message, "write :name for the argument `name`"));
    }
    let write_hint = "set write = true if it may change the database";
    if statement.columns().is_empty() && !declared.is_write {
        return Err(problem("has no result".to_owned(), write_hint));
    }
    if statement.columns().is_empty() && declared.is_one {
        let (message, hint) =
            ("is set, but the statement has no columns", "remove it, or add a RETURNING clause");
        return Err(InspectError::Problem(Problem::new("sql.one", message, hint)));
    }
    let query = PostgresQuery::new(text, &statement, declared)
        .map_err(|message| problem(message, "name the columns of the result apart"))?;
    client
        .prepare(&query.text)
        .await
        .map_err(|error| classify(&error, "is no SELECT statement: ", write_hint))?;
    Ok(query)
}
