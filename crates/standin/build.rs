//! Names the library as programs that are linked with it ask for it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
        // Its own calls stay its own where another library is preloaded, as with NVIDIA's.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    }
}
