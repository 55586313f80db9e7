//! Stage 2: three scores of each patch, from 0 to 1.
//!
//! - *Propositional*, the information in the patch: the Shannon entropy of the gray values in 16
//!   classes of equal width, divided by its maximum of 4 bits. The gray values are computed from
//!   the bytes, which can be restored exactly from the channels R, G and B. So no rounding moves a
//!   pixel to another class.
//! - *Perspectival*, the contrast of the patch: half the sum of the mean gradient and the mean
//!   local contrast, times `1 - e / 2`, where `e` is the mean eccentricity.
//! - *Participatory*, the similarity to the query: `(1 + cos) / 2`, with the angle between the
//!   means of the 13 channels and the query, a vector of 13 numbers. A query of zeros scores one
//!   half.

use crate::patches::Patches;
use crate::texture::CHANNELS;
use trijet::kernels::{
    ArgBlock, Code, Cost, Exactness, KernelSpec, Read, Shape, Tile, Twin, Write,
};
use trijet::{Error, ErrorKind, Kernel, LaunchConfig, Result};

/// The width, the height, the side of a patch, the texture, the query, and the scores.
type Params = (u32, u32, u32, Read<f32>, Read<f32>, Write<f32>);

/// `scores(width, height, side, texture, query, out)`.
pub(crate) static SCORES: Kernel<Params> = {
    let code = Code::source(include_str!("scores.cu"));
    let twin = Twin { tile_elements: |_| 3, run, cost };
    let spec = KernelSpec::new("scores", code, Shape::Computed(shape)).check(check).twin(twin);
    // `log2f` and the order of sums differ between devices. The tolerance is relative to 1.
    let spec = spec.exactness(Exactness::Relative(1e-5));
    // SAFETY: `scores` takes (u32, u32, u32, const float*, u64, const float*, u64, float*, u64). It
    // has one block for each patch, by `shape`. The blocks read every channel and the 13 numbers of
    // the query, and write 3 floats each; `check` refuses spans of other lengths and sides that
    // overflow.
    unsafe { Kernel::declare(spec) }
};

fn patches(args: &ArgBlock) -> Patches {
    let [width, height, side] = [0, 1, 2].map(|index| args.scalar::<u32>(index));
    Patches { width, height, side }
}

fn check(args: &ArgBlock) -> std::result::Result<(), String> {
    let patches = patches(args);
    patches.check()?;
    let pixels = u128::from(patches.width) * u128::from(patches.height);
    let found = [0, 1, 2].map(|span| u128::from(args.spans()[span].elements));
    let channels = CHANNELS as u128;
    let needed = [channels * pixels, channels, 3 * u128::from(patches.count())];
    if found == needed { Ok(()) } else { Err(format!("{found:?} elements, not {needed:?}")) }
}

fn shape(args: &ArgBlock) -> Result<LaunchConfig> {
    let blocks = u32::try_from(patches(args).count())
        .map_err(|error| Error::new(ErrorKind::InvalidValue, "launch", error.to_string()))?;
    Ok(LaunchConfig::new([blocks, 1, 1], [256, 1, 1]))
}

fn cost(args: &ArgBlock) -> Cost {
    Cost { bytes: args.spans()[0].bytes(), ops: 6 * args.spans()[0].elements }
}

/// Computes the scores of one patch, which is a tile.
fn run(tile: &mut Tile<'_>) {
    let [width, height, side] = [0, 1, 2].map(|index| tile.scalar::<u32>(index));
    let patches = Patches { width, height, side };
    let (texture, query) = (tile.read::<f32>(3), tile.read::<f32>(5));
    let (classes, means) = summed(patches, tile.first / 3, texture);
    let pixels: u32 = classes.iter().sum();
    let mut entropy = 0.0_f32;
    for share in classes.map(|count| count as f32 / pixels as f32) {
        entropy -= if share > 0.0 { share * share.log2() } else { 0.0 };
    }
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    let wanted = dot(query, query);
    let lengths = dot(&means, &means).sqrt() * wanted.sqrt();
    let cosine = if wanted > 0.0 { dot(&means, query) / lengths } else { 0.0 };
    let salience = 0.5 * (means[8] + means[12]) * (1.0 - 0.5 * means[11]);
    let scores = [entropy / 4.0, salience, 0.5 + 0.5 * cosine];
    tile.write::<f32>(7).copy_from_slice(&scores.map(|score| score.clamp(0.0, 1.0)));
}

/// The number of pixels of a patch in each class of gray, and the means of the channels.
fn summed(patches: Patches, index: usize, texture: &[f32]) -> ([u32; 16], [f32; CHANNELS]) {
    let plane = texture.len() / CHANNELS;
    let (mut classes, mut sum, mut lost) = ([0; 16], [0.0_f32; CHANNELS], [0.0_f32; CHANNELS]);
    let [columns, rows] = patches.pixels(index);
    for at in rows.flat_map(|y| columns.clone().map(move |x| y * patches.width as usize + x)) {
        for c in 0..CHANNELS {
            let value = texture[c * plane + at] - lost[c];
            let next = sum[c] + value;
            lost[c] = (next - sum[c]) - value;
            sum[c] = next;
        }
        let gray: f32 = [77.0, 150.0, 29.0]
            .iter()
            .zip([0, plane, 2 * plane])
            .map(|(weight, channel)| weight * (255.0 * texture[channel + at]).round_ties_even())
            .sum();
        classes[class(gray)] += 1;
    }
    let pixels: u32 = classes.iter().sum();
    (classes, sum.map(|sum| sum / pixels as f32))
}

/// The class of a gray value, a whole number below 65536.
fn class(gray: f32) -> usize {
    (1..16_u16).filter(|class| gray >= 4096.0 * f32::from(*class)).count()
}
