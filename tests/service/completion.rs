//! Arguments are completed by whoever knows how they may go on.

use corelane::protocol::message::ServerInfo;
use corelane::protocol::revision::Revision;
use corelane::service::{
    Catalog, Completion, Features, Prompt, PromptArgument, Resource, ResourceTemplate,
};
use serde_json::{Value, json};

use crate::stage::complete;

fn catalog() -> Catalog {
    let city = PromptArgument::new("city").complete(|typed| match typed.argument("country") {
        Some("FR") => typed.among(["Paris", "Pau", "Lyon"]),
        Some("many") => Completion::of((0..150).map(|count| count.to_string())),
        Some("crash") => panic!("swordfish"),
        _ => Completion::NONE,
    });
    let travel = Prompt::new("travel").argument(city).argument(PromptArgument::new("country"));
    let user = ResourceTemplate::new("test://users/{id}", "user")
        .complete("id", |typed| typed.among(["alice", "bob"]));
    Catalog::builder(ServerInfo::new("test", "1"))
        .prompt(travel.inline(|_, _| Ok(())))
        .template(user.text("a user"))
        .resource(Resource::new("test://plain", "plain").text("plain"))
        .build()
        .expect("what it offers is good")
}

fn ask(reference: &Value, argument: &str, value: &str, country: &str) -> Result<Value, i32> {
    let params = json!({
        "ref": reference,
        "argument": { "name": argument, "value": value },
        "context": { "arguments": { "country": country } },
    });
    let mut answers = Revision::ALL.map(|revision| {
        let mut answer =
            complete(&catalog(), revision, &params.to_string()).map_err(|error| error.code)?;
        Ok(answer["completion"].take())
    });
    assert!(answers.iter().all(|answer| *answer == answers[0]), "revisions agree");
    std::mem::replace(&mut answers[0], Err(0))
}

#[test]
fn a_completer_knows_what_was_typed_and_what_stands_beside_it() {
    let travel = json!({ "type": "ref/prompt", "name": "travel" });
    let answer = ask(&travel, "city", "pa", "FR").unwrap();
    assert_eq!(answer, json!({ "values": ["Paris", "Pau"], "total": 2, "hasMore": false }));
    let user = json!({ "type": "ref/resource", "uri": "test://users/{id}" });
    assert_eq!(ask(&user, "id", "b", "").unwrap()["values"], json!(["bob"]));
}

#[test]
fn no_more_than_a_hundred_values_are_sent_and_the_rest_is_told() {
    let travel = json!({ "type": "ref/prompt", "name": "travel" });
    let answer = ask(&travel, "city", "", "many").unwrap();
    assert_eq!(answer["values"].as_array().unwrap().len(), 100);
    assert_eq!((&answer["total"], &answer["hasMore"]), (&json!(150), &json!(true)));
}

#[test]
fn an_argument_without_a_completer_goes_on_in_no_known_way() {
    let travel = json!({ "type": "ref/prompt", "name": "travel" });
    let plain = json!({ "type": "ref/resource", "uri": "test://plain" });
    for (reference, argument) in [(&travel, "country"), (&travel, "nobody"), (&plain, "id")] {
        assert_eq!(ask(reference, argument, "", "").unwrap()["values"], json!([]));
    }
}

#[test]
fn what_nobody_offers_is_an_invalid_param() {
    for reference in [
        json!({ "type": "ref/prompt", "name": "nobody" }),
        json!({ "type": "ref/resource", "uri": "test://users/1" }),
        json!({ "type": "ref/tool", "name": "travel" }),
        json!({ "type": "ref/prompt" }),
        json!("travel"),
    ] {
        assert_eq!(ask(&reference, "city", "", ""), Err(-32602), "{reference}");
    }
}

#[test]
fn a_completer_that_panics_ends_its_request_alone() {
    let travel = json!({ "type": "ref/prompt", "name": "travel" });
    assert_eq!(ask(&travel, "city", "", "crash"), Err(-32603));
}

#[test]
fn completion_is_offered_where_somebody_completes() {
    assert!(catalog().has(Features::COMPLETIONS));
    let none = Catalog::builder(ServerInfo::new("test", "1")).build().unwrap();
    assert!(!none.has(Features::COMPLETIONS));
}
