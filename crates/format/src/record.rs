//! Records of requests in a slot: the types iotrail knows, and those a program declares.
//!
//! A record is a slot like a call's (see [`crate::segment`]), in which other fields stand:
//!
//! ```text
//!  0        2      3       4           8            16         24
//!  +--------+------+-------+-----------+------------+----------+
//!  | opcode | kind | extra | small     | start      | dur      |
//!  +--------+------+-------+-----------+------------+----------+
//!  24           32          40           48           56       64
//!  +------------+-----------+------------+------------+---------+
//!  | crumb      | word 0    | word 1     | word 2     | word 3  |
//!  +------------+-----------+------------+------------+---------+
//! ```
//!
//! `opcode` is [`FIRST_TYPE`] plus the type's number. `extra` slots of [`crate::segment::OP_MORE`]
//! follow it in the ring, each with seven more words; they are complete before it is. A [`Wire`]
//! says which column of the type's table stands where.
//!
//! Texts are **symbols**: numbers from 1 that the process announced before, in a ring of its own
//! (thread 0), which is drained before the others.

use crate::schema::{BUFFER_OP, ColumnType, DISK_OP, NETWORK_TRANSMIT, SERVICE_OP, STITCH, Table};

/// Opcode of type 0.
pub const FIRST_TYPE: u16 = 0x6000;
/// Types of one process, those it declares included.
pub const MAX_TYPES: usize = 256;
/// Number of the first type that a program declares; those below are [`TYPES`].
pub const FIRST_DECLARED: usize = 16;
/// Words of the first slot, and of each that follows.
pub const WORDS: (usize, usize) = (4, 7);
/// Slots that may follow a record's first.
pub const MAX_EXTRA: usize = 4;
/// Columns a program may declare beside those every record has: a word each.
pub const MAX_DECLARED_COLUMNS: usize = WORDS.0 + MAX_EXTRA * WORDS.1;
/// Symbols that stand in 16 bits: names of components, operations, caches, peers, disks.
pub const MAX_NAMES: u32 = 1 << 16;

/// Where a column stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// The name at position `kind` of these.
    Kind(&'static [&'static str]),
    /// Half of `small`, 0 the low one: a symbol.
    Name(u8),
    /// All of `small`: a symbol.
    Small,
    /// A word: a number, or [`crate::segment::NONE`].
    Word(u8),
    /// A word: a double's bits.
    Real(u8),
    /// A word: a symbol.
    Text(u8),
    /// The low half of a word: a symbol.
    LowText(u8),
    /// The high half of a word: a number, or `i32::MIN` for none.
    High(u8),
    /// A word: counter ticks, or [`crate::segment::NONE`].
    Ticks(u8),
    /// Always 0.
    Zero,
    /// Always null.
    Null,
}

/// A type iotrail knows.
#[derive(Clone, Copy, Debug)]
pub struct Type {
    /// Its table.
    pub table: &'static Table,
    /// The columns after `ts`, `dur`, `node`, `thread` and `crumb`, in order.
    pub wires: &'static [Wire],
}

/// Number of type `service_op`.
pub const SERVICE: u8 = 0;
/// Number of type `stitch`. Its parent's node, symbol 0, is the own node.
pub const STITCHED: u8 = 1;
/// Number of type `buffer_op`.
pub const BUFFER: u8 = 2;
/// Number of type `network_transmit`.
pub const NETWORK: u8 = 3;
/// Number of type `disk_op`.
pub const DISK: u8 = 4;
/// Number of type `cpu_slice`: user-level switches. They are [`crate::segment::OP_CRUMB`] slots, which
/// the sealer makes rows of.
pub const CPU: u8 = 5;

/// Kinds of `service_op`, by number.
pub const SERVICE_KINDS: &[&str] = &["server", "client", "internal"];
/// Kinds of `stitch`, by number.
pub const STITCH_KINDS: &[&str] = &["rpc", "split", "coalesce"];
/// Kinds of `buffer_op`, by number.
pub const BUFFER_KINDS: &[&str] = &["read_hit", "read_miss", "write", "read_ahead", "flush", "evict"];

/// The types by number.
pub const TYPES: &[Type] = &[
    Type {
        table: &SERVICE_OP,
        wires: &[
            Wire::Name(0),
            Wire::Kind(SERVICE_KINDS),
            Wire::Name(1),
            Wire::LowText(0),
            Wire::High(0),
            Wire::Word(1),
            Wire::Word(2),
            Wire::Word(3),
            Wire::Null,
            Wire::Null,
            Wire::Null,
            Wire::Null,
        ],
    },
    Type {
        table: &STITCH,
        wires: &[Wire::Small, Wire::Word(0), Wire::Kind(STITCH_KINDS), Wire::Word(1), Wire::Null],
    },
    Type {
        table: &BUFFER_OP,
        wires: &[
            Wire::Name(0),
            Wire::Name(1),
            Wire::Kind(BUFFER_KINDS),
            Wire::Word(0),
            Wire::Word(1),
            Wire::Word(2),
            Wire::Null,
        ],
    },
    Type { table: &NETWORK_TRANSMIT, wires: &[Wire::Name(0), Wire::Name(1), Wire::Word(0), Wire::Null] },
    Type {
        table: &DISK_OP,
        wires: &[
            Wire::Kind(&["program"]),
            Wire::Name(0),
            Wire::Name(1),
            Wire::Word(0),
            Wire::Word(1),
            Wire::Ticks(2),
            Wire::Zero,
            Wire::Null,
            Wire::Null,
            Wire::Null,
            Wire::Null,
            Wire::Null,
            Wire::Null,
        ],
    },
];

/// The columns that each record has, which a declaration doesn't name.
pub const COMMON: [&str; 5] = ["ts", "dur", "node", "thread", "crumb"];

/// Words that SQL engines reserve, or that DuckDB and Spark can't quote alike.
const RESERVED: [&str; 12] = [
    "from", "to", "end", "window", "desc", "using", "lateral", "table", "offset", "select", "where", "order",
];

/// A column that a program declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredColumn<'a> {
    /// Name: letters, digits and `_`, lower case.
    pub name: &'a str,
    /// Type.
    pub ty: ColumnType,
    /// Unit; empty none.
    pub unit: &'a str,
    /// One line.
    pub meaning: &'a str,
}

/// A record type that a program declares.
///
/// Its description travels with the records, as lines whose parts are separated by tabs:
/// `NAME MEANING`, then for each column `NAME TYPE UNIT MEANING`, with types BIGINT, DOUBLE, VARCHAR.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration<'a> {
    /// Name of the type and its table.
    pub name: &'a str,
    /// One line.
    pub meaning: &'a str,
    /// The columns after the common ones.
    pub columns: Vec<DeclaredColumn<'a>>,
}

/// What is wrong with a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadDeclaration(pub &'static str);

impl core::fmt::Display for BadDeclaration {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.0)
    }
}

impl<'a> Declaration<'a> {
    /// Reads a description.
    ///
    /// # Errors
    /// [`BadDeclaration`] if it isn't one, or names what may not be named.
    pub fn parse(text: &'a str) -> Result<Self, BadDeclaration> {
        let mut lines = text.lines();
        let (name, meaning) = lines
            .next()
            .and_then(|line| line.split_once('\t'))
            .ok_or(BadDeclaration("expected a first line NAME<tab>MEANING"))?;
        if !is_name(name) {
            return Err(BadDeclaration(
                "a type's name has lower-case letters, digits and _, and is no word of SQL",
            ));
        }
        if crate::schema::table(name).is_some() {
            return Err(BadDeclaration("iotrail has a table of this name"));
        }
        let mut columns: Vec<DeclaredColumn<'a>> = Vec::new();
        for line in lines {
            let mut parts = line.splitn(4, '\t');
            let (Some(name), Some(ty), Some(unit), Some(meaning)) =
                (parts.next(), parts.next(), parts.next(), parts.next())
            else {
                return Err(BadDeclaration("expected a column as NAME<tab>TYPE<tab>UNIT<tab>MEANING"));
            };
            if !is_name(name) {
                return Err(BadDeclaration(
                    "a column's name has lower-case letters, digits and _, and is no word of SQL",
                ));
            }
            if COMMON.contains(&name) || columns.iter().any(|column| column.name == name) {
                return Err(BadDeclaration(
                    "two columns have one name; ts, dur, node, thread and crumb are there already",
                ));
            }
            let ty = match ty {
                "BIGINT" => ColumnType::BigInt,
                "DOUBLE" => ColumnType::Double,
                "VARCHAR" => ColumnType::Text,
                _ => return Err(BadDeclaration("a column's type is BIGINT, DOUBLE or VARCHAR")),
            };
            columns.push(DeclaredColumn { name, ty, unit, meaning });
        }
        if columns.len() > MAX_DECLARED_COLUMNS {
            return Err(BadDeclaration("a type has at most 32 columns of its own"));
        }
        Ok(Self { name, meaning, columns })
    }

    /// Where the columns stand: a word each.
    #[must_use]
    pub fn wires(&self) -> Vec<Wire> {
        let wire = |(at, column): (usize, &DeclaredColumn<'_>)| match column.ty {
            ColumnType::BigInt => Wire::Word(at as u8),
            ColumnType::Double => Wire::Real(at as u8),
            ColumnType::Text => Wire::Text(at as u8),
        };
        self.columns.iter().enumerate().map(wire).collect()
    }

    /// Slots that follow the first one of each record.
    #[must_use]
    pub fn extra(&self) -> usize {
        extra(self.columns.len())
    }
}

/// Slots that follow the first, for so many words.
#[must_use]
pub const fn extra(words: usize) -> usize {
    words.saturating_sub(WORDS.0).div_ceil(WORDS.1)
}

fn is_name(name: &str) -> bool {
    is_identifier(name) && !RESERVED.contains(&name)
}

/// Whether tables and columns may have this name: it becomes a part of SQL.
#[must_use]
pub fn is_identifier(name: &str) -> bool {
    (1..=60).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_known_type_says_where_each_of_its_columns_stands() {
        for known in TYPES {
            let own = &known.table.columns[COMMON.len()..];
            assert_eq!(own.len(), known.wires.len(), "{}", known.table.name);
            assert!(known.table.columns.iter().zip(COMMON).all(|(column, name)| column.name == name));
            for (column, wire) in own.iter().zip(known.wires) {
                let text = matches!(
                    wire,
                    Wire::Kind(_) | Wire::Name(_) | Wire::Small | Wire::Text(_) | Wire::LowText(_)
                );
                assert!(
                    matches!(wire, Wire::Null) || (column.ty == ColumnType::Text) == text,
                    "{}.{}",
                    known.table.name,
                    column.name
                );
            }
        }
        assert!(TYPES.len() <= FIRST_DECLARED && TYPES.len() == usize::from(CPU));
    }

    #[test]
    fn descriptions_are_read_or_refused() {
        let text =
            "lock_hold\tHow long a lock was held.\nlock\tVARCHAR\t\tWhich.\nheld\tBIGINT\tns\tHow long.";
        let declared = Declaration::parse(text).unwrap();
        assert_eq!((declared.name, declared.columns.len(), declared.extra()), ("lock_hold", 2, 0));
        assert_eq!(declared.wires(), [Wire::Text(0), Wire::Word(1)]);
        for bad in [
            "",
            "name without meaning",
            "file_op\tTaken.",
            "Upper\tCase.",
            "table\tA word of SQL.",
            "t\tx\nts\tBIGINT\t\tThere already.",
            "t\tx\na\tBIGINT\t\ttwice\na\tBIGINT\t\ttwice",
            "t\tx\na\tINT\t\tno such type",
            "t\tx\na\tBIGINT",
        ] {
            assert!(Declaration::parse(bad).is_err(), "{bad:?}");
        }
        let wide: String = (0..33).map(|n| format!("\nc{n}\tBIGINT\t\tx")).collect();
        assert!(Declaration::parse(&format!("t\tx{wide}")).is_err());
        let widest: String = (0..32).map(|n| format!("\nc{n}\tBIGINT\t\tx")).collect();
        assert_eq!(Declaration::parse(&format!("t\tx{widest}")).unwrap().extra(), MAX_EXTRA);
    }
}
