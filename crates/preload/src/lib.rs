//! The interposer: a preloaded library that sees a program's calls on files and the calls it waits
//! in, and posts one record each (the tracing engine of //TRACE, FAST 2007, sections 3 and 4.1).
//!
//! Constraints, on top of those of [`iotrail_sdk`]: every call does exactly what the C library's
//! does, with its `errno`; a cancelled thread unwinds through here (`extern "C-unwind"`, no
//! destructor in a frame that calls out); after `vfork` the child's calls change nothing of the
//! parent's book-keeping.
//!
//! The C library's own calls don't pass through its symbol table, so each public function that does
//! I/O is wrapped, in all its forms (64-bit, `_chk`, versions of `preadv`); stdio is watched at its
//! buffer ([`stream`]).

mod aio;
mod api;
mod confinement;
mod connections;
mod descriptors;
mod events;
mod files;
mod lifecycle;
mod maps;
mod mpi;
mod names;
mod paths;
mod processes;
mod real;
mod record;
mod releases;
mod stream;
mod unseen;
mod variadic;
mod waits;
