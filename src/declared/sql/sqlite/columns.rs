//! Columns of prepared statements, for the schema of their results.

use rusqlite::{Connection, OptionalExtension as _, Statement, params};

use crate::declared::sql::output_schema::{Column, Values};
use crate::declared::sql::sqlite::pool;
use crate::declared::sql::statement::StatementText;

/// Words that give a column the values of several queries: the types of the first say nothing then.
const COMPOUNDS: [&str; 3] = ["union", "intersect", "except"];

/// What a table declares of a column.
struct DeclaredColumn {
    is_table: bool,
    is_strict: bool,
    is_rowid: bool,
}

/// The columns of `statement`. `connection` may read pragmas.
pub(crate) fn columns_of(
    connection: &Connection,
    statement: &Statement<'_>,
    text: &StatementText,
) -> rusqlite::Result<Vec<Column>> {
    let is_simple = !COMPOUNDS.iter().any(|word| text.has_word(word))
        && !pool::view_names(connection)?.iter().any(|view| text.has_name(view));
    let mut columns = Vec::new();
    for (column, origin) in statement.columns().zip(statement.columns_with_metadata()) {
        let declared = column.decl_type().map(str::to_owned);
        let mut values = Values::Any;
        if is_simple
            && let Some(declared) = &declared
            && let (Some(table), Some(name)) = (origin.table_name(), origin.origin_name())
            && let Some(of_table) = declared_column(connection, table, name)?
        {
            values = values_of(declared, &of_table);
        }
        columns.push(Column { name: column.name().to_owned(), declared, values });
    }
    Ok(columns)
}

fn declared_column(
    connection: &Connection,
    table: &str,
    column: &str,
) -> rusqlite::Result<Option<DeclaredColumn>> {
    // The primary key is another name of the row id if the table has one, and no index for the key.
    let query = "select type = 'table', strict, not wr \
                 and (select pk from pragma_table_xinfo(l.name) where name = ?2) = 1 \
                 and (select count(*) from pragma_table_xinfo(l.name) where pk > 0) = 1 \
                 and not exists (select 1 from pragma_index_list(l.name) where origin = 'pk') \
                 from pragma_table_list l where schema = 'main' and name = ?1";
    let mut statement = connection.prepare_cached(query)?;
    let read = |row: &rusqlite::Row<'_>| {
        Ok(DeclaredColumn {
            is_table: row.get(0)?,
            is_strict: row.get(1)?,
            is_rowid: row.get::<_, Option<bool>>(2)?.unwrap_or(false),
        })
    };
    statement.query_row(params![table, column], read).optional()
}

/// What the values of a column can be. Outside of `STRICT` tables only texts are certain: a column
/// with text affinity turns numbers into texts, while the others keep a text that is no number.
fn values_of(declared: &str, column: &DeclaredColumn) -> Values {
    let declared = declared.to_ascii_uppercase();
    let has = |part: &str| declared.contains(part);
    match declared.as_str() {
        _ if !column.is_table => Values::Any,
        "INT" | "INTEGER" if column.is_strict => Values::Integers,
        "INTEGER" if column.is_rowid => Values::Integers,
        "REAL" if column.is_strict => Values::Numbers,
        "BLOB" if column.is_strict => Values::Bytes,
        _ if !has("INT") && (has("CHAR") || has("CLOB") || has("TEXT")) => Values::Texts,
        _ => Values::Any,
    }
}
