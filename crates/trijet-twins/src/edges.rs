//! How an image is continued beyond its edges. The names and the definitions come from
//! `scipy.ndimage`.
#![forbid(unsafe_code)]

use std::fmt;

/// How an image is continued beyond its edges, in both directions. `abcd` is a row or a column of
/// the image. If a side is shorter than a window, the image continues further in the same way.
///
/// | | before, the image, after |
/// |---|---|
/// | `Nearest` | `a a a` `a b c d` `d d d` |
/// | `Reflect` | `c b a` `a b c d` `d c b` |
/// | `Mirror` | `d c b` `a b c d` `c b a` |
/// | `Constant` | `0 0 0` `a b c d` `0 0 0` |
/// | `Wrap` | `b c d` `a b c d` `a b c` |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Edges {
    /// The pixel at the edge is repeated.
    #[default]
    Nearest,
    /// The image is reflected at its edge; the pixel at the edge occurs twice.
    Reflect,
    /// The image is reflected at the middle of its edge pixel, and this pixel occurs once.
    Mirror,
    /// The image is surrounded by zeros.
    Constant,
    /// The image is repeated. A window that leaves the image needs all rows of the image.
    Wrap,
}

/// The name in `scipy.ndimage`.
impl fmt::Display for Edges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nearest => "nearest",
            Self::Reflect => "reflect",
            Self::Mirror => "mirror",
            Self::Constant => "constant",
            Self::Wrap => "wrap",
        })
    }
}

impl Edges {
    /// All variants, in the order of their numbers.
    pub const ALL: [Self; 5] =
        [Self::Nearest, Self::Reflect, Self::Mirror, Self::Constant, Self::Wrap];

    /// The number in the kernel `median.cu` of trijet.
    #[must_use]
    pub fn number(self) -> u32 {
        self as u32
    }

    /// The variant with this number; `None` if no variant has this number.
    #[must_use]
    pub fn numbered(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|edges| edges.number() == number)
    }

    /// The index of the pixel that is used at `position`, in a line of `length` pixels. `position`
    /// is counted from the first pixel, and may lie outside the line. `None` stands for a zero.
    ///
    /// ```
    /// use trijet_twins::Edges;
    /// assert_eq!(Edges::Reflect.at(-2, 10), Some(1));
    /// assert_eq!(Edges::Constant.at(-2, 10), None);
    /// ```
    #[must_use]
    pub fn at(self, position: i64, length: i64) -> Option<u64> {
        if (0..length).contains(&position) {
            return Some(position.cast_unsigned());
        }
        let at = match self {
            Self::Nearest => position.clamp(0, length - 1),
            Self::Constant => return None,
            Self::Reflect => {
                let at = position.rem_euclid(2 * length);
                at.min(2 * length - 1 - at)
            }
            Self::Mirror => {
                let period = (2 * length - 2).max(1);
                let at = position.rem_euclid(period);
                at.min(period - at)
            }
            Self::Wrap => position.rem_euclid(length),
        };
        Some(at.cast_unsigned())
    }
}
