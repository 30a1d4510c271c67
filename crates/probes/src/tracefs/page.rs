//! Pages of the kernel's trace ring buffer, as trace_pipe_raw gives them: a header, then records, each a word
//! of type and time since the one before (include/linux/ring_buffer.h, kernel/trace/ring_buffer.c).

use super::format::{fields, little};

/// Where a page's header has what, from events/header_page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    commit: std::ops::Range<usize>,
    data: usize,
    /// Bytes of a page.
    pub size: usize,
}

// Flags in `commit` beside the length: RB_MISSED_EVENTS and RB_MISSED_STORED.
const LENGTH: u64 = (1 << 27) - 1;

const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
const DELTA_BITS: u32 = 27;
/// An absolute time has 59 bits; those above are the page's.
const STAMP_BITS: u32 = 59;

impl Layout {
    /// None if it isn't a header_page.
    pub fn parse(text: &str) -> Option<Layout> {
        let find = |wanted: &str| fields(text).find(|(name, _)| name == wanted).map(|(_, place)| place);
        let (commit, data) = (find("commit")?, find("data")?);
        Some(Layout { commit, data: data.start, size: data.end })
    }

    /// Gives each record's time and bytes, in their order. What isn't a page, or its broken rest, gives nothing.
    pub fn records(&self, page: &[u8], sink: &mut dyn FnMut(u64, &[u8])) -> Option<()> {
        let mut time = little(page.get(..8)?)?;
        let length = little(page.get(self.commit.clone())?)? & LENGTH;
        let mut rest = page.get(self.data..)?;
        rest = &rest[..rest.len().min(length as usize)];
        while !rest.is_empty() {
            let word = word(&mut rest)?;
            let (kind, delta) = (word & 31, u64::from(word >> 5));
            match kind {
                // The rest of the page, or a record that was taken back.
                PADDING if delta == 0 => return Some(()),
                PADDING => {
                    let length = u32::from_le_bytes(*rest.first_chunk()?) as usize;
                    rest = rest.get(length.max(4)..)?;
                }
                TIME_EXTEND => {
                    time = time.wrapping_add((u64::from(self::word(&mut rest)?) << DELTA_BITS) + delta)
                }
                TIME_STAMP => {
                    let stamp = (u64::from(self::word(&mut rest)?) << DELTA_BITS) + delta;
                    time = (time >> STAMP_BITS << STAMP_BITS) | stamp;
                }
                _ => {
                    // Long ones have their length, with itself, in a word of its own.
                    let length = match kind {
                        0 => (self::word(&mut rest)? as usize).checked_sub(4)?,
                        _ => kind as usize * 4,
                    };
                    time = time.wrapping_add(delta);
                    sink(time, rest.get(..length)?);
                    rest = rest.get(length.next_multiple_of(4)..)?;
                }
            }
        }
        Some(())
    }
}

fn word(rest: &mut &[u8]) -> Option<u32> {
    let (head, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(u32::from_le_bytes(*head))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

    fn layout() -> Layout {
        Layout { commit: 8..16, data: 16, size: 4096 }
    }

    /// A page of these words, with `flags` in its commit word.
    fn page(time: u64, flags: u64, words: &[u32]) -> Vec<u8> {
        let commit = (words.len() as u64 * 4) | flags;
        let mut page: Vec<u8> = [time, commit].iter().flat_map(|value| value.to_le_bytes()).collect();
        page.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        page.resize(4096, 0xee);
        page
    }

    fn records(page: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let mut found = Vec::new();
        layout().records(page, &mut |time, record| found.push((time, record.to_vec())));
        found
    }

    fn head(kind: u32, delta: u32) -> u32 {
        kind | delta << 5
    }

    #[test]
    fn header() {
        assert_eq!(Layout::parse(HEADER), Some(layout()));
        assert_eq!(Layout::parse("field: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"), None);
    }

    #[test]
    fn every_kind_of_record() {
        let words = [
            [head(1, 5), 0x0403_0201].as_slice(),
            &[head(TIME_EXTEND, 3), 2],
            &[head(0, 7), 4 + 6, 0x0403_0201, 0xeeee_0605],
            // Taken back: two words, itself included. Its time doesn't count.
            &[head(PADDING, 1), 8, 0xffff_ffff],
            &[head(TIME_STAMP, 9), 4],
            &[head(2, 1), 1, 2],
            &[head(PADDING, 0), 0xffff_ffff],
        ]
        .concat();
        let extended = 1000 + 5 + (2 << 27) + 3;
        let stamped = (4 << 27) + 9;
        assert_eq!(
            records(&page(1000, 1 << 31 | 1 << 30, &words)),
            [
                (1005, vec![1, 2, 3, 4]),
                (extended + 7, vec![1, 2, 3, 4, 5, 6]),
                (stamped + 1, vec![1, 0, 0, 0, 2, 0, 0, 0])
            ]
        );
    }

    #[test]
    fn a_stamp_keeps_the_bits_it_lacks() {
        let high = 3 << STAMP_BITS;
        let found = records(&page(high | 12, 0, &[head(TIME_STAMP, 9), 0, head(1, 1), 7]));
        assert_eq!(found, [(high | 10, vec![7, 0, 0, 0])]);
    }

    #[test]
    fn a_record_past_the_end_is_left_out() {
        assert_eq!(records(&page(0, 0, &[head(1, 1), 7, head(3, 1), 8])).len(), 1);
        assert_eq!(records(&[0; 12]).len(), 0);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read(words: Vec<u32>, time: u64) {
            let page = page(time, 0, &words[..words.len().min(1000)]);
            records(&page);
        }
    }
}
