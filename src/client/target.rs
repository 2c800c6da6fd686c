//! Which server to connect to.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::error::{ClientError, ClientErrorKind};

/// The server to connect to.
///
/// As text: `tcp://HOST:PORT`, `unix:PATH`, or `stdio:COMMAND` with the quoting of a shell.
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

/// A program that serves MCP over its standard streams.
///
/// It runs in a process group of its own, with the environment variables `HOME`, `LANG`,
/// `LOGNAME`, `PATH`, `SHELL`, `TERM`, `TMPDIR` and `USER` of this process and those of
/// [`Program::env`]. Its standard error is that of this process.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Program {
    pub(super) program: OsString,
    pub(super) arguments: Vec<OsString>,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) directory: Option<PathBuf>,
}

impl Program {
    /// Creates one that is found in `PATH` or by its path.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            directory: None,
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
            let text = format!("'{text}' is not a target: {reason}");
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
        Err(invalid("it must begin with tcp://, unix: or stdio:"))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
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
        ] {
            let error = text.parse::<Target>().unwrap_err();
            assert_eq!(error.kind(), ClientErrorKind::InvalidInput);
            assert!(error.to_string().contains(reason), "{error}");
        }
    }
}
