//! Lists of `name=value;properties` as `baggage` and `tracestate` have them.

/// The members of a list, without their properties. What is no member is left out.
///
/// A list that was cut off (`whole` is false) may end in half a member; that one is left out too.
pub(super) fn members(list: &[u8], whole: bool) -> impl Iterator<Item = (&str, &str)> {
    let end = if whole { Some(list.len()) } else { list.iter().rposition(|byte| *byte == b',') };
    let list = &list[..end.unwrap_or(0)];
    list.split(|byte| *byte == b',').filter_map(member)
}

/// A name and a value.
fn member(text: &[u8]) -> Option<(&str, &str)> {
    let own = text.split(|byte| *byte == b';').next()?;
    let middle = own.iter().position(|byte| *byte == b'=')?;
    let (name, value) = (trim(&own[..middle]), trim(&own[middle + 1..]));
    let is_fine = !name.is_empty()
        && name.iter().all(|byte| is_name(*byte))
        && value.iter().all(|byte| is_value(*byte));
    if !is_fine {
        return None;
    }
    Some((std::str::from_utf8(name).ok()?, std::str::from_utf8(value).ok()?))
}

/// Without the blanks that are allowed around separators.
fn trim(text: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let Some(begin) = text.iter().position(|byte| !is_blank(byte)) else { return &[] };
    let end = text.iter().rposition(|byte| !is_blank(byte)).map_or(begin, |last| last + 1);
    &text[begin..end]
}

/// A character of a token of HTTP; names in `tracestate` may also have `@` and `/`.
const fn is_name(byte: u8) -> bool {
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

/// Printable, and none of those that separate or quote.
const fn is_value(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b',' | b';' | b'\\')
}
