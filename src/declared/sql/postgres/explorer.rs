//! Exploring a PostgreSQL database.
//!
//! Each statement has a connection of its own: what a client's statement leaves in a session, such
//! as an advisory lock, ends with it.

use std::sync::Arc;

use tokio_postgres::Error;

use crate::declared::call::{Call, Failure, Output};
use crate::declared::limits::CallLimits;
use crate::declared::problem::Problem;
use crate::declared::sql::declaration::{DatabaseDeclaration, rows_max};
use crate::declared::sql::explore_kind::{ExploreKind, query_text};
use crate::declared::sql::inspection::InspectError;
use crate::declared::sql::postgres::connection::{PostgresServer, UsedClient};
use crate::declared::sql::postgres::failures::{describe, describe_connection};
use crate::declared::sql::postgres::query::{Declared, begin};
use crate::declared::sql::postgres::tool::{inspect_on, on_own_runtime};
use crate::declared::sql::statement::Dialect;

/// A tool that explores a PostgreSQL database.
#[derive(Clone, Debug)]
pub struct PostgresExplorer {
    kind: ExploreKind,
    explored: Arc<Explored>,
}

#[derive(Debug)]
struct Explored {
    server: Arc<PostgresServer>,
    declared: Declared,
    warning: Option<String>,
}

/// Tables and views that the user may read, as `NAME_schema` returns them.
const SCHEMA_QUERY: &str = "
select case when n.nspname = 'public' then c.relname else n.nspname || '.' || c.relname end as name,
  case c.relkind when 'v' then 'view' when 'm' then 'view' when 'f' then 'foreign table'
    else 'table' end as kind,
  (select coalesce(json_agg(json_build_object(
      'name', a.attname, 'type', format_type(a.atttypid, a.atttypmod), 'not_null', a.attnotnull,
      'primary_key', exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary
        and a.attnum = any (i.indkey))) order by a.attnum), '[]')
    from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped)
    as columns,
  (select coalesce(json_agg(json_build_object(
      'column', a.attname, 'table', f.confrelid::regclass::text, 'target', t.attname)), '[]')
    from pg_constraint f
    cross join lateral unnest(f.conkey, f.confkey) as k(own, other)
    join pg_attribute a on a.attrelid = f.conrelid and a.attnum = k.own
    join pg_attribute t on t.attrelid = f.confrelid and t.attnum = k.other
    where f.conrelid = c.oid and f.contype = 'f') as foreign_keys
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p', 'v', 'm', 'f')
  and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname not like 'pg\\_t%'
  and has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select')
order by n.nspname, c.relname";

impl PostgresExplorer {
    /// The two tools of a database.
    ///
    /// # Errors
    ///
    /// Tables are listed.
    pub(crate) fn new(
        declaration: &DatabaseDeclaration,
        server: Arc<PostgresServer>,
        limits: CallLimits,
    ) -> Result<[Self; 2], Vec<Problem>> {
        if declaration.tables.is_some() {
            let message = "is for SQLite: PostgreSQL limits what is read by the rights of the user";
            let hint = "remove it, and connect as a user that may read these tables only: create \
                        role explorer login; grant select on items to explorer";
            return Err(vec![Problem::new("tables", message, hint)]);
        }
        let rows_max = rows_max(declaration.rows_max);
        let declared = Declared { rows_max, is_one: false, is_write: false, limits };
        let reached = on_own_runtime(async {
            let used = server.take_new().await;
            let unreachable = |error| InspectError::Unreachable(describe_connection(&error));
            used.map_err(unreachable).map(UsedClient::close)
        });
        let warning = match reached {
            Ok(()) => None,
            Err(InspectError::Unreachable(text)) => Some(format!("{}: {text}", server.address())),
            Err(InspectError::Problem(problem)) => return Err(vec![problem]),
        };
        let explored = Arc::new(Explored { server, declared, warning });
        let explorer = |kind| Self { kind, explored: Arc::clone(&explored) };
        Ok([ExploreKind::Query, ExploreKind::Schema].map(explorer))
    }

    /// What the tool does.
    pub(crate) const fn kind(&self) -> ExploreKind {
        self.kind
    }

    /// Why the server was not reachable at the start, if it was not.
    pub(crate) fn warning(&self) -> Option<String> {
        self.explored.warning.clone()
    }

    /// Runs the tool. Dropping the future cancels its statement at the server.
    pub(crate) async fn call(&self, call: Call) -> Result<Output, Failure> {
        match self.kind {
            ExploreKind::Query => {
                let text = query_text(&call, Dialect::Postgres)?;
                self.explored.run(text.text(), self.explored.declared).await
            }
            ExploreKind::Schema => {
                let declared = Declared { rows_max: TABLES_MAX, ..self.explored.declared };
                match self.explored.run(SCHEMA_QUERY, declared).await? {
                    Output::JsonText(text) => {
                        Ok(Output::JsonText(text.replacen("\"rows\"", "\"tables\"", 1)))
                    }
                    output => Ok(output),
                }
            }
        }
    }
}

/// Tables of a schema, at most.
const TABLES_MAX: usize = 10_000;

impl Explored {
    async fn run(&self, text: &str, declared: Declared) -> Result<Output, Failure> {
        let used = self.server.take_new().await;
        let used = used.map_err(|error| Failure::failed(describe_connection(&error)))?;
        let result = self.run_on(&used, text, &declared).await;
        used.close();
        result
    }

    async fn run_on(
        &self,
        used: &UsedClient,
        text: &str,
        declared: &Declared,
    ) -> Result<Output, Failure> {
        let failed = |error: Error| describe(&error, declared.limits.timeout);
        let client = used.client();
        client.batch_execute(&begin(declared)).await.map_err(failed)?;
        let query = inspect_on(used, text, 0, declared).await.map_err(|error| match error {
            InspectError::Unreachable(text) => Failure::failed(text),
            InspectError::Problem(problem) => Failure::invalid_argument(problem.message),
        })?;
        let rows = client.query(&*query.text, &[]).await.map_err(failed)?;
        query.read(&rows, declared.limits.output_bytes_max)
    }
}
