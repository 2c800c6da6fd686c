//! Questions of the server to the user, asked on the terminal.

use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::Arc;
use std::thread;

use serde_json::{Map, Value};

use super::arguments::{Argument, arguments_of};
use super::text::{one_line, printable};
use crate::client::oneshot::Oneshot;
use crate::client::{ElicitRequestParams, InputResult};
use crate::protocol::model::{ElicitAction, ElicitResult};

/// Returns whether there is a terminal to ask on.
pub(crate) fn is_supported() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks on a thread of its own, which may block. Questions are asked one after another.
pub(crate) async fn ask_user(request: ElicitRequestParams) -> InputResult<ElicitResult> {
    let slot = Arc::new(Oneshot::new());
    let answer = Arc::clone(&slot);
    let ask = move || answer.set(ask(&request, &mut io::stdin().lock(), &mut io::stderr()));
    thread::Builder::new().name("corelane-ask".into()).spawn(ask)?;
    Ok(slot.take().await?)
}

/// Asks for consent, and then for each field of a form. The end of input cancels.
fn ask(
    request: &ElicitRequestParams,
    input: &mut impl BufRead,
    out: &mut impl Write,
) -> io::Result<ElicitResult> {
    let result = |action, content| Ok(ElicitResult { action, content });
    writeln!(out, "The server asks: {}", printable(&request.message))?;
    let consent = if let Some(url) = &request.url {
        writeln!(out, "It wants you to open this page yourself: {}", one_line(url))?;
        read_answer(input, out, "Accept? [y/N] ")?.map(|text| is_yes(&text))
    } else {
        let text = read_answer(input, out, "Answer? [Y/n] ")?;
        text.map(|text| text.is_empty() || is_yes(&text))
    };
    match consent {
        None => return result(ElicitAction::Cancel, Map::new()),
        Some(false) => return result(ElicitAction::Decline, Map::new()),
        Some(true) if request.url.is_some() => return result(ElicitAction::Accept, Map::new()),
        Some(true) => {}
    }
    let mut content = request.defaults();
    for field in arguments_of(&Value::Object(request.requested_schema.clone())) {
        match ask_field(&field, content.get(&field.name), input, out)? {
            FieldAnswer::Value(value) => {
                content.insert(field.name, value);
            }
            FieldAnswer::Default => {}
            FieldAnswer::EndOfInput => return result(ElicitAction::Cancel, Map::new()),
        }
    }
    result(ElicitAction::Accept, content)
}

/// What the user enters for a field.
enum FieldAnswer {
    Value(Value),
    /// Nothing: the default stays, or the field is left out.
    Default,
    EndOfInput,
}

/// Asks for a field until its value is valid.
fn ask_field(
    field: &Argument,
    default: Option<&Value>,
    input: &mut impl BufRead,
    out: &mut impl Write,
) -> io::Result<FieldAnswer> {
    if !field.description.is_empty() {
        writeln!(out, "{}", printable(&field.description))?;
    }
    let required = if field.is_required { ", required" } else { "" };
    let default_text = default.map(|value| format!(" [{value}]")).unwrap_or_default();
    let name = one_line(&field.name);
    let prompt = format!("{name} ({}{required}){default_text}: ", one_line(&field.type_name));
    loop {
        let Some(text) = read_answer(input, out, &prompt)? else {
            return Ok(FieldAnswer::EndOfInput);
        };
        if text.is_empty() {
            if default.is_some() || !field.is_required {
                return Ok(FieldAnswer::Default);
            }
            writeln!(out, "{name} is required")?;
            continue;
        }
        let value = parse_value(field, &text);
        if field.accepts(&value) {
            return Ok(FieldAnswer::Value(value));
        }
        writeln!(out, "{name} must be {}", one_line(&field.type_name))?;
    }
}

/// Reads a text as the value of a field.
fn parse_value(field: &Argument, text: &str) -> Value {
    if field.is_text() {
        return Value::String(text.to_owned());
    }
    if field.type_name == "boolean" {
        match text.to_lowercase().as_str() {
            "y" | "yes" => return true.into(),
            "n" | "no" => return false.into(),
            _ => {}
        }
    }
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// Prints `prompt` and reads a line without white space around it; `None` at the end of input.
fn read_answer(
    input: &mut impl BufRead,
    out: &mut impl Write,
    prompt: &str,
) -> io::Result<Option<String>> {
    write!(out, "{}", printable(prompt))?;
    out.flush()?;
    let mut line = String::new();
    if input.read_line(&mut line)? == 0 {
        writeln!(out)?;
        return Ok(None);
    }
    Ok(Some(line.trim().to_owned()))
}

fn is_yes(text: &str) -> bool {
    matches!(text.to_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Asks a user who enters `input`; returns the result and what the terminal shows.
    fn asked(request: Value, input: &str) -> (ElicitResult, String) {
        let request = serde_json::from_value(request).unwrap();
        let mut out = Vec::new();
        let result = ask(&request, &mut input.as_bytes(), &mut out).unwrap();
        (result, String::from_utf8(out).unwrap())
    }

    fn form() -> Value {
        json!({ "message": "Who\u{1b}?", "requestedSchema": { "properties": {
            "name": { "type": "string", "description": "Full name." },
            "age": { "type": "integer" },
            "member": { "type": "boolean", "default": false },
            "level": { "enum": ["low", "high"] },
        }, "required": ["name"] } })
    }

    #[test]
    fn form_is_asked_field_by_field() {
        let (result, shown) = asked(form(), "\n\nAda\nold\n36\ny\nmiddle\nlow\n");
        let expected = json!({ "member": true, "name": "Ada", "age": 36, "level": "low" });
        assert_eq!(result.action, ElicitAction::Accept);
        assert_eq!(Value::Object(result.content), expected);
        for part in [
            "The server asks: Who\u{fffd}?\nAnswer? [Y/n] Full name.\nname (string, required): ",
            "name is required\n",
            "age must be integer\n",
            "member (boolean) [false]: ",
            "level must be \"low\"|\"high\"\n",
        ] {
            assert!(shown.contains(part), "{shown}");
        }
    }

    #[test]
    fn empty_answers_keep_defaults() {
        let (result, _) = asked(form(), "yes\nAda\n\n\n\n");
        assert_eq!(Value::Object(result.content), json!({ "member": false, "name": "Ada" }));
    }

    #[test]
    fn refusal_and_end_of_input_send_nothing() {
        for (input, action) in [
            ("n\n", ElicitAction::Decline),
            ("", ElicitAction::Cancel),
            ("y\nAda\n", ElicitAction::Cancel),
        ] {
            let (result, _) = asked(form(), input);
            assert_eq!((result.action, result.content.len()), (action, 0), "{input}");
        }
    }

    #[test]
    fn page_is_named_and_needs_consent() {
        let request = json!({ "message": "Pay", "mode": "url", "url": "https://example.com/pay" });
        let (result, shown) = asked(request.clone(), "y\n");
        assert_eq!((result.action, result.content.len()), (ElicitAction::Accept, 0));
        assert!(shown.contains("https://example.com/pay\n"), "{shown}");
        assert_eq!(asked(request, "\n").0.action, ElicitAction::Decline);
    }
}
