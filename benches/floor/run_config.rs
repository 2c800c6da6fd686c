//! Run configuration, read from the command line.

use std::io;

use corelane_bench_support::requests::{Era, MESSAGE_BYTES};

use crate::transport::Transport;

/// Run configuration.
#[derive(Clone, Debug)]
pub(crate) struct RunConfig {
    pub(crate) connections: Vec<usize>,
    pub(crate) depths: Vec<usize>,
    pub(crate) eras: Vec<Era>,
    pub(crate) message_bytes: usize,
    /// Only these servers; `None` means all.
    pub(crate) servers: Option<Vec<String>>,
    /// Further flags of `corelane`, each measured as a separate server.
    pub(crate) variants: Vec<String>,
    pub(crate) rounds: usize,
    pub(crate) seconds: f64,
    pub(crate) transport: Transport,
}

impl RunConfig {
    /// Reads the arguments; missing ones have defaults.
    pub(crate) fn read(mut arguments: impl Iterator<Item = String>) -> io::Result<Self> {
        let mut config = Self {
            connections: vec![64, 1000],
            depths: Vec::new(),
            eras: vec![Era::Legacy, Era::Modern],
            message_bytes: MESSAGE_BYTES,
            servers: None,
            variants: Vec::new(),
            rounds: 5,
            seconds: 1.0,
            transport: Transport::Tcp,
        };
        while let Some(flag) = arguments.next() {
            match flag.as_str() {
                // Passed by cargo to every bench.
                "--bench" => {}
                "--http" => config.transport = Transport::Http,
                "--stdio" => config.transport = Transport::Stdio,
                "--ws" => config.transport = Transport::WebSocket,
                _ => config.set(&flag, &arguments.next().unwrap_or_default())?,
            }
        }
        let is_stdio = config.transport == Transport::Stdio;
        if is_stdio {
            config.connections = vec![1];
        }
        if config.depths.is_empty() {
            config.depths = if is_stdio { vec![64] } else { vec![1, 16] };
        }
        Ok(config)
    }

    fn set(&mut self, flag: &str, value: &str) -> io::Result<()> {
        let list: Vec<&str> = value.split(',').collect();
        match flag {
            "--conns" => self.connections = numbers(&list)?,
            "--depth" => self.depths = numbers(&list)?,
            "--eras" => self.eras.retain(|era| list.contains(&era.name())),
            "--bytes" => self.message_bytes = value.parse().map_err(io::Error::other)?,
            "--servers" => self.servers = Some(list.into_iter().map(str::to_owned).collect()),
            "--with" => self.variants.push(value.to_owned()),
            "--rounds" => self.rounds = value.parse().map_err(io::Error::other)?,
            "--seconds" => self.seconds = value.parse().map_err(io::Error::other)?,
            _ => {
                let text = format!("unknown flag {flag}: see the head of benches/floor/main.rs");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
        }
        Ok(())
    }
}

fn numbers(list: &[&str]) -> io::Result<Vec<usize>> {
    list.iter()
        .map(|text| match text.parse() {
            Ok(0) => Err(io::Error::other("a count must be at least 1")),
            other => other.map_err(io::Error::other),
        })
        .collect()
}
