//! Files as resources and prompts: what a client may read, what it may not, and what it hears.

mod changes;
mod process;
mod prompts;
mod reading;
mod stage;
mod traversal;
