//! The same closed loop over two pipes: what one client gets out of a server on standard input
//! and output. The floor beside it is `cat`, which says everything back and looks at nothing.

use std::io::{self, Read, Write};
use std::process::{ChildStdin, ChildStdout};

use corelane::base::time::Moment;
use corelane::engine::clock::Clock;

use crate::dialogue::{Dialogue, Framing, Sums};
use crate::load::{Load, Mark, Outcome};
use crate::process::Server;
use crate::requests::{Era, INITIALIZE, INITIALIZED, Template};

/// What one read takes at most; a pipe holds as much.
const READ_BYTES: usize = 64 * 1024;

struct Client {
    input: ChildStdin,
    output: ChildStdout,
    clock: Clock,
    now: Moment,
    template: Template,
    calls: Vec<u8>,
    arrival: Vec<u8>,
    dialogue: Dialogue,
    sums: Sums,
}

/// Starts a server with pipes, drives it with `load.depth` calls in flight and measures it.
pub(crate) fn run(arguments: &[String], load: Load) -> io::Result<Outcome> {
    let (server, input, output) = Server::start_piped(arguments)?;
    let template = Template::echo(load.era, load.message_bytes);
    let clock = Clock::start();
    let mut client = Client {
        input,
        output,
        clock,
        now: clock.now(),
        calls: template.repeat(load.depth),
        template,
        arrival: vec![0; READ_BYTES],
        dialogue: Dialogue::new(load.depth, Framing::Lines),
        sums: Sums::new()?,
    };
    if load.protocol && load.era == Era::Legacy {
        client.open()?;
    }
    client.drive(client.now.after(load.warm_up))?;
    client.sums.latency.reset();
    let before = Mark::set(client.now, &client.sums, &server)?;
    client.drive(client.now.after(load.span))?;
    let after = Mark::set(client.now, &client.sums, &server)?;
    client.finish()?;
    Ok(Outcome::between(&before, &after, client.sums.latency))
}

impl Client {
    fn open(&mut self) -> io::Result<()> {
        self.input.write_all(INITIALIZE.as_bytes())?;
        while self.read()?.last() != Some(&b'\n') {}
        self.input.write_all(INITIALIZED.as_bytes())
    }

    /// Asks for every answer anew, until the time has come.
    fn drive(&mut self, until: Moment) -> io::Result<()> {
        while self.now < until {
            if self.dialogue.may_ask() {
                let from = self.dialogue.ask(&self.template, &mut self.calls, self.now);
                self.input.write_all(&self.calls[from..])?;
            }
            self.hear()?;
        }
        Ok(())
    }

    /// Asks no more, waits for the answers that are due and compares the sums.
    fn finish(&mut self) -> io::Result<()> {
        while self.sums.answered < self.dialogue.asked() {
            self.hear()?;
        }
        self.sums.balance(self.dialogue.asked())
    }

    fn hear(&mut self) -> io::Result<()> {
        let length = self.read()?.len();
        self.now = self.clock.now();
        let Self { dialogue, template, arrival, now, sums, .. } = self;
        dialogue.hear(template, &arrival[..length], *now, sums)
    }

    fn read(&mut self) -> io::Result<&[u8]> {
        match self.output.read(&mut self.arrival)? {
            0 => Err(io::Error::other("the server ended its output")),
            length => Ok(&self.arrival[..length]),
        }
    }
}
