//! What goes over the wire, as bytes. Everything here is pure.

pub mod grpc;
pub mod messages;
pub mod method;
pub mod msgpack;
pub mod proto;
pub mod schema;
