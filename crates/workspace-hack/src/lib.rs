//! Nothing but dependencies: the features that all builds of this workspace share. See `scripts/unify-features`.
