//! Cuts an answer into the objects of the one list it holds, while it comes.
//!
//! Each object of such a list begins with the same key, so `{"description":"` begins a request of a history and
//! nothing else: inside a string the quotes would stand behind backslashes, and in front of a string there is no
//! brace that belongs to it. So objects are found by a search for a few bytes, at memory's speed, and only new ones
//! are parsed. What a daemon prints otherwise than compactly is not found, which [`Splitter::found`] tells.
//!
//! Constraints: of an answer at most one object and one read are held.

use memchr::memmem::Finder;

/// Most bytes of one object: one longer is passed over.
const LONGEST: usize = 1 << 20;

/// Cuts one answer after the other.
pub struct Splitter {
    begin: Finder<'static>,
    /// What in front of the buffer's end was searched.
    searched: usize,
    /// Whether an object has begun at the buffer's start.
    inside: bool,
    /// Whether the object at the start is being passed over.
    passing: bool,
    found: u64,
    passed: u64,
}

impl Splitter {
    /// One for lists whose objects begin with some bytes.
    #[must_use]
    pub fn new(begin: &'static str) -> Self {
        Self { begin: Finder::new(begin), searched: 0, inside: false, passing: false, found: 0, passed: 0 }
    }

    /// Gives each object that is complete in `body` to `take`, with what follows it, and removes it.
    /// `last`: nothing follows `body`.
    pub fn split(&mut self, body: &mut Vec<u8>, last: bool, mut take: impl FnMut(&[u8])) {
        let needle = self.begin.needle().len();
        let mut start = 0;
        let mut from = self.searched;
        while let Some(at) = self.begin.find(&body[from..]).map(|at| from + at) {
            self.end(&body[start..at], &mut take);
            self.inside = true;
            start = at;
            from = at + needle;
        }
        if last {
            self.end(&body[start..], &mut take);
            body.clear();
            self.searched = 0;
            return;
        }
        // The last bytes may be the first ones of what is searched for.
        let keep = (needle - 1).min(body.len());
        if self.inside && body.len() - start <= LONGEST {
            body.drain(..start);
        } else {
            self.passing |= self.inside;
            self.inside = false;
            let end = (body.len() - keep).max(from);
            body.drain(..end);
        }
        // Not within what was found, which would be found again.
        self.searched =
            if self.inside { (body.len().max(keep) - keep).max(needle.min(body.len())) } else { 0 };
    }

    fn end(&mut self, object: &[u8], take: &mut impl FnMut(&[u8])) {
        if self.inside {
            self.found += 1;
            take(object);
        } else if self.passing {
            self.found += 1;
            self.passed += 1;
        }
        self.inside = false;
        self.passing = false;
    }

    /// Objects in the answer, the ones that were too long with them, and how many those are; begins anew.
    pub fn finish(&mut self) -> (u64, u64) {
        let result = (self.found, self.passed);
        (self.searched, self.inside, self.passing, self.found, self.passed) = (0, false, false, 0, 0);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BEGIN: &str = "{\"description\":\"";

    fn objects(chunks: &[&[u8]]) -> (Vec<Vec<u8>>, (u64, u64)) {
        let mut splitter = Splitter::new(BEGIN);
        let mut body = Vec::new();
        let mut all = Vec::new();
        for (i, chunk) in chunks.iter().enumerate() {
            body.extend_from_slice(chunk);
            splitter.split(&mut body, i + 1 == chunks.len(), |object| all.push(object.to_vec()));
        }
        (all, splitter.finish())
    }

    #[test]
    fn a_list_cut_at_each_byte() {
        let text = br#"{"size":2,"ops":[{"description":"a{\"description\":\"}","x":[{"event":"{"}]},{"description":"b\\","x":1},{"description":"","y":{}}]}"#;
        for at in 0..=text.len() {
            let (all, (found, passed)) = objects(&[&text[..at], &text[at..]]);
            let all: Vec<String> = all.into_iter().map(|o| String::from_utf8(o).expect("text")).collect();
            assert_eq!((found, passed), (3, 0), "cut at {at}");
            assert_eq!(all[1], r#"{"description":"b\\","x":1},"#);
            assert_eq!(all[2], r#"{"description":"","y":{}}]}"#);
        }
        assert_eq!(objects(&[br#"{"ops":[]}"#]).1, (0, 0));
    }

    #[test]
    fn an_endless_object_is_passed_over() {
        let mut chunks: Vec<Vec<u8>> = vec![br#"[{"description":"a"},{"description":"long "#.to_vec()];
        chunks.extend((0..40).map(|_| vec![b'x'; 100_000]));
        chunks.push(br#""},{"description":"b"}]"#.to_vec());
        let mut splitter = Splitter::new(BEGIN);
        let (mut body, mut all, mut held) = (Vec::new(), Vec::new(), 0);
        for (i, chunk) in chunks.iter().enumerate() {
            body.extend_from_slice(chunk);
            splitter.split(&mut body, i + 1 == chunks.len(), |object| all.push(object.to_vec()));
            held = held.max(body.len());
        }
        assert_eq!(splitter.finish(), (3, 1));
        assert_eq!(all.len(), 2);
        assert!(held <= LONGEST + 100_000, "{held}");
    }

    proptest! {
        #[test]
        fn as_a_parser_cuts(
            descriptions in proptest::collection::vec("[ -~\n\"\\\\{}]{0,30}", 0..8),
            cuts in proptest::collection::vec(0_usize..400, 0..6),
        ) {
            #[derive(serde::Serialize, serde::Deserialize, PartialEq, Debug)]
            struct Object { description: String, more: Vec<String> }
            #[derive(serde::Serialize)]
            struct All { size: u64, ops: Vec<Object> }
            let object = |d: &String| Object { description: d.clone(), more: vec![d.clone(), "{".into()] };
            let text = serde_json::to_vec(&All { size: 7, ops: descriptions.iter().map(object).collect() }).expect("JSON");
            let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|w| &text[w[0]..w[1]]).collect();
            let (all, (found, passed)) = objects(&chunks);
            prop_assert_eq!((found, passed), (descriptions.len() as u64, 0));
            for (bytes, description) in all.iter().zip(&descriptions) {
                let mut parsed = serde_json::Deserializer::from_slice(bytes);
                let parsed: Object = serde::Deserialize::deserialize(&mut parsed).expect("an object");
                prop_assert_eq!(parsed, object(description));
            }
        }
    }
}
