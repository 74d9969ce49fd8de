//! The `capt` command.

fn main() {}
