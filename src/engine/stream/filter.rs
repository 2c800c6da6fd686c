//! What stands between the bytes of a socket and those of its owner: encryption, for instance.

use std::error::Error;

/// The state of one stream whose owner sends and receives decoded bytes, and its socket encoded
/// ones. A filter may send and receive bytes of its own: those of a handshake, or of an alert.
pub trait ByteFilter {
    /// Why bytes cannot be decoded or encoded.
    type Error: Error + Send + Sync + 'static;

    /// What is wrong with a stream that ends before its decoded bytes have.
    const TRUNCATED: &'static str;

    /// Decodes bytes in place. Returns the number of decoded bytes, which are then at the beginning
    /// of `bytes`, or `None` if they are in `decoded`, because they are more than those. `decoded`
    /// is empty before.
    ///
    /// # Errors
    ///
    /// The bytes are invalid; `decoded` has what came before.
    fn decode(
        &mut self,
        bytes: &mut [u8],
        decoded: &mut Vec<u8>,
    ) -> Result<Option<usize>, Self::Error>;

    /// Appends what the filter itself has to send, and the encoded `bytes`. They must be empty
    /// unless [`ByteFilter::can_send`].
    fn encode(&mut self, bytes: &[u8], output: &mut Vec<u8>) -> Result<(), Self::Error>;

    /// Appends what tells the peer that no more bytes follow, or why.
    fn close(&mut self, output: &mut Vec<u8>);

    /// Discards what the filter itself has to send.
    fn discard_output(&mut self);

    /// Returns whether the filter itself has something to send.
    fn has_output(&self) -> bool;

    /// Returns whether the handshake is complete, even if the stream has ended since.
    fn is_established(&self) -> bool;

    /// Returns whether bytes of the owner can be encoded.
    fn can_send(&self) -> bool;

    /// Returns whether the decoded bytes have ended.
    fn has_ended(&self) -> bool;
}
