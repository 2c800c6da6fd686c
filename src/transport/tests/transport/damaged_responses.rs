//! Responses of every kind, and damaged ones, through the body of the fuzz target.

use crate::responses_fuzz::{ResponseOutcome, check_stream};
use corelane_base::random::Random;
use corelane_transport::http::client::response_head::ResponseLimits;

const LIMITS: ResponseLimits = ResponseLimits { head_bytes_max: 200, body_bytes_max: 60 };
const STREAM: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\
    Content-Length: 2\r\n\r\n{}HTTP/1.1 103 Early Hints\r\n\r\n\
    HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n\
    e\r\nid: 1\r\ndata: a\r\n2\r\n\n\n\r\n8\r\ndata: b\n\r\n1\r\n\n\r\n0\r\n\r\n\
    HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n";

#[test]
fn responses_of_every_kind_are_read() {
    for length in 1..STREAM.len() {
        let outcomes = check_stream(STREAM.as_bytes(), length, &LIMITS);
        let [
            ResponseOutcome::Response(_, json, _),
            ResponseOutcome::Response(_, _, events),
            ResponseOutcome::Response(accepted, ..),
            ResponseOutcome::End(Ok(false)),
        ] = &outcomes[..]
        else {
            panic!("{outcomes:?}")
        };
        assert_eq!((&json[..], events.len(), accepted.status), (&b"{}"[..], 2, 202));
    }
}

#[test]
fn damaged_responses_do_not_depend_on_split() {
    let mut rejected = 0;
    for seed in 0..500 {
        let mut random = Random::seeded(seed);
        let mut stream = STREAM.as_bytes().to_vec();
        for _ in 0..=random.below(3) {
            let at = random.below(stream.len());
            match random.below(3) {
                0 => stream[at] = b"\r\n: 0f\xFF"[random.below(7)],
                1 => drop(stream.remove(at)),
                _ => stream.truncate(at.max(1)),
            }
        }
        let outcomes = check_stream(&stream, 1 + random.below(40), &LIMITS);
        let is_rejected = matches!(outcomes.last(), Some(ResponseOutcome::Rejected(_)));
        rejected += usize::from(is_rejected);
    }
    assert!((50..500).contains(&rejected), "{rejected} streams were rejected");
}
