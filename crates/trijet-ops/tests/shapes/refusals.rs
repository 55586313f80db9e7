//! Parameters, arrays and calls that operations refuse.

use trijet::{Device, Dtype, ErrorKind, Select};
use trijet_ops::{
    Bin, Binned, Clip, Convert, Crop, FlatField, Image, Operation, Project, Projection, Rescale,
    RowsOfCall, Threshold, Typed,
};

/// Demands that an operation refuses an array with words that contain `words`.
fn refuses(operation: &dyn Operation, array: &Typed, words: &str) {
    let error = operation.output(array).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidValue);
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn bad_parameters_are_refused_with_the_range_that_is_allowed() {
    let array = Typed::new(Dtype::F32, vec![2, 3]);
    let rescale = |from, to| Rescale { from, to, dtype: None };
    refuses(&rescale([1.0, 1.0], [0.0, 1.0]), &array, "choose finite values that rise");
    refuses(&rescale([f64::NAN, 1.0], [0.0, 1.0]), &array, "choose finite values that rise");
    refuses(&rescale([0.0, 1.0], [0.0, f64::INFINITY]), &array, "choose finite values");
    refuses(&rescale([-1e308, 1e308], [0.0, 1.0]), &array, "choose finite values");
    let range = Some([2.0, 1.0]);
    refuses(&Convert { to: Dtype::U8, range }, &array, "choose finite values that rise");
    refuses(&Clip { low: 2.0, high: 1.0 }, &array, "choose values that rise");
    refuses(&Clip { low: f64::NAN, high: 1.0 }, &array, "choose values that rise");
    refuses(&Threshold { above: f64::NAN, value: 1 }, &array, "choose a number");
    let image = || Image::new(Dtype::U8, [2, 2], &[0; 4]).unwrap();
    refuses(&FlatField::subtract(image()), &array, "2 x 2 pixels, and the images of the array");
    let infinite = FlatField::divide(image()).scale(f64::INFINITY);
    refuses(&infinite, &array, "choose a number");
    let error = Image::new(Dtype::U16, [2, 2], &[0; 4]).unwrap_err();
    assert!(error.to_string().contains("4 bytes are not 2 x 2 pixels"), "{error}");
}

#[test]
fn calls_with_other_rows_than_their_spans_are_refused() {
    let device = Device::open(Select::Auto).unwrap();
    let stream = device.stream().unwrap();
    let array = Typed::new(Dtype::U16, vec![4, 3]);
    let x = stream.upload(&[0_u8; 24]).unwrap();
    let mut y = stream.alloc::<u8>(12).unwrap();
    let convert = Convert { to: Dtype::U8, range: None };
    let mut refused = |x_rows, y_rows, words: &str| {
        let rows = RowsOfCall { x: x_rows, y: y_rows };
        let error = convert.enqueue(&stream, &array, &rows, x.view(), y.view_mut()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidValue);
        assert!(error.to_string().contains(words), "{error}");
    };
    refused(0..4, 0..3, "the output of the call has 12 bytes, and its 3 rows have 3 each");
    refused(0..3, 0..4, "the input of the call has 24 bytes, and its 3 rows have 6 each");
    refused(1..5, 0..4, "the input has 4 rows, and the call has rows 1..5 of it");
    let unaligned = x.slice(1..7);
    let rows = RowsOfCall { x: 0..1, y: 0..1 };
    let error = convert.enqueue(&stream, &array, &rows, unaligned, y.slice_mut(..3)).unwrap_err();
    assert!(error.to_string().contains("is not a multiple of 2"), "{error}");
    let rows = RowsOfCall { x: 0..1, y: 1..2 };
    let error = convert.enqueue(&stream, &array, &rows, x.slice(..6), y.slice_mut(..3));
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("rows 1..2 of the output need rows 1..2 of the input, not 0..1"),
        "{error}"
    );
}

#[test]
fn shapes_that_do_not_fit_are_refused_with_the_range_that_is_allowed() {
    let array = Typed::new(Dtype::U8, vec![3, 4, 5]);
    refuses(&Crop { y: 0..5, x: 0..5 }, &array, "`y` is 0..5; choose a range within 0..4");
    let turned = std::ops::Range { start: 3, end: 2 };
    refuses(&Crop { y: 0..4, x: turned }, &array, "`x` is 3..2; choose a range within 0..5");
    let bin = |by, how| Bin { by, how };
    refuses(&bin([1, 0, 1], Binned::Mean), &array, "the factor of the rows is 0; choose 1 to 4");
    refuses(&bin([4, 1, 1], Binned::Mean), &array, "the factor of the images is 4; choose 1 to 3");
    let large = Typed::new(Dtype::U16, vec![1 << 20, 1 << 20]);
    refuses(&bin([1, 512, 256], Binned::Sum), &large, "choose at most 65536 elements for a sum");
    refuses(
        &bin([1, 1 << 20, 1 << 20], Binned::Mean),
        &large,
        "choose at most 4294967295 elements",
    );
    let project = |axis| Project { axis, how: Projection::Max };
    refuses(&project(0), &array, "axis 0 would need the whole array for each row; read the array");
    refuses(&project(3), &array, "the axis is 3, and the array has 3; choose 1 to 2");
    refuses(&project(0), &Typed::new(Dtype::U8, vec![3]), "the array has one axis only");
    refuses(&project(1), &Typed::new(Dtype::U8, vec![]), "the array has no axes");
}

#[test]
fn rows_beyond_an_empty_output_are_refused() {
    let device = Device::open(Select::Auto).unwrap();
    let stream = device.stream().unwrap();
    let array = Typed::new(Dtype::U8, vec![0, 2, 0]);
    let x = stream.alloc::<u8>(0).unwrap();
    let mut y = stream.alloc::<u8>(0).unwrap();
    let operations: [&dyn Operation; 4] = [
        &Crop { y: 1..1, x: 0..0 },
        &Bin { by: [1, 1, 1], how: Binned::Mean },
        &Project { axis: 1, how: Projection::Max },
        &Convert { to: Dtype::F64, range: None },
    ];
    for operation in operations {
        let rows = RowsOfCall { x: 0..0, y: 0..1 };
        let error = operation.enqueue(&stream, &array, &rows, x.view(), y.view_mut());
        assert!(error.unwrap_err().to_string().contains("the output has 0 rows"), "{operation:?}");
    }
}
