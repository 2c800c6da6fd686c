//! What is odd about options and not wrong: the server starts, and says so.
//!
//! What it keeps true: a doubt is told where somebody gave the option that it blames; a default is
//! never odd.

use crate::config::options::Options;
use crate::config::problem::Refusal;
use crate::config::rules::Rule;

/// Every doubt.
pub static DOUBTS: [Rule; 3] = [
    Rule { reads: &["http.address", "http.hosts", "http.origins"], judge: browsers_find_the_door },
    Rule { reads: &["http.legacy", "http.strict"], judge: strict_decides_on_sessions },
    Rule { reads: &["http.sse_pair", "http.strict", "http.legacy"], judge: pair_is_reachable },
];

fn browsers_find_the_door(options: &Options) -> Option<Refusal> {
    let http = &options.http;
    let address = http.address.filter(|address| !address.ip().is_loopback())?;
    (http.hosts.is_empty() && http.origins.is_empty()).then(|| {
        let what = format!(
            "{address} is reached from elsewhere, and pages are let in only where they were loaded \
             from its address: under a name browsers are refused"
        );
        Refusal::new(what, "list the name in http.hosts, and foreign pages in http.origins")
    })
}

fn strict_decides_on_sessions(options: &Options) -> Option<Refusal> {
    let http = &options.http;
    let pinned = http.strict?;
    (http.legacy == pinned.is_modern()).then(|| {
        let sessions = if pinned.is_modern() { "without" } else { "with" };
        let what = format!(
            "{} has no effect: http.strict = {pinned} alone is served, {sessions} sessions",
            http.legacy
        );
        Refusal::new(what, "leave it out, or set http.strict = off")
    })
}

fn pair_is_reachable(options: &Options) -> Option<Refusal> {
    let http = &options.http;
    let shut_by = match http.strict {
        Some(pinned) => format!("http.strict = {pinned}"),
        None if !http.legacy => "http.legacy = false".to_owned(),
        None => return None,
    };
    http.sse_pair.then(|| {
        let what = format!("true has no effect: {shut_by} shuts out clients of 2024-11-05");
        Refusal::new(what, "leave one of them out")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::revision::Revision;

    /// The keys of the doubts that `change` raises.
    fn doubted(change: impl FnOnce(&mut Options)) -> Vec<&'static str> {
        let mut options = Options::default();
        change(&mut options);
        let doubts = DOUBTS.iter().filter(|doubt| (doubt.judge)(&options).is_some());
        doubts.map(|doubt| doubt.reads[0]).collect()
    }

    #[test]
    fn doubts_read_options_that_exist() {
        let mut keys = DOUBTS.iter().flat_map(|doubt| doubt.reads);
        assert!(keys.all(|key| crate::config::table::find(key).is_some()));
    }

    #[test]
    fn the_defaults_raise_no_doubt() {
        assert!(doubted(|_| {}).is_empty());
    }

    #[test]
    fn an_open_door_without_names_is_doubted() {
        let open = |options: &mut Options| options.http.address = Some(([0; 4], 8080).into());
        assert_eq!(doubted(open), ["http.address"]);
        let named = |options: &mut Options| {
            open(options);
            options.http.hosts = vec!["mcp.example.com".to_owned()];
        };
        assert!(doubted(named).is_empty());
        let paged = |options: &mut Options| {
            open(options);
            options.http.origins = vec!["*".to_owned()];
        };
        assert!(doubted(paged).is_empty());
        assert!(doubted(|options| options.http.address = None).is_empty());
    }

    #[test]
    fn the_strict_profile_decides_on_sessions_alone() {
        let strict = |revision, legacy| {
            doubted(|options| {
                options.http.strict = Some(revision);
                options.http.legacy = legacy;
            })
        };
        assert_eq!(strict(Revision::V2026_07_28, true), ["http.legacy"]);
        assert!(strict(Revision::V2026_07_28, false).is_empty());
        assert_eq!(strict(Revision::V2025_06_18, false), ["http.legacy"]);
        assert!(strict(Revision::V2025_06_18, true).is_empty());
    }

    #[test]
    fn the_pair_of_2024_is_part_of_neither_profile() {
        for (strict, legacy) in [(Some(Revision::V2025_06_18), true), (None, false)] {
            let doubts = doubted(|options| {
                (options.http.strict, options.http.legacy) = (strict, legacy);
                options.http.sse_pair = true;
            });
            assert_eq!(doubts, ["http.sse_pair"]);
        }
        assert!(doubted(|options| options.http.sse_pair = true).is_empty());
    }
}
