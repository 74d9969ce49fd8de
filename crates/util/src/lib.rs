//! One copy of what several crates need: byte sizes, clock, error chains, durable files, protobuf fields and `SigV4` signatures.

pub mod byte_size;
pub mod clock;
pub mod durable_file;
pub mod error_chain;
pub mod protobuf;
pub mod sigv4;
