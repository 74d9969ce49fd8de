use proptest::prelude::*;
use serde_json::{Value, json};

use super::{super::*, *};

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[\"\\\\\n$%{}a]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(any::<String>(), inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

proptest! {
    #[test]
    fn any_value_comes_back_from_the_tfvars_as_it_went_in(values in proptest::collection::btree_map("[a-z_]{1,8}", any_value(), 1..6)) {
        let mut request = module(&[("main.tf", AWS)]);
        request.variables = map(&json!(values));
        let rendered = render(&request).unwrap();
        prop_assert_eq!(json_of(&rendered, "terraform.tfvars.json"), json!(values));
    }

    #[test]
    fn the_order_of_the_input_does_not_matter(values in proptest::collection::btree_map("[a-z_]{1,8}", any_value(), 1..6)) {
        let mut request = module(&[("main.tf", AWS)]);
        request.variables = map(&json!(values));
        let one = render(&request).unwrap();
        request.variables = values.into_iter().rev().collect();
        prop_assert_eq!(render(&request).unwrap(), one);
    }

    #[test]
    fn no_text_of_a_user_adds_anything_to_the_provider_file(region in any::<String>(), tag in "[\"\\\\\n$%{}a]{0,8}") {
        let mut request = inline(AWS);
        request.provider = Some(ProviderBlock {
            region: region.clone(),
            default_tags: [(tag.clone(), tag.clone())].into(),
            ..ProviderBlock::default()
        });
        let body = json_of(&render(&request).unwrap(), "capt_provider.tf.json")["provider"]["aws"].clone();
        prop_assert_eq!(body.as_object().unwrap().len(), 2);
        let tags = body["default_tags"][0]["tags"].as_object().unwrap();
        for (text, meant) in [(body["region"].as_str().unwrap(), region), (tags.keys().next().unwrap(), tag)] {
            let template: hcl_edit::template::Template = text.parse().unwrap();
            let literal: Option<String> = template.iter().map(|e| e.as_literal().map(|t| t.value().clone())).collect();
            prop_assert_eq!(literal, Some(meant));
        }
    }

    #[test]
    fn no_inline_text_makes_rendering_panic(text in any::<String>(), key in any::<String>(), value in any::<String>()) {
        let mut request = inline(&text);
        request.vars = vec![var(&key, &value)];
        let _ = render(&request);
    }
}
