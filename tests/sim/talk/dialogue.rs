//! What a client is going to do: a list of acts, drawn from chance.

use std::time::Duration;

use corelane::base::random::Random;

use crate::talk::conversation::Note;
use crate::talk::speaker::{Facts, Said, Speaker};

/// One thing that a client does.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Writes bytes, in pieces, after noting what follows from each message in them.
    Say { bytes: Vec<u8>, notes: Vec<Vec<Note>> },
    /// Does nothing for a while.
    Wait(Duration),
    /// Goes on when everything was answered.
    AwaitAnswers,
    /// Reads nothing until it reads again.
    StopReading,
    /// Reads again.
    ReadAgain,
    /// Will leave its side open when the server ends the connection.
    Linger,
    /// Says its end and goes on reading.
    Finish,
    /// Waits for the server to end the connection.
    Stay,
    /// Goes away.
    Close,
    /// Goes away with a reset.
    Reset,
}

/// Writes the acts of one client.
#[derive(Debug)]
pub(crate) struct Dialogue<'a> {
    speaker: Speaker<'a>,
    acts: Vec<Act>,
    /// To be said in the next act.
    bytes: Vec<u8>,
    notes: Vec<Vec<Note>>,
}

impl Act {
    /// Itself, in a word or two.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Say { bytes, notes } => {
                format!("say {} messages in {} bytes", notes.len(), bytes.len())
            }
            other => format!("{other:?}"),
        }
    }
}

impl<'a> Dialogue<'a> {
    /// Everything that one client will do.
    pub(crate) fn write(random: &'a mut Random, facts: Facts) -> Vec<Act> {
        let speaker = Speaker::new(random, facts);
        let mut dialogue = Self { speaker, acts: Vec::new(), bytes: Vec::new(), notes: Vec::new() };
        if dialogue.chance(1, 5) {
            dialogue.acts.push(Act::Linger);
        }
        match dialogue.below(14) {
            0 => dialogue.stay(),
            1 => dialogue.stop_in_the_middle_of_a_word(),
            _ => dialogue.converse(),
        }
        dialogue.acts
    }

    /// The beginning of a message and nothing more: the lease runs out, or the pipe ends.
    fn stop_in_the_middle_of_a_word(&mut self) {
        let (bytes, notes) = self.speaker.half_a_message();
        self.bytes.extend(bytes);
        if self.speaker.facts.is_piped {
            self.notes.push(notes);
        }
        self.utter();
        self.stay();
    }

    /// Waits for the end, which comes by itself where there are timeouts.
    fn stay(&mut self) {
        if self.speaker.facts.is_piped {
            self.acts.push(Act::Finish);
        }
        self.acts.push(Act::Stay);
    }

    fn converse(&mut self) {
        if !self.speaker.is_modern() {
            self.shake_hands();
        }
        for _ in 0..=self.below(4) {
            self.round();
        }
        self.end();
    }

    /// The handshake, now and then with requests that come too early, now and then at once.
    fn shake_hands(&mut self) {
        let is_eager = self.chance(1, 3);
        if self.chance(1, 4) {
            self.request();
        }
        let asked = self.speaker.ask_for_a_session();
        self.add(asked);
        if self.chance(1, 4) {
            self.request();
        }
        if !is_eager {
            self.utter();
            self.acts.push(Act::AwaitAnswers);
        }
        let confirmed = self.speaker.confirm_the_session();
        self.add(confirmed);
        if !is_eager {
            self.utter();
        }
    }

    /// Some messages at once, and what comes after them.
    fn round(&mut self) {
        let is_deaf = self.chance(1, 6);
        if is_deaf {
            self.acts.push(Act::StopReading);
        }
        let messages_max = if self.chance(1, 6) { 24 } else { 6 };
        for _ in 0..=self.below(messages_max) {
            for said in self.speaker.any() {
                self.add(said);
            }
        }
        self.utter();
        if is_deaf {
            self.wait(20_000);
            self.acts.push(Act::ReadAgain);
        }
        match self.below(4) {
            0 => {}
            1 => self.wait(10_000),
            _ => self.acts.push(Act::AwaitAnswers),
        }
    }

    fn end(&mut self) {
        match self.below(12) {
            0 => self.acts.push(Act::Reset),
            1 => self.acts.push(Act::Close),
            2 => self.overdo(),
            3 | 4 => {
                self.acts.push(Act::AwaitAnswers);
                self.stay();
            }
            5..=8 => {
                if self.chance(1, 3) {
                    // A last line needs no terminator.
                    let (bytes, notes) = self.speaker.request();
                    self.bytes.extend(bytes);
                    self.notes.push(notes);
                    self.utter();
                }
                self.acts.extend([Act::Finish, Act::Stay]);
            }
            _ => self.acts.extend([Act::AwaitAnswers, Act::Close]),
        }
    }

    /// A message that is too large, and more behind it. Where that ends the connection nothing may
    /// follow from what comes behind.
    fn overdo(&mut self) {
        let said = self.speaker.too_much();
        self.add(said);
        for _ in 0..self.below(3) {
            let (bytes, notes) = self.speaker.request();
            let goes_on = self.speaker.facts.is_piped;
            self.add((bytes, if goes_on { notes } else { vec![Note::Nothing] }));
        }
        self.utter();
        self.stay();
    }

    fn request(&mut self) {
        let said = self.speaker.request();
        self.add(said);
    }

    fn add(&mut self, (bytes, notes): Said) {
        let terminators: [&[u8]; 5] = [b"\n", b"\n", b"\r\n", b"\r", b"\n\n\r\n"];
        let terminator = terminators[self.below(terminators.len())];
        self.bytes.extend(bytes);
        self.bytes.extend_from_slice(terminator);
        self.notes.push(notes);
    }

    fn utter(&mut self) {
        let (bytes, notes) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.notes));
        if !bytes.is_empty() {
            self.acts.push(Act::Say { bytes, notes });
        }
    }

    fn wait(&mut self, microseconds_max: usize) {
        let span = Duration::from_micros(self.below(microseconds_max) as u64);
        self.acts.push(Act::Wait(span));
    }

    const fn below(&mut self, bound: usize) -> usize {
        self.speaker.random.below(bound)
    }

    const fn chance(&mut self, numerator: usize, denominator: usize) -> bool {
        self.speaker.random.chance(numerator, denominator)
    }
}
