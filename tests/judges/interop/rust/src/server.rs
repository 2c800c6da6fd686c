//! Connects clients to the server, by URL and mode.

use std::error::Error;

use rmcp::model::ProtocolVersion;
use rmcp::service::RunningService;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpClientTransportConfig,
};
use rmcp::{ClientLifecycleMode, ClientServiceExt, RoleClient};

use crate::host::Host;

/// A connected client.
pub(crate) type Client = RunningService<RoleClient, Host>;

/// An error that ends a feature without a summary.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// URL of a server and mode of its clients.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    url: String,
    mode: String,
}

impl Server {
    pub(crate) const fn new(mode: String, url: String) -> Self {
        Self { url, mode }
    }

    pub(crate) fn is_legacy(&self) -> bool {
        self.mode == "legacy"
    }

    pub(crate) async fn connect(&self, host: Host) -> Result<Client, Failure> {
        self.connect_transport(StreamableHttpClientTransport::from_uri(&*self.url), host).await
    }

    /// Connects through `http` instead of the default HTTP client.
    pub(crate) async fn connect_over<H>(&self, http: H, host: Host) -> Result<Client, Failure>
    where
        H: StreamableHttpClient + Sync,
    {
        let config = StreamableHttpClientTransportConfig::with_uri(&*self.url);
        self.connect_transport(StreamableHttpClientTransport::with_client(http, config), host).await
    }

    async fn connect_transport<H>(
        &self,
        transport: StreamableHttpClientTransport<H>,
        host: Host,
    ) -> Result<Client, Failure>
    where
        H: StreamableHttpClient + Sync,
    {
        Ok(host.serve_with_lifecycle(transport, self.lifecycle()?).await?)
    }

    fn lifecycle(&self) -> Result<ClientLifecycleMode, Failure> {
        Ok(match &*self.mode {
            "legacy" => ClientLifecycleMode::Initialize,
            "auto" => ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
                legacy_version: None,
            },
            pinned => ClientLifecycleMode::Discover {
                preferred_versions: vec![serde_json::from_value(pinned.into())?],
            },
        })
    }
}
