//! The tools `NAME_query` and `NAME_schema`.

use super::*;

fn run(tool: &ExploreTool, query: &str) -> Result<Value, String> {
    let mut call = Call::default();
    call.arguments.insert("query".to_owned(), json!(query));
    let sqlite = tool.as_sqlite().unwrap();
    let output = sqlite.call_blocking(&call, || false).map_err(|failure| failure.to_string())?;
    let result = value(Ok(output));
    assert!(jsonschema::is_valid(&tool.output_schema(), &result), "{result}");
    Ok(result["rows"].clone())
}

#[test]
fn schema_lists_tables_and_columns() {
    let shop = Shop::new();
    let [_, schema] = shop.explore(json!({})).unwrap();
    assert_eq!(schema.name(), "shop_schema");
    let found = value(schema.as_sqlite().unwrap().call_blocking(&Call::default(), || false));
    assert!(jsonschema::is_valid(&schema.output_schema(), &found));
    let tables = found["tables"].as_array().unwrap();
    let names: Vec<_> = tables.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["items", "names", "orders", "secrets"]);
    assert_eq!(
        tables[0]["columns"][0],
        json!({
            "name": "id", "type": "INTEGER", "primary_key": true,
        })
    );
    let key = json!([{ "column": "item", "table": "items", "target": "id" }]);
    assert_eq!(tables[2]["foreign_keys"], key);
    let [_, schema] = shop.explore(json!({ "tables": ["orders"] })).unwrap();
    let found = value(schema.as_sqlite().unwrap().call_blocking(&Call::default(), || false));
    let columns = json!([
        { "name": "id", "type": "INTEGER", "primary_key": true },
        { "name": "item", "type": "INTEGER" },
        { "name": "count", "type": "INT" },
    ]);
    let orders = json!({ "name": "orders", "kind": "table", "columns": columns });
    assert_eq!(found, json!({ "tables": [orders], "truncated": false }));
}

#[test]
fn query_runs_one_select_statement() {
    let shop = Shop::new();
    let [query, _] = shop.explore(json!({ "rows_max": 2 })).unwrap();
    assert_eq!(run(&query, "select max(id) as m from items;"), Ok(json!([{ "m": 2 }])));
    assert_eq!(run(&query, "VALUES (1), (2), (3)").unwrap().as_array().unwrap().len(), 2);
    let counted = "with x as (select id from items) select count(*) as n from x, secrets";
    assert_eq!(run(&query, counted), Ok(json!([{ "n": 2 }])));
    for (wrong, part) in [
        ("", "no statement"),
        ("select 1; select 2", "more than one statement"),
        ("select :a", "has parameters"),
        ("select ?", "has the parameter"),
        ("delete from items", "not a SELECT"),
        ("pragma table_info(items)", "not a SELECT"),
        ("explain select 1", "not a SELECT"),
        ("with x as (select 1) delete from items returning id", "may not delete from items"),
        ("with x as (select 1) insert into items(name) select 'a' from x", "may not insert"),
        ("select load_extension('/tmp/x')", "may not call load_extension()"),
        ("select * from pragma_database_list", "may not use pragma database_list"),
        ("select id, id from items", "two columns have the name"),
        ("select nam from items", "no such column: nam"),
        ("select zeroblob(100000000)", "too long"),
    ] {
        let text = run(&query, wrong).unwrap_err();
        assert!(text.contains(part), "{wrong}: {text}");
    }
    assert!(shop.is_unchanged());
}

#[test]
fn query_reads_listed_tables_only() {
    let shop = Shop::new();
    shop.connect().execute_batch("create view v as select text from secrets").unwrap();
    let tables = json!({ "tables": ["items", "Names", "names2"] });
    shop.connect().execute_batch("create view \"names2\" as select id from names").unwrap();
    let [query, _] = shop.explore(tables).unwrap();
    for allowed in [
        "select count(*) from items",
        "select * from ITEMS as i join items as j on i.id = j.id - 1 and i.name = 'x'",
        "select name from names where exists (select 1 from items where items.id = names.id)",
        "with x as (select * from items) select name from x",
        "with x as (select * from items) select count(*) from x",
        "with x as (select * from items) select items.name from x, items",
        "select * from names2",
        "select value from json_each('[1]')",
        "select (select name from names order by id limit 1) as n",
    ] {
        run(&query, allowed).unwrap();
    }
    for refused in [
        "select * from secrets",
        "select count(*) from secrets",
        "select 1 from secrets",
        "select * from v",
        "select * from orders",
        "select * from sqlite_schema",
        "select * from sqlite_master",
        "select * from temp.sqlite_schema",
        "select * from pragma_table_info('secrets')",
        "select * from pragma_table_list",
        "select * from dbstat",
        "select * from main.secrets",
        "select (select text from secrets) as t from items",
        "select * from items where name in (select text from secrets)",
        "select * from (select text from secrets) as names",
        "select * from (select text from secrets) names",
        "select * from (select text from secrets) as items",
        "with names as (select text from secrets) select * from names",
        "with items as (select text from secrets) select * from items",
        "with \"names\" as (select text from secrets) select * from \"names\"",
        "with [names] as (select text from secrets) select * from [names]",
        "with 'names' as (select text from secrets) select * from 'names'",
        "with NAMES(x) as (select text from secrets) select x from nAmes",
        "select * from (with names as (select text from secrets) select * from names)",
        "with x as (select text from secrets) select count(*) from x",
        "with x as (select 1) select count(*) from secrets",
        "with secrets as (select 1) select count(*) from secrets",
        "with x as (select 1) select count(*) from sqlite_schema",
        "with x as (select 1) select count(*) from sqlite_master",
        "with x as (select 1) select count(*) from dbstat",
        "with x as (select 1) select count(*) from pragma_table_list",
        "with x as (select 1) select count(*) from pragma_table_info('secrets')",
        "with x as (select 1) select count(*) from v",
        "with x as (select 1) select count(*) from fts5vocab",
        "select * from items union all select id, text, null, null from secrets",
        "select name from names where exists (select 1 from secrets where secrets.id = names.id)",
        "with recursive names(x) as (select text from secrets union select x from names) \
         select x from names",
    ] {
        let text = run(&query, refused).unwrap_err();
        assert!(
            text.contains("may not") || text.contains("no such table: fts5vocab"),
            "{refused}: {text}"
        );
    }
}

#[test]
fn view_replaced_by_table_is_refused() {
    let shop = Shop::new();
    let [query, _] = shop.explore(json!({ "tables": ["names"] })).unwrap();
    run(&query, "select * from names").unwrap();
    let text = "drop view names; create table names (id)";
    shop.connect().execute_batch(text).unwrap();
    run(&query, "select * from names").unwrap();
    let shadowed = "with names as (select text from secrets) select * from names";
    assert!(run(&query, shadowed).is_err());
}

#[test]
fn unknown_table_is_refused_at_load() {
    let shop = Shop::new();
    let problems = shop.explore(json!({ "tables": ["items", "itms"] })).unwrap_err();
    assert_eq!(problems[0].key, "tables");
    assert!(problems[0].hint.contains("items, names, orders, secrets"));
}

#[test]
fn endless_query_ends_at_time_limit() {
    let mut shop = Shop::new();
    shop.limits.timeout = Duration::from_millis(50);
    let [query, _] = shop.explore(json!({})).unwrap();
    let endless = "with recursive n(i) as (select 1 union all select i + 1 from n) \
                   select max(i) as x from n";
    assert!(run(&query, endless).unwrap_err().contains("time limit"));
}
