//! What requests over HTTP are checked with, as the options say.

use std::sync::Arc;
use std::{fmt, io};

use corelane_protocol::model::Implementation;

use crate::guard::auth::bearer;
use crate::guard::auth::token_table::{TokenDigest, digest_of};
use crate::guard::origin::{InvalidEntry, OriginGuard, OriginOptions};
use crate::server::card::ServerCard;
use crate::server::options::{HttpOptions, Options};
use crate::server::secret_file;

/// What requests over HTTP are checked with.
#[derive(Clone, Debug)]
pub struct RequestGuards {
    /// `Host` and `Origin` of requests of clients.
    pub clients: OriginGuard,
    /// `Host` and `Origin` of requests to the admin address.
    pub operators: OriginGuard,
    /// Of the token that operators need, if they need one.
    pub operator_token: Option<TokenDigest>,
    /// The server card, if it is served.
    pub card: Option<Arc<ServerCard>>,
}

impl RequestGuards {
    /// Reads the options and the file that they name.
    ///
    /// # Errors
    ///
    /// Which entry or file cannot be used.
    pub(super) fn load(options: &Options, info: &Implementation) -> io::Result<Self> {
        let card = ServerCard::new(options, info).map_err(io::Error::other)?;
        Ok(Self {
            clients: origin_guard(options).map_err(io::Error::other)?,
            operators: operator_guard(options).map_err(io::Error::other)?,
            operator_token: operator_token(options).map_err(io::Error::other)?,
            card: card.map(Arc::new),
        })
    }
}

/// Returns the `Host` and `Origin` check of the HTTP endpoint.
pub(super) fn origin_guard(options: &Options) -> Result<OriginGuard, InvalidEntry> {
    let HttpOptions { address, hosts, origins, .. } = &options.http;
    OriginGuard::new(&OriginOptions {
        is_loopback: address.is_some_and(|address| address.ip().is_loopback()),
        hosts: hosts.clone(),
        origins: origins.clone(),
    })
}

/// Returns the `Host` and `Origin` check of the admin address.
pub(super) fn operator_guard(options: &Options) -> Result<OriginGuard, InvalidEntry> {
    let is_loopback = options.admin.address.is_some_and(|it| it.ip().is_loopback());
    OriginGuard::new(&OriginOptions { is_loopback, hosts: Vec::new(), origins: Vec::new() })
}

/// Reads the token of operators; `None` if they need none.
///
/// # Errors
///
/// Why the file cannot be used.
pub(super) fn operator_token(options: &Options) -> Result<Option<TokenDigest>, String> {
    let Some(path) = &options.admin.token else { return Ok(None) };
    let named = |error: &dyn fmt::Display| format!("admin.token: {}: {error}", path.display());
    let text = secret_file::read_text(path).map_err(|error| named(&error))?;
    match bearer::read_token(text.trim().as_bytes()) {
        Ok(token) if token.len() >= TOKEN_BYTES_MIN => Ok(Some(digest_of(token))),
        Ok(_) => Err(named(&format!("the token is shorter than {TOKEN_BYTES_MIN} characters"))),
        Err(_) => Err(named(&"a token is one line of A-Z, a-z, 0-9 and -._~+/")),
    }
}

/// The least length of a token of operators.
const TOKEN_BYTES_MIN: usize = 16;
