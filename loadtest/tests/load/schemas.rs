//! Results are valid against the JSON Schemas in the repository, which are those of the types.

#![expect(clippy::unwrap_used, reason = "test setup")]

use std::path::PathBuf;
use std::sync::OnceLock;

use corelane_load::report::schema::ResultKind;
use jsonschema::Validator;
use serde_json::Value;

use crate::load;

/// Returns the file with the schema of a kind of result.
fn schema_file(kind: ResultKind) -> PathBuf {
    let name = format!("../docs/load-testing/{}.schema.json", kind.name());
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Returns the values of `--json`.
pub(crate) fn json_files<'a>(arguments: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    let next = arguments.iter().skip(1).chain([&""]);
    arguments.iter().zip(next).filter_map(|(argument, next)| {
        argument.strip_prefix("--json=").or_else(|| Some(*next).filter(|_| *argument == "--json"))
    })
}

/// Asserts that a result is valid against the schema of its kind.
pub(crate) fn validate(path: &str) {
    static VALIDATORS: [OnceLock<Validator>; ResultKind::ALL.len()] =
        [const { OnceLock::new() }; ResultKind::ALL.len()];
    // A command that was ended has written nothing.
    let Ok(text) = std::fs::read_to_string(path) else { return };
    let result: Value = serde_json::from_str(&text).unwrap();
    let Some(kind) = ResultKind::of(&result) else { return };
    let place = ResultKind::ALL.iter().position(|other| *other == kind).unwrap();
    let validator = VALIDATORS[place].get_or_init(|| {
        let schema = std::fs::read_to_string(schema_file(kind)).unwrap();
        jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap()
    });
    let errors: Vec<String> = validator
        .iter_errors(&result)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{path}: {errors:?}");
}

#[test]
fn schema_files_are_those_of_the_types() {
    for kind in ResultKind::ALL {
        let name = kind.name();
        let printed = load(["report", "--schema", name]).stdout;
        let written = std::fs::read_to_string(schema_file(kind)).unwrap_or_default();
        let file = format!("docs/load-testing/{name}.schema.json");
        assert!(written == printed, "run corelane-load report --schema {name} > {file}");
    }
}

#[test]
fn schema_finds_missing_and_wrong_members() {
    let validator = jsonschema::validator_for(&ResultKind::Run.schema()).unwrap();
    let error = |result: &str| validator.is_valid(&serde_json::from_str(result).unwrap());
    assert!(!error("{}") && !error("{\"verdict\": 3}"));
}
