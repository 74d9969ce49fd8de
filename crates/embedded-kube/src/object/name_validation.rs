//! Validates names and labels. Each function returns kube-apiserver's errors, none if the value is valid.

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

/// kube-apiserver counts bytes, but calls them characters in names.
fn too_long(most: usize) -> String {
    format!("must be no more than {most} characters")
}

fn too_many_bytes(most: usize) -> String {
    format!("must be no more than {most} bytes")
}

/// Only the length error mentions bytes.
fn in_bytes(text: &str) -> String {
    if text.starts_with("must be no more than") {
        text.replace("characters", "bytes")
    } else {
        text.to_owned()
    }
}

fn regex_error(what: &str, pattern: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|word| format!("'{word}'")).collect();
    format!("{what} (e.g. {}, regex used for validation is '{pattern}')", examples.join(",  or "))
}

fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.iter().all(|byte| inner(*byte) || *byte == b'-')
        && bytes.first().is_some_and(|byte| inner(*byte))
        && bytes.last().is_some_and(|byte| inner(*byte))
}

fn is_qualified(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
}

/// RFC 1123 label, for example namespace names.
pub fn dns1123_label(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 63 {
        wrong.push(too_long(63));
    }
    if !is_label(text) {
        if dns1123_subdomain(text).is_empty() {
            wrong.push("must not contain dots".to_owned());
        } else {
            let what = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
            wrong.push(regex_error(what, LABEL, &["my-name", "123-abc"]));
        }
    }
    wrong
}

/// RFC 1123 subdomain, for most object names.
pub fn dns1123_subdomain(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 253 {
        wrong.push(too_long(253));
    }
    if !text.split('.').all(is_label) {
        let what = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
        wrong.push(regex_error(what, SUBDOMAIN, &["example.com"]));
    }
    wrong
}

/// RFC 1035 label, for Service names.
pub fn dns1035_label(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 63 {
        wrong.push(too_long(63));
    }
    if !is_label(text) || !text.starts_with(|letter: char| letter.is_ascii_lowercase()) {
        let what = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character";
        wrong.push(regex_error(what, "[a-z]([-a-z0-9]*[a-z0-9])?", &["my-name", "abc-123"]));
    }
    wrong
}

/// A name with an optional DNS prefix: label keys, annotation keys, finalizers.
pub fn qualified_name(text: &str) -> Vec<String> {
    let what = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
    let examples = ["MyName", "my.name", "123-abc"];
    let mut wrong = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".to_owned());
            } else {
                let faults = dns1123_subdomain(prefix).into_iter();
                wrong.extend(faults.map(|text| format!("prefix part {}", in_bytes(&text))));
            }
            *name
        }
        _ => {
            let text = regex_error(what, QUALIFIED, &examples);
            return vec![format!(
                "a valid label key {text} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        wrong.push(format!("name part {}", too_many_bytes(63)));
    }
    if !is_qualified(name) {
        wrong.push(format!("name part {}", regex_error(what, QUALIFIED, &examples)));
    }
    wrong
}

/// A label's key.
pub fn label_key(text: &str) -> Vec<String> {
    qualified_name(text)
}

/// A label's value.
pub fn label_value(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 63 {
        wrong.push(too_many_bytes(63));
    }
    if !text.is_empty() && !is_qualified(text) {
        let what = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
        wrong.push(regex_error(
            what,
            "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
            &["MyValue", "my_value", "12345"],
        ));
    }
    wrong
}

/// A valid path segment, for RBAC object names.
pub fn path_segment(text: &str) -> Vec<String> {
    if text == "." || text == ".." {
        return vec![format!("may not be '{text}'")];
    }
    ['/', '%']
        .iter()
        .filter(|bad| text.contains(**bad))
        .map(|bad| format!("may not contain '{bad}'"))
        .collect()
}
