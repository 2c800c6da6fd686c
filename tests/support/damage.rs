//! Requests damaged by chance: cut short, a bit turned, a byte lost, a piece of another put in.

use corelane::base::random::Random;

/// Damages a request up to three times; `pieces` mean something to its reader.
pub(crate) fn damage(random: &mut Random, request: &mut Vec<u8>, pieces: &[&[u8]]) {
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
