//! The fuzz targets of this crate, over their seeds and mutations of them. The modules are the
//! bodies of the targets in `fuzz/`, which `cargo xtask fuzz` runs under libFuzzer.

mod arrays;
mod claims;
mod images;
mod journal;
mod npy;
#[path = "../../../../fuzz/replay.rs"]
mod replay;
mod tiff;
mod workdir;
mod zarr;

use replay::replay;

#[test]
fn any_bytes_are_an_npy_file_or_refused() {
    replay("npy", 4000, npy::check);
}

#[test]
fn any_bytes_are_a_folder_of_images_or_refused() {
    replay("images", 4000, images::check);
}

#[test]
fn any_bytes_are_a_journal_or_refused() {
    replay("journal", 4000, journal::check);
}

#[test]
fn any_file_in_a_folder_of_claims_is_read_or_refused() {
    replay("claims", 4000, claims::check);
}

#[test]
fn any_bytes_are_a_tiff_file_or_refused() {
    replay("tiff", 4000, tiff::check);
}

#[test]
fn any_bytes_are_an_hdf5_file_or_refused() {
    replay("hdf5", 4000, arrays::check_hdf5);
}

#[test]
fn any_bytes_are_an_mrc_file_or_refused() {
    replay("mrc", 4000, arrays::check_mrc);
}

#[test]
fn any_bytes_are_a_nifti_file_or_refused() {
    replay("nifti", 4000, arrays::check_nifti);
}

#[test]
fn any_bytes_are_an_npz_file_or_refused() {
    replay("npz", 4000, arrays::check_npz);
}

#[test]
fn any_bytes_are_a_zarr_array_or_refused() {
    replay("zarr", 4000, zarr::check);
}
