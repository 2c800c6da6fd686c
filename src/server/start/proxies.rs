//! Which listeners expect the PROXY protocol, and from which proxies.

use std::sync::Arc;

use corelane_base::trusted_proxies::TrustedProxies;

use crate::connection::proxy_protocol::ProxyCounters;
use crate::server::acceptance::ProxyRules;
use crate::server::options::{Options, ProxyProtocol};
use crate::telemetry::label::Transport;

/// The PROXY protocol of the listeners of a server.
#[derive(Debug, Default)]
pub(super) struct ListenerProxies {
    trusted: TrustedProxies,
    tcp: Option<Arc<ProxyCounters>>,
    http: Option<Arc<ProxyCounters>>,
}

/// The PROXY protocol of one listener.
#[derive(Clone, Debug)]
pub struct ProxyListener {
    pub trusted: TrustedProxies,
    pub counters: Arc<ProxyCounters>,
}

impl ListenerProxies {
    /// Reads the options.
    ///
    /// # Errors
    ///
    /// Which option is malformed, and why.
    pub(super) fn load(options: &Options) -> Result<Self, String> {
        let trusted = options.proxies.trusted();
        let trusted = trusted.map_err(|error| format!("trusted_proxies: {error}"))?;
        let counters: Arc<ProxyCounters> = Arc::default();
        let expects = |mode| (mode == ProxyProtocol::Required).then(|| Arc::clone(&counters));
        let tcp = expects(options.tcp.proxy_protocol);
        let http = expects(options.http.proxy_protocol);
        Ok(Self { trusted, tcp, http })
    }

    /// Returns what a shard knows of proxies.
    pub(super) fn rules(&self, options: &Options) -> ProxyRules {
        ProxyRules { trusted: self.trusted.clone(), field: options.http.forwarded_field }
    }

    /// Returns what the listener of a transport expects, if it expects headers.
    pub(super) fn of(&self, transport: Transport) -> Option<ProxyListener> {
        let counters = match transport {
            Transport::Http | Transport::WebSocket => self.http.clone()?,
            Transport::Tcp => self.tcp.clone()?,
            Transport::InProcess | Transport::Stdio => return None,
        };
        Some(ProxyListener { trusted: self.trusted.clone(), counters })
    }

    /// Returns the counters of headers, if a listener expects them.
    pub(super) fn counters(&self) -> Option<&Arc<ProxyCounters>> {
        self.tcp.as_ref().or(self.http.as_ref())
    }
}
