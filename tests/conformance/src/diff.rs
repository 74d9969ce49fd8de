//! Where two transcripts differ, in words for a reader.

use serde_json::Value;

use crate::Transcript;

const MAX_DEPTH: usize = 64;

/// One difference: where, what was expected, what came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) path: String,
    pub(crate) expected: Option<Value>,
    pub(crate) actual: Option<Value>,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { path: place, expected, actual } = self;
        write!(
            f,
            "{place}\n      real: {}\n      here: {}",
            format_value(expected.as_ref()),
            format_value(actual.as_ref())
        )
    }
}

fn format_value(value: Option<&Value>) -> String {
    let text = value.map_or_else(|| "(nothing)".to_owned(), Value::to_string);
    match text.char_indices().nth(600) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// All differences between two transcripts.
pub(crate) fn differences(expected: &Transcript, actual: &Transcript) -> Vec<Difference> {
    let mut found = Vec::new();
    compare("", &Value::Object(expected.clone()), &Value::Object(actual.clone()), MAX_DEPTH, &mut found);
    if found.is_empty() && !expected.keys().eq(actual.keys()) {
        let keys = |transcript: &Transcript| Some(transcript.keys().cloned().collect());
        found.push(Difference { path: "(order)".into(), expected: keys(expected), actual: keys(actual) });
    }
    found
}

fn compare(place: &str, expected: &Value, actual: &Value, depth: usize, found: &mut Vec<Difference>) {
    match (expected, actual) {
        (Value::Object(left), Value::Object(right)) if depth > 0 => {
            for (key, value) in left {
                let place = format!("{place}/{key}");
                match right.get(key) {
                    Some(other) => compare(&place, value, other, depth - 1, found),
                    None => {
                        found.push(Difference { path: place, expected: Some(value.clone()), actual: None });
                    }
                }
            }
            for (key, value) in right.iter().filter(|(key, _)| !left.contains_key(*key)) {
                let place = format!("{place}/{key}");
                found.push(Difference { path: place, expected: None, actual: Some(value.clone()) });
            }
        }
        (Value::Array(left), Value::Array(right)) if depth > 0 && left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                compare(&format!("{place}/{index}"), left, right, depth - 1, found);
            }
        }
        (left, right) if left == right => {}
        (left, right) => found.push(Difference {
            path: place.to_owned(),
            expected: Some(left.clone()),
            actual: Some(right.clone()),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn transcript(value: Value) -> Transcript {
        Transcript::from_iter([("seen".to_owned(), value)])
    }

    #[test]
    fn equal_transcripts_do_not_differ() {
        assert_eq!(differences(&transcript(json!({ "a": [1] })), &transcript(json!({ "a": [1] }))), []);
    }

    #[test]
    fn a_difference_names_its_place() {
        let found =
            differences(&transcript(json!({ "a": [1, 2] })), &transcript(json!({ "a": [1, 3], "b": 0 })));
        let places: Vec<&str> = found.iter().map(|difference| difference.path.as_str()).collect();
        assert_eq!(places, ["/seen/a/1", "/seen/b"]);
    }
}
