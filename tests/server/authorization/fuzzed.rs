//! Seeded damage through the bodies of the fuzz targets: tokens, proofs of possession and
//! certificates.

#[path = "../../../fuzz/bodies/certificates.rs"]
mod certificates_fuzz;
#[path = "../../../fuzz/bodies/proofs.rs"]
mod proofs_fuzz;
#[path = "../../../fuzz/bodies/tokens.rs"]
mod tokens_fuzz;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use certificates_fuzz::check_certificate;
use corelane::internal::{DpopRules, SentProof};
use proofs_fuzz::{EXAMPLE, ISSUED_AT, RESOURCE, THUMBPRINT, TOKEN};
use rcgen::{CertificateParams, KeyPair};
use tokens_fuzz::KEY_SET;

/// Returns a linear congruential generator of numbers below a limit, so that every run is the same.
fn draws() -> impl FnMut(usize) -> usize {
    let mut state = 1_u64;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(state >> 33).unwrap_or_default() % below
    }
}

/// Changes or adds a byte, or shortens the text if it `may_shorten`.
fn damage(bytes: &mut Vec<u8>, may_shorten: bool, draw: &mut impl FnMut(usize) -> usize) {
    let place = draw(bytes.len() + 1);
    match draw(3) {
        0 if may_shorten => bytes.truncate(place),
        1 => bytes.insert(place, b".\"=A\x00{"[draw(6)]),
        _ => {
            if let Some(byte) = bytes.get_mut(place) {
                *byte = b"{}.,\":09zZ"[draw(10)];
            }
        }
    }
}

/// Texts in which the parts of tokens occur.
fn seeds() -> Vec<String> {
    let encode = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
    let claims = r#"{"iss":"https://as.test","sub":"a","aud":["https://a/mcp"],
        "exp":1000060,"nbf":1,"iat":1.5,"scope":"a b","cnf":{"x5t#S256":
        "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE"}}"#;
    let signature = encode(&"s".repeat(64));
    let mut all = vec![
        String::new(),
        "Bearer a.b.c".to_owned(),
        "bearer  abc==".to_owned(),
        "Basic YTpi".to_owned(),
        claims.to_owned(),
        KEY_SET.to_owned(),
    ];
    for header in [
        r#"{"alg":"ES256","typ":"at+jwt","kid":"1"}"#,
        r#"{"alg":"ES256","kid":"../../etc/passwd","jku":"http://127.0.0.1/"}"#,
        r#"{"alg":"none"}"#,
        r#"{"alg":"HS256","kid":"' OR 1=1 --"}"#,
        r#"{"alg":"ES256","crit":["exp"]}"#,
    ] {
        all.push(format!("Bearer {}.{}.{signature}", encode(header), encode(claims)));
    }
    all
}

#[test]
fn damaged_tokens_are_refused() {
    let seeds = seeds();
    let is_bearer: Vec<bool> = seeds.iter().map(|seed| tokens_fuzz::check_text(seed)).collect();
    assert_eq!(is_bearer.iter().filter(|it| **it).count(), 7);
    let mut draw = draws();
    for round in 0..2_000 {
        let mut bytes = seeds[round % seeds.len()].clone().into_bytes();
        for _ in 0..=draw(3) {
            damage(&mut bytes, true, &mut draw);
        }
        tokens_fuzz::check_text(&String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn example_of_rfc_9449_is_accepted() {
    let rules = DpopRules::new(RESOURCE, vec!["ES256".into()], 60).unwrap();
    let sent = SentProof {
        values: [Some(EXAMPLE.as_bytes()), None],
        method: "GET",
        path: "/protectedresource",
        is_endpoint: false,
    };
    let proof = rules.read(&sent, TOKEN, &THUMBPRINT, ISSUED_AT).unwrap();
    assert_eq!(proof.verify_signature(), Ok(()));
    assert_eq!(proof.id(), (&THUMBPRINT, "e1j3V_bKic8-LAEB"));
    assert_eq!((proof.nonce(), proof.usable_until()), (None, ISSUED_AT + 61));
}

#[test]
fn damaged_proofs_are_refused() {
    assert!(proofs_fuzz::check_text(EXAMPLE));
    let parts: Vec<&str> = EXAMPLE.split('.').collect();
    let decode = |part: &str| BASE64_URL_SAFE_NO_PAD.decode(part).unwrap();
    let (header, claims) = (decode(parts[0]), decode(parts[1]));
    let mut draw = draws();
    let mut refused = 0;
    for round in 0..2_000 {
        // Damages the text, or what is encoded in its first two parts.
        let mut texts = [header.clone(), claims.clone(), EXAMPLE.as_bytes().to_vec()];
        let damaged = &mut texts[round % 3];
        for _ in 0..=draw(2) {
            damage(damaged, round % 5 == 0, &mut draw);
        }
        let [header, claims, whole] = texts;
        let text = if round % 3 == 2 {
            String::from_utf8_lossy(&whole).into_owned()
        } else {
            let encode = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
            format!("{}.{}.{}", encode(&header), encode(&claims), parts[2])
        };
        refused += usize::from(!proofs_fuzz::check_text(&text));
    }
    // Some damage changes nothing.
    assert!(refused > 1_900, "{refused}");
}

#[test]
fn damaged_certificate_keeps_its_kind_of_name() {
    let params = CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
    let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
    let der = certificate.der();
    assert!(check_certificate(der));
    for place in 0..der.len() {
        assert!(!check_certificate(&der[..place]));
        for bit in 0..8 {
            let mut damaged = der.to_vec();
            damaged[place] ^= 1 << bit;
            // Most damage is within a value that is not read.
            check_certificate(&damaged);
        }
    }
}

/// Found by the fuzzer.
#[test]
fn text_of_refusal_is_refused() {
    let proof = r#"{"error":"invalid_dpop_proof","error_description":"the proof is "#;
    assert!(!proofs_fuzz::check_text(proof));
    let token = r#"Bearer error="invalid_token", error_description="the token is ma"#;
    assert!(!tokens_fuzz::check_text(token));
}
