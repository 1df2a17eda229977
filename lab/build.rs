//! Links LevelDB from the system's packages (Debian: `libleveldb-dev`, `libsnappy-dev`). It links
//! the static archive, as the shared library hides the symbols for reading tables without mmap
//! (`src/peers/leveldbs.rs`).

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_ENGINES").is_none() {
        return;
    }
    // The directory in the compiler's search path; the name alone if it is missing.
    let found = Command::new("cc").arg("-print-file-name=libleveldb.a").output();
    let found = found.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let found = found.unwrap_or_default();
    match Path::new(&found).parent().filter(|directory| directory.is_absolute()) {
        Some(directory) => println!("cargo:rustc-link-search=native={}", directory.display()),
        None => {
            println!("cargo:warning=LevelDB is not there: install libleveldb-dev and libsnappy-dev")
        }
    }
    println!("cargo:rustc-link-lib=static=leveldb");
    println!("cargo:rustc-link-lib=snappy");
    println!("cargo:rustc-link-lib=stdc++");
}
