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
