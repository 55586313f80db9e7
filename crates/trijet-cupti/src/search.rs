//! The files that may be a library of CUDA: files of the system, of a toolkit, and of the wheels of
//! a Python environment.

use std::path::PathBuf;

/// The names under which a library is searched.
#[derive(Debug, Clone, Copy)]
pub struct Names {
    /// The environment variable that names the file of the library. If the variable is set, there
    /// is no search.
    pub variable: &'static str,
    /// The file names of the library. Names with a version come first.
    pub files: &'static [&'static str],
    /// The folders of the library below the folder of a toolkit.
    pub toolkit: &'static [&'static str],
    /// The folders of the library's Python wheels, below a `site-packages` folder.
    pub wheels: &'static [&'static str],
}

/// The names of CUPTI.
pub const CUPTI: Names = Names {
    variable: "TRIJET_LIBCUPTI",
    files: &["libcupti.so.13", "libcupti.so.12", "libcupti.so"],
    toolkit: &["lib64", "extras/CUPTI/lib64"],
    wheels: &["nvidia/cu13/lib", "nvidia/cuda_cupti/lib"],
};

/// The names of the Compute Sanitizer API.
pub const SANITIZER: Names = Names {
    variable: "TRIJET_LIBSANITIZER",
    files: &["libsanitizer-public.so"],
    toolkit: &["compute-sanitizer", "extras/compute-sanitizer", "extras/Sanitizer"],
    wheels: &["nvidia/cu13/compute-sanitizer", "nvidia/cu13/lib", "nvidia/cuda_sanitizer_api/lib"],
};

/// The names of the driver.
pub const DRIVER: Names = Names {
    variable: "TRIJET_LIBCUDA",
    files: &["libcuda.so.1", "libcuda.so"],
    toolkit: &["lib64"],
    wheels: &[],
};

impl Names {
    /// The files to try, in the order of the result. If the environment names a file, this file is
    /// the only one. Otherwise the files are, in this order: file names without a folder for the
    /// loader, files in the folder of the toolkit, and files in the wheels of the active Python
    /// environment.
    #[must_use]
    pub fn candidates(&self) -> Vec<PathBuf> {
        if let Some(file) = std::env::var_os(self.variable) {
            return vec![file.into()];
        }
        let mut found: Vec<PathBuf> = self.files.iter().map(PathBuf::from).collect();
        let toolkit = std::env::var_os("CUDA_HOME").map_or("/usr/local/cuda".into(), PathBuf::from);
        for name in self.files {
            found.extend(self.toolkit.iter().map(|folder| toolkit.join(folder).join(name)));
        }
        for site in site_packages() {
            for folder in self.wheels {
                found.extend(self.files.iter().map(|name| site.join(folder).join(name)));
            }
        }
        found.retain(|path| path.components().count() == 1 || path.exists());
        found
    }
}

/// The `site-packages` folders of the active virtual environment.
fn site_packages() -> Vec<PathBuf> {
    let Some(root) = std::env::var_os("VIRTUAL_ENV") else { return Vec::new() };
    let Ok(versions) = std::fs::read_dir(PathBuf::from(root).join("lib")) else {
        return Vec::new();
    };
    versions.flatten().map(|entry| entry.path().join("site-packages")).collect()
}
