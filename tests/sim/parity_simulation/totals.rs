//! Counts of what happened: they show whether the runs reach what they are meant to test.

use super::link::Carrier;

/// Declares each count once.
macro_rules! totals {
    ($($name:ident,)+) => {
        /// Counts of one run, or the sum of several.
        #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
        pub(crate) struct ParityTotals { $(pub(crate) $name: u64,)+ }

        impl ParityTotals {
            /// Returns the sum of both.
            pub(crate) const fn plus(self, other: Self) -> Self {
                Self { $($name: self.$name + other.$name,)+ }
            }

            /// Returns each count with its name.
            pub(crate) fn rows(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)+]
            }
        }
    };
}

totals! {
    sessions_begun,
    sessions_resumed,
    refinements,
    responses,
    streams_opened,
    streams_completed,
    streams_cancelled,
    stream_errors,
    chunks,
    chunks_repeated,
    keepalives,
    idle_closes,
    handshakes_rejected,
    half_handshakes,
    tokens_rejected,
    twins_restarted,
    taken_over,
    storms,
    events_taken_late,
    connections_over_tcp,
    connections_over_pipes,
    connections_over_websocket,
    connections_over_http,
    errors_version_unsupported,
    errors_feature_not_available,
    errors_unauthorized,
    errors_rate_limited,
    errors_payload_too_large,
    errors_already_processed,
    errors_internal,
    restarts_expired,
    restarts_stale_window,
    restarts_unknown_stream,
    restarts_taken_over,
    restarts_other,
    cut_in_connecting,
    cut_in_handshake_sent,
    cut_in_handshake_acked,
    cut_in_caps_exchanged,
    cut_in_ready,
    cut_in_resuming,
    cut_in_canceling,
    cut_in_closing,
    drains,
}

impl ParityTotals {
    /// Counts an acknowledged connection.
    pub(crate) fn count_connection(&mut self, carrier: Carrier) {
        let count = match carrier {
            Carrier::Tcp => &mut self.connections_over_tcp,
            Carrier::Pipes => &mut self.connections_over_pipes,
            Carrier::WebSocket => &mut self.connections_over_websocket,
            Carrier::Http => &mut self.connections_over_http,
        };
        *count += 1;
    }

    /// Counts an error by its code.
    pub(crate) fn count_error(&mut self, code: &str) {
        let count = match code {
            "error.version_unsupported" => &mut self.errors_version_unsupported,
            "error.feature_not_available" => &mut self.errors_feature_not_available,
            "error.auth.unauthorized" => &mut self.errors_unauthorized,
            "error.rate_limited" => &mut self.errors_rate_limited,
            "error.payload_too_large" => &mut self.errors_payload_too_large,
            "error.already_processed" => &mut self.errors_already_processed,
            _ => &mut self.errors_internal,
        };
        *count += 1;
    }

    /// Counts an advice to restart by its reason.
    pub(crate) fn count_restart(&mut self, reason: &str) {
        let count = match reason {
            "expired" => &mut self.restarts_expired,
            "stale_window" => &mut self.restarts_stale_window,
            "unknown_stream" => &mut self.restarts_unknown_stream,
            "taken_over" => &mut self.restarts_taken_over,
            _ => &mut self.restarts_other,
        };
        *count += 1;
    }
}
