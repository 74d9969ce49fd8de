//! What the objects mean: text that was parsed once, specs with nothing left to question.
//!
//! Raw specs come in, `Validated…` values go out, and everything downstream reads only those. Nothing here knows a client,
//! a file, a clock or a process.
//!
//! A validator collects every problem of an object. Its verdict is the API server's wherever schema or CEL can express the
//! rule on that field; it goes further for quotas (they are settings), for fields that upstream leaves unchecked, and for
//! rules that look at several objects.

mod access;
mod addons;
mod cidr;
mod shape;

pub mod apply;
pub mod class;
pub mod control_plane;
pub mod fargate;
pub mod grant;
pub mod identity;
pub mod limits;
pub mod names;
pub mod network;
pub mod overlap;
pub mod problem;
pub mod references;
pub mod tags;
pub mod template;
pub mod text;
pub mod update;
pub mod version;

pub use cidr::Cidr;
pub use limits::Limits;
pub use problem::Problem;
pub use references::ObjectKey;
pub use text::{Malformed, Parse};
pub use version::KubernetesVersion;
