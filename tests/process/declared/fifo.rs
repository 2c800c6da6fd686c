//! Named pipes by which tests follow processes that they have not started themselves.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use corelane_test_support::sockets::wait_until_readable;
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};

fn create(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).expect("FIFO is created");
}

/// A pipe that processes hold open for writing, until the last of them has ended.
pub(super) struct Lifeline {
    file: File,
}

impl Lifeline {
    /// Creates the pipe at `path`.
    pub(super) fn new(path: &Path) -> Self {
        create(path);
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).expect("a flag of open");
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
        Self { file: file.expect("FIFO is opened") }
    }

    /// Reads `count` lines that processes write.
    pub(super) fn read_lines(&mut self, count: usize) -> Vec<String> {
        let mut text = String::new();
        while text.matches('\n').count() < count {
            wait_until_readable(&self.file).expect("a process writes");
            match self.read() {
                Available::Text(part) => text.push_str(&part),
                Available::Nothing => {}
                Available::End => panic!("the pipe ended after {text:?}"),
            }
        }
        text.lines().map(ToOwned::to_owned).collect()
    }

    /// Waits until no process has the pipe open.
    pub(super) fn wait_for_end(&mut self) {
        loop {
            match self.read() {
                Available::Text(_) => {}
                Available::Nothing => wait_until_readable(&self.file).expect("a process ends"),
                Available::End => return,
            }
        }
    }

    fn read(&mut self) -> Available {
        let mut bytes = [0; 4096];
        match self.file.read(&mut bytes) {
            Ok(0) => Available::End,
            Ok(length) => Available::Text(String::from_utf8_lossy(&bytes[..length]).into_owned()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Available::Nothing,
            Err(error) => panic!("{error}"),
        }
    }
}

/// What a pipe has at a moment.
enum Available {
    Text(String),
    /// Nothing yet: a process has it open.
    Nothing,
    /// No process has it open.
    End,
}

/// A pipe at which processes wait for a line.
pub(super) struct Gate {
    file: File,
}

impl Gate {
    /// Creates the pipe at `path`.
    pub(super) fn new(path: &Path) -> Self {
        create(path);
        let file = OpenOptions::new().read(true).write(true).open(path);
        Self { file: file.expect("FIFO is opened") }
    }

    /// Lets one process continue.
    pub(super) fn open(&mut self) {
        self.file.write_all(b"go\n").expect("a process reads");
    }
}
