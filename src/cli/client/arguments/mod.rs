//! Arguments of tools and prompts on the command line: `key=value`, `key:=JSON`, a JSON object.

mod schema;

use std::fs;
use std::io::{self, Read};

use serde_json::{Map, Value};

use crate::config::suggest::nearest;

pub(crate) use self::schema::{Argument, arguments_of};

/// Longest JSON object that is read from a file or standard input.
const OBJECT_BYTES_MAX: u64 = 16 << 20;

/// One `key=value` or `key:=JSON`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pair {
    pub(crate) key: String,
    pub(crate) value: PairValue,
}

/// The value of a [`Pair`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PairValue {
    /// Text, or JSON if the argument takes it.
    Text(String),
    /// JSON by `:=`.
    Json(Value),
}

impl Pair {
    /// Reads a pair.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (key, value) = text.split_once('=').ok_or("write key=value, or key:=JSON")?;
        let (key, value) = match key.strip_suffix(':') {
            Some(key) => {
                let value = serde_json::from_str(value)
                    .map_err(|error| format!("the value is not JSON: {error}"))?;
                (key, PairValue::Json(value))
            }
            None => (key, PairValue::Text(value.to_owned())),
        };
        match key {
            "" => Err("the key is empty; write key=value, or key:=JSON".to_owned()),
            key => Ok(Self { key: key.to_owned(), value }),
        }
    }
}

/// Arguments as they were given.
#[derive(Clone, Debug)]
pub(crate) enum GivenArguments {
    Pairs(Vec<Pair>),
    Object(Map<String, Value>),
}

impl GivenArguments {
    /// Takes pairs with different keys.
    pub(crate) fn from_pairs(pairs: Vec<Pair>) -> Result<Self, String> {
        for (index, pair) in pairs.iter().enumerate() {
            if pairs[..index].iter().any(|earlier| earlier.key == pair.key) {
                return Err(format!("the argument {} is given twice", pair.key));
            }
        }
        Ok(Self::Pairs(pairs))
    }

    /// Reads a JSON object from `text`, from a file (`@FILE`) or from standard input (`-`).
    pub(crate) fn read_object(text: &str) -> Result<Self, String> {
        let read = |source: &str, input: &mut dyn Read| {
            let mut text = String::new();
            match input.take(OBJECT_BYTES_MAX + 1).read_to_string(&mut text) {
                Ok(_) if text.len() as u64 > OBJECT_BYTES_MAX => {
                    Err(format!("{source} is longer than {OBJECT_BYTES_MAX} bytes"))
                }
                Ok(_) => Ok(text),
                Err(error) => Err(format!("{source} cannot be read: {error}")),
            }
        };
        let text = match (text, text.strip_prefix('@')) {
            ("-", _) => read("standard input", &mut io::stdin().lock())?,
            (_, Some(path)) => match fs::File::open(path) {
                Ok(mut file) => read(path, &mut file)?,
                Err(error) => return Err(format!("{path} cannot be read: {error}")),
            },
            _ => text.to_owned(),
        };
        match serde_json::from_str(&text) {
            Ok(Value::Object(object)) => Ok(Self::Object(object)),
            Ok(_) => Err("the arguments are not a JSON object; write {\"key\": …}".to_owned()),
            Err(error) => Err(format!("the arguments are not JSON: {error}")),
        }
    }

    /// Returns whether the types that the server declares make a difference.
    pub(crate) fn depend_on_types(&self) -> bool {
        match self {
            Self::Object(_) => false,
            Self::Pairs(pairs) => pairs.iter().any(|pair| match &pair.value {
                PairValue::Text(text) => serde_json::from_str::<Value>(text).is_ok(),
                PairValue::Json(_) => false,
            }),
        }
    }

    /// Returns the object to send. A text is JSON if it parses as such, unless its argument can
    /// only be a string.
    pub(crate) fn to_object(&self, declared: &[Argument]) -> Map<String, Value> {
        let pairs = match self {
            Self::Object(object) => return object.clone(),
            Self::Pairs(pairs) => pairs,
        };
        let value = |pair: &Pair| match &pair.value {
            PairValue::Json(value) => value.clone(),
            PairValue::Text(text) => {
                let declared = declared.iter().find(|argument| argument.name == pair.key);
                match serde_json::from_str(text) {
                    Ok(value) if !declared.is_some_and(Argument::is_text) => value,
                    _ => Value::String(text.clone()),
                }
            }
        };
        pairs.iter().map(|pair| (pair.key.clone(), value(pair))).collect()
    }

    /// Returns the object of strings that a prompt takes.
    pub(crate) fn to_texts(&self) -> Map<String, Value> {
        let pairs = match self {
            Self::Object(object) => return object.clone(),
            Self::Pairs(pairs) => pairs,
        };
        let text = |pair: &Pair| match &pair.value {
            PairValue::Text(text) => Value::String(text.clone()),
            PairValue::Json(value) => value.clone(),
        };
        pairs.iter().map(|pair| (pair.key.clone(), text(pair))).collect()
    }
}

/// Returns what is wrong with `given` as far as the names and types of `declared` show it.
pub(crate) fn find_mistakes(declared: &[Argument], given: &Map<String, Value>) -> Vec<String> {
    let missing = declared.iter().filter(|it| it.is_required && !given.contains_key(&it.name));
    let mut mistakes: Vec<String> =
        missing.map(|argument| format!("the argument {} is missing", argument.name)).collect();
    for (name, value) in given {
        match declared.iter().find(|argument| argument.name == *name) {
            Some(argument) if !argument.accepts(value) => {
                let type_name = &argument.type_name;
                mistakes.push(format!("the argument {name} must be {type_name}, not {value}"));
            }
            Some(_) => {}
            None => {
                let names = declared.iter().map(|argument| argument.name.as_str());
                let suggestion = nearest(name, names).map(|near| format!(", did you mean {near}?"));
                let suggestion = suggestion.unwrap_or_default();
                mistakes.push(format!("it has no argument {name}{suggestion}"));
            }
        }
    }
    mistakes
}

/// Returns the arguments of `name` for people.
pub(crate) fn describe(name: &str, declared: &[Argument]) -> String {
    if declared.is_empty() {
        return format!("{name} takes no arguments");
    }
    let describe = |argument: &Argument| {
        let required = if argument.is_required { ", required" } else { "" };
        format!("{} ({}{required})", argument.name, argument.type_name)
    };
    let arguments: Vec<String> = declared.iter().map(describe).collect();
    format!("{name} takes {}", arguments.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pairs(texts: &[&str]) -> GivenArguments {
        let pairs = texts.iter().map(|text| Pair::parse(text).unwrap());
        GivenArguments::from_pairs(pairs.collect()).unwrap()
    }

    fn declared() -> Vec<Argument> {
        arguments_of(&json!({
            "properties": { "text": { "type": "string" }, "count": { "type": "integer" } },
            "required": ["text"],
        }))
    }

    #[test]
    fn values_follow_declared_types() {
        let given = pairs(&["text=1", "count=2", "free=[3]", "other=a=b", "json:=\"4\"", "none="]);
        assert!(given.depend_on_types());
        let expected = json!({
            "text": "1", "count": 2, "free": [3], "other": "a=b", "json": "4", "none": "",
        });
        assert_eq!(Value::Object(given.to_object(&declared())), expected);
        assert_eq!(given.to_texts()["count"], "2");
        assert!(!pairs(&["text=a", "json:=1"]).depend_on_types());
    }

    #[test]
    fn invalid_pairs_and_objects_are_refused() {
        for (text, reason) in [("a", "key=value"), ("=1", "key is empty"), ("a:={", "not JSON")] {
            assert!(Pair::parse(text).unwrap_err().contains(reason), "{text}");
        }
        let twice = vec![Pair::parse("a=1").unwrap(), Pair::parse("a=2").unwrap()];
        assert!(GivenArguments::from_pairs(twice).unwrap_err().contains("twice"));
        for (text, reason) in
            [("[1]", "JSON object"), ("{", "not JSON"), ("@/no/such/file", "/no/such/file")]
        {
            assert!(GivenArguments::read_object(text).unwrap_err().contains(reason), "{text}");
        }
    }

    #[test]
    fn mistakes_name_the_arguments() {
        let given = json!({ "count": "two", "txet": "a" });
        let mistakes = find_mistakes(&declared(), given.as_object().unwrap());
        let expected = [
            "the argument text is missing",
            r#"the argument count must be integer, not "two""#,
            "it has no argument txet, did you mean text?",
        ];
        assert_eq!(mistakes, expected);
        assert!(find_mistakes(&declared(), json!({ "text": "a" }).as_object().unwrap()).is_empty());
        assert_eq!(describe("t", &declared()), "t takes text (string, required), count (integer)");
    }
}
