//! Untyped objects: names, metadata, serialized documents.

mod document;
mod indexed_meta;
mod meta;
mod name_validation;
mod value;

pub use self::{
    document::{Document, Draft},
    indexed_meta::{ControllerRef, IndexedMeta},
    meta::{MetaAccessor, MetaAccessorMut, get_path, get_path_mut, str_at},
    name_validation::{
        dns1035_label, dns1123_label, dns1123_subdomain, label_key, label_value, path_segment, qualified_name,
    },
    value::{depth, type_name},
};
