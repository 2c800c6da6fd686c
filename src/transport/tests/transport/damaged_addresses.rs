//! Damaged PROXY headers, and addresses that clients write into their requests, through the body
//! of the fuzz target.

use crate::proxies_fuzz::{check_forwarded, check_header};
use corelane_base::random::Random;
use corelane_transport::http::forwarded::{ForwardedClient, ForwardedField};

#[test]
fn damaged_proxy_headers_do_not_depend_on_split() {
    let line: &[u8] = b"PROXY TCP4 192.0.2.1 198.51.100.2 8080 80\r\n{}\n";
    let binary: &[u8] =
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0f\xc0\0\x02\x01\xc6\x33\x64\x02\x1f\x90\0\
        \x50\x04\0\0{}\n";
    let (mut complete, mut rejected) = (0, 0);
    for seed in 0..4_000 {
        let mut random = Random::seeded(seed);
        let mut stream = [line, binary][random.below(2)].to_vec();
        damage(&mut stream, &mut random, b"PT46 .:1\r\n\0\x20\x21\xFF");
        match check_header(&stream, 1 + random.below(20)) {
            Ok(Some(_)) => complete += 1,
            Ok(None) => {}
            Err(_) => rejected += 1,
        }
    }
    assert!(complete > 500 && rejected > 500, "{complete} complete, {rejected} rejected");
}

#[test]
fn client_behind_proxy_cannot_choose_its_address() {
    let mut known = 0;
    for seed in 0..4_000 {
        let mut random = Random::seeded(seed);
        let (field, text): (_, &[u8]) = match random.below(2) {
            0 => (ForwardedField::XForwardedFor, b"198.51.100.7, [2001:db8::1]:80, 10.0.0.1"),
            _ => {
                (ForwardedField::Forwarded, b"for=198.51.100.7;by=a, for=\"[2001:db8::1]:80\", x=y")
            }
        };
        let mut value = text.to_vec();
        damage(&mut value, &mut random, b"\"\\,;= for:[]10.\t\xFF");
        known +=
            usize::from(matches!(check_forwarded(field, &value), Some(ForwardedClient::At(_))));
    }
    assert!((500..4_000).contains(&known), "{known} clients are known");
}

/// Replaces, removes and inserts up to three bytes, or cuts the end.
fn damage(bytes: &mut Vec<u8>, random: &mut Random, alphabet: &[u8]) {
    for _ in 0..random.below(4) {
        let at = random.below(bytes.len());
        let byte = alphabet[random.below(alphabet.len())];
        match random.below(8) {
            0 => bytes.truncate(at.max(1)),
            1 | 2 if bytes.len() > 1 => drop(bytes.remove(at)),
            3 | 4 => bytes.insert(at, byte),
            _ => bytes[at] = byte,
        }
    }
}
