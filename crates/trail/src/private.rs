//! What iotrail keeps of recordings is its owner's alone, whatever the umask: it tells names of files and what programs
//! did.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Makes a folder that only its owner may look into, if it isn't there; those above it as the umask says.
///
/// # Errors
/// The system's.
pub fn make_folder(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Options to make a file that only its owner may read and write.
#[must_use]
pub fn writing() -> OpenOptions {
    let mut options = File::options();
    options.write(true).mode(0o600);
    options
}
