//! Access tokens of the gateway itself for an upstream, from the authorization server that the
//! upstream names. Those of callers are never passed on.

use corelane_client::{FileTokenStore, OAuthOptions, Target};

use crate::declared::{OAuthDeclaration, Problem};

/// Returns how the tokens for `target` are obtained. All clients of the upstream share them.
///
/// # Errors
///
/// A value is invalid, or does not fit another one. No error repeats a secret.
pub fn oauth_options(
    declaration: &OAuthDeclaration,
    target: &Target,
) -> Result<OAuthOptions, Problem> {
    let OAuthDeclaration { client_id, client_secret, private_key, issuer, scope, login, .. } =
        declaration;
    if target.http_url().is_none() {
        return Err(Problem::new("oauth", "needs a url of HTTP or WebSocket", "remove it"));
    }
    let mut options = OAuthOptions::new();
    options = match client_id {
        Some(_) if *login => {
            let message = "has client_id and login";
            return Err(Problem::new("oauth", message, "tokens come from one of them"));
        }
        Some(id) => options.client_credentials().client_id(id),
        None if client_secret.is_some() || private_key.is_some() => {
            return Err(Problem::new("oauth", "has no client_id", "name the client"));
        }
        None if *login => {
            let Some(store) = FileTokenStore::of_user() else {
                let message = "there is no folder of stored logins";
                return Err(Problem::new("oauth.login", message, "set HOME or XDG_STATE_HOME"));
            };
            options.store(store)
        }
        None => {
            let hint = "it has client_id and client_secret or private_key, or login = true";
            return Err(Problem::new("oauth", "says not where tokens come from", hint));
        }
    };
    if client_id.is_some() {
        options = with_proof(options, declaration)?;
    }
    if let Some(issuer) = issuer {
        options = options.issuer(issuer);
    }
    if let Some(scope) = scope {
        options = options.scope(scope);
    }
    Ok(options)
}

/// Sets how the client authenticates at the authorization server.
fn with_proof(
    options: OAuthOptions,
    declaration: &OAuthDeclaration,
) -> Result<OAuthOptions, Problem> {
    match (&declaration.client_secret, &declaration.private_key) {
        (Some(_), None) if declaration.issuer.is_none() => {
            let message = "is missing beside client_secret";
            let hint = "name the authorization server that may receive the secret";
            Err(Problem::new("oauth.issuer", message, hint))
        }
        (Some(secret), None) => Ok(options.client_secret(secret.trim_end())),
        (None, Some(key)) => with_key(options, key, declaration.algorithm.as_deref()),
        _ => {
            let message = "needs either client_secret or private_key";
            Err(Problem::new("oauth", message, "the client authenticates with one of them"))
        }
    }
}

#[cfg(feature = "oauth-jwt")]
fn with_key(
    options: OAuthOptions,
    key: &str,
    algorithm: Option<&str>,
) -> Result<OAuthOptions, Problem> {
    use corelane_client::SigningAlgorithm;

    let name = algorithm.unwrap_or("ES256");
    let Some(algorithm) = SigningAlgorithm::from_name(name) else {
        let message = format!("{name:?} is no algorithm");
        let hint = "write ES256, ES384, RS256, PS256 or EdDSA";
        return Err(Problem::new("oauth.algorithm", message, hint));
    };
    options.private_key(key.as_bytes(), algorithm).map_err(|error| {
        let hint = "write \"${file:/path/to/key.pem}\" and its algorithm";
        Problem::new("oauth.private_key", error.message().to_owned(), hint)
    })
}

#[cfg(not(feature = "oauth-jwt"))]
fn with_key(_: OAuthOptions, _: &str, _: Option<&str>) -> Result<OAuthOptions, Problem> {
    let message = "needs a build with the feature oauth-jwt";
    Err(Problem::new("oauth.private_key", message, "use client_secret"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "client_id = \"a\"\n";

    fn problem_of(target: &str, text: &str) -> String {
        let declaration = toml::from_str(text).expect("a declaration");
        let target = target.parse().expect("a target");
        oauth_options(&declaration, &target).expect_err("a problem").to_string()
    }

    #[test]
    fn invalid_oauth_of_upstream_is_named() {
        let secret = "client_secret = \"hidden\"\n";
        let key = "private_key = \"hidden\"\n";
        for (text, expected) in [
            (String::new(), "oauth: says not where"),
            (ID.to_owned(), "oauth: needs either"),
            (format!("{ID}{secret}{key}"), "oauth: needs either"),
            (format!("{ID}login = true"), "oauth: has client_id and login"),
            (secret.to_owned(), "oauth: has no client_id"),
            (format!("{ID}{secret}"), "oauth.issuer: is missing"),
            #[cfg(feature = "oauth-jwt")]
            (format!("{ID}{key}"), "oauth.private_key: the private key of the client is no PEM"),
            #[cfg(feature = "oauth-jwt")]
            (format!("{ID}{key}algorithm = \"none\""), "oauth.algorithm: \"none\""),
        ] {
            let problem = problem_of("https://example.com/mcp", &text);
            assert!(problem.starts_with(expected), "{problem}");
            assert!(!problem.contains("hidden"), "{problem}");
        }
        let complete = format!("{ID}{secret}issuer = \"https://example.com\"");
        let problem = problem_of("tcp://127.0.0.1:1", &complete);
        assert!(problem.starts_with("oauth: needs a url"), "{problem}");
    }
}
