//! What is found, in which order, and the words of texts.

use serde_json::json;

use super::*;

fn index(names: &[&str]) -> Index {
    let entries: Vec<SearchEntry<'_>> =
        names.iter().map(|name| SearchEntry { name, ..SearchEntry::default() }).collect();
    Index::build(&entries)
}

fn found<'a>(names: &[&'a str], query: &str) -> Vec<&'a str> {
    let hits = index(names).search(query, 10, |_| true);
    assert!(hits.is_sorted_by(|one, other| one.score >= other.score), "{hits:?}");
    hits.iter().map(|hit| names[hit.entry]).collect()
}

fn words(text: &str) -> String {
    let mut words = Vec::new();
    for_each_word(text, |word| words.push(word.to_owned()));
    words.join(" ")
}

const NAMES: [&str; 8] = [
    "github_create_issue",
    "github_create_issue_comment",
    "listIssues",
    "list_users",
    "getUserById",
    "get_user_by_id",
    "weather.forecast",
    "deploy/service",
];

#[test]
fn words_are_divided_and_lower_case() {
    for (text, expected) in [
        ("get_user-by.id/now", "get user by id now"),
        ("getUserIDs", "get user ids getuserid"),
        ("HTTPServer v2Api", "http server httpserver v2 api v2api"),
        ("issues status address is", "issue statu address is"),
        ("Straße É e\u{301} İ", "straße é e i"),
        ("天気を調べる get", "天 気 を 調 べ る get"),
        ("  --!? 🦀", ""),
    ] {
        assert_eq!(words(text), expected, "{text}");
    }
    assert_eq!(words(&"x".repeat(4_000)).len(), WORD_BYTES_MAX);
    assert_eq!(words(&format!("a {}", "x".repeat(10_000))), "a");
    assert!(words(&"aB".repeat(10_000)).len() < 2 * TEXT_BYTES_MAX);
}

#[test]
fn exact_name_is_found_first() {
    for query in NAMES {
        assert_eq!(found(&NAMES, query)[0], query);
        assert_eq!(found(&NAMES, &format!(" {query}\n"))[0], query);
    }
    assert_eq!(found(&NAMES, "create issue github")[0], "github_create_issue");
    assert_eq!(found(&NAMES, "listissues")[0], "listIssues");
    assert_eq!(found(&NAMES, "LIST USERS")[0], "list_users");
}

#[test]
fn words_match_in_any_order() {
    for query in ["comment issue create", "issue comment", "COMMENTS on an Issue"] {
        assert_eq!(found(&NAMES, query)[0], "github_create_issue_comment", "{query}");
    }
    let index = index(&NAMES);
    let [one, other] =
        ["user by id now", "id user by now"].map(|query| index.search(query, 9, |_| true));
    assert_eq!(one, other);
}

#[test]
fn unknown_word_finds_nothing() {
    assert_eq!(found(&NAMES, "zzz"), [""; 0]);
    assert_eq!(found(&NAMES, "🦀 !?"), [""; 0]);
    assert_eq!(found(&NAMES, "zzz deploy"), found(&NAMES, "deploy"));
    assert_eq!(found(&[], "zzz"), [""; 0]);
}

#[test]
fn empty_query_finds_first_by_name() {
    let mut names = NAMES.to_vec();
    names.sort_unstable();
    let index = index(&NAMES);
    for query in ["", "  \n"] {
        let hits = index.search(query, 3, |_| true);
        let hits: Vec<&str> = hits.iter().map(|hit| NAMES[hit.entry]).collect();
        assert_eq!(hits, names[..3]);
    }
}

#[test]
fn prefix_of_last_word_counts_less() {
    assert_eq!(found(&NAMES, "forec"), ["weather.forecast"]);
    assert_eq!(found(&NAMES, "forec now"), [""; 0]);
    assert_eq!(found(&["deployer", "deploy_x", "undeploy"], "deploy"), ["deploy_x", "deployer"]);
}

#[test]
fn hidden_tool_is_not_found() {
    let index = index(&NAMES);
    let is_visible = |entry: usize| entry != 0;
    for query in ["github_create_issue", "create", ""] {
        for limit in 0..=9 {
            let hits = index.search(query, limit, is_visible);
            assert!(hits.len() <= limit && hits.iter().all(|hit| hit.entry != 0));
            let mut all = index.search(query, 99, |_| true);
            all.retain(|hit| hit.entry != 0);
            all.truncate(limit);
            assert_eq!(hits, all, "{query} {limit}");
        }
    }
}

#[test]
fn every_field_is_searched_by_weight() {
    let schema = json!({"properties": {
        "crateName": {"description": "Which package"},
        "filters": {"items": {"properties": {"yanked": {"description": "withdrawn"}}}},
    }});
    let named = |name| SearchEntry { name, ..SearchEntry::default() };
    let entries = [
        SearchEntry { description: Some("Shows a package"), ..named("a") },
        SearchEntry { title: Some("Package"), ..named("b") },
        SearchEntry { input_schema: Some(&schema), ..named("c") },
        named("package"),
    ];
    let index = Index::build(&entries);
    let search = |query: &str| -> Vec<usize> {
        index.search(query, 9, |_| true).iter().map(|hit| hit.entry).collect()
    };
    assert_eq!(search("packages"), [3, 1, 0, 2]);
    for query in ["crate", "cratename", "yanked", "withdrawn", "which"] {
        assert_eq!(search(query), [2], "{query}");
    }
}

#[test]
fn long_query_is_bounded() {
    let index = index(&NAMES);
    let long = "create issue ".repeat(770);
    assert_eq!(long.len(), 10_010);
    assert_eq!(NAMES[index.search(&long, 1, |_| true)[0].entry], "github_create_issue");
    let many: Vec<String> = (0..2_000).map(|index| format!("w{index}")).collect();
    assert!(index.search(&(many.join(" ") + " deploy"), 9, |_| true).is_empty());
    for query in ["é".repeat(5_000), "天".repeat(4_000), "aB".repeat(5_000)] {
        assert!(index.search(&query, 9, |_| true).is_empty());
    }
}

#[test]
fn unicode_names_and_words_are_found() {
    let names = ["日本_天気", "straße_suchen", "ПОГОДА", "café"];
    for (query, expected) in [
        ("天気", "日本_天気"),
        ("STRASSE straße", "straße_suchen"),
        ("погода", "ПОГОДА"),
        ("CAFÉ", "café"),
    ] {
        assert_eq!(found(&names, query), [expected], "{query}");
    }
}

#[test]
fn equal_scores_are_in_order_of_names() {
    let names = ["x_b", "x_c", "x_a", "x_a"];
    let hits = index(&names).search("x", 9, |_| true);
    assert_eq!(hits.iter().map(|hit| hit.entry).collect::<Vec<_>>(), [2, 3, 0, 1]);
    assert_eq!(index(&names).search("x", usize::MAX, |_| true), hits);
    assert_eq!(index(&names).search("x", 3, |_| true), hits[..3]);
}
