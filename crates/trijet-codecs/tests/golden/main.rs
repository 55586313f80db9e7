//! Blocks that other libraries encoded: each one decodes to its elements, and damaged ones are
//! refused.

mod cases;
mod chains;
mod damage;

use cases::Case;
use trijet_codecs::Scratch;

#[test]
fn blocks_of_other_libraries_decode_to_their_elements() {
    let mut scratch = Scratch::default();
    let all = cases::all();
    assert!(all.len() > 100, "{} cases", all.len());
    for Case { name, chain, elements, stored } in all {
        let mut decoded = vec![0xaa; elements.len()];
        chain
            .decode(&stored, 0, &mut decoded, &mut scratch)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(decoded == elements, "{name}: other elements");
    }
}
