//! A TLS client of servers of any name.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// A client that verifies the certificates of servers.
pub struct TargetClient(Arc<ClientConfig>);

impl TargetClient {
    /// Trusts the authorities of a text in PEM, or else those of the system.
    pub fn new(authorities: Option<&[u8]>) -> Self {
        let mut roots = RootCertStore::empty();
        let certificates: Vec<CertificateDer<'static>> = match authorities {
            Some(pem) => CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().unwrap(),
            None => rustls_native_certs::load_native_certs().certs,
        };
        roots.add_parsable_certificates(certificates);
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        Self(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
    }

    /// Completes the handshake with the server `name`, over a connection to it.
    pub fn handshake(
        &self,
        name: &str,
        mut stream: TcpStream,
    ) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        let client = ClientConnection::new(Arc::clone(&self.0), name);
        let mut client = client.map_err(io::Error::other)?;
        client.complete_io(&mut stream)?;
        Ok(StreamOwned::new(client, stream))
    }
}
