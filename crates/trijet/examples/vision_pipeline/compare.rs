//! The results of the device compared with the reference.
//!
//! The device computes in single precision. Each tolerance is an upper bound for the rounding
//! errors of the definition, in units of 2^-24, half of the last digit of 1. The errors of `powf`,
//! `cbrtf` and `log2f` come from the CUDA C++ Programming Guide. The budgets must be equal.

use crate::patches::{PER_PATCH, Patches, TOKENS};
use crate::reference;
use crate::texture::CHANNELS;

/// The tolerance of each channel. Integer arithmetic leaves at most four roundings. Colours have
/// about 24 roundings before the cube root, and the cube root leaves a third of the error. For a*,
/// the difference of two such values is multiplied by 500 / 128.
const CHANNEL: [f64; CHANNELS] =
    [4.0, 4.0, 4.0, 16.0, 80.0, 36.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0];
/// The tolerance of each score: 16 terms of an entropy; three means of exact channels; an angle
/// between means. The means of a* and b* have the errors above. The vector of the means is at least
/// 0.57 long, because of the channels of the pixel's position.
const SCORE: [f64; 3] = [16.0, 32.0, 120.0];
const UNIT: f64 = 1.0 / 16_777_216.0;

/// The values that the device computed for an image.
pub(crate) struct Computed<'a> {
    pub(crate) texture: &'a [f32],
    pub(crate) scores: &'a [f32],
    pub(crate) tokens: &'a [u32],
}

/// The largest errors of the channels and of the scores of an image, as parts of the tolerances.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Used {
    pub(crate) channels: f64,
    pub(crate) scores: f64,
}

impl Used {
    pub(crate) fn max(self, other: Self) -> Self {
        let channels = self.channels.max(other.channels);
        Self { channels, scores: self.scores.max(other.scores) }
    }
}

/// # Errors
/// The first value that differs.
pub(crate) fn compare(
    patches: Patches,
    rgb: &[u8],
    query: &[f32],
    computed: &Computed<'_>,
) -> Result<Used, String> {
    let texture = reference::texture(patches, rgb);
    let scores = reference::scores(patches, rgb, &texture, query);
    let plane = texture.len();
    let channels: Vec<f64> = (0..CHANNELS * plane).map(|i| texture[i % plane][i / plane]).collect();
    let used = Used {
        channels: largest("channel", computed.texture, &channels, |i| CHANNEL[i / plane])?,
        scores: largest("score", computed.scores, scores.as_flattened(), |i| SCORE[i % 3])?,
    };
    let found: Vec<[f32; 3]> =
        computed.scores.chunks_exact(3).map(|s| [s[0], s[1], s[2]]).collect();
    let tokens = reference::budgets(&found)?;
    if tokens != computed.tokens {
        return Err(format!("tokens {:?}, not {tokens:?}", computed.tokens));
    }
    let is_allowed = tokens.iter().all(|tokens| PER_PATCH.contains(tokens));
    if !is_allowed || tokens.iter().sum::<u32>() != TOKENS {
        return Err(format!(
            "the tokens {tokens:?} are not {TOKENS} in all, or not {PER_PATCH:?} each"
        ));
    }
    Ok(used)
}

/// The largest difference between `got` and `want`, as a part of the tolerance.
fn largest(
    what: &str,
    got: &[f32],
    want: &[f64],
    tolerance: impl Fn(usize) -> f64,
) -> Result<f64, String> {
    if got.len() != want.len() {
        return Err(format!("{} values, not {}: {what}", got.len(), want.len()));
    }
    let mut largest = 0.0_f64;
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let part = (f64::from(*got) - want).abs() / (tolerance(i) * UNIT);
        if part.is_nan() || part > 1.0 {
            return Err(format!("{what} {i} is {got}, not {want}"));
        }
        largest = largest.max(part);
    }
    Ok(largest)
}
