//! `FieldsV1`: `f:` field, `k:` keys of an item, `v:` value of an item, `i:` index, `.` the element itself.

use serde_json::{Map, Value};

use super::{FieldSet, FieldSetEntry, PathElement, ScalarKey};

impl FieldSet {
    /// Encodes as `fieldsV1`.
    pub fn encode(&self) -> Value {
        Value::Object(self.encode_into(Map::new()))
    }

    fn encode_into(&self, mut out: Map<String, Value>) -> Map<String, Value> {
        for (element, entry) in &self.entries {
            let mut below = Map::new();
            if entry.member && !entry.children.is_empty() {
                below.insert(".".to_owned(), Value::Object(Map::new()));
            }
            out.insert(element.encode(), Value::Object(entry.children.encode_into(below)));
        }
        out
    }

    /// Decodes `fieldsV1`; elements of an unknown type are skipped.
    pub fn decode(fields: &Value) -> Result<Self, String> {
        match fields {
            Value::Null => Ok(Self::default()),
            Value::Object(map) => Ok(decode(map)?.children),
            _ => Err("ReadMapCB: expect { or n".to_owned()),
        }
    }
}

fn decode(map: &Map<String, Value>) -> Result<FieldSetEntry, String> {
    let mut entry = FieldSetEntry::default();
    for (key, value) in map {
        if key == "." {
            entry.member = true;
            continue;
        }
        let Some(element) = PathElement::decode(key)? else { continue };
        let below = match value {
            Value::Object(map) => decode(map)?,
            Value::Null => FieldSetEntry::leaf(),
            _ => return Err("ReadMapCB: expect { or n".to_owned()),
        };
        entry.children.insert(element, below);
    }
    if entry.children.is_empty() {
        entry.member = true;
    }
    Ok(entry)
}

impl PathElement {
    fn encode(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(keys) => {
                let keys: Map<String, Value> =
                    keys.iter().map(|(name, value)| (name.clone(), value.value().clone())).collect();
                format!("k:{}", escape_html(&Value::Object(keys).to_string()))
            }
            Self::Value(value) => format!("v:{}", escape_html(&value.value().to_string())),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    /// `None` for an unknown type.
    fn decode(text: &str) -> Result<Option<Self>, String> {
        let mut letters = text.chars();
        let (Some(kind), Some(colon)) = (letters.next(), letters.next()) else {
            return Err("key must be 2 characters long:".to_owned());
        };
        if colon != ':' {
            return Err(format!("missing colon: {text}"));
        }
        let rest = letters.as_str();
        let json = || serde_json::from_str::<Value>(rest).map_err(|error| error.to_string());
        Ok(Some(match kind {
            'f' => Self::Field(rest.to_owned()),
            'v' => Self::Value(ScalarKey::from_value(&json()?)),
            'k' => match json()? {
                Value::Object(map) => {
                    let mut keys: Vec<(String, ScalarKey)> = map
                        .iter()
                        .map(|(name, value)| (name.clone(), ScalarKey::from_value(value)))
                        .collect();
                    keys.sort();
                    Self::Key(keys)
                }
                _ => return Err(format!("expected an object: {rest}")),
            },
            'i' => Self::Index(
                rest.parse().map_err(|_| format!("strconv.Atoi: parsing {rest:?}: invalid syntax"))?,
            ),
            _ => return Ok(None),
        }))
    }
}

/// Go escapes HTML characters in JSON.
fn escape_html(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_read_and_written_in_the_servers_order() {
        let text = r#"{"f:b":{".":{},"k:{\"name\":\"x\",\"port\":80}":{".":{},"f:c":{}},"v:\"a\"":{},"i:3":{}},"f:a":{}}"#;
        let set = FieldSet::decode(&serde_json::from_str(text).unwrap()).unwrap();
        assert_eq!(
            set.encode().to_string(),
            r#"{"f:a":{},"f:b":{".":{},"k:{\"name\":\"x\",\"port\":80}":{".":{},"f:c":{}},"v:\"a\"":{},"i:3":{}}}"#
        );
        let paths: Vec<String> =
            set.paths().iter().map(|path| path.iter().map(ToString::to_string).collect()).collect();
        assert_eq!(
            paths,
            [".a", ".b", r#".b[name="x",port=80]"#, r#".b[="a"]"#, ".b[3]", r#".b[name="x",port=80].c"#]
        );
    }

    #[test]
    fn what_is_unknown_is_left_out_and_what_is_wrong_is_refused() {
        assert_eq!(FieldSet::decode(&json!({"z:what": {}, "f:a": {}})).unwrap().encode(), json!({"f:a": {}}));
        for wrong in [
            json!({"a": {}}),
            json!({"field": {}}),
            json!({"v:{": {}}),
            json!({"i:x": {}}),
            json!({"f:a": 1}),
            json!([]),
        ] {
            assert!(FieldSet::decode(&wrong).is_err(), "{wrong}");
        }
    }

    fn element() -> impl Strategy<Value = PathElement> {
        let datum = || {
            prop_oneof![
                any::<i32>().prop_map(Value::from),
                any::<bool>().prop_map(Value::from),
                ".{0,4}".prop_map(Value::from),
                (-9_i32..9).prop_map(|number| Value::from(f64::from(number) / 2.0)),
            ]
            .prop_map(|value| ScalarKey::from_value(&value))
        };
        prop_oneof![
            ".{0,5}".prop_map(PathElement::Field),
            datum().prop_map(PathElement::Value),
            any::<i16>().prop_map(|index| PathElement::Index(index.into())),
            prop::collection::btree_map("[a-z]{1,3}", datum(), 1..3)
                .prop_map(|keys| PathElement::Key(keys.into_iter().collect())),
        ]
    }

    pub fn set() -> impl Strategy<Value = FieldSet> {
        let leaf = Just(FieldSet::default());
        leaf.prop_recursive(4, 30, 4, |inner| {
            prop::collection::vec((element(), any::<bool>(), inner), 0..4).prop_map(|entries| {
                let mut set = FieldSet::default();
                for (element, member, below) in entries {
                    set.insert(element, FieldSetEntry { member, children: below });
                }
                set
            })
        })
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(set in set()) {
            prop_assert_eq!(FieldSet::decode(&set.encode()).unwrap(), set);
        }

        #[test]
        fn arbitrary_json_is_read_or_refused(value in super::super::super::arbitrary::value()) {
            let _either = FieldSet::decode(&value);
        }

        #[test]
        fn sets_obey_their_laws(one in set(), two in set()) {
            let mut union = one.clone();
            union.union_with(two.clone());
            prop_assert_eq!(&union.intersection(&one), &one);
            let mut rest = union.clone();
            rest.subtract(&one);
            prop_assert!(rest.intersection(&one).is_empty());
            let common = one.intersection(&two);
            prop_assert_eq!(&common, &two.intersection(&one));
            rest.union_with(one);
            prop_assert_eq!(rest, union);
        }
    }
}
