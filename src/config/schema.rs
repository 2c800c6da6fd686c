//! The JSON Schema of the options, for editors.

use serde_json::{Map, Value, json};

use crate::config::options::Options;
use crate::config::table::{self, Row};
use crate::config::unit::Unit;

/// The schemas of all options by the first parts of their keys.
pub fn option_schemas() -> Map<String, Value> {
    let (mut properties, defaults) = (Map::new(), Options::default());
    for option in table::rows() {
        let schema = option_schema(option, &defaults);
        if let Some(short) = option.short {
            add_option(&mut properties, short, schema.clone());
        }
        add_option(&mut properties, option.key, schema);
    }
    properties
}

fn option_schema(option: &Row, defaults: &Options) -> Value {
    let kind = match option.unit {
        Unit::Choice(names) => {
            let numbers = names.iter().filter_map(|name| name.parse::<u64>().ok().map(Value::from));
            let values = names.iter().map(|name| Value::from(*name)).chain(numbers);
            json!({ "enum": values.collect::<Vec<_>>() })
        }
        Unit::Switch => json!({ "type": ["boolean", "string"] }),
        Unit::Bytes { .. }
        | Unit::BytesOrOff { .. }
        | Unit::Count { .. }
        | Unit::CountOrAuto { .. }
        | Unit::Milliseconds { .. }
        | Unit::Ratio
        | Unit::Seconds { .. } => json!({ "type": ["integer", "number", "string"] }),
        Unit::Cpus { .. } => json!({ "type": ["array", "integer", "string"] }),
        unit if unit.is_name_list() => json!({ "type": ["array", "string"] }),
        _ => json!({ "type": ["string", "boolean", "integer"] }),
    };
    let mut schema = kind;
    schema["description"] = option.description().into();
    let default = format!("value = {}", option.format_toml(defaults));
    // The text of a default is TOML.
    let default: Map<String, Value> = toml::from_str(&default).unwrap_or_default();
    schema["default"] = default.into_iter().next().map_or(Value::Null, |(_, value)| value);
    schema
}

/// Adds the schema of a key, whose parts before the last one are tables. A key can have a value, or
/// be a table.
fn add_option(properties: &mut Map<String, Value>, key: &str, schema: Value) {
    let Some((table, rest)) = key.split_once('.') else {
        match properties.get_mut(key) {
            Some(table) => *table = json!({ "anyOf": [schema, table.take()] }),
            None => drop(properties.insert(key.to_owned(), schema)),
        }
        return;
    };
    let empty = || json!({ "type": "object", "properties": {}, "additionalProperties": false });
    let known = properties.entry(table).or_insert_with(empty);
    if known.get("properties").is_none() && known.get("anyOf").is_none() {
        *known = json!({ "anyOf": [known.take(), empty()] });
    }
    let table = if known.get("anyOf").is_some() { &mut known["anyOf"][1] } else { known };
    if let Some(Value::Object(properties)) = table.get_mut("properties") {
        add_option(properties, rest, schema);
    }
}
