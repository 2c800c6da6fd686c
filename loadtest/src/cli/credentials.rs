//! Flags that say who the server is and who we are: TLS, tokens, fields of HTTP.
//!
//! What it keeps true: no secret is in an error or in debug output. So what may be one is read as
//! it is and looked at later: clap would repeat a value that it does not accept.

use std::path::PathBuf;

use clap::Args;
use corelane::config::environment;
use corelane_load::dialogue::{Field, Secret};
use corelane_load::plan::{Plan, Wrong};

/// The variable that holds a bearer token, where no flag does.
const BEARER_VARIABLE: &str = "CORELANE_LOAD_BEARER";

/// Who the server is, and who we are.
#[derive(Args, Debug)]
pub(super) struct CredentialArguments {
    /// A field of HTTP, such as "X-Team: a".
    #[arg(long, value_name = "FIELD")]
    header: Vec<Secret>,
    /// The token of every request, shown as "Authorization: Bearer …". Other users of this machine
    /// can see arguments: --bearer-file or the variable `CORELANE_LOAD_BEARER` keep it from them.
    #[arg(long, value_name = "TOKEN", conflicts_with = "bearer_file")]
    bearer: Option<Secret>,
    /// A file that holds the token.
    #[arg(long, value_name = "FILE")]
    bearer_file: Option<PathBuf>,
    /// The issuers that are trusted over TLS, in PEM, instead of those of this machine.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Accept any certificate: whoever stands in between can read everything, and results say so.
    #[arg(long)]
    insecure: bool,
    /// The name that the server's certificate has to be for, instead of the host.
    #[arg(long, value_name = "NAME")]
    server_name: Option<String>,
    /// The client's certificate, in PEM.
    #[arg(long, value_name = "FILE")]
    cert: Option<PathBuf>,
    /// The key of the client's certificate, in PEM.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

impl CredentialArguments {
    /// Has `plan` say what the flags say. A token of a flag goes before that of the environment,
    /// and that before the one that the plan names.
    pub(super) fn apply(&self, plan: &mut Plan) -> Result<(), Wrong> {
        for text in &self.header {
            let field = Field::parse(text.reveal());
            plan.fields.push(field.map_err(|why| Wrong(format!("--header: {why}")))?);
        }
        if let Some(path) = &self.bearer_file {
            plan.bearer_file = Some(path.clone());
        } else {
            plan.bearer = match &self.bearer {
                Some(token) => Some(token.clone()),
                None => bearer_of_environment()?,
            };
        }
        let Self { ca, insecure, server_name, cert, key, .. } = self;
        let is_some = [ca, cert, key].into_iter().any(Option::is_some);
        if is_some || *insecure || server_name.is_some() {
            let tls = plan.tls.get_or_insert_default();
            tls.insecure |= insecure;
            let put = |place: &mut Option<PathBuf>, path: &Option<PathBuf>| {
                if path.is_some() {
                    place.clone_from(path);
                }
            };
            put(&mut tls.ca, ca);
            put(&mut tls.cert, cert);
            put(&mut tls.key, key);
            if server_name.is_some() {
                tls.server_name.clone_from(server_name);
            }
        }
        Ok(())
    }
}

fn bearer_of_environment() -> Result<Option<Secret>, Wrong> {
    let mut variables = environment::variables().into_iter();
    let Some((_, token)) = variables.find(|(name, _)| name == BEARER_VARIABLE) else {
        return Ok(None);
    };
    let token = token.into_string();
    let token = token.map_err(|_| Wrong(format!("{BEARER_VARIABLE} holds no text: unset it")))?;
    Ok(Some(Secret::from(token)))
}
