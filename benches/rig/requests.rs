//! The request lines that the whole-process benches send, and the check of what comes back.
//!
//! Ids have a fixed width, so one template serves a whole run: only nine digits change from call
//! to call, and every right answer of one server has the same length. A wrong answer is therefore
//! noticed by counting bytes, and a sample is parsed and compared in full.

use std::io;

use serde_json::Value;

/// Bytes that the echo tool is asked to say back, where nothing else is said.
pub(crate) const MESSAGE_BYTES: usize = 32;

/// The first id of a connection; nine digits, and so are all that follow it in one run.
pub(crate) const FIRST_ID: u64 = 100_000_000;

const ID_DIGITS: usize = 9;

/// Opens a session of revision 2025-11-25. The answer must be waited for.
pub(crate) const INITIALIZE: &str = concat!(
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"#,
    r#""protocolVersion":"2025-11-25","capabilities":{},"#,
    r#""clientInfo":{"name":"bench","version":"1"}}}"#,
    "\n"
);

/// Ends the opening of a session. It has no answer.
pub(crate) const INITIALIZED: &str =
    concat!(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, "\n");

/// Makes a call modern: the last member of its params, with the comma before it.
pub(crate) const META: &str = concat!(
    r#","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
    r#""io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"#,
    r#""io.modelcontextprotocol/clientCapabilities":{}}"#
);

/// How a call says which protocol it speaks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Era {
    /// A session is opened first; calls are short.
    Legacy,
    /// Each call says everything in its `_meta`.
    Modern,
}

impl Era {
    /// The word for it on the command line and in the tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

/// One `tools/call` line whose id can be changed in place.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    line: Vec<u8>,
    id_at: usize,
    message: String,
}

impl Template {
    /// The call of the echo tool, in `era`, with its newline, and with a message of this length.
    pub(crate) fn echo(era: Era, message_bytes: usize) -> Self {
        let message: String = ('a'..='z').cycle().take(message_bytes).collect();
        let head = r#"{"jsonrpc":"2.0","id":"#;
        let meta = match era {
            Era::Legacy => "",
            Era::Modern => META,
        };
        let line = format!(
            "{head}{FIRST_ID},\"method\":\"tools/call\",\"params\":{{\"name\":\"echo\",\
             \"arguments\":{{\"message\":\"{message}\"}}{meta}}}}}\n"
        );
        Self { line: line.into_bytes(), id_at: head.len(), message }
    }

    /// Bytes of one line with its newline.
    pub(crate) const fn bytes(&self) -> usize {
        self.line.len()
    }

    /// `count` such lines, one behind the other.
    pub(crate) fn repeat(&self, count: usize) -> Vec<u8> {
        self.line.repeat(count)
    }

    /// Writes `id` into the line at `place` of a buffer made by [`Self::repeat`].
    #[inline]
    pub(crate) fn number(&self, buffer: &mut [u8], place: usize, id: u64) {
        let start = place * self.line.len() + self.id_at;
        let mut rest = id;
        for digit in buffer[start..start + ID_DIGITS].iter_mut().rev() {
            *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
            rest /= 10;
        }
    }

    /// Reads one answer line: it must be JSON with this id, and either say the message back as the
    /// result of the tool or, where a bare echo answered, be the call itself.
    pub(crate) fn check(&self, line: &[u8], id: u64) -> io::Result<()> {
        let answer: Value = serde_json::from_slice(line)?;
        let said = answer
            .pointer("/result/content/0/text")
            .or_else(|| answer.pointer("/params/arguments/message"));
        if answer["id"].as_u64() == Some(id) && said.and_then(Value::as_str) == Some(&self.message)
        {
            return Ok(());
        }
        let line = String::from_utf8_lossy(line);
        Err(io::Error::other(format!("the call {id} got a wrong answer: {line}")))
    }
}
