//! Trails on disk: the only code that writes them, and the reader of native tools.
//!
//! A trail is a directory of Parquet files ([`file`]) and of numbered snapshots that say which of the
//! files are live ([`snapshot`]). [`TrailWriter`] adds rows; everything that replaces files does so by
//! publishing a snapshot, so that a reader that keeps to one sees a trail that never changes.
//!
//! Constraints: rows of a file are in their table's declared order; a published snapshot is never
//! changed; nothing outside `snapshots/`, `data/` and `session.json` is touched.

pub mod arrays;
mod check;
mod columns;
mod compact;
mod declared;
mod error;
mod file;
mod info;
mod ingest;
mod kway;
mod merge;
pub mod private;
mod rows;
pub mod seal;
mod snapshot;
mod visible;
mod writer;

pub use check::{Check, DamagedFile, check};
pub use columns::{
    LATEST, LONGEST, arrow_schema, arrow_type, believable, conform, first_out_of_order, sort, time_column,
};
pub use compact::{Compacted, compact, compact_grown};
pub use error::Error;
pub use file::{Damage, FILE_ROWS, ROW_GROUP_ROWS};
pub use info::{Info, TableInfo};
pub use ingest::Ingest;
pub use merge::merge;
pub use rows::{Columns, FileOp, FileOpColumns, Order, Rows, SmallRow, SyncOp, SyncOpColumns, TrailReader};
pub use seal::is_listed;
pub use snapshot::{ColumnEntry, DeadFile, FileEntry, Snapshot, TableFiles};
pub use visible::{Seldom, Visible, one_line, visible};
pub use writer::{GRACE, TrailWriter, sync_snapshots};
