//! The patches of an image. The number of patches must fit the total number of tokens.

use std::ops::RangeInclusive;

/// The total number of tokens of an image.
pub(crate) const TOKENS: u32 = 4096;
/// The minimum and the maximum number of tokens of a patch.
pub(crate) const PER_PATCH: RangeInclusive<u32> = 64..=400;

/// The division of an image into square patches, row by row. Patches at the right and lower edges
/// may be smaller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patches {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) side: u32,
}

impl Patches {
    /// Maximum side of a patch. A kernel counts the pixels of a patch in 32 bits.
    const SIDE_MAX: u32 = 1 << 15;

    /// Chooses the smallest patches whose number is not too large.
    ///
    /// # Errors
    /// The image has too few or too many pixels.
    pub(crate) fn of(width: u32, height: u32) -> Result<Self, String> {
        let cut = |side| Self { width, height, side };
        let most = u64::from(TOKENS / PER_PATCH.start());
        let sides = (4..=Self::SIDE_MAX).step_by(4).map(cut);
        let chosen = sides.into_iter().find(|cut| cut.count() <= most);
        let chosen = chosen.ok_or_else(|| format!("{width} x {height} pixels are too many"))?;
        chosen.check().map(|()| chosen)
    }

    pub(crate) fn columns(self) -> u32 {
        self.width.div_ceil(self.side)
    }

    pub(crate) fn count(self) -> u64 {
        u64::from(self.columns()) * u64::from(self.height.div_ceil(self.side))
    }

    /// The ranges of columns and of rows of patch `index`.
    pub(crate) fn pixels(self, index: usize) -> [std::ops::Range<usize>; 2] {
        let (side, columns) = (self.side as usize, self.columns() as usize);
        let part = |at: usize, size: u32| at * side..((at + 1) * side).min(size as usize);
        [part(index % columns, self.width), part(index / columns, self.height)]
    }

    /// # Errors
    /// There are no pixels, or the side of a patch is 0 or too large; the errors of
    /// [`check_count`].
    pub(crate) fn check(self) -> Result<(), String> {
        let Self { width, height, side } = self;
        if width == 0 || height == 0 || !(1..=Self::SIDE_MAX).contains(&side) {
            return Err(format!("{width} x {height} pixels in squares of {side}"));
        }
        check_count(self.count()).map_err(|why| format!("{width} x {height} pixels: {why}"))
    }
}

/// # Errors
/// There are too few patches for all tokens, or too many for the minimum of each.
pub(crate) fn check_count(patches: u64) -> Result<(), String> {
    let (least, most) =
        (patches * u64::from(*PER_PATCH.start()), patches * u64::from(*PER_PATCH.end()));
    if (least..=most).contains(&u64::from(TOKENS)) {
        return Ok(());
    }
    Err(format!("{patches} patches have {least} to {most} tokens, and {TOKENS} are to be shared"))
}
