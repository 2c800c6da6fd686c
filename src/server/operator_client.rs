//! Requests of operators to a running server, from another process on its machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use crate::server::fetch::{FetchRequest, Fetcher, parse_url};
use crate::server::options::Options;
use crate::server::secret_file;
use crate::server::upstreams::UpstreamChange;

/// Time for one request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a response in an error.
const TEXT_BYTES_MAX: usize = 300;

/// Where a running server takes changes, and the token that they need.
pub struct OperatorClient {
    url: Url,
    token: String,
    fetcher: Fetcher,
}

impl OperatorClient {
    /// The server that has `options`, or the one at `url`, whose certificate is of these
    /// authorities.
    ///
    /// # Errors
    ///
    /// What the options lack, or an invalid URL or file.
    pub fn new(
        options: &Options,
        url: Option<&str>,
        authorities: &[PathBuf],
    ) -> Result<Self, String> {
        let url = match url {
            Some(url) => parse_url(url)?,
            None => parse_url(&url_of(options)?)?,
        };
        let Some(path) = &options.admin.token else {
            return Err("no token: set admin.token (--admin-token) to the file with the token of \
                        the server"
                .to_owned());
        };
        let token = secret_file::read_text(path)
            .map_err(|error| format!("admin.token: {}: {error}", path.display()))?;
        let token = token.trim().to_owned();
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!("admin.token: {}: it is not one token", path.display()));
        }
        Ok(Self { url, token, fetcher: Fetcher::load(authorities)? })
    }

    /// Begins a change of an upstream.
    ///
    /// # Errors
    ///
    /// Why the server does not change it.
    pub fn change_upstream(&self, name: &str, change: UpstreamChange) -> Result<(), String> {
        let mut url = self.url.clone();
        let server = url.origin().ascii_serialization();
        url.set_query(None);
        match url.path_segments_mut() {
            Ok(mut segments) => {
                segments.clear().extend(["upstreams", name, change.as_str()]);
            }
            Err(()) => return Err(format!("{server} is no URL of a server")),
        }
        let fields = format!("Authorization: Bearer {}\r\n", self.token);
        let content = Some(("text/plain", &b""[..]));
        let accept = "text/plain";
        let request = FetchRequest { accept, fields: &fields, content, timeout: TIMEOUT };
        let response = self.fetcher.send(&url, &request);
        let response = response.map_err(|error| format!("no server at {server}: {error}"))?;
        let text = String::from_utf8_lossy(&response.body);
        let text: String = text.trim().chars().take(TEXT_BYTES_MAX).collect();
        match response.status {
            202 => Ok(()),
            401 => {
                let what = "it has another token than the file of admin.token";
                Err(format!("the server at {server} refuses the token (status 401): {what}"))
            }
            404 if text.contains("no upstream has this name") => {
                Err(format!("the server at {server} has no upstream `{name}`"))
            }
            404 => {
                let what = "it is no gateway, or its operators have another listener";
                Err(format!("the server at {server} has no upstreams (status 404): {what}"))
            }
            status => Err(format!("the server at {server} responds with status {status}: {text}")),
        }
    }
}

/// The URL of the listener of operators.
fn url_of(options: &Options) -> Result<String, String> {
    let has_tls = !options.tls.certificates.is_empty();
    let (key, address, is_tls) = match options.admin.address {
        Some(address) => ("admin.address", Some(address), options.tls.admin),
        None => ("http.address", options.http.address, options.tls.http),
    };
    let Some(address) = address else {
        return Err("http.address is off: name the server with --url".to_owned());
    };
    if address.port() == 0 {
        return Err(format!("{key} has no fixed port: name the server with --url"));
    }
    if has_tls && is_tls {
        return Err(format!("{key} has TLS: name the server with --url https://HOST:PORT"));
    }
    Ok(format!("http://{}", reachable(address)))
}

/// The address at which this machine reaches a listener.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_is_that_of_operators() {
        let mut options = Options::default();
        let url = |options: &Options| url_of(options);
        assert_eq!(url(&options).as_deref(), Ok("http://127.0.0.1:8080"));
        options.admin.address = Some("0.0.0.0:9090".parse().unwrap());
        assert_eq!(url(&options).as_deref(), Ok("http://127.0.0.1:9090"));
        options.admin.address = Some("[::]:9090".parse().unwrap());
        assert_eq!(url(&options).as_deref(), Ok("http://[::1]:9090"));
        options.admin.address = Some("127.0.0.1:0".parse().unwrap());
        assert!(url(&options).unwrap_err().contains("no fixed port"));
        (options.admin.address, options.http.address) = (None, None);
        assert!(url(&options).unwrap_err().contains("is off"));
    }
}
