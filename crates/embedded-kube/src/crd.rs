//! Custom resource definitions: the kind itself, and what follows from one.

mod approval;
mod check;
mod columns;
mod custom;
mod definition;
mod formats;
mod jsonpath;
mod keeper;
mod order;
mod resources;
mod status;
mod view;

#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use self::{
    definition::FINALIZER,
    keeper::{Cleaner, Keeper},
};
use crate::registry::Rules;

/// Defaults, checks and the first delete of a CRD.
pub fn rules() -> Arc<dyn Rules> {
    Arc::new(definition::Definition)
}
