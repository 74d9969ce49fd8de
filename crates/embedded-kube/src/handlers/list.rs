//! List: selectors, pages and resourceVersion semantics.

use super::{RequestHandler, continue_token::ContinueToken, object_converter, storage_key_prefix};
use crate::{
    object::Document,
    registry::Resource,
    request::{ObjectList, Reply, Request, RequestOptions},
    selectors::{FieldSelector, LabelSelector},
    status_error::{ApiResult, FieldError, StatusCause, StatusDetails, StatusError},
    store::{Entry, Expired, IndexTerm, ListOptions, Snapshot, Store},
};

/// Number of stored objects scanned per step if a selector drops most of them.
const SCAN_BATCH: usize = 500;
/// A token with this revision continues at the newest state.
const NEWEST_REVISION: i64 = -1;

/// Label and field selector of a list, watch or delete collection.
pub struct SelectorFilter {
    labels: LabelSelector,
    fields: FieldSelector,
}

impl SelectorFilter {
    pub fn read(options: &RequestOptions, resource: &Resource) -> ApiResult<Self> {
        let labels = LabelSelector::parse(&options.label_selector)?;
        let fields = FieldSelector::parse(&options.field_selector, resource)?;
        Ok(Self { labels, fields })
    }

    pub fn matches_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub fn matches(&self, document: &Document) -> bool {
        self.labels.matches(document.indexed_meta().labels()) && self.fields.matches_document(document)
    }

    /// The only name that can match, if the selector requires one.
    pub fn name(&self) -> Option<&str> {
        self.fields.name()
    }

    /// Current matching objects under a prefix.
    pub fn find(&self, store: &Store, prefix: &str) -> Snapshot {
        let marks = self.labels.required_labels().map(|(key, value)| IndexTerm::Label(key, value)).collect();
        let mut found = store.find(prefix, &[marks], |marks| {
            self.labels.matches(marks.labels()) && self.fields.may_match(marks)
        });
        // The rest is parsed without holding the lock.
        found.entries.retain(|(_, entry)| self.fields.matches_document(&entry.document));
        found
    }
}

/// The revision that a list shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListRevision {
    Newest,
    Exact(u64),
}

impl RequestHandler {
    pub(super) fn list(&self, request: &Request) -> ApiResult<Reply> {
        let filter = SelectorFilter::read(&request.options, &request.resource)?;
        self.page(request, &filter).map(Reply::List)
    }

    /// One page, without the storage keys.
    fn page(&self, request: &Request, filter: &SelectorFilter) -> ApiResult<ObjectList> {
        check_list_options(&request.options)?;
        let prefix = storage_key_prefix(&request.resource, &request.namespace);
        // Any revision is acceptable, so kube-apiserver answers from its watch cache, which ignores limits.
        let pages = request.options.resource_version != "0";
        let limit = request.options.limit.filter(|limit| *limit > 0 && pages);
        let limit = limit.and_then(|limit| usize::try_from(limit).ok());
        let (moment, after) = start_position(&request.options, &prefix, self.store.revision())?;
        let at = match moment {
            ListRevision::Newest => None,
            ListRevision::Exact(revision) => Some(revision),
        };
        let walk = ListScan { store: &self.store, prefix: &prefix, at, after, filter, limit };
        let found = walk.run().map_err(|_| expired_error(&request.options, &prefix))?;
        let viewer = object_converter(&request.resource);
        let continue_token = match found.entries.last() {
            Some((key, _)) if found.has_more => {
                ContinueToken::new(key, &prefix, i64::try_from(found.revision).unwrap_or(i64::MAX)).encode()
            }
            _ => String::new(),
        };
        Ok(ObjectList {
            resource_version: found.revision.to_string(),
            continue_token,
            remaining_items: found.remaining,
            items: found.entries.iter().map(|(_, entry)| viewer.convert_entry(entry)).collect(),
        })
    }
}

struct ListScan<'a> {
    store: &'a Store,
    prefix: &'a str,
    at: Option<u64>,
    after: Option<String>,
    filter: &'a SelectorFilter,
    limit: Option<usize>,
}

struct ListPage {
    revision: u64,
    entries: Vec<(std::sync::Arc<str>, Entry)>,
    has_more: bool,
    remaining: Option<u64>,
}

impl ListScan<'_> {
    fn run(mut self) -> Result<ListPage, Expired> {
        if self.filter.matches_everything() {
            let page = ListOptions { after: self.after.take(), limit: self.limit, revision: self.at };
            let shot = self.store.list(self.prefix, &page)?;
            let remaining = shot.has_more.then_some(shot.remaining);
            return Ok(ListPage {
                revision: shot.revision,
                entries: shot.entries,
                has_more: shot.has_more,
                remaining,
            });
        }
        if self.at.is_none() && self.after.is_none() {
            return Ok(self.run_newest());
        }
        self.run_filtered()
    }

    fn run_newest(self) -> ListPage {
        let Snapshot { revision, mut entries, .. } = self.filter.find(self.store, self.prefix);
        let more = self.limit.is_some_and(|limit| entries.len() > limit);
        entries.truncate(self.limit.unwrap_or(usize::MAX));
        ListPage { revision, entries, has_more: more, remaining: None }
    }

    /// With a selector the number of remaining objects is unknown and omitted.
    fn run_filtered(mut self) -> Result<ListPage, Expired> {
        let mut found = Vec::new();
        loop {
            let step = self.limit.map(|_| SCAN_BATCH);
            let page = ListOptions { after: self.after.take(), limit: step, revision: self.at };
            let shot = self.store.list(self.prefix, &page)?;
            self.at = Some(shot.revision);
            let last = shot.entries.last().map(|(key, _)| key.to_string());
            for (key, entry) in shot.entries {
                if !self.filter.matches(&entry.document) {
                    continue;
                }
                if self.limit.is_some_and(|limit| found.len() >= limit) {
                    return Ok(ListPage {
                        revision: shot.revision,
                        entries: found,
                        has_more: true,
                        remaining: None,
                    });
                }
                found.push((key, entry));
            }
            if !shot.has_more {
                return Ok(ListPage {
                    revision: shot.revision,
                    entries: found,
                    has_more: false,
                    remaining: None,
                });
            }
            self.after = last;
        }
    }
}

fn start_position(
    options: &RequestOptions,
    prefix: &str,
    newest: u64,
) -> ApiResult<(ListRevision, Option<String>)> {
    if !options.continue_token.is_empty() {
        if !matches!(options.resource_version.as_str(), "" | "0") {
            return Err(StatusError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let token = ContinueToken::decode(&options.continue_token)?;
        let moment = u64::try_from(token.revision).map_or(ListRevision::Newest, ListRevision::Exact);
        return Ok((moment, Some(token.key(prefix))));
    }
    let wanted = parse_resource_version(&options.resource_version)
        .map_err(|why| StatusError::bad_request(format!("invalid resource version: {why}")))?;
    check_revision_reached(wanted, newest)?;
    let exact = match options.resource_version_match.as_str() {
        "Exact" => true,
        // The legacy form: a page of an exact revision.
        "" => options.limit.is_some_and(|limit| limit > 0) && wanted > 0,
        _ => false,
    };
    Ok((if exact { ListRevision::Exact(wanted) } else { ListRevision::Newest }, None))
}

fn check_list_options(options: &RequestOptions) -> ApiResult<()> {
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
    super::write_options::reject_invalid("ListOptions", &errors)
}

/// Rejects a revision in the future.
pub fn check_revision_reached(wanted: u64, newest: u64) -> ApiResult<()> {
    if wanted <= newest {
        return Ok(());
    }
    let cause = StatusCause {
        reason: "ResourceVersionTooLarge".to_owned(),
        message: "Too large resource version".to_owned(),
        field: String::new(),
    };
    let details = StatusDetails { causes: vec![cause], retry_after_seconds: 1, ..StatusDetails::default() };
    let message = format!("Timeout: Too large resource version: {wanted}, current: {newest}");
    Err(StatusError::new(504, "Timeout", message, Some(details)))
}

/// Parses a revision; empty is 0. Only lists report an invalid one as a client error.
pub fn parse_resource_version(text: &str) -> ApiResult<u64> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| {
        let given = crate::status_error::go_quote(text);
        let why = format!(
            "resourceVersion: Invalid value: {given}: strconv.ParseUint: parsing {given}: invalid syntax"
        );
        StatusError::new(500, "", why, None)
    })
}

fn expired_error(options: &RequestOptions, prefix: &str) -> StatusError {
    if options.continue_token.is_empty() {
        return StatusError::expired("The resourceVersion for the provided list is too old.");
    }
    let failure = StatusError::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without \
         the continue parameter, or use the continue token in this response to retrieve the remainder of the results. \
         Continuing with the provided token results in an inconsistent list - objects that were created, modified, or \
         deleted between the time the first chunk was returned and now may show up in the list.",
    );
    match ContinueToken::decode(&options.continue_token) {
        Ok(token) => failure
            .with_continue_token(ContinueToken::new(&token.key(prefix), prefix, NEWEST_REVISION).encode()),
        Err(_) => failure,
    }
}
