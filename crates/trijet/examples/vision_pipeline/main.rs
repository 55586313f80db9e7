//! The images of a folder pass through three stages: the texture of an image, scores of its
//! patches, and a budget of tokens for each patch.
//!
//! Decoding runs on a pool of threads. Each stage has its own stream, and memory of exactly the
//! size that the image needs. So image n is in one stage while n - 1 and n - 2 are in the stages
//! after it. The program records no event: the waits between the streams follow from the buffers. A
//! host stage compares every result with a reference in double precision.
//!
//! `vision_pipeline host check FOLDER` processes the PNG files of a folder. With `plain` instead of
//! `check`, there is no checker. Without a folder, the program draws images of several sizes.

#[path = "../common/mod.rs"]
mod common;

mod budgets;
mod cases;
mod compare;
mod images;
mod patches;
mod reference;
mod scores;
mod texture;

use budgets::BUDGETS;
use common::{Outcome, run, verify};
use compare::{Computed, Used, compare};
use patches::Patches;
use scores::SCORES;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use texture::{CHANNELS, TEXTURE};
use trijet::staged::Staged;
use trijet::{Device, Error, ErrorKind, PinnedBuffer, Result};

/// An image, and its query.
struct Image {
    patches: Patches,
    rgb: PinnedBuffer<u8>,
    query: PinnedBuffer<f32>,
}

/// The results that the device computed for an image.
struct Downloaded {
    texture: PinnedBuffer<f32>,
    scores: PinnedBuffer<f32>,
    tokens: PinnedBuffer<u32>,
}

fn refused(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidValue, "decode", format!("{}: {why}", path.display()))
}

fn decode(device: &Device, number: u64, path: &Path) -> Result<Image> {
    let (width, height, pixels) = images::decode(path).map_err(|error| refused(path, error))?;
    let patches = Patches::of(width, height).map_err(|why| refused(path, why))?;
    let mut rgb = device.pinned(pixels.len())?;
    rgb.write()?.copy_from_slice(&pixels);
    let mut query = device.pinned(CHANNELS)?;
    let number = usize::try_from(number).map_err(|error| refused(path, error))?;
    query.write()?.copy_from_slice(&images::query(number));
    Ok(Image { patches, rgb, query })
}

fn judge(image: &Image, down: &Downloaded) -> Result<Used> {
    let (texture, scores, tokens) =
        (down.texture.read()?, down.scores.read()?, down.tokens.read()?);
    let computed = Computed { texture: &texture, scores: &scores, tokens: &tokens };
    compare(image.patches, &image.rgb.read()?, &image.query.read()?, &computed)
        .map_err(|why| Error::new(ErrorKind::InvalidValue, "compare", why))
}

/// Sends each image through the stages. Returns, for each image, how much of the tolerances its
/// values used.
fn process(device: &Device, paths: &[PathBuf]) -> Result<Vec<Used>> {
    let mut staged = Staged::<PathBuf>::on(device);
    let path = staged.item();
    let image = staged.host_stage("decode", path, |number, path| decode(device, number, path));
    let input = staged.stage("upload", image, |s, image| {
        let (mut rgb, mut query) = (s.alloc(image.rgb.len())?, s.alloc(image.query.len())?);
        s.copy(&image.rgb, &mut rgb)?;
        s.copy(&image.query, &mut query)?;
        Ok((image.patches, rgb, query))
    });
    let texture = staged.stage("texture", input, |s, (patches, rgb, _)| {
        let mut texture = s.alloc::<f32>(CHANNELS * rgb.len() / 3)?;
        s.launch(&TEXTURE, (patches.width, patches.height, rgb, &mut texture))?;
        Ok(texture)
    });
    let scores = staged.stage("scores", (input, texture), |s, ((patches, _, query), texture)| {
        let Patches { width, height, side } = *patches;
        let mut scores = s.alloc::<f32>(3 * usize::try_from(patches.count()).unwrap_or(0))?;
        s.launch(&SCORES, (width, height, side, texture, query, &mut scores))?;
        Ok(scores)
    });
    let tokens = staged.stage("budgets", scores, |s, scores| {
        let mut tokens = s.alloc::<u32>(scores.len() / 3)?;
        s.launch(&BUDGETS, (scores, &mut tokens))?;
        Ok(tokens)
    });
    let values = (texture, scores, tokens);
    let down = staged.stage("download", values, |s, (texture, scores, tokens)| {
        let mut down = Downloaded {
            texture: device.pinned(texture.len())?,
            scores: device.pinned(scores.len())?,
            tokens: device.pinned(tokens.len())?,
        };
        s.copy(texture, &mut down.texture)?;
        s.copy(scores, &mut down.scores)?;
        s.copy(tokens, &mut down.tokens)?;
        Ok(down)
    });
    let judged = staged.host_stage("compare", (image, down), |_, (image, down)| judge(image, down));
    let mut used = Vec::new();
    staged.run(paths.iter().cloned().map(Ok), judged, |one| {
        used.push(*one);
        Ok(())
    })?;
    Ok(used)
}

fn example(device: &Device) -> Outcome<String> {
    cases::try_all(device)?;
    let drawn = tempfile::tempdir()?;
    let folder = match std::env::args_os().nth(3) {
        Some(given) => PathBuf::from(given),
        None => {
            images::draw(drawn.path())?;
            drawn.path().to_owned()
        }
    };
    let paths = images::of_folder(&folder)?;
    if paths.is_empty() {
        return Err(format!("{} has no .png file", folder.display()).into());
    }
    let used = process(device, &paths)?;
    verify("images", &[used.len()], |_| paths.len())?;
    let most = used.into_iter().fold(Used::default(), Used::max);
    let (channels, scores) = (100.0 * most.channels, 100.0 * most.scores);
    Ok(format!(
        "{} images, {} tokens each; channels used {channels:.0} % of their tolerances, scores {scores:.0} %",
        paths.len(),
        patches::TOKENS,
    ))
}

fn main() -> ExitCode {
    run(example)
}
