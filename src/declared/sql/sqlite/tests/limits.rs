//! Limits of rows, bytes and time; cancelled calls.

use super::*;

const ENDLESS: &str =
    "with recursive n(i) as (select 1 union all select i + 1 from n) select i from n";

#[test]
fn rows_beyond_rows_max_are_truncated() {
    let shop = Shop::new();
    let tool = shop.tool(json!({ "query": ENDLESS, "rows_max": 3 }));
    let expected = json!({ "rows": [{ "i": 1 }, { "i": 2 }, { "i": 3 }], "truncated": true });
    assert_eq!(call(&tool, json!(null)), expected);
    let tool = shop.query(ENDLESS);
    assert_eq!(call(&tool, json!(null))["rows"].as_array().unwrap().len(), 1000);
    let tool = shop.tool(json!({ "query": "select id from items", "rows_max": 2 }));
    assert_eq!(call(&tool, json!(null))["truncated"], false);
}

#[test]
fn write_with_truncated_rows_is_complete() {
    let shop = Shop::new();
    let text = "with recursive n(i) as (select 1 union all select i + 1 from n limit 50)
                insert into secrets (text) select i from n returning id";
    let tool = shop.tool(json!({ "query": text, "write": true, "rows_max": 3 }));
    let found = call(&tool, json!(null));
    assert_eq!(found["rows"].as_array().unwrap().len(), 3);
    assert_eq!(found["truncated"], true);
    let count: i64 =
        shop.connect().query_row("select count(*) from secrets", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 51);
}

#[test]
fn bytes_beyond_limit_truncate_or_fail() {
    let mut shop = Shop::new();
    shop.limits.output_bytes_max = 200;
    let tool = shop.query(ENDLESS);
    let text = tool.call_blocking(&Call::default(), || false).unwrap();
    let Output::JsonText(text) = text else { panic!("{text:?}") };
    assert!(text.len() <= 200 && text.len() > 150, "{text}");
    assert_eq!(call(&tool, json!(null))["truncated"], true);
    for query in ["select hex(zeroblob(1000000)) as x", "select zeroblob(1000000) as x"] {
        let text = failure(&shop.query(query), json!(null));
        assert!(text.contains("longer than the limit of the output"), "{text}");
    }
}

#[test]
fn endless_statement_ends_at_time_limit() {
    let mut shop = Shop::new();
    shop.limits.timeout = Duration::from_millis(50);
    for query in [
        "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) as x from n",
        "with recursive n(i) as (select 1 union all select i from n) select i from n where i = 2",
    ] {
        let tool = shop.query(query);
        let text = failure(&tool, json!(null));
        assert!(text.contains("time limit of 50ms"), "{text}");
        // The connection is of use again.
        assert!(failure(&tool, json!(null)).contains("time limit"));
    }
    let tool = shop.query("select id from items");
    assert_eq!(call(&tool, json!(null))["rows"].as_array().unwrap().len(), 2);
}

#[test]
fn endless_write_is_rolled_back_at_limit() {
    let mut shop = Shop::new();
    shop.limits.timeout = Duration::from_millis(50);
    let text = "with recursive n(i) as (select 1 union all select i + 1 from n)
                insert into secrets (text) select i from n";
    let tool = shop.tool(json!({ "query": text, "write": true }));
    assert!(failure(&tool, json!(null)).contains("time limit"));
    assert!(shop.is_unchanged());
}

#[test]
fn cancelled_call_ends_in_statement() {
    let shop = Shop::new();
    let text = "with recursive n(i) as (select 1 union all select i + 1 from n)
                select max(i) as x from n";
    let tool = shop.query(text);
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let is_cancelled = move || counter.fetch_add(1, Ordering::Relaxed) >= 3;
    let failed = tool.call_blocking(&Call::default(), is_cancelled).unwrap_err();
    assert_eq!(failed.to_string(), "the call was cancelled");
    assert_eq!(asked.load(Ordering::Relaxed), 4);
    // What the call has handed in is dropped with it.
    assert_eq!(Arc::strong_count(&asked), 1);
}

#[test]
fn dropped_future_ends_the_statement() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let shop = Shop::new();
    let text = "with recursive n(i) as (select 1 union all select i + 1 from n)
                insert into secrets (text) select i from n";
    let tool = shop.tool(json!({ "query": text, "write": true }));
    let insert = shop.tool(json!({ "query": "insert into secrets default values", "write": true }));
    runtime.block_on(async {
        let mut first = Box::pin(tool.call(Call::default()));
        tokio::select! {
            biased;
            result = &mut first => panic!("{result:?}"),
            () = tokio::task::yield_now() => {}
        }
        drop(first);
        // It waits for the lock of the statement that was cancelled.
        assert_eq!(value(insert.call(Call::default()).await), json!({ "changes": 1 }));
    });
    // Ends at once: no thread runs a statement.
    drop(runtime);
    let count: i64 =
        shop.connect().query_row("select count(*) from secrets", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 2);
}

#[test]
fn many_threads_share_connections() {
    let shop = Shop::new();
    let tool = shop.query("select name from items where id = :a");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let found = value(tool.call_blocking(&arguments(json!(1)), || false));
                    assert_eq!(found["rows"], json!([{ "name": "lamp" }]));
                }
            });
        }
    });
}
