//! What is odd about options and not wrong: the server starts, and says so.
//!
//! What it keeps true: a doubt is told where somebody gave the option that it blames; a default is
//! never odd.

use crate::config::options::Options;
use crate::config::problem::Refusal;
use crate::config::rules::Rule;

/// Every doubt.
pub static DOUBTS: [Rule; 5] = [
    Rule { reads: &["http.address", "http.hosts", "http.origins"], judge: browsers_find_the_door },
    Rule { reads: &["http.legacy", "http.strict"], judge: strict_decides_on_sessions },
    Rule { reads: &["http.sse_pair", "http.strict", "http.legacy"], judge: pair_is_reachable },
    Rule { reads: &["websocket.path", "http.address"], judge: upgrades_have_a_door },
    Rule { reads: &["websocket.ping_ms", "websocket.idle_ms_max"], judge: pings_come_in_time },
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

fn upgrades_have_a_door(options: &Options) -> Option<Refusal> {
    let path = options.websocket.path.as_deref()?;
    options.http.address.is_none().then(|| {
        let what = format!("{path} has no effect: http.address is off, and there is no other door");
        Refusal::new(what, "leave it out, or give an address with http.address")
    })
}

fn pings_come_in_time(options: &Options) -> Option<Refusal> {
    let websocket = &options.websocket;
    (websocket.ping >= websocket.idle_max).then(|| {
        let what = "peers that are silent are closed before they are asked by a ping";
        Refusal::new(what, "ping sooner, or raise websocket.idle_ms_max")
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
        let shut = doubted(|options| options.http.address = None);
        assert!(!shut.contains(&"http.address"), "{shut:?}");
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

    #[test]
    fn a_path_without_a_door_is_odd() {
        assert_eq!(doubted(|it| it.http.address = None), ["websocket.path"]);
        let off = doubted(|it| (it.http.address, it.websocket.path) = (None, None));
        assert!(off.is_empty());
    }

    #[test]
    fn pings_that_come_too_late_are_odd() {
        let late = doubted(|it| it.websocket.ping = it.websocket.idle_max);
        assert_eq!(late, ["websocket.ping_ms"]);
    }
}
