//! Paths as files are named by ([`crate::ids::FileId`]).

/// A path in a directory, without `.`, `..` and empty parts. Where the directory isn't known the path stays as it is.
#[must_use]
pub fn absolute(directory: &[u8], path: &[u8]) -> Vec<u8> {
    if path.starts_with(b"/") || !directory.starts_with(b"/") {
        normal(path)
    } else {
        normal(&[directory, b"/", path].concat())
    }
}

/// Whether a name that a recorder or another tool gives to an open descriptor is that of a file, and not of a pipe,
/// socket or other channel: `pipe:[4711]`, `socket:[4712]`, `anon_inode:[eventfd]` (proc(5)), `TCP:[…]` (strace -yy).
/// `sql/io/activity.sql` draws the same line.
#[must_use]
pub fn is_file_name(name: &[u8]) -> bool {
    if name.starts_with(b"/") {
        return true;
    }
    let bracketed = name.ends_with(b"]") && name.windows(2).any(|pair| pair == b":[");
    !bracketed && !name.starts_with(b"anon_inode:")
}

/// A path without `.`, `..` and empty parts, by its letters alone, as a recorder has it. An empty one stays empty.
fn normal(path: &[u8]) -> Vec<u8> {
    let mut whole: Vec<u8> = Vec::with_capacity(path.len());
    let root = path.starts_with(b"/");
    let mut kept: Vec<&[u8]> = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." if kept.last().is_some_and(|last| *last != b"..") => {
                kept.pop();
            }
            b".." if root => {}
            _ => kept.push(part),
        }
    }
    for part in kept {
        if root || !whole.is_empty() {
            whole.push(b'/');
        }
        whole.extend_from_slice(part);
    }
    if whole.is_empty() && !path.is_empty() {
        whole.push(if root { b'/' } else { b'.' });
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_no_files() {
        for name in ["/a", "/a:[1]", "data.bin", "sda", "a]", "a:b", ""] {
            assert!(is_file_name(name.as_bytes()), "{name}");
        }
        for name in
            ["pipe:[4711]", "socket:[1]", "anon_inode:[eventpoll]", "anon_inode:inotify", "TCP:[a:1->b:2]"]
        {
            assert!(!is_file_name(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn paths_are_normal() {
        for (path, expected) in [
            ("/a/./b//c/", "/a/b/c"),
            ("//a", "/a"),
            ("/../..", "/"),
            ("/a/../../b", "/b"),
            ("a/../..", ".."),
            ("../../a", "../../a"),
            ("./", "."),
            ("", ""),
            ("/", "/"),
        ] {
            assert_eq!(normal(path.as_bytes()), expected.as_bytes(), "{path}");
        }
    }

    #[test]
    fn paths_are_completed_where_their_directory_is_known() {
        assert_eq!(absolute(b"/a", b"../b"), b"/b");
        assert_eq!(absolute(b"/a", b"/b"), b"/b");
        assert_eq!(absolute(b"", b"./b"), b"b");
    }
}
