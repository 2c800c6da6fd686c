//! Completion of prompt arguments and template variables.

use corelane::{Catalog, Completion, Features, Prompt, PromptArgument, Resource, ResourceTemplate};
use corelane_protocol::model::Implementation;
use corelane_protocol::revision::Revision;
use serde_json::{Value, json};

use crate::service::harness::complete;

fn catalog() -> Catalog {
    let city = PromptArgument::new("city").completer(|ctx| match ctx.argument("country") {
        Some("FR") => ctx.complete_from(["Paris", "Pau", "Lyon"]),
        Some("many") => Completion::from_values((0..150).map(|count| count.to_string())),
        Some("crash") => panic!("swordfish"),
        _ => Completion::EMPTY,
    });
    let travel = Prompt::new("travel").argument(city).argument(PromptArgument::new("country"));
    let user = ResourceTemplate::new("test://users/{id}", "user")
        .completer("id", |ctx| ctx.complete_from(["alice", "bob"]));
    Catalog::builder(Implementation::new("test", "1"))
        .prompt(travel.inline(|_, _, _| Ok(())))
        .template(user.text("a user"))
        .resource(Resource::new("test://plain", "plain").text("plain"))
        .build()
        .expect("the catalog is valid")
}

fn complete_argument(
    reference: &Value,
    argument: &str,
    value: &str,
    country: &str,
) -> Result<Value, i32> {
    let params = json!({
        "ref": reference,
        "argument": { "name": argument, "value": value },
        "context": { "arguments": { "country": country } },
    });
    let mut results = Revision::ALL.map(|revision| {
        let mut result =
            complete(&catalog(), revision, &params.to_string()).map_err(|error| error.code)?;
        Ok(result["completion"].take())
    });
    assert!(results.iter().all(|result| *result == results[0]), "revisions agree");
    std::mem::replace(&mut results[0], Err(0))
}

#[test]
fn completer_receives_value_and_other_arguments() {
    let travel = json!({ "type": "ref/prompt", "name": "travel" });
    let completion = complete_argument(&travel, "city", "pa", "FR").unwrap();
    assert_eq!(completion, json!({ "values": ["Paris", "Pau"], "total": 2, "hasMore": false }));
    let user = json!({ "type": "ref/resource", "uri": "test://users/{id}" });
    assert_eq!(complete_argument(&user, "id", "b", "").unwrap()["values"], json!(["bob"]));
}

#[test]
fn completion_sends_at_most_100_values() {
    let travel = json!({ "type": "ref/prompt", "name": "travel" });
    let completion = complete_argument(&travel, "city", "", "many").unwrap();
    assert_eq!(completion["values"].as_array().unwrap().len(), 100);
    assert_eq!((&completion["total"], &completion["hasMore"]), (&json!(150), &json!(true)));
}

#[test]
fn argument_without_completer_has_no_values() {
    let travel = json!({ "type": "ref/prompt", "name": "travel" });
    let plain = json!({ "type": "ref/resource", "uri": "test://plain" });
    for (reference, argument) in [(&travel, "country"), (&travel, "missing"), (&plain, "id")] {
        assert_eq!(complete_argument(reference, argument, "", "").unwrap()["values"], json!([]));
    }
}

#[test]
fn completion_of_unknown_reference_is_invalid_params() {
    for reference in [
        json!({ "type": "ref/prompt", "name": "missing" }),
        json!({ "type": "ref/resource", "uri": "test://users/1" }),
        json!({ "type": "ref/tool", "name": "travel" }),
        json!({ "type": "ref/prompt" }),
        json!("travel"),
    ] {
        assert_eq!(complete_argument(&reference, "city", "", ""), Err(-32602), "{reference}");
    }
}

#[test]
fn completer_panic_is_an_internal_error() {
    let travel = json!({ "type": "ref/prompt", "name": "travel" });
    assert_eq!(complete_argument(&travel, "city", "", "crash"), Err(-32603));
}

#[test]
fn completions_feature_follows_completers() {
    assert!(catalog().has_features(Features::COMPLETIONS));
    let none = Catalog::builder(Implementation::new("test", "1")).build().unwrap();
    assert!(!none.has_features(Features::COMPLETIONS));
}
