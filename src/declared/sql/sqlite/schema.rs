//! Tables, columns and foreign keys of a SQLite file.

use rusqlite::Connection;
use serde_json::{Value, json};

/// The tables and views of the database that `is_listed` accepts.
pub(crate) fn read_schema(
    connection: &Connection,
    is_listed: impl Fn(&str) -> bool,
) -> rusqlite::Result<Vec<Value>> {
    let mut tables = Vec::new();
    for (name, kind) in table_names(connection)? {
        if is_listed(&name) {
            let columns = columns(connection, &name)?;
            let mut table = json!({ "name": name, "kind": kind, "columns": columns });
            let keys = foreign_keys(connection, &name, &is_listed)?;
            if !keys.is_empty() {
                table["foreign_keys"] = Value::Array(keys);
            }
            tables.push(table);
        }
    }
    Ok(tables)
}

/// Names and kinds of the tables and views, without those that SQLite keeps for itself.
pub(crate) fn table_names(connection: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    let query = "select name, type from pragma_table_list where schema = 'main' \
                 and type <> 'shadow' and name not like 'sqlite\\_%' escape '\\' order by name";
    let mut statement = connection.prepare_cached(query)?;
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// Names of everything that can be read like a table: tables, views, modules of virtual tables.
pub(crate) fn readable_names(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let query = "select name from pragma_table_list union select name from pragma_module_list";
    connection.prepare_cached(query)?.query_map([], |row| row.get(0))?.collect()
}

fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<Value>> {
    let query = "select name, type, \"notnull\", pk from pragma_table_xinfo(?1) where hidden <> 1";
    let mut statement = connection.prepare_cached(query)?;
    let columns = statement.query_map([table], |row| {
        let (name, kind): (String, String) = (row.get(0)?, row.get(1)?);
        let mut column = json!({ "name": name, "type": kind });
        if row.get(2)? {
            column["not_null"] = true.into();
        }
        if row.get::<_, i64>(3)? > 0 {
            column["primary_key"] = true.into();
        }
        Ok(column)
    })?;
    columns.collect()
}

fn foreign_keys(
    connection: &Connection,
    table: &str,
    is_listed: impl Fn(&str) -> bool,
) -> rusqlite::Result<Vec<Value>> {
    let query = "select \"from\", \"table\", \"to\" from pragma_foreign_key_list(?1)";
    let mut statement = connection.prepare_cached(query)?;
    let mut rows = statement.query([table])?;
    let mut keys = Vec::new();
    while let Some(row) = rows.next()? {
        let (column, target): (String, String) = (row.get(0)?, row.get(1)?);
        // The key itself is the target if the clause names no column.
        let target_column: Option<String> = row.get(2)?;
        if is_listed(&target) {
            keys.push(json!({
                "column": column,
                "table": target,
                "target": target_column,
            }));
        }
    }
    Ok(keys)
}
