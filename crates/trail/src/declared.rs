//! Tables that no version of iotrail knows: what programs declare, and what a later iotrail adds.
//!
//! Their description is in the snapshot. All code takes a `&'static Table`, so each different description is
//! kept for good; a process sees few.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use iotrail_format::record::{COMMON, Declaration};
use iotrail_format::schema::{self, Column, ColumnType, SERVICE_OP, Table};

use crate::snapshot::{Snapshot, TableFiles};

static KEPT: LazyLock<Mutex<HashMap<String, &'static Table>>> = LazyLock::new(Mutex::default);

fn text(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

/// The table of a description, made by `make` if it is the first of its kind.
fn kept(description: String, make: impl FnOnce() -> Table) -> &'static Table {
    let mut kept = KEPT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    kept.entry(description).or_insert_with(|| Box::leak(Box::new(make())))
}

/// The table of a type that a program declared: the columns of every record, then its own.
pub(crate) fn of_declaration(declaration: &Declaration<'_>) -> &'static Table {
    kept(format!("{declaration:?}"), || {
        let common = SERVICE_OP.columns.iter().take(COMMON.len()).map(|column| match column.name {
            "ts" => Column { meaning: "When it was posted or began, since the epoch.", ..*column },
            "dur" => Column { meaning: "Time it took; 0 an instant.", ..*column },
            "thread" => Column { meaning: "Thread that posted it.", ..*column },
            _ => *column,
        });
        let own = declaration.columns.iter().map(|column| Column {
            name: text(column.name),
            ty: column.ty,
            unit: text(column.unit),
            nullable: true,
            meaning: text(column.meaning),
        });
        Table {
            name: text(declaration.name),
            meaning: text(declaration.meaning),
            columns: Box::leak(common.chain(own).collect()),
            order: SERVICE_OP.order,
        }
    })
}

/// The table a snapshot describes; none if it has a type of column that isn't known.
fn of_snapshot(name: &str, files: &TableFiles) -> Option<&'static Table> {
    let ty = |sql: &str| {
        [ColumnType::BigInt, ColumnType::Text, ColumnType::Double].into_iter().find(|ty| ty.sql() == sql)
    };
    let columns: Option<Vec<Column>> = files
        .columns
        .iter()
        .map(|column| {
            Some(Column {
                name: text(&column.name),
                ty: ty(&column.r#type)?,
                unit: text(&column.unit),
                nullable: column.nullable,
                meaning: text(&column.meaning),
            })
        })
        .collect();
    let columns = columns?;
    let order: Vec<&'static str> = files.order.iter().map(|name| text(name)).collect();
    if order.iter().any(|name| !columns.iter().any(|column| column.name == *name)) {
        return None;
    }
    let description = format!("{name} {} {:?} {:?}", files.meaning, files.order, files.columns);
    Some(kept(description, || Table {
        name: text(name),
        meaning: text(&files.meaning),
        columns: Box::leak(columns.into_boxed_slice()),
        order: Box::leak(order.into_boxed_slice()),
    }))
}

impl Snapshot {
    /// The tables it lists: those of this version, then the others by name. Tables with types of columns that
    /// this version doesn't know are left out.
    #[must_use]
    pub fn all_tables(&self) -> Vec<&'static Table> {
        let others = self.tables.iter().filter(|(name, _)| schema::table(name).is_none());
        let others = others.filter_map(|(name, files)| of_snapshot(name, files));
        schema::TABLES.iter().chain(others).collect()
    }
}
