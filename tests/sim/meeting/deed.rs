//! What a client does that is asked, keeps tasks and listens. Which state, task or stream a deed is
//! about is decided when it is done, from what there is by then.

use std::time::Duration;

use corelane::base::random::Random;

use crate::meeting::phrase::Manner;

/// One thing that a client does; what its era does not know, it passes over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Deed {
    /// Calls a tool.
    Call(&'static str),
    /// Calls a tool that runs as a task, with arguments where it needs some.
    Begin(&'static str),
    /// Answers a question of the server's.
    Reply(Manner),
    /// Answers one that was answered or taken back before.
    ReplyAgain,
    /// Calls again with the state of a round that anybody ended, and answers.
    Retry(Manner),
    /// Calls again without an answer: it is asked again.
    RetryMute,
    /// Calls again with a state that was brought before.
    Replay,
    /// Takes a request back.
    CancelCall,
    /// Asks how a task stands.
    Get(Whose),
    /// Answers what a task asks, or what it may.
    Update(Manner),
    /// Ends a task.
    CancelTask(Whose),
    /// Waits for the result of a task.
    Result,
    /// Asks for a stream of everything, some tasks included.
    Listen,
    /// Takes a stream back.
    EndStream,
    /// A session wants to hear of a resource.
    Subscribe,
    /// And no more.
    Unsubscribe,
    /// Has a handler say that a resource has changed.
    Touch,
    /// Has another catalog offered.
    Vary,
    /// Asks for what is answered at once.
    Greet,
    /// Does nothing for a while.
    Wait(Duration),
    /// Reads nothing until it reads again.
    StopReading,
    /// Reads again.
    ReadAgain,
    /// Goes on when everything was answered.
    Settle,
    /// Goes away.
    Close,
    /// Goes away with a reset.
    Reset,
}

/// Whose task a deed is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Whose {
    /// One of any connection.
    Anybodys,
    /// One that only clients of the other generation know.
    Foreign,
    /// One that nobody began.
    Nobodys,
}

/// Tools that ask.
pub(crate) const ASKERS: [&str; 3] = [
    "test_input_required_result_elicitation",
    "test_input_required_result_multi_round",
    "test_input_required_result_multiple_inputs",
];

/// Tools that run as tasks.
pub(crate) const JOBS: [&str; 5] =
    ["confirm_delete", "failing_job", "multi_input", "protocol_error_job", "slow_compute"];

/// What a client of a random run does.
pub(crate) fn draw(random: &mut Random) -> Vec<Deed> {
    let mut deeds = Vec::new();
    // Most clients do one kind of thing, so that things come to an end.
    let bent = random.below(4);
    for _ in 0..4 + random.below(20) {
        let kind = if random.chance(1, 3) { random.below(4) } else { bent };
        match kind {
            0 => ask(random, &mut deeds),
            1 => keep_tasks(random, &mut deeds),
            2 => listen(random, &mut deeds),
            _ => linger(random, &mut deeds),
        }
    }
    match random.below(6) {
        0 => deeds.push(Deed::Close),
        1 => deeds.push(Deed::Reset),
        2 => deeds.extend([Deed::StopReading, wait(random, 300_000), Deed::Reset]),
        _ => deeds.extend([Deed::ReadAgain, Deed::Settle, Deed::Close]),
    }
    deeds
}

fn ask(random: &mut Random, deeds: &mut Vec<Deed>) {
    deeds.push(match random.below(12) {
        0..=3 => Deed::Call(ASKERS[random.below(ASKERS.len())]),
        4 | 5 => Deed::Reply(manner(random)),
        6 => Deed::ReplyAgain,
        7 | 8 => Deed::Retry(manner(random)),
        9 => Deed::RetryMute,
        10 => Deed::Replay,
        _ => Deed::CancelCall,
    });
    deeds.push(wait(random, 8_000));
    // A session answers what it was asked, another client calls again.
    deeds.extend([Deed::Reply(manner(random)), Deed::Retry(manner(random))]);
}

fn keep_tasks(random: &mut Random, deeds: &mut Vec<Deed>) {
    let whose = match random.below(10) {
        0 => Whose::Foreign,
        1 => Whose::Nobodys,
        _ => Whose::Anybodys,
    };
    deeds.push(match random.below(10) {
        0..=2 => Deed::Begin(JOBS[random.below(JOBS.len())]),
        3 | 4 => Deed::Get(whose),
        5 | 6 => Deed::Update(manner(random)),
        7 => Deed::CancelTask(whose),
        8 => Deed::Result,
        _ => Deed::Reply(manner(random)),
    });
}

fn listen(random: &mut Random, deeds: &mut Vec<Deed>) {
    deeds.push(match random.below(9) {
        0 | 1 => Deed::Listen,
        2 => Deed::EndStream,
        3 => Deed::Subscribe,
        4 => Deed::Unsubscribe,
        5 | 6 => Deed::Touch,
        _ => Deed::Vary,
    });
}

fn linger(random: &mut Random, deeds: &mut Vec<Deed>) {
    deeds.push(match random.below(10) {
        0 => Deed::StopReading,
        1 | 2 => Deed::ReadAgain,
        3 => Deed::Greet,
        4 => wait(random, 700_000),
        5 => Deed::Settle,
        _ => wait(random, 20_000),
    });
}

const fn manner(random: &mut Random) -> Manner {
    match random.below(6) {
        0 => Manner::Badly,
        1 => Manner::No,
        _ => Manner::Well,
    }
}

const fn wait(random: &mut Random, microseconds_max: usize) -> Deed {
    Deed::Wait(Duration::from_micros(random.below(microseconds_max) as u64))
}
