//! `faultfs MOUNT`: controlled by lines on its input, each answered by one line on its output; it says `mounted` when
//! it is, and ends with its input. See `lib.rs` for the lines.

use std::io::{BufRead as _, Write as _};
use std::path::Path;

use iotrail_faultfs::Mounted;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args_os().nth(1).ok_or("usage: faultfs MOUNT")?;
    let mounted = Mounted::at(Path::new(&folder))?;
    let mut out = std::io::stdout();
    writeln!(out, "mounted")?;
    for line in std::io::stdin().lock().lines() {
        let answer = mounted.ask(&line?);
        writeln!(out, "{}", answer.unwrap_or_else(|| "not understood".to_owned()))?;
    }
    Ok(mounted.end()?)
}
