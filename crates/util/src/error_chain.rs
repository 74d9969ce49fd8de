//! Errors with their causes, for messages and for searching.

use std::error::Error;

/// The error and its causes, outermost first.
pub fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// The error and its causes in one text, joined by `: `. A cause whose text the error repeats is left out.
pub fn format_error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    for cause in error.source().into_iter().flat_map(chain) {
        let message = cause.to_string();
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
    }
    text
}

/// The first line of the innermost cause.
pub fn root_cause(error: &(dyn Error + 'static)) -> String {
    let text = chain(error).last().map(ToString::to_string).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot {verb} the file")]
    struct Outer {
        verb: &'static str,
        #[source]
        source: io::Error,
    }

    #[derive(Debug, thiserror::Error)]
    #[error("upload failed: {0}")]
    struct Repeating(#[source] Outer);

    fn error() -> Outer {
        Outer { verb: "read", source: io::Error::other("disk on fire\nsecond line") }
    }

    #[test]
    fn causes_follow_the_error() {
        assert_eq!(format_error_chain(&error()), "cannot read the file: disk on fire\nsecond line");
    }

    #[test]
    fn a_cause_that_the_error_repeats_is_shown_once() {
        let text = format_error_chain(&Repeating(error()));
        assert_eq!(text, "upload failed: cannot read the file: disk on fire\nsecond line");
    }

    #[test]
    fn the_root_cause_is_one_line_of_the_innermost_error() {
        assert_eq!(root_cause(&Repeating(error())), "disk on fire");
    }
}
