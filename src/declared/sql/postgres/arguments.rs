//! Arguments as values of PostgreSQL, in its text format: the server reads them by the type that
//! the statement gives the parameter.

use std::error::Error;
use std::fmt;

use bytes::BytesMut;
use serde_json::Value;
use tokio_postgres::types::{Format, IsNull, Kind, ToSql, Type};

use crate::declared::call::Call;
use crate::declared::template::PRINCIPAL;

/// The value of a parameter; `Value::Null` if the argument is absent.
pub(crate) struct Bound<'v>(&'v Value);

impl fmt::Debug for Bound<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the value, which may be a secret of the caller.
        formatter.write_str("Bound")
    }
}

/// The values of `parameters` in a call; `principal` is the caller as a value.
pub(crate) fn bind<'v>(
    parameters: &[String],
    call: &'v Call,
    principal: &'v Value,
) -> Vec<Bound<'v>> {
    let value = |name: &String| match name.as_str() {
        PRINCIPAL => principal,
        name => call.arguments.get(name).unwrap_or(&Value::Null),
    };
    parameters.iter().map(|name| Bound(value(name))).collect()
}

impl ToSql for Bound<'_> {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let text = match self.0 {
            Value::Null => return Ok(IsNull::Yes),
            Value::String(text) => {
                out.extend_from_slice(text.as_bytes());
                return Ok(IsNull::No);
            }
            Value::Array(items) if matches!(ty.kind(), Kind::Array(_)) => array_literal(items),
            value => value.to_string(),
        };
        out.extend_from_slice(text.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn to_sql_checked(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        self.to_sql(ty, out)
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }
}

/// A list as PostgreSQL writes arrays: `{1,"a",NULL}`.
fn array_literal(items: &[Value]) -> String {
    let mut text = String::from("{");
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        match item {
            Value::Null => text.push_str("NULL"),
            Value::Bool(_) | Value::Number(_) => text.push_str(&item.to_string()),
            Value::Array(items) => text.push_str(&array_literal(items)),
            Value::String(item) => push_quoted(&mut text, item),
            Value::Object(_) => push_quoted(&mut text, &item.to_string()),
        }
    }
    text.push('}');
    text
}

fn push_quoted(text: &mut String, item: &str) {
    text.push('"');
    for char in item.chars() {
        if matches!(char, '"' | '\\') {
            text.push('\\');
        }
        text.push(char);
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_is_written_as_array() {
        let items = serde_json::json!([1, "a\"\\,}", null, [true], { "b": 1 }]);
        let expected = r#"{1,"a\"\\,}",NULL,{true},"{\"b\":1}"}"#;
        assert_eq!(array_literal(items.as_array().unwrap()), expected);
    }
}
