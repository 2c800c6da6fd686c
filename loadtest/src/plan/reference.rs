//! Schema and reference of all keys of a plan, made from the types that read it.

use std::fmt::Write as _;

use schemars::schema_for;
use serde_json::Value;

use super::Plan;

/// Format of a duration in the schema.
const DURATION_FORMAT: &str = "duration";

/// Returns the JSON schema of a plan (JSON Schema 2020-12).
pub fn schema() -> Value {
    schema_for!(Plan).to_value()
}

/// Returns the reference of all keys as Markdown.
pub fn markdown() -> String {
    let schema = schema();
    let mut out = String::from(
        "# Plan reference\n\n\
         All keys of a plan, a TOML file for `corelane-load`; a `time` is a text such as `20ms` or \
         a number of\nseconds. Written by `corelane-load plan --reference`; `corelane-load plan \
         --schema` prints the JSON schema, and\n`corelane-load plan --print` the plan that flags \
         mean. [Load testing](load-testing.md#plans) has an introduction.\n",
    );
    let mut reference = Reference { root: &schema, sections: Vec::new() };
    reference.add_section("", &schema);
    for Section { name, rows } in reference.sections {
        let title = if name.is_empty() { "Top level" } else { &name };
        // Writing to a string does not fail.
        write!(out, "\n## {title}\n\n| key | value | meaning |\n| --- | --- | --- |\n{rows}")
            .unwrap_or(());
    }
    out
}

/// A table of the reference.
struct Section {
    name: String,
    rows: String,
}

/// The tables so far.
struct Reference<'a> {
    root: &'a Value,
    sections: Vec<Section>,
}

impl Reference<'_> {
    /// Adds the table of an object, then those of the objects in it.
    fn add_section(&mut self, name: &str, schema: &Value) {
        let place = self.sections.len();
        self.sections.push(Section { name: section_title(name, false), rows: String::new() });
        let (mut rows, mut inner) = (String::new(), Vec::new());
        for (key, value) in schema["properties"].as_object().into_iter().flatten() {
            let (object, is_list) = self.object_of(value);
            let kind = match &object {
                Some(_) => "section".into(),
                None => self.kind_of(value),
            };
            let meaning = value["description"].as_str().unwrap_or_default();
            let meaning = meaning.split_whitespace().collect::<Vec<_>>().join(" ");
            writeln!(rows, "| `{key}` | {kind} | {} |", meaning.replace('|', "\\|")).unwrap_or(());
            if let Some(object) = object {
                let path = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                inner.push((path, is_list, object));
            }
        }
        self.sections[place].rows = rows;
        for (path, is_list, object) in inner {
            let is_known =
                self.sections.iter().any(|section| section.name == section_title("call", true));
            // The request that publishes has the keys of every other request, a step in a block
            // those of every other step.
            if path.ends_with(".publish") && is_known || path.ends_with(".step.step") {
                continue;
            }
            let place = self.sections.len();
            self.add_section(&path, &object);
            self.sections[place].name = section_title(&path, is_list);
        }
    }

    /// Returns the schema of a section, and whether it is repeated.
    fn object_of(&self, value: &Value) -> (Option<Value>, bool) {
        let value = self.without_null(value);
        let kinds = value["type"].as_array();
        if value["type"] == "array" || kinds.is_some_and(|kinds| kinds.contains(&"array".into())) {
            let items = self.without_null(&value["items"]);
            return (Some(items).filter(|items| items["properties"].is_object()), true);
        }
        (Some(value).filter(|value| value["properties"].is_object()), false)
    }

    /// Follows references, and removes the alternative that the value is absent.
    fn without_null(&self, value: &Value) -> Value {
        let pointer = value["$ref"].as_str().and_then(|path| path.strip_prefix('#'));
        if let Some(target) = pointer.and_then(|path| self.root.pointer(path)) {
            return self.without_null(target);
        }
        let alternatives = value["anyOf"].as_array().into_iter().flatten();
        let mut present = alternatives.filter(|schema| schema["type"] != "null");
        match (present.next(), present.next()) {
            (Some(only), None) => self.without_null(only),
            _ => value.clone(),
        }
    }

    /// Describes a value that is no section.
    fn kind_of(&self, value: &Value) -> String {
        let value = self.without_null(value);
        if value["format"] == DURATION_FORMAT {
            return "time".into();
        }
        let names = |values: &[Value]| {
            let names: Vec<String> =
                values.iter().filter_map(Value::as_str).map(|name| format!("`{name}`")).collect();
            names.join(", ")
        };
        if let Some(values) = value["enum"].as_array() {
            return names(values);
        }
        for key in ["oneOf", "anyOf"] {
            if let Some(schemas) = value[key].as_array() {
                let constants: Vec<Value> =
                    schemas.iter().map(|schema| schema["const"].clone()).collect();
                if constants.iter().all(Value::is_string) {
                    return names(&constants);
                }
                let kinds: Vec<String> =
                    schemas.iter().map(|schema| self.kind_of(schema)).collect();
                return kinds.join(" or ");
            }
        }
        let kinds = match &value["type"] {
            Value::Array(kinds) => kinds.clone(),
            kind => vec![kind.clone()],
        };
        let kind = kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null");
        match kind {
            Some("array") if value["prefixItems"].is_array() => "name and value".into(),
            Some("array") => format!("list of {}", self.kind_of(&value["items"])),
            Some("string") => "text".into(),
            Some("boolean") => "`true` or `false`".into(),
            Some("object") => "table".into(),
            Some(kind) => kind.into(),
            None => "any".into(),
        }
    }
}

/// Returns the title of a section.
fn section_title(path: &str, is_list: bool) -> String {
    match (path, is_list) {
        ("", _) => String::new(),
        (_, true) => format!("`[[{path}]]`"),
        (_, false) => format!("`[{path}]`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_describes_every_key() {
        let schema = schema();
        let properties = |schema: &Value| schema["properties"].as_object().cloned();
        let mut all = vec![properties(&schema).unwrap()];
        all.extend(schema["$defs"].as_object().unwrap().values().filter_map(properties));
        assert!(all.len() > 10);
        for properties in all {
            let missing = properties.iter().find(|(_, value)| !value["description"].is_string());
            assert_eq!(missing, None);
        }
    }

    #[test]
    fn schema_accepts_written_plan() {
        let schema = jsonschema::validator_for(&schema()).unwrap();
        let mut plan = Plan::new("tcp://localhost:1");
        plan.phases.push(crate::plan::PhasePlan::constant(5.0, plan.warm_up));
        plan.calls.push(crate::plan::CallPlan::tool("echo"));
        let plan = serde_json::to_value(&plan).unwrap();
        assert!(schema.validate(&plan).is_ok(), "{:?}", schema.validate(&plan));
        let with = |key: &str, value: Value| {
            let mut plan = plan.clone();
            plan[key] = value;
            schema.is_valid(&plan)
        };
        assert!(with("warm_up", 2.into()) && !with("conections", 2.into()));
        assert!(!with("depth", "x".into()));
    }
}
