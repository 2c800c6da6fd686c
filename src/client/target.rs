//! Which server to connect to.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use http::Uri;

use super::error::{ClientError, ClientErrorKind};

/// The server to connect to.
///
/// As text: `http://HOST:PORT/PATH` or `HOST:PORT/PATH`, where the path is `/mcp` if missing,
/// `ws://HOST:PORT/PATH`, where it is `/mcp/ws`, `tcp://HOST:PORT`, `unix:PATH`, or
/// `stdio:COMMAND` with the quoting of a shell.
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
    /// Messages on lines over a Unix socket.
    Unix(PathBuf),
    /// Messages on lines over the standard streams of a program that the client starts.
    Stdio(Program),
}

/// The endpoint of a server of Streamable HTTP or WebSocket.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct HttpEndpoint {
    pub(super) host: String,
    pub(super) port: u16,
    /// With the query.
    pub(super) path: String,
}

impl HttpEndpoint {
    /// Reads a URL of the scheme `http` or `ws`, whose path is `default_path` if missing.
    fn parse(text: &str, default_path: &str) -> Result<Self, &'static str> {
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("a URL has only visible ASCII characters");
        }
        let uri: Uri = text.parse().map_err(|_| "the URL is invalid")?;
        let authority = uri.authority().ok_or("the host is missing")?;
        if authority.as_str().contains('@') {
            return Err("a URL with a user name is not supported; add a header instead");
        }
        let has_port = authority.as_str().len() > authority.host().len();
        let port = match authority.port_u16() {
            Some(port) => port,
            None if has_port => return Err("the port is not a number up to 65535"),
            None => HTTP_PORT,
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
        Ok(Self { host: host.to_owned(), port, path })
    }

    /// Returns the value of `Host`.
    pub(super) fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        match (host.contains(':'), *port == HTTP_PORT) {
            (true, true) => format!("[{host}]"),
            (true, false) => format!("[{host}]:{port}"),
            (false, true) => host.clone(),
            (false, false) => format!("{host}:{port}"),
        }
    }
}

/// The path of a URL of Streamable HTTP that names none.
const HTTP_PATH: &str = "/mcp";
/// The path of a URL of WebSocket that names none.
const WEBSOCKET_PATH: &str = "/mcp/ws";
/// The port of a URL that names none.
const HTTP_PORT: u16 = 80;

/// A program that serves MCP over its standard streams.
///
/// It runs in a process group that has no other program, with the environment variables `HOME`, `LANG`,
/// `LOGNAME`, `PATH`, `SHELL`, `TERM`, `TMPDIR` and `USER` of this process and those of
/// [`Program::env`].
///
/// It is ended with the client: its standard input is closed, and after each
/// [`Program::exit_timeout`] its group gets SIGTERM, then SIGKILL. If this process is killed, the
/// leader of the group, a `/bin/sh` (about 1 MB), sends SIGTERM after a second, and SIGKILL
/// 5 seconds later.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Program {
    pub(super) program: OsString,
    pub(super) arguments: Vec<OsString>,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) directory: Option<PathBuf>,
    pub(super) stderr: ProgramStderr,
    pub(super) exit_timeout: Duration,
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
        if let Some(address) = text.strip_prefix("tcp://") {
            let parts = address.rsplit_once(':');
            let (host, port) = parts.ok_or_else(|| invalid("the port is missing"))?;
            let port = port.parse().map_err(|_| invalid("the port is not a number up to 65535"))?;
            let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
            let host = host.unwrap_or_else(|| parts.map_or("", |(host, _)| host));
            return match host {
                "" => Err(invalid("the host is missing")),
                host => Ok(Self::Tcp { host: host.to_owned(), port }),
            };
        }
        if text.starts_with("http://") {
            return HttpEndpoint::parse(text, HTTP_PATH).map(Self::Http).map_err(invalid);
        }
        if text.starts_with("ws://") {
            return HttpEndpoint::parse(text, WEBSOCKET_PATH).map(Self::WebSocket).map_err(invalid);
        }
        if text.starts_with("wss://") {
            return Err(invalid("TLS is not supported for WebSocket yet; use ws://"));
        }
        if text.starts_with("https://") {
            return Err(invalid("TLS is not supported yet; use http://"));
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
        Err(invalid("it must begin with http://, ws://, tcp://, unix: or stdio:"))
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
                write!(formatter, "http://{}{}", endpoint.authority(), endpoint.path)
            }
            Self::WebSocket(endpoint) => {
                write!(formatter, "ws://{}{}", endpoint.authority(), endpoint.path)
            }
            Self::Tcp { host, port } if host.contains(':') => {
                write!(formatter, "tcp://[{host}]:{port}")
            }
            Self::Tcp { host, port } => write!(formatter, "tcp://{host}:{port}"),
            Self::Unix(path) => write!(formatter, "unix:{}", path.display()),
            Self::Stdio(program) => {
                write!(formatter, "stdio:{}", program.program.to_string_lossy())?;
                let arguments = program.arguments.iter().map(|argument| argument.to_string_lossy());
                arguments.into_iter().try_for_each(|argument| write!(formatter, " {argument}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        ] {
            let (host, path) = (host.to_owned(), path.to_owned());
            assert_eq!(target(text), Target::Http(HttpEndpoint { host, port, path }));
        }
        assert_eq!(target("http://[::1]:80/mcp").to_string(), "http://[::1]/mcp");
        for (text, path) in [
            ("ws://a:1", "/mcp/ws"),
            ("ws://a:1/", "/"),
            ("ws://a:1/x?y", "/x?y"),
            ("ws://a:1?y", "/mcp/ws?y"),
        ] {
            let endpoint = HttpEndpoint { host: "a".into(), port: 1, path: path.into() };
            assert_eq!(target(text), Target::WebSocket(endpoint));
        }
        assert_eq!(target("ws://[::1]:80").to_string(), "ws://[::1]/mcp/ws");
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
            ("https://a", "TLS"),
            ("wss://a", "TLS"),
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
