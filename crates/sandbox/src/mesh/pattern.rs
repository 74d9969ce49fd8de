//! Regular expressions that match a routing key in a list header, for meshes.
//!
//! The expression of a key matches a header exactly if [`sandbox_router::key`] finds this key in it: members that carry no key are
//! skipped, the first that does decides. RE2, the dialect of meshes, has no look-ahead, so "a member that carries no key" is
//! spelled out letter by letter. Two differences remain: a value of more than 63 characters, which is no key, hides the members
//! after it; and the whole header is read, not only its first 8192 bytes.

use sandbox_router::key::MEMBER_NAMES;

/// Whitespace around separators.
const BLANK: &str = "[ \\t]*";
/// The rest of a member.
const REST: &str = "[^,]*";

/// Encoding of values in a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueEncoding {
    /// Percent-encoded (`%6b` for `k`), as in `baggage`.
    PercentEncoded,
    /// Not encoded, as in `tracestate`.
    Plain,
}

/// Matches list headers in which the key is found.
pub(super) fn list_header_pattern(key: &str, writing: ValueEncoding) -> String {
    let names = MEMBER_NAMES.join("|");
    let value: String = key.chars().map(|it| char_pattern(it, writing)).collect();
    let skipped = other_member_pattern(writing);
    format!("^(?:{skipped},)*{BLANK}(?:{names}){BLANK}={BLANK}{value}{BLANK}(?:;{REST})?(?:,.*)?$")
}

/// One character of a key.
fn char_pattern(it: char, writing: ValueEncoding) -> String {
    let plain = regex::escape(&it.to_string());
    if writing == ValueEncoding::Plain {
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
fn other_member_pattern(writing: ValueEncoding) -> String {
    let [one, other] = MEMBER_NAMES;
    let common: String = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a).collect();
    let after = non_key_value_pattern(writing);
    let branch = |name: &str| {
        let rest = &name[common.len()..];
        let first: String = rest.chars().take(1).collect();
        format!("{first}{}", not_prefix_pattern(&rest[first.len()..], &after))
    };
    let firsts: String = MEMBER_NAMES.iter().filter_map(|it| it[common.len()..].chars().next()).collect();
    let fork = format!("(?:|[^{firsts},]{REST}|{}|{})", branch(one), branch(other));
    // Leading whitespace is already consumed, so the first letter is not whitespace.
    let mut letters = common.chars();
    let first = letters.next().map(String::from).unwrap_or_default();
    let inner = not_prefix_pattern(letters.as_str(), &fork);
    format!("{BLANK}(?:|[^{first} \\t,]{REST}|{first}{inner})")
}

/// Matches text that does not begin with `word`, or that continues with `after`.
fn not_prefix_pattern(word: &str, after: &str) -> String {
    word.chars().rev().fold(after.to_owned(), |inner, letter| {
        let letter = regex::escape(&letter.to_string());
        format!("(?:|[^{letter},]{REST}|{letter}{inner})")
    })
}

/// What may follow the name of a member that carries no key: no `=`, or one and then no key.
fn non_key_value_pattern(writing: ValueEncoding) -> String {
    let (inner, outer, hyphen, broken) = match writing {
        ValueEncoding::Plain => ("[a-z0-9-]", "[a-z0-9]", "-", String::new()),
        ValueEncoding::PercentEncoded => (
            "(?:[a-z0-9-]|%(?:2[dD]|3[0-9]|6[1-9a-fA-F]|7[0-9aA]))",
            "(?:[a-z0-9]|%(?:3[0-9]|6[1-9a-fA-F]|7[0-9aA]))",
            "(?:-|%2[dD])",
            foreign_escape_pattern(),
        ),
    };
    let percent = if writing == ValueEncoding::PercentEncoded { "%" } else { "" };
    // Empty; a character that is not part of a key; a leading or trailing hyphen; whitespace inside.
    let foreign = format!("(?:[^a-z0-9,; \\t{percent}-]{REST}{broken})");
    let end = format!("{BLANK}(?:;{REST})?");
    let value = format!(
        "(?:{end}|;{REST}|{foreign}|{hyphen}{REST}|{outer}{inner}*(?:{foreign}|[ \\t]+[^,; \\t]{REST})|{outer}{inner}*{hyphen}{end})"
    );
    format!("{BLANK}(?:|[^= \\t,]{REST}|={BLANK}{value})")
}

/// A percent escape that does not encode a character of a key.
fn foreign_escape_pattern() -> String {
    let not = |good: &str| format!("(?:|[^{good},]{REST})");
    format!("|%(?:|[^2367,]{REST}|2{}|3{}|6{}|7{})", not("dD"), not("0-9"), not("1-9a-fA-F"), not("0-9aA"))
}
