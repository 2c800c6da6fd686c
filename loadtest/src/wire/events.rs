//! Parser of server-sent events, limited to `data`.
//!
//! Source: WHATWG HTML, section "Server-sent events", "Interpreting an event stream".

use memchr::memmem;

/// Parses the next event at the beginning of `bytes`. Returns its length including the blank line,
/// and stores its data in `data`, empty if there is none. Returns `None` if it is incomplete.
pub fn next_event(bytes: &[u8], data: &mut Vec<u8>) -> Option<usize> {
    let end = event_end(bytes)?;
    data.clear();
    let mut is_first = true;
    for line in bytes[..end].split(|byte| *byte == b'\n' || *byte == b'\r') {
        let Some(value) = line.strip_prefix(b"data:") else { continue };
        if !is_first {
            data.push(b'\n');
        }
        is_first = false;
        data.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
    }
    Some(end)
}

/// Returns the end of the first blank line.
fn event_end(bytes: &[u8]) -> Option<usize> {
    let ends = [&b"\n\n"[..], b"\r\n\r\n", b"\r\r"];
    ends.iter().filter_map(|end| memmem::find(bytes, end).map(|at| at + end.len())).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(mut bytes: &[u8]) -> Vec<String> {
        let (mut data, mut events) = (Vec::new(), Vec::new());
        while let Some(taken) = next_event(bytes, &mut data) {
            bytes = &bytes[taken..];
            events.push(String::from_utf8(data.clone()).unwrap());
        }
        events
    }

    #[test]
    fn sse_parser_returns_data_without_comments() {
        let stream =
            b"id: 1\ndata: {\"a\":1}\n\n: alive\n\nevent: message\r\ndata:{}\r\n\r\ndata: x";
        assert_eq!(events(stream), ["{\"a\":1}", "", "{}"]);
    }

    #[test]
    fn sse_data_lines_are_joined() {
        assert_eq!(events(b"data: [1,\ndata: 2]\n\n"), ["[1,\n2]"]);
    }
}
