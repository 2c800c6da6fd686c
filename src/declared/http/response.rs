//! Responses: read within bounds, as the output of a call.

use bytes::{Bytes, BytesMut};
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{Response, StatusCode};
use serde_json::Value;

use super::client::root_cause;
use super::declaration::ResultFormat;
use super::retry::{is_temporary, retry_after};
use crate::declared::call::{Failure, Output};
use crate::declared::room::CallRoom;

/// Bytes of the body of an error that a message shows.
const ERROR_BYTES_MAX: usize = 1024;
/// Bytes of the body of an error that are read, so that the connection can be used again.
const ERROR_READ_MAX: usize = 64 * 1024;

/// How a response becomes an output.
#[derive(Clone, Debug, Default)]
pub(super) struct ResultRule {
    pub(super) format: Option<ResultFormat>,
    /// JSON Pointer to the result.
    pub(super) pointer: Option<String>,
}

/// A response with its body.
pub(super) struct ReadResponse {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// Reads a body: with the `kept` bytes of other responses at most what `room` allows, after
/// decompression.
///
/// # Errors
///
/// The body has more bytes, or breaks off.
pub(super) async fn read(
    mut response: Response,
    kept: usize,
    room: &CallRoom<'_>,
) -> Result<ReadResponse, Failure> {
    let bytes_max = room.bytes_max() - kept;
    let too_long = || {
        Failure::failed(format_args!(
            "the response has more than the {bytes_max} bytes that are allowed; ask for less"
        ))
    };
    let headers = std::mem::take(response.headers_mut());
    let status = response.status();
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if length.is_some_and(|length: u64| length > bytes_max as u64) {
        return Err(too_long());
    }
    let mut body = BytesMut::new();
    let mut first = Bytes::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| broken_off(&error))? {
        if first.len() + body.len() + chunk.len() > bytes_max {
            return Err(too_long());
        }
        room.grow(kept + first.len() + body.len() + chunk.len()).await;
        // A body in one piece is not copied.
        if first.is_empty() && body.is_empty() {
            first = chunk;
        } else {
            if body.is_empty() {
                body.extend_from_slice(&std::mem::take(&mut first));
            }
            body.extend_from_slice(&chunk);
        }
    }
    let body = if body.is_empty() { first } else { body.freeze() };
    Ok(ReadResponse { status, headers, body })
}

fn broken_off(error: &reqwest::Error) -> Failure {
    Failure::failed(format_args!("the response broke off: {}", root_cause(error)))
}

/// Describes a response that is not a success, with the beginning of its body.
pub(super) async fn describe_error(mut response: Response) -> Failure {
    let status = response.status();
    if status.is_redirection() {
        return Failure::failed(describe_redirect(&response));
    }
    let is_html = is_html(&media_type(response.headers()));
    let mut body = BytesMut::new();
    let mut read = 0;
    while read < ERROR_READ_MAX
        && let Ok(Some(chunk)) = response.chunk().await
    {
        read += chunk.len();
        let room = (4 * ERROR_BYTES_MAX).saturating_sub(body.len());
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
    }
    let text = String::from_utf8_lossy(&body);
    let text = if is_html { html_title(&text) } else { one_line(&text, ERROR_BYTES_MAX) };
    let colon = if text.is_empty() { "" } else { ": " };
    let wait = retry_after(response.headers()).filter(|_| is_temporary(status));
    let wait = wait.map(|wait| format!(" (it asks to wait {} s)", wait.as_secs()));
    let wait = wait.unwrap_or_default();
    Failure::failed(format_args!("the server answered {status}{wait}{colon}{text}"))
}

fn describe_redirect(response: &Response) -> String {
    let status = response.status();
    let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let target = location.and_then(|location| response.url().join(location).ok());
    match target {
        None => format!("the server answered {status} without a valid Location"),
        Some(target) if target.origin() == response.url().origin() => {
            format!("the server answered {status} too often; redirects were followed before")
        }
        Some(target) => {
            let target = target.origin().ascii_serialization();
            format!(
                "the server answered {status} with a redirect to {target}; redirects to another \
                 origin are not followed"
            )
        }
    }
}

/// Converts a response to the output of a call.
///
/// # Errors
///
/// The body is not what `rule` asks for.
pub(super) fn output(response: ReadResponse, rule: &ResultRule) -> Result<Output, Failure> {
    let mime_type = media_type(&response.headers);
    let is_json_due = rule.pointer.is_some() || rule.format == Some(ResultFormat::Json);
    if is_json_due {
        return json_result(&response, rule.pointer.as_deref()).map(Output::Json);
    }
    if rule.format == Some(ResultFormat::Media) {
        let mime_type = if mime_type.is_empty() { OCTET_STREAM.to_owned() } else { mime_type };
        return Ok(Output::Media { mime_type, data: response.body });
    }
    if response.body.is_empty() {
        return Ok(Output::Text(response.status.to_string()));
    }
    if rule.format == Some(ResultFormat::Text) || is_text(&mime_type) {
        return text(&response).map(Output::Text);
    }
    if is_json(&mime_type) {
        return json(&response).map(Output::Json);
    }
    if mime_type.is_empty() {
        return Ok(guess(response.body));
    }
    Ok(Output::Media { mime_type, data: response.body })
}

const OCTET_STREAM: &str = "application/octet-stream";

/// The output of a body without a media type.
fn guess(body: Bytes) -> Output {
    if let Ok(value) = serde_json::from_slice(&body) {
        return Output::Json(value);
    }
    match std::str::from_utf8(&body) {
        Ok(text) => Output::Text(text.to_owned()),
        Err(_) => Output::Media { mime_type: OCTET_STREAM.to_owned(), data: body },
    }
}

/// The value at `pointer` of a JSON response.
///
/// # Errors
///
/// The response is not JSON, or has no such value.
pub(super) fn json_result(
    response: &ReadResponse,
    pointer: Option<&str>,
) -> Result<Value, Failure> {
    let value = json(response)?;
    match pointer {
        None | Some("") => Ok(value),
        Some(pointer) => take_pointer(value, pointer),
    }
}

/// The value of a JSON response; without a body `null`.
pub(super) fn json(response: &ReadResponse) -> Result<Value, Failure> {
    if response.body.is_empty() {
        return Ok(Value::Null);
    }
    let mime_type = media_type(&response.headers);
    let is_page = is_html(&mime_type) || response.body.trim_ascii_start().starts_with(b"<");
    let mime_type =
        if mime_type.is_empty() { "a response without Content-Type" } else { &mime_type };
    if is_page {
        let title = html_title(&String::from_utf8_lossy(&response.body));
        let colon = if title.is_empty() { "" } else { ": " };
        return Err(Failure::failed(format_args!(
            "the server answered {} with {mime_type} where JSON is expected{colon}{title}",
            response.status
        )));
    }
    serde_json::from_slice(&response.body).map_err(|error| {
        let start = String::from_utf8_lossy(&response.body[..response.body.len().min(512)]);
        let start = one_line(&start, 128);
        Failure::failed(format_args!(
            "the server answered {} with {mime_type} that is not JSON ({error}): {start}",
            response.status
        ))
    })
}

/// Takes the value at `pointer` out of `value`.
pub(super) fn take_pointer(mut value: Value, pointer: &str) -> Result<Value, Failure> {
    if let Some(found) = value.pointer_mut(pointer) {
        return Ok(found.take());
    }
    let has = match &value {
        Value::Object(members) => {
            let keys: Vec<&str> = members.keys().take(20).map(String::as_str).collect();
            format!("an object with {}", keys.join(", "))
        }
        Value::Array(items) => format!("a list of {} items", items.len()),
        other => one_line(&other.to_string(), 128),
    };
    Err(Failure::failed(format_args!("the response has no value at {pointer}: it is {has}")))
}

fn text(response: &ReadResponse) -> Result<String, Failure> {
    let charset = charset(&response.headers);
    if matches!(charset.as_str(), "iso-8859-1" | "latin1" | "windows-1252") {
        return Ok(response.body.iter().map(|&byte| char::from(byte)).collect());
    }
    match std::str::from_utf8(&response.body) {
        Ok(text) => Ok(text.strip_prefix('\u{feff}').unwrap_or(text).to_owned()),
        Err(_) => Err(Failure::failed(format_args!(
            "the server answered {} with bytes that are not text in UTF-8, {} in total",
            response.status,
            response.body.len()
        ))),
    }
}

/// The media type of a response in lower case, without parameters.
pub(super) fn media_type(headers: &HeaderMap) -> String {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let text = text.split(';').next().unwrap_or_default();
    text.trim().to_ascii_lowercase()
}

fn charset(headers: &HeaderMap) -> String {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let text = text.to_ascii_lowercase();
    let charset = text.split(';').find_map(|part| part.trim().strip_prefix("charset="));
    charset.unwrap_or_default().trim_matches('"').to_owned()
}

/// Whether the media type is JSON.
pub(crate) fn is_json(mime_type: &str) -> bool {
    let is_json = matches!(mime_type, "application/json" | "text/json");
    is_json || mime_type.starts_with("application/") && mime_type.ends_with("+json")
}

fn is_html(mime_type: &str) -> bool {
    matches!(mime_type, "text/html" | "application/xhtml+xml")
}

/// Whether the media type is text that is not JSON.
pub(crate) fn is_text(mime_type: &str) -> bool {
    const TEXTS: [&str; 9] = [
        "application/xml",
        "application/yaml",
        "application/x-yaml",
        "application/javascript",
        "application/x-www-form-urlencoded",
        "application/x-ndjson",
        "application/jsonl",
        "application/toml",
        "application/sql",
    ];
    if is_json(mime_type) {
        return false;
    }
    let is_xml = mime_type.ends_with("+xml") && !mime_type.starts_with("image/");
    mime_type.starts_with("text/") || is_xml || TEXTS.contains(&mime_type)
}

/// The title of a page, or the beginning of its text.
fn html_title(page: &str) -> String {
    let lower = page.to_ascii_lowercase();
    let title = lower.find("<title").and_then(|start| {
        let start = start + lower[start..].find('>')? + 1;
        let end = start + lower[start..].find('<')?;
        page.get(start..end)
    });
    one_line(title.unwrap_or_default(), 200)
}

/// At most `bytes_max` bytes of `text` in one line, without control characters.
pub(super) fn one_line(text: &str, bytes_max: usize) -> String {
    let mut line = String::new();
    for word in text.split(|character: char| character.is_whitespace() || character.is_control()) {
        if word.is_empty() {
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > bytes_max {
            line.truncate(line.floor_char_boundary(bytes_max));
            line.push('…');
            break;
        }
    }
    line
}
