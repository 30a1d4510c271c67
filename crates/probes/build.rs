//! Compiles the eBPF programs in bpf/ with clang. Where clang or libbpf's headers are missing, the crate
//! builds without them and says so when recording starts: tracefs then serves.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rustc-check-cfg=cfg(ebpf)");
    println!("cargo:rerun-if-env-changed=CLANG");
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    if let Some(missing) = missing(&clang) {
        println!("cargo:warning=no {missing}: built without eBPF programs (Debian: clang, libbpf-dev)");
        return;
    }
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets OUT_DIR")).join("programs.o");
    let done = Command::new(&clang)
        .args(["-target", "bpf", "-mcpu=v3", "-g", "-O2", "-Wall", "-Werror", "-D__TARGET_ARCH_x86"])
        .args(INCLUDE)
        .args(["-c", "bpf/programs.c", "-o"])
        .arg(&out)
        .status()
        .expect("clang ran a moment ago");
    assert!(done.success(), "{clang} could not compile bpf/programs.c; its messages are above");
    println!("cargo:rustc-cfg=ebpf");
}

/// Debian keeps asm/types.h, which linux/bpf.h includes, in a folder of the architecture.
const INCLUDE: [&str; 2] = ["-idirafter", "/usr/include/x86_64-linux-gnu"];

/// What is needed to compile and isn't there.
fn missing(clang: &str) -> Option<&str> {
    if Command::new(clang).arg("--version").output().is_err() {
        return Some(clang);
    }
    ["linux/bpf.h", "bpf/bpf_helpers.h"].into_iter().find(|header| {
        let found = Command::new(clang)
            .args([
                "-target",
                "bpf",
                "-E",
                "-x",
                "c",
                "/dev/null",
                "-include",
                "linux/types.h",
                "-include",
                header,
            ])
            .args(INCLUDE)
            .output();
        !found.is_ok_and(|output| output.status.success())
    })
}
