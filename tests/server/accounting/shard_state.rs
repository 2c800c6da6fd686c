//! State of a shard, as inline and local handlers read it.

use std::cell::Cell;
use std::rc::Rc;

use corelane::model::{Implementation, ResourceContents, Role};
use corelane::testing::{TestServer, block_on};
use corelane::{
    Catalog, CatalogBuilder, Completion, GetPromptResult, NoArguments, Prompt, PromptArgument,
    Resource, ResourceTemplate, Server, StartError, Tool,
};
use corelane_test_support::messages::result_text;
use corelane_test_support::{LineClient, tcp_options};

use serde_json::{Value, json};

use crate::accounting::tool_calls::call_tool;

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

/// Prompts, resources and completers that count their runs in the state.
fn counting_entries() -> [Box<dyn Fn(CatalogBuilder) -> CatalogBuilder>; 6] {
    fn of(calls: &Calls) -> Completion {
        Completion::from_values([calls.count()])
    }
    let argument = || PromptArgument::new("a").state::<Calls>().completer(|ctx| of(ctx.state()));
    let prompt = |name| Prompt::new(name).state::<Calls>();
    let template = || ResourceTemplate::new("test://{id}", "template").state::<Calls>();
    [
        Box::new(move |catalog| {
            catalog.prompt(prompt("inline").inline(|_, out, ctx| {
                out.text(Role::User, &ctx.state().count());
                Ok(())
            }))
        }),
        Box::new(move |catalog| {
            catalog.prompt(prompt("local").local(|_, ctx| async move {
                Ok(GetPromptResult::default().user(ctx.state().count()))
            }))
        }),
        Box::new(move |catalog| {
            let completed = Prompt::new("completed").argument(argument());
            catalog.prompt(completed.inline(|_, _, _| Ok(())))
        }),
        Box::new(|catalog| {
            let resource = Resource::new("test:inline", "inline").state::<Calls>();
            catalog.resource(resource.inline(|read, out, ctx| {
                out.text(read.uri(), None, &ctx.state().count());
                Ok(())
            }))
        }),
        Box::new(|catalog| {
            let resource = Resource::new("test:local", "local").state::<Calls>();
            catalog.resource(resource.local(|read, ctx| async move {
                Ok(ResourceContents::text(read.uri().to_owned(), ctx.state().count()))
            }))
        }),
        Box::new(move |catalog| {
            let completed = template().completer("id", |ctx| of(ctx.state()));
            catalog.template(completed.text("a constant"))
        }),
    ]
}

fn info() -> Implementation {
    Implementation::new("state", "1")
}

fn complete(server: &TestServer, reference: &Value, argument: &str) -> Value {
    let params = json!({ "ref": reference, "argument": { "name": argument, "value": "" } });
    block_on(server.request("completion/complete", params)).expect("values")["completion"]["values"]
        [0]
    .take()
}

#[test]
fn prompts_resources_and_completers_read_state() {
    let catalog = counting_entries().iter().fold(Catalog::builder(info()), |it, add| add(it));
    let server = Server::with_state(catalog.build().unwrap(), |_| Calls(Rc::default()));
    let server = TestServer::with(server).expect("it starts");
    let mut counts = Vec::new();
    for prompt in ["inline", "local"] {
        let mut prompt = block_on(server.get_prompt(prompt, json!({}))).expect("a prompt");
        counts.push(prompt["messages"][0]["content"]["text"].take());
    }
    for uri in ["test:inline", "test:local"] {
        let mut contents = block_on(server.read_resource(uri)).expect("contents");
        counts.push(contents["contents"][0]["text"].take());
    }
    counts.push(complete(&server, &json!({ "type": "ref/prompt", "name": "completed" }), "a"));
    counts.push(complete(&server, &json!({ "type": "ref/resource", "uri": "test://{id}" }), "id"));
    assert_eq!(counts, ["1", "2", "3", "4", "5", "6"]);
}

#[test]
fn entry_without_its_state_is_rejected() {
    for add in counting_entries() {
        let catalog = add(Catalog::builder(info())).build().unwrap();
        let error = Server::builder(catalog).connect().unwrap_err();
        assert!(matches!(error, StartError::Catalog(_)), "{error}");
        assert!(error.to_string().contains("Calls"), "{error}");
    }
}

#[test]
fn update_with_another_state_changes_nothing() {
    let running = Server::builder(Catalog::builder(info()).build().unwrap());
    let running = running.options(tcp_options()).start().unwrap();
    for index in 0..counting_entries().len() {
        let update = running.handle().update_catalog(move |it| counting_entries()[index](it));
        assert!(update.unwrap_err().to_string().contains("Calls"));
    }
    running.handle().drain();
    running.join().unwrap();
}
