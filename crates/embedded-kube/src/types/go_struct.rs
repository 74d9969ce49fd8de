//! Go structs of the type table, as JSON and protobuf see them.

use serde_json::Value;

use crate::shape::{ListKind, PatchStrategy};

/// A struct. Fields of inline structs are included with number 0.
#[derive(Debug)]
pub struct GoStruct {
    /// `OpenAPI` name: `io.k8s.api.core.v1.PodSpec`.
    pub model: String,
    /// Type name in Go's errors: `v1.PodSpec`.
    pub go_type_name: String,
    /// Struct name in error contexts: `PodSpec`.
    pub name: &'static str,
    /// Has a single owner.
    pub atomic: bool,
    /// In Go's order, which is the order of kube-apiserver's JSON.
    pub fields: Vec<GoField>,
    /// Inline messages: protobuf number and struct.
    pub inline: Vec<(u32, usize)>,
}

impl GoStruct {
    /// A field by its JSON name.
    pub fn field(&self, name: &str) -> Option<&GoField> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// A field.
#[derive(Debug, Clone)]
pub struct GoField {
    /// JSON name.
    pub name: &'static str,
    /// Protobuf number; 0 where there is none.
    pub number: u32,
    /// Type.
    pub kind: GoType,
    /// Whether it is omitted from JSON when empty.
    pub omit_empty: bool,
    /// Whether it is omitted from JSON when zero.
    pub omit_zero: bool,
    /// `required` of the schema.
    pub required: bool,
    /// `default` of the schema.
    pub default: Option<Value>,
    /// Patch strategy of strategic merge.
    pub patch: PatchStrategy,
    /// The inline structs that it comes from, outermost first.
    pub within: Vec<&'static str>,
    /// Name of the Go type, if a list or map has a named type.
    pub alias: &'static str,
}

/// A Go type, as far as decoding needs it.
#[derive(Debug, Clone)]
pub enum GoType {
    /// A string; with the name of the Go type if it is not plain `string`, and its values if it is an enum.
    String(String, &'static [&'static str]),
    /// `bool`.
    Bool,
    /// `int32`.
    Int32,
    /// `int64`.
    Int64,
    /// `float64`.
    Float,
    /// `[]byte`.
    Bytes,
    /// A type with its own JSON encoding.
    CustomJson(CustomJson),
    /// A slice.
    List {
        /// Items.
        items: Box<Self>,
        /// List type for merges.
        kind: ListKind,
        /// Whether the schema states the list type.
        explicit: bool,
        /// Whether it is a message of its own in protobuf.
        wrapped: bool,
    },
    /// A map with string keys.
    Map {
        /// Values.
        values: Box<Self>,
        /// Has a single owner.
        atomic: bool,
    },
    /// A pointer; may be absent.
    Pointer(Box<Self>),
    /// A struct of the type table, by index.
    Struct(usize),
}

/// Types with their own JSON encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CustomJson {
    /// `metav1.Time`.
    Time,
    /// `metav1.MicroTime`.
    MicroTime,
    /// `metav1.Duration`.
    Duration,
    /// `intstr.IntOrString`.
    IntOrString,
    /// `resource.Quantity`.
    Quantity,
    /// `runtime.RawExtension`.
    Raw,
    /// `metav1.FieldsV1`.
    Fields,
    /// `apiextensions.JSON`.
    Json,
    /// `JSONSchemaPropsOrArray`.
    OrArray,
    /// `JSONSchemaPropsOrBool`.
    OrBool,
    /// `JSONSchemaPropsOrStringArray`.
    OrStringArray,
}

impl CustomJson {
    /// `OpenAPI` name.
    pub fn model(self) -> &'static str {
        match self {
            Self::Time => "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
            Self::MicroTime => "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime",
            Self::Duration => "io.k8s.apimachinery.pkg.apis.meta.v1.Duration",
            Self::IntOrString => "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
            Self::Quantity => "io.k8s.apimachinery.pkg.api.resource.Quantity",
            Self::Raw => "io.k8s.apimachinery.pkg.runtime.RawExtension",
            Self::Fields => "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
            Self::Json => "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
            Self::OrArray => {
                "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray"
            }
            Self::OrBool => "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool",
            Self::OrStringArray => {
                "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray"
            }
        }
    }

    /// Type name in Go's errors.
    pub fn go_type_name(self) -> &'static str {
        match self {
            Self::Time => "v1.Time",
            Self::MicroTime => "v1.MicroTime",
            Self::Duration => "v1.Duration",
            Self::IntOrString => "intstr.IntOrString",
            Self::Quantity => "resource.Quantity",
            Self::Raw => "runtime.RawExtension",
            Self::Fields => "v1.FieldsV1",
            Self::Json => "v1.JSON",
            Self::OrArray => "v1.JSONSchemaPropsOrArray",
            Self::OrBool => "v1.JSONSchemaPropsOrBool",
            Self::OrStringArray => "v1.JSONSchemaPropsOrStringArray",
        }
    }
}
