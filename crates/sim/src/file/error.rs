//! Why a device file can't be used.

use toml::Value;

use super::reader::join;
use crate::bounds::InvalidParameter;

/// Why a device file can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: expected {expected}, found {found}")]
pub struct FileError {
    /// The key, with the path to it, or the line.
    pub place: String,
    /// What would be valid.
    pub expected: String,
    /// What is there.
    pub found: String,
}

impl FileError {
    pub(super) fn new(
        place: impl Into<String>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self { place: place.into(), expected: expected.into(), found: found.into() }
    }

    /// An error about a parameter of the table at a place.
    pub(super) fn of(place: &str, error: InvalidParameter) -> Self {
        Self::new(join(place, &error.field), error.expected, error.found)
    }
}

/// What is there, in a few words.
pub(super) fn show(value: Option<&Value>) -> String {
    match value {
        None => "nothing".into(),
        Some(Value::Table(_)) => "a table".into(),
        Some(value) => {
            let text = value.to_string();
            if text.chars().count() > 60 {
                format!("{}…", text.chars().take(60).collect::<String>())
            } else {
                text
            }
        }
    }
}
