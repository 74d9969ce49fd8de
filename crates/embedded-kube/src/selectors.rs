//! Label and field selectors with kube-apiserver's grammar and error texts.

mod field_selector;
mod label_selector;
mod lexer;
#[cfg(test)]
mod tests;

pub use self::{field_selector::FieldSelector, label_selector::LabelSelector};
