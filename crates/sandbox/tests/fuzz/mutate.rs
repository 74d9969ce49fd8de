//! From a good object to a nearly good one, by the structure of JSON.

use serde_json::{Value, json};

/// Mutates by a sequence that a seed repeats.
pub(crate) struct Mutator {
    numbers: fastrand::Rng,
}

impl Mutator {
    pub(crate) fn new(seed: u64) -> Self {
        Self { numbers: fastrand::Rng::with_seed(seed) }
    }

    /// One time in `of`.
    pub(crate) fn chance(&mut self, of: usize) -> bool {
        self.numbers.usize(..of) == 0
    }

    pub(crate) fn choose<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.numbers.usize(..all.len())]
    }

    /// A few changes to one object; parts may come from the others.
    pub(crate) fn mutate(&mut self, object: &Value, others: &[Value]) -> Value {
        let mut object = object.clone();
        for _ in 0..=self.numbers.usize(..4) {
            let part = self.part(others);
            let place = self.place(&mut object);
            self.change(place, part);
        }
        object
    }

    /// Some value: an odd one, or a part of another object.
    fn part(&mut self, others: &[Value]) -> Value {
        match self.numbers.usize(..10) {
            0 => Value::Null,
            1 => json!([]),
            2 => json!({}),
            3 => json!(""),
            4 => json!(-1),
            5 => json!(u64::MAX),
            6 => json!("a".repeat(300)),
            7 => json!({"name": "app", "containerPort": 8080, "app": "cart", "team": "carts"}),
            _ => {
                let mut other = self.choose(others).clone();
                self.place(&mut other).take()
            }
        }
    }

    /// Some place in an object, deep ones as likely as others.
    fn place<'a>(&mut self, value: &'a mut Value) -> &'a mut Value {
        let count = match &*value {
            Value::Object(fields) => fields.len(),
            Value::Array(items) => items.len(),
            _ => 0,
        };
        if count == 0 || self.chance(6) {
            return value;
        }
        let at = self.numbers.usize(..count);
        let inside = match value {
            Value::Object(fields) => fields.values_mut().nth(at),
            Value::Array(items) => items.get_mut(at),
            _ => None,
        };
        match inside {
            Some(inside) => self.place(inside),
            None => panic!("counted before"),
        }
    }

    fn change(&mut self, place: &mut Value, part: Value) {
        let name =
            (*self.choose(&["name", "env", "labels", "spec", "ports", "sandbox.capt.x-k8s.io/fork", "app"]))
                .to_owned();
        match place {
            Value::Array(items) if !items.is_empty() => {
                let at = self.numbers.usize(..items.len());
                match self.numbers.usize(..4) {
                    0 => drop(items.remove(at)),
                    1 => items.insert(at, part),
                    2 => items.push(items[at].clone()),
                    _ => items[at] = part,
                }
            }
            Value::Object(fields) if self.chance(2) => drop(fields.insert(name, part)),
            Value::Object(fields) if !fields.is_empty() => {
                let at = self.numbers.usize(..fields.len());
                let key = fields.keys().nth(at).cloned().unwrap_or_default();
                fields.remove(&key);
            }
            other => *other = part,
        }
    }
}
