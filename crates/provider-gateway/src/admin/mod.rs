//! The way into a gateway in another process: JSON over a unix socket, a line for each question and each answer.

mod client;
mod protocol;
mod server;

pub use client::{AskError, Client};
pub use protocol::{Answer, Live, Question, Report};
pub use server::Listening;
