//! Addresses of resource instances, `module.a["x"].aws_subnet.private["b"]`, taken apart for a state file.

use serde_json::Value;

/// The parts of the address of a managed resource instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceAddress {
    /// Path of the module; `None` for the root module.
    pub module: Option<String>,
    /// The resource's type.
    pub kind: String,
    /// The name in the configuration.
    pub name: String,
    /// Key in `count` or `for_each`.
    pub index: Option<Value>,
}

impl InstanceAddress {
    /// Takes an address apart; `None` if it is none of a managed resource.
    pub fn parse(address: &str) -> Option<Self> {
        let mut parts = split(address);
        let last = parts.pop()?;
        let kind = parts.pop()?;
        let (name, index) = split_index(last)?;
        if !parts.len().is_multiple_of(2) || parts.iter().step_by(2).any(|word| *word != "module") {
            return None;
        }
        let module = (!parts.is_empty()).then(|| parts.join("."));
        Some(Self { module, kind: kind.to_owned(), name: name.to_owned(), index })
    }
}

/// Splits at dots outside of an index.
fn split(address: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth, mut quoted, mut escaped) = (Vec::new(), 0, 0_u32, false, false);
    for (at, letter) in address.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '[' if !quoted => depth += 1,
            ']' if !quoted => depth = depth.saturating_sub(1),
            '.' if !quoted && depth == 0 => {
                parts.push(address.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(address.get(start..).unwrap_or_default());
    parts
}

/// Name and index. Keys are quoted as in HCL, which is JSON except that `${` and `%{` are doubled.
fn split_index(part: &str) -> Option<(&str, Option<Value>)> {
    let Some((name, index)) = part.split_once('[') else { return Some((part, None)) };
    let index = index.strip_suffix(']')?.replace("$${", "${").replace("%%{", "%{");
    Some((name, Some(serde_json::from_str(&index).ok()?)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_address_has_a_module_a_type_a_name_and_an_index() {
        let parse =
            |address| InstanceAddress::parse(address).map(|it| (it.module, it.kind, it.name, it.index));
        let owned = str::to_owned;
        assert_eq!(parse("aws_vpc.a"), Some((None, owned("aws_vpc"), owned("a"), None)));
        assert_eq!(parse("aws_vpc.a[0]"), Some((None, owned("aws_vpc"), owned("a"), Some(json!(0)))));
        assert_eq!(
            parse(r#"module.m["x.y"].module.n.aws_subnet.b["$${a}]\"."]"#),
            Some((
                Some(owned(r#"module.m["x.y"].module.n"#)),
                owned("aws_subnet"),
                owned("b"),
                Some(json!("${a}]\"."))
            ))
        );
        for no in ["", "aws_vpc", "data.aws_vpc.a", "x.aws_vpc.a", "aws_vpc.a[", "aws_vpc.a[x]"] {
            assert_eq!(parse(no), None, "{no}");
        }
    }
}
