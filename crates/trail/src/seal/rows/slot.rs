//! A slot's fields, and what a call makes of them.

use iotrail_format::call::{CALL_NUMBERS, Call, CallKind};
use iotrail_format::segment::UNFINISHED;

use crate::seal::view::{Unit, end_ticks};

/// What a call's `aux` is in `file_op`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Aux {
    /// Column `flags`.
    Flags,
    /// Column `file2`.
    File2,
    /// Column `calls`.
    Calls,
}

/// The whole mapping of `aux`: in `sync_op` it is `peer`, here what the call makes of it.
const fn aux_of(call: Call) -> Aux {
    match call {
        Call::Rename | Call::Link | Call::Symlink | Call::Sendfile | Call::CopyFileRange | Call::Splice => {
            Aux::File2
        }
        Call::Fread | Call::Fwrite | Call::Fflush | Call::Fclose | Call::Fseek | Call::Readdir => Aux::Calls,
        _ => Aux::Flags,
    }
}

/// What is known of a call number.
#[derive(Clone, Copy)]
pub(super) struct Known {
    /// Its place in [`Call::ALL`].
    pub(super) name: i32,
    /// What `aux` is.
    pub(super) aux: Aux,
    /// What it moves.
    pub(super) kind: CallKind,
}

/// By opcode.
const KNOWN: [Option<Known>; CALL_NUMBERS] = {
    let mut known = [None; CALL_NUMBERS];
    let mut at = 0;
    while at < Call::ALL.len() {
        let call = Call::ALL[at];
        known[call as usize] = Some(Known { name: at as i32, aux: aux_of(call), kind: call.kind() });
        at += 1;
    }
    known
};

/// A slot's fields, by the layout in `iotrail_format::segment`.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a>(pub(super) &'a Unit);

impl Fields<'_> {
    pub(super) fn opcode(self) -> u16 {
        self.0[0] as u16
    }
    pub(super) fn kind(self) -> u8 {
        (self.0[0] >> 16) as u8
    }
    pub(super) fn errno(self) -> i64 {
        i64::from((self.0[0] >> 24) as u8)
    }
    pub(super) fn fd(self) -> i32 {
        (self.0[0] >> 32) as i32
    }
    pub(super) fn start(self) -> u64 {
        self.0[1]
    }
    /// When it returned, or if it never did, began.
    pub(super) fn end(self) -> u64 {
        end_ticks(self.0)
    }
    pub(super) fn finished(self) -> bool {
        self.0[2] != UNFINISHED
    }
    pub(super) fn object(self) -> i64 {
        self.0[3] as i64
    }
    pub(super) fn pos(self) -> i64 {
        self.0[4] as i64
    }
    pub(super) fn length(self) -> i64 {
        self.0[5] as i64
    }
    pub(super) fn result(self) -> i64 {
        self.0[6] as i64
    }
    pub(super) fn aux(self) -> i64 {
        self.0[7] as i64
    }
    pub(super) fn known(self) -> Option<Known> {
        KNOWN.get(usize::from(self.opcode())).copied().flatten()
    }
}
