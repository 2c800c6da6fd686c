//! Tests with a server: Debian's PostgreSQL, on a Unix socket in a temporary folder.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use corelane_engine::clock::Clock;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};

use crate::declared::arguments::Arguments;
use crate::declared::call::{Call, Failure, Output};
use crate::declared::limits::CallLimits;
use crate::declared::problem::Problem;
use crate::declared::sql::postgres::tool::PostgresTool;
use crate::declared::sql::{
    DatabaseDeclaration, Databases, ExploreTool, SqlContext, SqlDeclaration, SqlTool,
};

mod encryption;
mod exploration;
mod faults;
mod statements;

/// A server with the tables of [`TABLES`].
struct TestServer {
    folder: TempDir,
    postmaster: Option<Child>,
    runtime: Runtime,
    limits: CallLimits,
}

const TABLES: &str = "
    create table items (id int primary key, name text not null, price numeric(10, 2), image bytea);
    insert into items values (1, 'lamp', 9.50, '\\x00ff'), (2, 'ch''air', 20, null);
    create table secrets (id int primary key, text text);
    insert into secrets values (1, 'top');
    create table orders (id bigserial primary key, item int references items(id), count int);
    create function spoil() returns int language sql volatile as
        'delete from items; select 1';
    create role reader login; grant select on items to reader;
";

/// User that the server runs as: PostgreSQL refuses root.
fn server_user() -> Option<u32> {
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let line = users.lines().find(|line| line.starts_with("postgres:"))?;
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|it| {
        use std::os::unix::fs::MetadataExt as _;
        it.uid() == 0
    });
    is_root.then(|| line.split(':').nth(2).unwrap().parse().unwrap())
}

fn binaries() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL is installed");
    versions.map(|it| it.unwrap().path().join("bin")).max().expect("a version")
}

fn command(program: &str) -> Command {
    let mut command = Command::new(binaries().join(program));
    if let Some(user) = server_user() {
        command.uid(user);
    }
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

impl TestServer {
    /// A server that runs.
    fn start() -> Self {
        let mut server = Self::new();
        server.run();
        let client = server.connect();
        server.runtime.block_on(client.batch_execute(TABLES)).unwrap();
        server
    }

    /// A server that does not run yet.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        chown(folder.path(), server_user(), None).unwrap();
        let mut initdb = command("initdb");
        initdb.args(["--auth=trust", "--no-sync", "--username=postgres", "--encoding=UTF8"]);
        let status = initdb.arg("-D").arg(folder.path().join("data")).status().unwrap();
        assert!(status.success());
        let limits = CallLimits { timeout: Duration::from_mins(1), output_bytes_max: 1 << 20 };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        Self { folder, postmaster: None, runtime, limits }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn run(&mut self) {
        self.run_with(&[]);
    }

    fn run_with(&mut self, options: &[&str]) {
        let mut postgres = command("postgres");
        postgres.arg("-D").arg(self.data()).arg("-k").arg(self.folder.path());
        postgres.args(["-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=30"]);
        // The last value of an option holds.
        postgres.args(options);
        let mut postmaster = postgres.stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(postmaster.stderr.take().unwrap());
        let mut lines = lines.lines().map(Result::unwrap);
        let ready = lines.find(|line| line.contains("ready to accept connections"));
        assert!(ready.is_some());
        // The log is read until the server ends.
        std::thread::spawn(move || lines.count());
        self.postmaster = Some(postmaster);
    }

    fn stop(&mut self) {
        if let Some(mut postmaster) = self.postmaster.take() {
            let mut stop = command("pg_ctl");
            stop.args(["stop", "-m", "immediate", "-D"]).arg(self.data());
            assert!(stop.status().unwrap().success());
            postmaster.wait().unwrap();
        }
    }

    fn url(&self, user: &str) -> String {
        let folder = self.folder.path().to_str().unwrap().replace('/', "%2F");
        format!("postgres://{user}:hunter2@{folder}/postgres")
    }

    /// A connection of another program.
    fn connect(&self) -> Client {
        let url = self.url("postgres");
        self.runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
            tokio::spawn(connection);
            client
        })
    }

    fn number(&self, query: &str) -> i64 {
        let client = self.connect();
        self.runtime.block_on(client.query_one(query, &[])).unwrap().get(0)
    }

    fn try_tool(&self, sql: Value) -> Result<PostgresTool, Vec<Problem>> {
        self.try_tool_at(&self.url("postgres"), sql)
    }

    fn try_tool_at(&self, url: &str, mut sql: Value) -> Result<PostgresTool, Vec<Problem>> {
        sql["database"] = json!(url);
        let declaration: SqlDeclaration = serde_json::from_value(sql).unwrap();
        assert!(!format!("{declaration:?}").contains("hunter2"));
        let Value::Object(tables) = json!({ "a": {} }) else { panic!("no object") };
        let arguments = Arguments::from_tables(&tables).unwrap();
        let databases = &mut Databases::new(self.folder.path(), Clock::start());
        let context = SqlContext { arguments: &arguments, limits: self.limits, databases };
        SqlTool::new(&declaration, context).map(|tool| match tool {
            SqlTool::Postgres(tool) => tool,
            SqlTool::Sqlite(_) => panic!("not PostgreSQL"),
        })
    }

    fn tool(&self, sql: Value) -> PostgresTool {
        let tool = self.try_tool(sql).unwrap();
        assert!(!format!("{tool:?}").contains("hunter2"));
        tool
    }

    fn query(&self, query: &str) -> PostgresTool {
        self.tool(json!({ "query": query }))
    }

    fn problem(&self, sql: Value) -> Problem {
        let problem = self.try_tool(sql).unwrap_err().remove(0);
        assert!(!problem.to_string().contains("hunter2"));
        problem
    }

    fn explore(&self, user: &str, database: Value) -> Result<[ExploreTool; 2], Vec<Problem>> {
        let mut database = database;
        database["name"] = json!("shop");
        database["url"] = json!(self.url(user));
        let declaration: DatabaseDeclaration = serde_json::from_value(database).unwrap();
        let mut databases = Databases::new(Path::new("/"), Clock::start());
        databases.declare(&declaration).unwrap();
        ExploreTool::new(&declaration, &mut databases, self.limits)
    }

    /// Calls `tool`; the result must be valid by its schema.
    fn call(&self, tool: &PostgresTool, a: Value) -> Value {
        let result = value(self.runtime.block_on(tool.call(arguments(a))));
        let errors: Vec<_> = jsonschema::validator_for(tool.output_schema())
            .unwrap()
            .iter_errors(&result)
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{errors:?}");
        result
    }

    fn failure(&self, tool: &PostgresTool, a: Value) -> String {
        let failure = self.runtime.block_on(tool.call(arguments(a))).unwrap_err().to_string();
        assert!(!failure.contains("hunter2"));
        failure
    }

    /// Whether the tables are as [`TABLES`] made them.
    fn is_unchanged(&self) -> bool {
        self.number("select count(*) from items where name in ('lamp', 'ch''air')") == 2
            && self.number("select count(*) from secrets") == 1
            && self.number("select count(*) from orders") == 0
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop();
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
