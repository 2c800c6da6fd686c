//! Proofs of the key to which a token is bound: such a token alone is no credential.
//!
//! Source: RFC 8705, section 3 (certificates of TLS clients); RFC 9449, section 7 (DPoP).

use corelane_base::principal::{Binding, Principal};

use super::certificates::ClientCertificate;
use super::{AuthError, InvalidToken, TokenFault};

/// What a request proves besides its token.
#[derive(Clone, Copy, Debug, Default)]
pub struct Proof<'a> {
    /// The certificate of the client of the connection.
    pub certificate: Option<&'a ClientCertificate>,
    /// The proof of a key.
    pub key: KeyProof<'a>,
}

/// The proof of a key, as the token came.
#[derive(Clone, Copy, Debug, Default)]
pub enum KeyProof<'a> {
    /// The transport has no proofs.
    #[default]
    Unsupported,
    /// The token came with the scheme `Bearer`.
    Bearer,
    /// The token came with the scheme `DPoP`, and with this.
    Sent(SentProof<'a>),
    /// The proof was verified when the connection or its stream was opened.
    Verified,
}

/// A proof with the request that it is for.
#[derive(Clone, Copy, Debug)]
pub struct SentProof<'a> {
    /// The values of the first two fields `DPoP`.
    pub values: [Option<&'a [u8]>; 2],
    /// The method of the request.
    pub method: &'a str,
    /// The path of the request.
    pub path: &'a str,
    /// Whether that is the path of the MCP endpoint, which clients know as the resource.
    pub is_endpoint: bool,
}

impl<'a> Proof<'a> {
    /// Checks that it proves the key to which the token of `principal` is bound, if it is. Returns
    /// the proof that is to be verified for the key with this thumbprint; `verifies_keys` says
    /// whether that is possible.
    ///
    /// # Errors
    ///
    /// [`AuthError::InvalidToken`], [`AuthError::UnprovedToken`].
    #[inline]
    pub fn check<'p>(
        self,
        principal: &'p Principal,
        verifies_keys: bool,
    ) -> Result<Option<(SentProof<'a>, &'p [u8; 32])>, AuthError> {
        match (principal.binding(), self.key) {
            (None, KeyProof::Sent(_)) => Err(AuthError::UnprovedToken(NOT_BOUND)),
            (None, _) => Ok(None),
            (Some(binding), _) => self.check_binding(binding, verifies_keys),
        }
    }

    fn check_binding<'p>(
        self,
        binding: &'p Binding,
        verifies_keys: bool,
    ) -> Result<Option<(SentProof<'a>, &'p [u8; 32])>, AuthError> {
        let refuse = |reason| Err(AuthError::InvalidToken(unproved(reason)));
        match (binding, self.key, self.certificate) {
            (Binding::Certificate(_), KeyProof::Sent(_), _) => {
                Err(AuthError::UnprovedToken(NOT_BOUND))
            }
            (Binding::Certificate(_), _, None) => refuse(NO_CERTIFICATE),
            (Binding::Certificate(own), _, Some(certificate)) if certificate.thumbprint == *own => {
                Ok(None)
            }
            (Binding::Certificate(_), ..) => refuse(OTHER_CERTIFICATE),
            (Binding::ProofKey(_), ..) if !verifies_keys => refuse(NO_PROOFS),
            (Binding::ProofKey(_), KeyProof::Unsupported, _) => refuse(NO_TRANSPORT),
            (Binding::ProofKey(_), KeyProof::Bearer, _) => {
                Err(AuthError::UnprovedToken(WITHOUT_PROOF))
            }
            (Binding::ProofKey(key), KeyProof::Sent(proof), _) => Ok(Some((proof, key))),
            (Binding::ProofKey(_), KeyProof::Verified, _) => Ok(None),
        }
    }
}

/// A token whose key the request does not prove.
const fn unproved(reason: &'static str) -> InvalidToken {
    InvalidToken::new(TokenFault::Binding, reason)
}

const NO_CERTIFICATE: &str =
    "the token is bound to a client certificate, and the connection has none";
const OTHER_CERTIFICATE: &str = "the token is bound to another client certificate";
const NO_PROOFS: &str = "the token is bound to a key, and this server verifies no such proofs";
const NO_TRANSPORT: &str =
    "the token is bound to a key, whose proofs only HTTP and WebSocket carry";
const WITHOUT_PROOF: &str = "the token is bound to a key: send it with the scheme DPoP and a proof";
const NOT_BOUND: &str = "the token is not bound to a key: send it with the scheme Bearer";

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: SentProof<'_> =
        SentProof { values: [Some(b"p"), None], method: "POST", path: "/mcp", is_endpoint: true };

    #[test]
    fn bound_token_needs_its_certificate() {
        let plain = Principal::new("ada");
        let bound = plain.clone().with_binding(Binding::Certificate([7; 32]));
        let certificate = |byte| ClientCertificate {
            name: "a".into(),
            thumbprint: [byte; 32],
            expires_at: 9,
            id: [byte; 32],
            issuers: Box::default(),
        };
        let (own, other) = (certificate(7), certificate(8));
        let check = |principal: &Principal, certificate: Option<&ClientCertificate>| {
            let proof = Proof { certificate, ..Proof::default() };
            proof.check(principal, false).map(|proof| proof.is_some())
        };
        assert_eq!(check(&plain, None), Ok(false));
        assert_eq!(check(&plain, Some(&other)), Ok(false));
        assert_eq!(check(&bound, Some(&own)), Ok(false));
        let refused = |reason| Err(AuthError::InvalidToken(unproved(reason)));
        assert_eq!(check(&bound, None), refused(NO_CERTIFICATE));
        assert_eq!(check(&bound, Some(&other)), refused(OTHER_CERTIFICATE));
    }

    #[test]
    fn token_of_a_key_needs_its_proof() {
        let plain = Principal::new("ada");
        let bound = plain.clone().with_binding(Binding::ProofKey([7; 32]));
        let check = |principal: &Principal, key, verifies_keys| {
            let proof = Proof { certificate: None, key };
            proof.check(principal, verifies_keys).map(|proof| proof.is_some())
        };
        assert_eq!(check(&bound, KeyProof::Sent(SENT), true), Ok(true));
        assert_eq!(check(&bound, KeyProof::Verified, true), Ok(false));
        assert_eq!(check(&plain, KeyProof::Bearer, true), Ok(false));
        let unproved = |reason: &'static str| Err(AuthError::UnprovedToken(reason));
        assert_eq!(check(&bound, KeyProof::Bearer, true), unproved(WITHOUT_PROOF));
        assert_eq!(check(&plain, KeyProof::Sent(SENT), true), unproved(NOT_BOUND));
        let refused = |reason| Err(AuthError::InvalidToken(super::unproved(reason)));
        assert_eq!(check(&bound, KeyProof::Unsupported, true), refused(NO_TRANSPORT));
        assert_eq!(check(&bound, KeyProof::Sent(SENT), false), refused(NO_PROOFS));
    }
}
