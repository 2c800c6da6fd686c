//! The stage of every test: a whole server, and tools that wait for the test.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use corelane::observe::counters::Counters;
use corelane::protocol::era::LogLevel;
use corelane::protocol::error::Error;
use corelane::protocol::message::{Elicitation, Field, Form, ServerInfo};
use corelane::server::Options;
use corelane::service::{
    Catalog, HandlerError, Live, NoArguments, Outcome, TaskSupport, Tool, Worker,
};
use serde_json::Value;

use crate::loopback::{self, Loopback};
use crate::peer::Peer;

/// A running server that offers the tools of [`tools`].
pub(crate) struct Stage {
    server: Loopback,
    gate: Arc<AtomicBool>,
}

impl Stage {
    /// Starts a server.
    pub(crate) fn open(options: Options) -> Self {
        let gate = Arc::<AtomicBool>::default();
        let catalog = Catalog::builder(ServerInfo::new("tasks", "1.0.0")).tools(tools(&gate));
        let catalog = catalog.build().expect("tools that fit together");
        Self { server: Loopback::start(catalog, options), gate }
    }

    /// A peer of 2025-11-25 that can be asked by forms.
    pub(crate) fn core(&self) -> Peer {
        Peer::core(self.server.address())
    }

    /// A peer of 2026-07-28 that knows tasks and can be asked by forms.
    pub(crate) fn modern(&self) -> Peer {
        Peer::modern(self.server.address())
    }

    /// A peer of an earlier revision.
    pub(crate) fn earlier(&self, revision: &'static str) -> Peer {
        Peer::legacy(self.server.address(), revision)
    }

    /// Lets the tools `hold` and `block` end.
    pub(crate) fn open_gate(&self) {
        self.gate.store(true, Ordering::Relaxed);
    }

    /// Has them wait again.
    pub(crate) fn close_gate(&self) {
        self.gate.store(false, Ordering::Relaxed);
    }

    /// Begins to drain.
    pub(crate) fn drain(&self) {
        self.server.handle().drain();
    }

    /// Waits for the end.
    pub(crate) fn join(self) -> Counters {
        self.server.join()
    }

    /// Drains and waits for the end.
    pub(crate) fn close(self) -> Counters {
        self.server.close()
    }
}

/// The small server, whose drain waits for nobody.
pub(crate) fn options() -> Options {
    let mut options = loopback::options();
    options.engine.drain_max = Duration::from_millis(100);
    options
}

/// Two shards, wherever they may run.
pub(crate) fn two_shards() -> Options {
    let mut options = options();
    options.engine.shards = Some(2);
    options
}

/// | tool | kind | tasks | does |
/// | --- | --- | --- | --- |
/// | `plain` | local | never | says `plain` |
/// | `greet` | inline | optional | says `hello` |
/// | `hold` | local | optional | waits for the gate |
/// | `block` | blocking | optional | waits for the gate |
/// | `steps` | local | optional | tells three steps, then waits for the gate |
/// | `confirm` | local | optional | asks twice, one after the other |
/// | `ask_late` | local | optional | waits for the gate, then asks |
/// | `say` | local | optional | sends two log messages |
/// | `shout` | blocking | optional | sends one |
/// | `name` | local | required | asks, then becomes a task, tells a step and waits for the gate |
/// | `page` | local | optional | asks to open a page, then waits for the gate |
/// | `hasty` | local | optional | may ask before its task, and ends without one |
/// | `fail` | local | required | a tool that failed |
/// | `refuse` | local | required | a JSON-RPC error |
fn tools(gate: &Arc<AtomicBool>) -> Vec<Tool> {
    let (held, blocked, stepped) = (Arc::clone(gate), Arc::clone(gate), Arc::clone(gate));
    vec![
        Tool::new("plain").local(|_: NoArguments, _| async { Ok(Outcome::text("plain")) }),
        Tool::new("greet").task(TaskSupport::Optional).inline(|_: NoArguments, answer| {
            answer.text("hello");
            Ok(())
        }),
        Tool::new("hold").task(TaskSupport::Optional).local(move |_: NoArguments, live| {
            let gate = Arc::clone(&held);
            async move { wait(&gate, &live).await }
        }),
        Tool::new("block").task(TaskSupport::Optional).blocking(
            move |_: NoArguments, worker: Worker| {
                while !blocked.load(Ordering::Relaxed) {
                    worker.check()?;
                    std::thread::yield_now();
                }
                Ok(Outcome::text("held"))
            },
        ),
        Tool::new("steps").task(TaskSupport::Optional).local(move |_: NoArguments, live| {
            let gate = Arc::clone(&stepped);
            async move {
                for step in 1..=3 {
                    live.progress(step.into(), Some(3.0), Some("on the way"));
                }
                wait(&gate, &live).await
            }
        }),
        Tool::new("confirm").task(TaskSupport::Optional).local(|_: NoArguments, live| async move {
            let first = live.elicit("first", question()).await?;
            let second = live.elicit("second", question()).await?;
            Ok(Outcome::text(format!("{:?} {:?}", first.action, second.action)))
        }),
        ask_late(gate),
        Tool::new("say").task(TaskSupport::Optional).local(|_: NoArguments, live| async move {
            live.log(LogLevel::Debug, None, "too little");
            live.log(LogLevel::Warning, Some("here"), "aloud");
            Ok(Outcome::text("said"))
        }),
        Tool::new("shout").task(TaskSupport::Optional).blocking(
            |_: NoArguments, worker: Worker| {
                worker.log(LogLevel::Warning, None, "from afar");
                Ok(Outcome::text("shouted"))
            },
        ),
        name(gate),
        page(gate),
        Tool::new("hasty")
            .task(TaskSupport::Optional)
            .asks_before_task()
            .local(|_: NoArguments, _| async { Ok(Outcome::text("done")) }),
        Tool::new("fail")
            .task(TaskSupport::Required)
            .local(|_: NoArguments, _| async { Ok(Outcome::failed("no luck")) }),
        Tool::new("refuse").task(TaskSupport::Required).local(|_: NoArguments, _| async {
            Err(HandlerError::Refused(Error::application(7, "not today")))
        }),
    ]
}

fn name(gate: &Arc<AtomicBool>) -> Tool {
    let gate = Arc::clone(gate);
    Tool::new("name").task(TaskSupport::Required).asks_before_task().local(
        move |_: NoArguments, live: Live| {
            let gate = Arc::clone(&gate);
            async move {
                let form = Form::new().field(Field::text("name").required());
                // Made before the task and waited for in it.
                let later = live.elicit("later", question());
                let name = live.elicit("user_name", Elicitation::form("Who?", form)).await?;
                live.begin_task().await?;
                // A task already.
                live.begin_task().await?;
                live.progress(1.0, None, None);
                wait(&gate, &live).await?;
                let later = later.await?;
                let name = name.content.get("name").and_then(Value::as_str).unwrap_or("nobody");
                Ok(Outcome::text(format!("Hello, {name}! {:?}", later.action)))
            }
        },
    )
}

fn ask_late(gate: &Arc<AtomicBool>) -> Tool {
    let gate = Arc::clone(gate);
    Tool::new("ask_late").task(TaskSupport::Optional).local(move |_: NoArguments, live: Live| {
        let gate = Arc::clone(&gate);
        async move {
            wait(&gate, &live).await?;
            live.elicit("late", question()).await?;
            Ok(Outcome::text("asked"))
        }
    })
}

fn page(gate: &Arc<AtomicBool>) -> Tool {
    let gate = Arc::clone(gate);
    Tool::new("page").task(TaskSupport::Optional).local(move |_: NoArguments, live: Live| {
        let gate = Arc::clone(&gate);
        async move {
            let page = Elicitation::url("Open it", "https://example.com/");
            live.elicit("page", page).await?;
            wait(&gate, &live).await
        }
    })
}

async fn wait(gate: &AtomicBool, live: &Live) -> Result<Outcome, HandlerError> {
    while !gate.load(Ordering::Relaxed) {
        live.sleep(Duration::from_millis(1)).await?;
    }
    Ok(Outcome::text("held"))
}

fn question() -> Elicitation {
    Elicitation::form("Really?", Form::new())
}
