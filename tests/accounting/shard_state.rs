//! State of a shard, as inline and local handlers read it.

use std::cell::Cell;
use std::rc::Rc;

use corelane::model::Implementation;
use corelane::{Catalog, NoArguments, Server, StartError, Tool};
use corelane_test_support::messages::result_text;
use corelane_test_support::{LineClient, tcp_options};

use crate::tool_calls::call_tool;

/// A state that is not `Send`.
struct Calls(Rc<Cell<u32>>);

impl Calls {
    fn count(&self) -> String {
        self.0.set(self.0.get() + 1);
        self.0.get().to_string()
    }
}

fn catalog() -> Catalog {
    let tools = [
        Tool::new("inline").state::<Calls>().inline(|_: NoArguments, ctx| ctx.state().count()),
        Tool::new("local")
            .state::<Calls>()
            .local(|_: NoArguments, ctx| async move { ctx.state().count() }),
    ];
    Catalog::builder(Implementation::new("state", "1")).tools(tools).build().unwrap()
}

#[test]
fn handlers_of_a_shard_share_its_state() {
    let server = Server::with_state(catalog(), |shard| Calls(Rc::new(Cell::new(shard.into()))));
    let mut options = tcp_options();
    options.engine.shards = Some(1);
    let running = server.options(options).start().unwrap();
    let mut client = LineClient::connect(running.addresses()[0].1);
    for (tool, count) in [("inline", "1"), ("local", "2"), ("inline", "3")] {
        assert_eq!(result_text(&call_tool(&mut client, tool)), count);
    }
    drop(client);
    running.handle().drain();
    running.join().unwrap();
}

#[test]
fn missing_shard_state_fails_the_start() {
    let error = Server::builder(catalog()).options(tcp_options()).start().unwrap_err();
    assert!(matches!(error, StartError::Catalog(_)), "{error}");
    let text = error.to_string();
    assert!(text.contains("`inline`") && text.contains("Calls"), "{text}");
}
