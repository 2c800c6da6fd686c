//! States and events of a session, and the table of its transitions.
//!
//! Both sides run the same machine: what the client sends, the server receives, and the event is
//! the same. Invariants: [`TRANSITIONS`] is the only place of the rules; an event that has no row
//! for the state is rejected and changes nothing.

use std::fmt;

use super::error::ParityError;
use corelane_protocol::json::ObjectWriter;

/// The state of one side of a session.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum State {
    /// No transport.
    #[default]
    Disconnected,
    /// The transport is established.
    Connecting,
    /// The handshake was sent (client) or received (server).
    HandshakeSent,
    /// The handshake was acknowledged.
    HandshakeAcked,
    /// The capabilities were refined.
    CapsExchanged,
    /// Requests and streams are permitted.
    Ready,
    /// A resume token is being validated.
    Resuming,
    /// A cancelled request or stream has not ended yet.
    Canceling,
    /// The session ends.
    Closing,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 9] = [
        Self::Disconnected,
        Self::Connecting,
        Self::HandshakeSent,
        Self::HandshakeAcked,
        Self::CapsExchanged,
        Self::Ready,
        Self::Resuming,
        Self::Canceling,
        Self::Closing,
    ];

    /// Returns the name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Disconnected => "Disconnected",
            Self::Connecting => "Connecting",
            Self::HandshakeSent => "HandshakeSent",
            Self::HandshakeAcked => "HandshakeAcked",
            Self::CapsExchanged => "CapsExchanged",
            Self::Ready => "Ready",
            Self::Resuming => "Resuming",
            Self::Canceling => "Canceling",
            Self::Closing => "Closing",
        }
    }
}

/// What happens to a session.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Event {
    /// The transport is established.
    Connect,
    /// `handshake`.
    SendHandshake,
    /// `handshakeAck`: version and capabilities are accepted.
    RecvHandshakeAck,
    /// `capabilities`, with its `capabilitiesAck`.
    ExchangeCaps,
    /// No `capabilities` follows the handshake.
    NoExplicitCaps,
    /// The refined capabilities are stored.
    CapsStored,
    /// `request`.
    SendRequest,
    /// `response`.
    RecvResponse,
    /// `request` with `stream: true`.
    StartStream,
    /// `stream.chunk`.
    RecvStream,
    /// `cancel`.
    SendCancel,
    /// The last frame of a stream, or of a cancelled request.
    RecvEos,
    /// A resume token and the last acknowledged numbers.
    Reconnect,
    /// The chunks after the acknowledged ones are kept.
    WindowOk,
    /// They are not.
    WindowStale,
    /// The time of the handshake is over.
    HandshakeTimeout,
    /// The time of the explicit capabilities is over, and the session is served without.
    CapsTimeoutContinue,
    /// The time of the explicit capabilities is over, which ends the session.
    CapsTimeoutFail,
    /// Nothing has come for the idle time.
    IdleTimeout,
    /// One side ends the session.
    Close,
    /// The transport is gone.
    Disconnect,
    /// The client waits before it connects again.
    RetryBackoff,
}

impl Event {
    /// Every event.
    pub const ALL: [Self; 22] = [
        Self::Connect,
        Self::SendHandshake,
        Self::RecvHandshakeAck,
        Self::ExchangeCaps,
        Self::NoExplicitCaps,
        Self::CapsStored,
        Self::SendRequest,
        Self::RecvResponse,
        Self::StartStream,
        Self::RecvStream,
        Self::SendCancel,
        Self::RecvEos,
        Self::Reconnect,
        Self::WindowOk,
        Self::WindowStale,
        Self::HandshakeTimeout,
        Self::CapsTimeoutContinue,
        Self::CapsTimeoutFail,
        Self::IdleTimeout,
        Self::Close,
        Self::Disconnect,
        Self::RetryBackoff,
    ];

    /// Returns the name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::SendHandshake => "sendHandshake",
            Self::RecvHandshakeAck => "recvHandshakeAck",
            Self::ExchangeCaps => "sendCaps/recvCapsAck",
            Self::NoExplicitCaps => "no explicit caps",
            Self::CapsStored => "implicit",
            Self::SendRequest => "sendRequest",
            Self::RecvResponse => "recvResponse",
            Self::StartStream => "startStream",
            Self::RecvStream => "recvStream",
            Self::SendCancel => "sendCancel",
            Self::RecvEos => "recvEos",
            Self::Reconnect => "reconnect",
            Self::WindowOk => "window OK",
            Self::WindowStale => "window stale",
            Self::HandshakeTimeout => "timeout(handshakeTimeout)",
            Self::CapsTimeoutContinue => "timeout(capsTimeout) [continue]",
            Self::CapsTimeoutFail => "timeout(capsTimeout) [fail]",
            Self::IdleTimeout => "timeout(idleTimeout)",
            Self::Close => "close",
            Self::Disconnect => "disconnect",
            Self::RetryBackoff => "retryBackoff",
        }
    }
}

/// One row of the transition table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Transition {
    /// The state; `None` for any.
    pub from: Option<State>,
    /// The event.
    pub event: Event,
    /// What is done.
    pub action: &'static str,
    /// The next state.
    pub to: State,
}

const fn row(from: State, event: Event, action: &'static str, to: State) -> Transition {
    Transition { from: Some(from), event, action, to }
}

const fn any(event: Event, action: &'static str, to: State) -> Transition {
    Transition { from: None, event, action, to }
}

/// The transitions. A row for any state applies where the state has no row for the event.
pub const TRANSITIONS: [Transition; 27] = [
    row(State::Disconnected, Event::Connect, "open transport", State::Connecting),
    row(State::Connecting, Event::SendHandshake, "validate handshake", State::HandshakeSent),
    row(
        State::HandshakeSent,
        Event::RecvHandshakeAck,
        "store the intersection",
        State::HandshakeAcked,
    ),
    row(
        State::HandshakeAcked,
        Event::ExchangeCaps,
        "store the refined intersection",
        State::CapsExchanged,
    ),
    row(State::HandshakeAcked, Event::NoExplicitCaps, "none", State::Ready),
    row(State::CapsExchanged, Event::CapsStored, "none", State::Ready),
    row(State::Ready, Event::SendRequest, "enqueue", State::Ready),
    row(State::Ready, Event::StartStream, "open streamId", State::Ready),
    row(State::Ready, Event::RecvResponse, "complete the request", State::Ready),
    row(State::Ready, Event::RecvStream, "deliver the chunk", State::Ready),
    row(State::Ready, Event::RecvEos, "finalize", State::Ready),
    row(State::Ready, Event::SendCancel, "stop production", State::Canceling),
    row(State::Canceling, Event::RecvResponse, "complete the request", State::Canceling),
    row(State::Canceling, Event::RecvStream, "deliver the chunk", State::Canceling),
    row(State::Canceling, Event::RecvEos, "finalize", State::Ready),
    row(State::Ready, Event::Reconnect, "validate window", State::Resuming),
    row(State::Resuming, Event::WindowOk, "resume from lastAckSeq + 1", State::Ready),
    row(State::Resuming, Event::WindowStale, "advise restart", State::Ready),
    row(State::HandshakeAcked, Event::CapsTimeoutContinue, "none", State::Ready),
    row(
        State::HandshakeAcked,
        Event::CapsTimeoutFail,
        "emit error.feature_not_available",
        State::Closing,
    ),
    row(State::Ready, Event::IdleTimeout, "close", State::Closing),
    row(State::Canceling, Event::IdleTimeout, "close", State::Closing),
    row(State::Disconnected, Event::RetryBackoff, "wait", State::Disconnected),
    row(State::Disconnected, Event::Close, "none", State::Disconnected),
    any(Event::HandshakeTimeout, "emit error.version_unsupported", State::Closing),
    any(Event::Close, "shut down", State::Closing),
    any(Event::Disconnect, "cleanup", State::Disconnected),
];

/// Returns the row for an event in a state.
pub fn find(state: State, event: Event) -> Option<&'static Transition> {
    let of = |from: Option<State>| {
        TRANSITIONS.iter().find(move |row| row.from == from && row.event == event)
    };
    of(Some(state)).or_else(|| of(None))
}

/// The state does not allow the event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct InvalidTransition {
    /// The state, which stays.
    pub state: State,
    /// The rejected event.
    pub event: Event,
}

impl fmt::Display for InvalidTransition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (state, event) = (self.state.as_str(), self.event.as_str());
        write!(formatter, "{event} is not allowed in the state {state}")
    }
}

impl From<InvalidTransition> for ParityError {
    #[cold]
    fn from(invalid: InvalidTransition) -> Self {
        not_allowed(invalid.state, invalid.event.as_str())
    }
}

/// Returns the error for an event that a state does not allow.
#[cold]
pub fn not_allowed(state: State, event: &str) -> ParityError {
    let state = state.as_str();
    let mut details = Vec::new();
    let mut object = ObjectWriter::open(&mut details);
    object.string("state", state).string("event", event);
    object.close();
    let details = String::from_utf8(details).unwrap_or_default();
    let message = format!("{event} is not allowed in the state {state}");
    ParityError::feature_not_available(message).with_details(details)
}

/// The state machine of one side of a session.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Machine {
    state: State,
}

impl Machine {
    /// Returns the state.
    #[inline]
    pub const fn state(self) -> State {
        self.state
    }

    /// Applies an event and returns the new state.
    ///
    /// # Errors
    ///
    /// [`InvalidTransition`]; the state is unchanged.
    #[inline]
    pub fn apply(&mut self, event: Event) -> Result<State, InvalidTransition> {
        // The most frequent rows, without a search.
        let is_frequent = matches!(
            event,
            Event::SendRequest | Event::StartStream | Event::RecvResponse | Event::RecvStream
        );
        if self.state == State::Ready && is_frequent {
            return Ok(State::Ready);
        }
        self.search(event)
    }

    fn search(&mut self, event: Event) -> Result<State, InvalidTransition> {
        match find(self.state, event) {
            Some(transition) => {
                self.state = transition.to;
                Ok(transition.to)
            }
            None => Err(InvalidTransition { state: self.state, event }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The state after an event, written down apart from the table.
    fn expected(state: State, event: Event) -> Option<State> {
        use Event as E;
        use State as S;
        Some(match (state, event) {
            (S::Disconnected, E::Close | E::RetryBackoff) | (_, E::Disconnect) => S::Disconnected,
            (_, E::Close | E::HandshakeTimeout)
            | (S::HandshakeAcked, E::CapsTimeoutFail)
            | (S::Ready | S::Canceling, E::IdleTimeout) => S::Closing,
            (S::Disconnected, E::Connect) => S::Connecting,
            (S::Connecting, E::SendHandshake) => S::HandshakeSent,
            (S::HandshakeSent, E::RecvHandshakeAck) => S::HandshakeAcked,
            (S::HandshakeAcked, E::ExchangeCaps) => S::CapsExchanged,
            (S::HandshakeAcked, E::NoExplicitCaps | E::CapsTimeoutContinue)
            | (S::CapsExchanged, E::CapsStored)
            | (S::Resuming, E::WindowOk | E::WindowStale)
            | (S::Canceling, E::RecvEos)
            | (
                S::Ready,
                E::SendRequest | E::StartStream | E::RecvResponse | E::RecvStream | E::RecvEos,
            ) => S::Ready,
            (S::Ready, E::SendCancel) | (S::Canceling, E::RecvResponse | E::RecvStream) => {
                S::Canceling
            }
            (S::Ready, E::Reconnect) => S::Resuming,
            _ => return None,
        })
    }

    #[test]
    fn every_pair_of_state_and_event_is_decided() {
        for state in State::ALL {
            for event in Event::ALL {
                let mut machine = Machine { state };
                let result = machine.apply(event);
                let next = expected(state, event);
                assert_eq!(result, next.ok_or(InvalidTransition { state, event }));
                assert_eq!(machine.state(), next.unwrap_or(state), "{state:?} {event:?}");
            }
        }
    }

    #[test]
    fn table_has_one_row_per_pair() {
        for (index, row) in TRANSITIONS.iter().enumerate() {
            let is_same = |other: &Transition| (other.from, other.event) == (row.from, row.event);
            assert!(!TRANSITIONS[index + 1..].iter().any(is_same), "{row:?}");
        }
    }

    #[test]
    fn rejected_event_is_feature_not_available() {
        let rejected = Machine::default().apply(Event::SendRequest).unwrap_err();
        let error = ParityError::from(rejected);
        assert_eq!(error.code.as_str(), "error.feature_not_available");
        let details = r#"{"state":"Disconnected","event":"sendRequest"}"#;
        assert_eq!(error.details.as_deref(), Some(details));
    }

    proptest! {
        #[test]
        fn requests_are_accepted_when_ready_only(
            events in proptest::collection::vec(0..Event::ALL.len(), 0..60),
        ) {
            let mut machine = Machine::default();
            let mut has_handshake = false;
            for event in events.into_iter().map(|index| Event::ALL[index]) {
                let before = machine.state();
                let accepted = machine.apply(event).is_ok();
                if !accepted {
                    prop_assert_eq!(machine.state(), before);
                    continue;
                }
                match event {
                    Event::SendRequest | Event::StartStream => {
                        prop_assert_eq!(before, State::Ready);
                        prop_assert!(has_handshake);
                    }
                    Event::RecvHandshakeAck => has_handshake = true,
                    Event::Disconnect => has_handshake = false,
                    _ => {}
                }
                // Ready is reached through the handshake only.
                prop_assert!(machine.state() != State::Ready || has_handshake);
                // Nothing but the end of the transport leaves Closing.
                if before == State::Closing {
                    prop_assert!(
                        matches!(machine.state(), State::Closing | State::Disconnected)
                    );
                }
            }
        }
    }
}
