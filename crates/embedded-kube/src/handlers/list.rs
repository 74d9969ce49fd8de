//! Many objects: selectors, pages, and which moment is shown.

use super::{Server, prefix, token::Token, viewer};
use crate::{
    failure::{Answer, Cause, Details, Failure, FieldError},
    object::Document,
    registry::Resource,
    request::{List, Options, Reply, Request},
    selectors::{FieldSelector, LabelSelector},
    store::{Entry, Expired, Mark, Page, Snapshot, Store},
};

/// How many stored objects are looked at in one step when a selector drops most of them.
const STEP: usize = 500;
/// A token with this revision goes on in whatever is newest.
const NEWEST: i64 = -1;

/// Label and field selector of a list, a watch or a collection.
pub struct Filter {
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Filter {
    pub fn read(options: &Options, resource: &Resource) -> Answer<Self> {
        let labels = LabelSelector::parse(&options.label_selector)?;
        let fields = FieldSelector::parse(&options.field_selector, resource)?;
        Ok(Self { labels, fields })
    }

    pub fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub fn matches(&self, document: &Document) -> bool {
        self.labels.matches(document.marks().labels()) && self.fields.matches_document(document)
    }

    /// The only name that is meant, if it says so.
    pub fn name(&self) -> Option<&str> {
        self.fields.name()
    }

    /// What is meant of a prefix, as it is now.
    pub fn find(&self, store: &Store, prefix: &str) -> Snapshot {
        let marks = self.labels.labels().map(|(key, value)| Mark::Label(key, value)).collect();
        let mut found = store.find(prefix, &[marks], |marks| {
            self.labels.matches(marks.labels()) && self.fields.may_match(marks)
        });
        // Nobody else waits while the rest is parsed.
        found.entries.retain(|(_, entry)| self.fields.matches_document(&entry.document));
        found
    }
}

/// The moment a list shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    Newest,
    At(u64),
}

impl Server {
    pub(super) fn list(&self, request: &Request) -> Answer<Reply> {
        let filter = Filter::read(&request.options, &request.resource)?;
        self.page(request, &filter).map(Reply::List)
    }

    /// One page, with the stored keys left out.
    fn page(&self, request: &Request, filter: &Filter) -> Answer<List> {
        check(&request.options)?;
        let prefix = prefix(&request.resource, &request.namespace);
        // Any revision will do, so the real server answers from its cache, and that one knows no pages.
        let pages = request.options.resource_version != "0";
        let limit = request.options.limit.filter(|limit| *limit > 0 && pages);
        let limit = limit.and_then(|limit| usize::try_from(limit).ok());
        let (moment, after) = start(&request.options, &prefix, self.store.revision())?;
        let at = match moment {
            Moment::Newest => None,
            Moment::At(revision) => Some(revision),
        };
        let walk = Walk { store: &self.store, prefix: &prefix, at, after, filter, limit };
        let found = walk.run().map_err(|_| expired(&request.options, &prefix))?;
        let viewer = viewer(&request.resource);
        let continue_token = match found.entries.last() {
            Some((key, _)) if found.more => {
                Token::after(key, &prefix, i64::try_from(found.revision).unwrap_or(i64::MAX)).encode()
            }
            _ => String::new(),
        };
        Ok(List {
            resource_version: found.revision.to_string(),
            continue_token,
            remaining: found.remaining,
            items: found.entries.iter().map(|(_, entry)| viewer.show(entry)).collect(),
        })
    }
}

struct Walk<'a> {
    store: &'a Store,
    prefix: &'a str,
    at: Option<u64>,
    after: Option<String>,
    filter: &'a Filter,
    limit: Option<usize>,
}

struct Found {
    revision: u64,
    entries: Vec<(std::sync::Arc<str>, Entry)>,
    more: bool,
    remaining: Option<u64>,
}

impl Walk<'_> {
    fn run(mut self) -> Result<Found, Expired> {
        if self.filter.is_everything() {
            let page = Page { after: self.after.take(), limit: self.limit, at: self.at };
            let shot = self.store.list(self.prefix, &page)?;
            let remaining = shot.more.then_some(shot.remaining);
            return Ok(Found { revision: shot.revision, entries: shot.entries, more: shot.more, remaining });
        }
        if self.at.is_none() && self.after.is_none() {
            return Ok(self.run_newest());
        }
        self.run_filtered()
    }

    fn run_newest(self) -> Found {
        let Snapshot { revision, mut entries, .. } = self.filter.find(self.store, self.prefix);
        let more = self.limit.is_some_and(|limit| entries.len() > limit);
        entries.truncate(self.limit.unwrap_or(usize::MAX));
        Found { revision, entries, more, remaining: None }
    }

    /// With a selector nobody knows how many are left, so nothing is said about it.
    fn run_filtered(mut self) -> Result<Found, Expired> {
        let mut found = Vec::new();
        loop {
            let step = self.limit.map(|_| STEP);
            let page = Page { after: self.after.take(), limit: step, at: self.at };
            let shot = self.store.list(self.prefix, &page)?;
            self.at = Some(shot.revision);
            let last = shot.entries.last().map(|(key, _)| key.to_string());
            for (key, entry) in shot.entries {
                if !self.filter.matches(&entry.document) {
                    continue;
                }
                if self.limit.is_some_and(|limit| found.len() >= limit) {
                    return Ok(Found {
                        revision: shot.revision,
                        entries: found,
                        more: true,
                        remaining: None,
                    });
                }
                found.push((key, entry));
            }
            if !shot.more {
                return Ok(Found { revision: shot.revision, entries: found, more: false, remaining: None });
            }
            self.after = last;
        }
    }
}

fn start(options: &Options, prefix: &str, newest: u64) -> Answer<(Moment, Option<String>)> {
    if !options.continue_token.is_empty() {
        if !matches!(options.resource_version.as_str(), "" | "0") {
            return Err(Failure::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let token = Token::decode(&options.continue_token)?;
        let moment = u64::try_from(token.revision).map_or(Moment::Newest, Moment::At);
        return Ok((moment, Some(token.key(prefix))));
    }
    let wanted = number(&options.resource_version)
        .map_err(|why| Failure::bad_request(format!("invalid resource version: {why}")))?;
    not_before(wanted, newest)?;
    let exact = match options.resource_version_match.as_str() {
        "Exact" => true,
        // The older form: a page of one exact revision.
        "" => options.limit.is_some_and(|limit| limit > 0) && wanted > 0,
        _ => false,
    };
    Ok((if exact { Moment::At(wanted) } else { Moment::Newest }, None))
}

fn check(options: &Options) -> Answer<()> {
    let field = "resourceVersionMatch";
    let mut errors = Vec::new();
    let wanted = options.resource_version_match.as_str();
    if !wanted.is_empty() {
        if options.resource_version.is_empty() {
            let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            errors.push(FieldError::forbidden(field, why));
        }
        if !options.continue_token.is_empty() {
            errors.push(FieldError::forbidden(
                field,
                "resourceVersionMatch is forbidden when continue is provided",
            ));
        }
        if !matches!(wanted, "Exact" | "NotOlderThan") {
            errors.push(FieldError::not_supported(field, wanted, &["Exact", "NotOlderThan", ""]));
        }
        if wanted == "Exact" && options.resource_version == "0" {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            errors.push(FieldError::forbidden(field, why));
        }
    }
    if options.send_initial_events.is_some() {
        errors.push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    super::options::refuse("ListOptions", &errors)
}

/// A revision that has not happened yet is refused.
pub fn not_before(wanted: u64, newest: u64) -> Answer<()> {
    if wanted <= newest {
        return Ok(());
    }
    let cause = Cause {
        reason: "ResourceVersionTooLarge".to_owned(),
        message: "Too large resource version".to_owned(),
        field: String::new(),
    };
    let details = Details { causes: vec![cause], retry_after_seconds: 1, ..Details::default() };
    let message = format!("Timeout: Too large resource version: {wanted}, current: {newest}");
    Err(Failure::new(504, "Timeout", message, Some(details)))
}

/// A revision as a number; nothing is 0. A list calls it the client's fault, everything else the server's own.
pub fn number(text: &str) -> Answer<u64> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| {
        let given = crate::failure::quoted(text);
        let why = format!(
            "resourceVersion: Invalid value: {given}: strconv.ParseUint: parsing {given}: invalid syntax"
        );
        Failure::new(500, "", why, None)
    })
}

fn expired(options: &Options, prefix: &str) -> Failure {
    if options.continue_token.is_empty() {
        return Failure::expired("The resourceVersion for the provided list is too old.");
    }
    let failure = Failure::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without \
         the continue parameter, or use the continue token in this response to retrieve the remainder of the results. \
         Continuing with the provided token results in an inconsistent list - objects that were created, modified, or \
         deleted between the time the first chunk was returned and now may show up in the list.",
    );
    match Token::decode(&options.continue_token) {
        Ok(token) => failure.or_continue(Token::after(&token.key(prefix), prefix, NEWEST).encode()),
        Err(_) => failure,
    }
}
