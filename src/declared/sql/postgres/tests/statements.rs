//! Arguments, results and limits of declared statements.

use super::*;

#[test]
#[ignore = "needs PostgreSQL"]
fn columns_keep_order_and_types() {
    let server = TestServer::start();
    let query = "select name, id, image, price, 9007199254740993::int8 as big, true as yes,
        'NaN'::float8 as nan, 1.5::float4 as f, '2026-01-02'::date as day, null::text as no,
        array[1, 2] as list, '{\"a\": [1]}'::jsonb as j, '{\"b\":  2}'::json as k,
        E'a\\n\"b' as \"q\"\"uote\", '0b2ad2f4-64a2-4a3c-9d5a-f7f0a1a6f0a1'::uuid as u
        from items order by id";
    let tool = server.query(query);
    let text = server.runtime.block_on(tool.call(Call::default())).unwrap();
    let Output::JsonText(text) = text else { panic!("{text:?}") };
    let start = "{\"rows\":[{\"name\":\"lamp\",\"id\":1,\"image\":\"AP8=\",\"price\":9.50,\
                 \"big\":9007199254740993,\"yes\":true,\"nan\":\"NaN\",\"f\":1.5,";
    assert!(text.starts_with(start), "{text}");
    let row = &server.call(&tool, json!(null))["rows"][1];
    assert_eq!(row["image"], json!(null));
    assert_eq!(row["day"], "2026-01-02");
    assert_eq!(
        (&row["list"], &row["j"], &row["k"]),
        (&json!([1, 2]), &json!({ "a": [1] }), &json!({ "b": 2 }))
    );
    assert_eq!(row["q\"uote"], "a\n\"b");
    let properties = &tool.output_schema()["properties"]["rows"]["items"]["properties"];
    assert_eq!(properties["id"], json!({ "type": ["integer", "null"], "description": "int4" }));
    assert_eq!(properties["image"]["contentEncoding"], "base64");
    let large = server.query("select decode(repeat('00', 200), 'hex') as b");
    let found = server.call(&large, json!(null));
    assert_eq!(found["rows"][0]["b"].as_str().unwrap().len(), 268);
}

#[test]
#[ignore = "needs PostgreSQL"]
fn argument_text_is_never_sql() {
    let server = TestServer::start();
    let by_name = server.query("select id from items where name = :a");
    let by_id = server.query("select id from items where id = :a");
    let pattern = server.query("select id from items where name like '%' || :a || '%'");
    let lists = ["int[]", "text[]"].map(|kind| {
        server.query(&format!("select id from items where id::text = any ((:a::{kind})::text[])"))
    });
    let same = server.tool(json!({ "query": "select :a::text as a", "one": true }));
    let insert = "insert into secrets values (7, :a) on conflict (id) do update set text = :a \
                  returning text as a";
    let insert = server.tool(json!({ "query": insert, "write": true, "one": true }));
    for attack in [
        "' or '1'='1",
        "'; drop table items; --",
        "1; delete from items",
        "1) or (1=1",
        "$1",
        "\\' or 1=1 --",
        "$$ or 1=1 $$",
        "1,2}'); drop table items; --",
    ] {
        for tool in [&by_name, &pattern] {
            assert_eq!(server.call(tool, json!(attack))["rows"], json!([]), "{attack}");
        }
        let text = server.failure(&by_id, json!(attack));
        assert!(text.contains("invalid input syntax for type integer"), "{text}");
        assert_eq!(server.call(&same, json!(attack)), json!({ "a": attack }));
        assert_eq!(server.call(&insert, json!(attack)), json!({ "a": attack }));
        let nested = json!({ attack: [attack] });
        assert_eq!(server.call(&same, nested.clone()), json!({ "a": nested.to_string() }));
        assert!(server.failure(&lists[0], json!([attack])).contains("invalid input syntax"));
        assert_eq!(server.call(&lists[1], json!([attack]))["rows"], json!([]));
    }
    assert!(server.failure(&by_name, json!("a\0b")).contains("0x00"));
    assert_eq!(server.number("delete from secrets where id = 7 returning 1::int8"), 1);
    assert!(server.is_unchanged());
}

#[test]
#[ignore = "needs PostgreSQL"]
fn argument_has_type_of_parameter() {
    let server = TestServer::start();
    for (query, given, found) in [
        ("select :a::int8 as a", json!(i64::MIN), json!(i64::MIN)),
        ("select :a::int4 + 1 as a", json!(41), json!(42)),
        ("select :a::numeric * 2 as a", json!(0.25), json!(0.5)),
        ("select :a::float8 as a", json!(1e300), json!(1e300)),
        ("select not :a::bool as a", json!(true), json!(false)),
        ("select :a::text as a", json!("ü\u{1f600}"), json!("ü\u{1f600}")),
        ("select :a::date + 1 as a", json!("2026-01-31"), json!("2026-02-01")),
        ("select :a::int[] as a", json!([1, null]), json!([1, null])),
        ("select :a::text[] as a", json!(["x\"\\,{}", ""]), json!(["x\"\\,{}", ""])),
        ("select :a::jsonb as a", json!({ "x": [1, "y"] }), json!({ "x": [1, "y"] })),
        ("select :a::jsonb as a", json!([1, "y"]), json!([1, "y"])),
        ("select :a::int is null as a", json!(null), json!(true)),
    ] {
        let tool = server.tool(json!({ "query": query, "one": true }));
        assert_eq!(server.call(&tool, given), json!({ "a": found }), "{query}");
    }
    let tool = server.tool(json!({
        "query": "select :a::int is null as absent, :principal::text as who", "one": true,
    }));
    let principal = Some("x' or 1=1 --".to_owned());
    let found = value(server.runtime.block_on(tool.call(Call { principal, ..Call::default() })));
    assert_eq!(found, json!({ "absent": true, "who": "x' or 1=1 --" }));
    let tool = server.query("select id from items where id = :a");
    let failed = server.runtime.block_on(tool.call(arguments(json!(i64::MAX)))).unwrap_err();
    assert!(matches!(failed, Failure::InvalidArgument(text) if text.contains("out of range")));
}

#[test]
#[ignore = "needs PostgreSQL"]
fn change_without_write_is_refused() {
    let server = TestServer::start();
    for query in [
        "insert into items values (3, 'x')",
        "insert into items values (3, 'x') returning id",
        "update items set name = 'x' returning id",
        "delete from items",
        "with x as (delete from items returning id) select id from x",
        "create table x (a int)",
        "create temp table x (a int)",
        "drop table items",
        "truncate items",
        "copy items to '/tmp/x'",
        "do 'begin end'",
        "set search_path = x",
        "begin",
        "vacuum",
        "select 1 as a) as x, (select 2 as b",
        "select 1; select 2",
        "select id as a, name as a from items",
        "select $1::int as a",
        "select '{a}'",
        "select nam from items",
    ] {
        assert_eq!(server.problem(json!({ "query": query })).key, "sql.query", "{query}");
    }
    for query in ["select spoil() as a", "select nextval('orders_id_seq') as a"] {
        let text = server.failure(&server.query(query), json!(null));
        assert_eq!(text, "the statement may not change the database", "{query}");
    }
    // What a statement sets ends with its transaction.
    let set = "select set_config('default_transaction_read_only', 'off', false) as a,
               set_config('statement_timeout', '0', false) as b";
    let set = server.query(set);
    for _ in 0..2 {
        server.call(&set, json!(null));
    }
    assert!(server.is_unchanged());
}

#[test]
#[ignore = "needs PostgreSQL"]
fn write_tool_changes_rows() {
    let server = TestServer::start();
    let tool =
        |query: &str, one: bool| server.tool(json!({ "query": query, "write": true, "one": one }));
    let update = tool("update items set price = price + :a::int", false);
    assert_eq!(server.call(&update, json!(1)), json!({ "changes": 2 }));
    let both = tool("update items set name = 'x' where id >= :a returning id", true);
    assert!(server.failure(&both, json!(1)).contains("more than one row"));
    assert!(server.is_unchanged());
    assert_eq!(server.call(&both, json!(2)), json!({ "id": 2 }));
    let insert = tool("insert into items values (:a, 'y') returning id", false);
    let found = json!({ "rows": [{ "id": 3 }], "truncated": false });
    assert_eq!(server.call(&insert, json!(3)), found);
    let text = server.failure(&insert, json!(3));
    assert!(text.contains("duplicate key value violates unique constraint"), "{text}");
    // The connection is of use after a failure.
    assert_eq!(server.call(&insert, json!(4))["rows"], json!([{ "id": 4 }]));
    let moved = "with x as (select 5 as id) insert into items select id, 'z' from x returning name";
    assert_eq!(server.call(&tool(moved, true), json!(null)), json!({ "name": "z" }));
}

#[test]
#[ignore = "needs PostgreSQL"]
fn rows_bytes_and_time_are_limited() {
    let mut server = TestServer::start();
    let series = "select generate_series(1, 1000000000) as i";
    let tool = server.tool(json!({ "query": format!("{series} limit 5000"), "rows_max": 3 }));
    let expected = json!({ "rows": [{ "i": 1 }, { "i": 2 }, { "i": 3 }], "truncated": true });
    assert_eq!(server.call(&tool, json!(null)), expected);
    let exact = server.tool(json!({ "query": "select id from items", "rows_max": 2 }));
    assert_eq!(server.call(&exact, json!(null))["truncated"], false);
    server.limits.output_bytes_max = 100;
    let tool = server.query("select i from generate_series(1, 5000) as i");
    let Output::JsonText(text) = server.runtime.block_on(tool.call(Call::default())).unwrap()
    else {
        panic!("no text")
    };
    assert!(text.len() <= 100 && text.len() > 70, "{text}");
    assert_eq!(server.call(&tool, json!(null))["truncated"], true);
    let tool = server.query("select repeat('x', 1000000) as x");
    assert!(server.failure(&tool, json!(null)).contains("longer than the limit of the output"));
    server.limits.timeout = Duration::from_millis(100);
    let tool = server.query("select max(i) as x from (select generate_series(1, 1e12) as i) as s");
    assert!(server.failure(&tool, json!(null)).contains("time limit of 100ms"));
    server.limits = CallLimits::default();
    let tool = server.query("select id from items");
    assert_eq!(server.call(&tool, json!(null))["rows"].as_array().unwrap().len(), 2);
}

#[test]
#[ignore = "needs PostgreSQL"]
fn calls_at_once_share_connections() {
    let server = TestServer::start();
    let tool = server.query("select name from items where id = :a");
    server.runtime.block_on(async {
        let calls: Vec<_> = (0..200)
            .map(|_| {
                let tool = tool.clone();
                tokio::spawn(async move { tool.call(arguments(json!(1))).await })
            })
            .collect();
        for call in calls {
            assert_eq!(value(call.await.unwrap())["rows"], json!([{ "name": "lamp" }]));
        }
    });
}
