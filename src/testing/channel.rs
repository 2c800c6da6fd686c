//! A server in the thread of a client of this library.

use std::task::{Context, Poll};

use corelane_client::MessageChannel;

use crate::server::InProcessConnection;

impl MessageChannel for InProcessConnection {
    fn send(&mut self, message: &[u8]) {
        Self::send(self, message);
    }

    fn poll_receive(&mut self, context: &Context<'_>) -> Poll<Option<&[u8]>> {
        Self::poll_receive(self, context)
    }
}
