//! Which server to connect to.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use http::Uri;
use url::Url;

use super::error::{ClientError, ClientErrorKind};

/// The server to connect to.
///
/// As text: `https://HOST:PORT/PATH`, `http://HOST:PORT/PATH` or `HOST:PORT/PATH`, which means
/// `http://`; the path is `/mcp` if missing. `wss://HOST:PORT/PATH` or `ws://HOST:PORT/PATH`, where
/// it is `/mcp/ws`. Where the path is `/`, and the server has no endpoint there, this path is tried
/// next. For lines `tls://HOST:PORT`, `tcp://HOST:PORT`, `unix:PATH`, or `stdio:COMMAND`
/// with the quoting of a shell.
///
/// ```
/// use corelane::client::Target;
///
/// let target: Target = "tcp://127.0.0.1:8888".parse()?;
/// assert_eq!(target.to_string(), "tcp://127.0.0.1:8888");
/// # Ok::<(), corelane::client::ClientError>(())
/// ```
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Target {
    /// Streamable HTTP.
    Http(HttpEndpoint),
    /// Messages in WebSocket frames.
    WebSocket(HttpEndpoint),
    /// Messages on lines over TCP.
    Tcp {
        /// Host name or address.
        host: String,
        /// Port.
        port: u16,
    },
    /// Messages on lines over TLS.
    Tls {
        /// Host name or address, which the certificate of the server must have.
        host: String,
        /// Port.
        port: u16,
    },
    /// Messages on lines over a Unix socket.
    Unix(PathBuf),
    /// Messages on lines over the standard streams of a program that the client starts.
    Stdio(Program),
}

/// The endpoint of a server of Streamable HTTP or WebSocket.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct HttpEndpoint {
    /// The scheme is `https` or `wss`.
    pub(super) is_encrypted: bool,
    pub(super) host: String,
    pub(super) port: u16,
    /// With the query.
    pub(super) path: String,
}

impl HttpEndpoint {
    /// Returns the endpoint whose path ends with `suffix`.
    #[must_use]
    pub(super) fn with_suffix(&self, suffix: &str) -> Self {
        let (path, query) = match self.path.split_once('?') {
            Some((path, query)) => (path, format!("?{query}")),
            None => (&*self.path, String::new()),
        };
        Self { path: format!("{path}{suffix}{query}"), ..self.clone() }
    }

    /// Reads a URL of the scheme `http`, `https`, `ws` or `wss`, whose path is `default_path` if
    /// missing.
    fn parse(text: &str, default_path: &str) -> Result<Self, &'static str> {
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("a URL has only visible ASCII characters");
        }
        let uri: Uri = text.parse().map_err(|_| "the URL is invalid")?;
        let authority = uri.authority().ok_or("the host is missing")?;
        if authority.as_str().contains('@') {
            return Err("a URL with a user name is not supported; add a header instead");
        }
        let is_encrypted = matches!(uri.scheme_str(), Some("https" | "wss"));
        let has_port = authority.as_str().len() > authority.host().len();
        let port = match authority.port_u16() {
            Some(port) => port,
            None if has_port => return Err("the port is not a number up to 65535"),
            None => default_port(is_encrypted),
        };
        let host = authority.host();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() {
            return Err("the host is missing");
        }
        let has_path = text.splitn(3, '/').nth(2).is_some_and(|rest| rest.contains('/'));
        let path = match uri.path_and_query().map_or("/", |path| path.as_str()) {
            "/" if !has_path => default_path.to_owned(),
            path if path.starts_with('/') => path.to_owned(),
            path => format!("{default_path}{path}"),
        };
        Ok(Self { is_encrypted, host: host.to_owned(), port, path })
    }

    /// Returns the value of `Host`.
    pub(super) fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        match (host.contains(':'), *port == default_port(self.is_encrypted)) {
            (true, true) => format!("[{host}]"),
            (true, false) => format!("[{host}]:{port}"),
            (false, true) => host.clone(),
            (false, false) => format!("{host}:{port}"),
        }
    }

    /// Returns the scheme of the URL.
    pub(super) const fn scheme(&self) -> &'static str {
        if self.is_encrypted { "https" } else { "http" }
    }
}

/// A host and a port.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HostAddress {
    /// Host name or address, without brackets.
    pub host: String,
    pub port: u16,
}

impl HostAddress {
    /// Reads `HOST:PORT`.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let (host, port) = parse_address(text)?;
        Ok(Self { host, port })
    }
}

/// The path of a URL of Streamable HTTP that names none.
const HTTP_PATH: &str = "/mcp";
/// The path of the parity dialect over HTTP.
const PARITY_PATH: &str = "/parity";
/// The path of a URL of WebSocket that names none.
const WEBSOCKET_PATH: &str = "/mcp/ws";

/// Returns the port of a URL that names none.
const fn default_port(is_encrypted: bool) -> u16 {
    if is_encrypted { 443 } else { 80 }
}

/// A program that serves MCP over its standard streams.
///
/// It runs in a process group of its own, with the environment variables `HOME`, `LANG`,
/// `LOGNAME`, `PATH`, `SHELL`, `TERM`, `TMPDIR` and `USER` of this process and those of
/// [`Program::env`].
///
/// It is ended with the client: its standard input is closed, and after each
/// [`Program::exit_timeout`] its group gets SIGTERM, then SIGKILL. If this process is killed, the
/// leader of the group, a `/bin/sh` (about 1 MB), sends SIGTERM after a second, and SIGKILL
/// 5 seconds later; with `supervise_programs` (feature `supervised`) one process ends all
/// programs then, and whatever they have started: with SIGTERM, and SIGKILL half a second later.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Program {
    pub(super) program: OsString,
    pub(super) arguments: Vec<OsString>,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) directory: Option<PathBuf>,
    pub(super) stderr: ProgramStderr,
    pub(super) exit_timeout: Duration,
    pub(super) inherits_env: bool,
}

/// Where the standard error of a [`Program`] goes.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum ProgramStderr {
    /// To that of this process.
    #[default]
    Inherit,
    /// Each line is an event of `tracing` with the level INFO and the target
    /// `corelane::client::stderr`.
    Log,
    /// It is discarded.
    Discard,
}

/// Default of [`Program::exit_timeout`].
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

impl Program {
    /// Creates one that is found in `PATH` or by its path.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            directory: None,
            stderr: ProgramStderr::default(),
            exit_timeout: EXIT_TIMEOUT,
            inherits_env: false,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Lets it inherit all environment variables of this process.
    #[must_use]
    pub fn inherit_env(self) -> Self {
        Self { inherits_env: true, ..self }
    }

    /// Sets where its standard error goes. Default [`ProgramStderr::Inherit`].
    #[must_use]
    pub fn stderr(self, stderr: ProgramStderr) -> Self {
        Self { stderr, ..self }
    }

    /// Sets the time that it has to exit after its standard input is closed, and again after
    /// SIGTERM. Default 5 s.
    #[must_use]
    pub fn exit_timeout(self, exit_timeout: Duration) -> Self {
        Self { exit_timeout, ..self }
    }

    /// Sets the working directory. Default: that of this process.
    #[must_use]
    pub fn current_dir(self, directory: impl Into<PathBuf>) -> Self {
        Self { directory: Some(directory.into()), ..self }
    }
}

impl From<Program> for Target {
    fn from(program: Program) -> Self {
        Self::Stdio(program)
    }
}

impl FromStr for Target {
    type Err = ClientError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = |reason: &str| {
            // What precedes an `@` may be a password.
            let shown = if text.contains('@') { "the text" } else { &format!("'{text}'") };
            let text = format!("{shown} is not a target: {reason}");
            ClientError::new(ClientErrorKind::InvalidInput, text)
        };
        // A scheme has no case (RFC 3986, section 3.1).
        let text = &match text.split_once(':') {
            Some((scheme, rest)) => format!("{}:{rest}", scheme.to_ascii_lowercase()),
            None => text.to_owned(),
        };
        if let Some(address) = text.strip_prefix("tcp://") {
            let (host, port) = parse_address(address).map_err(invalid)?;
            return Ok(Self::Tcp { host, port });
        }
        if text.starts_with("ws://") || text.starts_with("wss://") {
            return HttpEndpoint::parse(text, WEBSOCKET_PATH).map(Self::WebSocket).map_err(invalid);
        }
        if let Some(address) = text.strip_prefix("tls://") {
            let (host, port) = parse_address(address).map_err(invalid)?;
            return Ok(Self::Tls { host, port });
        }
        if text.starts_with("http://") || text.starts_with("https://") {
            return HttpEndpoint::parse(text, HTTP_PATH).map(Self::Http).map_err(invalid);
        }
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err(invalid("the path is missing")),
                path => Ok(Self::Unix(path.into())),
            };
        }
        if let Some(command) = text.strip_prefix("stdio:") {
            let words = shlex::split(command).ok_or_else(|| invalid("a quote is not closed"))?;
            let mut words = words.into_iter();
            let program = words.next().ok_or_else(|| invalid("the command is missing"))?;
            return Ok(Self::Stdio(words.fold(Program::new(program), Program::arg)));
        }
        if is_bare_address(text) {
            let url = format!("http://{text}");
            return HttpEndpoint::parse(&url, HTTP_PATH).map(Self::Http).map_err(invalid);
        }
        let schemes = "https://, http://, wss://, ws://, tls://, tcp://, unix: or stdio:";
        Err(invalid(&format!("it must begin with {schemes}")))
    }
}

/// What names a server: a [`Target`], a [`Program`], or the text of a target.
pub trait IntoTarget {
    /// Returns the target.
    ///
    /// # Errors
    ///
    /// [`ClientErrorKind::InvalidInput`] for a text that is none.
    fn into_target(self) -> Result<Target, ClientError>;
}

impl<T: Into<Target>> IntoTarget for T {
    fn into_target(self) -> Result<Target, ClientError> {
        Ok(self.into())
    }
}

impl IntoTarget for &str {
    fn into_target(self) -> Result<Target, ClientError> {
        self.parse()
    }
}

impl Target {
    /// Returns the target for errors: of a program its path, of a URL the scheme, host and port.
    /// Arguments, path and query may have a secret.
    #[doc(hidden)]
    pub fn without_secrets(&self) -> String {
        match self {
            Self::Stdio(program) => format!("stdio:{}", program.program.to_string_lossy()),
            Self::Http(endpoint) | Self::WebSocket(endpoint) => {
                let text = self.to_string();
                text.strip_suffix(&endpoint.path).unwrap_or(&text).to_owned()
            }
            Self::Tcp { .. } | Self::Tls { .. } | Self::Unix(_) => self.to_string(),
        }
    }

    /// Returns host and port, if the target has them.
    #[doc(hidden)]
    pub fn address(&self) -> Option<(&str, u16)> {
        match self {
            Self::Http(HttpEndpoint { host, port, .. })
            | Self::WebSocket(HttpEndpoint { host, port, .. })
            | Self::Tcp { host, port }
            | Self::Tls { host, port } => Some((host, *port)),
            Self::Unix(_) | Self::Stdio(_) => None,
        }
    }

    /// Returns the target of the parity dialect: over HTTP one that names no path is that of MCP.
    #[doc(hidden)]
    #[must_use]
    pub fn for_parity(mut self) -> Self {
        if let Self::Http(HttpEndpoint { path, .. }) = &mut self {
            let query = if path == "/" { Some("") } else { path.strip_prefix(HTTP_PATH) };
            if let Some(query) = query.filter(|query| query.is_empty() || query.starts_with('?')) {
                *path = format!("{PARITY_PATH}{query}");
            }
        }
        self
    }

    /// Returns the target at the path that most servers have, of a WebSocket target whose URL names
    /// only the slash.
    pub(super) fn at_usual_path(&self) -> Option<Self> {
        let Self::WebSocket(endpoint) = self else { return None };
        let is_unnamed = endpoint.path == "/";
        is_unnamed.then(|| {
            Self::WebSocket(HttpEndpoint { path: WEBSOCKET_PATH.to_owned(), ..endpoint.clone() })
        })
    }

    /// Returns the URL of a server of HTTP, or that of the upgrade to WebSocket.
    #[doc(hidden)]
    pub fn http_url(&self) -> Option<Url> {
        let (Self::Http(endpoint) | Self::WebSocket(endpoint)) = self else { return None };
        let (scheme, authority) = (endpoint.scheme(), endpoint.authority());
        format!("{scheme}://{authority}{}", endpoint.path).parse().ok()
    }

    /// Returns the host that the certificate of the server must name, if the connection is
    /// encrypted.
    pub(super) fn encrypted_host(&self) -> Option<&str> {
        match self {
            Self::Http(endpoint) | Self::WebSocket(endpoint) => {
                endpoint.is_encrypted.then_some(&endpoint.host)
            }
            Self::Tls { host, .. } => Some(host),
            Self::Tcp { .. } | Self::Unix(_) | Self::Stdio(_) => None,
        }
    }
}

/// Reads `HOST:PORT`, or `HOST:PORT/`.
fn parse_address(address: &str) -> Result<(String, u16), &'static str> {
    let address = address.strip_suffix('/').unwrap_or(address);
    let (host, port) = address.rsplit_once(':').ok_or("the port is missing")?;
    let port = port.parse().map_err(|_| "the port is not a number up to 65535")?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    match host {
        "" => Err("the host is missing"),
        host => Ok((host.to_owned(), port)),
    }
}

/// Returns whether `text` is `HOST:PORT` or `HOST:PORT/PATH`.
fn is_bare_address(text: &str) -> bool {
    let authority = text.split('/').next().unwrap_or_default();
    let port = authority.rsplit_once(':').map(|(_, port)| port).unwrap_or_default();
    !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(endpoint) => {
                let scheme = endpoint.scheme();
                write!(formatter, "{scheme}://{}{}", endpoint.authority(), endpoint.path)
            }
            Self::WebSocket(endpoint) => {
                let scheme = if endpoint.is_encrypted { "wss" } else { "ws" };
                write!(formatter, "{scheme}://{}{}", endpoint.authority(), endpoint.path)
            }
            Self::Tcp { host, port } => write_address(formatter, "tcp", host, *port),
            Self::Tls { host, port } => write_address(formatter, "tls", host, *port),
            Self::Unix(path) => write!(formatter, "unix:{}", path.display()),
            Self::Stdio(program) => {
                write!(formatter, "stdio:{}", program.program.to_string_lossy())?;
                let arguments = program.arguments.iter().map(|argument| argument.to_string_lossy());
                arguments.into_iter().try_for_each(|argument| write!(formatter, " {argument}"))
            }
        }
    }
}

fn write_address(
    formatter: &mut fmt::Formatter<'_>,
    scheme: &str,
    host: &str,
    port: u16,
) -> fmt::Result {
    if host.contains(':') {
        write!(formatter, "{scheme}://[{host}]:{port}")
    } else {
        write!(formatter, "{scheme}://{host}:{port}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_no_arguments_and_no_path() {
        for (target, shown) in [
            ("stdio:'/opt/my server' --token secret", "stdio:/opt/my server"),
            ("https://example.com:8443/mcp/secret?key=secret", "https://example.com:8443"),
            ("wss://example.com", "wss://example.com"),
            ("tcp://127.0.0.1:8888", "tcp://127.0.0.1:8888"),
            ("unix:/run/server.sock", "unix:/run/server.sock"),
        ] {
            assert_eq!(target.parse::<Target>().unwrap().without_secrets(), shown);
        }
    }

    #[test]
    fn target_is_read_from_its_text() {
        let target = |text: &str| text.parse::<Target>().unwrap();
        let tcp = |host: &str| Target::Tcp { host: host.into(), port: 8888 };
        assert_eq!(target("tcp://localhost:8888"), tcp("localhost"));
        assert_eq!(target("tcp://[::1]:8888"), tcp("::1"));
        assert_eq!(tcp("::1").to_string(), "tcp://[::1]:8888");
        for (text, host, port, path) in [
            ("http://localhost:8080/mcp?a=b", "localhost", 8080, "/mcp?a=b"),
            ("http://a", "a", 80, "/mcp"),
            ("http://a/", "a", 80, "/"),
            ("http://a?b", "a", 80, "/mcp?b"),
            ("localhost:8080", "localhost", 8080, "/mcp"),
            ("[::1]:8080/x", "::1", 8080, "/x"),
            ("http://[::1]:1/", "::1", 1, "/"),
            ("https://a", "a", 443, "/mcp"),
            ("https://[::1]:444/x", "::1", 444, "/x"),
        ] {
            let (host, path) = (host.to_owned(), path.to_owned());
            let is_encrypted = text.starts_with("https");
            let endpoint = HttpEndpoint { is_encrypted, host, port, path };
            assert_eq!(target(text), Target::Http(endpoint));
        }
        for (text, expected) in [
            ("HTTP://A:1/X", "http://A:1/X"),
            ("Https://a/x", "https://a/x"),
            ("WSS://a/x", "wss://a/x"),
            ("TCP://a:1", "tcp://a:1"),
            ("tcp://a:1/", "tcp://a:1"),
            ("Stdio:A", "stdio:A"),
            ("UNIX:/A", "unix:/A"),
        ] {
            assert_eq!(target(text).to_string(), expected);
        }
        assert_eq!(target("tls://a:1"), Target::Tls { host: "a".into(), port: 1 });
        assert_eq!(target("tls://[::1]:1").to_string(), "tls://[::1]:1");
        for text in ["https://a/mcp", "https://a:80/x", "http://a:443/x"] {
            assert_eq!(target(text).to_string(), text);
        }
        assert_eq!(target("http://[::1]:80/mcp").to_string(), "http://[::1]/mcp");
        for (text, path) in [
            ("ws://a:1", "/mcp/ws"),
            ("ws://a:1/", "/"),
            ("ws://a:1/x?y", "/x?y"),
            ("ws://a:1?y", "/mcp/ws?y"),
        ] {
            let (host, path) = ("a".into(), path.into());
            let endpoint = HttpEndpoint { is_encrypted: false, host, port: 1, path };
            assert_eq!(target(text), Target::WebSocket(endpoint));
        }
        assert_eq!(target("ws://[::1]:80").to_string(), "ws://[::1]/mcp/ws");
        assert_eq!(target("wss://a").to_string(), "wss://a/mcp/ws");
        assert_eq!(target("wss://a").encrypted_host(), Some("a"));
        assert_eq!(target("ws://a").encrypted_host(), None);
        assert_eq!(target("unix:/run/mcp.sock"), Target::Unix("/run/mcp.sock".into()));
        let program = Program::new("npx").arg("-y").arg("a server");
        assert_eq!(target("stdio:npx -y 'a server'"), program.into());
    }

    #[test]
    fn invalid_target_error_names_reason() {
        for (text, reason) in [
            ("tcp://localhost", "port is missing"),
            ("tcp://:1", "host is missing"),
            ("tcp://a:65536", "65535"),
            ("unix:", "path is missing"),
            ("stdio:", "command is missing"),
            ("stdio:'a", "quote"),
            ("ftp://a", "must begin with"),
            ("tls://a", "port is missing"),
            ("https://", "invalid"),
            ("wss://", "invalid"),
            ("ws://", "invalid"),
            ("http://", "invalid"),
            ("http://:1/", "host is missing"),
            ("http://a:b/", "65535"),
            ("http://a:65536/", "65535"),
            ("http://user:secret@a/", "user name"),
            ("http://a/\n", "visible ASCII"),
        ] {
            let error = text.parse::<Target>().unwrap_err();
            assert_eq!(error.kind(), ClientErrorKind::InvalidInput);
            assert!(error.to_string().contains(reason), "{error}");
        }
    }
}
