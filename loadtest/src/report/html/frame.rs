//! What every page has around its sections: head, title, verdict, last words.
//!
//! What it keeps true: names, errors and addresses come from outside, and maud escapes them; the
//! page refuses by its own policy to load anything or to run anything.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::style::STYLE;
use crate::report::word::Word;
use crate::result::Manifest;

/// The policy of the page: its own style, and nothing else.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// What stands around the sections.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    /// What the page is.
    pub(super) kicker: &'static str,
    /// The server.
    pub(super) target: &'a str,
    /// What was done to it, in a line.
    pub(super) about: String,
    pub(super) ruling: Ruling,
    /// What measured.
    pub(super) manifest: &'a Manifest,
    /// What has to be known of all figures.
    pub(super) remark: &'static str,
}

/// How it went, in a word, a sentence and what speaks for that.
#[derive(Debug)]
pub(super) struct Ruling {
    pub(super) word: Word,
    pub(super) says: String,
    pub(super) reasons: Vec<String>,
}

impl Frame<'_> {
    /// The whole page.
    pub(super) fn around(&self, sections: &Markup) -> Markup {
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(POLICY);
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (self.ruling.title()) " · " (self.target) " · corelane-load" }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    header {
                        p class="kicker" { (self.kicker) }
                        h1 { (self.target) }
                        p class="about" { (self.about) }
                        (self.ruling.markup())
                    }
                    main { (sections) }
                    footer {
                        p { "Made by corelane-load " (self.manifest.version) ". " (self.remark) }
                    }
                }
            }
        }
    }
}

impl Ruling {
    /// The word as a title.
    fn title(&self) -> String {
        self.word.text().to_uppercase()
    }

    /// The strokes of its sign.
    const fn sign(&self) -> &'static str {
        match self.word {
            Word::Passed => "M4 13 10 19 20 6",
            Word::Missed => "M5 5 19 19M19 5 5 19",
            Word::Invalid => "M12 3 22 20H2ZM12 9v5M12 17v.1",
        }
    }

    fn markup(&self) -> Markup {
        html! {
            div class={ "verdict " (self.word.text()) } role="group" aria-label="Verdict" {
                svg viewBox="0 0 24 24" aria-hidden="true" fill="none" stroke="currentColor"
                    stroke-width="2.5" stroke-linecap="round" stroke-linejoin="round" {
                    path d=(self.sign()) {}
                }
                div {
                    strong { (self.title()) }
                    p { (self.says) }
                    @if !self.reasons.is_empty() {
                        ul { @for reason in &self.reasons { li { (reason) } } }
                    }
                }
            }
        }
    }
}
