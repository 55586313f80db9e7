//! Tests budgets with scores that images seldom have: all equal, one patch with the largest budget,
//! many patches with the maximum, and scores halfway between two whole numbers. For some numbers of
//! patches, no budget has the right total. This is an error of the launch, of the reference, and of
//! an image.

use crate::budgets::BUDGETS;
use crate::common::{Outcome, sample, verify};
use crate::patches::Patches;
use crate::reference;
use trijet::{Device, ErrorKind, Stream};

const SCORES: [fn(usize) -> f32; 4] = [
    |_| 0.0,
    |i| if i / 3 == 5 { 1.0 } else { 0.0 },
    |i| 1.0 / (1 + i / 3) as f32,
    |i| (sample(389 * i) % 8.0 + 0.5) / 65_536.0,
];

pub(crate) fn try_all(device: &Device) -> Outcome<()> {
    let s = device.stream()?;
    for patches in [1, 10, 11, 12, 13, 16, 40, 63, 64, 65, 500] {
        for (number, score) in SCORES.into_iter().enumerate() {
            let scores: Vec<f32> = (0..3 * patches).map(score).collect();
            let triples: Vec<[f32; 3]> =
                (0..patches).map(|i| [0, 1, 2].map(|k| scores[3 * i + k])).collect();
            let wanted = reference::budgets(&triples).ok();
            let what = format!("tokens of {patches} patches, scores {number}");
            verify(&what, &[on_device(&s, &scores)?], |_| wanted.clone())?;
            let is_possible = (11..=64).contains(&patches);
            verify(&format!("{what}: are there any"), &[wanted.is_some()], |_| is_possible)?;
        }
    }
    verify("is an image of 3 x 3 pixels refused", &[Patches::of(3, 3).is_err()], |_| true)
}

/// The tokens from the device; `None` if the launch is refused.
fn on_device(s: &Stream, scores: &[f32]) -> trijet::Result<Option<Vec<u32>>> {
    let scores = s.upload(scores)?;
    let mut tokens = s.alloc(scores.len() / 3)?;
    match s.launch(&BUDGETS, (&scores, &mut tokens)) {
        Err(error) if error.kind() == ErrorKind::InvalidValue => Ok(None),
        launched => launched.and_then(|()| s.download(&tokens)).map(Some),
    }
}
