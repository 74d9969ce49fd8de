//! Parser for lists of `name=value;properties`, the syntax of `baggage` and `tracestate`.

/// The members of a list without their properties. Invalid members are skipped.
///
/// A truncated list (`whole` is false) may end in a partial member, which is skipped too.
pub(super) fn members(list: &[u8], whole: bool) -> impl Iterator<Item = (&str, &str)> {
    let end = if whole { Some(list.len()) } else { list.iter().rposition(|byte| *byte == b',') };
    let list = &list[..end.unwrap_or(0)];
    list.split(|byte| *byte == b',').filter_map(parse_member)
}

/// Parses one member.
fn parse_member(text: &[u8]) -> Option<(&str, &str)> {
    let own = text.split(|byte| *byte == b';').next()?;
    let middle = own.iter().position(|byte| *byte == b'=')?;
    let (name, value) = (trim(&own[..middle]), trim(&own[middle + 1..]));
    let is_fine = !name.is_empty()
        && name.iter().all(|byte| is_name_byte(*byte))
        && value.iter().all(|byte| is_value_byte(*byte));
    if !is_fine {
        return None;
    }
    Some((std::str::from_utf8(name).ok()?, std::str::from_utf8(value).ok()?))
}

/// Trims the optional whitespace around separators.
fn trim(text: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let Some(begin) = text.iter().position(|byte| !is_blank(byte)) else { return &[] };
    let end = text.iter().rposition(|byte| !is_blank(byte)).map_or(begin, |last| last + 1);
    &text[begin..end]
}

/// An HTTP token character; names in `tracestate` may also contain `@` and `/`.
const fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
                | b'@'
                | b'/'
        )
}

/// Printable and neither separator nor quote.
const fn is_value_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b',' | b';' | b'\\')
}
