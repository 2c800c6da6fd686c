//! The options of proxies in front of the server: which ones are trusted, and how they name their
//! clients.

use corelane_base::trusted_proxies::TrustedProxies;
pub use corelane_transport::http::forwarded::ForwardedField;

use super::declare::options;
use super::value::{Choice, choice};

options! {
    /// Proxies in front of the server.
    pub struct ProxyOptions at |options| options.proxies;

    group PROXIES {
        /// Addresses and prefixes of proxies, such as `10.0.0.0/8,127.0.0.1,fd00::/8`, that name
        /// the addresses of their clients: by `http.forwarded_field` in each HTTP request, or by
        /// the PROXY protocol. Limits by address, logs and handlers use these. What others name is
        /// ignored and counted. default is none; 127.0.0.1 and `::1` are exempt from limits by
        /// address then. Fixed at start.
        #[option("trusted_proxies", Words, restart)]
        #[cost = "a listed proxy can name any address for its clients"]
        #[source = "RFC 7239, section 8.1"]
        pub trusted: Vec<String> = Vec::new();
    }
}

impl ProxyOptions {
    /// Returns the trusted proxies.
    ///
    /// # Errors
    ///
    /// Which entry is malformed, and how to write it.
    pub(crate) fn trusted(&self) -> Result<TrustedProxies, String> {
        TrustedProxies::parse(&self.trusted)
    }
}

choice! {
    /// Whether the connections of a listener begin with a header of the PROXY protocol.
    #[non_exhaustive]
    pub enum ProxyProtocol {
        /// They do not.
        #[default]
        Off = "off",
        /// All do, of version 1 or 2, before TLS. Others, and those of peers that are not trusted,
        /// are reset.
        Required = "required",
    }
}

impl Choice for ForwardedField {
    const NAMES: &'static [&'static str] = &["x-forwarded-for", "forwarded"];
    const VALUES: &'static [Self] = &[Self::XForwardedFor, Self::Forwarded];
}
