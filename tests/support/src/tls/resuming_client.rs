//! A TLS client that stores sessions, asks for OCSP staples, and shows what it got.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, HandshakeKind, SignatureScheme,
    StreamOwned, SupportedProtocolVersion,
};

use super::{Certificate, Issuer};
use crate::sockets::connect;

/// A client of servers for `localhost`.
pub struct ResumingClient {
    config: Arc<ClientConfig>,
    staples: Receiver<Vec<u8>>,
}

impl Issuer {
    /// Returns a client that trusts this issuer, with an own certificate if `identity` is given.
    pub fn resuming_client(
        &self,
        version: &'static SupportedProtocolVersion,
        identity: Option<&Certificate>,
    ) -> ResumingClient {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder =
            WebPkiServerVerifier::builder_with_provider(self.roots(), Arc::clone(&provider));
        let (sender, staples) = channel();
        let verifier = StapleVerifier { inner: builder.build().unwrap(), staples: sender };
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_protocol_versions(&[version]).unwrap().dangerous();
        let builder = builder.with_custom_certificate_verifier(Arc::new(verifier));
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some(Certificate { certificate, key }) => {
                let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
                builder.with_client_auth_cert(vec![certificate.der().clone()], key).unwrap()
            }
        };
        ResumingClient { config: Arc::new(config), staples }
    }
}

impl ResumingClient {
    /// Opens a connection.
    pub fn open(&self, server: SocketAddr) -> StreamOwned<ClientConnection, TcpStream> {
        let name = ServerName::try_from("localhost").unwrap();
        let client = ClientConnection::new(Arc::clone(&self.config), name).unwrap();
        StreamOwned::new(client, connect(server))
    }

    /// Requests `/healthz` over a connection of its own. Returns how the handshake was done.
    pub fn request(&self, server: SocketAddr) -> io::Result<HandshakeKind> {
        let mut stream = self.open(server);
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut response = Vec::new();
        stream.read_to_end(&mut response)?;
        assert!(response.starts_with(b"HTTP/1.1 200 OK\r\n"), "{response:?}");
        Ok(stream.conn.handshake_kind().expect("the handshake is complete"))
    }

    /// Returns the staple of the next full handshake; empty without one.
    pub fn next_staple(&self) -> Vec<u8> {
        self.staples.try_recv().expect("a full handshake")
    }
}

#[derive(Debug)]
struct StapleVerifier {
    inner: Arc<WebPkiServerVerifier>,
    staples: Sender<Vec<u8>>,
}

impl ServerCertVerifier for StapleVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.staples.send(ocsp_response.to_vec()).ok();
        self.inner.verify_server_cert(end_entity, intermediates, server_name, &[], now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
