//! Random damage to a request: truncation, bit flips, lost bytes, inserted fragments.

use corelane_base::random::Random;

/// Damages `request` up to three times. `pieces` are fragments that its parser recognizes.
pub fn damage(random: &mut Random, request: &mut Vec<u8>, pieces: &[&[u8]]) {
    for _ in 0..=random.below(3) {
        let at = random.below(request.len());
        match random.below(4) {
            0 => request.truncate(at + 1),
            1 => request[at] = request[at].wrapping_add(1 << random.below(8)),
            2 => drop(request.remove(at)),
            _ => {
                let piece = pieces[random.below(pieces.len())];
                request.splice(at..at, piece.iter().copied());
            }
        }
        if request.is_empty() {
            return;
        }
    }
}
