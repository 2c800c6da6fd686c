//! Authorization of the upgrade to WebSocket: a flow runs between two connections.

use super::redirect::RedirectSender;
use super::{HttpAuthorization, RefusalVerdict, judge};
use crate::error::ClientError;
use crate::io::peer_settings::PeerSettings;
use corelane_base::time::Instant;
use corelane_transport::http::client::request_writer::RequestFields;
use corelane_transport::websocket::client::UpgradeRefusal;

/// What the upgrades of one client have in common. Tokens are in the store.
#[derive(Debug)]
pub struct UpgradeAuthorization {
    redirects: RedirectSender,
    /// Refusals since the last connection that was of use.
    refusals: u32,
    /// The last nonce of the server (RFC 9449, section 8.2).
    nonce: Option<Box<str>>,
}

/// What follows a refused upgrade.
#[derive(Debug)]
pub enum UpgradeVerdict {
    /// The refusal does not concern authorization.
    Other,
    /// The upgrade is requested again after this.
    Authorize(Box<HttpAuthorization>),
    /// The upgrade is requested again at once.
    Repeat,
    /// The upgrade has failed.
    Refused(ClientError),
}

impl UpgradeAuthorization {
    pub const fn new(redirects: RedirectSender) -> Self {
        Self { redirects, refusals: 0, nonce: None }
    }

    pub const fn redirects(&self) -> &RedirectSender {
        &self.redirects
    }

    /// Passes the fields that authorize an upgrade to `write`.
    pub fn with_fields<O>(
        &self,
        settings: &PeerSettings,
        write: impl FnOnce(&RequestFields<'_>) -> O,
    ) -> O {
        let authorization = HttpAuthorization::new(settings, &self.redirects);
        let authorization = authorization.map(|it| it.with_nonce(self.nonce.as_deref()));
        let authorization = authorization.as_ref().map(|it| it.fields("GET")).unwrap_or_default();
        write(&RequestFields {
            authorization: authorization.value,
            dpop_proof: authorization.proof.as_deref(),
            ..RequestFields::default()
        })
    }

    /// Notes that an upgrade was accepted and a handshake is complete.
    pub const fn handle_ready(&mut self) {
        self.refusals = 0;
    }

    /// Judges why an upgrade was refused, if it was; begins a flow if the server asks for
    /// authorization.
    pub fn handle_refusal(
        &mut self,
        refusal: Option<&UpgradeRefusal>,
        settings: &PeerSettings,
        now: Instant,
    ) -> UpgradeVerdict {
        let Some(refusal) = refusal else { return UpgradeVerdict::Other };
        let authorization = HttpAuthorization::new(settings, &self.redirects);
        let Some(mut authorization) = authorization else { return UpgradeVerdict::Other };
        if let Some(nonce) = &refusal.dpop_nonce {
            self.nonce = Some(nonce.clone());
        }
        let attempt = self.refusals + 1;
        match judge(refusal.status, &refusal.challenges, attempt) {
            RefusalVerdict::Other => UpgradeVerdict::Other,
            RefusalVerdict::Failed(error) => {
                self.refusals = 0;
                UpgradeVerdict::Refused(error)
            }
            RefusalVerdict::Challenge { cause, needs_nonce } => {
                self.refusals = attempt;
                if needs_nonce && refusal.dpop_nonce.is_some() && authorization.needs_proof() {
                    return UpgradeVerdict::Repeat;
                }
                authorization.start(cause, now);
                UpgradeVerdict::Authorize(Box::new(authorization))
            }
        }
    }
}
