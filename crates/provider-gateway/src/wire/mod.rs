//! Wire formats on raw bytes. Everything here is pure.

pub mod grpc;
pub mod messages;
pub mod method;
pub mod msgpack;
pub mod schema;

pub use capt_util::protobuf;
