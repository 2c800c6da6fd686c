//! Prompts are listed, filled in and made, in every revision.

use corelane::protocol::message::{Block, Content, ResourceContent, Role, ServerInfo};
use corelane::protocol::revision::Revision;
use corelane::service::{
    Catalog, CatalogError, HandlerError, Icon, Live, Prompt, PromptArgument, PromptOutcome, Worker,
};
use serde_json::{Value, json};

use crate::stage::{listed, prompt};

fn catalog_of(prompt: Prompt) -> Catalog {
    Catalog::builder(ServerInfo::new("test", "1"))
        .prompt(prompt)
        .build()
        .expect("what it offers is good")
}

fn review() -> Prompt {
    Prompt::new("review")
        .title("Review")
        .describe("Asks for a review.")
        .argument(PromptArgument::new("code").title("Code").describe("The code.").required())
        .argument(PromptArgument::new("tone"))
        .icon(Icon::new("https://example.com/icon.png"))
        .meta("example.com/color", "blue")
        .inline(|arguments, prompt| {
            let code = arguments.find("code").unwrap_or_default();
            prompt.format(Role::User, format_args!("{}: {code}", arguments.text("tone")));
            prompt.text(Role::Assistant, "Let me see.");
            Ok(())
        })
}

#[test]
fn a_prompt_is_told_in_the_words_of_each_revision() {
    let catalog = catalog_of(review());
    for revision in Revision::ALL {
        let dialect = revision.dialect();
        let page = listed(revision, "prompts/list", catalog.prompts_page(revision, None));
        let told = &page["prompts"][0];
        assert_eq!(told["name"], "review");
        assert_eq!(told["description"], "Asks for a review.");
        assert_eq!(told.get("title").is_some(), dialect.titles);
        assert_eq!(told.get("icons").is_some(), dialect.icons);
        assert_eq!(told.get("_meta").is_some(), dialect.meta_on_types);
        assert_eq!(told["arguments"][0]["required"], true);
        assert_eq!(told["arguments"][0].get("title").is_some(), dialect.titles);
        assert_eq!(told["arguments"][1], json!({ "name": "tone" }));
    }
}

#[test]
fn a_prompt_is_made_of_its_arguments() {
    let params = json!({ "name": "review", "arguments": { "code": "a\nb", "tone": "Kindly" } });
    for revision in Revision::ALL {
        let made = prompt(&catalog_of(review()), revision, &params.to_string()).unwrap();
        assert_eq!(made["description"], "Asks for a review.");
        assert_eq!(
            made["messages"],
            json!([
                { "role": "user", "content": { "type": "text", "text": "Kindly: a\nb" } },
                { "role": "assistant", "content": { "type": "text", "text": "Let me see." } },
            ])
        );
    }
}

#[test]
fn what_is_missing_or_unknown_is_an_invalid_param_in_every_revision() {
    let catalog = catalog_of(review());
    for params in [
        r#"{"name":"review"}"#,
        r#"{"name":"review","arguments":{}}"#,
        r#"{"name":"review","arguments":{"tone":"x"}}"#,
        r#"{"name":"review","arguments":{"code":7}}"#,
        r#"{"name":"review","arguments":[]}"#,
        r#"{"name":"nobody","arguments":{"code":"x"}}"#,
        r#"{"name":7}"#,
        "{}",
    ] {
        for revision in Revision::ALL {
            assert_eq!(prompt(&catalog, revision, params).unwrap_err().code, -32602, "{params}");
        }
    }
    let error = prompt(&catalog, Revision::LATEST, r#"{"name":"review"}"#).unwrap_err();
    assert!(error.message.contains("`code`"), "{error}");
}

/// One prompt of each kind that ends as `end` says.
fn prompts_that(end: fn() -> Result<PromptOutcome, HandlerError>) -> [Prompt; 3] {
    [
        Prompt::new("p").inline(move |_, prompt| {
            prompt.text(Role::User, "half a sent");
            end()?.write(prompt);
            Ok(())
        }),
        Prompt::new("p").local(move |_, live: Live| async move {
            live.sleep(std::time::Duration::ZERO).await?;
            end()
        }),
        Prompt::new("p").blocking(move |_, _: Worker| end()),
    ]
}

fn ends_of(
    revision: Revision,
    end: fn() -> Result<PromptOutcome, HandlerError>,
) -> Vec<Result<Value, i32>> {
    let ends = prompts_that(end).map(|made| {
        let made = prompt(&catalog_of(made), revision, r#"{"name":"p"}"#);
        made.map_err(|error| error.code)
    });
    ends.into()
}

#[test]
fn an_error_of_a_prompt_is_an_error_of_its_request_whatever_its_kind() {
    for revision in Revision::ALL {
        let arguments = || Err(HandlerError::arguments("no"));
        assert!(ends_of(revision, arguments).iter().all(|end| *end == Err(-32602)));
        let failed = || Err(HandlerError::failed("no"));
        assert!(ends_of(revision, failed).iter().all(|end| *end == Err(-32603)));
        let panicked = || panic!("swordfish");
        assert!(ends_of(revision, panicked).iter().all(|end| *end == Err(-32603)));
    }
}

#[test]
fn a_message_holds_any_content_that_the_revision_has() {
    let end = || {
        let picture: Block = Content::image(vec![1, 2, 3], "image/png").into();
        Ok(PromptOutcome::default()
            .user("Look:")
            .message(Role::User, picture)
            .message(Role::User, Content::Embedded(ResourceContent::text("test://a", "A")))
            .describe("Of its own."))
    };
    for revision in Revision::ALL {
        for made in ends_of(revision, end) {
            let made = made.unwrap();
            let messages = made["messages"].as_array().unwrap();
            let picture = &messages[messages.len() - 2]["content"];
            assert_eq!(
                *picture,
                json!({ "type": "image", "data": "AQID", "mimeType": "image/png" })
            );
            let embedded = &messages[messages.len() - 1]["content"]["resource"];
            assert_eq!(*embedded, json!({ "uri": "test://a", "text": "A" }));
        }
    }
    let described = &ends_of(Revision::LATEST, end)[1];
    assert_eq!(described.as_ref().unwrap()["description"], "Of its own.");
}

#[test]
fn a_prompt_that_nobody_could_fill_in_is_refused_by_name() {
    let twice =
        || Prompt::new("p").argument(PromptArgument::new("a")).argument(PromptArgument::new("a"));
    for prompt in [Prompt::new("").inline(|_, _| Ok(())), twice().inline(|_, _| Ok(()))] {
        let error = Catalog::builder(ServerInfo::new("test", "1")).prompt(prompt).build();
        assert!(matches!(error.unwrap_err(), CatalogError::Unfit { kind: "prompt", .. }));
    }
    let error =
        Catalog::builder(ServerInfo::new("test", "1")).prompts([review(), review()]).build();
    assert_eq!(
        error.unwrap_err().to_string(),
        "two prompts are called `review`; names must be unique"
    );
}
