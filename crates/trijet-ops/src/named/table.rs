//! The table of operations that have a name.
#![forbid(unsafe_code)]

use super::entry::Named;
use super::{elements, filters, shapes};
use crate::pointwise::Swap;

/// The operations, in the order of the help.
pub static OPERATIONS: [Named; 19] = [
    Named {
        name: "median",
        help: "The median of the square of 2R+1 by 2R+1 pixels around each pixel, which removes \
               salt-and-pepper noise. The square stays within the pixel's own image, and EDGES sets \
               the pixels beyond the edges: the default, nearest, does the same as SciPy's \
               median_filter with mode='nearest'. With Z, the window also has Z images before and \
               after. median:3 has radius 3, and median:3,reflect has radius 3 and --edges reflect",
        parameters: &filters::WINDOW,
        files: &[],
        build: filters::median,
    },
    Named {
        name: "percentile",
        help: "The percentile of the window around each pixel, with the rank that SciPy's \
               percentile_filter takes. percentile:90,3 is the 90th percentile of 7 by 7 pixels",
        parameters: &filters::PERCENTILE,
        files: &[],
        build: filters::percentile,
    },
    Named {
        name: "rank",
        help: "The element of a rank in the window around each pixel; rank 0 is the smallest",
        parameters: &filters::RANK,
        files: &[],
        build: filters::rank,
    },
    Named {
        name: "gaussian",
        help: "SciPy's gaussian_filter with truncate=4, SIGMA in pixels below 7.875. With Z, also \
               along the images",
        parameters: &filters::GAUSSIAN,
        files: &[],
        build: filters::gaussian,
    },
    Named {
        name: "minimum",
        help: "The smallest element of the window around each pixel; the radius is at most 31",
        parameters: &filters::WINDOW,
        files: &[],
        build: filters::minimum,
    },
    Named {
        name: "maximum",
        help: "The largest element of the window around each pixel; the radius is at most 31",
        parameters: &filters::WINDOW,
        files: &[],
        build: filters::maximum,
    },
    Named {
        name: "background",
        help: "Subtracts the background, which is the maximum of the minimum of the window around \
               each pixel (an opening). Structures larger than the window are removed",
        parameters: &filters::WINDOW,
        files: &[],
        build: filters::background,
    },
    Named {
        name: "crop",
        help: "Keeps the rows Y and the columns X of each image; crop:100:900,50: has the rows 100 \
               to 899, and the columns from 50",
        parameters: &shapes::CROP,
        files: &[],
        build: shapes::crop,
    },
    Named {
        name: "bin",
        help: "One pixel for BY by BY pixels: their mean (HOW is mean), rounded to the type, or \
               their sum, in a wider type. With Z, also over Z images. A rest is dropped",
        parameters: &shapes::BIN,
        files: &[],
        build: shapes::bin,
    },
    Named {
        name: "project",
        help: "One value for all values along an axis, which the output lacks: HOW is max, min, \
               mean, sum or std. Axis 1 of a stack are the rows of an image, and axis 2 the columns. \
               With --axis 1, axis 1 are the images, so project:max is their maximum",
        parameters: &shapes::PROJECT,
        files: &[],
        build: shapes::project,
    },
    Named {
        name: "affine",
        help: "scale * x + offset: a product and a sum, each rounded; in f32 for elements \
               of at most 16 bits and f32, in f64 for the others. Integers are rounded to the \
               nearest, ties to even, and limited to the range of the type. affine:0.5,3 has scale \
               0.5 and offset 3",
        parameters: &elements::AFFINE,
        files: &[],
        build: elements::affine,
    },
    Named {
        name: "rescale",
        help: "Maps the values from LO..HI to TO_LO..TO_HI, and clips values outside. With TYPE, \
               the output has this element type. rescale:100,4095,0,255,u8 makes 8-bit images",
        parameters: &elements::RESCALE,
        files: &[],
        build: elements::rescale,
    },
    Named {
        name: "clip",
        help: "Limits the values to LOW..HIGH",
        parameters: &elements::CLIP,
        files: &[],
        build: elements::clip,
    },
    Named {
        name: "threshold",
        help: "VALUE where x is above ABOVE, and 0 elsewhere, as u8",
        parameters: &elements::THRESHOLD,
        files: &[],
        build: elements::threshold,
    },
    Named {
        name: "convert",
        help: "Converts the elements to another type. Floats are rounded to the nearest value, ties \
               to even; integers are limited to the range of the type, and NaN becomes 0. --to TYPE \
               is the same",
        parameters: &elements::CONVERT,
        files: &[],
        build: elements::convert,
    },
    Named {
        name: "flatfield",
        help: "scale * (x - dark) / (flat - dark), the correction of detectors, as f32. DARK and \
               FLAT are files with one image each; where the divisor is 0, the result is 0",
        parameters: &elements::FLAT_FIELD,
        files: &["dark", "flat"],
        build: elements::flat_field,
    },
    Named {
        name: "subtract",
        help: "x - image, as f32, for the one image in a file",
        parameters: &elements::IMAGE,
        files: &["image"],
        build: elements::subtract,
    },
    Named {
        name: "divide",
        help: "x / image, as f32, for the one image in a file; 0 where the image is 0",
        parameters: &elements::IMAGE,
        files: &["image"],
        build: elements::divide,
    },
    Named {
        name: "swap",
        help: "Reverses the bytes of each element",
        parameters: &[],
        files: &[],
        build: |_, _| Ok(Box::new(Swap)),
    },
];

#[cfg(test)]
mod tests {
    use super::super::text::OperationText;
    use super::super::values::refused;
    use super::*;

    /// A text of every operation, and the words that stand for it in reports.
    const TEXTS: [(&str, &str); 19] = [
        ("median", "median radius=1"),
        ("percentile:90,3", "percentile percent=90 radius=3"),
        ("rank:4", "rank rank=4 radius=1"),
        ("gaussian:1.5,reflect", "gaussian sigma=1.5 edges=reflect"),
        ("minimum:31", "minimum radius=31"),
        ("maximum:3,z=1", "maximum radius=3 z=1"),
        ("background:10", "background radius=10"),
        ("crop:10:20,:5", "crop y=10:20 x=:5"),
        ("bin:2,sum", "bin by=2 how=sum"),
        ("project:max", "project how=max axis=1"),
        ("affine:2", "affine scale=2 offset=0"),
        ("rescale:0,100,0,255,u8", "rescale lo=0 hi=100 to_lo=0 to_hi=255 type=u8"),
        ("clip:-1,1", "clip low=-1 high=1"),
        ("threshold:7", "threshold above=7 value=1"),
        ("convert:f32", "convert type=f32"),
        ("flatfield:d.npy,f.npy", "flatfield dark=d.npy flat=f.npy"),
        ("subtract:d.npy", "subtract image=d.npy"),
        ("divide:f.npy", "divide image=f.npy"),
        ("swap", "swap"),
    ];

    #[test]
    fn every_operation_has_a_text() {
        for named in &OPERATIONS {
            let (text, words) = TEXTS
                .into_iter()
                .find(|(text, _)| text.split(':').next() == Some(named.name))
                .unwrap_or_else(|| panic!("{} has no text in this test", named.name));
            let read = OperationText::parse(text).unwrap();
            assert_eq!((read.name(), read.words().as_str()), (named.name, words));
            assert_eq!(read.files().len(), named.files.len(), "{text}");
        }
    }

    #[test]
    fn a_wrong_text_is_answered_with_the_form() {
        for (text, words) in [
            ("affine:x", "affine:SCALE,OFFSET"),
            ("affine:inf", "a finite number"),
            ("rescale:5,5,0,1", "above LO"),
            ("clip:2,1", "at least LOW"),
            ("convert:i128", "unknown dtype `i128`"),
            ("threshold", "`above` is missing"),
            ("median:0", "at least 1"),
            ("median:8", "radius"),
            ("gaussian:9", "less than 7.875"),
            ("crop:1-2", "a range such as 10:20"),
            ("bin:2,median", "mean or sum"),
            ("project:median", "max, min, mean, sum or std"),
            ("swap:1", "`1` is one parameter too many"),
            ("median3", "there is no operation `median3`; use one of median, percentile"),
        ] {
            let found = OperationText::parse(text).unwrap_err().to_string();
            assert!(found.contains(words), "{text}: {found}");
        }
        let no_image = OperationText::parse("subtract:gone.npy").unwrap();
        let gone = no_image.build(&|name| Err(refused("subtract", format!("no {name}"))));
        assert!(gone.unwrap_err().to_string().contains("no gone.npy"));
    }
}
