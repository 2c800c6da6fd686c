//! Fuzz target body of the messages of the parity dialect.
//!
//! It panics if an invariant is violated, which no input may cause. Called by a fuzzer with its own
//! text, and by a test with seeded damage.

use std::time::Duration;

use corelane_base::time::Instant;
use corelane_parity::capabilities::{Capabilities, Feature, ResumeWindow};
use corelane_parity::envelope::Envelope;
use corelane_parity::error::ParityError;
use corelane_parity::idempotency::KeyRules;
use corelane_parity::machine::State;
use corelane_parity::server_session::{Action, Input, ServerSession, SessionSettings};
use corelane_parity::timers::SessionTimeouts;
use corelane_parity::write;
use corelane_protocol::json::{PaddedBuffer, ParseLimits, Parser};

/// Gives the lines of `text` to a session of a server, as messages. Returns the number of those
/// that are accepted.
///
/// # Panics
///
/// If an invariant is violated: a request starts before the session is ready, or beyond the
/// negotiated capabilities; the capabilities widen; a rejected message changes them; the error of a
/// rejected message is not JSON.
pub(crate) fn check_text(text: &str) -> usize {
    let settings = settings();
    let mut session = ServerSession::new(&settings, Instant::ORIGIN);
    let mut parser = Parser::new(ParseLimits::default());
    let mut accepted = 0;
    for line in text.lines() {
        let mut buffer = PaddedBuffer::new(line.as_bytes().to_vec());
        let Ok(document) = parser.parse(buffer.text()) else { continue };
        let before = (session.state(), *session.capabilities());
        let rejection = match Envelope::read(document.root()) {
            Ok(envelope) => {
                let input = Input {
                    settings: &settings,
                    bytes: line.len(),
                    in_flight: accepted % 2,
                    now: Instant::ORIGIN,
                    envelope,
                };
                session
                    .receive(input)
                    .map(|action| act(action, before.0, before.1, &mut session, &settings))
            }
            Err(invalid) => Err(session.reject_malformed(invalid)),
        };
        match rejection {
            Ok(()) => accepted += 1,
            Err(rejection) => {
                assert_eq!(*session.capabilities(), before.1, "{line:?}");
                check_error(&rejection.error);
            }
        }
        let wider = if before.0 == State::Connecting { settings.capabilities } else { before.1 };
        let granted = session.capabilities();
        assert!(granted.is_within(&wider) || *granted == Capabilities::default(), "{line:?}");
    }
    accepted
}

/// Does what a server does with a message.
fn act(
    action: Action<'_>,
    state: State,
    capabilities: Capabilities,
    session: &mut ServerSession,
    settings: &SessionSettings,
) {
    match action {
        Action::Acknowledge(handshake, both) => {
            assert_eq!(state, State::Connecting);
            if let Some(resume) = handshake.resume {
                let members = resume.last_ack_seq.map_or(0, |members| members.into_iter().count());
                assert_eq!(resume.acknowledged().count(), members);
            }
            session.acknowledge(both, handshake.exchanges_capabilities, settings, Instant::ORIGIN);
        }
        Action::Start(request) => {
            assert_eq!(state, State::Ready);
            let feature = Feature::of_method(request.method);
            assert!(feature.is_none_or(|feature| capabilities.has(feature)));
            assert!(!request.streams || capabilities.has(Feature::Streaming));
        }
        Action::Cancel(_) => {
            assert!(capabilities.has(Feature::Cancellation));
            session.end_cancel();
            assert!(session.is_ready());
        }
        Action::AcknowledgeCapabilities(both) => assert!(both.is_within(&capabilities)),
        Action::None => {}
    }
}

fn check_error(error: &ParityError) {
    let mut text = Vec::new();
    write::error(&mut text, None, error);
    let read: Result<serde_json::Value, _> = serde_json::from_slice(&text);
    assert!(read.is_ok_and(|read| read["error"]["code"] == error.code.as_str()), "{error:?}");
}

/// What the server of this check grants, and that of the tests of a session.
pub(crate) fn settings() -> SessionSettings {
    let mut capabilities = Capabilities::of(Feature::ALL);
    capabilities.max_concurrent = Some(4);
    capabilities.max_payload_bytes = Some(1_000);
    capabilities.resume_window = Some(ResumeWindow { chunks: 100, seconds: 60 });
    SessionSettings {
        capabilities,
        timeouts: SessionTimeouts {
            handshake: Duration::from_secs(5),
            capabilities: Duration::from_secs(5),
            continues_without_capabilities: true,
            keepalive: Duration::from_mins(1),
            hint: Duration::from_mins(2),
            idle: Duration::from_mins(3),
        },
        streams_max: 2,
        window_bytes_max: 1 << 20,
        keys: KeyRules { keys_max: 16, secret: [7; 16] },
    }
}
