//! Arguments that try to be part of a statement, and statements that do more than they may.

use super::*;

const ATTACKS: [&str; 9] = [
    "' or '1'='1",
    "'; drop table items; --",
    "1; delete from items",
    "\" or 1=1 --",
    "') union select id, text from secrets --",
    "1 or 1=1",
    "x' || (select text from secrets) || '",
    ":a",
    "x\u{0}' or 1=1 --",
];

#[test]
fn argument_text_is_never_sql() {
    let shop = Shop::new();
    let by_name = shop.query("select id, name from items where name = :a");
    let by_id = shop.query("select id from items where id = :a");
    let pattern = shop.query("select id from items where name like '%' || :a || '%'");
    let same = shop.tool(json!({ "query": "select :a as a", "one": true }));
    let insert = "insert into orders(count) values (:a) returning count";
    let insert = shop.tool(json!({ "query": insert, "write": true, "one": true }));
    for attack in ATTACKS {
        for tool in [&by_name, &by_id, &pattern] {
            let found = call(tool, json!(attack));
            assert_eq!(found["rows"], json!([]), "{attack}");
        }
        assert_eq!(call(&same, json!(attack)), json!({ "a": attack }));
        assert_eq!(call(&insert, json!(attack)), json!({ "count": attack }));
        for nested in [json!([attack]), json!({ attack: attack })] {
            assert_eq!(call(&same, nested.clone()), json!({ "a": nested.to_string() }));
            assert_eq!(call(&by_name, nested)["rows"], json!([]));
        }
    }
    assert!(shop.is_unchanged());
}

#[test]
fn number_and_boolean_are_bound_typed() {
    let shop = Shop::new();
    let tool = shop.tool(json!({ "query": "select typeof(:a) as t, :a as a", "one": true }));
    for (given, kind, found) in [
        (json!(1), "integer", json!(1)),
        (json!(-1.5), "real", json!(-1.5)),
        (json!(true), "integer", json!(1)),
        (json!(false), "integer", json!(0)),
        (json!(null), "null", json!(null)),
        (json!("1"), "text", json!("1")),
        (json!([1, "a"]), "text", json!("[1,\"a\"]")),
        (json!(i64::MAX), "integer", json!(i64::MAX)),
        (json!(i64::MIN), "integer", json!(i64::MIN)),
        (json!(1e300), "real", json!(1e300)),
    ] {
        assert_eq!(call(&tool, given), json!({ "t": kind, "a": found }));
    }
    let beyond = tool.call_blocking(&arguments(json!(u64::MAX)), || false);
    assert!(matches!(beyond, Err(Failure::InvalidArgument(text)) if text.contains("a is 184")));
}

#[test]
fn absent_argument_and_principal_are_bound() {
    let shop = Shop::new();
    let query = "select :a is null as absent, :principal as who";
    let tool = shop.tool(json!({ "query": query, "one": true }));
    let found = value(tool.call_blocking(&Call::default(), || false));
    assert_eq!(found, json!({ "absent": 1, "who": null }));
    let principal = Some("x' or 1=1 --".to_owned());
    let mut called = Call { principal, ..Call::default() };
    // An argument of the same name does not replace the caller.
    called.arguments.insert("principal".to_owned(), json!("root"));
    let found = value(tool.call_blocking(&called, || false));
    assert_eq!(found, json!({ "absent": 1, "who": "x' or 1=1 --" }));
}

#[test]
fn second_statement_is_refused_at_load() {
    let shop = Shop::new();
    for write in [false, true] {
        for query in ["select 1; select 2", "select 1; drop table items", "select 1;;delete from x"]
        {
            let problem = shop.problem(json!({ "query": query, "write": write }));
            assert_eq!(problem.message, "has more than one statement");
        }
    }
    assert_eq!(call(&shop.query("select 1 as a; -- end"), json!(null))["rows"][0]["a"], 1);
}

#[test]
fn placeholder_and_unknown_parameter_are_refused() {
    let shop = Shop::new();
    for query in ["select * from items where id = {a}", "select '{a}'"] {
        let problem = shop.problem(json!({ "query": query }));
        assert_eq!(problem.key, "sql.query");
        assert!(problem.message.starts_with("has the placeholder"), "{query}");
    }
    let problem = shop.problem(json!({ "query": "select :b" }));
    assert_eq!(problem.message, "has the parameter :b, but no such argument");
    for query in ["select ?", "select ?1", "select @a", "select $a", "select #a"] {
        assert_eq!(shop.problem(json!({ "query": query })).key, "sql.query", "{query}");
    }
}

/// Statements that change something, or reach out of the database.
const CHANGES: [&str; 22] = [
    "insert into items values (3, 'x', 1, null)",
    "insert into items values (3, 'x', 1, null) returning id",
    "update items set name = 'x'",
    "delete from items",
    "replace into items values (1, 'x', 1, null)",
    "with x as (select 3 as id) insert into items select id, 'x', 1, null from x returning id",
    "create table x (a)",
    "create temp table x (a)",
    "create table x as select * from items",
    "create view x as select 1",
    "create temp view x as select 1",
    "create index x on items(name)",
    "create virtual table x using fts5(a)",
    "drop table items",
    "alter table items add column x",
    "analyze",
    "vacuum",
    "vacuum into 'copy.db'",
    "pragma query_only = 0",
    "pragma user_version = 7",
    "begin immediate",
    "savepoint x",
];

#[test]
fn change_without_write_is_refused_at_load() {
    let shop = Shop::new();
    let trigger = "create trigger x after insert on items begin delete from items; end";
    let other = [
        "reindex",
        trigger,
        "attach 'other.db' as o",
        "attach ':memory:' as o",
        "detach main",
        "commit",
    ];
    for query in CHANGES.into_iter().chain(other) {
        let problem = shop.problem(json!({ "query": query }));
        assert_eq!(problem.key, "sql.query", "{query}: {problem}");
    }
    let problem = shop.problem(json!({ "query": "delete from items" }));
    assert_eq!(problem.message, "may not delete from items");
    assert_eq!(problem.hint, "set write = true if it may change the database");
    assert!(shop.is_unchanged());
    assert!(!shop.folder.path().join("other.db").exists());
    assert!(!shop.folder.path().join("copy.db").exists());
}

#[test]
fn change_without_write_is_refused_at_call() {
    let shop = Shop::new();
    // The file is not there when the tools are made.
    let (path, aside) = (shop.path(), shop.folder.path().join("aside.db"));
    std::fs::rename(&path, &aside).unwrap();
    let tools = CHANGES.map(|query| shop.query(query));
    std::fs::rename(&aside, &path).unwrap();
    for (tool, query) in tools.iter().zip(CHANGES) {
        let text = failure(tool, json!(1));
        let is_clear = text.contains("may not") || text.contains("read-only");
        assert!(is_clear || query == "vacuum", "{query}: {text}");
    }
    assert!(shop.is_unchanged());
    assert!(!shop.folder.path().join("copy.db").exists());
}

#[test]
fn write_tool_changes_rows_only() {
    let shop = Shop::new();
    let write = |query: &str| json!({ "query": query, "write": true });
    let tool = shop.tool(write("update items set price = price + :a"));
    assert_eq!(call(&tool, json!(1)), json!({ "changes": 2 }));
    let tool = shop.tool(write("delete from items where id = :a returning id, name"));
    let deleted = json!({ "rows": [{ "id": 1, "name": "lamp" }], "truncated": false });
    assert_eq!(call(&tool, json!(1)), deleted);
    assert_eq!(call(&tool, json!(1)), json!({ "rows": [], "truncated": false }));
    let tool = shop.tool(write("insert into items (id, name) values (:a, 'x')"));
    assert!(failure(&tool, json!(2)).contains("UNIQUE constraint failed: items.id"));
    for query in ["attach 'o.db' as o", "pragma journal_mode = wal", "begin", "commit"] {
        assert_eq!(shop.problem(write(query)).key, "sql.query", "{query}");
    }
    assert!(!shop.folder.path().join("o.db").exists());
}

#[test]
fn database_declared_read_only_refuses_write() {
    let shop = Shop::new();
    let mut databases = shop.databases();
    let declaration = json!({ "name": "shop", "url": "sqlite:shop.db" });
    databases.declare(&serde_json::from_value(declaration).unwrap()).unwrap();
    let sql = json!({ "database": "shop", "query": "delete from items", "write": true });
    let context = SqlContext {
        arguments: &Arguments::default(),
        limits: shop.limits,
        databases: &mut databases,
    };
    let problems = SqlTool::new(&serde_json::from_value(sql).unwrap(), context).unwrap_err();
    assert_eq!(problems[0].key, "sql.write");
}
