//! Custom resource definitions: the kind itself, and what follows from one.

mod columns;
mod custom;
mod jsonpath;
mod order;
mod resources;
mod view;

#[cfg(test)]
mod tests;

pub use self::resources::resources;
