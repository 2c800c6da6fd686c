//! Servers on executors: threads of the program, and handlers on a runtime of the program.

mod running;
mod tokio_handlers;
