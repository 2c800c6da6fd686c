//! Actions of a client, drawn at random.

use std::time::Duration;

use corelane_base::random::Random;

use crate::line_simulation::expectation::Expectation;
use crate::line_simulation::message_generator::{GeneratedMessage, MessageGenerator, ServerFacts};

/// One action of a client.
#[derive(Clone, Debug)]
pub(crate) enum LineAction {
    /// Writes bytes, in pieces, after recording the expectations of each message in them.
    Send {
        bytes: Vec<u8>,
        expectations: Vec<Vec<Expectation>>,
    },
    /// Does nothing for this long.
    Wait(Duration),
    /// Waits until every response has arrived.
    AwaitResponses,
    /// Reads nothing until [`Self::ResumeReading`].
    StopReading,
    ResumeReading,
    /// From now on, leaves its side open when the server ends the connection.
    Linger,
    /// Shuts down its writing side and goes on reading.
    ShutdownWrite,
    /// Waits for the server to end the connection.
    AwaitClose,
    Close,
    Reset,
}

/// Draws the actions of one client.
#[derive(Debug)]
pub(crate) struct ActionGenerator<'a> {
    generator: MessageGenerator<'a>,
    actions: Vec<LineAction>,
    /// To be sent in the next action.
    bytes: Vec<u8>,
    expectations: Vec<Vec<Expectation>>,
}

impl LineAction {
    /// Returns a short description.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Send { bytes, expectations: notes } => {
                format!("say {} messages in {} bytes", notes.len(), bytes.len())
            }
            other => format!("{other:?}"),
        }
    }
}

impl<'a> ActionGenerator<'a> {
    fn new(random: &'a mut Random, facts: ServerFacts) -> Self {
        let generator = MessageGenerator::new(random, facts);
        Self { generator, actions: Vec::new(), bytes: Vec::new(), expectations: Vec::new() }
    }

    /// Draws all actions of one client.
    pub(crate) fn draw(random: &'a mut Random, facts: ServerFacts) -> Vec<LineAction> {
        let mut action_generator = Self::new(random, facts);
        if action_generator.chance(1, 5) {
            action_generator.actions.push(LineAction::Linger);
        }
        match action_generator.below(14) {
            0 => action_generator.await_close(),
            1 => action_generator.send_incomplete_message(),
            _ => action_generator.send_rounds(),
        }
        action_generator.actions
    }

    /// Draws the actions of a client that sends one small message at a time and reads its response.
    pub(crate) fn draw_small(random: &'a mut Random, facts: ServerFacts) -> Vec<LineAction> {
        let mut generator = Self::new(random, facts);
        if !generator.generator.is_modern() {
            let initialize = generator.generator.initialize();
            generator.exchange(initialize);
            let initialized = generator.generator.initialized();
            generator.exchange(initialized);
        }
        for _ in 0..2 + generator.below(12) {
            let message = generator.generator.small_message();
            generator.exchange(message);
            generator.wait(4_000);
        }
        generator.actions.push(LineAction::Close);
        generator.actions
    }

    /// Draws the actions of a client that does not read large responses.
    pub(crate) fn draw_large(random: &'a mut Random, facts: ServerFacts) -> Vec<LineAction> {
        let mut generator = Self::new(random, facts);
        if !generator.generator.is_modern() {
            generator.send_handshake();
        }
        generator.actions.push(LineAction::StopReading);
        for _ in 0..4 + generator.below(40) {
            let bytes_max = generator.generator.facts.message_bytes_max / 4;
            let message = generator.generator.large_echo(bytes_max);
            generator.add_message(message);
            if generator.chance(1, 4) {
                generator.flush();
                generator.wait(2_000);
            }
        }
        generator.flush();
        generator.wait(20_000);
        generator.actions.push(LineAction::ResumeReading);
        generator.draw_end();
        generator.actions
    }

    /// Sends a message and waits for its response.
    fn exchange(&mut self, message: GeneratedMessage) {
        self.add_message(message);
        self.flush();
        self.actions.push(LineAction::AwaitResponses);
    }

    /// Sends the beginning of a message only: the first-message timeout or the end of the pipe
    /// follows.
    fn send_incomplete_message(&mut self) {
        let GeneratedMessage { bytes, expectations } = self.generator.incomplete_message();
        self.bytes.extend(bytes);
        if self.generator.facts.is_piped {
            self.expectations.push(expectations);
        }
        self.flush();
        self.await_close();
    }

    /// Waits for the server to close, which happens by a timeout.
    fn await_close(&mut self) {
        if self.generator.facts.is_piped {
            self.actions.push(LineAction::ShutdownWrite);
        }
        self.actions.push(LineAction::AwaitClose);
    }

    fn send_rounds(&mut self) {
        if !self.generator.is_modern() {
            self.send_handshake();
        }
        for _ in 0..=self.below(4) {
            self.send_round();
        }
        self.draw_end();
    }

    /// Performs the handshake, sometimes with requests that come too early, sometimes at once.
    fn send_handshake(&mut self) {
        let is_eager = self.chance(1, 3);
        if self.chance(1, 4) {
            self.add_request();
        }
        let asked = self.generator.initialize();
        self.add_message(asked);
        if self.chance(1, 4) {
            self.add_request();
        }
        if !is_eager {
            self.flush();
            self.actions.push(LineAction::AwaitResponses);
        }
        let confirmed = self.generator.initialized();
        self.add_message(confirmed);
        if !is_eager {
            self.flush();
        }
    }

    /// Sends some messages at once, then waits in some way.
    fn send_round(&mut self) {
        let is_deaf = self.chance(1, 6);
        if is_deaf {
            self.actions.push(LineAction::StopReading);
        }
        let messages_max = if self.chance(1, 6) { 24 } else { 6 };
        for _ in 0..=self.below(messages_max) {
            for message in self.generator.any_messages() {
                self.add_message(message);
            }
        }
        self.flush();
        if is_deaf {
            self.wait(20_000);
            self.actions.push(LineAction::ResumeReading);
        }
        match self.below(4) {
            0 => {}
            1 => self.wait(10_000),
            _ => self.actions.push(LineAction::AwaitResponses),
        }
    }

    fn draw_end(&mut self) {
        match self.below(12) {
            0 => self.actions.push(LineAction::Reset),
            1 => self.actions.push(LineAction::Close),
            2 => self.send_oversized_message(),
            3 | 4 => {
                self.actions.push(LineAction::AwaitResponses);
                self.await_close();
            }
            5..=8 => {
                if self.chance(1, 3) {
                    // The last line needs no terminator.
                    let message = self.generator.request();
                    self.bytes.extend(message.bytes);
                    self.expectations.push(message.expectations);
                    self.flush();
                }
                self.actions.extend([LineAction::ShutdownWrite, LineAction::AwaitClose]);
            }
            _ => self.actions.extend([LineAction::AwaitResponses, LineAction::Close]),
        }
    }

    /// Sends a message that is too large, and more behind it. If the server closes the connection
    /// for that, the rest is not answered.
    fn send_oversized_message(&mut self) {
        let message = self.generator.oversized_message();
        self.add_message(message);
        for _ in 0..self.below(3) {
            let mut message = self.generator.request();
            if !self.generator.facts.is_piped {
                message.expectations = vec![Expectation::Nothing];
            }
            self.add_message(message);
        }
        self.flush();
        self.await_close();
    }

    fn add_request(&mut self) {
        let message = self.generator.request();
        self.add_message(message);
    }

    fn add_message(&mut self, message: GeneratedMessage) {
        let terminators: [&[u8]; 5] = [b"\n", b"\n", b"\r\n", b" \r\n", b"\n \n\r\n"];
        let terminator = terminators[self.below(terminators.len())];
        self.bytes.extend(message.bytes);
        self.bytes.extend_from_slice(terminator);
        self.expectations.push(message.expectations);
    }

    fn flush(&mut self) {
        let (bytes, notes) =
            (std::mem::take(&mut self.bytes), std::mem::take(&mut self.expectations));
        if !bytes.is_empty() {
            self.actions.push(LineAction::Send { bytes, expectations: notes });
        }
    }

    fn wait(&mut self, microseconds_max: usize) {
        let span = Duration::from_micros(self.below(microseconds_max) as u64);
        self.actions.push(LineAction::Wait(span));
    }

    const fn below(&mut self, bound: usize) -> usize {
        self.generator.random.below(bound)
    }

    const fn chance(&mut self, numerator: usize, denominator: usize) -> bool {
        self.generator.random.chance(numerator, denominator)
    }
}
