//! Sizes and durations from environment variables. The full sizes take longer than `make test` allows; `make check` and
//! `make soak` set them (docs/testing.md).

use std::str::FromStr;

#[expect(clippy::disallowed_methods, reason = "a test reads the environment that it was started in")]
pub(crate) fn env_number<T: FromStr>(variable: &str, usual: T) -> T {
    let said = std::env::var(variable).ok().filter(|it| !it.is_empty());
    said.map_or(usual, |it| it.parse().unwrap_or_else(|_| panic!("{variable} is a number, not {it:?}")))
}
