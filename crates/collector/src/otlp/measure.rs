//! What a message of OpenTelemetry takes once it is decoded, counted before it is.
//!
//! A span without a field is two bytes of protobuf, or three of JSON, and some 260 bytes of memory; gzip packs a million
//! of them into two kilobytes. Decoders bound the bytes of a message and how deep it is nested, not what it decodes to:
//! prost has no such option. So a message is walked first, by what OpenTelemetry's protocol says of it
//! (`opentelemetry/proto/collector/trace/v1/trace_service.proto`, OTLP 1.x), in time linear in its bytes and without memory.
//!
//! Memory is counted as the decoders take it: a vector doubles as it grows, and each allocation has what glibc's malloc
//! adds. Where one message of a field is sent in parts, which decoders merge, the count may be up to twice too low or any
//! amount too high.

use std::fmt;

use opentelemetry_proto::tonic::common::v1::{AnyValue, EntityRef, KeyValue};
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::DecodeError;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// What a message decodes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    /// Bytes of memory, at most at once.
    pub bytes: u64,
    /// Spans.
    pub spans: u64,
    /// Events of spans.
    pub events: u64,
    /// Links of spans.
    pub links: u64,
    /// Attributes of all of these, of resources and scopes, and pairs within attributes.
    pub attributes: u64,
}

impl fmt::Display for Decoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes, spans, events, links, attributes } = self;
        write!(f, "{bytes} bytes ({spans} spans, {events} events, {links} links, {attributes} attributes)")
    }
}

/// A kind of message: its repeated and its variable fields, which are all that takes more than its own size.
struct Shape {
    /// Its size in memory.
    size: u64,
    /// Where it is counted.
    count: fn(&mut Decoded) -> Option<&mut u64>,
    fields: &'static [Field],
}

struct Field {
    /// In protobuf.
    number: u32,
    /// In JSON.
    name: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    /// Text or bytes.
    Text,
    Texts,
    One(&'static Shape),
    Many(&'static Shape),
    /// In JSON only: what is skipped by the decoder, or takes no memory of its own.
    Other,
}

/// Fields of a message at most.
const MOST_FIELDS: usize = 9;
/// Messages in messages: prost's limit is 100.
const MOST_NESTED: u32 = 128;
/// A `String` or a `Vec`.
const TEXT: u64 = size_of::<String>() as u64;
/// A value of serde's `Content`, in which values of attributes are kept while they are read (`#[serde(flatten)]`).
const CONTENT: u64 = 32;

const fn shape(size: usize, count: fn(&mut Decoded) -> Option<&mut u64>, fields: &'static [Field]) -> Shape {
    assert!(fields.len() <= MOST_FIELDS, "a message has more fields than are counted");
    Shape { size: size as u64, count, fields }
}

const fn field(number: u32, name: &'static str, kind: Kind) -> Field {
    Field { number, name, kind }
}

static REQUEST: Shape = shape(0, |_| None, &[field(1, "resourceSpans", Kind::Many(&RESOURCE_SPANS))]);
static RESOURCE_SPANS: Shape = shape(
    size_of::<ResourceSpans>(),
    |_| None,
    &[
        field(1, "resource", Kind::One(&RESOURCE)),
        field(2, "scopeSpans", Kind::Many(&SCOPE_SPANS)),
        field(3, "schemaUrl", Kind::Text),
    ],
);
static RESOURCE: Shape = shape(
    0,
    |_| None,
    &[field(1, "attributes", Kind::Many(&KEY_VALUE)), field(3, "entityRefs", Kind::Many(&ENTITY_REF))],
);
static ENTITY_REF: Shape = shape(
    size_of::<EntityRef>(),
    |_| None,
    &[
        field(1, "schemaUrl", Kind::Text),
        field(2, "type", Kind::Text),
        field(3, "idKeys", Kind::Texts),
        field(4, "descriptionKeys", Kind::Texts),
    ],
);
static SCOPE_SPANS: Shape = shape(
    size_of::<ScopeSpans>(),
    |_| None,
    &[
        field(1, "scope", Kind::One(&SCOPE)),
        field(2, "spans", Kind::Many(&SPAN)),
        field(3, "schemaUrl", Kind::Text),
    ],
);
static SCOPE: Shape = shape(
    0,
    |_| None,
    &[
        field(1, "name", Kind::Text),
        field(2, "version", Kind::Text),
        field(3, "attributes", Kind::Many(&KEY_VALUE)),
    ],
);
static SPAN: Shape = shape(
    size_of::<Span>(),
    |decoded| Some(&mut decoded.spans),
    &[
        field(1, "traceId", Kind::Text),
        field(2, "spanId", Kind::Text),
        field(3, "traceState", Kind::Text),
        field(4, "parentSpanId", Kind::Text),
        field(5, "name", Kind::Text),
        field(9, "attributes", Kind::Many(&KEY_VALUE)),
        field(11, "events", Kind::Many(&EVENT)),
        field(13, "links", Kind::Many(&LINK)),
        field(15, "status", Kind::One(&STATUS)),
    ],
);
static EVENT: Shape = shape(
    size_of::<Event>(),
    |decoded| Some(&mut decoded.events),
    &[field(2, "name", Kind::Text), field(3, "attributes", Kind::Many(&KEY_VALUE))],
);
static LINK: Shape = shape(
    size_of::<Link>(),
    |decoded| Some(&mut decoded.links),
    &[
        field(1, "traceId", Kind::Text),
        field(2, "spanId", Kind::Text),
        field(3, "traceState", Kind::Text),
        field(4, "attributes", Kind::Many(&KEY_VALUE)),
    ],
);
static STATUS: Shape = shape(0, |_| None, &[field(2, "message", Kind::Text)]);
static KEY_VALUE: Shape = shape(
    size_of::<KeyValue>(),
    |decoded| Some(&mut decoded.attributes),
    &[field(1, "key", Kind::Text), field(2, "value", Kind::One(&ANY_VALUE))],
);
static ANY_VALUE: Shape = shape(
    size_of::<AnyValue>(),
    |_| None,
    &[
        field(1, "stringValue", Kind::Text),
        field(5, "arrayValue", Kind::One(&ARRAY)),
        field(6, "kvlistValue", Kind::One(&PAIRS)),
        field(7, "bytesValue", Kind::Text),
    ],
);
static ARRAY: Shape = shape(0, |_| None, &[field(1, "values", Kind::Many(&ANY_VALUE))]);
static PAIRS: Shape = shape(0, |_| None, &[field(1, "values", Kind::Many(&KEY_VALUE))]);

/// Bytes of memory that an allocation of so many takes: glibc's malloc has a head of 8 bytes, multiples of 16, 32 at least.
fn allocation(bytes: u64) -> u64 {
    if bytes == 0 { 0 } else { bytes.saturating_add(8).next_multiple_of(16).max(32) }
}

/// Bytes of a text.
fn text(bytes: u64) -> u64 {
    allocation(bytes)
}

/// Bytes of a vector that got so many items of a size, one after the other: it has room for 4, then doubles.
fn vector(items: u64, size: u64) -> u64 {
    if items == 0 { 0 } else { allocation(items.next_power_of_two().max(4).saturating_mul(size)) }
}

/// Bytes that a vector of so many items grows by when it gets one more.
fn grown(items: u64, size: u64) -> u64 {
    vector(items + 1, size) - vector(items, size)
}

impl Decoded {
    /// What a message in protobuf decodes to.
    ///
    /// # Errors
    /// What was expected and found.
    pub fn of_protobuf(message: &[u8]) -> Result<Self, String> {
        let mut decoded = Self::default();
        decoded.walk(&REQUEST, message, 0)?;
        Ok(decoded)
    }

    fn take(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn count(&mut self, shape: &Shape) {
        if let Some(count) = (shape.count)(self) {
            *count += 1;
        }
    }

    fn walk(&mut self, shape: &'static Shape, mut left: &[u8], nested: u32) -> Result<(), String> {
        if nested > MOST_NESTED {
            return Err(format!("expected at most {MOST_NESTED} messages in each other"));
        }
        self.count(shape);
        let mut items = [0_u64; MOST_FIELDS];
        let said = |e: DecodeError| e.to_string();
        while !left.is_empty() {
            let (number, wire) = decode_key(&mut left).map_err(said)?;
            let Some(at) = shape.fields.iter().position(|field| field.number == number) else {
                skip_field(wire, number, &mut left, DecodeContext::default()).map_err(said)?;
                continue;
            };
            let field = &shape.fields[at];
            if wire != WireType::LengthDelimited {
                return Err(format!(
                    "field {}: expected wire type LengthDelimited, found {wire:?}",
                    field.name
                ));
            }
            let length = decode_varint(&mut left).map_err(said)?;
            let inside = usize::try_from(length).ok().and_then(|length| left.split_at_checked(length));
            let Some((inside, rest)) = inside else {
                return Err(format!("field {}: expected {length} bytes, found {}", field.name, left.len()));
            };
            left = rest;
            match field.kind {
                Kind::Text => self.take(text(length)),
                Kind::Texts => self.take(grown(items[at], TEXT).saturating_add(text(length))),
                Kind::Many(shape) => {
                    self.take(grown(items[at], shape.size));
                    self.walk(shape, inside, nested + 1)?;
                }
                Kind::One(shape) => self.walk(shape, inside, nested + 1)?,
                Kind::Other => {}
            }
            items[at] += 1;
        }
        Ok(())
    }

    /// What a message in JSON decodes to, and the most memory that decoding it takes meanwhile.
    ///
    /// # Errors
    /// What was expected and found.
    pub fn of_json(message: &[u8]) -> Result<Self, serde_json::Error> {
        let mut json = Json::default();
        let mut reader = serde_json::Deserializer::from_slice(message);
        Walk { kind: Kind::One(&REQUEST), json: &mut json }.deserialize(&mut reader)?;
        reader.end()?;
        json.decoded.bytes = json.decoded.bytes.max(json.most);
        Ok(json.decoded)
    }
}

/// What was counted of a message in JSON.
///
/// The value of an attribute is kept whole, whatever it is, before anything is made of it.
#[derive(Default)]
struct Json {
    decoded: Decoded,
    /// Values of attributes that are being read, in each other.
    values: u32,
    /// Bytes of the outermost of them while it is kept.
    kept: u64,
    /// The most bytes so far, of what is decoded and kept.
    most: u64,
}

impl Json {
    fn keep(&mut self, bytes: u64) {
        if self.values > 0 {
            self.kept = self.kept.saturating_add(bytes);
        }
    }
}

/// Reads one value of a kind and counts it.
struct Walk<'a> {
    kind: Kind,
    json: &'a mut Json,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.kind {
            // The decoder skips it too.
            Kind::Other if self.json.values == 0 => {
                deserializer.deserialize_ignored_any(IgnoredAny).map(drop)
            }
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl Walk<'_> {
    fn scalar<E: serde::de::Error>(self, found: &str) -> Result<(), E> {
        match self.kind {
            Kind::Text | Kind::Other => Ok(()),
            _ => Err(E::custom(format_args!("expected {}, found {found}", self.kind.name()))),
        }
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Text => "a text",
            Self::Texts | Self::Many(_) => "an array",
            Self::One(_) => "an object",
            Self::Other => "anything",
        }
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<(), E> {
        self.scalar("a boolean")
    }

    fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<(), E> {
        self.scalar("a number")
    }

    fn visit_u64<E: serde::de::Error>(self, _: u64) -> Result<(), E> {
        self.scalar("a number")
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<(), E> {
        self.scalar("a number")
    }

    fn visit_str<E: serde::de::Error>(self, found: &str) -> Result<(), E> {
        let bytes = text(found.len() as u64);
        self.json.keep(bytes);
        if matches!(self.kind, Kind::Text) {
            self.json.decoded.take(bytes);
        }
        self.scalar("a text")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let (kind, size) = match self.kind {
            Kind::Many(shape) => (Kind::One(shape), shape.size),
            Kind::Texts => (Kind::Text, TEXT),
            Kind::Other => (Kind::Other, 0),
            // The decoder takes a message's fields one after the other too; the protocol doesn't have that.
            Kind::Text | Kind::One(_) => {
                return Err(A::Error::custom(format_args!("expected {}, found an array", self.kind.name())));
            }
        };
        let mut count = 0;
        while items.next_element_seed(Walk { kind, json: &mut *self.json })?.is_some() {
            self.json.decoded.take(grown(count, size));
            self.json.keep(grown(count, CONTENT));
            count += 1;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<(), A::Error> {
        let fields = match self.kind {
            Kind::One(shape) => {
                self.json.decoded.count(shape);
                shape.fields
            }
            Kind::Other => &[],
            _ => {
                return Err(A::Error::custom(format_args!("expected {}, found an object", self.kind.name())));
            }
        };
        let is_value = matches!(self.kind, Kind::One(shape) if std::ptr::eq(shape, &raw const ANY_VALUE));
        self.json.values += u32::from(is_value);
        let mut count = 0;
        while let Some((kind, length)) = pairs.next_key_seed(Name(fields))? {
            // Kept once as it is read, and again while a message is made of it.
            self.json.keep(2 * grown(count, 2 * CONTENT) + text(length));
            count += 1;
            pairs.next_value_seed(Walk { kind, json: &mut *self.json })?;
        }
        self.json.values -= u32::from(is_value);
        if self.json.values == 0 {
            let bytes = self.json.decoded.bytes.saturating_add(std::mem::take(&mut self.json.kept));
            self.json.most = self.json.most.max(bytes);
        }
        Ok(())
    }
}

/// Reads the name of one of these fields. Returns what is expected there, and the bytes of the name.
struct Name(&'static [Field]);

impl<'de> DeserializeSeed<'de> for Name {
    type Value = (Kind, u64);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = (Kind, u64);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        let field = self.0.iter().find(|field| field.name == name);
        Ok((field.map_or(Kind::Other, |field| field.kind), name.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::common::v1::{ArrayValue, InstrumentationScope, KeyValueList};
    use opentelemetry_proto::tonic::resource::v1::Resource;
    use opentelemetry_proto::tonic::trace::v1::Status;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use prost::Message as _;

    use super::*;

    /// The same by looking at what was decoded.
    #[derive(Default)]
    struct Oracle(Decoded);

    impl Oracle {
        fn of(request: &ExportTraceServiceRequest) -> Decoded {
            let mut oracle = Self::default();
            oracle.vec(&request.resource_spans);
            for spans in &request.resource_spans {
                oracle.text(&spans.schema_url);
                if let Some(resource) = &spans.resource {
                    oracle.pairs(&resource.attributes);
                    oracle.vec(&resource.entity_refs);
                    for entity in &resource.entity_refs {
                        oracle.text(&entity.schema_url);
                        oracle.text(&entity.r#type);
                        for keys in [&entity.id_keys, &entity.description_keys] {
                            oracle.vec(keys);
                            keys.iter().for_each(|key| oracle.text(key));
                        }
                    }
                }
                oracle.vec(&spans.scope_spans);
                for scope in &spans.scope_spans {
                    oracle.text(&scope.schema_url);
                    if let Some(scope) = &scope.scope {
                        oracle.text(&scope.name);
                        oracle.text(&scope.version);
                        oracle.pairs(&scope.attributes);
                    }
                    oracle.vec(&scope.spans);
                    scope.spans.iter().for_each(|span| oracle.span(span));
                }
            }
            oracle.0
        }

        fn span(&mut self, span: &Span) {
            self.0.spans += 1;
            for bytes in [&span.trace_id, &span.span_id, &span.parent_span_id] {
                self.vec(bytes);
            }
            self.text(&span.trace_state);
            self.text(&span.name);
            self.pairs(&span.attributes);
            self.vec(&span.events);
            for event in &span.events {
                self.0.events += 1;
                self.text(&event.name);
                self.pairs(&event.attributes);
            }
            self.vec(&span.links);
            for link in &span.links {
                self.0.links += 1;
                self.vec(&link.trace_id);
                self.vec(&link.span_id);
                self.text(&link.trace_state);
                self.pairs(&link.attributes);
            }
            if let Some(status) = &span.status {
                self.text(&status.message);
            }
        }

        fn pairs(&mut self, pairs: &Vec<KeyValue>) {
            self.vec(pairs);
            for pair in pairs {
                self.0.attributes += 1;
                self.text(&pair.key);
                pair.value.iter().for_each(|value| self.value(value));
            }
        }

        fn value(&mut self, value: &AnyValue) {
            match &value.value {
                Some(Value::StringValue(text)) => self.text(text),
                Some(Value::BytesValue(bytes)) => self.vec(bytes),
                Some(Value::KvlistValue(list)) => self.pairs(&list.values),
                Some(Value::ArrayValue(list)) => {
                    self.vec(&list.values);
                    list.values.iter().for_each(|value| self.value(value));
                }
                _ => {}
            }
        }

        fn text(&mut self, text: &String) {
            self.0.bytes += allocation(text.capacity() as u64);
        }

        fn vec<T>(&mut self, items: &Vec<T>) {
            self.0.bytes += allocation((items.capacity() * size_of::<T>()) as u64);
        }
    }

    fn value() -> impl Strategy<Value = AnyValue> {
        let leaf = prop_oneof![
            Just(None),
            ".{0,9}".prop_map(|text| Some(Value::StringValue(text))),
            any::<i64>().prop_map(|number| Some(Value::IntValue(number))),
            any::<bool>().prop_map(|is| Some(Value::BoolValue(is))),
            vec(any::<u8>(), 0..40).prop_map(|bytes| Some(Value::BytesValue(bytes))),
        ]
        .prop_map(|value| AnyValue { value });
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..7).prop_map(|values| Value::ArrayValue(ArrayValue { values })),
                vec(("[a-z]{0,30}", inner), 0..7).prop_map(|pairs| {
                    let values = pairs.into_iter().map(pair).collect();
                    Value::KvlistValue(KeyValueList { values })
                }),
            ]
            .prop_map(|value| AnyValue { value: Some(value) })
        })
    }

    fn pair((key, value): (String, AnyValue)) -> KeyValue {
        KeyValue { key, value: Some(value), ..KeyValue::default() }
    }

    fn pairs() -> impl Strategy<Value = Vec<KeyValue>> {
        vec(("[a-z.]{0,20}", value()).prop_map(pair), 0..6)
    }

    fn id() -> impl Strategy<Value = Vec<u8>> {
        vec(any::<u8>(), 0..17)
    }

    fn span() -> impl Strategy<Value = Span> {
        let event = (".{0,9}", pairs()).prop_map(|(name, attributes)| Event {
            name,
            attributes,
            time_unix_nano: 7,
            ..Event::default()
        });
        let link = (id(), id(), pairs()).prop_map(|(trace_id, span_id, attributes)| Link {
            trace_id,
            span_id,
            attributes,
            flags: 1,
            ..Link::default()
        });
        let status = proptest::option::of(".{0,40}")
            .prop_map(|message| message.map(|message| Status { message, code: 2 }));
        let ids = (id(), id(), id());
        (ids, ".{0,30}", "[a-z=,]{0,9}", pairs(), vec(event, 0..6), vec(link, 0..6), status).prop_map(
            |(ids, name, trace_state, attributes, events, links, status)| Span {
                trace_id: ids.0,
                span_id: ids.1,
                parent_span_id: ids.2,
                trace_state,
                name,
                attributes,
                events,
                links,
                status,
                kind: 3,
                start_time_unix_nano: 1000,
                flags: 256,
                ..Span::default()
            },
        )
    }

    fn request() -> impl Strategy<Value = ExportTraceServiceRequest> {
        let entity = (".{0,9}", vec("[a-z]{0,9}", 0..6)).prop_map(|(of, id_keys)| EntityRef {
            r#type: of,
            description_keys: id_keys.clone(),
            id_keys,
            ..EntityRef::default()
        });
        let resource = (pairs(), vec(entity, 0..3)).prop_map(|(attributes, entity_refs)| Resource {
            attributes,
            entity_refs,
            ..Resource::default()
        });
        let scope = (".{0,9}", pairs()).prop_map(|(name, attributes)| InstrumentationScope {
            name,
            version: "1".to_owned(),
            attributes,
            ..InstrumentationScope::default()
        });
        let scope_spans = (proptest::option::of(scope), vec(span(), 0..6)).prop_map(|(scope, spans)| {
            ScopeSpans { scope, spans, schema_url: "https://example.org".to_owned() }
        });
        let resource_spans =
            (proptest::option::of(resource), vec(scope_spans, 0..4)).prop_map(|(resource, scope_spans)| {
                ResourceSpans { resource, scope_spans, schema_url: String::new() }
            });
        vec(resource_spans, 0..4).prop_map(|resource_spans| ExportTraceServiceRequest { resource_spans })
    }

    fn json_like() -> impl Strategy<Value = String> {
        let word = prop_oneof![
            Just("resourceSpans"),
            Just("scopeSpans"),
            Just("spans"),
            Just("attributes"),
            Just("value"),
            Just("arrayValue"),
            Just("values"),
            Just("x"),
        ];
        let leaf = prop_oneof![Just("null".to_owned()), Just("7".to_owned()), Just("\"t\"".to_owned())];
        leaf.prop_recursive(6, 60, 5, move |inner| {
            prop_oneof![
                vec(inner.clone(), 0..5).prop_map(|items| format!("[{}]", items.join(","))),
                vec((word.clone(), inner), 0..4).prop_map(|pairs| {
                    let pairs: Vec<_> =
                        pairs.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
                    format!("{{{}}}", pairs.join(","))
                }),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn a_message_decodes_to_what_was_counted(request in request()) {
            let message = request.encode_to_vec();
            let decoded = ExportTraceServiceRequest::decode(&*message).unwrap();
            prop_assert_eq!(Decoded::of_protobuf(&message), Ok(Oracle::of(&decoded)));

            let message = serde_json::to_vec(&request).unwrap();
            let decoded: ExportTraceServiceRequest = serde_json::from_slice(&message).unwrap();
            let (found, expected) = (Decoded::of_json(&message).unwrap(), Oracle::of(&decoded));
            prop_assert!(found.bytes >= expected.bytes, "{} {}", found, expected);
            prop_assert_eq!(Decoded { bytes: 0, ..found }, Decoded { bytes: 0, ..expected });
        }

        /// What prost and serde take is taken, and isn't larger than what was counted.
        #[test]
        fn a_damaged_message_is_bounded_too(
            request in request(),
            damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            let mut message = request.encode_to_vec();
            prop_assume!(!message.is_empty());
            for (at, byte) in damage {
                let at = at.index(message.len());
                message[at] = byte;
            }
            let counted = Decoded::of_protobuf(&message);
            if let Ok(decoded) = ExportTraceServiceRequest::decode(&*message) {
                prop_assert!(Oracle::of(&decoded).bytes <= 2 * counted.unwrap().bytes);
            }
        }

        #[test]
        fn any_bytes_are_counted_or_refused(message in vec(any::<u8>(), 0..200), text in json_like()) {
            let _ = Decoded::of_protobuf(&message);
            let _ = Decoded::of_json(&message);
            let counted = Decoded::of_json(text.as_bytes());
            if let (Ok(counted), Ok(decoded)) =
                (counted, serde_json::from_str::<ExportTraceServiceRequest>(&text))
            {
                prop_assert!(counted.bytes >= Oracle::of(&decoded).bytes, "{}", text);
            }
        }
    }

    /// A field of a message, in protobuf.
    fn wrap(number: u8, inside: &[u8]) -> Vec<u8> {
        let mut field = vec![number << 3 | 2];
        prost::encoding::encode_varint(inside.len() as u64, &mut field);
        [&field, inside].concat()
    }

    #[test]
    fn small_messages_of_much_are_seen() {
        // Spans without a byte.
        let message = wrap(1, &wrap(2, &[0x12, 0].repeat(1_000_000)));
        let decoded = Decoded::of_protobuf(&message).unwrap();
        assert_eq!(decoded.spans, 1_000_000);
        assert!(decoded.bytes > 250_000_000, "{decoded}");
        let spans = vec!["{}"; 1_000_000].join(",");
        let message = format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{spans}]}}]}}]}}"#);
        assert_eq!(Decoded::of_json(message.as_bytes()).unwrap().spans, 1_000_000);

        // Of a value that has no meaning, all is kept while it is read.
        let zeros = vec!["0"; 1_000_000].join(",");
        let message = format!(
            r#"{{"resourceSpans":[{{"resource":{{"attributes":[{{"value":{{"x":[{zeros}]}}}}]}}}}]}}"#
        );
        let decoded = Decoded::of_json(message.as_bytes()).unwrap();
        assert!(decoded.bytes > 32_000_000, "{decoded}");
        // Elsewhere it is skipped.
        let message = format!(r#"{{"resourceSpans":[{{"x":[{zeros}]}}]}}"#);
        assert!(Decoded::of_json(message.as_bytes()).unwrap().bytes < 1000);

        // A span as a list of its fields, which serde takes.
        let refused = Decoded::of_json(br#"{"resourceSpans":[{"scopeSpans":[{"spans":[[],[]]}]}]}"#);
        assert!(refused.unwrap_err().to_string().contains("expected an object, found an array"));
    }

    #[test]
    fn nesting_is_bounded() {
        let mut value = wrap(1, b"x");
        for _ in 0..200_000 {
            value = wrap(5, &wrap(1, &value));
            if value.len() > 1 << 16 {
                break;
            }
        }
        let message = wrap(1, &wrap(1, &wrap(1, &wrap(2, &value))));
        assert!(Decoded::of_protobuf(&message).unwrap_err().contains("in each other"));
        // Groups, which are skipped.
        assert!(Decoded::of_protobuf(&[0xfb, 0x07].repeat(100_000)).unwrap_err().contains("recursion"));
        assert!(Decoded::of_json("[".repeat(100_000).as_bytes()).is_err());
    }
}
