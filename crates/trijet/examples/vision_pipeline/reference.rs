//! A second implementation of the three stages, in double precision, from the definitions alone. It
//! shares no code with the kernels and their twins.

use crate::patches::{PER_PATCH, Patches, TOKENS, check_count};
use crate::texture::CHANNELS;
use std::cmp::Reverse;

/// Gray values from 0 to 1. Columns and rows beyond the edges have the values at the edges.
struct Gray<'a> {
    width: isize,
    height: isize,
    rgb: &'a [u8],
}

impl Gray<'_> {
    fn bytes(&self, x: isize, y: isize) -> [u32; 3] {
        let (x, y) = (x.clamp(0, self.width - 1), y.clamp(0, self.height - 1));
        let first = usize::try_from(3 * (y * self.width + x)).expect("clamped");
        [0, 1, 2].map(|colour| u32::from(self.rgb[first + colour]))
    }

    fn weighed(&self, x: isize, y: isize) -> u32 {
        let [r, g, b] = self.bytes(x, y);
        77 * r + 150 * g + 29 * b
    }

    fn at(&self, x: isize, y: isize) -> f64 {
        f64::from(self.weighed(x, y)) / 65_280.0
    }

    /// For x and for y, the difference of two opposite sides of the window. The middle of a side
    /// counts twice.
    fn sobel(&self, x: isize, y: isize) -> (f64, f64) {
        let sides = [(-1, 1.0), (0, 2.0), (1, 1.0)];
        let across = |by: isize| sides.iter().map(|(d, w)| w * self.at(x + by, y + d)).sum::<f64>();
        let along = |by: isize| sides.iter().map(|(d, w)| w * self.at(x + d, y + by)).sum::<f64>();
        ((across(1) - across(-1)) / 4.0, (along(1) - along(-1)) / 4.0)
    }

    fn deviation(&self, x: isize, y: isize) -> f64 {
        let window: Vec<f64> = (0..9).map(|i| self.at(x + i % 3 - 1, y + i / 3 - 1)).collect();
        let mean = window.iter().sum::<f64>() / 9.0;
        (window.iter().map(|gray| (gray - mean).powi(2)).sum::<f64>() / 9.0).sqrt()
    }

    fn lab(&self, x: isize, y: isize) -> [f64; 3] {
        let rgb = self.bytes(x, y).map(|byte| match f64::from(byte) / 255.0 {
            dark if dark <= 0.040_45 => dark / 12.92,
            light => ((light + 0.055) / 1.055).powf(2.4),
        });
        let matrix = [
            ([0.412_456_4, 0.357_576_1, 0.180_437_5], 0.950_47),
            ([0.212_672_9, 0.715_152_2, 0.072_175_0], 1.0),
            ([0.019_333_9, 0.119_192_0, 0.950_304_1], 1.088_83),
        ];
        let [x, y, z] = matrix.map(|(row, white)| {
            let light = row.iter().zip(rgb).map(|(weight, light)| weight * light).sum::<f64>();
            let edge: f64 = 6.0 / 29.0;
            match light / white {
                t if t > edge.powi(3) => t.cbrt(),
                t => t / (3.0 * edge * edge) + 4.0 / 29.0,
            }
        });
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }
}

/// The channels of each pixel.
pub(crate) fn texture(patches: Patches, rgb: &[u8]) -> Vec<[f64; CHANNELS]> {
    let [width, height] = [patches.width, patches.height].map(|side| side as usize);
    let gray = Gray { width: width.cast_signed(), height: height.cast_signed(), rgb };
    let pixel = |(x, y): (usize, usize)| {
        let across = (x as f64 + 0.5) / width as f64;
        let down = (y as f64 + 0.5) / height as f64;
        let (x, y) = (x.cast_signed(), y.cast_signed());
        let [r, g, b] = gray.bytes(x, y).map(|byte| f64::from(byte) / 255.0);
        let [light, a, blue] = gray.lab(x, y);
        let (sobel_x, sobel_y) = gray.sobel(x, y);
        let corner = 0.5_f64.hypot(0.5);
        [
            [r, g, b],
            [light / 100.0, a / 128.0, blue / 128.0],
            [sobel_x, sobel_y, sobel_x.hypot(sobel_y) / 2.0_f64.sqrt()],
            [across, down, (across - 0.5).hypot(down - 0.5) / corner],
        ]
        .concat()
        .into_iter()
        .chain([2.0 * gray.deviation(x, y)])
        .collect::<Vec<f64>>()
        .try_into()
        .expect("13 channels")
    };
    (0..height).flat_map(|y| (0..width).map(move |x| (x, y))).map(pixel).collect()
}

/// The scores of each patch.
pub(crate) fn scores(
    patches: Patches,
    rgb: &[u8],
    texture: &[[f64; CHANNELS]],
    query: &[f32],
) -> Vec<[f64; 3]> {
    let [width, side] = [patches.width, patches.side].map(|size| size as usize);
    let mut members: Vec<Vec<usize>> = Vec::new();
    for at in 0..texture.len() {
        let patch = at / width / side * width.div_ceil(side) + at % width / side;
        if members.len() <= patch {
            members.resize(patch + 1, Vec::new());
        }
        members[patch].push(at);
    }
    members.iter().map(|pixels| of_patch(pixels, rgb, texture, query)).collect()
}

fn of_patch(pixels: &[usize], rgb: &[u8], texture: &[[f64; CHANNELS]], query: &[f32]) -> [f64; 3] {
    let count = pixels.len() as f64;
    let mut classes = [0.0; 16];
    for at in pixels {
        let [r, g, b] = [0, 1, 2].map(|colour| usize::from(rgb[3 * at + colour]));
        classes[(77 * r + 150 * g + 29 * b) / 4096] += 1.0 / count;
    }
    let surprise = |share: &f64| if *share > 0.0 { -share * share.ln() } else { 0.0 };
    let entropy = classes.iter().map(surprise).sum::<f64>() / 16.0_f64.ln();
    let mean = |channel: usize| pixels.iter().map(|at| texture[*at][channel]).sum::<f64>() / count;
    let salience = (mean(8) + mean(12)) / 2.0 * (1.0 - mean(11) / 2.0);
    let query: Vec<f64> = query.iter().map(|number| f64::from(*number)).collect();
    let length = |numbers: &[f64]| numbers.iter().map(|number| number * number).sum::<f64>().sqrt();
    let means: Vec<f64> = (0..CHANNELS).map(mean).collect();
    let both: f64 = means.iter().zip(&query).map(|(mean, wanted)| mean * wanted).sum();
    let is_asked = length(&query) > 0.0;
    let cosine = if is_asked { both / length(&means) / length(&query) } else { 0.0 };
    [entropy, salience, f64::midpoint(1.0, cosine)]
}

/// The tokens of each patch, computed from its three scores.
///
/// # Errors
/// The number of patches does not fit the total number of tokens.
pub(crate) fn budgets(scores: &[[f32; 3]]) -> Result<Vec<u32>, String> {
    check_count(scores.len() as u64)?;
    let (least, room) =
        (u64::from(*PER_PATCH.start()), u64::from(PER_PATCH.end() - PER_PATCH.start()));
    let weights: Vec<u64> = scores.iter().map(|scores| weight(*scores)).collect();
    let mut heavy: Vec<usize> = (0..weights.len()).collect();
    heavy.sort_by_key(|patch| Reverse(weights[*patch]));

    // The heaviest patches get the maximum, as long as the share of the next patch is too large.
    let mut left = u64::from(TOKENS) - least * scores.len() as u64;
    let mut sum: u64 = weights.iter().sum();
    let mut tokens = vec![least; weights.len()];
    let mut others = heavy.as_slice();
    while let [next, rest @ ..] = others
        && weights[*next] * left > room * sum
    {
        tokens[*next] += room;
        (left, sum, others) = (left - room, sum - weights[*next], rest);
    }

    let mut others = others.to_vec();
    let mut spare = left;
    for patch in &others {
        let share = weights[*patch] * left / sum;
        tokens[*patch] += share;
        spare -= share;
    }
    others.sort_by_key(|patch| (Reverse(weights[*patch] * left % sum), *patch));
    others.iter().zip(0..spare).for_each(|(patch, _)| tokens[*patch] += 1);
    tokens.into_iter().map(|tokens| u32::try_from(tokens).map_err(|e| e.to_string())).collect()
}

/// The weight of a patch by its definition. In double precision every step is exact.
#[expect(clippy::cast_possible_truncation, reason = "a whole number below 2^18")]
#[expect(clippy::cast_sign_loss, reason = "a score is 0 to 1")]
fn weight(scores: [f32; 3]) -> u64 {
    let scaled = scores.map(|score| (f64::from(score) * 65_536.0).round_ties_even());
    let most = scaled.into_iter().fold(0.0, f64::max);
    let spread = most - scaled.into_iter().fold(most, f64::min);
    1 + (scaled.iter().sum::<f64>() * (1.0 - spread / 131_072.0)).floor() as u64
}
