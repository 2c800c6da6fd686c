//! The same closed loop over stdio, with one client. Its floor is `cat`.

use std::io::{self, Read, Write};
use std::process::{ChildStdin, ChildStdout};

use corelane_base::time::Instant;
use corelane_bench_support::process::Server;
use corelane_bench_support::requests::{Era, INITIALIZE, INITIALIZED, RequestTemplate};
use corelane_engine::clock::Clock;

use crate::load::{Load, Outcome, Snapshot};
use crate::request_log::{RequestLog, ResponseFormat, Totals};

/// Size of one read: the capacity of a pipe.
const READ_BYTES: usize = 64 * 1024;

struct Client {
    input: ChildStdin,
    output: ChildStdout,
    clock: Clock,
    now: Instant,
    template: RequestTemplate,
    calls: Vec<u8>,
    arrival: Vec<u8>,
    log: RequestLog,
    totals: Totals,
}

/// Starts a server with pipes, runs the load with `load.depth` calls in flight and measures it.
pub(crate) fn run(arguments: &[String], load: Load) -> io::Result<Outcome> {
    let (server, input, output) = Server::start_piped(arguments)?;
    let template = RequestTemplate::echo(load.era, load.message_bytes);
    let clock = Clock::start();
    let mut client = Client {
        input,
        output,
        clock,
        now: clock.now(),
        calls: template.repeat(load.depth),
        template,
        arrival: vec![0; READ_BYTES],
        log: RequestLog::new(load.depth, ResponseFormat::Lines),
        totals: Totals::new()?,
    };
    if load.protocol && load.era == Era::Legacy {
        client.open()?;
    }
    client.drive(client.now.after(load.warm_up))?;
    client.totals.latency.reset();
    let before = Snapshot::take(client.now, &client.totals, &server)?;
    client.drive(client.now.after(load.span))?;
    let after = Snapshot::take(client.now, &client.totals, &server)?;
    client.finish()?;
    Ok(Outcome::between(&before, &after, client.totals.latency))
}

impl Client {
    fn open(&mut self) -> io::Result<()> {
        self.input.write_all(INITIALIZE.as_bytes())?;
        while self.read()?.last() != Some(&b'\n') {}
        self.input.write_all(INITIALIZED.as_bytes())
    }

    /// Sends a call for each response until `until`.
    fn drive(&mut self, until: Instant) -> io::Result<()> {
        while self.now < until {
            if self.log.may_send() {
                let from = self.log.prepare_calls(&self.template, &mut self.calls, self.now);
                self.input.write_all(&self.calls[from..])?;
            }
            self.receive()?;
        }
        Ok(())
    }

    /// Stops sending, waits for the pending responses and checks the totals.
    fn finish(&mut self) -> io::Result<()> {
        while self.totals.answered < self.log.sent() {
            self.receive()?;
        }
        self.totals.check(self.log.sent())
    }

    fn receive(&mut self) -> io::Result<()> {
        let length = self.read()?.len();
        self.now = self.clock.now();
        let Self { log, template, arrival, now, totals, .. } = self;
        log.receive(template, &arrival[..length], *now, totals)
    }

    fn read(&mut self) -> io::Result<&[u8]> {
        match self.output.read(&mut self.arrival)? {
            0 => Err(io::Error::other("the server closed its standard output")),
            length => Ok(&self.arrival[..length]),
        }
    }
}
