//! Version 2 in protobuf.
use serde_json::Value;

pub fn document(_document: &Value) -> Vec<u8> {
    Vec::new()
}
