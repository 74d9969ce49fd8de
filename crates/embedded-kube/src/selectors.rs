//! Label and field selectors: the real server's grammar, its complaints, and what matches.

mod fields;
mod labels;
mod lexer;
#[cfg(test)]
mod tests;

pub use self::{fields::FieldSelector, labels::LabelSelector};
