//! One record of the log, as bytes.
//!
//! ```text
//!  0        4          8      12            16
//!  +--------+----------+------+-------------+-------------+--------+-------------------+
//!  | length | sum of   | kind | sum of the  | length of   | about  | Arrow IPC stream  |
//!  |        | the rest |      | 12 before   | about: 4    |        | of one batch      |
//!  +--------+----------+------+-------------+-------------+--------+-------------------+
//!                                           |<------------- length ------------------->|
//! ```
//!
//! Integers are little-endian, sums CRC-32; `about` is a protobuf message, so that it can grow. The head has a sum of
//! its own: where only the rest is damaged, the records behind it are still found.

use std::io::{self, ErrorKind, Read};

use bytes::{Buf as _, Bytes};
use prost::Message;

/// Bytes of the head.
const HEAD: usize = 16;

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The numbers that were taken before this segment: the first record of each.
    Numbers,
    /// Rows as they were accepted.
    Rows,
    /// Rows that a seal left out because they wait: they count if that seal was published.
    Waiting,
}

impl Kind {
    fn of(number: u32) -> Option<Self> {
        [Self::Numbers, Self::Rows, Self::Waiting].into_iter().find(|kind| *kind as u32 == number)
    }
}

/// What a record of rows is about.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct About {
    /// The sender's name for its numbering; empty if it has none.
    #[prost(string, tag = "1")]
    pub agent: String,
    /// Number of the message.
    #[prost(uint64, optional, tag = "2")]
    pub number: Option<u64>,
    /// Table.
    #[prost(string, tag = "3")]
    pub table: String,
    /// Whether its rows may come again.
    #[prost(bool, tag = "4")]
    pub repeats: bool,
    /// When they came, ns since the epoch.
    #[prost(int64, tag = "5")]
    pub since: i64,
    /// Of waiting rows, the last segment of the seal that left them out.
    #[prost(uint64, tag = "6")]
    pub through: u64,
}

/// The highest number taken, of each sender and table.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Numbers {
    /// One each.
    #[prost(message, repeated, tag = "1")]
    pub taken: Vec<Taken>,
}

/// One of [`Numbers`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Taken {
    /// Sender.
    #[prost(string, tag = "1")]
    pub agent: String,
    /// Table.
    #[prost(string, tag = "2")]
    pub table: String,
    /// Number.
    #[prost(uint64, tag = "3")]
    pub number: u64,
    /// When it was heard last, ns since the epoch.
    #[prost(int64, tag = "4")]
    pub heard: i64,
}

/// Adds a record to a buffer.
pub fn append(buffer: &mut Vec<u8>, kind: Kind, about: &impl Message, ipc: &[Bytes]) {
    let start = buffer.len();
    buffer.resize(start + HEAD, 0);
    buffer.extend_from_slice(&(about.encoded_len() as u32).to_le_bytes());
    about.encode(buffer).expect("a Vec has room");
    ipc.iter().for_each(|bytes| buffer.extend_from_slice(bytes));
    let rest = &buffer[start + HEAD..];
    let words = [rest.len() as u32, crc32fast::hash(rest), kind as u32];
    for (at, word) in words.into_iter().enumerate() {
        buffer[start + 4 * at..][..4].copy_from_slice(&word.to_le_bytes());
    }
    let sum = crc32fast::hash(&buffer[start..start + 12]);
    buffer[start + 12..start + HEAD].copy_from_slice(&sum.to_le_bytes());
}

/// What stands next in a segment.
#[derive(Debug)]
pub enum Next {
    /// A record: what it is about, not decoded yet, and its IPC stream.
    Record(Kind, Bytes, Bytes),
    /// A record that is damaged; what follows may be sound.
    Damaged,
    /// What follows can't be read, so many bytes: it is cut off, or its head is damaged.
    Torn(u64),
    /// The end.
    End,
}

/// Reads the next record; `left` are the bytes to the end of the segment.
///
/// # Errors
/// What the system says; never because of what the bytes are.
pub fn next(from: &mut impl Read, left: &mut u64) -> io::Result<Next> {
    if *left == 0 {
        return Ok(Next::End);
    }
    let torn = Next::Torn(*left);
    let mut head = [0; HEAD];
    if *left < HEAD as u64 || !filled(from, &mut head)? {
        *left = 0;
        return Ok(torn);
    }
    *left -= HEAD as u64;
    let word = |at: usize| u32::from_le_bytes(head[4 * at..][..4].try_into().expect("4 bytes"));
    if word(3) != crc32fast::hash(&head[..12]) || u64::from(word(0)) > *left {
        *left = 0;
        return Ok(torn);
    }
    let mut rest = vec![0; word(0) as usize];
    if !filled(from, &mut rest)? {
        *left = 0;
        return Ok(torn);
    }
    *left -= rest.len() as u64;
    let mut rest = Bytes::from(rest);
    let sound = crc32fast::hash(&rest) == word(1);
    Ok(match (Kind::of(word(2)), sound && rest.len() >= 4) {
        (Some(kind), true) => {
            let about = rest.get_u32_le() as usize;
            if about > rest.len() {
                return Ok(Next::Damaged);
            }
            Next::Record(kind, rest.split_to(about), rest)
        }
        _ => Next::Damaged,
    })
}

/// Fills the buffer; false if there is less.
fn filled(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn log(sizes: &[usize]) -> (Vec<u8>, Vec<usize>) {
        let mut bytes = Vec::new();
        let mut ends = Vec::new();
        for (at, size) in sizes.iter().enumerate() {
            let about = About { agent: "a".into(), number: Some(at as u64), ..About::default() };
            append(&mut bytes, Kind::Rows, &about, &[vec![at as u8; *size].into()]);
            ends.push(bytes.len());
        }
        (bytes, ends)
    }

    /// The numbers of the sound records, and whether all was sound.
    fn read(bytes: &[u8]) -> (Vec<u64>, bool) {
        let (mut numbers, mut whole) = (Vec::new(), true);
        let (mut from, mut left) = (bytes, bytes.len() as u64);
        loop {
            match next(&mut from, &mut left).expect("memory can be read") {
                Next::Record(_, about, ipc) => {
                    let about = About::decode(about).expect("what a sum covers is sound");
                    assert!(ipc.iter().all(|byte| u64::from(*byte) == about.number.unwrap_or(0)));
                    numbers.extend(about.number);
                }
                Next::Damaged | Next::Torn(_) => whole = false,
                Next::End => return (numbers, whole),
            }
        }
    }

    proptest! {
        /// Cut at any byte: what was whole before it is there, and nothing else.
        #[test]
        fn a_cut_loses_only_what_it_cuts(sizes in prop::collection::vec(0_usize..40, 1..6)) {
            let (bytes, ends) = log(&sizes);
            for cut in 0..=bytes.len() {
                let whole = ends.iter().filter(|end| **end <= cut).count() as u64;
                let (numbers, sound) = read(&bytes[..cut]);
                prop_assert_eq!(numbers, (0..whole).collect::<Vec<_>>());
                prop_assert_eq!(sound, cut == 0 || ends.contains(&cut));
            }
        }

        /// A bit flipped anywhere: records before it are there; those behind too, unless the head was hit.
        #[test]
        fn a_flip_loses_one_record_or_the_rest(sizes in prop::collection::vec(0_usize..40, 1..6), bit in 0_u8..8) {
            let (bytes, ends) = log(&sizes);
            for at in 0..bytes.len() {
                let mut bytes = bytes.clone();
                bytes[at] ^= 1 << bit;
                let hit = ends.iter().position(|end| at < *end).expect("it lies in a record");
                let start = hit.checked_sub(1).map_or(0, |before| ends[before]);
                let (numbers, sound) = read(&bytes);
                prop_assert!(!sound);
                let all = 0..sizes.len() as u64;
                let expected: Vec<u64> = if at - start < HEAD {
                    (0..hit as u64).collect()
                } else {
                    all.filter(|number| *number != hit as u64).collect()
                };
                prop_assert_eq!(numbers, expected);
            }
        }
    }
}
