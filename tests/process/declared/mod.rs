//! Declared tools, resources and prompts over real processes, HTTP servers and databases.

mod api;
mod fifo;
mod folder;

mod arguments;
mod check;
mod commands;
mod contents;
mod example;
mod http;
mod limits;
mod openapi;
mod processes;
mod programs;
mod reloads;
mod secrets;
mod sql;
