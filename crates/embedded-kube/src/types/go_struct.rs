//! Go structs as the table tells them: what JSON and protobuf see of each field.

use serde_json::Value;

use crate::shape::{ListKind, Patch};

/// One struct. Fields of inline structs are listed as its own, with number 0.
#[derive(Debug)]
pub struct GoStruct {
    /// `OpenAPI` name: `io.k8s.api.core.v1.PodSpec`.
    pub model: String,
    /// As Go's errors name the type: `v1.PodSpec`.
    pub go: String,
    /// As error contexts name the struct: `PodSpec`.
    pub name: &'static str,
    /// One owner for the whole.
    pub atomic: bool,
    /// In Go's order, which is the order of the real server's JSON.
    pub fields: Vec<GoField>,
    /// Messages whose fields are this struct's own: protobuf number and struct.
    pub inline: Vec<(u32, usize)>,
}

impl GoStruct {
    /// A field by its JSON name.
    pub fn field(&self, name: &str) -> Option<&GoField> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// One field.
#[derive(Debug, Clone)]
pub struct GoField {
    /// JSON name.
    pub name: &'static str,
    /// Protobuf number; 0 where there is none.
    pub number: u32,
    /// Type.
    pub kind: GoType,
    /// Left out of JSON when empty.
    pub omit_empty: bool,
    /// Left out of JSON when zero.
    pub omit_zero: bool,
    /// `required` of the schema.
    pub required: bool,
    /// `default` of the schema.
    pub default: Option<Value>,
    /// Strategic merge.
    pub patch: Patch,
    /// The inline structs that it comes from, outermost first.
    pub within: Vec<&'static str>,
    /// Name of the Go type, where a list or map has one of its own.
    pub alias: &'static str,
}

/// A type, as much of it as decoding must know.
#[derive(Debug, Clone)]
pub enum GoType {
    /// Text; with the name of the Go type where it is not plain `string`, and its values if it is an enum.
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
    /// Types that write themselves.
    Own(OwnJson),
    /// A slice.
    List {
        /// Items.
        items: Box<Self>,
        /// Merge of the list.
        kind: ListKind,
        /// Whether the schema names the list type.
        explicit: bool,
        /// A message of its own in protobuf.
        wrapped: bool,
    },
    /// A map with text keys.
    Map {
        /// Values.
        values: Box<Self>,
        /// One owner for the whole.
        atomic: bool,
    },
    /// May be absent.
    Pointer(Box<Self>),
    /// A struct of the table.
    Struct(usize),
}

/// Types that write themselves to JSON in their own way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnJson {
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

impl OwnJson {
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

    /// As Go's errors name the type.
    pub fn go(self) -> &'static str {
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
