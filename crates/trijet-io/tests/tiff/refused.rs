//! Intact files that are refused, each by the name of what it has.

use super::demand::demand;
use super::{file, tags};
use std::fs;
use trijet::ErrorKind;
use trijet_io::Input;

const OME: &str = "<OME xmlns=\"x\"><Image><Pixels DimensionOrder=\"XYZCT\" SizeX=\"3\" SizeY=\"2\" \
                   SizeZ=\"1\" SizeC=\"1\" SizeT=\"1\"><TiffData><UUID FileName=\"b.tif\">u</UUID>\
                   </TiffData></Pixels></Image></OME>";

#[test]
fn pixels_that_are_not_read_are_named_with_a_line_that_converts_them() {
    let folder = tempfile::tempdir().unwrap();
    for (changes, description, words) in [
        (&[(259, 7)][..], "", "compressed with JPEG"),
        (&[(259, 33_003)], "", "compressed with JPEG 2000"),
        (&[(259, 34_712)], "", "compressed with JPEG 2000"),
        (&[(259, 4)], "", "compressed with CCITT Group 4"),
        (&[(259, 50_001)], "", "compressed with WebP"),
        (&[(259, 34_887)], "", "compressed with LERC"),
        (&[(259, 34_933)], "", "compressed with PNG"),
        (&[(259, 12_345)], "", "unknown compression 12345"),
        (&[(262, 3)], "", "indices of a palette"),
        (&[(262, 6), (277, 3)], "", "YCbCr"),
        (&[(258, 1)], "", "packed samples of 1 bits"),
        (&[(258, 12)], "", "packed samples of 12 bits"),
        (&[(258, 24)], "", "integers of 24 bits"),
        (&[(258, 64), (339, 6)], "", "complex numbers of 64 bits"),
        (&[(277, 3), (284, 3)], "", "PlanarConfiguration 3"),
        (&[(266, 2)], "", "reversed bits"),
        (&[(317, 2)], "", "a predictor, but no compression"),
        (&[(259, 8), (317, 3)], "", "predictor of floating-point numbers"),
        (&[(259, 8), (317, 9)], "", "predictor 9"),
        (&[], OME, "one of several files of an OME-TIFF set: its OME-XML names b.tif"),
        (&[], "<OME><BinaryOnly MetadataFile=\"all.ome\"/></OME>", "names all.ome"),
    ] {
        let path = folder.path().join("a.tif");
        let bytes = [file(&tags(changes), description), vec![0; 1000]].concat();
        fs::write(&path, bytes).unwrap();
        let line = "tifffile.imread('";
        demand(Input::open(&path, None), ErrorKind::InvalidValue, "a.tif", &[words, line]);
    }
}

#[test]
fn a_file_without_pixels_of_its_own_format_names_no_option_of_plain_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tif");
    fs::write(&path, [0; 100]).unwrap();
    demand(Input::open(&path, None), ErrorKind::Io, "a.tif", &["not a TIFF file"]);
}
