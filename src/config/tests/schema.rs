//! The JSON Schema of the configuration file.

use serde_json::{Value, json};

use crate::config::options::Options;
use crate::config::schema::option_schemas;
use crate::config::table;
use crate::declared::file_schema;

#[test]
fn schema_has_options_with_defaults() {
    let validator = jsonschema::validator_for(&file_schema(option_schemas())).unwrap();
    let defaults = Options::default();
    let lines = table::rows().map(|row| format!("{} = {}", row.key, row.format_toml(&defaults)));
    let text = lines.collect::<Vec<_>>().join("\n");
    let file: Value = toml::from_str(&text).unwrap();
    let errors: Vec<String> = validator.iter_errors(&file).map(|it| it.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    for right in
        ["tcp = \"off\"", "tcp.address = \"off\"", "[tcp]\nconnections_max = 7", "cpus = [0, 2]"]
    {
        let file: Value = toml::from_str(right).unwrap();
        assert!(validator.is_valid(&file), "{right}");
    }
    for wrong in ["tcp.conections_max = 7", "tpc = \"off\"", "http.origins = 7"] {
        let file: Value = toml::from_str(wrong).unwrap();
        assert!(!validator.is_valid(&file), "{wrong}");
    }
}

#[test]
fn schema_accepts_example_and_names_faults() {
    let validator = jsonschema::validator_for(&file_schema(option_schemas())).unwrap();
    let text = include_str!("../../declared/example/files/corelane.toml");
    let example: Value = toml::from_str(text).unwrap();
    let errors: Vec<String> = validator.iter_errors(&example).map(|it| it.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    for wrong in [
        json!({ "tool": [{ "command": ["df"] }] }),
        json!({ "tool": [{ "name": "a", "comand": ["df"] }] }),
        json!({ "prompt": [{ "name": "a", "messages": [{ "role": "robot", "text": "" }] }] }),
    ] {
        assert!(!validator.is_valid(&wrong), "{wrong}");
    }
}
