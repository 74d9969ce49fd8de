//! Decodes request bodies: JSON, YAML and protobuf, together with the errors that strict field validation reports.
//!
//! One pass yields both the value and the duplicate fields; the last duplicate wins, as in kube-apiserver. Error texts
//! are those of Go's decoders because clients print them.

mod duplicate_keys;

use serde::de::DeserializeSeed;
use serde_json::{Map, Value};
use serde_saphyr::options::DuplicateKeyPolicy;

use self::duplicate_keys::ValueWithDuplicates;
use crate::{
    go_syntax_error::syntax_error,
    hex::hex,
    status_error::{ApiResult, StatusError},
    types,
};

/// Maximum size of a request body.
pub const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// Accepted media types, as listed in the 415 error.
const ACCEPTED_MEDIA_TYPES: [&str; 3] =
    ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// Decodes a body; also returns the errors that only strict validation reports, with kube-apiserver's texts.
///
/// `kind` is the kind that the endpoint expects; error texts name it.
pub fn decode(content_type: &str, body: &[u8], kind: &str) -> ApiResult<(Value, Vec<String>)> {
    match content_type {
        "" | "application/json" => {
            decode_json(body).and_then(require_object).map_err(|why| unrecognized(kind, &why, body))
        }
        "application/yaml" => {
            decode_yaml(body).and_then(require_object).map_err(|why| unrecognized(kind, &why, body))
        }
        "application/vnd.kubernetes.protobuf" => {
            // The envelope names the type; these values are the fallback.
            let expected = types::ExpectedKind { group: "", version: "v1", kind };
            types::from_protobuf(body, expected).map(|value| (value, Vec::new()))
        }
        _ => Err(unsupported_media_type(&ACCEPTED_MEDIA_TYPES)),
    }
}

/// Rejects values that are not objects; an empty body is an empty object.
fn require_object((value, problems): (Value, Vec<String>)) -> Result<(Value, Vec<String>), String> {
    let what = match value {
        Value::Object(_) => return Ok((value, problems)),
        Value::Null => return Ok((Value::Object(Map::new()), problems)),
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "bool",
    };
    let fields = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
    Err(format!("json: cannot unmarshal {what} into Go value of type {fields}"))
}

/// 415 with the list of accepted media types.
pub fn unsupported_media_type(accepted: &[&str]) -> StatusError {
    let text = format!(
        "the body of the request was in an unknown format - accepted media types include: {}",
        accepted.join(", ")
    );
    StatusError::new(415, "UnsupportedMediaType", text, None)
}

/// Decodes JSON; also returns the paths of duplicate fields.
pub fn decode_json(body: &[u8]) -> Result<(Value, Vec<String>), String> {
    // Go replaces invalid UTF-8 with replacement characters; an error here would be stricter than kube-apiserver.
    let text = String::from_utf8_lossy(body);
    let mut duplicates = Vec::new();
    let mut reader = serde_json::Deserializer::from_str(&text);
    let read = ValueWithDuplicates::root(&mut duplicates).deserialize(&mut reader);
    let whole = read.and_then(|value| reader.end().map(|()| value));
    match whole {
        Ok(value) => {
            Ok((value, duplicates.iter().map(|path| format!("duplicate field \"{path}\"")).collect()))
        }
        Err(why) => Err(syntax_error(text.as_bytes()).unwrap_or_else(|| why.to_string())),
    }
}

/// Decodes a YAML document; also reports duplicate keys.
pub fn decode_yaml(body: &[u8]) -> Result<(Value, Vec<String>), String> {
    let text = std::str::from_utf8(body).map_err(|_| "yaml: invalid leading UTF-8 octet".to_owned())?;
    if text.trim().is_empty() {
        return Ok((Value::Null, Vec::new()));
    }
    let strict = yaml_options(DuplicateKeyPolicy::Error);
    match yaml_with(text, strict) {
        Ok(value) => Ok((value, Vec::new())),
        Err(first) => {
            let loose = yaml_options(DuplicateKeyPolicy::LastWins);
            let value = yaml_with(text, loose).map_err(|why| malformed_yaml(&why))?;
            Ok((value, vec![duplicate_key(&first)]))
        }
    }
}

/// YAML 1.1 as in kube-apiserver: `0644` is octal, `yes` is true.
fn yaml_options(duplicate_keys: DuplicateKeyPolicy) -> serde_saphyr::Options {
    serde_saphyr::options! { duplicate_keys: duplicate_keys, legacy_octal_numbers: true }
}

fn yaml_with(text: &str, options: serde_saphyr::Options) -> Result<Value, serde_saphyr::Error> {
    serde_saphyr::with_deserializer_from_str_with_options(text, options, |reader| {
        ValueWithDuplicates::root(&mut Vec::new()).deserialize(reader)
    })
}

/// The error text of kube-apiserver's YAML reader, which omits the line number for the first line.
fn malformed_yaml(why: &serde_saphyr::Error) -> String {
    let text = why.without_snippet().to_string();
    let text = text.lines().next().unwrap_or_default();
    let text = text.rsplit_once(" at line ").map_or(text, |(text, _)| text);
    match why.location().map_or(0, |at| at.line()) {
        0 | 1 => format!("yaml: {text}"),
        line => format!("yaml: line {line}: {text}"),
    }
}

fn duplicate_key(why: &serde_saphyr::Error) -> String {
    let line = why.location().map_or(0, |at| at.line());
    let key = match why.without_snippet() {
        serde_saphyr::Error::DuplicateMappingKey { key, .. } => key.as_deref().unwrap_or_default(),
        _ => "",
    };
    format!("yaml: unmarshal errors:\n  line {line}: key \"{key}\" already set in map")
}

fn unrecognized(kind: &str, why: &str, body: &[u8]) -> StatusError {
    let text = if why.starts_with("yaml: ") {
        why.to_owned()
    } else {
        format!("couldn't get version/kind; json parse error: {why}")
    };
    let summary = body_excerpt(body);
    StatusError::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {text} ({summary})"
    ))
}

/// The start of a body as kube-apiserver quotes it: text if it looks like JSON, else hexadecimal digits.
pub fn body_excerpt(body: &[u8]) -> String {
    const MOST: usize = 30;
    let start = body.get(..MOST).unwrap_or(body);
    let rest = if body.len() > MOST { " ..." } else { "" };
    match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{rest}", String::from_utf8_lossy(start)),
        Some(_) => {
            format!("{}{rest}", hex(start))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn duplicate_fields_are_named_by_path_and_the_last_wins() {
        let (value, problems) = decode_json(br#"{"a":1,"b":[{"c":1,"c":2}],"a":3}"#).unwrap();
        assert_eq!(value, json!({"a": 3, "b": [{"c": 2}]}));
        assert_eq!(problems, [r#"duplicate field "b[0].c""#, r#"duplicate field "a""#]);
    }

    #[test]
    fn malformed_json_is_refused_in_go_words() {
        let failure = decode("application/json", b"{\"a\":", "Secret").unwrap_err();
        assert_eq!(
            failure.message(),
            "the object provided is unrecognized (must be of type Secret): couldn't get version/kind; json parse error: unexpected end of JSON input ({\"a\":)"
        );
        assert_eq!(failure.code(), 400);
    }

    #[test]
    fn what_is_no_object_has_no_type() {
        let failure = decode("", b"[]", "ConfigMap").unwrap_err();
        assert_eq!(
            failure.message(),
            r#"the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" } (5b5d)"#
        );
        assert_eq!(decode("", b"null", "ConfigMap").unwrap().0, json!({}));
        assert_eq!(decode("application/yaml", b"", "ConfigMap").unwrap().0, json!({}));
    }

    #[test]
    fn malformed_yaml_is_told_with_its_line_unless_that_is_the_first() {
        let failure = decode("application/yaml", b"a: b: c", "ConfigMap").unwrap_err();
        assert_eq!(
            failure.message(),
            "the object provided is unrecognized (must be of type ConfigMap): yaml: mapping values are not allowed in this context (613a20623a2063)"
        );
    }

    #[test]
    fn an_empty_body_is_summed_up_as_empty() {
        let failure = decode("", b"", "Pod").unwrap_err();
        assert!(
            failure.message().ends_with("unexpected end of JSON input (<empty>)"),
            "{}",
            failure.message()
        );
    }

    #[test]
    fn yaml_is_read_and_a_key_that_came_twice_is_told_with_its_line() {
        let (value, problems) =
            decode_yaml(b"kind: A\nmetadata:\n  name: first\n  name: second\n1: z\n").unwrap();
        assert_eq!(value, json!({"kind": "A", "metadata": {"name": "second"}, "1": "z"}));
        assert_eq!(problems, ["yaml: unmarshal errors:\n  line 4: key \"name\" already set in map"]);
    }

    #[test]
    fn yaml_is_read_by_the_old_rules() {
        let (value, _) = decode_yaml(b"mode: 0644\non: yes\ntext: '0644'\n").unwrap();
        assert_eq!(value, json!({"mode": 420, "on": true, "text": "0644"}));
    }

    #[test]
    fn invalid_utf8_is_replaced_in_json() {
        let (value, _) = decode_json(b"{\"a\":\"\xff\"}").unwrap();
        assert_eq!(value, json!({"a": "\u{fffd}"}));
    }

    #[test]
    fn deep_nesting_is_refused_rather_than_followed() {
        let deep = decode_json("[".repeat(100_000).as_bytes());
        assert_eq!(deep, Err("invalid character '[' exceeded max depth".to_owned()));
        assert!(decode_yaml("[".repeat(10_000).as_bytes()).is_err());
    }

    #[test]
    fn a_foreign_media_type_is_refused_with_the_list() {
        let failure = decode("text/plain", b"x", "Pod").unwrap_err();
        assert_eq!(failure.code(), 415);
        assert!(
            failure
                .message()
                .ends_with("application/json, application/yaml, application/vnd.kubernetes.protobuf")
        );
    }
}
