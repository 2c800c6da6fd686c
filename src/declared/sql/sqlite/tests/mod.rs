//! Tests with real files.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use corelane_engine::clock::Clock;
use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::declared::arguments::Arguments;
use crate::declared::call::{Call, Failure, Output};
use crate::declared::limits::CallLimits;
use crate::declared::problem::Problem;
use crate::declared::sql::sqlite::tool::SqliteTool;
use crate::declared::sql::{
    DatabaseDeclaration, Databases, ExploreTool, SqlContext, SqlDeclaration, SqlTool,
};

mod exploration;
mod faults;
mod injection;
mod limits;
mod results;

/// A folder with the database `shop.db`.
struct Shop {
    folder: TempDir,
    limits: CallLimits,
}

const TABLES: &str = "
    create table items (id integer primary key, name text not null, price real, image blob);
    insert into items values (1, 'lamp', 9.5, x'00ff'), (2, 'ch''air', 20, null);
    create table secrets (id integer primary key, text text);
    insert into secrets values (1, 'top');
    create table orders (id integer primary key, item integer references items(id), count int);
    create view names as select id, name from items;
";

impl Shop {
    fn new() -> Self {
        let limits = CallLimits { timeout: Duration::from_mins(1), output_bytes_max: 1 << 20 };
        let shop = Self { folder: tempfile::tempdir().unwrap(), limits };
        shop.connect().execute_batch(TABLES).unwrap();
        shop
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("shop.db")
    }

    /// A connection of another program.
    fn connect(&self) -> Connection {
        Connection::open(self.path()).unwrap()
    }

    fn databases(&self) -> Databases {
        Databases::new(self.folder.path(), Clock::start())
    }

    fn try_tool(&self, sql: Value, arguments: Value) -> Result<SqliteTool, Vec<Problem>> {
        let mut sql = sql;
        if sql.get("database").is_none() {
            sql["database"] = json!("sqlite:shop.db");
        }
        let declaration: SqlDeclaration = serde_json::from_value(sql).unwrap();
        let Value::Object(tables) = arguments else { panic!("no object") };
        let arguments = Arguments::from_tables(&tables).unwrap();
        let databases = &mut self.databases();
        let context = SqlContext { arguments: &arguments, limits: self.limits, databases };
        SqlTool::new(&declaration, context).map(|tool| match tool {
            SqlTool::Sqlite(tool) => tool,
            #[cfg(feature = "postgres")]
            SqlTool::Postgres(_) => panic!("not SQLite"),
        })
    }

    /// A tool with the argument `a` of any type.
    fn tool(&self, sql: Value) -> SqliteTool {
        self.try_tool(sql, json!({ "a": {} })).unwrap()
    }

    fn query(&self, query: &str) -> SqliteTool {
        self.tool(json!({ "query": query }))
    }

    fn problem(&self, sql: Value) -> Problem {
        self.try_tool(sql, json!({ "a": {} })).unwrap_err().remove(0)
    }

    fn explore(&self, database: Value) -> Result<[ExploreTool; 2], Vec<Problem>> {
        let mut database = database;
        database["name"] = json!("shop");
        database["url"] = json!("sqlite:shop.db");
        let declaration: DatabaseDeclaration = serde_json::from_value(database).unwrap();
        let mut databases = self.databases();
        databases.declare(&declaration).unwrap();
        ExploreTool::new(&declaration, &mut databases, self.limits)
    }

    /// Whether the tables are as [`TABLES`] made them.
    fn is_unchanged(&self) -> bool {
        let count =
            |query: &str| self.connect().query_row(query, [], |row| row.get::<_, i64>(0)).unwrap();
        count("select count(*) from items") == 2
            && count("select count(*) from secrets") == 1
            && count("select count(*) from sqlite_schema") == 4
            && count("select sum(price) = 29.5 and min(name) = 'ch''air' from items") == 1
    }
}

fn arguments(a: Value) -> Call {
    let arguments = [("a".to_owned(), a)].into_iter().collect();
    Call { arguments, ..Call::default() }
}

fn value(output: Result<Output, Failure>) -> Value {
    match output.unwrap() {
        Output::JsonText(text) => serde_json::from_str(&text).unwrap(),
        output => panic!("{output:?}"),
    }
}

/// Calls `tool`; the result must be valid by its schema.
fn call(tool: &SqliteTool, a: Value) -> Value {
    let result = value(tool.call_blocking(&arguments(a), || false));
    let errors: Vec<_> = jsonschema::validator_for(tool.output_schema())
        .unwrap()
        .iter_errors(&result)
        .map(|error| error.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
    result
}

fn failure(tool: &SqliteTool, a: Value) -> String {
    tool.call_blocking(&arguments(a), || false).unwrap_err().to_string()
}
