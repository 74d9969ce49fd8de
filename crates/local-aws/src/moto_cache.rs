//! Answers of moto that still hold.
//!
//! Moto takes about ten milliseconds of one processor for each question, and whoever looks after a cloud asks the same ones
//! again and again. An answer is kept until somebody changes something: everything that is not surely a read makes all
//! answers old, when it begins and when it is done.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use hyper::{
    Response, StatusCode,
    body::Bytes,
    http::{HeaderMap, response::Parts},
};

use crate::wire::{Body, full};

/// More are not kept; whoever asks so many different questions is not helped by it.
const MOST: usize = 20_000;
/// The services whose answers depend on nothing but what was done in them. The time is in none of them.
const TIMELESS: [&str; 2] = ["ec2", "iam"];

/// A call, as far as it matters here.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Question<'a> {
    pub(crate) service: &'a str,
    pub(crate) region: &'a str,
    /// Accounts hang on it.
    pub(crate) access_key: &'a str,
    pub(crate) operation: &'a str,
    /// The whole question, if it is a form.
    pub(crate) form: Option<&'a Bytes>,
}

impl Question<'_> {
    fn is_read(&self) -> bool {
        ["Describe", "Get", "List", "GET ", "HEAD "].iter().any(|it| self.operation.starts_with(it))
    }

    fn key(&self) -> Option<Key> {
        let form = self.form.filter(|_| self.is_read() && TIMELESS.contains(&self.service))?;
        let text = |it: &str| it.to_owned();
        Some((text(self.service), text(self.region), text(self.access_key), form.clone()))
    }
}

type Key = (String, String, String, Bytes);

#[derive(Debug, Clone)]
struct Kept {
    headers: HeaderMap,
    body: Bytes,
}

#[derive(Debug, Default)]
struct State {
    /// Counts beginnings and ends of changes.
    changes: u64,
    changing: usize,
    kept: HashMap<Key, Kept>,
}

/// Answers that still hold.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    state: Mutex<State>,
}

/// What comes of a question.
pub(crate) enum Look<'a> {
    /// The answer is known.
    Known(Response<Body>),
    /// Moto has to be asked; the answer may be kept.
    Ask(Place),
    /// Moto has to be asked, and while this lives no answer holds.
    Change(Changing<'a>),
    /// Moto has to be asked.
    Pass,
}

/// Where an answer belongs, if nothing has changed by then.
pub(crate) struct Place {
    key: Key,
    changes: u64,
}

/// A change that is under way.
pub(crate) struct Changing<'a>(&'a Answers);

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.changing -= 1;
        state.forget();
    }
}

impl State {
    fn forget(&mut self) {
        self.changes += 1;
        self.kept.clear();
    }
}

impl Answers {
    pub(crate) fn look(&self, question: &Question<'_>) -> Look<'_> {
        let mut state = self.lock();
        if !question.is_read() {
            state.changing += 1;
            state.forget();
            return Look::Change(Changing(self));
        }
        let Some(key) = question.key() else { return Look::Pass };
        match state.kept.get(&key) {
            Some(Kept { headers, body }) => {
                let mut response = Response::new(full(body.clone()));
                headers.clone_into(response.headers_mut());
                Look::Known(response)
            }
            None => Look::Ask(Place { key, changes: state.changes }),
        }
    }

    /// Keeps an answer, unless something has changed since it was asked for.
    pub(crate) fn keep(&self, place: Place, head: &Parts, body: &Bytes) {
        let mut state = self.lock();
        let holds = state.changing == 0 && state.changes == place.changes;
        if holds && head.status == StatusCode::OK && state.kept.len() < MOST {
            state.kept.insert(place.key, Kept { headers: head.headers.clone(), body: body.clone() });
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question<'a>(operation: &'a str, form: &'a Bytes) -> Question<'a> {
        let form = Some(form);
        Question { service: "ec2", region: "eu-central-1", access_key: "a", operation, form }
    }

    fn answer(answers: &Answers, question: &Question<'_>) -> &'static str {
        match answers.look(question) {
            Look::Known(_) => "known",
            Look::Ask(place) => {
                let (head, ()) = Response::new(()).into_parts();
                answers.keep(place, &head, &Bytes::from_static(b"x"));
                "asked"
            }
            Look::Change(_) => "change",
            Look::Pass => "pass",
        }
    }

    #[test]
    fn an_answer_holds_until_something_changes() {
        let (answers, form) = (Answers::default(), Bytes::from_static(b"Action=DescribeVpcs"));
        let read = question("DescribeVpcs", &form);
        assert_eq!([answer(&answers, &read), answer(&answers, &read)], ["asked", "known"]);
        assert_eq!(answer(&answers, &question("CreateTags", &form)), "change");
        assert_eq!([answer(&answers, &read), answer(&answers, &read)], ["asked", "known"]);
    }

    #[test]
    fn whoever_asks_something_else_gets_no_answer_of_another() {
        let (answers, form, other) =
            (Answers::default(), Bytes::from_static(b"a=1"), Bytes::from_static(b"a=2"));
        let read = question("DescribeVpcs", &form);
        assert_eq!(answer(&answers, &read), "asked");
        assert_eq!(answer(&answers, &Question { access_key: "b", ..read }), "asked");
        assert_eq!(answer(&answers, &Question { region: "eu-west-1", ..read }), "asked");
        assert_eq!(answer(&answers, &question("DescribeVpcs", &other)), "asked");
        assert_eq!(
            answer(&answers, &Question { service: "sts", ..read }),
            "pass",
            "what may hang on the time"
        );
        assert_eq!(answer(&answers, &read), "known");
    }

    #[test]
    fn what_was_asked_before_a_change_or_during_one_is_not_kept() {
        let (answers, form) = (Answers::default(), Bytes::from_static(b"a=1"));
        let read = question("DescribeVpcs", &form);
        let (head, ()) = Response::new(()).into_parts();
        let Look::Ask(early) = answers.look(&read) else { panic!("is known") };
        let change = answers.look(&question("CreateVpc", &form));
        answers.keep(early, &head, &Bytes::new());
        assert_eq!([answer(&answers, &read), answer(&answers, &read)], ["asked", "asked"]);
        drop(change);
        assert_eq!([answer(&answers, &read), answer(&answers, &read)], ["asked", "known"]);
    }
}
