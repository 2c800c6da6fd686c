//! Receives the redirect of the browser on a port of 127.0.0.1 (RFC 8252, section 7.3).

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use url::form_urlencoded;

use crate::io::commands::{Command, SHARD};
use crate::io::peer_settings::PeerId;
use crate::oauth::Secret;
use corelane_engine::mesh::Sender;

/// The path of the redirect URI.
const PATH: &str = "/callback";
/// Longest request of the browser in bytes.
const REQUEST_BYTES_MAX: usize = 16 << 10;
/// Time that a browser has to send its request.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Passes redirects to the flow of one server.
#[derive(Clone)]
pub struct RedirectSender {
    peer: PeerId,
    commands: Sender<Command>,
}

impl RedirectSender {
    pub const fn new(peer: PeerId, commands: Sender<Command>) -> Self {
        Self { peer, commands }
    }

    /// Sends the query of a redirect for the flow `run`.
    fn send(&self, run: u64, query: Result<Secret, String>) {
        let command = Command::Redirected(self.peer, run, query);
        // Fails once the thread has ended.
        drop(self.commands.send_while(SHARD, command, || true));
    }
}

impl fmt::Debug for RedirectSender {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RedirectSender").field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// A port that waits for one redirect. Dropping it closes the port.
#[derive(Debug)]
pub(super) struct RedirectListener {
    listener: Option<TcpListener>,
    port: u16,
    /// Closed to end the thread.
    stop: Option<UnixStream>,
}

impl RedirectListener {
    /// Opens `port`, or any if it is zero or taken.
    pub(super) fn bind(port: u16) -> io::Result<Self> {
        let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        let listener = bind(port).or_else(|_| bind(0))?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener: Some(listener), port, stop: None })
    }

    pub(super) fn uri(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Starts the thread that waits for the redirect with this `state`.
    pub(super) fn wait(
        &mut self,
        redirects: RedirectSender,
        run: u64,
        state: String,
    ) -> io::Result<()> {
        let Some(listener) = self.listener.take() else { return Ok(()) };
        let (stop, stopped) = UnixStream::pair()?;
        self.stop = Some(stop);
        let wait = move || match receive(&listener, &stopped, &state) {
            Ok(Some(query)) => redirects.send(run, Ok(Secret::new(query))),
            Ok(None) => {}
            Err(error) => {
                redirects.send(run, Err(format!("the redirect cannot be received: {error}")));
            }
        };
        std::thread::Builder::new().name("corelane-login".into()).spawn(wait)?;
        Ok(())
    }
}

/// Returns the query of the first request for the redirect URI with this `state`, or `None` once it
/// is stopped.
fn receive(
    listener: &TcpListener,
    stopped: &UnixStream,
    state: &str,
) -> io::Result<Option<String>> {
    loop {
        let mut fds = [PollFd::new(listener, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
        retry_on_intr(|| poll(&mut fds, None))?;
        if !fds[1].revents().is_empty() {
            return Ok(None);
        }
        let (mut stream, _) = listener.accept()?;
        // A connection that fails is not that of the redirect.
        if let Ok(Some(query)) = answer(&mut stream, state) {
            return Ok(Some(query));
        }
    }
}

/// Answers one request; returns its query if it is the redirect with this `state`.
fn answer(stream: &mut TcpStream, state: &str) -> io::Result<Option<String>> {
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    stream.set_write_timeout(Some(READ_TIMEOUT))?;
    let mut bytes = Vec::new();
    while !bytes.windows(4).any(|window| window == b"\r\n\r\n") {
        let mut part = [0; 2_048];
        let length = stream.read(&mut part)?;
        if length == 0 || bytes.len() > REQUEST_BYTES_MAX {
            return Ok(None);
        }
        bytes.extend_from_slice(&part[..length]);
    }
    let query = redirect_query(&bytes);
    // A page of another login, or of another site, ends nothing.
    let is_expected = query.as_deref().is_some_and(|query| has_state(query, state));
    let (status, text) = match &query {
        Some(_) if is_expected => {
            ("200 OK", "Received. You may close this window and return to the program.")
        }
        Some(_) => (
            "400 Bad Request",
            "This is not the login that the program waits for: its state is another one. Open the \
             address that the program has printed last.",
        ),
        None => ("404 Not Found", "Not found."),
    };
    let length = text.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\
         Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n{text}"
    )?;
    Ok(query.filter(|_| is_expected))
}

/// Returns whether a query has this `state`, once.
fn has_state(query: &str, state: &str) -> bool {
    let mut states = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == "state");
    states.next().is_some_and(|(_, value)| value == state) && states.next().is_none()
}

/// Returns the query of a GET request for the redirect URI.
fn redirect_query(request: &[u8]) -> Option<String> {
    let line = request.split(|&byte| byte == b'\r').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let target = line.strip_prefix("GET ")?.strip_suffix(" HTTP/1.1")?;
    let (path, query) = target.split_once('?')?;
    (path == PATH).then(|| query.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirect_with_own_state_is_received() {
        let listener = RedirectListener::bind(0).unwrap();
        assert!(listener.uri().ends_with(PATH) && !listener.uri().contains(":0/"));
        let (_stop, stopped) = UnixStream::pair().unwrap();
        let port = listener.port;
        let browser = std::thread::spawn(move || {
            let mut answers = Vec::new();
            let paths = [
                "/favicon.ico",
                "/callback?code=a&state=c",
                "/callback?code=a",
                "/callback?code=a&state=b&state=c",
                "/callback?code=a&state=b",
            ];
            for path in paths {
                let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
                write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).unwrap();
                answers.push(answer.split(' ').nth(1).unwrap().to_owned());
            }
            answers
        });
        let query = receive(listener.listener.as_ref().unwrap(), &stopped, "b").unwrap();
        assert_eq!(query.as_deref(), Some("code=a&state=b"));
        assert_eq!(browser.join().unwrap(), ["404", "400", "400", "400", "200"]);
    }

    #[test]
    fn stopped_listener_receives_nothing() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (stop, stopped) = UnixStream::pair().unwrap();
        drop(stop);
        assert_eq!(receive(&listener, &stopped, "b").unwrap(), None);
    }
}
