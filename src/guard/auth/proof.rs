//! Proofs of the key to which a token is bound: such a token alone is no credential.
//!
//! Source: RFC 8705, section 3 (certificates of TLS clients).

use super::AuthError;
use super::certificates::ClientCertificate;
use crate::base::principal::Principal;

/// What a request proves besides its token.
#[derive(Clone, Copy, Debug, Default)]
pub struct Proof<'a> {
    /// The certificate of the client of the connection.
    pub certificate: Option<&'a ClientCertificate>,
}

impl Proof<'_> {
    /// Checks that it proves the key to which the token of `principal` is bound, if it is.
    ///
    /// # Errors
    ///
    /// [`AuthError::InvalidToken`].
    #[inline]
    pub fn check(self, principal: &Principal) -> Result<(), AuthError> {
        let Some(binding) = principal.binding() else { return Ok(()) };
        let Some(certificate) = self.certificate else {
            return Err(AuthError::InvalidToken(NO_CERTIFICATE.into()));
        };
        if certificate.thumbprint != binding.certificate {
            return Err(AuthError::InvalidToken(OTHER_CERTIFICATE.into()));
        }
        Ok(())
    }
}

const NO_CERTIFICATE: &str =
    "the token is bound to a client certificate, and the connection has none";
const OTHER_CERTIFICATE: &str = "the token is bound to another client certificate";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::principal::Binding;

    #[test]
    fn bound_token_needs_its_certificate() {
        let plain = Principal::new("ada");
        let bound = plain.clone().with_binding(Binding { certificate: [7; 32] });
        let certificate =
            |byte| ClientCertificate { name: "a".into(), thumbprint: [byte; 32], expires_at: 9 };
        let (own, other) = (certificate(7), certificate(8));
        let check = |principal: &Principal, certificate: Option<&ClientCertificate>| {
            Proof { certificate }.check(principal)
        };
        assert_eq!(check(&plain, None), Ok(()));
        assert_eq!(check(&plain, Some(&other)), Ok(()));
        assert_eq!(check(&bound, Some(&own)), Ok(()));
        let refused = |reason: &'static str| Err(AuthError::InvalidToken(reason.into()));
        assert_eq!(check(&bound, None), refused(NO_CERTIFICATE));
        assert_eq!(check(&bound, Some(&other)), refused(OTHER_CERTIFICATE));
    }
}
