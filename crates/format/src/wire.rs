//! How agents and the collector speak: Arrow Flight, one `DoPut` a table.
//!
//! The descriptor of a stream is the path `[table]`; its schema is the table's (`crate::schema`; text plain or as a
//! dictionary, nullable columns may be left out). Every message with rows has in `app_metadata` its sequence
//! number, 8 bytes, little endian, which grows within one [`HEADER_AGENT`] and table. The collector answers with
//! `PutResult`s whose `app_metadata` is the highest number such that all up to it are durable: what isn't answered
//! is sent again, by a new stream or a restarted agent, and a number that was taken before is answered and dropped.

/// Version of the above. Agent and collector must have the same.
pub const VERSION: &str = "1";

/// Header of a `DoPut`: [`VERSION`].
pub const HEADER_VERSION: &str = "iotrail-wire";

/// Header of a `DoPut`: the sender's name for its numbering, never used again for another one.
pub const HEADER_AGENT: &str = "iotrail-agent";

/// Header of a `DoPut`: the machine it is from, for messages to people.
pub const HEADER_NODE: &str = "iotrail-node";

/// Header of a `DoPut`: `1` if a row may be sent again under another number, as an agent does that reads a storage
/// system's history anew after a restart. The collector takes each only once.
pub const HEADER_REPEATS: &str = "iotrail-repeats";

/// Prefix of the value of a `node` or `parent_node` column that names a member of the cluster (see table
/// `member`), such as `@osd.3`, whose machine the sender doesn't know. The collector puts the machine's in its place.
pub const MEMBER_PREFIX: &str = "@";

/// The value of `parent_node` if the sender knows only the breadcrumb. The collector looks for its machine.
pub const UNKNOWN_NODE: &str = "";

/// Port on which the collector listens by default, for agents and for OpenTelemetry's gRPC (whose port it is).
pub const PORT: u16 = 4317;

/// Port on which it listens besides, for OpenTelemetry's HTTP (whose port it is); both ports serve everything.
pub const HTTP_PORT: u16 = 4318;
