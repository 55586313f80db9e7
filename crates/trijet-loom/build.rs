//! Sets the flag under which `atomic.rs` takes loom's atomics.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cfg=loom");
}
