//! Rows in any order into a trail: collected to a file's worth, sorted, written.

use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;
use iotrail_format::schema::Table;

use crate::columns::{arrow_schema, believable, conform, sort};
use crate::error::{ArrowContext as _, Error};
use crate::file::FILE_ROWS;
use crate::writer::TrailWriter;

/// Adds rows of one table to a trail. Holds at most [`FILE_ROWS`] rows and one batch.
pub struct Ingest<'a> {
    writer: &'a mut TrailWriter,
    table: &'static Table,
    waiting: Vec<RecordBatch>,
    rows: usize,
}

impl<'a> Ingest<'a> {
    /// Begins with a table.
    pub fn new(writer: &'a mut TrailWriter, table: &'static Table) -> Self {
        Self { writer, table, waiting: Vec::new(), rows: 0 }
    }

    /// Adds rows.
    ///
    /// # Errors
    /// Those of [`conform`], [`believable`] and [`TrailWriter::append`].
    pub fn add(&mut self, batch: RecordBatch) -> Result<(), Error> {
        let batch = conform(self.table, &batch)?;
        believable(self.table, &batch)?;
        let mut start = 0;
        while start < batch.num_rows() {
            let length = (FILE_ROWS - self.rows).min(batch.num_rows() - start);
            self.waiting.push(batch.slice(start, length));
            self.rows += length;
            start += length;
            if self.rows == FILE_ROWS {
                self.write()?;
            }
        }
        Ok(())
    }

    /// Writes what still waits. It becomes visible when the writer publishes.
    ///
    /// # Errors
    /// Those of [`TrailWriter::append`].
    pub fn finish(mut self) -> Result<(), Error> {
        self.write()
    }

    fn write(&mut self) -> Result<(), Error> {
        let rows = concat_batches(&arrow_schema(self.table), &self.waiting).when("collect rows")?;
        self.waiting.clear();
        self.rows = 0;
        self.writer.append(self.table, &sort(self.table, &rows)?)
    }
}
