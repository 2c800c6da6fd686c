//! Visits over WebSocket written by hand.
