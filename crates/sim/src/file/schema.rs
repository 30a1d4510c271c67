//! The JSON Schema of device files, for editors and validators. It is made from the types that the reader fills, their bounds
//! ([`crate::bounds`]) and the table of units, so that both say the same.
//!
//! It says which keys there are, what kind of value and which units each has, and the bounds of each number in each unit. What depends
//! on several values is left to the reader: [`super::Kind`]'s parameters say what that is.

use serde_json::{Map, Value, json};

use super::measured::MOST_POINTS;
use super::reader::{KINDS, MOST_DEVICES};
use super::units::{UNITS, Unit, suffix_of};
use super::{FORMAT, SHIPPED, Written};
use crate::bounds::{Bounds, alternatives, has_type, is_number, names, schema_of};
use crate::{array, cached, disk, fixed, ssd};

/// The JSON Schema (draft 7, which TOML editors know) of device files.
#[must_use]
pub fn schema() -> Value {
    let mut schema = device();
    add(&mut schema, "properties", "format", json!({ "const": FORMAT }));
    add(&mut schema, "properties", "measured", reference("measured"));
    schema["required"] = json!(["format", "kind", "name"]);
    schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    schema["title"] = "iotrail device file".into();
    schema["definitions"] = json!({
        "text": { "type": "string", "minLength": 1 },
        "source": {
            "type": "string",
            "minLength": 1,
            "description": "Where the value is from: a data sheet, a measurement, a fit, an assumption.",
        },
        "error": {
            "description": "Standard error, in the unit of the value; of a list one for each of its numbers.",
            "anyOf": [
                { "type": "number", "minimum": 0 },
                { "type": "array", "items": { "type": "number", "minimum": 0 } },
            ],
        },
        "array": array(),
        "disk": table(&schema_of::<disk::Parameters>()),
        "fixed": table(&schema_of::<fixed::Parameters>()),
        "ssd": table(&schema_of::<ssd::Parameters>()),
        "written": table(&schema_of::<Written>()),
        "cache": cache(),
        "inner": inner(None),
        "member": inner(Some(member_count())),
        "measured": {
            "description": "Points behind the values: tables of columns, in the base unit that the column's name ends in.",
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "additionalProperties": {
                    "type": "array",
                    "items": { "type": "number" },
                    "maxItems": MOST_POINTS,
                },
            },
        },
    });
    schema
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/definitions/{name}") })
}

/// Puts a value under a key of one of a schema's objects.
fn add(schema: &mut Value, object: &str, key: &str, value: Value) {
    schema[object][key] = value;
}

/// A device: what [`super::reader::Reader::device`] reads.
fn device() -> Value {
    let mut properties = Map::new();
    properties.insert("kind".into(), json!({ "enum": KINDS }));
    for key in ["name", "notes"] {
        properties.insert(key.into(), reference("text"));
    }
    for key in KINDS.into_iter().chain(["written", "cache"]) {
        properties.insert(key.into(), reference(key));
    }
    let of_kind = |kind: &str| {
        let others = KINDS.into_iter().filter(|other| *other != kind);
        let others = others.chain((kind != "ssd").then_some("written"));
        let others: Map<String, Value> = others.map(|other| (other.to_owned(), false.into())).collect();
        json!({
            "if": { "properties": { "kind": { "const": kind } }, "required": ["kind"] },
            "then": { "properties": others, "required": [kind] },
        })
    };
    json!({
        "type": "object",
        "properties": properties,
        "required": ["kind"],
        "additionalProperties": false,
        "allOf": KINDS.map(of_kind),
    })
}

/// A device in another, by name or as a table; with what else stands in the table.
fn inner(count: Option<Value>) -> Value {
    let (mut by_name, mut by_table) = (object(Map::new(), &["device"]), device());
    add(&mut by_name, "properties", "device", named(json!({ "enum": SHIPPED.map(|(name, _)| name) })));
    if let Some(count) = count {
        add(&mut by_name, "properties", "count", count.clone());
        add(&mut by_table, "properties", "count", count);
    }
    json!({ "type": "object", "if": { "required": ["device"] }, "then": by_name, "else": by_table })
}

fn member_count() -> Value {
    let most = MOST_DEVICES;
    quantity("count", &json!({ "type": "integer", "minimum": 1, "maximum": most }), |number| number)
}

fn array() -> Value {
    let mut array = table(&schema_of::<array::Parameters>());
    let members =
        json!({ "type": "array", "minItems": 1, "maxItems": MOST_DEVICES, "items": reference("member") });
    add(&mut array, "properties", "member", members);
    if let Some(required) = array["required"].as_array_mut() {
        required.push("member".into());
    }
    array
}

fn cache() -> Value {
    let mut cache = table(&schema_of::<cached::Parameters>());
    add(&mut cache, "properties", "device", reference("inner"));
    cache
}

fn object(properties: Map<String, Value>, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// The key of a field in files: without its unit.
fn key_of(field: &str) -> &str {
    field.strip_suffix(suffix_of(field).unwrap_or_default()).unwrap_or(field)
}

fn fields_of(schema: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let fields = schema["properties"].as_object();
    fields.into_iter().flatten().map(|(field, schema)| (field.as_str(), schema))
}

fn required_of(schema: &Value) -> Vec<&str> {
    let required = schema["required"].as_array();
    required.into_iter().flatten().filter_map(Value::as_str).map(key_of).collect()
}

/// The table for a type with these fields.
fn table(schema: &Value) -> Value {
    let properties =
        fields_of(schema).map(|(field, schema)| (key_of(field).to_owned(), value(field, schema))).collect();
    let mut table = object(properties, &required_of(schema));
    describe(&mut table, schema);
    table
}

/// A field's documentation is that of its key.
fn describe(to: &mut Value, from: &Value) {
    if let Some(description) = from.get("description") {
        to["description"] = description.clone();
    }
}

/// What stands in a file for a field.
fn value(field: &str, schema: &Value) -> Value {
    let choices: Vec<&Value> = alternatives(schema).filter(|choice| !has_type(choice, "null")).collect();
    let mut described = if !choices.is_empty() {
        choice(&choices)
    } else if is_number(schema) {
        quantity(field, schema, |number| number)
    } else if has_type(schema, "array") {
        list(field, schema)
    } else if has_type(schema, "object") {
        table(schema)
    } else {
        // true or false, or one of some names
        named(without(schema, "description"))
    };
    describe(&mut described, schema);
    described
}

fn without(schema: &Value, key: &str) -> Value {
    let mut schema = schema.clone();
    if let Some(object) = schema.as_object_mut() {
        object.remove(key);
    }
    schema
}

/// One of some names, or one of some tables.
fn choice(choices: &[&Value]) -> Value {
    let names: Vec<&str> = choices.iter().flat_map(|choice| names(choice)).collect();
    let tables = choices.iter().filter(|choice| has_type(choice, "object")).map(|choice| table(choice));
    let names = (!names.is_empty()).then(|| named(json!({ "enum": names })));
    let mut all: Vec<Value> = names.into_iter().chain(tables).collect();
    if all.len() == 1 { all.remove(0) } else { json!({ "anyOf": all }) }
}

/// `{ value, source }`.
fn named(value: Value) -> Value {
    let properties = [("value", value), ("source", reference("source")), ("error", reference("error"))];
    let properties = properties.map(|(key, schema)| (key.to_owned(), schema)).into_iter().collect();
    object(properties, &["value", "source"])
}

/// A list of numbers, or of tables of numbers.
fn list(field: &str, schema: &Value) -> Value {
    let items = &schema["items"];
    let of = |items: Value| json!({ "type": "array", "minItems": schema["minItems"].as_u64().unwrap_or(0), "items": items });
    if is_number(items) {
        return quantity(field, items, of);
    }
    let (mut numbers, mut units, mut rules) = (Map::new(), Map::new(), Vec::new());
    for (field, schema) in fields_of(items) {
        let (key, known) = (key_of(field), units_of(field, schema));
        units.insert(key.to_owned(), json!({ "enum": names_of(&known) }));
        numbers.insert(
            key.to_owned(),
            if let [only] = known[..] { number(only, schema) } else { json!({ "type": "number" }) },
        );
        for unit in known.iter().filter(|_| known.len() > 1) {
            let is_unit =
                json!({ "properties": { "unit": { "properties": { key: { "const": unit.name } } } } });
            let bounds = of(json!({ "properties": { key: number(unit, schema) } }));
            rules.push(json!({ "if": is_unit, "then": { "properties": { "value": bounds } } }));
        }
    }
    let keys: Vec<&str> = required_of(items);
    let mut list = named(of(object(numbers, &keys)));
    add(&mut list, "properties", "unit", json!({ "type": "object", "properties": units, "required": keys }));
    list["required"] = json!(["value", "unit", "source"]);
    if !rules.is_empty() {
        list["allOf"] = rules.into();
    }
    list
}

/// `{ value, unit, source, error }` of a number, or what `of` makes of the schema of a number.
fn quantity(field: &str, schema: &Value, of: impl Fn(Value) -> Value) -> Value {
    let known = units_of(field, schema);
    let value = if let [only] = known[..] { number(only, schema) } else { json!({ "type": "number" }) };
    let mut quantity = named(of(value));
    add(&mut quantity, "properties", "unit", json!({ "enum": names_of(&known) }));
    quantity["required"] = json!(["value", "unit", "source"]);
    if known.len() > 1 {
        let rule = |unit: &&Unit| {
            json!({
                "if": { "properties": { "unit": { "const": unit.name } } },
                "then": { "properties": { "value": of(number(unit, schema)) } },
            })
        };
        quantity["allOf"] = known.iter().map(rule).collect();
    }
    quantity
}

/// The units that a field can have. Of those without an end in the field's name, whole numbers have counts only.
fn units_of(field: &str, schema: &Value) -> Vec<&'static Unit> {
    let suffix = suffix_of(field).unwrap_or_default();
    let is_count = suffix.is_empty() && has_type(schema, "integer");
    UNITS.iter().filter(|unit| unit.suffix == suffix && (unit.is_whole || !is_count)).collect()
}

fn names_of(units: &[&Unit]) -> Vec<&'static str> {
    units.iter().map(|unit| unit.name).collect()
}

/// Numbers in a unit whose value in the base unit a field can have.
fn number(unit: &Unit, schema: &Value) -> Value {
    let mut bounds = Bounds::of(schema);
    if schema["format"] == "uint32" {
        bounds.most = Some(bounds.most.unwrap_or(f64::from(u32::MAX)));
    }
    let bounds = unit.bounds(bounds);
    let kind = if unit.is_counted() { "integer" } else { "number" };
    let mut number = json!({ "type": kind });
    for (key, bound) in [
        ("minimum", bounds.least),
        ("maximum", bounds.most),
        ("exclusiveMinimum", bounds.above),
        ("exclusiveMaximum", bounds.below),
    ] {
        if let Some(bound) = bound {
            number[key] = bound.into();
        }
    }
    number
}
