//! A statement as it is sent to the server, and its columns.

use std::fmt::Write as _;
use std::sync::Arc;

use tokio_postgres::Statement;
use tokio_postgres::types::{Kind, Type};

use crate::declared::call::{Failure, Output};
use crate::declared::limits::CallLimits;
use crate::declared::sql::output_schema::{Column, Values};
use crate::declared::sql::rows::{ColumnKeys, Next, RowsWriter, Shape};

/// How the rows of a statement are read.
#[derive(Clone, Debug)]
pub(crate) struct PostgresQuery {
    /// The statement for the server.
    pub(crate) text: Arc<str>,
    /// What it returns.
    pub(crate) shape: Shape,
    /// Its columns.
    pub(crate) columns: Vec<Column>,
}

impl PostgresQuery {
    /// The query that encodes the rows of `statement`, which is prepared from `text`.
    ///
    /// # Errors
    ///
    /// Two columns have the same name.
    pub(crate) fn new(
        text: &str,
        statement: &Statement,
        declared: &Declared,
    ) -> Result<Self, String> {
        let columns: Vec<Column> = statement.columns().iter().map(column).collect();
        ColumnKeys::new(columns.iter().map(|it| it.name.as_str())).map_err(|name| {
            format!("two columns have the name {name:?}: name one of them with AS")
        })?;
        if columns.is_empty() {
            return Ok(Self { text: text.into(), shape: Shape::Changes, columns });
        }
        let shape =
            if declared.is_one { Shape::One } else { Shape::Rows { max: declared.rows_max } };
        let text = encoding_query(text, &columns, declared).into();
        Ok(Self { text, shape, columns })
    }

    /// The result of the rows that the server has encoded.
    pub(crate) fn read(
        &self,
        rows: &[tokio_postgres::Row],
        bytes_max: usize,
    ) -> Result<Output, Failure> {
        let mut writer = RowsWriter::new(self.shape, bytes_max);
        for row in rows {
            let encoded: Option<&str> = row.try_get(0).map_err(Failure::failed)?;
            if writer.write_encoded(encoded)? == Next::Enough {
                break;
            }
        }
        writer.finish(0)
    }
}

/// What a declaration says about the rows of a statement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Declared {
    /// Rows, at most.
    pub(crate) rows_max: usize,
    /// Whether the result is one row.
    pub(crate) is_one: bool,
    /// Whether the statement may change the database.
    pub(crate) is_write: bool,
    /// Limits of a call.
    pub(crate) limits: CallLimits,
}

/// The statement that returns each row of `query` as JSON: one row more than the maximum, so that
/// it shows, and `NULL` for the first row with which the rows have too many bytes.
fn encoding_query(query: &str, columns: &[Column], declared: &Declared) -> String {
    let mut list = String::new();
    for column in columns {
        let name = format!("\"{}\"", column.name.replace('"', "\"\""));
        let separator = if list.is_empty() { "" } else { ", " };
        let value = match column.values {
            Values::Bytes => format!("translate(encode({name}, 'base64'), E'\\n', '') as {name}"),
            _ => name,
        };
        list.push_str(separator);
        list.push_str(&value);
    }
    let rows = if declared.is_one { 2 } else { declared.rows_max.saturating_add(1) };
    let bytes = declared.limits.output_bytes_max;
    // In a subquery there is no place for a statement that changes something.
    let (with, source) = if declared.is_write {
        (format!("with corelane_q as (\n{query}\n) "), "corelane_q".to_owned())
    } else {
        (String::new(), format!("(\n{query}\n)"))
    };
    let mut text = with;
    // Writing to a string does not fail.
    write!(
        text,
        "select case when total <= {bytes} then t end from (\
         select t, octet_length(t) as n, \
         sum(octet_length(t)) over (rows unbounded preceding) as total from (\
         select row_to_json(corelane_r)::text as t from (\
         select {list} from {source} as corelane_s) as corelane_r limit {rows}\
         ) as corelane_t) as corelane_u where total - n <= {bytes}"
    )
    .unwrap_or_default();
    text
}

fn column(column: &tokio_postgres::Column) -> Column {
    let declared = Some(column.type_().name().to_owned());
    Column { name: column.name().to_owned(), declared, values: values_of(column.type_()) }
}

/// What JSON the server writes for a type.
fn values_of(kind: &Type) -> Values {
    match kind.kind() {
        Kind::Domain(base) => return values_of(base),
        Kind::Enum(_) => return Values::Texts,
        Kind::Simple => {}
        _ => return Values::Json,
    }
    match kind {
        &Type::BOOL => Values::Booleans,
        &Type::INT2 | &Type::INT4 | &Type::INT8 => Values::Integers,
        // Infinity and NaN are texts.
        &Type::FLOAT4 | &Type::FLOAT8 | &Type::NUMERIC => Values::Any,
        &Type::BYTEA => Values::Bytes,
        &Type::TEXT
        | &Type::VARCHAR
        | &Type::BPCHAR
        | &Type::NAME
        | &Type::UUID
        | &Type::DATE
        | &Type::TIME
        | &Type::TIMETZ
        | &Type::TIMESTAMP
        | &Type::TIMESTAMPTZ
        | &Type::INTERVAL
        | &Type::INET
        | &Type::CIDR => Values::Texts,
        _ => Values::Json,
    }
}

/// The begin of a transaction with the limits of a call.
pub(crate) fn begin(declared: &Declared) -> String {
    let access = if declared.is_write { "read write" } else { "read only" };
    let timeout = declared.limits.timeout.as_millis().max(1);
    let lock_timeout = (timeout * 3 / 4).clamp(1, 5000);
    format!(
        "begin {access}; set local statement_timeout = {timeout}; \
         set local lock_timeout = {lock_timeout}"
    )
}
