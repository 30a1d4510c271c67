//! Bounds of parameters. The attributes of a field, `#[schemars(range(…), length(…))]`, are the only place that states them: they
//! are checked here, and stand in the JSON Schema of device files ([`crate::file::schema`]).

use std::cmp::Ordering;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::{Map, Value};

/// A parameter that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: expected {expected}, found {found}")]
pub struct InvalidParameter {
    /// Its name, with the path to it.
    pub field: String,
    /// What would be valid.
    pub expected: String,
    /// What it is.
    pub found: String,
}

impl InvalidParameter {
    /// An error about a field.
    pub(crate) fn new(
        field: impl Into<String>,
        expected: impl Into<String>,
        found: impl std::fmt::Display,
    ) -> Self {
        Self { field: field.into(), expected: expected.into(), found: found.to_string() }
    }
}

/// The JSON Schema of a type, without references: what a schema of it says stands where it is used.
pub(crate) fn schema_of<P: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft07().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    settings.into_generator().into_root_schema_for::<P>().into()
}

/// Checks all numbers of parameters against the bounds of their fields, and lists against the number of items.
///
/// # Errors
/// The first one out of its bounds.
pub(crate) fn check<P: JsonSchema + Serialize>(parameters: &P) -> Result<(), InvalidParameter> {
    let value = serde_json::to_value(parameters)
        .map_err(|error| InvalidParameter::new("parameters", "numbers and names", error))?;
    check_value(&schema_of::<P>(), &value, "")
}

/// Checks what stands at a place against a schema, as far as it is made of numbers, names, lists and known fields.
///
/// # Errors
/// The first number or list out of its bounds, or the first name that isn't known.
pub(crate) fn check_value(schema: &Value, value: &Value, place: &str) -> Result<(), InvalidParameter> {
    match value {
        Value::Number(_) => check_number(schema, value, place),
        Value::Array(items) => {
            let least = schema["minItems"].as_u64().unwrap_or(0);
            if (items.len() as u64) < least {
                return Err(InvalidParameter::new(place, format!("{least} or more"), items.len()));
            }
            let mut items = items.iter().enumerate();
            items.try_for_each(|(at, item)| check_value(&schema["items"], item, &format!("{place}[{at}]")))
        }
        Value::Object(fields) => {
            let Some(properties) = properties_for(schema, fields) else { return Ok(()) };
            let inner =
                |name: &str| if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") };
            fields
                .iter()
                .try_for_each(|(name, field)| check_value(&properties[name.as_str()], field, &inner(name)))
        }
        // JSON has neither infinity nor NaN.
        Value::Null if is_number(schema) && !has_type(schema, "null") => {
            Err(InvalidParameter::new(place, "a finite number", "none"))
        }
        Value::String(name) => {
            let names = names(schema);
            if names.is_empty() || names.contains(&name.as_str()) {
                return Ok(());
            }
            Err(InvalidParameter::new(place, format!("one of {}", names.join(", ")), format!("{name:?}")))
        }
        Value::Null | Value::Bool(_) => Ok(()),
    }
}

/// The names that a schema permits; none if it permits any text, or none.
pub(crate) fn names(schema: &Value) -> Vec<&str> {
    fn own(schema: &Value) -> Vec<&str> {
        let listed = schema["enum"].as_array().into_iter().flatten();
        listed.chain(schema.get("const")).filter_map(Value::as_str).collect()
    }
    std::iter::once(schema).chain(alternatives(schema)).flat_map(own).collect()
}

/// What a schema says of the fields of an object: of several alternatives the one that has them.
fn properties_for<'a>(schema: &'a Value, fields: &Map<String, Value>) -> Option<&'a Value> {
    let own = std::iter::once(schema);
    let has_fields = |properties: &&Value| fields.keys().all(|name| properties.get(name).is_some());
    own.chain(alternatives(schema)).filter_map(|schema| schema.get("properties")).find(has_fields)
}

/// The alternatives of a schema, of which one must hold; none if it has no alternatives.
pub(crate) fn alternatives(schema: &Value) -> impl Iterator<Item = &Value> {
    ["anyOf", "oneOf"].into_iter().filter_map(|key| schema[key].as_array()).flatten()
}

/// Whether a schema permits values of a type.
pub(crate) fn has_type(schema: &Value, name: &str) -> bool {
    match &schema["type"] {
        Value::Array(names) => names.iter().any(|one| one == name),
        one => one == name,
    }
}

/// Whether a schema is one of numbers.
pub(crate) fn is_number(schema: &Value) -> bool {
    has_type(schema, "number") || has_type(schema, "integer")
}

/// Bounds of a number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Bounds {
    /// Least and most, included; none without a bound.
    pub least: Option<f64>,
    pub most: Option<f64>,
    /// A number must be more than this, or less.
    pub above: Option<f64>,
    pub below: Option<f64>,
}

impl Bounds {
    /// Those that a schema states.
    pub fn of(schema: &Value) -> Self {
        let of = |key: &str| schema[key].as_f64();
        Self {
            least: of("minimum"),
            most: of("maximum"),
            above: of("exclusiveMinimum"),
            below: of("exclusiveMaximum"),
        }
    }
}

/// Whether a number is in order with a bound; true if there is no bound. Whole numbers are compared exactly.
fn compares(number: &Value, bound: &Value, order: impl Fn(Ordering) -> bool) -> bool {
    if bound.is_null() {
        return true;
    }
    let found = match (number.as_u64(), bound.as_u64()) {
        (Some(number), Some(bound)) => Some(number.cmp(&bound)),
        _ => number.as_f64().zip(bound.as_f64()).and_then(|(number, bound)| number.partial_cmp(&bound)),
    };
    found.is_some_and(order)
}

fn check_number(schema: &Value, value: &Value, place: &str) -> Result<(), InvalidParameter> {
    if compares(value, &schema["minimum"], Ordering::is_ge)
        && compares(value, &schema["maximum"], Ordering::is_le)
        && compares(value, &schema["exclusiveMinimum"], Ordering::is_gt)
        && compares(value, &schema["exclusiveMaximum"], Ordering::is_lt)
    {
        return Ok(());
    }
    let shown = |key: &str| schema[key].to_string();
    let expected = match Bounds::of(schema) {
        Bounds { least: Some(_), most: Some(_), .. } => {
            format!("{} to {}", shown("minimum"), shown("maximum"))
        }
        Bounds { least: Some(_), .. } => format!("{} or more", shown("minimum")),
        Bounds { most: Some(_), .. } => format!("at most {}", shown("maximum")),
        _ => format!("more than {} and less than {}", shown("exclusiveMinimum"), shown("exclusiveMaximum")),
    };
    let found =
        if value.is_f64() { value.as_f64().unwrap_or_default().to_string() } else { value.to_string() };
    Err(InvalidParameter::new(place, expected, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, JsonSchema)]
    struct Inner {
        #[schemars(range(min = 2, max = 5))]
        count: u32,
    }

    #[derive(Serialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    enum Choice {
        One,
        Some(#[schemars(range(max = 9))] u32),
    }

    #[derive(Serialize, JsonSchema)]
    struct Outer {
        #[schemars(range(min = 1))]
        size_bytes: u64,
        #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
        share: f64,
        inner: Inner,
        optional: Option<Inner>,
        choice: Choice,
        #[schemars(length(min = 1), inner(range(max = 7)))]
        list: Vec<u64>,
    }

    const VALID: Outer = Outer {
        size_bytes: 1,
        share: 0.5,
        inner: Inner { count: 2 },
        optional: None,
        choice: Choice::One,
        list: Vec::new(),
    };

    fn message(parameters: Outer) -> String {
        check(&parameters).map_or_else(|error| error.to_string(), |()| "valid".into())
    }

    #[test]
    fn numbers_are_held_to_the_bounds_of_their_fields() {
        let valid = || Outer { list: vec![7], ..VALID };
        assert_eq!(message(valid()), "valid");
        assert_eq!(message(Outer { size_bytes: u64::MAX, ..valid() }), "valid");
        for (parameters, expected) in [
            (Outer { size_bytes: 0, ..valid() }, "size_bytes: expected 1 or more, found 0"),
            (Outer { share: 0.0, ..valid() }, "share: expected more than 0 and less than 1, found 0"),
            (Outer { share: f64::NAN, ..valid() }, "share: expected a finite number, found none"),
            (Outer { inner: Inner { count: 6 }, ..valid() }, "inner.count: expected 2 to 5, found 6"),
            (
                Outer { optional: Some(Inner { count: 1 }), ..valid() },
                "optional.count: expected 2 to 5, found 1",
            ),
            (Outer { choice: Choice::Some(10), ..valid() }, "choice.some: expected 0 to 9, found 10"),
            (Outer { list: vec![1, 8], ..valid() }, "list[1]: expected 0 to 7, found 8"),
            (Outer { list: vec![], ..valid() }, "list: expected 1 or more, found 0"),
        ] {
            assert_eq!(message(parameters), expected);
        }
    }
}
