//! Databases that are locked, gone, replaced or damaged; statements that do not prepare.

use super::*;

#[test]
fn locked_database_fails_with_clear_sentence() {
    let mut shop = Shop::new();
    shop.limits.timeout = Duration::from_millis(150);
    let tool = shop.query("select id from items");
    let write = shop.tool(json!({ "query": "delete from orders", "write": true }));
    let other = shop.connect();
    other.execute_batch("begin exclusive").unwrap();
    let expected = "the database is locked by another program: try again later";
    assert_eq!(failure(&tool, json!(null)), expected);
    assert_eq!(failure(&write, json!(null)), expected);
    let cancelled = tool.call_blocking(&Call::default(), || true).unwrap_err();
    assert_eq!(cancelled.to_string(), "the call was cancelled");
    other.execute_batch("commit").unwrap();
    assert_eq!(call(&tool, json!(null))["rows"].as_array().unwrap().len(), 2);
    assert_eq!(call(&write, json!(null)), json!({ "changes": 0 }));
}

#[test]
fn call_waits_until_lock_is_released() {
    let shop = Shop::new();
    let tool = shop.query("select id from items");
    let other = shop.connect();
    other.execute_batch("begin exclusive").unwrap();
    // Each question is one turn of waiting for the lock.
    let (sender, receiver) = std::sync::mpsc::channel();
    let release = move || {
        receiver.recv().unwrap();
        other.execute_batch("commit").unwrap();
    };
    std::thread::scope(|scope| {
        scope.spawn(release);
        let is_cancelled = move || {
            sender.send(()).ok();
            false
        };
        let found = value(tool.call_blocking(&Call::default(), is_cancelled));
        assert_eq!(found["rows"].as_array().unwrap().len(), 2);
    });
}

#[test]
fn missing_file_is_warned_and_never_created() {
    let shop = Shop::new();
    let database = "sqlite:other.db";
    for write in [false, true] {
        let sql = json!({ "database": database, "query": "select 1 as x", "write": write });
        let tool = shop.tool(sql);
        assert!(tool.warning().unwrap().ends_with("the file of the database does not exist"));
        assert_eq!(failure(&tool, json!(null)), "the file of the database does not exist");
    }
    assert!(!shop.folder.path().join("other.db").exists());
    // The file comes later.
    let sql = json!({ "database": database, "query": "select id from items where id = :a" });
    let tool = shop.tool(sql);
    std::fs::copy(shop.path(), shop.folder.path().join("other.db")).unwrap();
    assert_eq!(call(&tool, json!(1))["rows"], json!([{ "id": 1 }]));
}

#[test]
fn removed_or_replaced_file_is_not_read() {
    let shop = Shop::new();
    let tool = shop.query("select name from items where id = 1");
    assert_eq!(call(&tool, json!(null))["rows"][0]["name"], "lamp");
    let new = shop.folder.path().join("new.db");
    std::fs::copy(shop.path(), &new).unwrap();
    Connection::open(&new).unwrap().execute("update items set name = 'new'", []).unwrap();
    std::fs::remove_file(shop.path()).unwrap();
    assert_eq!(failure(&tool, json!(null)), "the file of the database does not exist");
    std::fs::rename(&new, shop.path()).unwrap();
    assert_eq!(call(&tool, json!(null))["rows"][0]["name"], "new");
}

#[test]
fn damaged_file_is_refused_at_load() {
    let shop = Shop::new();
    std::fs::write(shop.folder.path().join("text.db"), "no database\n".repeat(1000)).unwrap();
    let sql = json!({ "database": "sqlite:text.db", "query": "select * from items" });
    let problem = shop.problem(sql);
    assert_eq!(problem.key, "sql.database");
    assert!(problem.message.ends_with("the file is no SQLite database"), "{problem}");
}

#[test]
fn file_damaged_while_running_fails_clearly() {
    let shop = Shop::new();
    let tool = shop.query("select * from items");
    call(&tool, json!(null));
    let length = std::fs::metadata(shop.path()).unwrap().len();
    std::fs::write(shop.path(), vec![0xaa; usize::try_from(length).unwrap()]).unwrap();
    let text = failure(&tool, json!(null));
    let is_clear = text == "the database is damaged" || text == "the file is no SQLite database";
    assert!(is_clear, "{text}");
}

#[test]
fn statement_that_does_not_prepare_is_named() {
    let shop = Shop::new();
    for (query, message) in [
        ("select nam from items", "no such column: nam"),
        ("select * from item", "no such table: item"),
        ("selec 1", "near \"selec\": syntax error"),
        ("select f(1)", "no such function: f"),
    ] {
        let problem = shop.problem(json!({ "query": query }));
        assert_eq!((problem.key.as_str(), problem.message.as_str()), ("sql.query", message));
    }
}

#[test]
fn table_dropped_while_running_fails_clearly() {
    let shop = Shop::new();
    let tool = shop.query("select count from orders");
    call(&tool, json!(null));
    shop.connect().execute_batch("drop table orders").unwrap();
    assert_eq!(failure(&tool, json!(null)), "no such table: orders");
}

#[test]
fn wal_database_is_read_and_written() {
    let shop = Shop::new();
    shop.connect().pragma_update(None, "journal_mode", "wal").unwrap();
    let tool = shop.query("select count(*) as n from orders");
    let write = shop.tool(json!({ "query": "insert into orders default values", "write": true }));
    for count in 0..3 {
        assert_eq!(call(&tool, json!(null))["rows"][0]["n"], count);
        assert_eq!(call(&write, json!(null)), json!({ "changes": 1 }));
    }
}
