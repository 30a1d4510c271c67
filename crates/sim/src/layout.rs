//! Where the blocks of files lie on a device, and where they would lie one after the other.
//!
//! What is known is a list of [`Extent`]s. A part of a file counts as lying where it was seen first; fragments and moves
//! follow from that. The new places: every file becomes one piece, in the order of its blocks; what requests used outside of
//! all files is a piece for each stretch. Pieces go in the order of their first places, each to its first place or as close
//! behind it as the pieces before leave room, so that nothing moves farther than it must and no two things share a place.
//! The idea is that of Delimitrou et al., "Accurate Modeling and Generation of Storage I/O for Datacenter Workloads", §5.2.

use std::collections::HashMap;

use crate::ranges::{Linear, Ranges};

/// A part of a file on a device. Offsets and lengths are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte on the device.
    pub pos: u64,
    /// Bytes, not 0.
    pub length: u64,
    /// Number of the file.
    pub file: i64,
    /// First byte in the file.
    pub file_pos: u64,
}

/// Whose a byte of the device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owner {
    file: usize,
    file_pos: u64,
}

impl Linear for Owner {
    fn after(self, bytes: u64) -> Self {
        Self { file_pos: self.file_pos + bytes, ..self }
    }
}

/// A file as far as it is known.
struct File {
    id: i64,
    /// Where each part was first, by the offset in the file.
    places: Ranges<u64>,
    /// Offset of each part in the file's piece, by the offset in the file.
    inside: Ranges<u64>,
    /// Where the piece goes.
    start: u64,
}

/// A part of a file: where it is in its piece and on the device, and its bytes.
struct Part {
    inside: u64,
    place: u64,
    length: u64,
}

impl File {
    /// Its known parts, in order.
    fn parts(&self) -> impl Iterator<Item = Part> {
        self.places.all().map(|(at, length, place)| Part {
            inside: self.inside.pieces(at, length)[0].2.unwrap_or_default(),
            place,
            length,
        })
    }
}

/// How scattered a file lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragments {
    /// Number of the file.
    pub file: i64,
    /// Stretches that follow each other in the file, but not on the device: 1 if it isn't fragmented. At least so many,
    /// where parts of the file are not known.
    pub fragments: u64,
    /// Bytes whose place is known.
    pub bytes: u64,
}

/// A stretch of bytes that goes elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// First byte of where it is.
    pub from: u64,
    /// First byte of where it goes.
    pub to: u64,
    /// Bytes.
    pub length: u64,
}

/// The parts of a file of which only the order is known in which they were first used: each follows the one before.
#[derive(Default)]
pub struct Uses {
    /// Offset in the file of each place.
    known: Ranges<u64>,
    bytes: u64,
}

impl Uses {
    /// The extents of some bytes of the device that the file uses.
    pub fn extents(&mut self, file: i64, pos: u64, length: u64) -> Vec<Extent> {
        let mut extents = Vec::new();
        for (pos, length, known) in self.known.pieces(pos, length) {
            let file_pos = known.unwrap_or(self.bytes);
            if known.is_none() {
                self.known.fill(pos, length, file_pos);
                self.bytes += length;
            }
            extents.push(Extent { pos, length, file, file_pos });
        }
        extents
    }
}

/// The pieces need more bytes than the device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the files, one after the other, reach over {needed} bytes, of {capacity} that the device stores")]
pub struct TooLarge {
    /// Bytes of all pieces.
    pub needed: u64,
    /// Bytes of the device.
    pub capacity: u64,
}

/// Old and new places on one device.
pub struct Layout {
    files: Vec<File>,
    /// Which of them has a number.
    numbers: HashMap<i64, usize>,
    /// Who had each byte first.
    first: Ranges<Owner>,
    /// Who has it, by the extents that [`Layout::see`] got.
    now: Ranges<Owner>,
    /// New places of what belongs to no file.
    others: Ranges<u64>,
}

impl Layout {
    /// Rearranges what extents, in the order in which they were seen, and requests (first byte and bytes each) name.
    ///
    /// If the extents are all that the files have (`complete`), what lies between them in a file is a hole; if not, it takes
    /// its room.
    ///
    /// # Errors
    /// [`TooLarge`].
    pub fn new(
        extents: &[Extent],
        requests: impl Iterator<Item = (u64, u64)>,
        complete: bool,
        capacity: u64,
    ) -> Result<Self, TooLarge> {
        let mut layout = Self {
            files: Vec::new(),
            numbers: HashMap::new(),
            first: Ranges::default(),
            now: Ranges::default(),
            others: Ranges::default(),
        };
        for extent in extents {
            let number = *layout.numbers.entry(extent.file).or_insert_with(|| {
                let (places, inside) = (Ranges::default(), Ranges::default());
                layout.files.push(File { id: extent.file, places, inside, start: 0 });
                layout.files.len() - 1
            });
            layout.files[number].places.fill(extent.file_pos, extent.length, extent.pos);
            let owner = Owner { file: number, file_pos: extent.file_pos };
            layout.first.fill(extent.pos, extent.length, owner);
        }
        let mut loose = Ranges::default();
        for (pos, length) in requests {
            for (at, length, owner) in layout.first.pieces(pos, length) {
                if owner.is_none() {
                    loose.fill(at, length, at);
                }
            }
        }
        layout.place(&loose, complete, capacity)?;
        Ok(layout)
    }

    /// Gives every piece its new place.
    fn place(&mut self, loose: &Ranges<u64>, complete: bool, capacity: u64) -> Result<(), TooLarge> {
        // first place, bytes, the file's number
        let mut pieces: Vec<(u64, u64, Option<usize>)> =
            loose.all().map(|(at, length, _)| (at, length, None)).collect();
        for (number, file) in self.files.iter_mut().enumerate() {
            let known: Vec<(u64, u64)> = file.places.all().map(|(at, length, _)| (at, length)).collect();
            let begin = known.first().map_or(0, |(at, _)| *at);
            let mut bytes = 0;
            for (at, length) in known {
                let inside = if complete { bytes } else { at - begin };
                file.inside.fill(at, length, inside);
                bytes = inside + length;
            }
            let first = file.parts().map(|part| part.place).min().unwrap_or_default();
            pieces.push((first, bytes, Some(number)));
        }
        pieces.sort_unstable();
        let needed = pieces.iter().fold(0_u64, |sum, (_, bytes, _)| sum.saturating_add(*bytes));
        if needed > capacity {
            return Err(TooLarge { needed, capacity });
        }
        let mut end = 0;
        let mut starts: Vec<u64> = Vec::with_capacity(pieces.len());
        for (first, bytes, _) in &pieces {
            let start = end.max(*first);
            starts.push(start);
            end = start + bytes;
        }
        // What would end beyond the device goes back as far as it must.
        let mut end = capacity;
        for (start, (_, bytes, _)) in starts.iter_mut().zip(&pieces).rev() {
            *start = (*start).min(end - bytes);
            end = *start;
        }
        for (start, (first, bytes, file)) in starts.into_iter().zip(pieces) {
            match file {
                Some(number) => self.files[number].start = start,
                None => self.others.fill(first, bytes, start),
            }
        }
        Ok(())
    }

    /// From here on these bytes are that part of the file. Extents that the layout wasn't made from change nothing.
    pub fn see(&mut self, extent: &Extent) {
        if let Some(file) = self.numbers.get(&extent.file).copied() {
            let owner = Owner { file, file_pos: extent.file_pos };
            self.now.cover(extent.pos, extent.length, owner);
        }
    }

    /// Where the bytes of a request are: new place and bytes, in the request's order; neighbours are one. Bytes that are in
    /// no file and no read or write used are left out.
    #[must_use]
    pub fn map(&self, pos: u64, length: u64) -> Vec<(u64, u64)> {
        let mut parts: Vec<(u64, u64)> = Vec::new();
        let mut push = |at: u64, length: u64| match parts.last_mut() {
            Some((last, bytes)) if *last + *bytes == at => *bytes += length,
            _ => parts.push((at, length)),
        };
        for (at, length, owner) in self.now.pieces(pos, length) {
            if let Some(owner) = owner {
                self.in_file(owner, length, &mut push);
                continue;
            }
            for (at, length, owner) in self.first.pieces(at, length) {
                if let Some(owner) = owner {
                    self.in_file(owner, length, &mut push);
                    continue;
                }
                for (_, length, place) in self.others.pieces(at, length) {
                    if let Some(place) = place {
                        push(place, length);
                    }
                }
            }
        }
        parts
    }

    fn in_file(&self, owner: Owner, length: u64, push: &mut impl FnMut(u64, u64)) {
        let file = &self.files[owner.file];
        for (_, length, inside) in file.inside.pieces(owner.file_pos, length) {
            push(file.start + inside.expect("a file's extents are all inside of it"), length);
        }
    }

    /// Whether all bytes of a request belong to files.
    #[must_use]
    pub fn is_in_files(&self, pos: u64, length: u64) -> bool {
        self.first.pieces(pos, length).iter().all(|(.., owner)| owner.is_some())
    }

    /// How scattered files lie, in the order in which they were seen.
    #[must_use]
    pub fn fragments(&self) -> Vec<Fragments> {
        let of = |file: &File| {
            // Parts of a fragment are as far from each other on the device as in the piece.
            let mut shifts = file.parts().map(|part| part.place.wrapping_sub(part.inside));
            let mut last = shifts.next();
            let breaks = shifts.filter(|shift| last.replace(*shift) != Some(*shift)).count();
            let bytes = file.parts().map(|part| part.length).sum();
            Fragments { file: file.id, fragments: breaks as u64 + 1, bytes }
        };
        self.files.iter().map(of).collect()
    }

    /// What goes elsewhere, in the order of new places.
    #[must_use]
    pub fn moves(&self) -> Vec<Move> {
        let of_file = |file: &'_ File| {
            let start = file.start;
            let to_move =
                move |part: Part| Move { from: part.place, to: start + part.inside, length: part.length };
            file.parts().map(to_move).collect::<Vec<_>>()
        };
        let mut moves: Vec<Move> = self.files.iter().flat_map(of_file).collect();
        moves.extend(self.others.all().map(|(from, length, to)| Move { from, to, length }));
        moves.retain(|each| each.from != each.to);
        moves.sort_unstable_by_key(|each| each.to);
        moves
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CAPACITY: u64 = 10_000;

    fn extent(pos: u64, length: u64, file: i64, file_pos: u64) -> Extent {
        Extent { pos, length, file, file_pos }
    }

    fn layout(extents: &[Extent], requests: &[(u64, u64)]) -> Layout {
        Layout::new(extents, requests.iter().copied(), false, CAPACITY).expect("it fits")
    }

    #[test]
    fn blocks_of_two_files_that_alternate_are_put_together() {
        // a at 0, 20, 40 and b at 10, 30, 50
        let extents: Vec<_> = (0..6).map(|at| extent(at * 10, 10, (at % 2) as i64, at / 2 * 10)).collect();
        let mut made = layout(&extents, &[]);
        let fragments: Vec<_> =
            made.fragments().iter().map(|file| (file.file, file.fragments, file.bytes)).collect();
        assert_eq!(fragments, [(0, 3, 30), (1, 3, 30)]);
        extents.iter().for_each(|extent| made.see(extent));
        let places: Vec<_> = (0..6).map(|at| made.map(at * 10, 10)).collect();
        assert_eq!(places, [[(0, 10)], [(30, 10)], [(10, 10)], [(40, 10)], [(20, 10)], [(50, 10)]]);
        // one request over both files is cut, over neighbours of one it isn't
        assert_eq!(made.map(5, 10), [(5, 5), (30, 5)]);
        let moved: u64 = made.moves().iter().map(|each| each.length).sum();
        assert_eq!(moved, 40, "the first block of a and the last of b stay");
    }

    #[test]
    fn what_is_not_fragmented_stays() {
        let extents = [extent(100, 50, 1, 0), extent(300, 20, 2, 70), extent(150, 30, 1, 50)];
        let made = layout(&extents, &[(100, 80), (900, 10), (0, 5)]);
        assert!(made.moves().is_empty());
        assert!(made.fragments().iter().all(|file| file.fragments == 1));
        assert_eq!(made.map(900, 10), [(900, 10)]);
        assert!(made.map(500, 10).is_empty(), "nothing used these bytes");
    }

    #[test]
    fn unknown_parts_of_a_file_take_their_room_unless_they_are_holes() {
        let extents = [extent(0, 10, 1, 0), extent(500, 10, 1, 90)];
        let made = layout(&extents, &[]);
        assert_eq!((made.map(500, 10), made.fragments()[0].fragments), (vec![(90, 10)], 2));
        let made = Layout::new(&extents, [].into_iter(), true, CAPACITY).expect("it fits");
        assert_eq!(made.map(500, 10), [(10, 10)]);
    }

    #[test]
    fn what_belongs_to_no_file_makes_room() {
        let extents = [extent(0, 10, 1, 0), extent(20, 10, 1, 10)];
        let made = layout(&extents, &[(10, 10), (40, 10)]);
        assert_eq!((made.map(10, 10), made.map(40, 10)), (vec![(20, 10)], vec![(40, 10)]));
        assert!(made.is_in_files(0, 10) && !made.is_in_files(5, 10));
    }

    #[test]
    fn a_place_that_another_file_gets_is_mapped_by_time() {
        let (old, new) = (extent(0, 10, 1, 0), extent(0, 10, 2, 0));
        let mut made = layout(&[old, new], &[]);
        made.see(&old);
        assert_eq!(made.map(0, 10), [(0, 10)]);
        made.see(&new);
        assert_eq!(made.map(0, 10), [(10, 10)]);
    }

    #[test]
    fn the_end_of_the_device_holds() {
        let extents = [extent(CAPACITY - 10, 10, 1, 20), extent(CAPACITY - 30, 10, 1, 0)];
        let made = layout(&extents, &[(CAPACITY - 20, 10)]);
        assert_eq!(
            (made.map(CAPACITY - 30, 10), made.map(CAPACITY - 20, 10)),
            (vec![(CAPACITY - 40, 10)], vec![(CAPACITY - 10, 10)])
        );
        let far = [extent(0, 10, 1, 0), extent(10, 10, 1, CAPACITY)];
        let error = Layout::new(&far, [].into_iter(), false, CAPACITY).err();
        assert_eq!(error, Some(TooLarge { needed: CAPACITY + 10, capacity: CAPACITY }));
    }

    proptest! {
        #[test]
        fn no_two_things_share_a_place_and_nothing_is_lost(
            places in proptest::collection::btree_map(0_u64..100, (0_i64..5, any::<bool>()), 1..60),
            shuffle in any::<u64>(),
        ) {
            // Blocks of ten bytes at different places; each file's are numbered in an order that is not theirs.
            let mut blocks: Vec<(u64, i64, bool)> = places.iter().map(|(at, (file, known))| (at * 10, *file, *known)).collect();
            blocks.sort_by_key(|(at, ..)| at.wrapping_mul(shuffle | 1));
            let mut next = [0; 5];
            let mut extents = Vec::new();
            for (at, file, known) in &blocks {
                if *known {
                    extents.push(extent(*at, 10, *file, next[*file as usize]));
                    next[*file as usize] += 10;
                }
            }
            let requests: Vec<_> = blocks.iter().map(|(at, ..)| (*at, 10)).collect();
            let mut made = Layout::new(&extents, requests.iter().copied(), false, 1000).expect("all blocks fit");
            extents.iter().for_each(|extent| made.see(extent));
            let mut new: Vec<(u64, u64)> = Vec::new();
            for (at, length) in &requests {
                let parts = made.map(*at, *length);
                prop_assert_eq!(parts.len(), 1);
                new.push(parts[0]);
            }
            // each file in its order, without a gap
            let by_place: HashMap<u64, u64> = requests.iter().map(|(at, _)| *at).zip(new.iter().map(|(at, _)| *at)).collect();
            for pair in extents.iter().flat_map(|a| extents.iter().map(move |b| (a, b))) {
                if pair.0.file == pair.1.file && pair.0.file_pos + 10 == pair.1.file_pos {
                    prop_assert_eq!(by_place[&pair.0.pos] + 10, by_place[&pair.1.pos]);
                }
            }
            new.sort_unstable();
            for pair in new.windows(2) {
                prop_assert!(pair[0].0 + pair[0].1 <= pair[1].0);
            }
            prop_assert!(new.iter().all(|(at, length)| at + length <= 1000 && *length == 10));
            let moved: u64 = made.moves().iter().map(|each| each.length).sum();
            prop_assert_eq!(moved, 10 * by_place.iter().filter(|(old, new)| old != new).count() as u64);
        }
    }
}
