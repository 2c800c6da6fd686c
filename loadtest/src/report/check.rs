//! The look at a machine as a person reads it.

use std::fmt::Write;

use crate::tuning::{Finding, Review, Weight};

/// What was found, in paragraphs: what is needed first, what is as it should be last.
pub fn paragraphs(review: &Review) -> String {
    let (connections, sources) = (review.wish.connections, review.wish.sources);
    let plural = if sources == 1 { "address" } else { "addresses" };
    let mut text = format!("{connections} connections from {sources} {plural}: ");
    let needed = review.findings.iter().filter(|finding| finding.weight == Weight::Needed).count();
    text.push_str(match (needed, review.findings.len()) {
        (0, 0) => "nothing differs from the profile\n",
        (0, _) => "nothing stands against it\n",
        _ => "they do not fit\n",
    });
    for finding in &review.findings {
        text.push_str(&paragraph(finding));
    }
    if !review.held.is_empty() {
        text.push_str("\nas wanted  ");
        text.push_str(&review.held.join("\n           "));
        text.push('\n');
    }
    text
}

fn paragraph(finding: &Finding) -> String {
    let Finding { knob, here, wanted, cost, remedy, .. } = finding;
    let weight = match finding.weight {
        Weight::Needed => "NEEDED",
        Weight::Advised => "advised",
        Weight::Told => "told",
    };
    let mut text = format!("\n{weight:<10} {knob}\n");
    let plan = finding.plan.as_ref().map(|plan| format!("loadtest/plans/{plan}"));
    let plan = plan.unwrap_or_default();
    for (word, said) in
        [("here", here), ("wanted", wanted), ("costs", cost), ("do", remedy), ("see", &plan)]
    {
        if !said.is_empty() {
            // Writing to a string does not fail.
            writeln!(text, "  {word:<8} {said}").unwrap_or(());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::{Machine, Wish, review};

    #[test]
    fn what_is_needed_is_told_with_its_price_and_remedy() {
        let machine = Machine { files_max: Some(1_024), ..Machine::default() };
        let wish = Wish { connections: 2_000, sources: 1 };
        let text = paragraphs(&review(&machine, wish));
        assert!(text.starts_with("2000 connections from 1 address: they do not fit\n"), "{text}");
        for part in
            ["NEEDED     nofile", "here     1024", "costs    ", "--workers 3", "knob-limits"]
        {
            assert!(text.contains(part), "'{part}' is not in: {text}");
        }
        let few = Wish { connections: 100, sources: 2 };
        let text = paragraphs(&review(&machine, few));
        assert_eq!(text, "100 connections from 2 addresses: nothing differs from the profile\n");
    }
}
