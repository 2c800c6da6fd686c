//! Asks an authorization server about tokens, on the thread that fetches keys.
//!
//! Invariants: one token is asked about at a time; after a failure nothing is asked for
//! [`RETRY_AFTER`], so that a server that is away costs no waiting.

use std::fmt;
use std::fs;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use corelane_base::time::Instant;
use sha2::{Digest, Sha256};
use url::Url;
use url::form_urlencoded::{self, Serializer};

use super::fetch::{self, Fetcher, Form};
use crate::guard::auth::introspection::{IntrospectedToken, TokenStatus};
use crate::server::options::AuthOptions;
use crate::telemetry::auth_event::AuthEvent;
use crate::telemetry::event::Event;

/// Time after a failure during which every token is unanswered.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Time between two log lines about failures.
const LOG_INTERVAL: Duration = Duration::from_secs(30);

/// The introspection endpoint, and the credential of this server there.
pub(super) struct Introspector {
    url: Url,
    authorization: Option<Box<str>>,
}

/// Failures of the endpoint.
#[derive(Debug, Default)]
pub(super) struct Failures {
    away_until: Option<Instant>,
    logged_at: Option<Instant>,
}

impl Introspector {
    /// Reads the options; `None` without an endpoint.
    ///
    /// # Errors
    ///
    /// Which option or file cannot be used, and why. The text has no part of the secret.
    pub(super) fn load(options: &AuthOptions) -> Result<Option<Self>, String> {
        let Some(url) = &options.introspection else {
            return match options.introspection_client.first() {
                None => Ok(None),
                Some(_) => Err("auth.introspection_client needs auth.introspection".to_owned()),
            };
        };
        let url = fetch::parse_url(url).map_err(|error| format!("auth.introspection: {error}"))?;
        let authorization = match &options.introspection_client[..] {
            [] => None,
            [path] => {
                let text = fs::read_to_string(path).map_err(|error| error.to_string());
                let authorization = text.and_then(|text| basic_authorization(&text));
                let name = path.display();
                Some(
                    authorization
                        .map_err(|what| format!("auth.introspection_client: {name}: {what}"))?,
                )
            }
            _ => return Err("auth.introspection_client lists more than one file".to_owned()),
        };
        Ok(Some(Self { url, authorization }))
    }

    /// Asks about a token.
    pub(super) fn introspect(
        &self,
        fetcher: &Fetcher,
        token: &str,
        (failures, now): (&mut Failures, Instant),
    ) -> IntrospectedToken {
        let digest = Sha256::digest(token.as_bytes()).into();
        if failures.away_until.is_some_and(|until| now < until) {
            return IntrospectedToken { digest, status: None };
        }
        let body = Serializer::new(String::new())
            .append_pair("token", token)
            .append_pair("token_type_hint", "access_token")
            .finish();
        let form = Form { authorization: self.authorization.as_deref(), body: &body };
        let fetched = fetcher.fetch(&self.url, Some(&form));
        match fetched.and_then(|it| TokenStatus::parse(&it.body)) {
            Ok(status) => {
                *failures = Failures::default();
                IntrospectedToken { digest, status: Some(status) }
            }
            Err(error) => {
                failures.away_until = Some(now.after(RETRY_AFTER));
                if failures.logged_at.is_none_or(|at| now.since(at) >= LOG_INTERVAL) {
                    failures.logged_at = Some(now);
                    let location = self.url.as_str();
                    Event::Auth(AuthEvent::IntrospectionFailed { location, error: &error }).emit();
                }
                IntrospectedToken { digest, status: None }
            }
        }
    }
}

impl fmt::Debug for Introspector {
    /// Does not print the credential.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Introspector").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Returns the value of `Authorization` for `client_id:client_secret` (`client_secret_basic`, RFC
/// 6749, section 2.3.1).
fn basic_authorization(text: &str) -> Result<Box<str>, String> {
    let (id, secret) = text.trim().split_once(':').ok_or("write CLIENT_ID:CLIENT_SECRET")?;
    let encode =
        |text: &str| -> String { form_urlencoded::byte_serialize(text.as_bytes()).collect() };
    let pair = format!("{}:{}", encode(id), encode(secret));
    Ok(format!("Basic {}", BASE64_STANDARD.encode(pair)).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_credential_is_encoded_before_base64() {
        // `my id:a%3Ab` in a form.
        let value = basic_authorization("my id:a:b\n").unwrap();
        let encoded = value.strip_prefix("Basic ").unwrap();
        assert_eq!(BASE64_STANDARD.decode(encoded).unwrap(), b"my+id:a%3Ab");
        assert!(basic_authorization("secret").is_err());
    }

    #[test]
    fn debug_output_hides_the_credential() {
        let introspector = Introspector {
            url: Url::parse("https://as.test/introspect").unwrap(),
            authorization: Some(basic_authorization("id:secret").unwrap()),
        };
        assert!(!format!("{introspector:?}").contains("Basic"));
    }
}
