//! Prompts: lists, arguments, messages and errors, in every revision.

use corelane::model::Icon;
use corelane::{
    BlockingContext, Catalog, CatalogError, GetPromptResult, HandlerError, Prompt, PromptArgument,
    PromptBuilder, RequestContext,
};
use corelane_protocol::model::{Content, ContentBlock, Implementation, ResourceContents, Role};
use corelane_protocol::revision::Revision;
use serde_json::{Map, Value, json};

use crate::service::harness::{get_prompt, parse_page};

fn catalog_of(prompt: Prompt) -> Catalog {
    Catalog::builder(Implementation::new("test", "1"))
        .prompt(prompt)
        .build()
        .expect("the catalog is valid")
}

fn review() -> Prompt {
    Prompt::new("review")
        .title("Review")
        .description("Asks for a review.")
        .argument(PromptArgument::new("code").title("Code").description("The code.").required())
        .argument(PromptArgument::new("tone"))
        .icon(Icon::new("https://example.com/icon.png"))
        .meta("example.com/color", "blue")
        .inline(|arguments, out, _| {
            let code = arguments.get("code").unwrap_or_default();
            out.format(Role::User, format_args!("{}: {code}", arguments.text("tone")));
            out.text(Role::Assistant, "Let me see.");
            Ok(())
        })
}

#[test]
fn prompts_list_writes_members_of_each_revision() {
    let catalog = catalog_of(review());
    for revision in Revision::ALL {
        let dialect = revision.dialect();
        let page = parse_page(revision, "prompts/list", catalog.prompts_page(revision, None));
        let prompt = &page["prompts"][0];
        assert_eq!(prompt["name"], "review");
        assert_eq!(prompt["description"], "Asks for a review.");
        assert_eq!(prompt.get("title").is_some(), dialect.titles);
        assert_eq!(prompt.get("icons").is_some(), dialect.icons);
        assert_eq!(prompt.get("_meta").is_some(), dialect.meta_on_types);
        assert_eq!(prompt["arguments"][0]["required"], true);
        assert_eq!(prompt["arguments"][0].get("title").is_some(), dialect.titles);
        assert_eq!(prompt["arguments"][1], json!({ "name": "tone" }));
    }
}

#[test]
fn prompt_uses_its_arguments() {
    let params = json!({ "name": "review", "arguments": { "code": "a\nb", "tone": "Kindly" } });
    for revision in Revision::ALL {
        let result = get_prompt(&catalog_of(review()), revision, &params.to_string()).unwrap();
        assert_eq!(result["description"], "Asks for a review.");
        assert_eq!(
            result["messages"],
            json!([
                { "role": "user", "content": { "type": "text", "text": "Kindly: a\nb" } },
                { "role": "assistant", "content": { "type": "text", "text": "Let me see." } },
            ])
        );
    }
}

#[test]
fn missing_prompt_or_argument_is_invalid_params() {
    let catalog = catalog_of(review());
    for params in [
        r#"{"name":"review"}"#,
        r#"{"name":"review","arguments":{}}"#,
        r#"{"name":"review","arguments":{"tone":"x"}}"#,
        r#"{"name":"review","arguments":{"code":7}}"#,
        r#"{"name":"review","arguments":[]}"#,
        r#"{"name":"missing","arguments":{"code":"x"}}"#,
        r#"{"name":7}"#,
        "{}",
    ] {
        for revision in Revision::ALL {
            assert_eq!(
                get_prompt(&catalog, revision, params).unwrap_err().code,
                -32602,
                "{params}"
            );
        }
    }
    let error = get_prompt(&catalog, Revision::LATEST, r#"{"name":"review"}"#).unwrap_err();
    assert!(error.message.contains("`code`"), "{error}");
}

/// A lookup of every required argument among all others would take more than ten minutes.
#[test]
fn required_arguments_are_searched_in_one_pass() {
    const COUNT: usize = 100_000;
    let arguments = (0..COUNT).map(|index| PromptArgument::new(format!("a{index}")).required());
    let prompt = arguments.fold(Prompt::new("p"), PromptBuilder::argument);
    let catalog = catalog_of(prompt.inline(|arguments, out, _| {
        out.text(Role::User, arguments.text("a0"));
        Ok(())
    }));
    let mut arguments: Map<String, Value> =
        (0..2 * COUNT).rev().map(|index| (format!("a{index}"), json!("v"))).collect();
    let get = |arguments: &Map<String, Value>| {
        let params = json!({ "name": "p", "arguments": arguments }).to_string();
        get_prompt(&catalog, Revision::LATEST, &params)
    };
    assert_eq!(get(&arguments).unwrap()["messages"][0]["content"]["text"], "v");
    arguments.swap_remove("a80000");
    arguments.swap_remove("a60000");
    let error = get(&arguments).unwrap_err();
    assert_eq!((error.code, error.message.contains("`a60000`")), (-32602, true), "{error}");
}

/// A prompt of each handler kind that ends with `end`.
fn prompts_ending_with(end: fn() -> Result<GetPromptResult, HandlerError>) -> [Prompt; 3] {
    [
        Prompt::new("p").inline(move |_, out, _| {
            out.text(Role::User, "half a sent");
            end()?.write_to(out);
            Ok(())
        }),
        Prompt::new("p").local(move |_, ctx: RequestContext| async move {
            ctx.sleep(std::time::Duration::ZERO).await?;
            end()
        }),
        Prompt::new("p").blocking(move |_, _: BlockingContext| end()),
    ]
}

fn prompt_results(
    revision: Revision,
    end: fn() -> Result<GetPromptResult, HandlerError>,
) -> Vec<Result<Value, i32>> {
    let ends = prompts_ending_with(end).map(|tested| {
        let result = get_prompt(&catalog_of(tested), revision, r#"{"name":"p"}"#);
        result.map_err(|error| error.code)
    });
    ends.into()
}

#[test]
fn prompt_error_is_a_json_rpc_error() {
    for revision in Revision::ALL {
        let arguments = || Err(HandlerError::invalid_params("no"));
        assert!(prompt_results(revision, arguments).iter().all(|end| *end == Err(-32602)));
        let failed = || Err(HandlerError::tool("no"));
        assert!(prompt_results(revision, failed).iter().all(|end| *end == Err(-32603)));
        let panicked = || panic!("swordfish");
        assert!(prompt_results(revision, panicked).iter().all(|end| *end == Err(-32603)));
    }
}

#[test]
fn prompt_message_holds_any_content() {
    let end = || {
        let image: ContentBlock = Content::image(vec![1, 2, 3], "image/png").into();
        Ok(GetPromptResult::default()
            .user("Look:")
            .message(Role::User, image)
            .message(Role::User, Content::EmbeddedResource(ResourceContents::text("test://a", "A")))
            .description("Of its own."))
    };
    for revision in Revision::ALL {
        for result in prompt_results(revision, end) {
            let result = result.unwrap();
            let messages = result["messages"].as_array().unwrap();
            let image = &messages[messages.len() - 2]["content"];
            assert_eq!(*image, json!({ "type": "image", "data": "AQID", "mimeType": "image/png" }));
            let embedded = &messages[messages.len() - 1]["content"]["resource"];
            assert_eq!(*embedded, json!({ "uri": "test://a", "text": "A" }));
        }
    }
    let described = &prompt_results(Revision::LATEST, end)[1];
    assert_eq!(described.as_ref().unwrap()["description"], "Of its own.");
}

#[test]
fn invalid_prompt_is_rejected_by_name() {
    let duplicate =
        || Prompt::new("p").argument(PromptArgument::new("a")).argument(PromptArgument::new("a"));
    for prompt in [Prompt::new("").inline(|_, _, _| Ok(())), duplicate().inline(|_, _, _| Ok(()))] {
        let error = Catalog::builder(Implementation::new("test", "1")).prompt(prompt).build();
        assert!(matches!(error.unwrap_err(), CatalogError::InvalidEntry { kind: "prompt", .. }));
    }
    let error =
        Catalog::builder(Implementation::new("test", "1")).prompts([review(), review()]).build();
    assert_eq!(
        error.unwrap_err().to_string(),
        "two prompts are called `review`; names must be unique"
    );
}
