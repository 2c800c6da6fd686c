//! The messages between server and supervisor, and their bytes. Both ends are one program.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use crate::Sandbox;
use crate::socket::LEN_BYTES;
use crate::spec::{ChildSpec, Exit, ResourceLimits, User, Variable};

/// Identifies a child among those of one supervisor process.
pub(crate) type ChildId = u32;

/// A message to the supervisor.
#[derive(Debug)]
pub(crate) enum Request {
    /// Starts a child; three descriptors come with it.
    Spawn(ChildId, Box<ChildSpec>),
    /// Enters a sandbox without starting a child. The exit status is 0 if that is possible.
    Check(ChildId, Sandbox),
    /// Sends SIGTERM to the group of a child, and SIGKILL after its grace.
    Terminate(ChildId),
    /// Sends SIGKILL to the group of a child.
    Kill(ChildId),
}

/// The message of the supervisor: the end of a child.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Ended {
    pub(crate) id: ChildId,
    pub(crate) exit: Exit,
}

const SPAWN: u8 = 1;
const CHECK: u8 = 2;
const TERMINATE: u8 = 3;
const KILL: u8 = 4;

const EXIT_CODE: u8 = 1;
const EXIT_SIGNAL: u8 = 2;
const EXIT_NOT_STARTED: u8 = 3;
const EXIT_SUPERVISOR_GONE: u8 = 4;

/// Returns the frame that starts a child.
pub(crate) fn encode_spawn(id: ChildId, spec: &ChildSpec) -> Vec<u8> {
    let mut encoder = Encoder::new(SPAWN, id);
    encoder.bytes(spec.program.as_bytes());
    encoder.list(&spec.arguments, |encoder, argument| encoder.bytes(argument.as_bytes()));
    encoder.list(&spec.environment, |encoder, Variable { name, value }| {
        encoder.bytes(name.as_bytes());
        encoder.bytes(value.as_bytes());
    });
    encoder.list(&spec.directory, |encoder, directory| {
        encoder.bytes(directory.as_os_str().as_bytes());
    });
    encoder.list(&spec.user, |encoder, user| {
        encoder.u64(user.uid.into());
        encoder.u64(user.gid.into());
    });
    encoder.u64(u64::try_from(spec.grace.as_millis()).unwrap_or(u64::MAX));
    let ResourceLimits { address_space_bytes, cpu_seconds, open_files, processes } = &spec.limits;
    for limit in [address_space_bytes, cpu_seconds, open_files, processes] {
        encoder.list(limit, |encoder, limit| encoder.u64(*limit));
    }
    encoder.list(&spec.sandbox, Encoder::sandbox);
    encoder.finish()
}

/// Returns the frame that enters a sandbox for a check.
pub(crate) fn encode_check(id: ChildId, sandbox: &Sandbox) -> Vec<u8> {
    let mut encoder = Encoder::new(CHECK, id);
    encoder.sandbox(sandbox);
    encoder.finish()
}

/// Returns the frame that terminates a child.
pub(crate) fn encode_terminate(id: ChildId) -> Vec<u8> {
    Encoder::new(TERMINATE, id).finish()
}

/// Returns the frame that kills a child.
pub(crate) fn encode_kill(id: ChildId) -> Vec<u8> {
    Encoder::new(KILL, id).finish()
}

/// Returns the frame of the end of a child.
pub(crate) fn encode_ended(ended: &Ended) -> Vec<u8> {
    let kind = match ended.exit {
        Exit::Code(_) => EXIT_CODE,
        Exit::Signal(_) => EXIT_SIGNAL,
        Exit::NotStarted(_) => EXIT_NOT_STARTED,
        Exit::SupervisorGone => EXIT_SUPERVISOR_GONE,
    };
    let mut encoder = Encoder::new(kind, ended.id);
    match &ended.exit {
        Exit::Code(number) | Exit::Signal(number) => encoder.0.extend(number.to_le_bytes()),
        Exit::NotStarted(why) => encoder.bytes(why.as_bytes()),
        Exit::SupervisorGone => {}
    }
    encoder.finish()
}

/// Reads a request; `None` if it is malformed.
pub(crate) fn decode_request(frame: &[u8]) -> Option<Request> {
    let mut decoder = Decoder(frame);
    let kind = decoder.u8()?;
    let id = decoder.u32()?;
    let request = match kind {
        SPAWN => Request::Spawn(id, Box::new(decoder.spec()?)),
        CHECK => Request::Check(id, decoder.sandbox()?),
        TERMINATE => Request::Terminate(id),
        KILL => Request::Kill(id),
        _ => return None,
    };
    decoder.0.is_empty().then_some(request)
}

/// Reads the end of a child; `None` if it is malformed.
pub(crate) fn decode_ended(frame: &[u8]) -> Option<Ended> {
    let mut decoder = Decoder(frame);
    let kind = decoder.u8()?;
    let id = decoder.u32()?;
    let exit = match kind {
        EXIT_CODE => Exit::Code(decoder.u32()?.cast_signed()),
        EXIT_SIGNAL => Exit::Signal(decoder.u32()?.cast_signed()),
        EXIT_NOT_STARTED => Exit::NotStarted(String::from_utf8_lossy(decoder.bytes()?).into()),
        EXIT_SUPERVISOR_GONE => Exit::SupervisorGone,
        _ => return None,
    };
    decoder.0.is_empty().then_some(Ended { id, exit })
}

/// Writes a frame.
struct Encoder(Vec<u8>);

impl Encoder {
    fn new(kind: u8, id: ChildId) -> Self {
        let mut bytes = vec![0; LEN_BYTES];
        bytes.push(kind);
        bytes.extend(id.to_le_bytes());
        Self(bytes)
    }

    /// Lengths beyond `u32` are beyond the limit of a frame, which is checked before it is sent.
    fn u32(&mut self, value: usize) {
        self.0.extend(u32::try_from(value).unwrap_or(u32::MAX).to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.u32(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    fn list<'a, T: 'a>(
        &mut self,
        values: impl IntoIterator<Item = &'a T, IntoIter: ExactSizeIterator>,
        mut encode: impl FnMut(&mut Self, &T),
    ) {
        let values = values.into_iter();
        self.u32(values.len());
        values.for_each(|value| encode(self, value));
    }

    fn sandbox(&mut self, sandbox: &Sandbox) {
        for paths in [&sandbox.read, &sandbox.write] {
            self.list(paths, |encoder, path| encoder.bytes(path.as_os_str().as_bytes()));
        }
        self.0.push(sandbox.network.into());
    }

    fn finish(mut self) -> Vec<u8> {
        let len = u32::try_from(self.0.len() - LEN_BYTES).unwrap_or(u32::MAX);
        self.0[..LEN_BYTES].copy_from_slice(&len.to_le_bytes());
        self.0
    }
}

/// Reads a frame from its begin.
struct Decoder<'a>(&'a [u8]);

impl<'a> Decoder<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()?;
        self.take(usize::try_from(len).ok()?)
    }

    fn text(&mut self) -> Option<OsString> {
        self.bytes().map(|bytes| OsStr::from_bytes(bytes).to_owned())
    }

    fn list<T>(&mut self, mut decode: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let len = self.u32()?;
        (0..len).map(|_| decode(self)).collect()
    }

    /// Reads a list of one value, at most.
    fn option<T>(&mut self, decode: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        self.list(decode).filter(|values| values.len() <= 1)
    }

    fn path(&mut self) -> Option<PathBuf> {
        self.bytes().map(|bytes| OsString::from_vec(bytes.to_vec()).into())
    }

    fn sandbox(&mut self) -> Option<Sandbox> {
        let read = self.list(Self::path)?;
        let write = self.list(Self::path)?;
        Some(Sandbox { read, write, network: self.u8()? != 0 })
    }

    fn user(&mut self) -> Option<User> {
        let uid = u32::try_from(self.u64()?).ok()?;
        Some(User { uid, gid: u32::try_from(self.u64()?).ok()? })
    }

    fn variable(&mut self) -> Option<Variable> {
        let name = self.text()?;
        Some(Variable { name, value: self.text()? })
    }

    fn spec(&mut self) -> Option<ChildSpec> {
        let program = self.text()?;
        let arguments = self.list(Self::text)?;
        let environment = self.list(Self::variable)?;
        let directory = self.option(Self::path)?.pop();
        let user = self.option(Self::user)?.pop();
        let grace = Duration::from_millis(self.u64()?);
        let limits = ResourceLimits {
            address_space_bytes: self.option(Self::u64)?.pop(),
            cpu_seconds: self.option(Self::u64)?.pop(),
            open_files: self.option(Self::u64)?.pop(),
            processes: self.option(Self::u64)?.pop(),
        };
        let sandbox = self.option(Self::sandbox)?.pop();
        Some(ChildSpec { program, arguments, environment, directory, user, grace, limits, sandbox })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full_spec() -> ChildSpec {
        let mut spec = ChildSpec::new("df");
        spec.arguments = vec!["-h".into(), OsString::from_vec(vec![0xff, b'\n'])];
        spec.environment = vec![Variable::new("LANG", "C")];
        spec.directory = Some("/srv".into());
        spec.user = Some(User { uid: 1, gid: 2 });
        spec.grace = Duration::from_millis(1_500);
        spec.limits.cpu_seconds = Some(3);
        let (read, write) = (vec!["/a".into()], vec!["/b".into(), "/c".into()]);
        spec.sandbox = Some(Sandbox { read, write, network: true });
        spec
    }

    #[test]
    fn spawn_request_is_read_as_written() {
        let spec = full_spec();
        let frame = encode_spawn(7, &spec);
        let Some(Request::Spawn(7, read)) = decode_request(&frame[LEN_BYTES..]) else {
            panic!("no request");
        };
        assert_eq!(read.program, spec.program);
        assert_eq!(read.arguments, spec.arguments);
        assert_eq!(read.environment, spec.environment);
        assert_eq!(read.directory, spec.directory);
        assert_eq!(read.user, spec.user);
        assert_eq!(read.grace, spec.grace);
        assert_eq!(read.limits, spec.limits);
        assert_eq!(read.sandbox, spec.sandbox);
    }

    #[test]
    fn every_exit_is_read_as_written() {
        let why = Exit::NotStarted("not found".to_owned());
        for exit in [Exit::Code(255), Exit::Signal(9), why, Exit::SupervisorGone] {
            let ended = Ended { id: 9, exit };
            assert_eq!(decode_ended(&encode_ended(&ended)[LEN_BYTES..]), Some(ended));
        }
    }

    #[test]
    fn truncated_frames_are_refused() {
        let frame = encode_spawn(7, &full_spec());
        for end in LEN_BYTES..frame.len() {
            assert!(decode_request(&frame[LEN_BYTES..end]).is_none(), "{end}");
        }
        assert!(decode_request(&[9, 0, 0, 0, 0]).is_none());
    }
}
