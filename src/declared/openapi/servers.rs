//! Servers of a document.

use serde_json::Value;
use url::Url;

use super::declaration::OpenApiDeclaration;
use super::document::is_url;
use crate::declared::http::parse_origin;

/// The server of an operation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Server {
    /// Such as `https://api.example.com`.
    pub(super) origin: String,
    /// Path before the paths of operations, without a slash at its end.
    pub(super) base_path: String,
}

/// The server of an operation: that of the declaration, or the first of the operation, of its path
/// or of the document.
///
/// # Errors
///
/// The URL is invalid, or has no host.
pub(super) fn server_of(
    declaration: &OpenApiDeclaration,
    owners: [&Value; 3],
) -> Result<Server, String> {
    if let Some(url) = &declaration.server {
        return parse_server(url);
    }
    let is_given = |servers: &&Value| servers.as_array().is_some_and(|it| !it.is_empty());
    let servers = owners.into_iter().map(|owner| &owner["servers"]).find(is_given);
    let server = servers.map_or(&Value::Null, |servers| &servers[0]);
    let text = substitute(declaration, server)?;
    if is_url(&text) {
        return parse_server(&text);
    }
    if !is_url(&declaration.document) {
        return Err(format!("the URL of its server, {text:?}, has no host; write it as `server`"));
    }
    let joined = Url::parse(&declaration.document).and_then(|document| document.join(&text));
    parse_server(joined.map_err(|error| error.to_string())?.as_str())
}

/// The URL of a server with its variables.
fn substitute(declaration: &OpenApiDeclaration, server: &Value) -> Result<String, String> {
    let mut text = server["url"].as_str().unwrap_or("/").to_owned();
    let mut url = String::new();
    while let Some((before, after)) = text.split_once('{') {
        let (name, rest) = after.split_once('}').ok_or("the URL of its server has a brace")?;
        let variable = &server["variables"][name];
        let value = match declaration.server_variables.get(name) {
            Some(value) => value.as_str(),
            None => variable["default"]
                .as_str()
                .ok_or_else(|| format!("the URL of its server needs `server_variables.{name}`"))?,
        };
        url.push_str(before);
        url.push_str(value);
        text = rest.to_owned();
    }
    url.push_str(&text);
    Ok(url)
}

fn parse_server(text: &str) -> Result<Server, String> {
    let invalid = |message: String| format!("the URL of its server {message}");
    let start = text.find("://").map_or(0, |index| index + 3);
    let end = text[start..].find(['/', '?', '#']).map_or(text.len(), |index| start + index);
    let (base, path) = text.split_at(end);
    let origin = parse_origin(base).map_err(invalid)?;
    if path.contains(['?', '#', '{', '}']) {
        return Err(invalid("has a query, a fragment or a brace".to_owned()));
    }
    Ok(Server { origin, base_path: path.trim_end_matches('/').to_owned() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn server(document: &str, server: Option<&str>, url: &str) -> Result<String, String> {
        let declaration = OpenApiDeclaration {
            document: document.to_owned(),
            server: server.map(str::to_owned),
            ..OpenApiDeclaration::default()
        };
        let root =
            json!({ "servers": [{ "url": url, "variables": { "v": { "default": "v2" } } }] });
        let server = server_of(&declaration, [&json!({}), &json!({}), &root])?;
        Ok(format!("{} {}", server.origin, server.base_path))
    }

    #[test]
    fn server_is_declared_or_relative_to_document() {
        let absolute = server("a.json", None, "https://a.example:443/api/{v}/");
        assert_eq!(absolute.unwrap(), "https://a.example /api/v2");
        let relative = server("https://b.example/docs/openapi.json", None, "../{v}");
        assert_eq!(relative.unwrap(), "https://b.example /v2");
        let declared = server("a.json", Some("http://c.example:8080/x"), "https://a.example");
        assert_eq!(declared.unwrap(), "http://c.example:8080 /x");
        assert!(server("a.json", None, "/v1").unwrap_err().contains("`server`"));
        assert!(server("a.json", None, "https://{w}/").unwrap_err().contains("server_variables.w"));
        assert!(server("a.json", None, "ftp://a.example").is_err());
    }
}
