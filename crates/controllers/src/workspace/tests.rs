//! The pure steps of a workspace; the decisions have their own tables in `decide/tests`.

mod events;
mod status;
