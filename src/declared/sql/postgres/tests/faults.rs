//! Servers that are locked, gone or back again; calls that are dropped.

use super::*;

#[test]
#[ignore = "needs PostgreSQL"]
fn dropped_call_is_cancelled_at_server() {
    let server = TestServer::start();
    let endless = "select max(i) as x
        from (select 1 as one, pg_advisory_xact_lock(7)::text as lock offset 0) as l,
        lateral (select generate_series(one, 1e15) as i, lock) as s";
    let tool = server.query(endless);
    let other = server.connect();
    server.runtime.block_on(async {
        let mut call = Box::pin(tool.call(Call::default()));
        let locks = "select count(*) from pg_locks where locktype = 'advisory'";
        let started =
            async { while other.query_one(locks, &[]).await.unwrap().get::<_, i64>(0) == 0 {} };
        tokio::select! {
            result = &mut call => panic!("{result:?}"),
            () = started => {}
        }
        drop(call);
        // Waits until the statement ends.
        other.query_one("select pg_advisory_lock(7)::text", &[]).await.unwrap();
    });
}

#[test]
#[ignore = "needs PostgreSQL"]
fn locked_table_fails_with_clear_sentence() {
    let mut server = TestServer::start();
    let unhurried = server.query("select id from items");
    server.limits.timeout = Duration::from_secs(2);
    let tool = server.query("select id from items");
    let other = server.connect();
    let lock = "begin; lock table items in access exclusive mode";
    server.runtime.block_on(other.batch_execute(lock)).unwrap();
    let expected = "the database is locked by another program: try again later";
    assert_eq!(server.failure(&tool, json!(null)), expected);
    server.runtime.block_on(other.batch_execute("commit")).unwrap();
    assert_eq!(server.call(&unhurried, json!(null))["rows"].as_array().unwrap().len(), 2);
}

#[test]
#[ignore = "needs PostgreSQL"]
fn server_that_is_gone_and_back_is_used() {
    let mut server = TestServer::start();
    let tool = server.query("select id from items where id = :a");
    let write = server.tool(json!({ "query": "delete from orders", "write": true }));
    server.call(&tool, json!(1));
    server.call(&write, json!(1));
    server.stop();
    let text = server.failure(&tool, json!(1));
    assert!(text.starts_with("the database cannot be reached"), "{text}");
    server.run();
    assert_eq!(server.call(&tool, json!(1))["rows"], json!([{ "id": 1 }]));
    server.call(&write, json!(1));
}

#[test]
#[ignore = "needs PostgreSQL"]
fn server_that_comes_later_is_warned_of() {
    let mut server = TestServer::new();
    let sql = json!({ "query": "select :a::int as x", "one": true });
    let tool = server.tool(sql);
    let warning = tool.warning().unwrap();
    assert!(warning.contains("cannot be reached") && !warning.contains("hunter2"), "{warning}");
    assert!(server.failure(&tool, json!(1)).starts_with("the database cannot be reached"));
    let wrong = server.query("select nam from items");
    let [query, _] = server.explore("postgres", json!({})).unwrap();
    assert!(query.warning().unwrap().contains("cannot be reached"));
    server.run();
    assert_eq!(server.call(&tool, json!(1)), json!({ "x": 1 }));
    assert_eq!(server.failure(&wrong, json!(1)), "relation \"items\" does not exist");
}

#[test]
fn wrong_url_is_refused_without_password() {
    for url in ["postgres://user:hunter2@/name", "postgres://user:hunter2@host/?nope=1"] {
        let sql = json!({ "database": url, "query": "select 1 as a" });
        let declaration: SqlDeclaration = serde_json::from_value(sql).unwrap();
        let context = SqlContext {
            arguments: &Arguments::default(),
            limits: CallLimits::default(),
            databases: &mut Databases::new(Path::new("/"), Clock::start()),
        };
        let problems = SqlTool::new(&declaration, context).unwrap_err();
        assert_eq!(problems[0].key, "sql.database");
        assert!(!problems[0].to_string().contains("hunter2"));
    }
}
