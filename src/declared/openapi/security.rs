//! Security schemes: where the credentials of requests stand.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use serde_json::Value;

use super::declaration::{BasicCredentials, OpenApiDeclaration, SecurityValue};
use super::document::Document;
use crate::declared::http::{
    Parameter, ParameterStyle, QueryPart, RequestTemplate, Source, is_own_header,
};
use crate::declared::problem::Problem;

/// A credential in its place.
#[derive(Clone)]
enum Credential {
    Header(HeaderCredential),
    Query(Parameter),
    Cookie(Parameter),
}

#[derive(Clone)]
struct HeaderCredential {
    name: HeaderName,
    value: HeaderValue,
}

/// The credentials that the declaration has, by the names of their schemes.
pub(super) struct Credentials {
    values: BTreeMap<String, Credential>,
    is_anonymous_allowed: bool,
}

impl Credentials {
    /// Finds the places of the values of a declaration.
    ///
    /// # Errors
    ///
    /// A value is for a scheme that the document does not have, or that is not supported.
    pub(super) fn new(
        declaration: &OpenApiDeclaration,
        document: &Document,
    ) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut values = BTreeMap::new();
        let schemes = &document.root()["components"]["securitySchemes"];
        for (name, value) in &declaration.security {
            let key = format!("security.{name}");
            let Some(scheme) = schemes.get(name) else {
                let known: Vec<&str> = schemes
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(name, _)| name.as_str())
                    .collect();
                let hint = if known.is_empty() {
                    "the document has no security schemes: use headers".to_owned()
                } else {
                    format!("the document has {}", known.join(", "))
                };
                problems.push(Problem::new(key, "is not a security scheme of the document", hint));
                continue;
            };
            let credential = document.resolve(scheme).and_then(|scheme| credential(scheme, value));
            match credential {
                Ok(credential) => {
                    values.insert(name.clone(), credential);
                }
                Err(message) => {
                    let hint = "correct the value, or use headers instead";
                    problems.push(Problem::new(key, message, hint));
                }
            }
        }
        let is_anonymous_allowed = declaration.anonymous;
        if problems.is_empty() { Ok(Self { values, is_anonymous_allowed }) } else { Err(problems) }
    }

    /// Adds the credentials that an operation needs.
    ///
    /// # Errors
    ///
    /// For each alternative of the operation a value is missing.
    pub(super) fn apply(
        &self,
        requirements: &Value,
        request: &mut RequestTemplate,
    ) -> Result<(), String> {
        let Some(alternatives) = requirements.as_array().filter(|it| !it.is_empty()) else {
            return Ok(());
        };
        let names = |alternative: &Value| -> Vec<String> {
            alternative.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect()
        };
        let mut alternatives: Vec<Vec<String>> = alternatives.iter().map(names).collect();
        // No credentials are the last alternative.
        alternatives.sort_by_key(Vec::is_empty);
        let has_all = |names: &&Vec<String>| names.iter().all(|it| self.values.contains_key(it));
        let Some(chosen) = alternatives.iter().find(has_all) else {
            if self.is_anonymous_allowed {
                return Ok(());
            }
            let missing: Vec<String> = alternatives.iter().map(|it| it.join(" and ")).collect();
            return Err(format!(
                "needs a value for the security scheme {}; add it to `security`, or allow \
                 `anonymous`",
                missing.join(", or ")
            ));
        };
        for credential in chosen.iter().filter_map(|name| self.values.get(name)) {
            match credential.clone() {
                Credential::Header(HeaderCredential { name, value }) => {
                    request.headers.insert(name, value);
                }
                Credential::Query(parameter) => {
                    request.query.push(QueryPart::Parameter(parameter));
                }
                Credential::Cookie(parameter) => request.cookies.push(parameter),
            }
        }
        Ok(())
    }
}

fn credential(scheme: &Value, value: &SecurityValue) -> Result<Credential, String> {
    let text = |field: &str| scheme[field].as_str().unwrap_or_default();
    match (text("type"), text("scheme").to_ascii_lowercase().as_str()) {
        ("apiKey", _) => api_key(text("in"), text("name"), value),
        ("http", "bearer") | ("oauth2" | "openIdConnect", _) => {
            let token = single(value)?;
            header(AUTHORIZATION, &format!("Bearer {token}"))
        }
        ("http", "basic") => {
            let pair = match value {
                SecurityValue::Value(pair) if pair.contains(':') => pair.clone(),
                SecurityValue::Value(_) => {
                    return Err("has no colon between user name and password".to_owned());
                }
                SecurityValue::Basic(BasicCredentials { username, password }) => {
                    format!("{username}:{password}")
                }
            };
            header(AUTHORIZATION, &format!("Basic {}", STANDARD.encode(pair)))
        }
        (kind, scheme) => Err(format!("is of the type {kind} {scheme}, which is not supported")),
    }
}

fn api_key(place: &str, name: &str, value: &SecurityValue) -> Result<Credential, String> {
    let value = single(value)?;
    let parameter = || Parameter {
        name: name.to_owned(),
        source: Source::Fixed(value.to_owned()),
        style: ParameterStyle::Form,
        explode: true,
        allow_reserved: false,
    };
    match place {
        "query" => Ok(Credential::Query(parameter())),
        "cookie" => Ok(Credential::Cookie(parameter())),
        "header" => {
            let invalid = || format!("is for the header {name:?}, which cannot be set");
            let header_name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
            if is_own_header(name) {
                return Err(invalid());
            }
            header(header_name, value)
        }
        other => Err(format!("is in {other:?}, not in a header, the query or a cookie")),
    }
}

fn header(name: HeaderName, value: &str) -> Result<Credential, String> {
    let mut value = HeaderValue::from_str(value.trim())
        .map_err(|_| "has a line feed or a control character".to_owned())?;
    value.set_sensitive(true);
    Ok(Credential::Header(HeaderCredential { name, value }))
}

fn single(value: &SecurityValue) -> Result<&str, String> {
    match value {
        SecurityValue::Value(value) => Ok(value.trim()),
        SecurityValue::Basic(_) => Err("is user name and password, not one value".to_owned()),
    }
}
