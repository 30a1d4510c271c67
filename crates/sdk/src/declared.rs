//! Record types that a program declares at run time: each becomes a table.

use crate::api;
use crate::clock::ticks;
use crate::names::Refused;
use crate::record::{Record, instant};
use crate::request::{Crumb, Symbol};
use iotrail_format::record::{MAX_DECLARED_COLUMNS, WORDS};
use iotrail_format::segment::NONE;

/// A declared type.
///
/// ```no_run
/// use iotrail_sdk::declared::{RecordType, Value};
/// use iotrail_sdk::request::Crumb;
/// let lock_hold = RecordType::declare(
///     "lock_hold\tHow long a lock was held.\nlock\tBIGINT\t\tWhich.\nheld\tBIGINT\tns\tHow long.")?;
/// lock_hold.post(Crumb::current(), &[Value::Int(7), Value::Int(1_250)]);
/// # Ok::<(), iotrail_sdk::names::Refused>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RecordType {
    number: u16,
    columns: u8,
}

/// A value of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// BIGINT; `i64::MIN` is null.
    Int(i64),
    /// DOUBLE.
    Real(f64),
    /// VARCHAR.
    Text(Symbol),
    /// Null.
    Null,
}

impl RecordType {
    /// Declares a type by its description (see [`iotrail_format::record::Declaration`]); the same description is the same type.
    ///
    /// # Errors
    /// [`Refused`], which says why.
    pub fn declare(description: &str) -> Result<Self, Refused> {
        let number = api::declare(description)?;
        let columns = description.lines().count() - 1;
        Ok(Self { number, columns: columns as u8 })
    }

    /// Whether its records are wanted now.
    #[inline]
    #[must_use]
    pub fn on(self) -> bool {
        api::on(self.number)
    }

    /// Posts a record of this instant: a value for each column, in order; missing ones are null, further ones
    /// are left out.
    #[inline]
    pub fn post(self, crumb: Crumb, values: &[Value]) {
        if self.on() {
            self.fill(instant(self.number, 0, crumb.raw()), values);
        }
    }

    /// Posts a record of what began at counter value `start` (see [`crate::clock::ticks`]) and ends now.
    #[inline]
    pub fn post_since(self, start: u64, crumb: Crumb, values: &[Value]) {
        if self.on() {
            let mut record = instant(self.number, 0, crumb.raw());
            (record.start, record.dur) = (start, ticks().wrapping_sub(start));
            self.fill(record, values);
        }
    }

    fn fill(self, mut record: Record, values: &[Value]) {
        let mut words = [NONE; MAX_DECLARED_COLUMNS];
        let columns = usize::from(self.columns);
        for (word, value) in words[..columns].iter_mut().zip(values) {
            *word = match *value {
                Value::Int(value) => value,
                // Minus zero has the bits of null.
                Value::Real(value) => (value + 0.0).to_bits() as i64,
                Value::Text(symbol) => symbol.word(),
                Value::Null => NONE,
            };
        }
        record.words.copy_from_slice(&words[..WORDS.0]);
        api::post(&record, if columns > WORDS.0 { &words[WORDS.0..columns] } else { &[] });
    }
}
