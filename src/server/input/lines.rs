//! Lines of TCP and stdio.

use corelane_base::slab::Key;
use corelane_protocol::json::{PaddedBuffer, PaddedText};
use corelane_transport::ndjson::LineEvent;

use crate::server::shard::Shard;

impl Shard {
    /// Dispatches the lines in `input`, as [`Shard::read`] does.
    #[inline]
    pub(super) fn read_lines(&mut self, key: Key, mut input: PaddedText<'_>) -> usize {
        let mut from = 0;
        loop {
            let connections = &mut self.transports.connections;
            match connections.next_line(key, input.as_bytes(), &mut from, self.now) {
                LineEvent::InPlace { start, end } => {
                    self.dispatch_line(key, input.part(start, end));
                }
                LineEvent::Assembled => {
                    let mut line = connections.table.take_line(key);
                    self.dispatch_line(key, line.text());
                    self.transports.connections.shared.pool.put(line.into_buffer());
                }
                LineEvent::TooLarge if self.reject_oversized(key) => {
                    return input.as_bytes().len();
                }
                LineEvent::TooLarge => {}
                LineEvent::NeedMore => return from,
            }
        }
    }

    /// Dispatches one line.
    #[inline]
    pub(super) fn dispatch_line(&mut self, key: Key, mut text: PaddedText<'_>) {
        if let Err(error) = self.dispatch_text(key, &mut text) {
            self.reject_text(key, &text, error);
        }
    }

    /// Dispatches a line that was kept apart from the input.
    pub(super) fn dispatch_kept_line(&mut self, key: Key, mut text: PaddedBuffer) {
        // Reserves the output buffer, as input does.
        if self.transports.connections.outgoing(key).is_some() {
            self.dispatch_line(key, text.text());
        }
        self.transports.connections.shared.pool.put(text.into_buffer());
    }
}
