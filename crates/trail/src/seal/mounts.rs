//! Which file systems the recorded files lie on, from /proc/self/mountinfo (proc(5)).

use std::collections::{BTreeMap, BTreeSet};

/// The mounts of this machine, and which of them files were seen on.
pub struct Mounts {
    /// By mount point: the later of two on one point hides the earlier.
    mounts: BTreeMap<Vec<u8>, Mount>,
    seen: BTreeSet<Vec<u8>>,
}

#[derive(Debug, PartialEq, Eq)]
struct Mount {
    /// Major and minor number of the device.
    dev: String,
    /// File system type.
    kind: String,
    /// What is mounted: a device, a server's export.
    source: String,
    options: String,
}

impl Mounts {
    /// Those that this process sees.
    pub fn of_this_machine() -> Self {
        Self::parse(&std::fs::read("/proc/self/mountinfo").unwrap_or_default())
    }

    fn parse(text: &[u8]) -> Self {
        let mounts = text.split(|byte| *byte == b'\n').filter_map(|line| {
            // 36 35 98:0 /root /point rw,noatime optional… - ext4 /dev/root rw,errors=continue
            let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
            let dash = fields.iter().position(|field| *field == b"-")?;
            let text = |at: usize| Some(String::from_utf8_lossy(&unescape(fields.get(at)?)).into_owned());
            let mount =
                Mount { dev: text(2)?, kind: text(dash + 1)?, source: text(dash + 2)?, options: text(5)? };
            Some((unescape(fields.get(4)?), mount))
        });
        Self { mounts: mounts.collect(), seen: BTreeSet::new() }
    }

    /// Notes the mount that an absolute path lies on.
    pub fn note(&mut self, path: &[u8]) {
        if path.first() != Some(&b'/') {
            return;
        }
        let mut end = path.len();
        loop {
            let point = if end == 0 { b"/" } else { &path[..end] };
            if self.mounts.contains_key(point) {
                if !self.seen.contains(point) {
                    self.seen.insert(point.to_vec());
                }
                return;
            }
            match path[..end].iter().rposition(|byte| *byte == b'/') {
                Some(at) => end = at,
                None => return,
            }
        }
    }

    /// A fact `mount:POINT` for each mount seen, its value a JSON object.
    pub fn facts(&self) -> Vec<(String, Option<String>)> {
        let fact = |point: &Vec<u8>| {
            let Mount { dev, kind, source, options } = self.mounts.get(point)?;
            let value = serde_json::json!({"type": kind, "source": source, "dev": dev, "options": options});
            Some((format!("mount:{}", String::from_utf8_lossy(point)), Some(value.to_string())))
        };
        self.seen.iter().filter_map(fact).collect()
    }
}

/// Space, tab, newline and backslash stand as octal `\040`.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let octal = tail
            .get(..3)
            .filter(|_| *first == b'\\')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match octal {
            Some(byte) => {
                out.push(byte);
                rest = &tail[3..];
            }
            None => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_lies_on_the_innermost_mount() {
        let text = b"22 1 254:0 / / rw - ext4 /dev/vda rw\n\
            23 22 0:25 / /my\\040data rw,relatime shared:1 - xfs /dev/sdb rw\n\
            24 22 0:26 / /dev/shm rw - tmpfs tmpfs rw\nnonsense\n";
        let mut mounts = Mounts::parse(text);
        mounts.note(b"/my data/a/b");
        mounts.note(b"/my database");
        mounts.note(b"pipe:[1]");
        let facts = mounts.facts();
        let names: Vec<&str> = facts.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["mount:/", "mount:/my data"]);
        assert!(facts[1].1.as_ref().unwrap().contains("\"xfs\""));
    }

    #[test]
    fn this_machine_has_a_root() {
        let mut mounts = Mounts::of_this_machine();
        mounts.note(b"/");
        assert_eq!(mounts.facts().len(), 1);
    }
}
