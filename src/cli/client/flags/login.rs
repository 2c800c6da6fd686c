//! Authorization of the client commands: flags, and where tokens are kept.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, value_parser};
use corelane_client::{FileTokenStore, OAuthOptions, Target, TokenStore};

use crate::cli::client::failure::{Failure, print_note};

pub(crate) const LOGIN: &str = "login";
const CLIENT_ID: &str = "client-id";
const CLIENT_SECRET_FILE: &str = "client-secret-file";
const SCOPE: &str = "scope";
const NO_RESOURCE: &str = "no-resource";

/// Returns the flags.
pub(crate) fn arguments() -> [Arg; 5] {
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
pub(crate) fn options(
    matches: &ArgMatches,
    target: &Target,
) -> Result<Option<OAuthOptions>, Failure> {
    let is_login = matches.get_flag(LOGIN);
    let Some(url) = target.http_url() else {
        let text = format!("--{LOGIN} needs a target of HTTP or WebSocket");
        return if is_login { Err(Failure::Usage(text)) } else { Ok(None) };
    };
    let store = directory().map(FileTokenStore::new);
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
        let secret = std::fs::read_to_string(path).map_err(|error| {
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

/// Returns the directory of tokens: below that for the state of programs (XDG Base Directory
/// Specification).
fn directory() -> Option<PathBuf> {
    let state = absolute_variable("XDG_STATE_HOME")
        .or_else(|| Some(absolute_variable("HOME")?.join(".local/state")))?;
    Some(state.join("corelane/tokens"))
}

#[expect(clippy::disallowed_methods, reason = "directories of the user are no options")]
fn absolute_variable(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os(name)?);
    path.is_absolute().then_some(path)
}
