//! The tools `NAME_query` and `NAME_schema`.

use super::*;

fn run(server: &TestServer, tool: &ExploreTool, query: &str) -> Result<Value, String> {
    let mut call = Call::default();
    call.arguments.insert("query".to_owned(), json!(query));
    let output = server.runtime.block_on(tool.call(call)).map_err(|failure| failure.to_string())?;
    let result = value(Ok(output));
    assert!(jsonschema::is_valid(&tool.output_schema(), &result), "{result}");
    Ok(result["rows"].clone())
}

#[test]
#[ignore = "needs PostgreSQL"]
fn schema_lists_what_the_user_may_read() {
    let server = TestServer::start();
    let [_, schema] = server.explore("postgres", json!({})).unwrap();
    let found = value(server.runtime.block_on(schema.call(Call::default())));
    assert!(jsonschema::is_valid(&schema.output_schema(), &found), "{found}");
    let tables = found["tables"].as_array().unwrap();
    let names: Vec<_> = tables.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["items", "orders", "secrets"]);
    let id = json!({ "name": "id", "type": "integer", "not_null": true, "primary_key": true });
    assert_eq!(tables[0]["columns"][0], id);
    let key = json!([{ "column": "item", "table": "items", "target": "id" }]);
    assert_eq!(tables[1]["foreign_keys"], key);
    let [_, schema] = server.explore("reader", json!({})).unwrap();
    let found = value(server.runtime.block_on(schema.call(Call::default())));
    assert_eq!(found["tables"].as_array().unwrap().len(), 1);
}

#[test]
#[ignore = "needs PostgreSQL"]
fn query_runs_one_select_statement() {
    let mut server = TestServer::start();
    let [query, _] = server.explore("postgres", json!({ "rows_max": 2 })).unwrap();
    let query = |text: &str| run(&server, &query, text);
    assert_eq!(query("select max(id) as m from items;"), Ok(json!([{ "m": 2 }])));
    assert_eq!(query("values (1), (2), (3)").unwrap().as_array().unwrap().len(), 2);
    assert_eq!(query("with x as (select 1 as a) select a from x -- end"), Ok(json!([{ "a": 1 }])));
    for (wrong, part) in [
        ("", "no statement"),
        ("select 1; select 2", "more than one statement"),
        ("select :a", "has parameters"),
        ("select $1", "has the parameter"),
        ("delete from items", "not a SELECT"),
        ("explain select 1", "not a SELECT"),
        ("with x as (delete from items returning id) select id from x", "no SELECT statement"),
        ("with x as (select 1) delete from items", "no result"),
        ("select 1 as a) as x, (select 2 as b", "syntax error"),
        ("select 1 as a into x", "no result"),
        ("select spoil()", "may not change the database"),
        ("select id, id from items", "two columns have the name"),
        ("select nam from items", "column \"nam\" does not exist"),
    ] {
        let text = query(wrong).unwrap_err();
        assert!(text.contains(part), "{wrong}: {text}");
    }
    // What a statement leaves in its session ends with it.
    query("select pg_advisory_lock(9)::text as l").unwrap();
    query("select set_config('default_transaction_read_only', 'off', false) as a").unwrap();
    query("select pg_advisory_lock(9)::text as l").unwrap();
    assert!(server.is_unchanged());
    server.limits.timeout = Duration::from_millis(100);
    let [query, _] = server.explore("postgres", json!({})).unwrap();
    let endless = "select max(i) as x from (select generate_series(1, 1e12) as i) as s";
    assert!(run(&server, &query, endless).unwrap_err().contains("time limit"));
}

#[test]
#[ignore = "needs PostgreSQL"]
fn rights_of_user_limit_what_is_read() {
    let server = TestServer::start();
    let problems = server.explore("reader", json!({ "tables": ["items"] })).unwrap_err();
    assert_eq!(problems[0].key, "tables");
    let [query, _] = server.explore("reader", json!({})).unwrap();
    assert_eq!(run(&server, &query, "select count(*) as n from items"), Ok(json!([{ "n": 2 }])));
    let text = run(&server, &query, "select * from secrets").unwrap_err();
    assert_eq!(text, "permission denied for table secrets");
}
