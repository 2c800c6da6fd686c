//! Statements of databases that are locked, gone or attacked.

use std::fs;

use corelane_test_support::messages::{call, modern};
use rusqlite::Connection;
use serde_json::{Value, json};

use super::folder::{DeclaredServer, Folder};

const TOOLS: &str = "
[[database]]
name = \"shop\"
url = \"sqlite:shop.db\"
tables = [\"items\"]
write = true

[[tool]]
name = \"find\"
sql = { database = \"shop\", query = \"select id, name from items where name = :name or id = :id\" }
arguments.name = { required = false }
arguments.id = { required = false }

[[tool]]
name = \"same\"
sql = { database = \"shop\", query = \"select :name as value\", one = true }
arguments.name = {}

[[tool]]
name = \"add\"
sql = { database = \"shop\", query = \"insert into items(name) values (:name)\", write = true }
arguments.name = { type = \"string\" }

[[tool]]
name = \"all\"
sql = { database = \"shop\", query = \"select name from items\", rows_max = 2 }

[[tool]]
name = \"endless\"
sql.database = \"shop\"
sql.query = '''
with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n'''
limits.timeout = \"300ms\"
";

const TABLES: &str = "
create table items (id integer primary key, name text);
insert into items values (1, 'lamp'), (2, 'chair');
create table secrets (text text);
insert into secrets values ('top');
";

fn folder(declarations: &str) -> Folder {
    let folder = Folder::new(declarations);
    connect(&folder).execute_batch(TABLES).expect("tables are made");
    folder
}

/// A connection of another program.
fn connect(folder: &Folder) -> Connection {
    Connection::open(folder.path("shop.db")).expect("database is opened")
}

fn server() -> DeclaredServer {
    DeclaredServer::start(folder(TOOLS), &[])
}

fn rows(response: &Value) -> &Value {
    assert_ne!(response["result"]["isError"], true, "{response}");
    &response["result"]["structuredContent"]["rows"]
}

#[test]
fn locked_database_fails_and_recovers() {
    let server = server();
    let mut client = server.connect();
    let other = connect(&server.folder);
    other.execute_batch("begin exclusive").expect("lock is taken");
    // Both wait for the lock, as long as a call does.
    for (id, tool, arguments) in [(1, "add", json!({"name": "x"})), (2, "find", json!({"id": 1}))] {
        client.peer.send(modern(call(id, tool, arguments)));
    }
    for _ in 1..=2 {
        let response = client.receive(Some("tools/call"));
        let text = &response["result"]["content"][0]["text"];
        let expected = "the database is locked by another program: try again later";
        assert_eq!((text, &response["result"]["isError"]), (&json!(expected), &json!(true)));
    }
    let mut client = server.connect();
    other.execute_batch("commit").expect("lock is released");
    assert_eq!(
        rows(&client.response("find", json!({"id": 1}))),
        &json!([{"id": 1, "name": "lamp"}])
    );
    client.response("add", json!({"name": "x"}));
    assert_eq!(rows(&client.response("find", json!({"name": "x"})))[0]["id"], 3);
}

#[test]
fn missing_database_fails_and_returns() {
    let mut server = server();
    let mut client = server.connect();
    let away = server.folder.path("away.db");
    fs::rename(server.folder.path("shop.db"), &away).expect("database is moved");
    client.expect_failure("find", json!({"id": 1}), "the file of the database does not exist");
    client.expect_failure("shop_schema", json!({}), "the file of the database does not exist");
    fs::rename(away, server.folder.path("shop.db")).expect("database is moved back");
    assert_eq!(rows(&client.response("find", json!({"id": 2})))[0]["name"], "chair");
    // A database that is missing at the start is a warning.
    let missing = TOOLS.replace("shop.db", "none.db").replace("tables = [\"items\"]", "");
    server = DeclaredServer::new(&missing);
    let expected = "the file of the database does not exist";
    server.connect().expect_failure("find", json!({"id": 1}), expected);
    assert!(!server.folder.path("none.db").exists());
    let log = server.end();
    assert!(log.contains(expected), "{log}");
}

#[test]
fn injection_is_a_value_of_every_type() {
    let server = server();
    let mut client = server.connect();
    let texts = [
        "' or '1'='1",
        "'; drop table items; --",
        "\") union select text, text from secrets --",
        "1; delete from items",
        "x\u{0}' or 1=1 --",
    ];
    for text in texts {
        for value in [json!(text), json!([text]), json!({ text: text }), json!({ "a": [text] })] {
            let found = client.response("find", json!({"name": value, "id": value}));
            assert_eq!(rows(&found), &json!([]), "{value}");
            let same = client.response("same", json!({ "name": value }));
            let expected = if value.is_string() { value } else { json!(value.to_string()) };
            assert_eq!(same["result"]["structuredContent"]["value"], expected, "{same}");
        }
    }
    for value in [json!(-1), json!(1e300), json!(true), json!(null), json!([]), json!({})] {
        client.response("find", json!({"name": value}));
    }
    client.response("add", json!({"name": "'); drop table items; --"}));
    let count = "select count(*) from items";
    let count = connect(&server.folder).query_row(count, [], |row| row.get::<_, i64>(0));
    assert_eq!(count, Ok(3));
}

#[test]
fn explored_database_is_read_only_and_bounded() {
    let server = server();
    let mut client = server.connect();
    let query = |query: &str| json!({ "query": query });
    let found = client.response("shop_query", query("select name from items where id = 1"));
    assert_eq!(rows(&found), &json!([{"name": "lamp"}]));
    for refused in [
        "select text from secrets",
        "select (select text from secrets) from items",
        "delete from items",
        "select 1; delete from items",
        "drop table items",
        "attach database 'other.db' as other",
        "pragma writable_schema = 1",
        "select load_extension('x')",
        "insert into items(name) values ('x')",
        "begin exclusive",
        "not a statement",
    ] {
        let text = client.failure("shop_query", query(refused));
        assert!(!text.contains("top"), "{refused}: {text}");
    }
    let schema = client.response("shop_schema", json!({})).to_string();
    assert!(schema.contains("items") && !schema.contains("secrets"), "{schema}");
    assert_eq!(rows(&client.response("all", json!({}))).as_array().map(Vec::len), Some(2));
}

#[test]
fn endless_statement_ends_at_its_timeout() {
    let server = server();
    let mut client = server.connect();
    let text = client.failure("endless", json!({}));
    assert!(text.contains("300ms") || text.contains("300 ms"), "{text}");
    assert_eq!(rows(&client.response("find", json!({"id": 2})))[0]["name"], "chair");
}

#[test]
fn check_refuses_wrong_statements() {
    for (sql, expected) in [
        ("query = \"select 1; select 2\"", "has more than one statement"),
        ("query = \"select name from absent\"", "no such table: absent"),
        ("query = \"select '{name}'\"", "has the placeholder"),
        ("query = \"select :other\"", "has the parameter :other, but no such argument"),
        ("query = \"delete from items\"", "write"),
        ("query = \"selekt 1\"", "syntax error"),
    ] {
        let folder = folder(&format!(
            "[[tool]]\nname = \"wrong\"\nsql = {{ database = \"sqlite:shop.db\", {sql} }}\n\
             arguments.name = {{}}\n"
        ));
        let faults = folder.faults();
        let place = "corelane.toml:3:";
        assert!(faults.contains(place) && faults.contains("tool wrong: sql.query"), "{faults}");
        assert!(faults.contains(expected), "{sql}: {faults}");
    }
}
