//! The type table: parsed once, a few hundred structs. Its header documents the format.
//!
//! A malformed line is skipped instead of causing a panic; the tests fail then.

use std::{
    collections::{BTreeMap, HashMap},
    sync::OnceLock,
};

use super::go_struct::{CustomJson, GoField, GoStruct, GoType};
use crate::shape::{Field, List, ListKind, Map, NamedType, Node, PatchStrategy, Scalar, Shape, Struct};

const TABLE_TEXT: &str = include_str!("table.txt");

static CELLS: OnceLock<Vec<OnceLock<NamedType>>> = OnceLock::new();
static TABLE: OnceLock<TypeTable> = OnceLock::new();

/// All built-in types.
pub struct TypeTable {
    /// In table order.
    pub structs: Vec<GoStruct>,
    by_model: HashMap<String, usize>,
    /// Group and version to the prefix of `OpenAPI` names.
    served: HashMap<&'static str, &'static str>,
    cells: &'static [OnceLock<NamedType>],
}

/// The table, parsed on first use.
pub fn type_table() -> &'static TypeTable {
    TABLE.get_or_init(TypeTable::parse)
}

impl TypeTable {
    fn parse() -> Self {
        let mut reader = TableParser::default();
        for line in TABLE_TEXT.lines() {
            reader.declare(line);
        }
        let mut structs: Vec<GoStruct> = Vec::with_capacity(reader.numbers.len());
        for line in TABLE_TEXT.lines() {
            reader.define(line, &mut structs);
        }
        flatten(&mut structs);
        let cells = CELLS.get_or_init(|| structs.iter().map(|_| OnceLock::new()).collect()).as_slice();
        let by_model = structs.iter().enumerate().map(|(index, one)| (one.model.clone(), index)).collect();
        let served = reader
            .served
            .iter()
            .filter_map(|(served, alias)| Some((*served, reader.packages.get(alias)?.0)))
            .collect();
        let table = Self { structs, by_model, served, cells };
        for (one, cell) in table.structs.iter().zip(cells) {
            cell.get_or_init(|| NamedType { name: one.model.clone(), node: table.struct_node(one) });
        }
        table
    }

    pub fn index_of(&self, model: &str) -> Option<usize> {
        self.by_model.get(model).copied()
    }

    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<usize> {
        let prefix = self.served.get(format!("{group}/{version}").as_str());
        let own = prefix.and_then(|prefix| self.index_of(&format!("{prefix}.{kind}")));
        own.or_else(|| {
            let common = matches!(
                kind,
                "DeleteOptions"
                    | "CreateOptions"
                    | "UpdateOptions"
                    | "PatchOptions"
                    | "WatchEvent"
                    | "Status"
            );
            let prefix = self.served.get("meta.k8s.io/v1").filter(|_| common)?;
            self.index_of(&format!("{prefix}.{kind}"))
        })
    }

    pub fn shape(&self, index: usize) -> Shape {
        self.cells.get(index).map_or_else(|| Shape::owned(Node::Any), Shape::Shared)
    }

    fn struct_node(&self, one: &GoStruct) -> Node {
        let fields = one.fields.iter().map(|field| (field.name.to_owned(), self.field(field))).collect();
        Node::Struct(Struct { fields, atomic: one.atomic, ..Struct::default() })
    }

    fn field(&self, field: &GoField) -> Field {
        Field {
            number: field.number,
            required: field.required,
            default: field.default.clone(),
            patch: field.patch.clone(),
            ..Field::new(self.shape_of(&field.kind))
        }
    }

    fn shape_of(&self, kind: &GoType) -> Shape {
        let scalar = match kind {
            GoType::Struct(index) => return self.shape(*index),
            GoType::Pointer(inner) => return self.shape_of(inner),
            GoType::List { items, kind, .. } => {
                let list = List { items: self.shape_of(items), kind: kind.clone() };
                return Shape::owned(Node::List(list));
            }
            GoType::Map { values, atomic } => {
                let map = Map { values: self.shape_of(values), atomic: *atomic };
                return Shape::owned(Node::Map(map));
            }
            GoType::String(..) => Scalar::String,
            GoType::Bool => Scalar::Boolean,
            GoType::Int32 | GoType::Int64 => Scalar::Integer,
            GoType::Float => Scalar::Number,
            GoType::Bytes => Scalar::Bytes,
            GoType::CustomJson(CustomJson::Time) => Scalar::Time,
            GoType::CustomJson(CustomJson::MicroTime) => Scalar::MicroTime,
            GoType::CustomJson(CustomJson::Duration) => Scalar::Duration,
            GoType::CustomJson(CustomJson::IntOrString) => Scalar::IntOrString,
            GoType::CustomJson(CustomJson::Quantity) => Scalar::Quantity,
            GoType::CustomJson(_) => return Shape::owned(Node::Any),
        };
        Shape::owned(Node::Scalar(scalar))
    }
}

/// Expands inline structs, which may be nested.
fn flatten(structs: &mut [GoStruct]) {
    const DEEPEST: usize = 4;
    for _ in 0..DEEPEST {
        for index in 0..structs.len() {
            let missing = inline_fields(structs, index);
            if let Some(one) = structs.get_mut(index) {
                one.fields.extend(missing);
            }
        }
    }
}

fn inline_fields(structs: &[GoStruct], index: usize) -> Vec<GoField> {
    let Some(one) = structs.get(index) else { return Vec::new() };
    let mut missing = Vec::new();
    for inner in one.inline.iter().filter_map(|(_, inner)| structs.get(*inner)) {
        for field in inner.fields.iter().filter(|field| one.field(field.name).is_none()) {
            let within = [inner.name].into_iter().chain(field.within.iter().copied()).collect();
            missing.push(GoField { number: 0, within, ..field.clone() });
        }
    }
    missing
}

#[derive(Default)]
struct TableParser {
    /// Alias to `OpenAPI` prefix and Go package.
    packages: HashMap<&'static str, (&'static str, &'static str)>,
    served: Vec<(&'static str, &'static str)>,
    enums: BTreeMap<&'static str, &'static [&'static str]>,
    numbers: HashMap<&'static str, usize>,
}

impl TableParser {
    /// First pass: declarations.
    fn declare(&mut self, line: &'static str) {
        let mut words = line.split(' ');
        match (words.next(), words.next()) {
            (Some("package"), Some(alias)) => {
                self.packages
                    .insert(alias, (words.next().unwrap_or_default(), words.next().unwrap_or_default()));
            }
            (Some("serves"), Some(served)) => self.served.push((served, words.next().unwrap_or_default())),
            (Some("enum"), Some(name)) => {
                let values: Vec<&str> = words.map(|value| if value == "\"\"" { "" } else { value }).collect();
                // The table lives as long as the process, and so do its strings.
                self.enums.insert(name, Vec::leak(values));
            }
            (Some("type"), Some(name)) => {
                self.numbers.insert(name, self.numbers.len());
            }
            _ => {}
        }
    }

    /// Second pass: structs and their fields.
    fn define(&self, line: &'static str, structs: &mut Vec<GoStruct>) {
        if let Some(name) = line.strip_prefix("type ") {
            let (name, atomic) = name.strip_suffix(" atomic").map_or((name, false), |name| (name, true));
            let (alias, short) = name.split_once('.').unwrap_or_default();
            let (prefix, package) = self.packages.get(alias).copied().unwrap_or_default();
            structs.push(GoStruct {
                model: format!("{prefix}.{short}"),
                go_type_name: format!("{package}.{short}"),
                name: short,
                atomic,
                fields: Vec::new(),
                inline: Vec::new(),
            });
        } else if let (Some(field), Some(last)) = (line.strip_prefix(' '), structs.last_mut()) {
            match field.strip_prefix('+') {
                Some(inline) => last.inline.extend(self.inline(inline)),
                None => last.fields.extend(self.field(field)),
            }
        }
    }

    fn inline(&self, text: &'static str) -> Option<(u32, usize)> {
        let (number, name) = text.split_once(' ')?;
        Some((number.parse().ok()?, *self.numbers.get(name)?))
    }

    fn field(&self, text: &'static str) -> Option<GoField> {
        let mut words = text.split(' ');
        let (name, number, kind, flags) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let mut field = GoField {
            name,
            number: number.parse().ok()?,
            kind: self.kind(kind)?,
            omit_empty: flags.contains('o'),
            omit_zero: flags.contains('z'),
            required: flags.contains('r'),
            default: None,
            patch: PatchStrategy::default(),
            within: Vec::new(),
            alias: "",
        };
        for (key, value) in words.filter_map(|word| word.split_once('=')) {
            match key {
                "m" => value.clone_into(&mut field.patch.key),
                "p" => {
                    field.patch.merge = value.split(',').any(|one| one == "merge");
                    field.patch.retain_keys = value.split(',').any(|one| one == "retainKeys");
                }
                "v" => field.default = serde_json::from_str(value).ok(),
                "g" => field.alias = value,
                _ => {}
            }
        }
        if flags.contains('d') {
            field.default = Some(super::normalise::zero_default(&field.kind));
        }
        Some(field)
    }

    fn kind(&self, text: &'static str) -> Option<GoType> {
        if let Some(inner) = text.strip_prefix('*') {
            return Some(GoType::Pointer(Box::new(self.kind(inner)?)));
        }
        if let Some((how, items)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            let (how, wrapped) = how.strip_suffix('w').map_or((how, false), |how| (how, true));
            let kind = match how.strip_prefix("map:") {
                Some(keys) => ListKind::Map(keys.split(',').map(str::to_owned).collect()),
                None if how == "set" => ListKind::Set,
                None => ListKind::Atomic,
            };
            let items = Box::new(self.kind(items)?);
            return Some(GoType::List { items, kind, explicit: !how.is_empty(), wrapped });
        }
        if let Some((how, values)) = text.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
            return Some(GoType::Map { values: Box::new(self.kind(values)?), atomic: how == "atomic" });
        }
        self.plain(text)
    }

    fn plain(&self, text: &'static str) -> Option<GoType> {
        if let Some(name) = text.strip_prefix("s(").and_then(|rest| rest.strip_suffix(')')) {
            let values = self.enums.get(name).copied().unwrap_or_default();
            return Some(GoType::String(self.go_name(name), values));
        }
        Some(match text {
            "s" => GoType::String("string".to_owned(), &[]),
            "b" => GoType::Bool,
            "i" => GoType::Int32,
            "l" => GoType::Int64,
            "f" => GoType::Float,
            "y" => GoType::Bytes,
            "time" => GoType::CustomJson(CustomJson::Time),
            "micro" => GoType::CustomJson(CustomJson::MicroTime),
            "duration" => GoType::CustomJson(CustomJson::Duration),
            "ios" => GoType::CustomJson(CustomJson::IntOrString),
            "quantity" => GoType::CustomJson(CustomJson::Quantity),
            "raw" => GoType::CustomJson(CustomJson::Raw),
            "fields" => GoType::CustomJson(CustomJson::Fields),
            "json" => GoType::CustomJson(CustomJson::Json),
            "either:Array" => GoType::CustomJson(CustomJson::OrArray),
            "either:Bool" => GoType::CustomJson(CustomJson::OrBool),
            "either:StringArray" => GoType::CustomJson(CustomJson::OrStringArray),
            name => GoType::Struct(*self.numbers.get(name)?),
        })
    }

    /// `core.PullPolicy` → `v1.PullPolicy`; packages without an alias already have their Go name.
    fn go_name(&self, name: &str) -> String {
        match name.split_once('.') {
            Some((alias, short)) => match self.packages.get(alias) {
                Some((_, package)) => format!("{package}.{short}"),
                None => name.to_owned(),
            },
            None => name.to_owned(),
        }
    }
}
