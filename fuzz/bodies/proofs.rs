//! Fuzz target body of proofs of possession.
//!
//! It panics if an invariant is violated, which no input may cause. Called by a fuzzer with its own
//! text, and by a test with seeded damage.

use corelane::internal::{
    ALGORITHMS, AuthError, Challenges, DpopRules, Nonces, PROOF_BYTES_MAX, SentProof,
    read_bound_token,
};
use serde_json::Value;

/// The proof of RFC 9449, figure 12.
pub(crate) const EXAMPLE: &str = "\
    eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7Imt0eSI6IkVDIiwieCI6Imw4dEZy\
    aHgtMzR0VjNoUklDUkRZOXpDa0RscEJoRjQyVVFVZldWQVdCRnMiLCJ5IjoiOVZFNGpmX09rX282NHpi\
    VFRsY3VOSmFqSG10NnY5VERWclUwQ2R2R1JEQSIsImNydiI6IlAtMjU2In19.eyJqdGkiOiJlMWozVl9\
    iS2ljOC1MQUVCIiwiaHRtIjoiR0VUIiwiaHR1IjoiaHR0cHM6Ly9yZXNvdXJjZS5leGFtcGxlLm9yZy9\
    wcm90ZWN0ZWRyZXNvdXJjZSIsImlhdCI6MTU2MjI2MjYxOCwiYXRoIjoiZlVIeU8ycjJaM0RaNTNFc05\
    yV0JiMHhXWG9hTnk1OUlpS0NBcWtzbVFFbyJ9.2oW9RP35yRqzhrtNP86L-Ey71EOptxRimPPToA1ple\
    mAgR6pxHF8y6-yqyVnmcw6Fy1dqd-jfxSYoMxhAJpLjA";

/// The token and the resource of that proof, and its time.
pub(crate) const TOKEN: &str = "Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU";
pub(crate) const RESOURCE: &str = "https://resource.example.org/protectedresource";
pub(crate) const ISSUED_AT: u64 = 1_562_262_618;

/// The thumbprint of its key (RFC 9449, section 6.1).
pub(crate) const THUMBPRINT: [u8; 32] = [
    0xd1, 0x97, 0x0e, 0x08, 0xe4, 0x59, 0x35, 0x8c, 0xbe, 0x0d, 0x6a, 0x6a, 0xab, 0x7d, 0x23, 0x67,
    0x22, 0x46, 0x1d, 0x33, 0x74, 0x77, 0x61, 0xe0, 0x94, 0x15, 0x77, 0xba, 0x28, 0x2e, 0x03, 0x82,
];

/// Reads `text` as the value of `Authorization`, as a proof, and as a nonce. Returns whether it is
/// a proof that is accepted.
///
/// # Panics
///
/// If an invariant is violated: a proof is accepted whose parts are not those of the example, or
/// the refusal of one is malformed or has a part of it.
pub(crate) fn check_text(text: &str) -> bool {
    if let Ok(Some(token)) = read_bound_token(text.as_bytes()) {
        assert!(text.ends_with(token) || text.trim_ascii_end().ends_with(token), "{text:?}");
    }
    assert!(!Nonces::new(&[7; 32]).accepts(text, ISSUED_AT), "{text:?}");
    let algorithms = ALGORITHMS.map(Box::from).to_vec();
    let Ok(rules) = DpopRules::new(RESOURCE, algorithms, 300) else { panic!("the URL is valid") };
    let sent = SentProof {
        values: [Some(text.as_bytes()), None],
        method: "GET",
        path: "/protectedresource",
        is_endpoint: true,
    };
    let proof = rules.read(&sent, TOKEN, &THUMBPRINT, ISSUED_AT);
    match proof.and_then(|proof| proof.verify_signature().map(|()| proof)) {
        Ok(proof) => {
            // The signature covers header and claims, and there is one example.
            let signed = |text: &str| text.rsplit_once('.').map(|(signed, _)| signed.to_owned());
            assert_eq!(signed(text), signed(EXAMPLE));
            assert_eq!(proof.id(), (&THUMBPRINT, "e1j3V_bKic8-LAEB"));
            assert!(proof.usable_until() > ISSUED_AT && text.len() <= PROOF_BYTES_MAX);
            true
        }
        Err(error) => {
            check_refusal(&error, text);
            false
        }
    }
}

/// Checks that a refusal is a field value, and has no part of the proof.
fn check_refusal(error: &AuthError, text: &str) {
    let challenges = Challenges { dpop_algorithms: Some("ES256".into()), ..Challenges::default() };
    let refusal = challenges.refuse(error);
    let challenge = refusal.challenge.unwrap_or_default();
    assert_eq!(refusal.status, 401);
    assert!(challenge.starts_with("DPoP error=\""), "{challenge}");
    assert!(challenge.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()), "{challenge}");
    assert!(serde_json::from_str::<Value>(&refusal.body).is_ok(), "{}", refusal.body);
    // The words of a refusal are shorter.
    let is_word = |it: char| it.is_ascii_alphanumeric() || "-_".contains(it);
    for word in text.split(|it| !is_word(it)).filter(|word| word.len() > 30) {
        assert!(!refusal.body.contains(word), "{}", refusal.body);
    }
}
