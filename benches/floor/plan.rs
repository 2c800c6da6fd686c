//! What to measure: the command line of this bench.

use std::io;

use crate::over::Over;
use crate::requests::{Era, MESSAGE_BYTES};

/// What was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) connections: Vec<usize>,
    pub(crate) depths: Vec<usize>,
    pub(crate) eras: Vec<Era>,
    pub(crate) message_bytes: usize,
    /// Only these servers; `None` is all of them.
    pub(crate) servers: Option<Vec<String>>,
    /// Further flags of `corelane`, each a contender of its own.
    pub(crate) variants: Vec<String>,
    pub(crate) rounds: usize,
    pub(crate) seconds: f64,
    pub(crate) over: Over,
}

impl Plan {
    /// Reads the arguments; what they leave out has the default of the bench's first page.
    pub(crate) fn read(mut arguments: impl Iterator<Item = String>) -> io::Result<Self> {
        let mut plan = Self {
            connections: vec![64, 1000],
            depths: Vec::new(),
            eras: vec![Era::Legacy, Era::Modern],
            message_bytes: MESSAGE_BYTES,
            servers: None,
            variants: Vec::new(),
            rounds: 5,
            seconds: 1.0,
            over: Over::Tcp,
        };
        while let Some(flag) = arguments.next() {
            match flag.as_str() {
                // What cargo passes to every bench.
                "--bench" => {}
                "--http" => plan.over = Over::Http,
                "--stdio" => plan.over = Over::Stdio,
                "--ws" => plan.over = Over::WebSocket,
                _ => plan.set(&flag, &arguments.next().unwrap_or_default())?,
            }
        }
        let is_stdio = plan.over == Over::Stdio;
        if is_stdio {
            plan.connections = vec![1];
        }
        if plan.depths.is_empty() {
            plan.depths = if is_stdio { vec![64] } else { vec![1, 16] };
        }
        Ok(plan)
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
                let text = format!("unknown flag {flag}: see the first page of benches/floor");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
        }
        Ok(())
    }
}

fn numbers(list: &[&str]) -> io::Result<Vec<usize>> {
    list.iter()
        .map(|text| match text.parse() {
            Ok(0) => Err(io::Error::other("a count of 0 measures nothing")),
            other => other.map_err(io::Error::other),
        })
        .collect()
}
