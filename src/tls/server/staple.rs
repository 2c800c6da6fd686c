//! OCSP responses that a server sends with its certificate (RFC 6066 section 8).

use x509_parser::asn1_rs::{Enumerated, FromDer, Sequence};

/// `responseStatus` of a response that says something of a certificate (RFC 6960 section 4.2.1).
const SUCCESSFUL: u32 = 0;

/// An OCSP response in DER. Clients verify its signature, its times and whose certificate it is of.
#[derive(Debug)]
pub struct OcspStaple(pub(super) Vec<u8>);

impl OcspStaple {
    /// Takes a successful response.
    ///
    /// # Errors
    ///
    /// Why the file, which an error calls `name`, is unusable.
    pub fn from_der(der: Vec<u8>, name: &str) -> Result<Self, String> {
        let status = Sequence::from_der(&der)
            .ok()
            .filter(|(rest, _)| rest.is_empty())
            .and_then(|(_, response)| Some(Enumerated::from_der(&response.content).ok()?.1.0));
        match status {
            Some(SUCCESSFUL) => Ok(Self(der)),
            Some(status) => Err(format!(
                "{name} is an OCSP response with the error {status}: request another one"
            )),
            None => Err(format!("{name} is no OCSP response in DER (RFC 6960)")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ocsp_response_without_certificate_is_error() {
        // `OCSPResponse { responseStatus successful }`, and `unauthorized`.
        assert!(OcspStaple::from_der(vec![0x30, 3, 0x0a, 1, 0], "a.der").is_ok());
        for (der, part) in [
            (&[0x30, 3, 0x0a, 1, 6][..], "a.der is an OCSP response with the error 6"),
            (&[0x30, 3, 0x0a, 1, 0, 0], "no OCSP response"),
            (&[0x30, 4, 0x0a, 1, 0], "no OCSP response"),
            (b"-----BEGIN", "no OCSP response"),
            (b"", "no OCSP response"),
        ] {
            let error = OcspStaple::from_der(der.to_vec(), "a.der").unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
