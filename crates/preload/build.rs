//! Links the unwinder statically: std needs it, and loading libgcc_s.so.1 into every recorded
//! process would cost each start about a tenth of a millisecond.
//!
//! No frame that calls out may hold a landing pad (a value with a destructor): a cancelled thread is
//! unwound by the host's unwinder, whose state this copy doesn't share. Optimised builds have none;
//! tests/capture cancels threads to hold it so, and unoptimised builds are not for use.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Libraries preloaded after this one are initialised before it: only so is what their constructors
    // do recorded (ld(1), -z initfirst).
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,initfirst");
    let found = Command::new("cc").arg("-print-file-name=libgcc_eh.a").output();
    let path =
        found.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    // Where the compiler has none (it then prints the bare name), the shared one serves.
    if let Some(folder) = Path::new(&path).parent().filter(|folder| folder.is_absolute()) {
        println!("cargo:rustc-link-search=native={}", folder.display());
        println!("cargo:rustc-link-lib=static:+whole-archive=gcc_eh");
    }
}
