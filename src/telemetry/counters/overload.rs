//! Counters of overload protection.

use super::CounterValue;

group! {
    /// Counters of overload protection: refused calls, circuit breakers, memory pressure.
    OverloadCounters {
        /// Requests refused by a rate limit (error 1002).
        refused_rate,
        /// Calls refused because the circuit breaker of their tool is open.
        refused_breaker,
        /// Calls refused at a limit of running calls.
        refused_concurrency,
        /// Calls refused because calls wait for too long before they run.
        refused_queue,
        /// Connections refused because memory is short.
        refused_memory,
        /// Circuit breakers that opened.
        breakers_opened,
        /// Circuit breakers that admitted probes after their wait.
        breakers_half_opened,
        /// Circuit breakers that closed again.
        breakers_closed,
        /// Notification streams ended because memory is short.
        streams_shed,
        /// Changes of the step of memory pressure.
        pressure_steps,
    }
}
