//! A routing key in a header, as a regular expression for those who can do no more than that.
//!
//! The expression for a key matches a header exactly if [`sandbox_router::key`] finds this key in it: members that cannot
//! carry a key are skipped, the first that does decides. There is no look-ahead in the dialect of meshes (RE2), so "a member
//! that carries no key" is spelled out letter by letter. Two things are beyond it: a value of more than 63 characters, which
//! is no key, hides what comes after it; and all of a header is read, not only its first 8192 bytes.

use sandbox_router::key::MEMBERS;

/// What stands around separators.
const BLANK: &str = "[ \\t]*";
/// The rest of a member.
const REST: &str = "[^,]*";

/// How values are written in a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writing {
    /// With `%6b` for `k`, as in `baggage`.
    Percent,
    /// As they are, as in `tracestate`.
    Plain,
}

/// Matches the lists of members in which a key is found.
pub(super) fn of_list(key: &str, writing: Writing) -> String {
    let names = MEMBERS.join("|");
    let value: String = key.chars().map(|it| written(it, writing)).collect();
    let skipped = skipped(writing);
    format!("^(?:{skipped},)*{BLANK}(?:{names}){BLANK}={BLANK}{value}{BLANK}(?:;{REST})?(?:,.*)?$")
}

/// One character of a key.
fn written(it: char, writing: Writing) -> String {
    let plain = regex::escape(&it.to_string());
    if writing == Writing::Plain {
        return plain;
    }
    let code = u32::from(it);
    let low = match char::from_digit(code % 16, 16).unwrap_or('0') {
        digit @ '0'..='9' => digit.to_string(),
        letter => format!("[{letter}{}]", letter.to_ascii_uppercase()),
    };
    format!("(?:{plain}|%{}{low})", code / 16)
}

/// A member that carries no key.
fn skipped(writing: Writing) -> String {
    let [one, other] = MEMBERS;
    let common: String = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a).collect();
    let after = not_a_value(writing);
    let branch = |name: &str| {
        let rest = &name[common.len()..];
        let first: String = rest.chars().take(1).collect();
        format!("{first}{}", unlike(&rest[first.len()..], &after))
    };
    let firsts: String = MEMBERS.iter().filter_map(|it| it[common.len()..].chars().next()).collect();
    let fork = format!("(?:|[^{firsts},]{REST}|{}|{})", branch(one), branch(other));
    // The blanks are taken before, so the first letter is none.
    let mut letters = common.chars();
    let first = letters.next().map(String::from).unwrap_or_default();
    let inner = unlike(letters.as_str(), &fork);
    format!("{BLANK}(?:|[^{first} \\t,]{REST}|{first}{inner})")
}

/// Texts that do not begin with `word`, or do and go on with `after`.
fn unlike(word: &str, after: &str) -> String {
    word.chars().rev().fold(after.to_owned(), |inner, letter| {
        let letter = regex::escape(&letter.to_string());
        format!("(?:|[^{letter},]{REST}|{letter}{inner})")
    })
}

/// What may follow the name of a member that carries no key: no `=`, or one and then no key.
fn not_a_value(writing: Writing) -> String {
    let (inner, outer, hyphen, broken) = match writing {
        Writing::Plain => ("[a-z0-9-]", "[a-z0-9]", "-", String::new()),
        Writing::Percent => (
            "(?:[a-z0-9-]|%(?:2[dD]|3[0-9]|6[1-9a-fA-F]|7[0-9aA]))",
            "(?:[a-z0-9]|%(?:3[0-9]|6[1-9a-fA-F]|7[0-9aA]))",
            "(?:-|%2[dD])",
            broken_percent(),
        ),
    };
    let percent = if writing == Writing::Percent { "%" } else { "" };
    // Nothing; something that is no part of a key, at the begin or later; a hyphen at the begin or at the end; a blank inside.
    let foreign = format!("(?:[^a-z0-9,; \\t{percent}-]{REST}{broken})");
    let end = format!("{BLANK}(?:;{REST})?");
    let value = format!(
        "(?:{end}|;{REST}|{foreign}|{hyphen}{REST}|{outer}{inner}*(?:{foreign}|[ \\t]+[^,; \\t]{REST})|{outer}{inner}*{hyphen}{end})"
    );
    format!("{BLANK}(?:|[^= \\t,]{REST}|={BLANK}{value})")
}

/// A percent sign that does not stand for a character of a key.
fn broken_percent() -> String {
    let not = |good: &str| format!("(?:|[^{good},]{REST})");
    format!("|%(?:|[^2367,]{REST}|2{}|3{}|6{}|7{})", not("dD"), not("0-9"), not("1-9a-fA-F"), not("0-9aA"))
}
