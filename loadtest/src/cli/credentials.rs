//! Flags of TLS, bearer tokens and HTTP header fields.
//!
//! Secrets appear neither in errors nor in debug output. They are parsed after clap, since clap
//! repeats invalid values in its errors.

use std::path::PathBuf;

use clap::Args;
use corelane_load::mcp::{HttpField, Secret};
use corelane_load::plan::{Plan, PlanError};

/// Environment variable with a bearer token, used without the flag.
const BEARER_VARIABLE: &str = "CORELANE_LOAD_BEARER";
/// Environment variable with HTTP header fields, one in each line.
const HEADERS_VARIABLE: &str = "CORELANE_LOAD_HEADERS";

/// Flags of authentication and TLS.
#[derive(Args, Debug)]
pub(super) struct CredentialArguments {
    /// HTTP header field to add, such as "X-Team: a", or @FILE with one in each line; also from the
    /// variable `CORELANE_LOAD_HEADERS`.
    #[arg(long, short = 'H', value_name = "FIELD")]
    header: Vec<Secret>,
    /// Bearer token of every request. Arguments are visible to other users of this machine: prefer
    /// --bearer-file or the variable `CORELANE_LOAD_BEARER`.
    #[arg(long, value_name = "TOKEN", conflicts_with = "bearer_file")]
    bearer: Option<Secret>,
    /// File with the bearer token.
    #[arg(long, value_name = "FILE")]
    bearer_file: Option<PathBuf>,
    /// Trusted CA certificates (PEM), instead of those of this machine.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Accept any certificate; results say so.
    #[arg(long)]
    insecure: bool,
    /// Name expected in the server's certificate, instead of the host.
    #[arg(long, value_name = "NAME")]
    server_name: Option<String>,
    /// Client certificate chain (PEM).
    #[arg(long, value_name = "FILE")]
    cert: Option<PathBuf>,
    /// Private key of the client certificate (PEM).
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

impl CredentialArguments {
    /// Applies the flags to `plan`. The token of a flag takes precedence over the environment, and
    /// that over the plan.
    pub(super) fn apply(&self, plan: &mut Plan) -> Result<(), PlanError> {
        let shared = variable(HEADERS_VARIABLE)?;
        if let Some(fields) = &shared {
            add_headers(plan, fields.reveal(), HEADERS_VARIABLE)?;
        }
        for text in &self.header {
            if let Some(path) = text.reveal().strip_prefix('@') {
                let fields = std::fs::read_to_string(path).map_err(|error| {
                    PlanError(format!("cannot read {path}: {error}; correct --header"))
                })?;
                add_headers(plan, &fields, path)?;
            } else {
                let field = HttpField::parse(text.reveal());
                plan.headers.push(field.map_err(|why| PlanError(format!("--header: {why}")))?);
            }
        }
        if let Some(path) = &self.bearer_file {
            plan.bearer_file = Some(path.clone());
        } else {
            plan.bearer = match &self.bearer {
                Some(token) => Some(token.clone()),
                None => variable(BEARER_VARIABLE)?,
            };
        }
        let Self { ca, insecure, server_name, cert, key, .. } = self;
        let is_some = [ca, cert, key].into_iter().any(Option::is_some);
        if is_some || *insecure || server_name.is_some() {
            let tls = plan.tls.get_or_insert_default();
            tls.insecure |= insecure;
            let set = |option: &mut Option<PathBuf>, path: &Option<PathBuf>| {
                if path.is_some() {
                    option.clone_from(path);
                }
            };
            set(&mut tls.ca, ca);
            set(&mut tls.cert, cert);
            set(&mut tls.key, key);
            if server_name.is_some() {
                tls.server_name.clone_from(server_name);
            }
        }
        Ok(())
    }
}

/// Adds HTTP header fields, one in each line.
fn add_headers(plan: &mut Plan, fields: &str, source: &str) -> Result<(), PlanError> {
    for line in fields.lines().filter(|line| !line.trim().is_empty()) {
        let field = HttpField::parse(line).map_err(|why| PlanError(format!("{source}: {why}")))?;
        plan.headers.push(field);
    }
    Ok(())
}

/// Returns the value of an environment variable, unless it is empty.
fn variable(name: &str) -> Result<Option<Secret>, PlanError> {
    #[expect(clippy::disallowed_methods, reason = "read once, before the plan runs")]
    let value = std::env::var_os(name).filter(|value| !value.is_empty());
    let Some(value) = value else { return Ok(None) };
    let value = value.into_string();
    let value = value.map_err(|_| PlanError(format!("{name} is not UTF-8: unset it")))?;
    Ok(Some(Secret::from(value)))
}
