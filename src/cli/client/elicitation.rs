//! Questions of the server to the user, asked on the terminal.

use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::Arc;
use std::thread;

use corelane_client::Oneshot;
use corelane_client::{ElicitRequestParams, InputResult};
use corelane_protocol::model::{ElicitAction, ElicitResult};
use serde_json::{Map, Value};
use url::Url;

use super::arguments::{Argument, arguments_of};
use super::text::{is_harmful, one_line, printable};
use super::time_limit::TimeLimit;

/// Returns whether there is a terminal to ask on.
pub(crate) fn is_supported() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks on a thread of its own, which may block. Questions are asked one after another, and take no
/// time of `limit`.
pub(crate) async fn ask_user(
    request: ElicitRequestParams,
    limit: Arc<TimeLimit>,
) -> InputResult<ElicitResult> {
    let slot = Arc::new(Oneshot::new());
    let answer = Arc::clone(&slot);
    let ask = move || answer.set(ask(&request, &mut io::stdin().lock(), &mut io::stderr()));
    thread::Builder::new().name("corelane-ask".into()).spawn(ask)?;
    limit.set_asking(true);
    let answer = slot.take().await;
    limit.set_asking(false);
    Ok(answer?)
}

/// Asks for consent, and then for each field of a form. The end of input cancels.
fn ask(
    request: &ElicitRequestParams,
    input: &mut impl BufRead,
    out: &mut impl Write,
) -> io::Result<ElicitResult> {
    let result = |action, content| Ok(ElicitResult { action, content });
    writeln!(out, "The server asks: {}", printable(&request.message))?;
    let url = request.url.as_deref().filter(|_| request.mode.as_deref() == Some("url"));
    let consent = match url {
        Some(url) => ask_for_page(url, input, out)?,
        None => read_choice(input, out, "Answer? [Y/n] ", true)?,
    };
    match consent {
        None => return result(ElicitAction::Cancel, Map::new()),
        Some(false) => return result(ElicitAction::Decline, Map::new()),
        Some(true) if url.is_some() => return result(ElicitAction::Accept, Map::new()),
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

/// Asks for consent to open a page. A URL that may deceive is shown with a warning, and declined
/// (MCP 2025-11-25 client/elicitation, "Safe URL Handling").
fn ask_for_page(
    url: &str,
    input: &mut impl BufRead,
    out: &mut impl Write,
) -> io::Result<Option<bool>> {
    let shown = one_line(url);
    if let Some(reason) = suspicion(url) {
        writeln!(out, "It names this address: {shown}")?;
        writeln!(out, "warning: {reason}. It is not opened, and the request is declined.")?;
        return Ok(Some(false));
    }
    writeln!(out, "It wants you to open this page yourself: {shown}")?;
    let url = Url::parse(url).ok();
    let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
    if host.split('.').any(|label| label.starts_with("xn--")) {
        writeln!(out, "warning: the host {host} has characters that may look like others")?;
    }
    read_choice(input, out, "Accept? [y/N] ", false)
}

/// Returns why a URL may deceive, if it may.
fn suspicion(text: &str) -> Option<String> {
    // A terminal may show the others as nothing.
    let is_deceptive = |character: char| {
        is_harmful(character)
            || character.is_whitespace()
            || matches!(character, '\u{ad}' | '\u{180e}' | '\u{feff}')
            || matches!(character, '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2065}')
    };
    if text.contains(is_deceptive) {
        return Some("it has characters that are not visible or change the order".to_owned());
    }
    let Ok(url) = Url::parse(text) else { return Some("it is not a URL".to_owned()) };
    if !matches!(url.scheme(), "https" | "http") {
        return Some(format!("its scheme is {}, neither https nor http", url.scheme()));
    }
    let host = url.host_str().unwrap_or_default();
    if !url.username().is_empty() || url.password().is_some() {
        return Some(format!("it has a user name before its host, which is {host}"));
    }
    text.contains('\\').then(|| format!("it has a backslash; its host is {host}"))
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

/// Asks a question until it is answered with yes, no or nothing, which is `default`; `None` at the
/// end of input.
fn read_choice(
    input: &mut impl BufRead,
    out: &mut impl Write,
    prompt: &str,
    default: bool,
) -> io::Result<Option<bool>> {
    loop {
        let Some(text) = read_answer(input, out, prompt)? else { return Ok(None) };
        match text.to_lowercase().as_str() {
            "" => return Ok(Some(default)),
            "y" | "yes" => return Ok(Some(true)),
            "n" | "no" => return Ok(Some(false)),
            _ => writeln!(out, "answer y, yes, n, no, or press Enter")?,
        }
    }
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

    #[test]
    fn deceptive_page_is_declined_with_warning() {
        for (url, reason) in [
            ("javascript:alert(1)", "scheme is javascript"),
            ("file:///etc/passwd", "scheme is file"),
            ("https://bank.example@evil.example/", "host, which is evil.example"),
            ("https://bank.example:a@evil.example/", "host, which is evil.example"),
            ("https://bank.example\\@evil.example/", "its host is bank.example"),
            ("https://evil.example/\u{202e}x", "not visible"),
            ("https://evil.example/\u{e0041}", "not visible"),
            ("https://evil.example/\u{1b}[2J", "not visible"),
            ("bank.example", "not a URL"),
        ] {
            let request = json!({ "message": "Pay", "mode": "url", "url": url });
            let (result, shown) = asked(request, "y\n");
            assert_eq!(result.action, ElicitAction::Decline, "{url}");
            assert!(shown.contains("warning: ") && shown.contains(reason), "{shown}");
            let is_plain = |character: char| matches!(character, ' '..='~' | '\n' | '\u{fffd}');
            assert!(shown.chars().all(is_plain), "{shown:?}");
        }
        let request = json!({ "message": "m", "mode": "url", "url": "https://b\u{e4}nk.example/" });
        let (result, shown) = asked(request, "y\n");
        assert_eq!(result.action, ElicitAction::Accept);
        assert!(shown.contains("warning: the host xn--"), "{shown}");
    }

    #[test]
    fn only_yes_no_and_enter_answer() {
        for (input, action) in [
            ("maybe\nYES\n", ElicitAction::Accept),
            ("ja\nn\n", ElicitAction::Decline),
            ("1\n\n", ElicitAction::Decline),
            ("true\n", ElicitAction::Cancel),
        ] {
            let request = json!({ "message": "m", "mode": "url", "url": "https://example.com/" });
            let (result, shown) = asked(request, input);
            assert_eq!(result.action, action, "{input}");
            assert!(shown.contains("answer y, yes, n, no"), "{shown}");
        }
    }
}
