//! Tools that explore a database: `NAME_query` and `NAME_schema`.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::declared::call::{Call, Failure, Output};
use crate::declared::limits::CallLimits;
use crate::declared::problem::Problem;
use crate::declared::sql::databases::{Databases, Location};
use crate::declared::sql::declaration::{DatabaseDeclaration, rows_max};
use crate::declared::sql::explore_kind::ExploreKind;
use crate::declared::sql::inspection::InspectError;
use crate::declared::sql::output_schema::result_schema;
#[cfg(feature = "postgres")]
use crate::declared::sql::postgres::explorer::PostgresExplorer;
use crate::declared::sql::rows::Shape;
use crate::declared::sql::sqlite::authorizer::Access;
use crate::declared::sql::sqlite::explorer::{Explored, SqliteExplorer, check_tables};
use crate::declared::sql::sqlite::tool::Pools;

const KINDS: [ExploreKind; 2] = [ExploreKind::Query, ExploreKind::Schema];

/// A tool that explores a database.
#[derive(Clone, Debug)]
pub struct ExploreTool {
    kind: ExploreKind,
    database: String,
    tables: Option<Arc<[String]>>,
    rows_max: usize,
    warning: Option<String>,
    backend: Backend,
}

#[derive(Clone, Debug)]
enum Backend {
    Sqlite(SqliteExplorer),
    #[cfg(feature = "postgres")]
    Postgres(PostgresExplorer),
}

impl ExploreTool {
    /// The tools `NAME_query` and `NAME_schema` of a database that `databases` knows.
    ///
    /// # Errors
    ///
    /// A table that is listed does not exist, or the file is no database.
    pub fn new(
        declaration: &DatabaseDeclaration,
        databases: &mut Databases,
        limits: CallLimits,
    ) -> Result<[Self; 2], Vec<Problem>> {
        let database = databases.find(&declaration.name).map_err(|problem| vec![problem])?;
        match database.location {
            Location::Sqlite(path) => {
                let tables: Option<Arc<[String]>> = declaration.tables.clone().map(Into::into);
                let pools = Pools {
                    run: databases.pool(&path, Access::Explore(tables.clone())),
                    schema: databases.pool(&path, Access::Schema),
                };
                let warning = match check_tables(&pools, tables.as_deref()) {
                    Ok(()) => None,
                    Err(InspectError::Unreachable(warning)) => Some(warning),
                    Err(InspectError::Problem(problem)) => return Err(vec![problem]),
                };
                let rows_max = rows_max(declaration.rows_max);
                let explored = Arc::new(Explored { pools, tables, rows_max, limits });
                let backend =
                    |kind| Backend::Sqlite(SqliteExplorer::new(kind, Arc::clone(&explored)));
                Ok(KINDS.map(|kind| {
                    Self::from_backend(kind, declaration, warning.clone(), backend(kind))
                }))
            }
            #[cfg(feature = "postgres")]
            Location::Postgres(url) => {
                let server = databases.server("url", &url).map_err(|problem| vec![problem])?;
                let explorers = PostgresExplorer::new(declaration, server, limits)?;
                Ok(explorers.map(|explorer| {
                    let (kind, warning) = (explorer.kind(), explorer.warning());
                    let backend = Backend::Postgres(explorer);
                    Self::from_backend(kind, declaration, warning, backend)
                }))
            }
            #[cfg(not(feature = "postgres"))]
            Location::Postgres(_) => Err(vec![crate::declared::sql::databases::no_postgres("url")]),
        }
    }

    fn from_backend(
        kind: ExploreKind,
        declaration: &DatabaseDeclaration,
        warning: Option<String>,
        backend: Backend,
    ) -> Self {
        Self {
            kind,
            database: declaration.name.clone(),
            tables: declaration.tables.clone().map(Into::into),
            rows_max: rows_max(declaration.rows_max),
            warning,
            backend,
        }
    }

    /// What the tool does.
    pub const fn kind(&self) -> ExploreKind {
        self.kind
    }

    /// Name of the tool.
    pub fn name(&self) -> String {
        let name = &self.database;
        match self.kind {
            ExploreKind::Query => format!("{name}_query"),
            ExploreKind::Schema => format!("{name}_schema"),
        }
    }

    /// What a model reads about the tool.
    pub fn description(&self) -> String {
        let Self { database, tables, rows_max, .. } = self;
        let dialect = match self.backend {
            Backend::Sqlite(_) => "SQLite",
            #[cfg(feature = "postgres")]
            Backend::Postgres(_) => "PostgreSQL",
        };
        match self.kind {
            ExploreKind::Query => {
                let tables = tables.as_ref().map_or_else(String::new, |tables| {
                    format!(" Tables that may be read: {}.", tables.join(", "))
                });
                format!(
                    "Runs one read-only SELECT statement of {dialect} on the database {database}, \
                     and returns up to {rows_max} rows. See {database}_schema for its \
                     tables.{tables}"
                )
            }
            ExploreKind::Schema => {
                format!(
                    "Lists tables, columns and foreign keys of the {dialect} database \
                         {database}."
                )
            }
        }
    }

    /// JSON Schema of the arguments.
    pub fn input_schema(&self) -> Value {
        match self.kind {
            ExploreKind::Query => json!({
                "type": "object",
                "properties": {
                    "query": { "type": "string", "description": "One SELECT statement." },
                },
                "required": ["query"],
                "additionalProperties": false,
            }),
            ExploreKind::Schema => json!({ "type": "object", "additionalProperties": false }),
        }
    }

    /// JSON Schema of the results.
    pub fn output_schema(&self) -> Value {
        match self.kind {
            ExploreKind::Query => result_schema(None, Shape::Rows { max: self.rows_max }),
            ExploreKind::Schema => schema_of_schema(),
        }
    }

    /// Why the database was not reachable at the start, if it was not.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// The tool of a SQLite file, which can run on a thread that may block.
    pub const fn as_sqlite(&self) -> Option<&SqliteExplorer> {
        match &self.backend {
            Backend::Sqlite(explorer) => Some(explorer),
            #[cfg(feature = "postgres")]
            Backend::Postgres(_) => None,
        }
    }

    /// Runs the tool. Dropping the future cancels it.
    ///
    /// # Errors
    ///
    /// The statement fails, is refused, or reaches a limit.
    pub async fn call(&self, call: Call) -> Result<Output, Failure> {
        match &self.backend {
            Backend::Sqlite(explorer) => explorer.call(call).await,
            #[cfg(feature = "postgres")]
            Backend::Postgres(explorer) => explorer.call(call).await,
        }
    }
}

fn schema_of_schema() -> Value {
    let column = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string" },
            "type": { "type": "string" },
            "not_null": { "type": "boolean" },
            "primary_key": { "type": "boolean" },
        },
        "required": ["name", "type"],
    });
    let foreign_key = json!({
        "type": "object",
        "properties": {
            "column": { "type": "string" },
            "table": { "type": "string" },
            "target": { "type": ["string", "null"] },
        },
        "required": ["column", "table"],
    });
    let table = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string" },
            "kind": { "type": "string" },
            "columns": { "type": "array", "items": column },
            "foreign_keys": { "type": "array", "items": foreign_key },
        },
        "required": ["name", "kind", "columns"],
    });
    json!({
        "type": "object",
        "properties": {
            "tables": { "type": "array", "items": table },
            "truncated": { "type": "boolean", "description": "Whether there are more tables." },
        },
        "required": ["tables", "truncated"],
    })
}
