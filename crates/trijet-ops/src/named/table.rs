//! The table of operations that have a name.
#![forbid(unsafe_code)]

use super::values::{Parameter, Values, minor, needed, or};
use super::{LoadImage, Named};
use crate::operation::Operation;
use crate::pointwise::{Affine, Clip, Convert, FlatField, Rescale, Swap, Threshold};
use trijet::Result;

/// The operations, in the order of the help.
pub static OPERATIONS: [Named; 9] = [
    Named {
        name: "affine",
        help: "scale * x + offset, rounded after the product and after the sum: in f32 for elements \
               of at most 16 bits and f32, in f64 for the others. Integers are rounded to the \
               nearest, ties to even, and limited to the range of the type. affine:0.5,3 has scale \
               0.5 and offset 3",
        parameters: &AFFINE,
        files: &[],
        build: affine,
    },
    Named {
        name: "rescale",
        help: "Maps the values from LO..HI to TO_LO..TO_HI, and clips values outside. With TYPE, \
               the output has this element type. rescale:100,4095,0,255,u8 makes 8-bit images",
        parameters: &RESCALE,
        files: &[],
        build: rescale,
    },
    Named {
        name: "clip",
        help: "Limits the values to LOW..HIGH",
        parameters: &CLIP,
        files: &[],
        build: clip,
    },
    Named {
        name: "threshold",
        help: "VALUE where x is above ABOVE, and 0 elsewhere, as u8",
        parameters: &THRESHOLD,
        files: &[],
        build: threshold,
    },
    Named {
        name: "convert",
        help: "Converts the elements to another type. Floats are rounded to the nearest value, ties \
               to even; integers are limited to the range of the type, and NaN becomes 0. --to TYPE \
               is the same",
        parameters: &CONVERT,
        files: &[],
        build: convert,
    },
    Named {
        name: "flatfield",
        help: "scale * (x - dark) / (flat - dark), the correction of detectors, as f32. DARK and \
               FLAT are files with one image each; where the divisor is 0, the result is 0",
        parameters: &FLAT_FIELD,
        files: &["dark", "flat"],
        build: flat_field,
    },
    Named {
        name: "subtract",
        help: "x - image, as f32, for the one image in a file",
        parameters: &IMAGE,
        files: &["image"],
        build: subtract,
    },
    Named {
        name: "divide",
        help: "x / image, as f32, for the one image in a file; 0 where the image is 0",
        parameters: &IMAGE,
        files: &["image"],
        build: divide,
    },
    Named {
        name: "swap",
        help: "Reverses the bytes of each element",
        parameters: &[],
        files: &[],
        build: |_, _| Ok(Box::new(Swap)),
    },
];

const AFFINE: [Parameter; 2] = [or("scale", "1"), or("offset", "0")];

fn affine(values: &Values, _: LoadImage<'_>) -> Result<Box<dyn Operation>> {
    let (scale, offset) = (values.number("scale")?, values.number("offset")?);
    Ok(Box::new(Affine { scale, offset }))
}

const RESCALE: [Parameter; 5] =
    [needed("lo"), needed("hi"), needed("to_lo"), needed("to_hi"), minor("type", "")];

fn rescale(values: &Values, _: LoadImage<'_>) -> Result<Box<dyn Operation>> {
    let from = [values.number("lo")?, values.number("hi")?];
    let to = [values.number("to_lo")?, values.number("to_hi")?];
    if from[0] >= from[1] {
        return Err(values.wrong("hi", "above LO"));
    }
    let dtype = match values.text("type") {
        "" => None,
        _ => Some(values.dtype("type")?),
    };
    Ok(Box::new(Rescale { from, to, dtype }))
}

const CLIP: [Parameter; 2] = [needed("low"), needed("high")];

fn clip(values: &Values, _: LoadImage<'_>) -> Result<Box<dyn Operation>> {
    let (low, high) = (values.number("low")?, values.number("high")?);
    if low > high {
        return Err(values.wrong("high", "at least LOW"));
    }
    Ok(Box::new(Clip { low, high }))
}

const THRESHOLD: [Parameter; 2] = [needed("above"), or("value", "1")];

fn threshold(values: &Values, _: LoadImage<'_>) -> Result<Box<dyn Operation>> {
    let (above, value) = (values.number("above")?, values.integer("value")?);
    Ok(Box::new(Threshold { above, value }))
}

const CONVERT: [Parameter; 1] = [needed("type")];

fn convert(values: &Values, _: LoadImage<'_>) -> Result<Box<dyn Operation>> {
    Ok(Box::new(Convert { to: values.dtype("type")?, range: None }))
}

const FLAT_FIELD: [Parameter; 3] = [needed("dark"), needed("flat"), minor("scale", "1")];

fn flat_field(values: &Values, load: LoadImage<'_>) -> Result<Box<dyn Operation>> {
    let scale = values.number("scale")?;
    let (dark, flat) = (load(values.text("dark"))?, load(values.text("flat"))?);
    Ok(Box::new(FlatField::new(dark, flat).scale(scale)))
}

const IMAGE: [Parameter; 1] = [needed("image")];

fn subtract(values: &Values, load: LoadImage<'_>) -> Result<Box<dyn Operation>> {
    Ok(Box::new(FlatField::subtract(load(values.text("image"))?)))
}

fn divide(values: &Values, load: LoadImage<'_>) -> Result<Box<dyn Operation>> {
    Ok(Box::new(FlatField::divide(load(values.text("image"))?)))
}

#[cfg(test)]
mod tests {
    use super::super::OperationText;
    use super::super::values::refused;
    use super::*;

    /// A text of every operation, and the words that stand for it in reports.
    const TEXTS: [(&str, &str); 9] = [
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
            ("swap:1", "`1` is one parameter too many"),
            ("median3", "there is no operation `median3`; use one of affine"),
        ] {
            let found = OperationText::parse(text).unwrap_err().to_string();
            assert!(found.contains(words), "{text}: {found}");
        }
        let no_image = OperationText::parse("subtract:gone.npy").unwrap();
        let gone = no_image.build(&|name| Err(refused("subtract", format!("no {name}"))));
        assert!(gone.unwrap_err().to_string().contains("no gone.npy"));
    }
}
