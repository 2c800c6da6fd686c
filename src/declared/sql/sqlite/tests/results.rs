//! Values and schemas of results.

use super::*;

#[test]
fn columns_keep_order_and_types() {
    let shop = Shop::new();
    let tool = shop.query("select name, id, image, price, id * 1.5 as x from items order by id");
    let found = tool.call_blocking(&arguments(json!(null)), || false).unwrap();
    let expected = "{\"rows\":[{\"name\":\"lamp\",\"id\":1,\"image\":\"AP8=\",\"price\":9.5,\
                    \"x\":1.5},{\"name\":\"ch'air\",\"id\":2,\"image\":null,\"price\":20.0,\
                    \"x\":3.0}],\"truncated\":false}";
    assert_eq!(found, Output::JsonText(expected.to_owned()));
    let properties = &tool.output_schema()["properties"]["rows"]["items"]["properties"];
    assert_eq!(
        properties,
        &json!({
            "name": { "type": ["string", "null"], "description": "TEXT" },
            "id": { "type": ["integer", "null"], "description": "INTEGER" },
            "image": { "type": ["number", "string", "null"], "description": "BLOB" },
            "price": { "type": ["number", "string", "null"], "description": "REAL" },
            "x": { "type": ["number", "string", "null"] },
        })
    );
}

#[test]
fn integers_beyond_doubles_are_exact() {
    let shop = Shop::new();
    shop.connect().execute("update items set id = 9007199254740993 where id = 1", []).unwrap();
    let tool = shop.query("select id, -id as m from items where id = :a");
    let row = &call(&tool, json!(9_007_199_254_740_993_i64))["rows"][0];
    assert_eq!(row, &json!({ "id": 9_007_199_254_740_993_i64, "m": -9_007_199_254_740_993_i64 }));
}

#[test]
fn text_with_nul_and_bad_utf8_is_returned() {
    let shop = Shop::new();
    let tool = shop.query("select 'a' || char(0) || 'b' as n, cast(x'61ff62' as text) as u");
    let row = &call(&tool, json!(null))["rows"][0];
    assert_eq!(row, &json!({ "n": "a\0b", "u": "a\u{fffd}b" }));
    let insert = json!({
        "query": "insert into secrets (text) values (:a) \
                  returning text, length(cast(text as blob)) as n",
        "write": true,
        "one": true,
    });
    let row = call(&shop.tool(insert), json!("x\0ü\u{1f600}"));
    assert_eq!(row, json!({ "text": "x\0ü\u{1f600}", "n": 8 }));
}

#[test]
fn value_against_declared_type_is_valid() {
    let shop = Shop::new();
    let text = "
        create table loose (i integer, t text, r real, b blob, d datetime, y boolean);
        insert into loose values ('', x'00', 'n/a', 'text', 5, 'yes'), (1.5, 7, 1, 2, null, true);
        create table exact (id integer primary key, i int, r real, t text, b blob, y any) strict;
        insert into exact values (1, 2, 3, 'x', x'00', 'any'), (2, null, null, null, null, 5);
        create table desc_key (id integer primary key desc);
        insert into desc_key values ('text');
        create table pair (a integer, b integer, primary key (a, b)) without rowid;
        create view mixed as select id from exact union all select 'text';";
    shop.connect().execute_batch(text).unwrap();
    call(&shop.query("select * from loose"), json!(null));
    call(&shop.query("select id from exact union all select 'text'"), json!(null));
    call(&shop.query("select * from mixed"), json!(null));
    call(&shop.query("select x from (select id as x from exact union select 'a')"), json!(null));
    call(&shop.query("select * from desc_key"), json!(null));
    call(&shop.query("select a, exact.* from pair left join exact on a = id"), json!(null));
    let tool = shop.query("select * from exact");
    call(&tool, json!(null));
    let properties = &tool.output_schema()["properties"]["rows"]["items"]["properties"];
    let kinds: Vec<_> = properties.as_object().unwrap().values().map(|it| &it["type"][0]).collect();
    assert_eq!(kinds, ["integer", "integer", "number", "string", "string", "number"]);
    assert_eq!(properties["b"]["contentEncoding"], "base64");
}

#[test]
fn one_row_is_an_object() {
    let shop = Shop::new();
    let one = |query: &str| shop.tool(json!({ "query": query, "one": true }));
    let tool = one("select id, name from items where id >= :a order by id");
    assert_eq!(call(&tool, json!(2)), json!({ "id": 2, "name": "ch'air" }));
    assert!(failure(&tool, json!(1)).contains("more than one row"));
    assert_eq!(failure(&tool, json!(3)), "no row matches these arguments");
    let problem = shop.problem(json!({
        "query": "delete from items", "one": true, "write": true,
    }));
    assert_eq!(problem.key, "sql.one");
}

#[test]
fn equal_column_names_are_refused() {
    let shop = Shop::new();
    let query = "select * from items join orders on item = items.id";
    let problem = shop.problem(json!({ "query": query }));
    assert_eq!(problem.message, "two columns have the name \"id\": name one of them with AS");
}

#[test]
fn changed_columns_are_named_anew() {
    let shop = Shop::new();
    let tool = shop.query("select * from orders");
    let insert = "insert into orders values (1, 1, 5)";
    shop.connect().execute(insert, []).unwrap();
    assert_eq!(call(&tool, json!(null))["rows"], json!([{ "id": 1, "item": 1, "count": 5 }]));
    shop.connect().execute_batch("alter table orders drop column item").unwrap();
    for _ in 0..2 {
        let found = value(tool.call_blocking(&Call::default(), || false));
        assert_eq!(found["rows"], json!([{ "id": 1, "count": 5 }]));
    }
}
