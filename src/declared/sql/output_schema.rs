//! JSON Schema of results.

use serde_json::{Map, Value, json};

use crate::declared::sql::rows::Shape;

/// A column of a result.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Column {
    /// Its name.
    pub(crate) name: String,
    /// The type that the table declares, if the column is one of a table.
    pub(crate) declared: Option<String>,
    /// What its values can be.
    pub(crate) values: Values,
}

/// What the values of a column can be. Each may be NULL: an outer join makes it so.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Values {
    /// Numbers and texts: SQLite stores any value in any column.
    Any,
    /// Whole numbers.
    Integers,
    /// Numbers.
    Numbers,
    /// Texts.
    Texts,
    /// Bytes in base64.
    Bytes,
    /// `true` and `false`.
    #[cfg(feature = "postgres")]
    Booleans,
    /// JSON of any kind.
    #[cfg(feature = "postgres")]
    Json,
}

impl Column {
    fn schema(&self) -> Value {
        let mut schema = match self.values {
            Values::Any => json!({ "type": ["number", "string", "null"] }),
            Values::Integers => json!({ "type": ["integer", "null"] }),
            Values::Numbers => json!({ "type": ["number", "null"] }),
            Values::Texts => json!({ "type": ["string", "null"] }),
            Values::Bytes => json!({ "type": ["string", "null"], "contentEncoding": "base64" }),
            #[cfg(feature = "postgres")]
            Values::Booleans => json!({ "type": ["boolean", "null"] }),
            #[cfg(feature = "postgres")]
            Values::Json => json!({}),
        };
        if let Some(declared) = &self.declared {
            schema["description"] = json!(declared);
        }
        schema
    }
}

/// The schema of a result with `columns`; `None` if they are not known.
pub(crate) fn result_schema(columns: Option<&[Column]>, shape: Shape) -> Value {
    let row = columns.map_or_else(|| json!({ "type": "object" }), row_schema);
    match shape {
        Shape::One => row,
        Shape::Changes => json!({
            "type": "object",
            "properties": {
                "changes": { "type": "integer", "description": "Number of changed rows." },
            },
            "required": ["changes"],
        }),
        Shape::Rows { .. } => json!({
            "type": "object",
            "properties": {
                "rows": { "type": "array", "items": row },
                "truncated": {
                    "type": "boolean",
                    "description": "Whether there are more rows than these.",
                },
            },
            "required": ["rows", "truncated"],
        }),
    }
}

fn row_schema(columns: &[Column]) -> Value {
    let properties: Map<String, Value> =
        columns.iter().map(|it| (it.name.clone(), it.schema())).collect();
    let required: Vec<&str> = columns.iter().map(|it| it.name.as_str()).collect();
    json!({ "type": "object", "properties": properties, "required": required })
}
