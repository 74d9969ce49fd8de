//! Objects as JSON values: names, metadata, documents.

mod document;
mod marks;
mod meta;
mod names;
mod value;

pub use self::{
    document::{Document, Draft},
    marks::{Manager, Marks},
    meta::{Meta, MetaMut, at, at_mut, text},
    names::{
        dns1035_label, dns1123_label, dns1123_subdomain, label_key, label_value, path_segment, qualified_name,
    },
    value::{depth, type_name},
};
