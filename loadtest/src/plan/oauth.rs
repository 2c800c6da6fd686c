//! The sections `[oauth]` and `[scenario.oauth]` of a plan: how users sign in.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PlanError;
use crate::mcp::{Secret, UserData};
use crate::sign_in::{ClientCredentials, Credentials};

/// How users get the tokens of their requests from the authorization server that the target names,
/// over HTTP and WebSocket. Tokens are renewed when 80 % of their life time have passed.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct OAuthPlan {
    /// Client id at the authorization server, for tokens of the client itself (client credentials);
    /// or `{{user COLUMN}}` of the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// File with the client secret, relative to the plan. Default none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_secret_file: Option<PathBuf>,
    /// Client secret of each user: `{{user COLUMN}}` of the data. Default none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// Scopes to ask for, separated by spaces. Default: those that the server names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The only authorization server that may be used: its issuer, exactly. Recommended with a
    /// secret, which no other may receive. Default: the one that the server names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// Uses the login that `corelane … --login` has stored for the target, and refreshes it there;
    /// without `client_id`. Default false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub login: bool,
}

/// Returns the column that `{{user COLUMN}}` names.
pub(super) fn user_column(key: &str, text: &str, columns: &[String]) -> Result<usize, PlanError> {
    let column = placeholder(text).and_then(|inner| inner.strip_prefix("user "));
    let place = column.and_then(|name| columns.iter().position(|it| it == name.trim()));
    place.ok_or_else(|| {
        PlanError(format!(
            "{key}: write {{{{user COLUMN}}}} with a column of data; there are {}",
            if columns.is_empty() { "none".to_owned() } else { columns.join(", ") }
        ))
    })
}

/// Returns what is between the braces, if `text` is a placeholder.
fn placeholder(text: &str) -> Option<&str> {
    Some(text.strip_prefix("{{")?.strip_suffix("}}")?.trim())
}

impl OAuthPlan {
    /// Adds the credentials of the users of a scenario to `all`. Returns their indices for each row
    /// of the data in turn, or one for all users.
    pub(super) fn build(
        &self,
        data: Option<&UserData>,
        directory: &Path,
        all: &mut Vec<Credentials>,
    ) -> Result<Vec<usize>, PlanError> {
        let Self { client_id, client_secret_file, client_secret, scope, issuer, login } = self;
        let credentials = |client| {
            let (scope, issuer) = (scope.clone(), issuer.clone());
            Credentials { client, scope, issuer }
        };
        let has_secret = client_secret.is_some() || client_secret_file.is_some();
        let id = match client_id {
            None if !*login => {
                return Err(PlanError::new("oauth: add client_id, or login = true"));
            }
            None if has_secret => {
                return Err(PlanError::new("oauth: a client secret needs client_id"));
            }
            None => {
                all.push(credentials(None));
                return Ok(vec![all.len() - 1]);
            }
            Some(_) if *login => {
                return Err(PlanError::new("oauth: write client_id or login = true, not both"));
            }
            Some(id) => id,
        };
        let columns = data.map_or(&[][..], UserData::columns);
        let is_column = placeholder(id).is_some();
        let id_column = is_column.then(|| user_column("client_id", id, columns)).transpose()?;
        let secret_column = client_secret.as_ref().map(|text| {
            let found = user_column("client_secret", text, columns);
            found.map_err(|error| PlanError(format!("{error}; or client_secret_file = \"FILE\"")))
        });
        let secret_column = secret_column.transpose()?;
        let shared = self.read_secret(directory)?;
        let is_own = id_column.or(secret_column).is_some();
        let rows = if is_own { data.map_or(0, UserData::rows) } else { 1 };
        let field = |row: usize, column: Option<usize>| data?.text(row, column?);
        let mut known = HashMap::new();
        let of_row = (0..rows).map(|row| {
            let id = field(row, id_column).unwrap_or_else(|| id.clone());
            let secret = field(row, secret_column).or_else(|| shared.clone());
            *known.entry((id.clone(), secret.clone())).or_insert_with(|| {
                all.push(credentials(Some(ClientCredentials {
                    id,
                    secret: secret.map(Secret::from),
                })));
                all.len() - 1
            })
        });
        Ok(of_row.collect())
    }

    /// Reads the secret of all users.
    fn read_secret(&self, directory: &Path) -> Result<Option<String>, PlanError> {
        let Some(path) = &self.client_secret_file else { return Ok(None) };
        if self.client_secret.is_some() {
            return Err(PlanError::new(
                "oauth: write client_secret or client_secret_file, not both",
            ));
        }
        let path = directory.join(path);
        let shown = path.display();
        let text = std::fs::read_to_string(&path).map_err(|error| {
            let hint = "name a file that holds the client secret";
            PlanError(format!("oauth: cannot read {shown}: {error}; {hint}"))
        })?;
        match text.trim() {
            "" => Err(PlanError(format!("oauth: {shown} has no secret: write it there"))),
            secret => Ok(Some(secret.to_owned())),
        }
    }
}
