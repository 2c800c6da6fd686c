//! How the client commands authorize their requests: header fields, bearer tokens and logins; their
//! flags, and where tokens are kept.
//!
//! Secrets appear in no error: they are read after clap, which repeats invalid values.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, value_parser};
use corelane_client::{FileTokenStore, OAuthOptions, Target, TokenStore};

use crate::cli::client::failure::{Failure, print_note};

const HEADER: &str = "header";
const TOKEN_FILE: &str = "token-file";
/// Environment variable with a bearer token, which is used without a flag.
const TOKEN_VARIABLE: &str = "CORELANE_TOKEN";
/// Environment variable that programs have their token from.
const PROGRAM_VARIABLE: &str = "MCP_AUTH_TOKEN";
/// What a header is written as.
const HEADER_FORM: &str = "write NAME: VALUE, or @FILE with one on each line";

pub(crate) fn arguments() -> [Arg; 2] {
    [
        Arg::new(HEADER)
            .short('H')
            .long(HEADER)
            .value_name("NAME: VALUE|@FILE")
            .action(ArgAction::Append)
            .help(
                "Add a header to each HTTP request, such as Authorization, or those of a file \
                 with one on each line; repeatable",
            ),
        Arg::new(TOKEN_FILE)
            .long(TOKEN_FILE)
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help("File with the bearer token to send [the variable CORELANE_TOKEN]"),
    ]
}

/// What a command sends to be served.
pub(crate) struct Credentials {
    /// Names and values.
    pub(crate) headers: Vec<(String, String)>,
    /// The bearer token, unless it is in a header.
    pub(crate) token: Option<String>,
}

impl Credentials {
    /// Reads the flags, and the environment. Where there are no headers, `Authorization` is read as
    /// the token.
    pub(crate) fn from_matches(matches: &ArgMatches, target: &Target) -> Result<Self, Failure> {
        let mut headers = Vec::new();
        for text in matches.get_many::<String>(HEADER).into_iter().flatten() {
            read_headers(text, &mut headers).map_err(Failure::Usage)?;
        }
        let has_headers = matches!(target, Target::Http(_) | Target::WebSocket(_));
        let is_authorization =
            |(name, _): &(String, String)| name.eq_ignore_ascii_case("authorization");
        let given = headers.iter().position(is_authorization);
        let file = matches.get_one::<PathBuf>(TOKEN_FILE);
        let token = match (given, file) {
            (Some(_), Some(_)) => {
                let text = format!("give --{TOKEN_FILE} or a header Authorization, not both");
                return Err(Failure::Usage(text));
            }
            (Some(_), None) if has_headers => None,
            (Some(index), None) => Some(token_of_header(&headers.remove(index).1)),
            (None, Some(path)) => Some(read_token(path).map_err(Failure::Usage)?),
            (None, None) if matches!(target, Target::Stdio(_)) => None,
            (None, None) => variable(TOKEN_VARIABLE).map_err(Failure::Usage)?,
        };
        Ok(Self { headers, token })
    }

    /// Returns whether they authorize the requests.
    pub(crate) fn has_authorization(&self) -> bool {
        let mut names = self.headers.iter().map(|(name, _)| name);
        self.token.is_some() || names.any(|name| name.eq_ignore_ascii_case("authorization"))
    }

    /// Passes the token to the program of a target, which has it from its environment.
    pub(crate) fn pass_to_program(&mut self, target: Target) -> Target {
        match (target, self.token.take()) {
            (Target::Stdio(program), Some(token)) => program.env(PROGRAM_VARIABLE, token).into(),
            (target, token) => {
                self.token = token;
                target
            }
        }
    }
}

/// Reads `NAME: VALUE`, or a file of such lines. No error repeats a value.
fn read_headers(text: &str, headers: &mut Vec<(String, String)>) -> Result<(), String> {
    let Some(path) = text.strip_prefix('@') else {
        let header = parse_header(text).ok_or_else(|| format!("--{HEADER}: {HEADER_FORM}"))?;
        headers.push(header);
        return Ok(());
    };
    let lines = fs::read_to_string(path)
        .map_err(|error| format!("--{HEADER}: {path} cannot be read: {error}"))?;
    for (index, line) in lines.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let header = parse_header(line)
            .ok_or_else(|| format!("--{HEADER}: {path}, line {}: write NAME: VALUE", index + 1))?;
        headers.push(header);
    }
    Ok(())
}

fn parse_header(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once(':').filter(|(name, _)| !name.trim().is_empty())?;
    Some((name.trim().to_owned(), value.trim().to_owned()))
}

/// Returns the token of a value of `Authorization`.
fn token_of_header(value: &str) -> String {
    match value.split_at_checked("bearer ".len()) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer ") => token.trim().to_owned(),
        _ => value.to_owned(),
    }
}

fn read_token(path: &Path) -> Result<String, String> {
    let text = fs::read_to_string(path)
        .map_err(|error| format!("--{TOKEN_FILE}: {} cannot be read: {error}", path.display()))?;
    check_token(&text).map_err(|reason| format!("--{TOKEN_FILE}: {}: {reason}", path.display()))
}

/// Returns the token of an environment variable, unless it is empty.
fn variable(name: &str) -> Result<Option<String>, String> {
    #[expect(clippy::disallowed_methods, reason = "a secret is no option, which check prints")]
    let value = std::env::var_os(name).filter(|value| !value.is_empty());
    let Some(value) = value else { return Ok(None) };
    let token = check_token(&value.to_string_lossy());
    token.map(Some).map_err(|reason| format!("{name}: {reason}"))
}

/// Returns a token without white space around it.
fn check_token(text: &str) -> Result<String, &'static str> {
    match text.trim() {
        "" => Err("it has no token"),
        token if token.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(token.to_owned()),
        _ => Err("a token is one word of visible ASCII characters"),
    }
}

pub(crate) const LOGIN: &str = "login";
const CLIENT_ID: &str = "client-id";
const CLIENT_SECRET_FILE: &str = "client-secret-file";
const SCOPE: &str = "scope";
const NO_RESOURCE: &str = "no-resource";

pub(crate) fn login_arguments() -> [Arg; 5] {
    [
        Arg::new(LOGIN)
            .long(LOGIN)
            .action(ArgAction::SetTrue)
            .help("Print a URL to open in a browser if the server asks for a login (OAuth)"),
        Arg::new(CLIENT_ID)
            .long(CLIENT_ID)
            .value_name("ID")
            .requires(LOGIN)
            .help("Client id at the authorization server [registered at the login]"),
        Arg::new(CLIENT_SECRET_FILE)
            .long(CLIENT_SECRET_FILE)
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .requires(CLIENT_ID)
            .help("File with the secret of the client"),
        Arg::new(SCOPE)
            .long(SCOPE)
            .value_name("SCOPES")
            .requires(LOGIN)
            .help("Scopes to ask for, separated by spaces [those that the server names]"),
        Arg::new(NO_RESOURCE).long(NO_RESOURCE).action(ArgAction::SetTrue).requires(LOGIN).help(
            "Leave out the parameter resource (RFC 8707), for an authorization server that \
             refuses it",
        ),
    ]
}

/// Returns how to authorize the requests to `target`: with a login, or with the tokens of an
/// earlier one. `None` if there is neither.
pub(crate) fn oauth_options(
    matches: &ArgMatches,
    target: &Target,
) -> Result<Option<OAuthOptions>, Failure> {
    let is_login = matches.get_flag(LOGIN);
    let Some(url) = target.http_url() else {
        let text = format!("--{LOGIN} needs a target of HTTP or WebSocket");
        return if is_login { Err(Failure::Usage(text)) } else { Ok(None) };
    };
    let store = FileTokenStore::of_user();
    let mut options = OAuthOptions::new();
    if let Some(store) = &store {
        options = options.store(store.clone());
    }
    if !is_login {
        let stored = store.and_then(|store| {
            let loaded = store.load(url.as_str());
            loaded.inspect_err(|error| print_note(&format!("no stored login: {error}"))).ok()?
        });
        return Ok(stored.map(|_| options));
    }
    if let Some(id) = matches.get_one::<String>(CLIENT_ID) {
        options = options.client_id(id);
    }
    if let Some(path) = matches.get_one::<PathBuf>(CLIENT_SECRET_FILE) {
        let secret = fs::read_to_string(path).map_err(|error| {
            Failure::Usage(format!("--{CLIENT_SECRET_FILE}: {}: {error}", path.display()))
        })?;
        options = options.client_secret(secret.trim());
    }
    if let Some(scope) = matches.get_one::<String>(SCOPE) {
        options = options.scope(scope);
    }
    if matches.get_flag(NO_RESOURCE) {
        options = options.without_resource();
    }
    Ok(Some(options.on_authorization_url(|url| {
        print_note(&format!("Open this page to allow access:\n{url}"));
    })))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn headers_are_read_from_text_and_file() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"X-Team: a:b\r\n\n  X-Empty:\n").unwrap();
        let mut headers = Vec::new();
        read_headers("X-One: 1 ", &mut headers).unwrap();
        read_headers(&format!("@{}", file.path().display()), &mut headers).unwrap();
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(headers, [("X-One", "1"), ("X-Team", "a:b"), ("X-Empty", "")]);
    }

    #[test]
    fn error_of_header_has_no_value() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"A: b\nsecret\n").unwrap();
        let error = read_headers("secret", &mut Vec::new()).unwrap_err();
        assert!(error.contains("NAME: VALUE") && !error.contains("secret"), "{error}");
        let path = format!("@{}", file.path().display());
        let error = read_headers(&path, &mut Vec::new()).unwrap_err();
        assert!(error.contains("line 2") && !error.contains("secret"), "{error}");
        assert!(read_headers("@/no/such/file", &mut Vec::new()).is_err());
    }

    #[test]
    fn token_is_one_word() {
        assert_eq!(check_token(" abc\n"), Ok("abc".to_owned()));
        assert!(check_token(" \n").is_err() && check_token("a b").is_err());
        assert_eq!(token_of_header("bearer  abc"), "abc");
        assert_eq!(token_of_header("abc"), "abc");
    }
}
