//! How much is done, and for how long: the only reader of such variables. The whole properties ask for more than `make test` has
//! time for; CONTRIBUTING.md has a line that gives it to them.

use std::str::FromStr;

#[expect(clippy::disallowed_methods, reason = "a test reads the environment that it was started in")]
pub(crate) fn number<T: FromStr>(variable: &str, usual: T) -> T {
    let said = std::env::var(variable).ok().filter(|it| !it.is_empty());
    said.map_or(usual, |it| it.parse().unwrap_or_else(|_| panic!("{variable} is a number, not {it:?}")))
}
