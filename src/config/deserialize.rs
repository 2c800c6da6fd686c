//! Options as a section of a host program's own configuration, in any format that serde reads.

use serde::de::{Deserialize, Deserializer, Error};
use serde_json::{Map, Value};

use crate::config::issue::{ConfigIssue, Source};
use crate::config::options::Options;
use crate::config::read::apply;
use crate::config::read::raw_value::{Assignment, RawValue, is_section, unknown_key};
use crate::config::table;

/// Reads the keys of `corelane.toml`, with the same values, units and checks; what is missing has
/// its default. Times and sizes are texts with a unit, such as `"30s"` and `"16MiB"`, or whole
/// numbers of milliseconds and bytes. An error names every invalid option, with its key.
///
/// Sections are those of the fields with addresses and files: `http`, `tcp`, `websocket`, `stdio`,
/// `log`, `admin`, `server`. The fields of [`Options::limits`] and [`Options::engine`], and
/// `expose_errors`, have no section. `"off"` disables a listener; those that are not named listen
/// on their default addresses.
///
/// ```
/// let text = r#"
///     [mcp]
///     request_timeout = "30s"
///     shards = 2
///     tcp.address = "off"
///     http.address = "127.0.0.1:8080"
///     server.name = "greeter"
/// "#;
/// #[derive(serde::Deserialize)]
/// struct Config {
///     #[serde(default)]
///     mcp: corelane::Options,
/// }
///
/// let config: Config = toml::from_str(text)?;
/// assert_eq!(config.mcp.limits.request_timeout.as_secs(), 30);
/// # Ok::<(), toml::de::Error>(())
/// ```
impl<'de> Deserialize<'de> for Options {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let section = Map::<String, Value>::deserialize(deserializer)?;
        let mut reader = Reader::default();
        reader.read_section("", &section);
        let applied = apply(reader.assignments, reader.problems);
        applied.map(|(options, _)| options).map_err(|errors| {
            let texts = errors.0.iter().map(|ConfigIssue { key, diagnostic, .. }| {
                format!("{key}: {}; {}", diagnostic.message, diagnostic.hint)
            });
            D::Error::custom(texts.collect::<Vec<_>>().join("; "))
        })
    }
}

#[derive(Default)]
struct Reader {
    assignments: Vec<Assignment>,
    problems: Vec<ConfigIssue>,
}

impl Reader {
    /// Reads the section under `prefix` (empty, or ending in a dot).
    fn read_section(&mut self, prefix: &str, section: &Map<String, Value>) {
        for (name, value) in section {
            let key = format!("{prefix}{name}");
            let raw = raw_value(value);
            // The host program knows the place of its section.
            let source = Source::Default;
            match (table::find(&key), value) {
                (Some(row), _) => match raw.to_text(row) {
                    Ok(text) => self.assignments.push(Assignment { row, text, source }),
                    Err(diagnostic) => {
                        self.problems.push(ConfigIssue::new(source, key, diagnostic));
                    }
                },
                (None, Value::Object(inner)) if is_section(&key) => {
                    self.read_section(&format!("{key}."), inner);
                }
                (None, _) => {
                    let diagnostic = unknown_key(&key, &raw);
                    self.problems.push(ConfigIssue::new(source, key, diagnostic));
                }
            }
        }
    }
}

fn raw_value(value: &Value) -> RawValue<'_> {
    match value {
        Value::Null => RawValue::Null,
        Value::Bool(switch) => RawValue::Switch(*switch),
        Value::Number(number) if number.is_f64() => RawValue::Fraction(number.to_string()),
        Value::Number(number) => {
            let written = number.to_string();
            RawValue::Integer { number: written.parse().ok(), written }
        }
        Value::String(text) => RawValue::Text(text),
        Value::Array(items) => RawValue::List(items.iter().map(raw_value).collect()),
        Value::Object(_) => RawValue::Section,
    }
}
