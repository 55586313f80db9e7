//! The libraries of CUDA that the environment of a program names.

use libloading::Library;

/// Loads the library that a variable names.
pub(crate) fn library(variable: &str) -> Library {
    // SAFETY: the libraries of the tests have no initialisers that expect anything.
    unsafe { Library::new(std::env::var_os(variable).unwrap()) }.unwrap()
}

/// Initialises CUDA, which loads the tracing library.
pub(crate) fn initialise() {
    let driver = library("TRIJET_LIBCUDA");
    // SAFETY: the signature is the documented one.
    let init = unsafe { driver.get::<extern "C" fn(u32) -> i32>(b"cuInit") }.unwrap();
    assert_eq!(init(0), 0);
    std::mem::forget(driver);
}
