//! The common frame of all pages: head, title, verdict, footer.
//!
//! Names, errors and addresses are untrusted and escaped by maud. The Content-Security-Policy
//! forbids scripts and external resources.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::style::STYLE;
use crate::result::{Manifest, RunStatus};

/// Allows the inline style only.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// The frame around the sections of a page.
#[derive(Debug)]
pub(super) struct PageFrame<'a> {
    /// Kind of the report.
    pub(super) report_kind: &'static str,
    /// The target.
    pub(super) target: &'a str,
    /// Summary of the run in one line.
    pub(super) summary: String,
    pub(super) verdict: VerdictBanner,
    /// Environment of the run.
    pub(super) manifest: &'a Manifest,
    /// Remark about all figures.
    pub(super) remark: &'static str,
}

/// The verdict with its reasons.
#[derive(Debug)]
pub(super) struct VerdictBanner {
    pub(super) status: RunStatus,
    pub(super) sentence: String,
    pub(super) reasons: Vec<String>,
}

impl PageFrame<'_> {
    /// Returns the whole page.
    pub(super) fn render(&self, sections: &Markup) -> Markup {
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(POLICY);
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (self.verdict.title()) " · " (self.target) " · corelane-load" }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    header {
                        p class="kicker" { (self.report_kind) }
                        h1 { (self.target) }
                        p class="about" { (self.summary) }
                        (self.verdict.markup())
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

impl VerdictBanner {
    /// Returns the status as a title.
    fn title(&self) -> String {
        self.status.text().to_uppercase()
    }

    /// Returns the SVG path of the icon.
    const fn icon_path(&self) -> &'static str {
        match self.status {
            RunStatus::Passed | RunStatus::Completed => "M4 13 10 19 20 6",
            RunStatus::Missed | RunStatus::Failed => "M5 5 19 19M19 5 5 19",
            RunStatus::Invalid => "M12 3 22 20H2ZM12 9v5M12 17v.1",
        }
    }

    fn markup(&self) -> Markup {
        html! {
            div class={ "verdict " (self.status.text()) } role="group" aria-label="Verdict" {
                svg viewBox="0 0 24 24" aria-hidden="true" fill="none" stroke="currentColor"
                    stroke-width="2.5" stroke-linecap="round" stroke-linejoin="round" {
                    path d=(self.icon_path()) {}
                }
                div {
                    strong { (self.title()) }
                    p { (self.sentence) }
                    @if !self.reasons.is_empty() {
                        ul { @for reason in &self.reasons { li { (reason) } } }
                    }
                }
            }
        }
    }
}
