//! A declared statement of any database.

use serde_json::Value;

use crate::declared::arguments::Arguments;
use crate::declared::call::{Call, Failure, Output};
use crate::declared::limits::CallLimits;
use crate::declared::problem::Problem;
use crate::declared::sql::databases::{Databases, Location};
use crate::declared::sql::declaration::SqlDeclaration;
#[cfg(feature = "postgres")]
use crate::declared::sql::postgres::tool::PostgresTool;
use crate::declared::sql::sqlite::authorizer::Access;
use crate::declared::sql::sqlite::tool::{Pools, SqliteTool, access_of};
use crate::declared::sql::statement::{Dialect, StatementText};
use crate::declared::template::PRINCIPAL;
use crate::server::options::unit::nearest;

/// What a statement is declared with.
#[derive(Debug)]
pub struct SqlContext<'c> {
    /// The arguments that its parameters stand for.
    pub arguments: &'c Arguments,
    /// Limits of a call.
    pub limits: CallLimits,
    /// The databases of the file.
    pub databases: &'c mut Databases,
}

/// A declared statement.
#[derive(Clone, Debug)]
pub enum SqlTool {
    /// Of a SQLite file.
    Sqlite(SqliteTool),
    /// Of a PostgreSQL server.
    #[cfg(feature = "postgres")]
    Postgres(PostgresTool),
}

impl SqlTool {
    /// A statement that is ready to run.
    ///
    /// # Errors
    ///
    /// The statement or its database is wrong. A database that cannot be reached is a warning:
    /// [`Self::warning`].
    pub fn new(
        declaration: &SqlDeclaration,
        context: SqlContext<'_>,
    ) -> Result<Self, Vec<Problem>> {
        let SqlContext { arguments, limits, databases } = context;
        let database = databases.find(&declaration.database).map_err(|it| vec![it])?;
        let dialect = match &database.location {
            Location::Sqlite(_) => Dialect::Sqlite,
            Location::Postgres(_) => Dialect::Postgres,
        };
        let names: Vec<&str> = arguments.names().collect();
        let text = StatementText::parse(&declaration.query, dialect, &names)
            .map_err(|fault| vec![Problem::new("sql.query", fault.message, fault.hint)])?;
        let mut problems = unknown_parameters(&text, &names);
        if declaration.write
            && let Some(name) = &database.read_only
        {
            let message = format!("is set, but the database {name} does not permit changes");
            let hint = "set write = true in its [[database]], too";
            problems.push(Problem::new("sql.write", message, hint));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        match &database.location {
            Location::Sqlite(path) => {
                let pools = Pools {
                    run: databases.pool(path, access_of(declaration)),
                    schema: databases.pool(path, Access::Schema),
                };
                SqliteTool::new(declaration, text, pools, limits).map(Self::Sqlite)
            }
            #[cfg(feature = "postgres")]
            Location::Postgres(url) => {
                let server = databases.server("sql.database", url).map_err(|it| vec![it])?;
                PostgresTool::new(declaration, &text, server, limits).map(Self::Postgres)
            }
            #[cfg(not(feature = "postgres"))]
            Location::Postgres(_) => {
                Err(vec![crate::declared::sql::databases::no_postgres("sql.database")])
            }
        }
    }

    /// JSON Schema of the results.
    pub fn output_schema(&self) -> &Value {
        match self {
            Self::Sqlite(tool) => tool.output_schema(),
            #[cfg(feature = "postgres")]
            Self::Postgres(tool) => tool.output_schema(),
        }
    }

    /// Why the database was not reachable at the start, if it was not.
    pub fn warning(&self) -> Option<&str> {
        match self {
            Self::Sqlite(tool) => tool.warning(),
            #[cfg(feature = "postgres")]
            Self::Postgres(tool) => tool.warning(),
        }
    }

    /// Runs the statement. Dropping the future cancels it.
    ///
    /// # Errors
    ///
    /// The statement fails or reaches a limit.
    pub async fn call(&self, call: Call) -> Result<Output, Failure> {
        match self {
            Self::Sqlite(tool) => tool.call(call).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(tool) => tool.call(call).await,
        }
    }
}

/// Problems of parameters that no argument has the name of.
fn unknown_parameters(text: &StatementText, arguments: &[&str]) -> Vec<Problem> {
    let is_unknown = |name: &&str| *name != PRINCIPAL && !arguments.contains(name);
    let unknown = text.parameters().into_iter().filter(is_unknown);
    let problem = |name: &str| {
        let hint = match nearest(name, arguments.iter().copied()) {
            Some(near) => format!("did you mean :{near}?"),
            None => format!("declare the argument {name}"),
        };
        Problem::new("sql.query", format!("has the parameter :{name}, but no such argument"), hint)
    };
    unknown.map(problem).collect()
}
